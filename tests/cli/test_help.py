"""Every command and option is in the documentation; help, completion and pipes behave."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer.main

from parqlake.cli.app import app
from parqlake.cli.commanding import SHARED

Cli = Callable[..., Any]
PAGE = Path(__file__).resolve().parents[2] / "docs/cli.md"
ISSUED = """
    init ls show schema log head sql write merge delete explain compact zorder vacuum expire restore tag import export
    doctor check recover run runs ui demo
""".split()  # noqa: SIM905


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def options(command: Any) -> set[str]:
    named = [max(parameter.opts, key=len) for parameter in command.params if parameter.opts[0].startswith("-")]
    return set(named) - {"--help"}


def test_every_command_is_there_and_says_what_it_does() -> None:
    found = commands()
    assert set(found) == set(ISSUED)
    for name, command in found.items():
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_every_command_and_option_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### `parqlake (\w+)[^\n]*\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE))
    shared = {f"--{name}" for name in SHARED}
    everywhere = text.partition("## Options that every command takes")[2].partition("\n## ")[0]
    assert [name for name in shared if f"`{name}" not in everywhere] == []
    missing = {}
    for name, command in commands().items():
        section = sections.get(name, "")
        absent = [option for option in options(command) - shared if not re.search(rf"`{option}\b", section)]
        named = set(re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE))
        if absent or f"parqlake {name}" not in section or named - options(command):
            missing[name] = (absent, named - options(command))
    assert missing == {}
    assert set(sections) == set(ISSUED)


def test_the_help_names_every_command_and_its_options(cli: Cli) -> None:
    helped = cli("--help", COLUMNS="160")
    assert helped.code == 0
    assert [name for name in ISSUED if not re.search(rf"\b{name}\b", helped.out)] == []
    of_merge = cli("merge", "-h", COLUMNS="160")
    assert [option for option in options(commands()["merge"]) if option not in of_merge.out] == []


def test_a_closed_pipe_is_no_error(lake: Path) -> None:
    query = "select repeat('x', 1000) as x from range(100000)"
    command = (
        f'"{sys.executable}" -m parqlake.cli.main sql "{query}" --lake "{lake}" | head -n 2; echo "${{PIPESTATUS[0]}}"'
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["x", "x" * 1000, "141"]


def test_nothing_heavy_is_loaded_before_it_is_needed(lake: Path) -> None:
    look = "print(*sorted({'typer', 'rich', 'pyarrow', 'pandas', 'duckdb'} & set(sys.modules)))"
    for code, loaded in (
        (f"import sys, parqlake; {look}", ""),
        (f"import sys, parqlake.cli.app; {look}", "typer"),
    ):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.strip() == loaded, code


def test_the_shell_completes_commands_and_tables(cli: Cli, lake: Path) -> None:
    def completed(words: str) -> list[str]:
        place = str(len(words.split(" ")) - 1)
        asked = {"_PARQLAKE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": place}
        return list(cli(lake=lake, **asked).out.split())

    assert completed("parqlake sch") == ["schema"]
    assert completed("parqlake show sales.") == ["sales.orders"]
    assert completed("parqlake show --lake /nowhere sales.") == []
