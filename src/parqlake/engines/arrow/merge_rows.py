"""What becomes of the rows of one file: batch by batch, with the source's rows in the places of those they match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.merging.conforming import partition_constants
from parqlake.core.merging.model import MergeRule, MergeStrategy, MergeTarget, TargetFile
from parqlake.engines.arrow.merge_keys import Codes
from parqlake.engines.arrow.merge_output import InsertedRows, MergedFile, MergeOutput
from parqlake.engines.arrow.read_ahead import read_ahead
from parqlake.engines.arrow.rewrite_output import give_back

Replacements = Callable[[int, int], tuple[Codes, pa.Table]]
"""For the file's rows from one number up to another: which of them match, counted from the first, and with what."""
Mask = npt.NDArray[np.bool_]
_AHEAD_BYTES = 4 * 1024 * 1024
"""Rows are decoded and merged in one thread, and encoded in another."""


class FileRewriter:
    """Writes files again with the rows that a merge leaves in them."""

    def __init__(
        self, target: MergeTarget, rule: MergeRule, schema: pa.Schema, output: MergeOutput, inserted: InsertedRows
    ) -> None:
        """Takes where the rows go; `schema` is the working one."""
        self._target = target
        self._rule = rule
        self._schema = schema
        self._output = output
        self._inserted = inserted
        self.movable = can_move(target, rule)
        """Whether an update can change the partition of a row."""

    def rewrite(
        self,
        file: TargetFile,
        batches: Iterable[pa.RecordBatch],
        replacements: Replacements,
        kept: Mask | None = None,
    ) -> None:
        """Writes the file again; rows that belong to another partition now are inserted there.

        Args:
            file: the old one.
            batches: its rows.
            replacements: what comes in the place of some.
            kept: which of its rows stay; None: those that the rule's strategy says.
        """
        new = self._output.replacement(file)
        rows = self._merged(batches, replacements, kept)
        try:
            with closing(read_ahead(rows, max_bytes=_AHEAD_BYTES)) as ahead:
                for changed in ahead:
                    self.put(file, new, changed)
            new.close()
        except BaseException:
            new.abandon()
            raise
        give_back()

    def put(self, file: TargetFile, new: MergedFile, rows: pa.RecordBatch | pa.Table) -> None:
        """Writes rows that were merged already."""
        if self.movable and rows.num_rows:
            stays = self._stays(file, rows)
            if not pc.all(stays).as_py():
                self._inserted.write(rows.filter(pc.invert(stays)))
                rows = rows.filter(stays)
        if rows.num_rows:
            new.write(rows)

    def _merged(
        self, batches: Iterable[pa.RecordBatch], replacements: Replacements, kept: Mask | None
    ) -> Iterator[pa.RecordBatch | pa.Table]:
        start = 0
        for batch in batches:
            stop = start + batch.num_rows
            places, rows = replacements(start, stop)
            if kept is None:
                yield merged(batch, places, rows, self._rule)
            else:
                yield merged(batch, places, rows, self._rule, delete=False).filter(pa.array(kept[start:stop]))
            start = stop

    def _stays(self, file: TargetFile, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        stays = pa.array(np.ones(rows.num_rows, dtype=bool))
        for name, value in partition_constants(file.partition, self._schema).items():
            column = rows.column(name)
            same = pc.is_null(column) if not value.is_valid else pc.fill_null(pc.equal(column, value), False)
            stays = pc.and_(same, stays)
        return stays.combine_chunks() if isinstance(stays, pa.ChunkedArray) else stays


def rewriting(rule: MergeRule) -> MergeRule:
    """The rule by which files are written again.

    Clauses may set key columns too, so that for them no column is known to keep a row in its partition.
    """
    if rule.clauses is None:
        return rule
    return MergeRule((), MergeStrategy.UPDATE, update_columns=rule.clauses.changed_columns)


def can_move(target: MergeTarget, rule: MergeRule) -> bool:
    """Whether an update can change the partition that a row belongs to."""
    changed = target.spec.schema.names if rule.update_columns is None else rule.update_columns
    return any(name in changed and name not in rule.keys for name in target.spec.partition_by)


def merged(
    batch: pa.RecordBatch, places: Codes, rows: pa.Table, rule: MergeRule, *, delete: bool | None = None
) -> pa.RecordBatch | pa.Table:
    """The batch with source rows at the places given; without the other rows, if those are deleted.

    Whether they are is what the rule's strategy says, unless it is given.
    """
    delete = rule.strategy.deletes if delete is None else delete
    if not len(places):
        return batch.slice(0, 0) if delete else batch
    count = batch.num_rows
    own = np.arange(count)
    taken = own.copy()
    taken[places] = count + np.arange(len(places))
    if delete:
        own, taken = own[places], taken[places]
    columns = []
    for field in batch.schema:
        column = batch.column(field.name)
        if rule.update_columns is None or field.name in rule.update_columns:
            both = pa.concat_arrays([column, *rows.column(field.name).chunks])
            columns.append(both.take(pa.array(taken)))
        else:
            columns.append(column.take(pa.array(own)) if delete else column)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
