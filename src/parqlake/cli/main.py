"""Where the command begins: an interruption ends it without a traceback, however early it comes."""

from __future__ import annotations

import sys

from parqlake.cli.exits import INTERRUPTED, USAGE, UsageError, failure_of


def run() -> None:
    """Runs the command line with the arguments of the process, and exits with the code that says how it went."""
    try:
        from parqlake.cli.app import app

        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        sys.exit(app(prog_name="parqlake", standalone_mode=False))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        _refuse(error)


def _refuse(error: Exception) -> None:
    """Says what is wrong with the command line, as all errors are said; other errors are none of the user's."""
    describe = getattr(error, "format_message", None)  # what the parser's own errors have
    if describe is None:
        raise error
    from parqlake.cli.output import Output

    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "parqlake"
    if not describe():  # nothing was asked for, and the help was shown
        sys.exit(USAGE)
    failure = failure_of(UsageError(describe()), hint=f"{path} --help says what it takes")
    Output(as_json="--json" in sys.argv).failure(failure)
    sys.exit(failure.code)


if __name__ == "__main__":
    run()
