"""The explorer: a lake in the browser. `serve` opens it, `app` is the same as an ASGI application.

Pages show tables, versions, files, clustering, plans, maintenance, runs and health, each with a JSON twin. They read
the catalog, sampled where a table has many files, and write nothing unless `allow_writes` says so.

Example:
    >>> import parqlake
    >>> from parqlake.ui import serve
    >>> serve(parqlake.connect("warehouse"), open_browser=True)   # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parqlake.ui.application import app
    from parqlake.ui.serving import serve

__all__ = ["app", "serve"]

_HOMES = {"app": "parqlake.ui.application", "serve": "parqlake.ui.serving"}
_NEEDED = {"jinja2", "markupsafe", "starlette", "uvicorn"}


def __getattr__(name: str) -> Any:
    """Loads a public name when it is first used; `MissingExtraError` if the extra is not installed."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'parqlake.ui' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _NEEDED:
            raise
        from parqlake.core.errors import MissingExtraError

        raise MissingExtraError(missing, "ui") from error
    globals()[name] = value
    return value
