"""Delete: the rows that a predicate selects go, files that hold no other row without being read."""

from __future__ import annotations

from typing import Any

from parqlake.core.errors import ConcurrentSchemaChangeError, InvalidOptionError
from parqlake.core.model import Operation, TableInfo
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.tree import Predicate
from parqlake.table.commit import TableChange
from parqlake.table.context import LakeContext
from parqlake.table.options import WriteOptions, write_spec
from parqlake.table.removal import Removal, remove_rows
from parqlake.table.rerunning import ROW_CONFLICTS, commit_rerunning
from parqlake.table.result import BYTES_REWRITTEN, DeleteResult, delete_result
from parqlake.table.target import Target
from parqlake.table.unit import Unit
from parqlake.table.writes import Call, Work, execute

CONFLICTS = (*ROW_CONFLICTS, ConcurrentSchemaChangeError)
"""What a change by predicate is worked out again for: all of it is read anew, columns too."""


def parsed_where(where: Any, call: str) -> Predicate:
    """The predicate of a call that must say which rows it means."""
    if where is None:
        raise InvalidOptionError(f'{call} needs to know which rows: give a predicate, or where="true" for all')
    return parse(where)


def delete(context: LakeContext, info: TableInfo, where: Any, *, call: Call, options: WriteOptions) -> DeleteResult:
    """Removes the rows that `where` selects."""
    parsed = parsed_where(where, "delete")

    def prepare(target: Target) -> Work:
        bind(parsed, target.schema)

        def work(unit: Unit) -> None:
            def attempt(now: Target) -> TableChange:
                removal = remove_rows(
                    context,
                    unit,
                    now.info,
                    head=now.head,
                    schema=now.schema,
                    predicate=bind(parsed, now.schema),
                    spec=write_spec(now.info, now.schema, options, txn_id=unit.txn_id),
                    engine=now.engine,
                )
                return change_of(now, removal, Operation.DELETE, "deleted")

            commit_rerunning(context, unit, target, attempt, conflicts=CONFLICTS)

        return work

    return execute(context, info, prepare, call=call, options=options, told=delete_result)


def change_of(target: Target, removal: Removal, operation: Operation, counted: str) -> TableChange:
    """What is to be committed.

    Where no row was selected there is no new version, but it is still checked that no such row came meanwhile.
    """
    rewritten = sum(file.size_bytes for file in removal.add)
    return TableChange(
        target.info,
        target.head,
        operation,
        add=removal.add,
        remove=removal.remove,
        carried_rows=removal.carried_rows,
        reads=removal.reads,
        summary={counted: removal.rows, BYTES_REWRITTEN: rewritten},
        writes=bool(removal.rows),
    )
