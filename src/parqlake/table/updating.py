"""Update: columns of the rows that a predicate selects get new values, by copy-on-write of the files that hold them."""

from __future__ import annotations

from typing import Any

from parqlake.core.model import Operation, TableInfo
from parqlake.core.predicates import bind
from parqlake.core.updating import row_change
from parqlake.table.commit import TableChange
from parqlake.table.context import LakeContext
from parqlake.table.deleting import CONFLICTS, change_of, parsed_where
from parqlake.table.options import WriteOptions, write_spec
from parqlake.table.removal import change_rows
from parqlake.table.rerunning import commit_rerunning
from parqlake.table.result import UpdateResult, update_result
from parqlake.table.target import Target
from parqlake.table.unit import Unit
from parqlake.table.writes import Call, Work, execute


def update(
    context: LakeContext, info: TableInfo, where: Any, assignments: Any, *, call: Call, options: WriteOptions
) -> UpdateResult:
    """Sets columns of the rows that `where` selects."""
    parsed = parsed_where(where, "update")

    def prepare(target: Target) -> Work:
        row_change(assignments, bind(parsed, target.schema), target.schema)

        def work(unit: Unit) -> None:
            def attempt(now: Target) -> TableChange:
                changed = change_rows(
                    context,
                    unit,
                    now.info,
                    head=now.head,
                    schema=now.schema,
                    change=row_change(assignments, bind(parsed, now.schema), now.schema),
                    spec=write_spec(now.info, now.schema, options, txn_id=unit.txn_id),
                    engine=now.engine,
                )
                return change_of(now, changed, Operation.UPDATE, "updated")

            commit_rerunning(context, unit, target, attempt, conflicts=CONFLICTS)

        return work

    return execute(context, info, prepare, call=call, options=options, told=update_result)
