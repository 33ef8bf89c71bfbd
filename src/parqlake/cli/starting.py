"""Commands to begin with: init, demo, ui."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from parqlake.cli.commanding import command
from parqlake.cli.demonstrating import MARKER, build, clear, what_to_try
from parqlake.cli.exits import UsageError
from parqlake.cli.finding import CATALOG_VARIABLE, CONFIG, LAKE_VARIABLE, LakeAddress, find_config, here
from parqlake.cli.parameters import Yes
from parqlake.cli.report import Listing, columns, record
from parqlake.cli.session import Session

PANEL = "Begin"


def register(app: typer.Typer) -> None:
    """Adds the commands to the app."""
    for name, function in (("init", init), ("demo", demo), ("ui", ui)):
        command(app, name, panel=PANEL)(function)


def init(
    session: Session,
    root: Annotated[
        str | None, typer.Argument(metavar="[ROOT]", help="A folder or a URL; else the lake that is named.")
    ] = None,
    no_config: Annotated[bool, typer.Option("--no-config", help=f"Write no {CONFIG}.")] = False,
) -> None:
    """Make a lake, and a parqlake.toml in this folder that names it, so that later commands find it."""
    if root is not None and session.shared.lake is not None:
        from parqlake.catalogs.open import safe_url

        both = f"{safe_url(root)} and --lake {safe_url(session.shared.lake)}"
        raise UsageError(f"the lake is named twice: {both}; give one of them")
    named = root or session.shared.lake
    address = LakeAddress(named, session.shared.catalog, "init") if named else session.address
    lake = session.connect(address, create=True)
    written = None
    if not no_config and named is not None and find_config(here()) is None:
        written = str(_write_config(address))
    session.out.report([record(lake=lake.url, catalog=lake.catalog_url, tables=len(lake.tables()), config=written)])


def _write_config(address: LakeAddress) -> Path:
    """Names the lake for later commands; an address with a password in it is left to the environment."""
    from parqlake.catalogs.open import safe_url

    named = {"lake": (address.root, LAKE_VARIABLE), "catalog": (address.catalog, CATALOG_VARIABLE)}
    lines = []
    for key, (value, variable) in named.items():
        if value is not None:
            said = value if safe_url(value) == value else f"${{{variable}}}"
            lines.append(f"{key} = {json.dumps(said, ensure_ascii=False)}")
    path = here() / CONFIG
    with path.open("x", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path


def demo(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where to build it.")] = Path("parqlake-demo"),
    yes: Yes = False,
) -> None:
    """Build a small lake with some history to look around in; seconds, and no Java."""
    if folder.exists():
        if not (folder / MARKER).is_file():
            raise UsageError(f"{folder} is there already and is no demo; name another: parqlake demo FOLDER")
        session.confirm([record(folder=str(folder))], f"Replace the demo in {folder}?", yes=yes)
        clear(folder)
    address = LakeAddress(os.fspath(folder), None, "demo")
    lake = build(folder, lambda: session.connect(replace(address), create=True, progress=False), session.out.note)
    facts = record(lake=os.fspath(folder), tables=tuple(lake.tables()))
    tips = Listing("try", columns("command", "shows"), what_to_try(folder))
    session.out.report([facts, tips])


def ui(
    session: Session,
    *,
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="NUMBER",
            min=0,
            max=65535,
            help="8765 or the next free one if left out; 0 for any free one.",
        ),
    ] = None,
    allow_writes: Annotated[bool, typer.Option("--allow-writes", help="Let the pages change the lake.")] = False,
    token: Annotated[
        str | None,
        typer.Option(
            "--token", metavar="TEXT", envvar="PARQLAKE_UI_TOKEN", help="Who knows it may look; else one is made."
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open a browser.")] = False,
) -> None:
    """Open the explorer: the lake in a browser, read-only unless told otherwise. Ctrl-C ends it."""
    from parqlake.ui import serve

    serve(session.lake, host=host, port=port, allow_writes=allow_writes, token=token, open_browser=browser)
