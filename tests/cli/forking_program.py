"""Runs `parqlake` again and again, each time in a process of its own that is forked from this one.

A fresh interpreter takes most of a second to load what a command needs; a fork has it already. Reads requests from
stdin, a line of JSON each: the arguments, the folder, the environment, and the files that stand for the three streams.
Answers with the exit code.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any

LOADED = (
    "duckdb",
    "parqlake.cli.app",
    "parqlake.cli.terminal",
    "parqlake.connectors.sql_duckdb",
    "parqlake.ui.plain",
    "parqlake.wiring",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.json",
    "sqlglot.dialects.duckdb",
)


def carry_out(request: dict[str, Any]) -> None:
    """The life of one command; never returns."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    os.setsid()  # so that a terminal among the streams becomes its own, and Ctrl-C reaches it
    modes = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)
    for number, (path, mode) in enumerate(zip(request["streams"], modes, strict=True)):
        os.dup2(os.open(path, mode), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv = ["parqlake", *request["arguments"]]
    code: Any = 1
    try:
        from parqlake.cli.main import run

        run()
        code = 0
    except SystemExit as exit_:
        code = exit_.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    for name in LOADED:
        importlib.import_module(name)
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        child = os.fork()
        if not child:
            carry_out(request)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
