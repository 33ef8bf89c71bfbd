"""Merge: source rows meet table rows by key; only files that hold a match are written again.

The strategies of `MergeStrategy` are carried out here, and what SQL's MERGE says with clauses of its own. Both come to
the same steps, with another rule for what a match does: choose files, have the engine merge into them, commit what it
made of them together with what was looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
import uuid_utils

from parqlake.core.conflicts import ReadSet
from parqlake.core.errors import InvalidOptionError
from parqlake.core.merging import (
    AddedFile,
    MergeCounts,
    MergeOutcome,
    MergeRule,
    MergeStrategy,
    MergeTarget,
    check_merge_options,
    merge_rule,
)
from parqlake.core.merging.bounds import bounded, bounds_predicate
from parqlake.core.merging.clause_binding import AskedMerge
from parqlake.core.merging.memory import memory_bytes
from parqlake.core.merging.port import MergingEngine
from parqlake.core.model import DataFile, FileEntry, Operation, TableInfo
from parqlake.core.ports import Engine, WriteSpec, WrittenFile
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.tree import TRUE, Constant, Predicate
from parqlake.core.statistics import describe_file
from parqlake.table.commit import TableChange
from parqlake.table.context import LakeContext
from parqlake.table.deleting import CONFLICTS
from parqlake.table.merge_source import ClauseFrame, ClauseRows, MergeRows, StreamRows, open_clause_rows, open_rows
from parqlake.table.merge_target import Chosen, View, choose_files
from parqlake.table.options import WriteOptions, write_spec
from parqlake.table.rebasing import check_only_evolved
from parqlake.table.rerunning import commit_rerunning
from parqlake.table.result import BYTES_REWRITTEN, MergeResult, merge_result
from parqlake.table.target import Target
from parqlake.table.unit import Unit
from parqlake.table.writes import Call, Work, execute

_BATCH_ROWS = 65_536
_TO_THE_CALLER = 9
"""From where the engine is called to who called `Table.merge`: whom warnings point at."""


@dataclass(frozen=True, slots=True)
class MergeCall:
    """What a call to `merge` asks for, as far as it can be checked without a table."""

    rule: MergeRule
    where: Predicate
    memory_bytes: int
    clauses: AskedMerge | None = None
    """What is done instead of what the rule says."""

    def rule_for(self, schema: pa.Schema) -> MergeRule:
        """The rule, its predicate bound to the schema."""
        where = bind(self.where, schema)
        return replace(self.rule, where=None if where == TRUE else where)


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge made, ready to be committed."""

    remove: tuple[FileEntry, ...]
    staged: tuple[DataFile, ...]
    """Files of the same transaction that stay."""
    add: tuple[DataFile, ...]
    counts: MergeCounts
    reads: ReadSet
    carried_rows: int
    bytes_rewritten: int

    @property
    def changed(self) -> bool:
        """Whether any row was."""
        return bool(self.counts.inserted or self.counts.updated or self.counts.deleted)


def merge_call(
    *,
    on: Sequence[str] | str,
    strategy: str,
    dedup_order_by: Sequence[str] | str | None,
    update_columns: Sequence[str] | None,
    where: Any,
    memory_limit: int | str | None,
) -> MergeCall:
    """Checks what a call asks for; raises `InputError` for what makes no sense."""
    rule = merge_rule(on, strategy, dedup_order_by=dedup_order_by, update_columns=update_columns)
    memory = memory_bytes(memory_limit)
    check_merge_options(compression="zstd", memory_bytes=memory, batch_rows=_BATCH_ROWS)
    return MergeCall(rule, parse(where), memory)


def clause_call(asked: AskedMerge, *, memory_limit: int | str | None) -> MergeCall:
    """A call that says by clauses what to do."""
    return MergeCall(MergeRule((), MergeStrategy.UPSERT), TRUE, memory_bytes(memory_limit), asked)


def merge(
    context: LakeContext, info: TableInfo, source: Any, asked: MergeCall, *, call: Call, options: WriteOptions
) -> MergeResult:
    """Merges rows into the table as one new version; worked out again if others changed the same keys."""

    def prepare(target: Target) -> Work:
        rows = opened(source, asked, target.schema, target.engine)

        def work(unit: Unit) -> None:
            def attempt(now: Target) -> TableChange:
                if isinstance(rows, StreamRows):  # which were read by the columns that there were
                    check_only_evolved(context, now.info, target.head, now.head)
                view = View(now.info, now.head, now.schema)
                spec = write_spec(now.info, now.schema, options, txn_id=unit.txn_id)
                made = merge_rows(context, unit, view, rows, asked, engine=now.engine, spec=spec)
                counts = {name: value for name, value in made.counts.to_dict().items() if name != "total"}
                return TableChange(
                    now.info,
                    now.head,
                    Operation.MERGE,
                    add=made.add,
                    remove=made.remove,
                    carried_rows=made.carried_rows,
                    reads=made.reads,
                    summary={**counts, BYTES_REWRITTEN: made.bytes_rewritten},
                    writes=made.changed,
                )

            try:
                commit_rerunning(context, unit, target, attempt, conflicts=CONFLICTS)
            finally:
                rows.close()

        return work

    return execute(context, info, prepare, data=source, call=call, options=options, told=merge_result)


def opened(source: Any, asked: MergeCall, schema: pa.Schema, engine: Engine) -> MergeRows:
    """Opens the source, and raises if it does not fit the table or the engine cannot merge; nothing is read yet."""
    if not hasattr(engine, "merge"):
        raise InvalidOptionError(f'engine="{engine.name}" cannot merge; use "pyarrow", "duckdb" or "spark"')
    if asked.clauses is not None:
        return open_clause_rows(source, asked.clauses, schema, engine, memory_bytes=asked.memory_bytes)
    return open_rows(source, asked.rule_for(schema), schema, engine, memory_bytes=asked.memory_bytes)


def merge_rows(
    context: LakeContext,
    unit: Unit,
    view: View,
    rows: MergeRows,
    asked: MergeCall,
    *,
    engine: Engine,
    spec: WriteSpec,
    stacklevel: int = _TO_THE_CALLER,
) -> Merged:
    """Prepares a merge on what the view shows: new files are written, nothing is committed.

    Raises:
        InputError: rows of the source do not fit; nothing was written.
    """
    rule = rows.rule(view.schema) if isinstance(rows, ClauseRows | ClauseFrame) else asked.rule_for(view.schema)
    found = rows.read()
    sought = None if found is None else found.predicate(view.schema)
    with context.catalog.read() as reader:
        chosen = choose_files(reader, view, rule, sought)
        snapshot = reader.snapshot(view.info.table_id, view.head.version) if view.head.version else None

    def counted_path(folder: str) -> str:
        unit.report.advance()
        return new_path(folder)

    unit.report.expect(None, "files", f"of {len(chosen.files):,} that may hold a match")
    target = MergeTarget(
        store=context.store,
        files=chosen.files,
        spec=replace(spec, file_visitor=None),
        new_path=counted_path,
        keep_schema=False,
        worker_path=new_path,
    )
    merging = cast("MergingEngine", engine)
    outcome = merging.merge(
        rows.reader(view.schema), target, rule, memory_bytes=asked.memory_bytes, stacklevel=stacklevel + 1
    )
    unit.track(file.path for file in outcome.added)
    _show(outcome.added, spec, context)
    visible = 0 if snapshot is None or view.replaced_all else snapshot.row_count
    return _merged(outcome, chosen, view, rule, sought, visible_rows=visible, far=not context.store.is_local)


def new_path(folder: str) -> str:
    """The path of a new file in the folder; no two calls give the same, in whatever process."""
    return f"{folder}/part-{uuid_utils.uuid7()}.parquet"


def _merged(
    outcome: MergeOutcome,
    chosen: Chosen,
    view: View,
    rule: MergeRule,
    sought: Predicate | None,
    *,
    visible_rows: int,
    far: bool,
) -> Merged:
    gone = {file.path for file in outcome.removed}
    remove = (*chosen.whole, *(entry for path, entry in chosen.entries.items() if path in gone))
    deleted = outcome.counts.deleted + sum(entry.row_count for entry in chosen.whole)
    inserted, updated = outcome.counts.inserted, outcome.counts.updated
    before = sum(entry.row_count for entry in remove)
    total = visible_rows + sum(file.row_count for file in view.staged) + inserted - deleted
    location = view.info.location
    return Merged(
        remove=remove,
        staged=tuple(file for file in view.staged if f"{location}/{file.path}" not in gone),
        add=tuple(_data_file(file, location, view.schema, far=far) for file in outcome.added),
        counts=MergeCounts(inserted, updated, deleted, total),
        reads=_reads(outcome, view, rule, sought),
        carried_rows=max(0, before - updated - deleted),  # exact, unless files of the same transaction take part
        bytes_rewritten=sum(file.size_bytes for file in outcome.added if file.replaces is not None),
    )


def _reads(outcome: MergeOutcome, view: View, rule: MergeRule, sought: Predicate | None) -> ReadSet:
    """What was looked for, found or not: an insert must not meet another one of the same key."""
    if sought is None:
        countable = all(bounded(view.schema.field(name).type) for name in rule.keys)
        bounds = dict(outcome.key_bounds)
        sought = bounds_predicate(bounds, view.schema, any_rows=bool(bounds) or not countable)
    predicates = [sought] if sought != Constant(False) else []
    if rule.strategy.deletes:
        predicates.append(TRUE if rule.where is None else rule.where)
    return ReadSet(tuple(predicates))


def _data_file(file: AddedFile, location: str, schema: pa.Schema, *, far: bool) -> DataFile:
    if file.data_file is not None:
        return file.data_file
    path = file.path.removeprefix(f"{location}/")
    return describe_file(
        path, file.size_bytes, file.metadata, schema, partition=file.partition, nans=file.nans, keep_footer=far
    )


def _show(files: Sequence[AddedFile], spec: WriteSpec, context: LakeContext) -> None:
    """Tells the caller's visitor of new files, before they are committed."""
    if spec.file_visitor is None:
        return
    for file in files:
        metadata = file.metadata
        if metadata is None:  # another process wrote it
            import pyarrow.parquet as pq  # loads pandas, and hardly anybody asks

            filesystem = context.store.arrow_filesystem()
            metadata = pq.read_metadata(context.store.full_path(file.path), filesystem=filesystem)
        spec.file_visitor(WrittenFile(file.path.removeprefix(f"{spec.location}/"), metadata, file.size_bytes))
