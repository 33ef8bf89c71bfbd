"""Which version somebody means who writes a number, a tag or a moment."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parqlake.table.table import Table


def at(table: Table, text: str | None) -> dict[str, Any]:
    """What `scan` and `restore` take for it: `version` or `as_of`; nothing for the newest."""
    if text is None:
        return {}
    if is_moment(text) and text not in table.tags():
        return {"as_of": text}
    return {"version": number_or_tag(text)}


def number_or_tag(text: str) -> int | str:
    """A version's number, or the name of a tag.

    Example:
        >>> number_or_tag("7"), number_or_tag("release-1")
        (7, 'release-1')
    """
    return int(text) if text.isascii() and text.isdigit() else text


def pinned(table: Table, text: str | None) -> int | str | None:
    """The version for calls that take no moment: that of the moment is looked up."""
    chosen = at(table, text)
    if "as_of" in chosen:
        return table.scan(as_of=chosen["as_of"]).version
    version: int | str | None = chosen.get("version")
    return version


def is_moment(text: str) -> bool:
    """Whether it is a date or a time; a number is a version, although ISO knows dates without hyphens."""
    if text.isdigit():
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
