"""Which version a caller means: a number, a tag, or a moment."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from parqlake.core.errors import (
    InvalidOptionError,
    NotAppendOnlyError,
    TableNotFoundError,
    VersionNotFoundError,
    suggestion,
)
from parqlake.core.model import Head, TableInfo
from parqlake.core.ports import CatalogReader

Moment = str | date | datetime
"""ISO text, a date (its midnight) or a datetime; without a zone it is UTC."""

_FIRST_SCHEMA = 1
"""The schema that every table is created with."""


def live_head(reader: CatalogReader, info: TableInfo) -> Head:
    """The newest version, or `TableNotFoundError` if the table was dropped."""
    return check_live(reader.head(info.table_id), info)


def check_live(head: Head, info: TableInfo) -> Head:
    """Returns the head, and raises `TableNotFoundError` if the table was dropped."""
    if not head.live:
        raise TableNotFoundError(f'table {info.name} was dropped; lake.undrop_table("{info.name}") brings it back')
    return head


def resolve(
    reader: CatalogReader, info: TableInfo, *, version: int | str | None, as_of: Moment | None
) -> tuple[int, int]:
    """Returns (version, schema id) of what the caller means; the newest if nothing is said."""
    if version is not None and as_of is not None:
        raise InvalidOptionError("give version or as_of, not both")
    head = live_head(reader, info)
    if version is None and as_of is None:
        return head.version, head.schema_id
    number = _at(reader, info, as_of) if as_of is not None else _numbered(reader, info, version, head)
    if number == 0:
        return 0, _FIRST_SCHEMA
    snapshot = reader.snapshot(info.table_id, number)
    if snapshot is None:
        raise VersionNotFoundError(f"version {number} of {info.name} was expired; history() shows what is kept")
    return snapshot.version, snapshot.schema_id


def resolve_after(reader: CatalogReader, info: TableInfo, version: int | str) -> int:
    """The version that a caller has seen; it need not be kept, since only later ones are read."""
    return _numbered(reader, info, version, live_head(reader, info))


def check_only_added(reader: CatalogReader, info: TableInfo, after: int, until: int) -> None:
    """Raises `NotAppendOnlyError` if a version between the two removed or replaced rows."""
    for snapshot in reversed(reader.snapshots(info.table_id, after=after)):
        if snapshot.version <= until and snapshot.data_change and snapshot.removed_files:
            raise NotAppendOnlyError(
                f"version {snapshot.version} of {info.name} ({snapshot.operation}) removed {snapshot.removed_rows} "
                f"rows, so the rows added after version {after} do not make up version {until}; read the whole "
                "table again, or take the new files only with allow_removals=True"
            )


def parse_moment(value: Any) -> datetime:
    """Reads a moment; what has no zone is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidOptionError(
                f"as_of={value!r} is no moment; write it like 2026-01-31T12:00:00Z or give a datetime"
            ) from None
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise InvalidOptionError(f"as_of={value!r} is no moment; give ISO text, a date or a datetime")


def _at(reader: CatalogReader, info: TableInfo, as_of: Moment | None) -> int:
    moment = parse_moment(as_of)
    snapshot = reader.snapshot_as_of(info.table_id, moment)
    version = 0 if snapshot is None else snapshot.version
    expired = reader.expired_as_of(info.table_id, moment) or 0
    if expired > version:
        raise VersionNotFoundError(
            f"version {expired} of {info.name}, the newest one at {moment.isoformat()}, was expired; history() shows "
            "what is kept"
        )
    if version:
        return version
    if moment >= info.created_at:
        return 0
    raise VersionNotFoundError(
        f"{info.name} did not exist at {moment.isoformat()}; it was created at {info.created_at.isoformat()}"
    )


def _numbered(reader: CatalogReader, info: TableInfo, version: Any, head: Head) -> int:
    if isinstance(version, str):
        tags = {tag.name: tag.version for tag in reader.tags(info.table_id)}
        if version in tags:
            return tags[version]
        known = ", ".join(sorted(tags)) or "none"
        raise VersionNotFoundError(f'{info.name} has no tag "{version}";{suggestion(version, tags)} tags: {known}')
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidOptionError(f"version={version!r} must be a whole number or the name of a tag")
    if not 0 <= version <= head.version:
        raise VersionNotFoundError(f"{info.name} has no version {version}; versions are 0 (empty) to {head.version}")
    return version
