"""Which rows of which files match: against a source in memory at once, else part by part through local disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parqlake.core.merging.model import MergeRule
from parqlake.engines.arrow.merge_files import BATCH_ROWS, Candidate, TargetReader
from parqlake.engines.arrow.merge_keys import Codes, key_arrays
from parqlake.engines.arrow.merge_rows import Mask, Replacements
from parqlake.engines.arrow.merge_source import MergeSource, SourcePart, split
from parqlake.engines.arrow.spill import Piece, SpillFile

_FILE, _ROW = "parqlake_file", "parqlake_row"
_SPAN = BATCH_ROWS


@dataclass(frozen=True, slots=True)
class Match:
    """A file, how many of its rows match, and with what."""

    candidate: Candidate
    count: int
    """Of those that may be changed."""
    replacements: Replacements
    kept: Mask | None = None
    """Which rows stay, if some are deleted by a predicate."""


def match_in_memory(
    part: SourcePart, candidates: list[Candidate], reader: TargetReader, rule: MergeRule, seen: list[Codes]
) -> Iterator[Match]:
    """Looks up the keys of the files, several small files at a time; notes in `seen` which source rows were found."""
    group: list[tuple[Candidate, pa.Table]] = []
    rows = 0
    for candidate in candidates:
        group.append((candidate, reader.keys(candidate)))
        rows += group[-1][1].num_rows
        if rows >= max(BATCH_ROWS, part.rows.num_rows):
            yield from _matches(part, group, reader, rule, seen)
            group, rows = [], 0
    yield from _matches(part, group, reader, rule, seen)


def _matches(
    part: SourcePart,
    group: list[tuple[Candidate, pa.Table]],
    reader: TargetReader,
    rule: MergeRule,
    seen: list[Codes],
) -> Iterator[Match]:
    if not group:
        return
    keys = pa.concat_tables([table for _, table in group])
    found = part.find(key_arrays(keys, rule.keys))
    seen.append(np.unique(found[found >= 0]))
    start = 0
    for candidate, table in group:
        own = found[start : start + table.num_rows]
        start += table.num_rows
        kept = None
        if rule.where is not None:
            takes_part = reader.takes_part(candidate)
            kept = ~takes_part | (own >= 0) if rule.strategy.deletes else None
            own = np.where(takes_part, own, -1)
        yield Match(candidate, int(np.count_nonzero(own >= 0)), _from_memory(part, own), kept)


def _from_memory(part: SourcePart, found: Codes) -> Replacements:
    def replacements(start: int, stop: int) -> tuple[Codes, pa.Table]:
        places, rows = part.pairs(found[start:stop])
        return places, part.rows.take(pa.array(rows))

    return replacements


class PartedMatching:
    """Matches a source in parts: the target's keys are taken apart by the same hash, and read once."""

    def __init__(self, source: MergeSource, rule: MergeRule, schema: pa.Schema, spill_folder: str | None) -> None:
        """Opens nothing yet; `schema` is the working one."""
        self._source = source
        self._rule = rule
        places = [pa.field(_FILE, pa.int64()), pa.field(_ROW, pa.int64())]
        keys = [schema.field(name).with_nullable(True) for name in rule.keys]
        self._keys = SpillFile(pa.schema([*keys, *places]), spill_folder)
        self._found = SpillFile(pa.schema([*schema, *places]), spill_folder)
        self._names = schema.names
        self._key_pieces: dict[int, list[Piece]] = {}
        self._found_pieces: dict[tuple[int, int], list[Piece]] = {}
        self._counts: dict[int, int] = {}
        self._taking_part: dict[int, Mask] = {}
        self._kept: dict[int, Mask] = {}

    def read_keys(self, candidates: list[Candidate], reader: TargetReader) -> None:
        """Takes the keys of all files apart."""
        for number, candidate in enumerate(candidates):
            if self._rule.where is not None:  # a byte for each row is held
                self._taking_part[number] = reader.takes_part(candidate)
                if self._rule.strategy.deletes:
                    self._kept[number] = ~self._taking_part[number]
            start = 0
            for batch in reader.key_batches(candidate):
                table = pa.Table.from_batches([batch])
                rows = pa.array(np.arange(start, start + batch.num_rows))
                start += batch.num_rows
                table = table.append_column(_FILE, pa.array(np.full(batch.num_rows, number)))
                table = _with_keys(table.append_column(_ROW, rows), self._rule)
                parts = self._source.part_numbers(key_arrays(table, self._rule.keys))
                for part, own in split(table, parts):
                    self._key_pieces.setdefault(part, []).extend(self._keys.write(own))

    def match(self, number: int, part: SourcePart) -> Codes:
        """Looks up the keys of one part; puts the source rows that replace others aside; returns those found."""
        seen: list[Codes] = [np.empty(0, dtype=np.int64)]
        waiting: list[pa.RecordBatch] = []
        rows = 0
        pieces = self._key_pieces.pop(number, [])
        for count, piece in enumerate(pieces, start=1):
            waiting.append(self._keys.read(piece))
            rows += waiting[-1].num_rows
            if rows >= max(BATCH_ROWS, part.rows.num_rows) or count == len(pieces):
                seen.append(self._look_up(pa.Table.from_batches(waiting), part))
                waiting, rows = [], 0
        return np.unique(np.concatenate(seen))

    def matches(self, candidates: list[Candidate]) -> Iterator[Match]:
        """The files, once all parts were matched."""
        for number, candidate in enumerate(candidates):
            yield Match(candidate, self._counts.get(number, 0), self._from_disk(number), self._kept.get(number))

    def close(self) -> None:
        """Deletes what was put aside."""
        self._keys.close()
        self._found.close()

    def _look_up(self, keys: pa.Table, part: SourcePart) -> Codes:
        found = part.find(key_arrays(keys, self._rule.keys))
        hits, codes = part.pairs(found)
        files = keys.column(_FILE).to_numpy()[hits]
        rows = keys.column(_ROW).to_numpy()[hits]
        if self._rule.where is not None:
            files, rows, codes = self._of_those_taking_part(files, rows, codes)
        for file, count in zip(*np.unique(files, return_counts=True), strict=True):
            self._counts[int(file)] = self._counts.get(int(file), 0) + int(count)
        if self._rule.strategy.updates:
            self._put_aside(files, rows, codes, part)
        return found[hits]

    def _of_those_taking_part(self, files: Codes, rows: Codes, codes: Codes) -> tuple[Codes, Codes, Codes]:
        """Hits among rows that may be changed; notes that the others stay too."""
        mask = np.zeros(len(files), dtype=np.bool_)
        for file in np.unique(files).tolist():
            own = np.flatnonzero(files == file)
            mask[own] = self._taking_part[file][rows[own]]
            if file in self._kept:
                self._kept[file][rows[own]] = True
        return files[mask], rows[mask], codes[mask]

    def _put_aside(self, files: Codes, rows: Codes, found: Codes, part: SourcePart) -> None:
        # In slices: a target that holds a key a thousand times needs its row a thousand times, though not at once.
        order = np.lexsort((rows, files))
        for start in range(0, len(order), _SPAN):
            own = order[start : start + _SPAN]
            table = part.rows.take(pa.array(found[own]))
            table = table.append_column(_FILE, pa.array(files[own]))
            table = table.append_column(_ROW, pa.array(rows[own]))
            spans = rows[own] // _SPAN
            places = files[own] * (int(spans.max()) + 1) + spans
            for _, piece in split(table, places):
                key = (piece.column(_FILE)[0].as_py(), piece.column(_ROW)[0].as_py() // _SPAN)
                self._found_pieces.setdefault(key, []).extend(self._found.write(piece))

    def _from_disk(self, file: int) -> Replacements:
        held: dict[int, pa.Table] = {}

        def span(number: int) -> pa.Table:
            if number not in held:
                held.clear()
                batches = [self._found.read(piece) for piece in self._found_pieces.get((file, number), [])]
                held[number] = pa.Table.from_batches(batches).sort_by(_ROW) if batches else None
            return held[number]

        def replacements(start: int, stop: int) -> tuple[Codes, pa.Table]:
            places: list[Codes] = [np.empty(0, dtype=np.int64)]
            tables = []
            for number in range(start // _SPAN, (max(stop, start + 1) - 1) // _SPAN + 1):
                table = span(number)
                if table is None:
                    continue
                rows = table.column(_ROW).to_numpy()
                first, last = np.searchsorted(rows, [start, stop])
                places.append(rows[first:last] - start)
                tables.append(table.slice(first, last - first).select(self._names))
            return np.concatenate(places), pa.concat_tables(tables) if tables else pa.table({})

        return replacements


def _with_keys(table: pa.Table, rule: MergeRule) -> pa.Table:
    """The rows without a NULL among their keys: the others match nothing."""
    return table.drop_null() if any(table.column(name).null_count for name in rule.keys) else table
