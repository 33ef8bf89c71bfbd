"""The command `parqlake`: all commands in one app, in the order in which the help lists them."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from parqlake._version import __version__
from parqlake.cli import asking, changing, keeping, looking, minding, moving, running, starting
from parqlake.cli.commanding import EVERYWHERE, with_shared
from parqlake.cli.session import Shared

app = typer.Typer(
    name="parqlake",
    help="A lakehouse on plain Parquet: tables with versions, transactions and SQL, in any folder or bucket.",
    epilog="Exit codes: 0 ok, 1 error, 2 usage, 3 conflict, 4 not found, 5 quality or health failed.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 120},
)


def _said(value: bool) -> None:
    if value:
        typer.echo(f"parqlake {__version__}")
        raise typer.Exit


def _before(context: typer.Context, **given: Any) -> None:
    """Takes the shared options that stand before the command."""
    given.pop("version")
    context.obj = Shared(**given)


_VERSION = Annotated[
    bool,
    typer.Option(
        "--version", callback=_said, is_eager=True, help="Say which parqlake this is.", rich_help_panel=EVERYWHERE
    ),
]
with_shared(_before, [inspect.Parameter("version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_VERSION)])
app.callback()(_before)
for module in (starting, looking, asking, changing, keeping, moving, minding, running):
    module.register(app)
