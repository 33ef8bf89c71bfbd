"""From what a page knows to what is sent: HTML by its template, or the same as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from parqlake._version import __version__
from parqlake.ui import pictures, words
from parqlake.ui.explorer import Explorer
from parqlake.ui.plain import plain

_LONGEST = 160
"""Characters of a value that a cell shows; the JSON twin has all of it."""


class Renderer:
    """Makes pages. Everything that comes from the lake is escaped; only our own pictures are not."""

    def __init__(self, explorer: Explorer) -> None:
        self._environment = Environment(
            loader=PackageLoader("parqlake.ui"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            {
                "size": words.size,
                "number": words.number,
                "short": words.short,
                "span": words.span,
                "plural": words.plural,
                "when": _when,
                "cell": cell,
                "brief": brief,
                "iso": _moment,
            }
        )
        lake = explorer.lake
        self._environment.globals.update(
            {
                "percent": words.percent,
                "pictures": pictures,
                "query": query,
                "is_number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
                "explorer": {"lake": lake.url, "catalog": lake.catalog_url, "writes": explorer.allow_writes},
                "version_of_package": __version__,
                "csrf": explorer.csrf,
            }
        )

    def html(self, template: str, data: dict[str, Any], *, status: int = 200) -> Response:
        """The page of a template."""
        return HTMLResponse(self._environment.get_template(template).render(**data), status)


def json_answer(data: dict[str, Any], *, status: int = 200) -> Response:
    """The JSON twin of a page."""
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, indent=1)
    return Response(text + "\n", status, media_type="application/json")


def cell(value: Any) -> Markup | str:
    """A value in a table: NULL can be told from text, and long values are cut."""
    if value is None:
        return Markup('<span class="null">NULL</span>')
    found = plain(value)
    if isinstance(found, dict | list):
        found = json.dumps(found, ensure_ascii=False)
    text = str(found)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def brief(value: Any) -> Markup | str:
    """A value at the end of an axis, where there is little room.

    Example:
        >>> brief(datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC)), brief(0.30000000000000004)
        ('2026-01-31 12:30', '0.3')
    """
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return f"{value:g}" if isinstance(value, float) else cell(value)


def query(**values: Any) -> str:
    """The query of a link: `?a=1&b=2`, without what is empty."""
    pairs = [(name, value) for name, value in values.items() if value not in (None, "", [])]
    return f"?{urlencode(pairs, doseq=True)}" if pairs else ""


def _when(moment: datetime | None) -> Markup | str:
    """How long ago, with the moment itself as a title."""
    if moment is None:
        return "–"
    text = moment.isoformat(timespec="seconds")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(text, text, words.ago(moment, datetime.now(UTC)))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
