"""Vacuum: deletes files that nobody needs any more, and nothing else.

The order makes it safe. Transactions whose writers are gone are aborted; then the folder is listed; then the catalog is
asked, in one consistent look, what is needed and who is at work. A file that was listed is by then either known to the
catalog, or that of a transaction that is still open, or can never become part of a version. Files are deleted first and
forgotten second, so that a crash in between leaves work for the next run and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from parqlake.core.errors import InvalidOptionError
from parqlake.core.model import TableInfo
from parqlake.core.ports import CatalogReader
from parqlake.core.retention import (
    SHORTEST_AGE,
    FileSpan,
    Guard,
    Removal,
    birth_of,
    cutoff,
    parse_age,
    plan_removal,
)
from parqlake.table.context import LakeContext, now
from parqlake.table.progress import ProgressChoice, check_progress, reporting
from parqlake.table.recovering import abort_lapsed
from parqlake.table.versions import live_head

DEFAULT_AGE = "7d"
_BATCH = 2_000
"""Files that are deleted, and then forgotten, at a time."""


@dataclass(frozen=True, slots=True)
class VacuumResult:
    """What a vacuum deleted, or would delete.

    Attributes:
        files: files that were deleted.
        size_bytes: of those files.
        expired: how many of them belonged to expired versions.
        leftovers: how many were left by failed writes.
        dropped: how many belonged to dropped tables.
        held: files that are of no use but stay for now: too young, or a reader or an open transaction may need them.
        paths: the files, relative to the lake's root.
        strays: files in table folders that bear no name of parqlake's; they are never deleted.
        tables: dropped tables that cannot be brought back any more.
        dry_run: True if nothing was deleted.
    """

    files: int = 0
    size_bytes: int = 0
    expired: int = 0
    leftovers: int = 0
    dropped: int = 0
    held: int = 0
    paths: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    dry_run: bool = False

    def __add__(self, other: VacuumResult) -> VacuumResult:
        """Both together."""
        return VacuumResult(
            self.files + other.files,
            self.size_bytes + other.size_bytes,
            self.expired + other.expired,
            self.leftovers + other.leftovers,
            self.dropped + other.dropped,
            self.held + other.held,
            self.paths + other.paths,
            self.strays + other.strays,
            self.tables + other.tables,
            self.dry_run or other.dry_run,
        )


def vacuum_age(older_than: Any, *, force: bool) -> timedelta:
    """Checks the age; one below `SHORTEST_AGE` has to be forced."""
    age = parse_age(older_than)
    if age < SHORTEST_AGE and not force:
        minutes = SHORTEST_AGE.total_seconds() / 60
        raise InvalidOptionError(
            f"older_than={older_than!r} is less than {minutes:g} minutes, in which readers that just began are not "
            "known yet; give a longer one, or force=True if nobody else reads this lake now"
        )
    return age


def vacuum_table(
    context: LakeContext, info: TableInfo, age: timedelta, *, dry_run: bool, progress: ProgressChoice = None
) -> VacuumResult:
    """See `Table.vacuum`."""
    check_progress(progress)
    if not dry_run:
        abort_lapsed(context)
    listed = _listed(context, info)
    with context.catalog.read() as reader:
        live_head(reader, info)
        removal, entries = _planned(reader, info, listed, age)
    return _vacuumed(context, info, removal, entries, dry_run=dry_run, progress=progress)


def vacuum_lake(
    context: LakeContext, age: timedelta, *, dry_run: bool, progress: ProgressChoice = None
) -> VacuumResult:
    """See `Lake.vacuum`."""
    check_progress(progress)
    if not dry_run:
        abort_lapsed(context)
    result = VacuumResult(dry_run=dry_run)
    with context.catalog.read() as reader:
        tables = reader.tables_on_record()
        leased = {lease.table_id for lease in reader.reader_leases(now())}
        going = list(reader.purged_tables())
    limit = cutoff(now(), age)
    for info in tables:
        if info.dropped_at is None:
            listed = _listed(context, info)
            with context.catalog.read() as reader:
                removal, entries = _planned(reader, info, listed, age)
            result += _vacuumed(context, info, removal, entries, dry_run=dry_run, progress=progress)
        elif info.dropped_at <= limit and info.table_id not in leased and _purge(context, info, dry_run=dry_run):
            going.append(info)
    for info in going:
        result += _delete_table(context, info, dry_run=dry_run, progress=progress)
    if not dry_run:
        _clear_leases(context, now())
    return result


def _listed(context: LakeContext, info: TableInfo) -> dict[str, int]:
    start = len(info.location) + 1
    return {file.path[start:]: file.size_bytes for file in context.store.list_files(info.location)}


def _planned(
    reader: CatalogReader, info: TableInfo, listed: Mapping[str, int], age: timedelta
) -> tuple[Removal, Mapping[str, list[FileSpan]]]:
    """What may go, and the catalog's entries of it, all from one moment."""
    at = now()
    leases = [lease for lease in reader.reader_leases(at) if lease.table_id == info.table_id]
    open_since = min((record.started_at for record in reader.transactions(status="open")), default=None)
    spans = reader.file_spans(info.table_id)
    removal = plan_removal(
        listed,
        spans,
        reader.tombstones(info.table_id),
        reader.kept_versions(info.table_id),
        Guard(at, age, leases, open_since),
    )
    going = set(removal.forget)
    entries: dict[str, list[FileSpan]] = {}
    for span in spans:
        if span.path in going:
            entries.setdefault(span.path, []).append(span)
    return removal, entries


def _vacuumed(
    context: LakeContext,
    info: TableInfo,
    removal: Removal,
    entries: Mapping[str, list[FileSpan]],
    *,
    dry_run: bool,
    progress: ProgressChoice,
) -> VacuumResult:
    deleted = {**removal.expired, **removal.leftovers}
    if not dry_run:
        forget = set(removal.forget)
        for some in _batches(context, info, deleted.keys() | forget, progress):
            context.store.delete([f"{info.location}/{path}" for path in some if path in deleted])
            _forget(context, info, [path for path in some if path in forget], entries)
    return VacuumResult(
        files=len(deleted),
        size_bytes=sum(deleted.values()),
        expired=len(removal.expired),
        leftovers=len(removal.leftovers),
        held=removal.held,
        paths=tuple(sorted(f"{info.location}/{path}" for path in deleted)),
        strays=tuple(f"{info.location}/{path}" for path in removal.strays),
        dry_run=dry_run,
    )


def _forget(context: LakeContext, info: TableInfo, paths: Sequence[str], entries: Mapping[str, list[FileSpan]]) -> None:
    if paths:
        ids = [span.file_id for path in paths for span in entries.get(path, ())]
        with context.catalog.write() as writer:
            writer.forget_files(info.table_id, paths, ids)


def _purge(context: LakeContext, info: TableInfo, *, dry_run: bool) -> bool:
    if dry_run:
        return True
    with context.catalog.write() as writer:
        return writer.purge_table(info.table_id)


def _delete_table(context: LakeContext, info: TableInfo, *, dry_run: bool, progress: ProgressChoice) -> VacuumResult:
    """Deletes the files of a table that is purged: nobody can read or write it any more."""
    listed = _listed(context, info)
    ours = {path: size for path, size in listed.items() if birth_of(path) is not None}
    if not dry_run:
        for some in _batches(context, info, ours, progress):
            context.store.delete([f"{info.location}/{path}" for path in some])
        with context.catalog.write() as writer:
            writer.forget_table(info.table_id)
    return VacuumResult(
        files=len(ours),
        size_bytes=sum(ours.values()),
        dropped=len(ours),
        paths=tuple(sorted(f"{info.location}/{path}" for path in ours)),
        strays=tuple(sorted(f"{info.location}/{path}" for path in listed.keys() - ours.keys())),
        tables=(str(info.name),),
        dry_run=dry_run,
    )


def _clear_leases(context: LakeContext, at: datetime) -> None:
    with context.catalog.write() as writer:
        writer.clear_leases(cutoff(at, timedelta(days=1)))


def _batches(
    context: LakeContext, info: TableInfo, paths: Collection[str], progress: ProgressChoice
) -> Iterator[list[str]]:
    """Some paths at a time; who takes the next ones is done with those before."""
    ordered = sorted(paths)
    if not ordered:
        return
    with reporting(progress, context.progress, operation="vacuum", table=info) as report:
        report.expect(len(ordered), "files")
        for start in range(0, len(ordered), _BATCH):
            some = ordered[start : start + _BATCH]
            yield some
            report.advance(len(some))
