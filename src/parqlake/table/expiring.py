"""Expire: versions that nobody needs become unreadable, and files that only they held become tombstones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from parqlake.core.errors import CatalogBusyError, InvalidOptionError
from parqlake.core.model import TableInfo
from parqlake.core.ports import CatalogReader
from parqlake.core.retention import cutoff, parse_age, unneeded_paths, versions_to_expire
from parqlake.table.context import LakeContext, now
from parqlake.table.versions import live_head

DEFAULT_AGE = "7d"
_RETRY_PAUSE = 0.05
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class ExpireResult:
    """What expiring came to, or would come to.

    Attributes:
        table: its name.
        versions: the versions that cannot be read any more.
        tags: tags that went with them.
        files: files that no kept version holds any more; `vacuum` deletes them later.
        size_bytes: of those files.
        kept: how many versions are kept.
        dry_run: True if nothing was changed.
    """

    table: str
    versions: tuple[int, ...]
    tags: tuple[str, ...]
    files: int
    size_bytes: int
    kept: int
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """Which versions a caller wants to keep."""

    older_than: timedelta | None
    keep_last: int
    keep_tags: bool


def expiry_rule(older_than: Any, keep_last: Any, *, keep_tags: bool) -> Rule:
    """Checks what the caller gave; without either, versions go after seven days."""
    if keep_last is not None and (isinstance(keep_last, bool) or not isinstance(keep_last, int) or keep_last < 1):
        raise InvalidOptionError(
            f"keep_last={keep_last!r} must be a whole number >= 1; the newest version always stays"
        )
    if older_than is None and keep_last is None:
        older_than = DEFAULT_AGE
    age = None if older_than is None else parse_age(older_than)
    return Rule(age, keep_last or 1, keep_tags)


def expire(context: LakeContext, info: TableInfo, rule: Rule, *, dry_run: bool) -> ExpireResult:
    """See `Table.expire`."""
    if dry_run:
        with context.catalog.read() as reader:
            return _decide(reader, info, rule, now(), dry_run=True)[0]

    def expired() -> ExpireResult:
        with context.catalog.write() as writer:
            writer.lock([info.table_id])  # before looking: commits, tags and others who expire take turns
            at = now()
            result, tombstones = _decide(writer, info, rule, at, dry_run=False)
            if result.versions:
                writer.expire_versions(info.table_id, result.versions, tombstones=tombstones, at=at)
            return result

    return while_busy(context, expired)


def while_busy(context: LakeContext, action: Callable[[], _Result]) -> _Result:
    """Tries again while the catalog is busy, for as long as a commit would."""
    deadline = time.monotonic() + context.retry_for.total_seconds()
    while True:
        try:
            return action()
        except CatalogBusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_PAUSE)


def _decide(
    reader: CatalogReader, info: TableInfo, rule: Rule, at: datetime, *, dry_run: bool
) -> tuple[ExpireResult, list[str]]:
    table_id = info.table_id
    live_head(reader, info)
    kept = list(reversed(reader.snapshots(table_id)))
    tags = reader.tags(table_id)
    going = versions_to_expire(
        kept,
        before=None if rule.older_than is None else cutoff(at, rule.older_than),
        keep_last=rule.keep_last,
        tagged={tag.version for tag in tags} if rule.keep_tags else (),
        leases=[lease for lease in reader.reader_leases(at) if lease.table_id == table_id],
    )
    gone = set(going)
    tombstones: dict[str, int] = {}
    if going:
        marked = {tombstone.path for tombstone in reader.tombstones(table_id)}
        staying = [snapshot.version for snapshot in kept if snapshot.version not in gone]
        unneeded = unneeded_paths(reader.file_spans(table_id), staying)
        tombstones = {path: spans[0].size_bytes for path, spans in unneeded.items() if path not in marked}
    result = ExpireResult(
        table=str(info.name),
        versions=tuple(going),
        tags=_names(tag.name for tag in tags if tag.version in gone),
        files=len(tombstones),
        size_bytes=sum(tombstones.values()),
        kept=len(kept) - len(going),
        dry_run=dry_run,
    )
    return result, sorted(tombstones)


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
