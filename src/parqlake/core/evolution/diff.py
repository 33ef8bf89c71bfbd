"""What changed from one schema to another, by field id: a renamed column is renamed, not removed and added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from parqlake.core.evolution.constraints import checks_of
from parqlake.core.evolution.marks import all_ids, initial_default, write_default
from parqlake.core.schema import children, field_id, without_ids


class ChangeKind(StrEnum):
    """What happened to a column."""

    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    WIDENED = "widened"
    REORDERED = "reordered"
    NULLABILITY = "nullability"
    DEFAULT = "default"
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One change; what there was before and what there is now, as text."""

    kind: ChangeKind
    column: str
    """The path of the column as it is called now, or was last; for a check its name."""
    before: str | None
    after: str | None

    def __str__(self) -> str:
        match self.kind:
            case ChangeKind.ADDED:
                return f"+ {self.column}: {self.after}"
            case ChangeKind.REMOVED:
                return f"- {self.column}: {self.before}"
            case ChangeKind.REORDERED:
                return f"~ order{f' in {self.column}' if self.column else ''}: {self.before} -> {self.after}"
        name = f"check {self.column}" if self.kind is ChangeKind.CHECK else f"{self.column}: {self.kind}"
        return f"~ {name} {self.before or 'none'} -> {self.after or 'none'}"


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """All changes between two versions; `str()` lists them, one a line, and it is falsy if there are none."""

    changes: tuple[ColumnChange, ...]

    def of(self, kind: ChangeKind | str) -> tuple[ColumnChange, ...]:
        """The changes of one kind."""
        return tuple(change for change in self.changes if change.kind == kind)

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(str(change) for change in self.changes) or "no changes"


def diff(before: pa.Schema, after: pa.Schema) -> SchemaDiff:
    """The changes that lead from one schema to the other."""
    return SchemaDiff((*_level(list(before), list(after), ""), *_checks(before, after)))


def _level(before: Sequence[pa.Field], after: Sequence[pa.Field], above: str) -> Iterator[ColumnChange]:
    pairs = [(old, new) for new in after for old in before if _same_column(old, new)]
    for field in before:
        if not any(field is old for old, _ in pairs):
            yield ColumnChange(ChangeKind.REMOVED, above + field.name, _shown(field), None)
    for field in after:
        if not any(field is new for _, new in pairs):
            yield ColumnChange(ChangeKind.ADDED, above + field.name, None, _shown(field, default=True))
    for old, new in pairs:
        yield from _field(old, new, above)
    places = [next(i for i, field in enumerate(before) if field is old) for old, _ in pairs]
    if places != sorted(places):
        names = [new.name for _, new in pairs]
        then = [name for _, name in sorted(zip(places, names, strict=True))]
        yield ColumnChange(ChangeKind.REORDERED, above[:-1], ", ".join(then), ", ".join(names))


def _field(old: pa.Field, new: pa.Field, above: str) -> Iterator[ColumnChange]:
    name = above + new.name
    if old.name != new.name:
        yield ColumnChange(ChangeKind.RENAMED, name, above + old.name, name)
    nested = pa.types.is_nested(old.type) and pa.types.is_nested(new.type)
    if old.type != new.type and not nested:
        yield ColumnChange(ChangeKind.WIDENED, name, str(old.type), str(new.type))
    if old.nullable != new.nullable:
        words = {True: "nullable", False: "NOT NULL"}
        yield ColumnChange(ChangeKind.NULLABILITY, name, words[old.nullable], words[new.nullable])
    defaults = [None if value is None else repr(value.as_py()) for value in (write_default(old), write_default(new))]
    if defaults[0] != defaults[1]:
        yield ColumnChange(ChangeKind.DEFAULT, name, *defaults)
    if nested:
        yield from _level(children(old.type), children(new.type), f"{name}.")


def _checks(before: pa.Schema, after: pa.Schema) -> Iterator[ColumnChange]:
    old, new = checks_of(before), checks_of(after)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield ColumnChange(ChangeKind.CHECK, name, old.get(name), new.get(name))


def _same_column(old: pa.Field, new: pa.Field) -> bool:
    return field_id(old) in all_ids(new) or field_id(new) in all_ids(old)


def _shown(field: pa.Field, *, default: bool = False) -> str:
    plain = without_ids(pa.schema([field])).field(0)
    value = initial_default(field) if default else None
    return f"{plain.type}{'' if field.nullable else ' NOT NULL'}" + (
        "" if value is None else f" default {value.as_py()!r}"
    )
