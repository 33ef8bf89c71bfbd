"""Check: is what the catalog says of its files true? Nothing is changed; each finding names what mends it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.findings import Severity
from parqlake.core.keys import NAN_KEY, Round, is_prunable, scalar_key
from parqlake.core.model import LIVE, FileEntry, IntArray, Snapshot, TableInfo, TransactionStatus
from parqlake.core.names import stored_path
from parqlake.core.pages import Key, Page
from parqlake.core.ports import CatalogReader, Store
from parqlake.core.retention import cutoff
from parqlake.core.schema import field_id
from parqlake.core.statistics import row_group_layout
from parqlake.table.context import LakeContext, now
from parqlake.table.progress import SILENT, ProgressChoice, Report, check_progress, reporting
from parqlake.table.recovering import GRACE, read_footer

SAMPLE = 8
"""Files of each table whose rows are compared with their statistics, unless all are."""
_THREADS = 8

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be, and what mends it."""

    severity: Severity
    table: str
    version: int | None
    file: str | None
    """Relative to the lake's root."""
    message: str
    fix: str

    def __str__(self) -> str:
        where = f"{self.table}{'' if self.version is None else f' version {self.version}'}"
        return f"{self.severity}: {where}: {self.message}; {self.fix}"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was looked at, and what was found.

    Attributes:
        findings: what is not as it should be, errors first.
        tables: tables that were looked at.
        versions: their kept versions.
        files: files of those versions; each was looked for, and its footer read.
        files_read: files whose rows were compared with their statistics.
    """

    findings: tuple[Finding, ...]
    tables: int
    versions: int
    files: int
    files_read: int

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings are allowed."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


@dataclass(frozen=True, slots=True)
class _View:
    """All that the catalog says of a table, from one moment."""

    info: TableInfo
    head: int
    kept: Sequence[Snapshot]
    expired: frozenset[int]
    entries: Sequence[FileEntry]
    """Of kept versions, or not."""

    def needed(self) -> list[FileEntry]:
        """The files that kept versions hold, each once."""
        versions = np.array([snapshot.version for snapshot in self.kept], dtype=np.int64)
        found: dict[str, FileEntry] = {}
        for entry in self.entries:
            place = int(np.searchsorted(versions, entry.added))
            if place < len(versions) and versions[place] < entry.removed:
                found[entry.path] = entry  # a restored one counts as its latest entry
        return list(found.values())

    def newest_with(self, entry: FileEntry) -> int:
        """The newest kept version that holds the file."""
        held = [s.version for s in self.kept if entry.added <= s.version < entry.removed]
        return held[-1] if held else self.head

    def newest_without(self, entry: FileEntry) -> int | None:
        """The newest kept version that does not hold the file, if it is live."""
        others = [s.version for s in self.kept if not entry.added <= s.version < entry.removed]
        return others[-1] if others else None


def check(context: LakeContext, *, full: bool, progress: ProgressChoice = None) -> CheckReport:
    """See `Lake.check`."""
    check_progress(progress)
    findings: list[Finding] = list(_lapsed(context))
    with context.catalog.read() as reader:
        views = [_view(reader, info) for info in reader.tables()]
    files = files_read = 0
    for view in views:
        findings += _versions(view)
        needed = view.needed()
        files += len(needed)
        with reporting(progress, context.progress, operation="check", table=view.info) as report:
            doubts, sound = _stored(context, view, needed, report)
            chosen = sound if full else random.Random(view.info.uuid).sample(sound, min(SAMPLE, len(sound)))  # noqa: S311
            files_read += len(chosen)
            doubts += _statistics(context, view, chosen, report)
            findings += _still_true(context, view, doubts)
    findings.sort(key=lambda finding: finding.severity is not Severity.ERROR)
    return CheckReport(tuple(findings), len(views), sum(len(view.kept) for view in views), files, files_read)


def _lapsed(context: LakeContext) -> Iterator[Finding]:
    limit = cutoff(now(), GRACE)
    with context.catalog.read() as reader:
        for record in reader.transactions(status=TransactionStatus.OPEN):
            if record.lease_until < limit:
                message = f"transaction {record.txn_id} of {record.who} has not been heard of since its lease ran out"
                yield Finding(Severity.WARNING, "", None, None, message, "lake.recover() ends it")


def _view(reader: CatalogReader, info: TableInfo) -> _View:
    head = reader.head(info.table_id)
    return _View(
        info,
        head.version,
        list(reversed(reader.snapshots(info.table_id))),
        frozenset(snapshot.version for snapshot in reader.expired_snapshots(info.table_id)),
        reader.files_added(info.table_id, after=0, until=LIVE - 1),
    )


def _versions(view: _View) -> Iterator[Finding]:
    """Versions without a gap, whose totals are those of their files."""
    table, from_copy = str(view.info.name), "bring the catalog back from a copy"
    known = {snapshot.version for snapshot in view.kept} | view.expired
    for version in sorted(set(range(1, view.head + 1)) ^ known):
        what = "is missing from the catalog" if version <= view.head else f"is above the newest one, {view.head}"
        yield Finding(Severity.ERROR, table, version, None, f"the version {what}", from_copy)
    if view.head and (not view.kept or view.kept[-1].version != view.head):
        yield Finding(Severity.ERROR, table, view.head, None, "the newest version is not kept", from_copy)
    added = np.array([entry.added for entry in view.entries], dtype=np.int64)
    removed = np.array([entry.removed for entry in view.entries], dtype=np.int64)
    rows = np.array([entry.row_count for entry in view.entries], dtype=np.int64)
    sizes = np.array([entry.size_bytes for entry in view.entries], dtype=np.int64)
    for snapshot in view.kept:
        held = (added <= snapshot.version) & (removed > snapshot.version)
        found = (int(held.sum()), int(rows[held].sum()), int(sizes[held].sum()))
        said = (snapshot.file_count, snapshot.row_count, snapshot.size_bytes)
        if found != said:
            message = "the catalog says {} files, {} rows, {} bytes, and lists {}, {}, {}".format(*said, *found)
            yield Finding(Severity.ERROR, table, snapshot.version, None, message, from_copy)


# ------------------------------------------------------------------------------------------------ files

_Doubt = tuple[FileEntry, str, Severity]
_Layout = tuple[IntArray, IntArray, IntArray]
"""Rows, bytes and offset of each row group."""


def _stored(
    context: LakeContext, view: _View, needed: Sequence[FileEntry], report: Report
) -> tuple[list[_Doubt], list[FileEntry]]:
    """Files that are not there or not as described, and those that are."""
    listed: dict[str, int | None] = {
        file.path: file.size_bytes for file in context.store.list_files(view.info.location)
    }
    elsewhere = [path for path in (_path(view.info, entry) for entry in needed) if path not in listed]
    listed |= dict(zip(elsewhere, _each(lambda path: _size_of(context.store, path), elsewhere), strict=True))
    doubts: list[_Doubt] = []
    there: list[FileEntry] = []
    for entry in needed:
        size = listed[_path(view.info, entry)]
        if size is None:
            doubts.append((entry, "the file is missing from the store", Severity.ERROR))
        elif size != entry.size_bytes:
            changed = "was changed after its import: it " if entry.path.startswith("/") else ""
            text = f"the file {changed}has {size} bytes instead of {entry.size_bytes}"
            doubts.append((entry, text, Severity.ERROR))
        else:
            there.append(entry)
    layouts = _layouts(context, view, {entry.file_id for entry in there if entry.path.startswith("/")})
    report.expect(len(there), "files", "footers")
    messages = _each(lambda entry: _footer(context.store, view.info, entry, layouts.get(entry.file_id)), there, report)
    doubts += [(entry, text, Severity.ERROR) for entry, text in zip(there, messages, strict=True) if text]
    return doubts, [entry for entry, text in zip(there, messages, strict=True) if not text]


def _path(info: TableInfo, entry: FileEntry) -> str:
    return stored_path(info.location, entry.path)


def _size_of(store: Store, path: str) -> int | None:
    """The size of a file that was imported, and so lies elsewhere; None if it is not there."""
    info = store.arrow_filesystem().get_file_info(store.full_path(path))
    return int(info.size) if info.is_file else None


def _layouts(context: LakeContext, view: _View, file_ids: set[int]) -> dict[int, _Layout]:
    """Where the row groups of imported files were: nobody but their owner can say that they stay as they are."""
    found: dict[int, _Layout] = {}
    if file_ids:
        with context.catalog.read() as reader:
            for segment in reader.segments(view.info.table_id, reader.segment_ids(view.info.table_id, view.head)):
                ends = np.cumsum(segment.row_group_counts)
                starts = ends - segment.row_group_counts
                for file_id, start, end in zip(segment.file_ids.tolist(), starts.tolist(), ends.tolist(), strict=True):
                    if file_id in file_ids:
                        part = slice(start, end)
                        found[file_id] = segment.rows[part], segment.sizes[part], segment.offsets[part]
    return found


def _footer(store: Store, info: TableInfo, entry: FileEntry, layout: _Layout | None) -> str:
    try:
        metadata = read_footer(store, _path(info, entry))
    except (OSError, pa.ArrowException) as error:
        return f"the file's footer cannot be read ({_first_line(error)})"
    found, said = (metadata.num_rows, metadata.num_row_groups), (entry.row_count, entry.row_group_count)
    if found == said:
        now_at = row_group_layout(metadata) if layout is not None else ()
        same = layout is None or all(np.array_equal(a, b) for a, b in zip(layout, now_at, strict=True))
        return "" if same else "the file was changed after its import: its row groups lie elsewhere"
    return f"the file has {found[0]} rows in {found[1]} row groups instead of {said[0]} in {said[1]}"


def _still_true(context: LakeContext, view: _View, doubts: Iterable[_Doubt]) -> list[Finding]:
    """The findings, but for files that expired while the check went on."""
    doubtful = list(doubts)
    if not doubtful:
        return []
    with context.catalog.read() as reader:
        needed = {entry.path for entry in _view(reader, view.info).needed()}
    findings = []
    for entry, message, severity in doubtful:
        if entry.path in needed:
            version, back = view.newest_with(entry), view.newest_without(entry)
            fix = "bring the file back from a copy"
            if entry.removed == LIVE and back is not None:
                fix += f', or go back: lake.table("{view.info.name}").restore(version={back})'
            path = _path(view.info, entry)
            findings.append(Finding(severity, str(view.info.name), version, path, message, fix))
    return findings


# ------------------------------------------------------------------------------------------------ statistics


def _statistics(context: LakeContext, view: _View, entries: Sequence[FileEntry], report: Report) -> list[_Doubt]:
    """Files with a row that their statistics rule out, so that a filter would miss it."""
    if not entries:
        return []
    wanted = {entry.file_id for entry in entries}
    places: dict[int, tuple[int, int]] = {}
    with context.catalog.read() as reader:
        segment_ids = reader.segment_ids(view.info.table_id, view.head)
        schemas = {number: reader.schema(view.info.table_id, number) for number in {e.schema_id for e in entries}}
        for segment in reader.segments(view.info.table_id, segment_ids):
            starts = np.cumsum(segment.row_group_counts) - segment.row_group_counts
            for file_id, start in zip(segment.file_ids.tolist(), starts.tolist(), strict=True):
                if file_id in wanted:
                    places[file_id] = (segment.segment_id, start)

    def look(entry: FileEntry) -> str:
        if entry.file_id not in places:
            return "the catalog has no statistics of the file"
        segment_id, start = places[entry.file_id]

        def page_of(column_id: int) -> Page | None:
            with context.catalog.read() as reader:
                return reader.pages(view.info.table_id, column_id, [segment_id]).get(segment_id)

        stored = schemas[entry.schema_id]
        try:
            return _uncovered(context.store, _path(view.info, entry), start, stored, page_of)
        except (OSError, pa.ArrowException) as error:
            return f"the file cannot be read ({_first_line(error)})"

    report.expect(len(entries), "files", "rows")
    messages = _each(look, entries, report)
    return [(entry, text, Severity.ERROR) for entry, text in zip(entries, messages, strict=True) if text]


def _uncovered(store: Store, path: str, start: int, stored: pa.Schema, page_of: Callable[[int], Page | None]) -> str:
    """The first column and row group whose values are not covered; reads one row group of one column at a time."""
    columns = {field.name: field for field in stored}
    import pyarrow.parquet as pq  # loads pandas where it is installed, and few calls need it

    with (
        store.arrow_filesystem().open_input_file(store.full_path(path)) as file,
        pq.ParquetFile(file, page_checksum_verification=True) as parquet,
    ):
        for field in parquet.schema_arrow:
            known = columns.get(field.name)  # by name: imported files have no ids, or those of another format
            page = page_of(field_id(known)) if known is not None and is_prunable(known.type) else None
            for group in range(parquet.num_row_groups):
                values = parquet.read_row_group(group, columns=[field.name]).column(field.name)
                if page is not None and known is not None and values.type != known.type:
                    values = values.cast(known.type)
                if page is not None and not _covers(page, start + group, values):
                    return f'statistics of column "{field.name}" do not cover its values in row group {group}'
    return ""


def _covers(page: Page, index: int, values: pa.ChunkedArray) -> bool:
    nulls = 0 if page.nulls is None else int(page.nulls[index])
    if nulls >= 0 and nulls != values.null_count:
        return False
    return all(bool(page.overlaps(key, key)[index]) for key in _extremes(values))


def _extremes(values: pa.ChunkedArray) -> Iterator[Key]:
    """The keys of the least and the greatest value, and of NaN if there is one."""
    values = values.drop_null()
    if pa.types.is_floating(values.type):
        nan = pc.is_nan(values)
        if pc.any(nan).as_py():
            yield NAN_KEY
        values = values.filter(pc.invert(nan))
    if len(values):
        ends = pc.min_max(values)
        yield scalar_key(ends["min"], Round.DOWN)
        yield scalar_key(ends["max"], Round.UP)


def _each(work: Callable[[_Item], _Found], items: Sequence[_Item], report: Report = SILENT) -> list[_Found]:
    if not items:
        return []
    results = []
    with ThreadPoolExecutor(min(_THREADS, len(items))) as pool:
        for result in pool.map(work, items):
            results.append(result)
            report.advance()
    return results


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
