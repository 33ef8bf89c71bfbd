"""Changing a table's schema: one commit that touches no file, worked out again if another commit came between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from parqlake.core.conflicts import ReadSet
from parqlake.core.errors import ConcurrentSchemaChangeError, ConstraintError
from parqlake.core.evolution.changes import Base, Name
from parqlake.core.evolution.constraints import SHOWN_ROWS, Check, check_conditions_hold, check_rows, shown_rows
from parqlake.core.evolution.paths import field_at, locate, replaced, shown
from parqlake.core.model import Head, Operation, TableInfo
from parqlake.core.predicates import bind
from parqlake.core.predicates.tree import TRUE, And, Column, IsNull, Predicate
from parqlake.table.commit import TableChange
from parqlake.table.context import LakeContext
from parqlake.table.rerunning import ROW_CONFLICTS, commit_rerunning
from parqlake.table.result import WriteResult
from parqlake.table.scan import Scan, ScanRequest
from parqlake.table.target import Target
from parqlake.table.write_schemas import base_of
from parqlake.table.writes import Call, Work, run

Change = Callable[[Base], pa.Schema]
"""From the schema that there is to the one that is wanted; raises if that is unsound."""


@dataclass(frozen=True, slots=True)
class Now:
    """The table as a change finds it."""

    context: LakeContext
    info: TableInfo
    head: Head
    schema: pa.Schema

    def scan(self, predicate: Predicate, *, limit: int | None = None) -> Scan:
        """A scan of this version."""
        request = ScanRequest(self.info, self.head.version, self.schema, predicate, limit=limit)
        return Scan(self.context, request)


Proof = Callable[[Now], ReadSet]
"""Looks at the rows that are there, raises if they stand in the way, and returns what it relied on."""


def evolve(
    context: LakeContext, info: TableInfo, change: Change, *, proof: Proof | None = None, message: str | None = None
) -> WriteResult:
    """Changes the schema in one commit, and returns the version that has it."""

    def attempt(target: Target) -> TableChange:
        new = _evolved(context, target, change)
        reads = ReadSet() if proof is None else proof(Now(context, target.info, target.head, target.schema))
        return TableChange(target.info, target.head, Operation.EVOLVE, data_change=False, schema=new, reads=reads)

    def prepare(target: Target) -> Work:
        _evolved(context, target, change)  # what is wrong is found before anything is done
        return lambda unit: commit_rerunning(
            context, unit, target, attempt, conflicts=(*ROW_CONFLICTS, ConcurrentSchemaChangeError)
        )

    return run(context, info, prepare, call=Call(Operation.EVOLVE, None, message, None), options={})


def no_rows(name: Name) -> Proof:
    """Proves that the table is empty, so that a column which must have values can do without a default."""

    def prove(now: Now) -> ReadSet:
        if now.scan(TRUE).count():
            raise ConstraintError(
                f'column "{name}" is to be NOT NULL, and the rows that are there would have no value for it; give a '
                "default, or add it with nullable=True, fill it, and call set_nullable then"
            )
        return ReadSet((TRUE,))

    return prove


def no_nulls(name: Name) -> Proof:
    """Proves that no live row has a NULL there: by statistics where they can tell, else by a look at the column."""

    def prove(now: Now) -> ReadSet:
        path = locate(now.schema, name)
        structs = all(pa.types.is_struct(field_at(now.schema, path[:end]).type) for end in range(1, len(path)))
        if not structs:
            return _no_nulls_inside(now, path)
        above = [IsNull(Column(path[:end]), negated=True) for end in range(1, len(path))]
        predicate = bind(And((*above, IsNull(Column(path)))), now.schema)
        count = now.scan(predicate).count()
        if count:
            found = now.scan(predicate, limit=SHOWN_ROWS).to_arrow()
            raise ConstraintError(
                f'column "{shown(path)}" holds NULL in {count} row(s), so it cannot be NOT NULL; fill or delete them '
                f"first\n{shown_rows(found)}"
            )
        return ReadSet((predicate,))

    return prove


def no_breach(check: Callable[[pa.Schema], Check]) -> Proof:
    """Proves that every live row meets a check."""

    def prove(now: Now) -> ReadSet:
        found = check(now.schema)
        count = now.scan(found.breach).count()
        if count:
            rows = now.scan(found.breach, limit=SHOWN_ROWS).to_arrow()
            raise ConstraintError(
                f'{count} row(s) of the table break the check "{found.name}" ({found.text}); mend or delete them '
                f"first\n{shown_rows(rows)}"
            )
        return ReadSet((found.breach,))

    return prove


def _no_nulls_inside(now: Now, path: tuple[str, ...]) -> ReadSet:
    """The same for what stands inside lists and maps, which statistics know nothing of."""
    strict = pa.schema(replaced(now.schema, path, lambda field: field.with_nullable(False)))
    column = pa.schema([strict.field(path[0])])
    request = ScanRequest(now.info, now.head.version, now.schema, columns=(path[0],))
    for batch in Scan(now.context, request).to_batches():
        try:
            check_rows(batch, column)
        except ConstraintError as error:
            _, _, rows = str(error).partition("\n")
            raise ConstraintError(
                f'column "{shown(path)}" holds NULLs, so it cannot be NOT NULL; fill or delete them first\n{rows}'
            ) from None
    return ReadSet((TRUE,))


def _evolved(context: LakeContext, target: Target, change: Change) -> pa.Schema:
    with context.catalog.read() as reader:
        base = base_of(reader, target.info, target.head, target.schema)
    new = change(base)
    check_conditions_hold(new)
    target.engine.check_schema(new)
    return new
