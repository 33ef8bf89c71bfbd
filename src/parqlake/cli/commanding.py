"""How a function becomes a command: it gets the shared options, a session, and a boundary that errors do not cross."""

from __future__ import annotations

import functools
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from parqlake.cli.exits import BROKEN_PIPE, INTERRUPTED, OK, failure_of
from parqlake.cli.session import Session, Shared

EVERYWHERE = "Everywhere"
"""The heading in the help above options that every command takes."""

_LAKE = Annotated[
    str | None,
    typer.Option(
        "--lake",
        "-l",
        metavar="ROOT",
        help="The lake: a folder or a URL. Else PARQLAKE_LAKE, else parqlake.toml here or in a folder above.",
        rich_help_panel=EVERYWHERE,
        show_default=False,
    ),
]
_CATALOG = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="URL",
        help="The lake's catalog, if it is not the one inside its folder.",
        rich_help_panel=EVERYWHERE,
        show_default=False,
    ),
]
_JSON = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout; errors as JSON, too.", rich_help_panel=EVERYWHERE)
]
_DEBUG = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.", rich_help_panel=EVERYWHERE)]
SHARED = {"lake": (_LAKE, None), "catalog": (_CATALOG, None), "json": (_JSON, False), "debug": (_DEBUG, False)}
"""The shared options, with their defaults."""


def command(app: typer.Typer, name: str, *, panel: str) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Makes the function a command of the app.

    The function takes a `Session` first, then its own options; it returns an exit code, or None for 0.
    """

    def register(function: Callable[..., int | None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]

        @functools.wraps(function)
        def run(context: typer.Context, **given: Any) -> None:
            shared = _shared(given)
            before = context.obj if isinstance(context.obj, Shared) else Shared()
            raise typer.Exit(_carried_out(function, shared.over(before), given))

        with_shared(run, own)
        app.command(name, help=inspect.cleandoc(function.__doc__ or ""), rich_help_panel=panel)(run)
        return run

    return register


def with_shared(function: Any, own: list[inspect.Parameter]) -> None:
    """Gives the function a signature of the context, its own parameters and the shared options."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("context", keyword, annotation=typer.Context)
    shared = [
        inspect.Parameter(name, keyword, default=default, annotation=kind) for name, (kind, default) in SHARED.items()
    ]
    parameters = [context, *(parameter.replace(kind=keyword) for parameter in own), *shared]
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(function).pop("__wrapped__", None)


def _shared(given: dict[str, Any]) -> Shared:
    """Takes the shared options out of what was given."""
    return Shared(**{name: given.pop(name) for name in SHARED})


def _carried_out(function: Callable[..., int | None], shared: Shared, given: dict[str, Any]) -> int:
    """Runs the command; returns its exit code, whatever happens."""
    session = Session(shared)
    warnings.showwarning = lambda message, *_: session.out.note(f"warning: {message}")
    try:
        with session:
            code = function(session, **given)
        sys.stdout.flush()
        return OK if code is None else code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _quiet()
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if shared.debug:
            traceback.print_exc()
        failure = failure_of(error)
        session.out.failure(failure)
        return failure.code


def _quiet() -> int:
    """Nobody reads on: what is still in the buffers must not raise again when the interpreter ends."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
