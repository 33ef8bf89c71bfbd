"""Which rows of which files match, found on Spark: keys of both sides meet by hash, and nothing else moves.

Three kinds of tasks, each over packs: source rows and target keys are taken apart by the hash of the key; of each part
one source row for each key is kept, and looked up for every key of the target. What comes out are source rows on their
way: to the files in which they replace rows, or to new ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parqlake.core.errors import ConflictError
from parqlake.core.merging.model import MergeRule, MergeTarget
from parqlake.engines.arrow.grouping import group_rows
from parqlake.engines.arrow.merge_files import TargetReader
from parqlake.engines.arrow.merge_keys import Codes, key_arrays
from parqlake.engines.arrow.merge_source import Bounds, KeyBounds, SourcePart, source_part, split
from parqlake.engines.spark.merge_keys import part_numbers, text_number
from parqlake.engines.spark.packing import PACK_BYTES, Pack, Packer, packed, unpacked
from parqlake.engines.spark.tasks import FINAL

FILE, PLACES, TAKES_PART = "parqlake_file", "parqlake_places", "parqlake_takes_part"
_HELD_SHARE = 16
_HITS_AT_ONCE = 1 << 20
_PARTITION_SHARE = 8
"""The rows of one partition go to at most one task in so many."""


class Kind(IntEnum):
    """What a pack is."""

    SOURCE = 0
    KEYS = 1
    HITS = 2
    """Source rows for a file, with the numbers of the rows that each replaces."""
    INSERTS = 3
    DUPLICATES = 4
    """How many source rows were dropped."""
    READ = 5
    """That a file's keys were looked at, and how many of its rows the rule's predicate lets be changed."""
    ERROR = 6
    DELETES = 7
    """Numbers of rows of a file that clauses delete."""


@dataclass(frozen=True, slots=True)
class MatchPlan:
    """What the tasks of one merge share."""

    target: MergeTarget
    """As workers have it."""
    rule: MergeRule
    schema: pa.Schema
    """The working one."""
    bounds: Bounds
    parts: int
    """How many parts keys are taken apart into."""
    inserts: int
    """How many tasks write inserted rows."""
    span_rows: int
    """Rows of a file whose replacements are held at a time."""
    memory_bytes: int
    batch_rows: int

    @property
    def source_schema(self) -> pa.Schema:
        """Of the source's rows under way."""
        return self.schema if self.rule.clauses is None else self.rule.clauses.row_schema

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns of the target that meet the source: its keys, and what clauses want to know besides."""
        more = () if self.rule.clauses is None else self.rule.clauses.used_columns
        return tuple(dict.fromkeys([*self.rule.keys, *more]))

    @property
    def key_schema(self) -> pa.Schema:
        """Of the target's keys under way: the keys, the file's number, the row's, and whether it may be changed."""
        keys = [self.schema.field(name).with_nullable(True) for name in self.key_columns]
        place = [pa.field(FILE, pa.int64()), pa.field(PLACES, pa.int64()), pa.field(TAKES_PART, pa.bool_())]
        return pa.schema([*keys, *place])

    @property
    def hit_schema(self) -> pa.Schema:
        """Of replacements under way: the source's rows, with the numbers of the rows that each replaces."""
        clauses = self.rule.clauses
        changed = self.schema.names if clauses is None else clauses.changed_columns
        fields = [self.schema.field(name) for name in changed]
        return pa.schema([*fields, pa.field(PLACES, pa.list_(pa.int64()))])

    @property
    def deletes_some(self) -> bool:
        """Whether a predicate says which rows may be deleted: then files without a match lose some, too."""
        return self.rule.strategy.deletes and self.rule.where is not None

    @property
    def first_insert(self) -> int:
        """Where inserts go; lower numbers are those of files."""
        return len(self.target.files)

    def reader(self, *numbers: int) -> TargetReader:
        """Reads files of the target."""
        files = tuple(self.target.files[number] for number in numbers)
        return TargetReader(
            replace(self.target, files=files),
            self.rule,
            self.schema,
            memory_bytes=self.memory_bytes,
            batch_rows=self.batch_rows,
        )


@dataclass(frozen=True, slots=True)
class SplitTask:
    """Takes packs of the source apart by the hash of the key."""

    plan: MatchPlan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives the parts."""
        yield from packed(self._parts(batches))

    def _parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Pack]:
        plan = self.plan
        packer = Packer(plan.source_schema)
        for batch in batches:
            for place, data in zip(batch.column("place").to_pylist(), batch.column("rows").to_pylist(), strict=True):
                table = packer.unpack(data)
                for part, rows in split(table, _parts_of(table, plan)):
                    yield Pack(part, Kind.SOURCE, place, rows.num_rows, packer.pack(rows))


@dataclass(frozen=True, slots=True)
class KeysTask:
    """Takes the keys of target files apart, of those that may hold a match."""

    plan: MatchPlan
    groups: tuple[tuple[int, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives the parts; a NULL key ends it."""
        numbers = [
            number for batch in batches for group in batch.column(0).to_pylist() for number in self.groups[group]
        ]
        yield from packed(or_error(lambda: self._parts(numbers)))

    def _parts(self, numbers: list[int]) -> Iterator[Pack]:
        plan = self.plan
        packer = Packer(plan.key_schema)
        held: dict[int, list[pa.Table]] = {}
        size = 0
        for number in numbers:
            reader = plan.reader(number)
            for candidate in reader.candidates(plan.bounds):
                takes_part = reader.takes_part(candidate)
                yield Pack(0, Kind.READ, number, int(np.count_nonzero(takes_part)), b"")
                start = 0
                for batch in reader.some_columns(candidate, plan.key_columns):
                    table = _numbered(batch, number, start, takes_part)
                    start += batch.num_rows
                    for part, rows in split(table, _parts_of(table, plan)):
                        held.setdefault(part, []).append(rows)
                    size += table.nbytes
                    if size > plan.memory_bytes // _HELD_SHARE:
                        yield from _flushed(held, packer)
                        held, size = {}, 0
        yield from _flushed(held, packer)


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Looks up the target's keys among the source rows of one part; packs come sorted by kind and place."""

    plan: MatchPlan
    choice: MergeRule
    """By which the row to take for a key is chosen."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives source rows on their way, and what the driver must know."""
        yield from packed(or_error(lambda: self._matched(unpacked(batches))))

    def _matched(self, packs: Iterator[Pack]) -> Iterator[Pack]:
        plan, strategy = self.plan, self.plan.rule.strategy
        source = SourceOfPart(plan, self.choice)
        rows, keys = Packer(plan.schema), Packer(plan.key_schema)
        part: SourcePart | None = None
        hits: _Hits | None = None
        number = 0
        for pack in packs:
            number = pack.dest
            if pack.kind == Kind.SOURCE:
                source.push(rows.unpack(pack.rows))
            elif pack.kind == Kind.KEYS:
                part = part or source.part()
                hits = hits or _Hits(plan, part)
                yield from hits.look_up(keys.unpack(pack.rows))
            else:
                yield Pack(pack.place, pack.kind, 0, pack.count, pack.rows)
        part = part or source.part()
        if source.duplicates:
            yield Pack(0, Kind.DUPLICATES, 0, source.duplicates, b"")
        if hits is not None:
            yield from hits.rest()
        if strategy.inserts:
            new = part.rows if hits is None else part.rows.filter(pa.array(~hits.seen))
            yield from self.inserts(number, new, rows)

    def inserts(self, part: int, rows: pa.Table, packer: Packer) -> Iterator[Pack]:
        """New rows; those of a partition go to few tasks, so that it gets few files."""
        plan = self.plan
        if not rows.num_rows:
            return
        groups = [(part, rows)]
        if plan.target.spec.partition_by:
            shift = part % max(1, plan.inserts // _PARTITION_SHARE)
            groups = [
                (text_number(group.key, plan.inserts) + shift, pa.Table.from_batches(group.batches))
                for group in group_rows(rows, plan.target.spec.partition_by)
            ]
        for number, own in groups:
            for count, data in packer.pieces(own):
                yield Pack(plan.first_insert + number % plan.inserts, Kind.INSERTS, part, count, data)


class SourceOfPart:
    """Source rows of one part; drops others of the same key as they come, so that those take no room.

    For clauses all rows are kept.
    """

    def __init__(self, plan: MatchPlan, choice: MergeRule) -> None:
        """Has no rows yet; the choice says which row to take for a key."""
        self._plan = plan
        self._choice = choice
        self._kept = plan.source_schema.empty_table()
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._bounds = KeyBounds(plan.rule)
        self.duplicates = 0

    def push(self, rows: pa.Table) -> None:
        """Takes rows without NULL keys."""
        for batch in rows.to_batches():
            self._bounds.note(batch)
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes > self._plan.memory_bytes // _HELD_SHARE:
            self._kept = self.part().rows

    def part(self) -> SourcePart:
        """All rows that have come, as the choice wants them matched."""
        self._check()
        found = source_part(pa.concat_tables([self._kept, *self._waiting]), self._choice)
        self.duplicates += found.duplicates
        self._waiting, self._waiting_bytes = [], 0
        return found

    def _check(self) -> None:
        """Files were chosen by bounds that were found when the source was first computed."""
        known = self._plan.bounds
        for name, (low, high) in self._bounds.found.items():
            first, last = known.get(name, (None, None))
            if first is None or last is None or low.as_py() < first.as_py() or high.as_py() > last.as_py():
                raise ConflictError(
                    "the source frame had other rows when Spark computed it again; "
                    "write it to a file or a table first, then merge that"
                )


@dataclass(slots=True)
class _Hits:
    """Keys of the target that were found, gathered until they are worth a pack."""

    plan: MatchPlan
    part: SourcePart
    seen: npt.NDArray[np.bool_] = field(init=False)
    """Which source rows some key has matched."""
    _waiting: list[tuple[Codes, Codes, Codes]] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.part.rows.num_rows, dtype=bool)

    def look_up(self, keys: pa.Table) -> Iterator[Pack]:
        found = self.part.find(key_arrays(keys, self.plan.rule.keys))
        hits = np.flatnonzero(found >= 0)
        self.seen[found[hits]] = True
        hits = hits[keys.column(TAKES_PART).to_numpy()[hits]]
        if not self.plan.rule.strategy.updates or not len(hits):
            return
        files, places = (keys.column(name).to_numpy()[hits] for name in (FILE, PLACES))
        self._waiting.append((files, places, found[hits]))
        self._count += len(hits)
        if self._count >= _HITS_AT_ONCE:
            yield from self.rest()

    def rest(self) -> Iterator[Pack]:
        """What waits: for each file and span of rows, each source row once with all the places it goes to."""
        if not self._waiting:
            return
        files, places, found = (np.concatenate(column) for column in zip(*self._waiting, strict=True))
        self._waiting, self._count = [], 0
        spans = places // self.plan.span_rows
        order = np.lexsort((places, found, spans, files))
        files, places, found, spans = files[order], places[order], found[order], spans[order]
        begins = np.flatnonzero((np.diff(files, prepend=-1) != 0) | (np.diff(spans, prepend=-1) != 0))
        packer = Packer(self.plan.hit_schema)
        for start, stop in zip(begins.tolist(), [*begins[1:].tolist(), len(files)], strict=True):
            own = found[start:stop]
            firsts = np.flatnonzero(np.diff(own, prepend=-1))
            lists = pa.ListArray.from_arrays(
                pa.array(np.append(firsts, len(own)), pa.int32()), pa.array(places[start:stop])
            )
            for rows in self._sliced(own[firsts], lists):
                count = len(rows.column(PLACES).combine_chunks().flatten())
                yield Pack(int(files[start]), Kind.HITS, int(spans[start]), count, packer.pack(rows))

    def _sliced(self, found: Codes, lists: pa.ListArray) -> Iterator[pa.Table]:
        """Source rows beside the places they go to, few enough at a time."""
        whole = self.part.rows
        width = max(1, whole.nbytes // max(1, whole.num_rows))
        step = max(1, 4 * PACK_BYTES // width)
        for start in range(0, len(found), step):
            rows = whole.take(pa.array(found[start : start + step]))
            taken = lists.take(pa.array(np.arange(start, min(len(found), start + step))))
            yield pa.Table.from_arrays([*rows.columns, taken], schema=self.plan.hit_schema)


def or_error(work: Callable[[], Iterator[Pack]]) -> Iterator[Pack]:
    """What the work gives; an error that another attempt would meet again is the last of it."""
    try:
        yield from work()
    except (*FINAL, ConflictError) as error:
        said = {"error": type(error).__name__, "message": str(error)}
        yield Pack(0, Kind.ERROR, 0, 1, json.dumps(said).encode())


def _parts_of(table: pa.Table, plan: MatchPlan) -> Codes:
    """The part of each row's key; rows with a NULL among theirs match nothing, and are in the first."""
    keys = plan.rule.keys
    if not any(table.column(name).null_count for name in keys):
        return part_numbers(key_arrays(table, keys), plan.parts)
    whole = np.flatnonzero(~missing_keys(table, keys))
    numbers = np.zeros(table.num_rows, dtype=np.int64)
    numbers[whole] = part_numbers(key_arrays(table.take(pa.array(whole)), keys), plan.parts)
    return numbers


def missing_keys(rows: pa.Table, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which rows have a NULL among their keys."""
    nulls = [rows.column(name).is_null().to_numpy() for name in keys]
    return np.asarray(np.logical_or.reduce(nulls), dtype=np.bool_)


def _numbered(batch: pa.RecordBatch, file: int, start: int, takes_part: npt.NDArray[np.bool_]) -> pa.Table:
    stop = start + batch.num_rows
    table = pa.Table.from_batches([batch])
    table = table.append_column(FILE, pa.array(np.full(batch.num_rows, file, dtype=np.int64)))
    table = table.append_column(PLACES, pa.array(np.arange(start, stop, dtype=np.int64)))
    return table.append_column(TAKES_PART, pa.array(takes_part[start:stop]))


def _flushed(held: dict[int, list[pa.Table]], packer: Packer) -> Iterator[Pack]:
    for part, tables in held.items():
        for count, data in packer.pieces(pa.concat_tables(tables).combine_chunks()):
            yield Pack(part, Kind.KEYS, 0, count, data)
