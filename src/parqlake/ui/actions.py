"""The few things that the explorer can change, if it was started with `allow_writes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parqlake.core.errors import InvalidOptionError, NotFoundError
from parqlake.table.table import Table
from parqlake.table.vacuuming import DEFAULT_AGE
from parqlake.ui import words
from parqlake.ui.explorer import Ask

_MESSAGE = "by the explorer"


def _compact(table: Table, ask: Ask) -> str:
    del ask
    done = table.compact(message=_MESSAGE)
    if not done.compacted_file_count:
        return "No files were worth putting together."
    return f"{words.plural(done.compacted_file_count, 'file')} became part of version {done.version}."


def _optimize(table: Table, ask: Ask) -> str:
    done = table.optimize(ask.many("column") or None, message=_MESSAGE)
    if not done.compacted_file_count:
        return "The files are laid out as far as that is to be had."
    return f"{words.plural(done.compacted_file_count, 'file')} were laid out anew as version {done.version}."


def _maintain(table: Table, ask: Ask) -> str:
    del ask
    done = [step.name for step in table.maintain().steps if step.done]
    return f"Done: {', '.join(done)}." if done else "Nothing was worth doing."


def _vacuum(table: Table, ask: Ask) -> str:
    done = table.vacuum(ask.text("older_than") or DEFAULT_AGE)
    return f"{words.plural(done.files, 'file')} deleted, {words.size(done.size_bytes)}."


def _restore(table: Table, ask: Ask) -> str:
    version = _version(ask)
    made = table.restore(version, message=_MESSAGE)
    return f"Version {version} is the newest again, as version {made.version}."


def _tag(table: Table, ask: Ask) -> str:
    name, version = ask.text("name"), _version(ask)
    if not name:
        raise InvalidOptionError("the tag has no name; give one, for instance release-1")
    table.tag(name, version)
    return f"Version {version} is called {name} now."


def _version(ask: Ask) -> int:
    if not ask.text("version"):
        raise InvalidOptionError("no version is given; say which one, for instance version=3")
    return ask.integer("version", 0, least=1)


_ACTIONS: dict[str, tuple[str, Callable[[Table, Ask], str]]] = {
    "compact": ("maintenance", _compact),
    "optimize": ("maintenance", _optimize),
    "maintain": ("maintenance", _maintain),
    "vacuum": ("maintenance", _vacuum),
    "restore": ("history", _restore),
    "tag": ("history", _tag),
}


def act(table: Table, action: str, ask: Ask) -> dict[str, Any]:
    """Does what a form asks for, and says what came of it and which page shows it."""
    if action not in _ACTIONS:
        raise NotFoundError(f'there is no action "{action}"; actions: {", ".join(_ACTIONS)}')
    page, do = _ACTIONS[action]
    return {"action": action, "page": page, "said": do(table, ask), "version": table.version}
