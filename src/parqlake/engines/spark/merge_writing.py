"""Files that a merge on Spark writes: tasks over files, each with the source rows that it needs, and new rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parqlake.core.merging.model import AddedFile
from parqlake.core.schema import field_id
from parqlake.core.statistics import describe_file
from parqlake.core.wire import encode
from parqlake.engines.arrow.merge_keys import Codes
from parqlake.engines.arrow.merge_output import InsertedRows, MergeOutput
from parqlake.engines.arrow.merge_rows import FileRewriter, rewriting
from parqlake.engines.spark.merge_matching import PLACES, Kind, MatchPlan
from parqlake.engines.spark.packing import Pack, Packer, unpacked
from parqlake.engines.spark.reports import Record, reported

_OUTPUT_SHARE = 8


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Writes the files whose packs one Spark partition holds, sorted by where they go and by place."""

    plan: MatchPlan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives one record for each new file."""
        yield from reported(partial(self._written, unpacked(batches)))

    def _written(self, packs: Iterator[Pack]) -> list[Record]:
        plan = self.plan
        assert plan.target.worker_path is not None
        target = replace(plan.target, new_path=plan.target.worker_path)
        output = MergeOutput(target, memory_bytes=plan.memory_bytes)
        inserted = InsertedRows(output, plan.schema, memory_bytes=plan.memory_bytes // _OUTPUT_SHARE)
        rewriter = FileRewriter(target, rewriting(plan.rule), plan.schema, output, inserted)
        rows, hits = Packer(plan.schema), Packer(plan.hit_schema)
        try:
            for dest, own in itertools.groupby(packs, key=lambda pack: pack.dest):
                if dest < plan.first_insert:
                    found = (pack for pack in own if pack.kind in (Kind.HITS, Kind.DELETES))
                    self._rewrite(dest, _Replacements(found, hits, plan), rewriter)
                    continue
                for pack in own:
                    assert pack.kind == Kind.INSERTS
                    inserted.write(rows.unpack(pack.rows))
            inserted.close()
            return [self._record(file) for file in output.finish()]
        except BaseException:
            inserted.abandon()
            output.abandon()
            raise

    def _rewrite(self, number: int, replacements: _Replacements, rewriter: FileRewriter) -> None:
        reader = self.plan.reader(number)
        (candidate,) = reader.candidates(self.plan.bounds)
        if self.plan.rule.clauses is not None:
            replacements.kept = np.ones(candidate.file.row_count, dtype=np.bool_)
        elif self.plan.deletes_some:
            replacements.kept = ~reader.takes_part(candidate)
        rewriter.rewrite(candidate.file, reader.rows(candidate), replacements, replacements.kept)

    def _record(self, file: AddedFile) -> Record:
        spec, schema = self.plan.target.spec, self.plan.target.file_schema
        described = None
        if all(field_id(field) >= 0 for field in schema):
            own = file.path.removeprefix(f"{spec.location}/")
            found = describe_file(
                own,
                file.size_bytes,
                file.metadata,
                schema,
                partition=file.partition,
                nans=file.nans,
                keep_footer=not self.plan.target.store.is_local,
            )
            described = encode(found)
        return {
            "path": file.path,
            "rows": file.row_count,
            "size": file.size_bytes,
            "partition": dict(file.partition),
            "replaces": file.replaces,
            "described": described,
        }


class _Replacements:
    """Source rows for the rows of one file, span after span, as the packs come; a span or two are held at a time."""

    def __init__(self, packs: Iterator[Pack], packer: Packer, plan: MatchPlan) -> None:
        self._packs = packs
        self._packer = packer
        self._names = [name for name in plan.hit_schema.names if name != PLACES]
        self._span_rows = plan.span_rows
        self._next = next(packs, None)
        self._held: dict[int, tuple[Codes, pa.Table] | None] = {}
        self.kept: npt.NDArray[np.bool_] | None = None
        """Which rows stay, if that is not for the strategy alone to say; those that are replaced do."""

    def __call__(self, start: int, stop: int) -> tuple[Codes, pa.Table]:
        """Which of the rows are replaced, counted from the first, and by what."""
        first, last = start // self._span_rows, max(start, stop - 1) // self._span_rows
        self._held = {span: held for span, held in self._held.items() if span >= first}
        found = []
        for span in range(first, last + 1):
            if span not in self._held:
                self._held[span] = self._read(span)
            held = self._held[span]
            if held is not None:
                one, end = np.searchsorted(held[0], [start, stop])
                found.append((held[0][one:end] - start, held[1].slice(one, end - one)))
        if not found:
            return np.empty(0, dtype=np.int64), pa.table({})
        places = np.concatenate([places for places, _ in found])
        if self.kept is not None:
            self.kept[start + places] = True
        return places, pa.concat_tables([rows for _, rows in found])

    def _read(self, span: int) -> tuple[Codes, pa.Table] | None:
        tables: list[pa.Table] = []
        while self._next is not None and self._next.place == span:
            if self._next.kind == Kind.DELETES:
                assert self.kept is not None
                self.kept[np.frombuffer(self._next.rows, dtype=np.int64)] = False
            else:
                tables.append(self._packer.unpack(self._next.rows))
            self._next = next(self._packs, None)
        if not tables:
            return None
        table = pa.concat_tables(tables)
        lists: Any = table.column(PLACES).combine_chunks()
        places = lists.flatten().to_numpy()
        order = np.argsort(places)
        parents = np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))
        return places[order], table.select(self._names).take(pa.array(parents[order]))
