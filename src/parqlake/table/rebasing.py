"""New rows whose table got other columns while they were written: written again under the newest schema.

That is what they would be had they been committed first and the columns changed afterwards: columns are found by their
ids, new ones hold their default, dropped ones are gone. Constraints that came meanwhile are checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from parqlake.core.errors import ConcurrentSchemaChangeError
from parqlake.core.evolution.projection import Projection
from parqlake.core.model import DataFile, Head, Operation, TableInfo
from parqlake.core.ports import BatchCheck, ReadPlan
from parqlake.table.context import LakeContext
from parqlake.table.options import WriteOptions, write_spec
from parqlake.table.planning import planned_staged
from parqlake.table.sources import open_source
from parqlake.table.target import Target
from parqlake.table.unit import Unit
from parqlake.table.write_schemas import Fitted

_MOVABLE = (Operation.EVOLVE, Operation.APPEND)
"""Commits that may change the schema and that leave the rows of others alone: it does not matter who came first."""


def rows_now(
    context: LakeContext,
    unit: Unit,
    now: Target,
    fit: Fitted,
    files: tuple[DataFile, ...],
    *,
    options: WriteOptions,
    checks: Sequence[BatchCheck] = (),
) -> tuple[DataFile, ...]:
    """The files of new rows as they are to be committed: those that were written, unless the schema has changed since.

    Raises:
        ConcurrentSchemaChangeError: the write changes the schema too, or others did more than to change it.
        ConstraintError: the rows break a constraint that came meanwhile.
    """
    written = fit.target
    if now.head.schema_id == written.head.schema_id:
        return files
    if fit.new_schema is not None:
        raise ConcurrentSchemaChangeError(
            f"the schema of {now.info.name} was changed by two at once, of whom this write was the second; repeat it"
        )
    check_only_evolved(context, now.info, written.head, now.head)
    staged = tuple(planned_staged(now.info, file) for file in files)
    same = Projection(written.schema, now.schema).is_identity
    stored = {} if same else {file.schema_id: written.schema for file in staged}
    rows = context.reader.batches(ReadPlan(now.schema, staged, file_schemas=stored), context.store)
    source = open_source(rows, now.schema, now.engine, checks=checks)
    spec = write_spec(now.info, now.schema, options, txn_id=unit.txn_id, evolves=True)
    return tuple(unit.write(source, spec, now.engine))


def check_only_evolved(context: LakeContext, info: TableInfo, base: Head, head: Head) -> None:
    """Raises unless rows that were prepared on `base` could have been committed before the schema changed.

    A restore that brings other columns back, or an overwrite that brings its own, would have taken those rows away.
    """
    if head.schema_id == base.schema_id:
        return
    with context.catalog.read() as reader:
        found = reader.snapshots(info.table_id, after=base.version)
        found += reader.expired_snapshots(info.table_id, after=base.version)
    schema_id = base.schema_id
    for snapshot in sorted(found, key=lambda snapshot: snapshot.version):
        if snapshot.schema_id != schema_id and snapshot.operation not in _MOVABLE:
            raise ConcurrentSchemaChangeError(
                f"version {snapshot.version} of {info.name}, a {snapshot.operation}, brought another schema while rows "
                "were written by the old one; repeat the operation"
            )
        schema_id = snapshot.schema_id
