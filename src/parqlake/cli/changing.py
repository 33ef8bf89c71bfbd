"""Commands that change rows and versions: write, merge, delete, restore, tag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from parqlake.cli.commanding import command
from parqlake.cli.exits import UsageError
from parqlake.cli.input_files import open_rows
from parqlake.cli.parameters import (
    At,
    DryRun,
    Engine,
    File,
    Format,
    Key,
    Memory,
    Message,
    SchemaMode,
    TableName,
    Yes,
)
from parqlake.cli.report import Listing, Record, columns, record
from parqlake.cli.session import Session, names
from parqlake.cli.versions import at, pinned

if TYPE_CHECKING:
    from parqlake.table.result import WriteResult
    from parqlake.table.table import Table

PANEL = "Change"
_Names = list[str] | None


def register(app: typer.Typer) -> None:
    """Adds the commands to the app."""
    for name, function in (
        ("write", write), ("merge", merge), ("delete", delete), ("restore", restore), ("tag", tag),
    ):  # fmt: skip
        command(app, name, panel=PANEL)(function)


def write(
    session: Session,
    table: TableName,
    file: File,
    *,
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="append, overwrite, error or ignore (if it is there).")
    ] = "append",
    where: Annotated[
        str | None, typer.Option("--where", "-w", metavar="SQL", help="With overwrite: only these rows are replaced.")
    ] = None,
    partition_by: Annotated[
        _Names, typer.Option("--partition-by", metavar="NAMES", help="For a new table: columns that become folders.")
    ] = None,
    sort_by: Annotated[
        _Names, typer.Option("--sort-by", metavar="NAMES", help="For a new table: the order inside row groups.")
    ] = None,
    format_: Format = None,
    schema_mode: SchemaMode = None,
    engine: Engine = None,
    message: Message = None,
    key: Key = None,
    yes: Yes = False,
) -> None:
    """Write the rows of a file to a table, which is made if it is not there; one version, whole or not at all."""
    if where is not None and mode != "overwrite":
        raise UsageError("--where goes with --mode overwrite: it says which rows are replaced")
    there = _there(session, table)
    rows = open_rows(file, format_, schema=None if there is None else there.schema())
    if mode == "overwrite" and there is not None:
        replaced = there.scan(where).count()
        plan = record(table=table, version=there.version, where=where, replaced_rows=replaced, file=file)
        session.confirm([plan], f"Replace {replaced:,} rows of {table}?", yes=yes)
    options: dict[str, Any] = {} if schema_mode is None else {"schema_mode": schema_mode}
    call: dict[str, Any] = {"engine": engine, "message": message, "idempotency_key": key}
    if where is not None:
        result: WriteResult | None = session.table(table).overwrite(rows, where, **call, **options)
    else:
        result = session.lake.write(
            rows, table, mode=mode, partition_by=names(partition_by) or (), sort_by=names(sort_by), **call, **options
        )
    if result is None:
        session.out.note(f"{table} is there already, and was left as it is")
        result_version = session.table(table).version
        session.out.report([record(table=table, version=result_version, added_rows=0, removed_rows=0, changed=False)])
        return
    session.out.report([_written(table, result)])


def merge(
    session: Session,
    table: TableName,
    file: File,
    *,
    on: Annotated[list[str], typer.Option("--on", metavar="NAMES", help="The key: one column or several.")],
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy", metavar="NAME", help="upsert, insert, update, full_merge (deletes the rest) or deduplicate."
        ),
    ] = "upsert",
    dedup_order_by: Annotated[
        _Names,
        typer.Option("--dedup-order-by", metavar="NAMES", help="Of rows with the same key, the highest of these."),
    ] = None,
    update_columns: Annotated[
        _Names, typer.Option("--update-columns", metavar="NAMES", help="Columns that a match changes; else all.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", "-w", metavar="SQL", help="Only rows of the table for which this is true are changed."),
    ] = None,
    format_: Format = None,
    memory: Memory = None,
    engine: Engine = None,
    message: Message = None,
    key: Key = None,
    yes: Yes = False,
) -> None:
    """Bring the rows of a file together with a table's by key; only files that hold a match are written again."""
    t = session.table(table)
    rows = open_rows(file, format_, schema=t.schema())
    if strategy == "full_merge":
        plan = record(table=table, version=t.version, row_count=t.scan().count(), strategy=strategy, file=file)
        session.confirm([plan], f"Delete all rows of {table} whose key is not in {file}?", yes=yes)
    result = t.merge(
        rows,
        names(on) or [],
        strategy,
        dedup_order_by=names(dedup_order_by),
        update_columns=names(update_columns),
        where=where,
        memory_limit=memory,
        engine=engine,
        message=message,
        idempotency_key=key,
    )
    session.out.report(
        [
            record(
                table=table,
                version=result.version,
                inserted_rows=result.inserted,
                updated_rows=result.updated,
                deleted_rows=result.deleted,
                row_count=result.total,
                **_changed(result),
            )
        ]
    )


def delete(
    session: Session,
    table: TableName,
    *,
    where: Annotated[str, typer.Option("--where", "-w", metavar="SQL", help="The rows to delete; true for all.")],
    dry_run: DryRun = False,
    engine: Engine = None,
    message: Message = None,
    key: Key = None,
    yes: Yes = False,
) -> None:
    """Delete the rows for which a condition is true; earlier versions keep them until they are expired."""
    t = session.table(table)
    scan = t.scan(where)
    explained = scan.explain()
    count = scan.count()
    plan = record(
        table=table,
        version=explained.version,
        where=explained.where,
        deleted_rows=count,
        row_count=explained.rows_total,
        looked_at_files=explained.files_read,
        file_count=explained.files_total,
        dry_run=True,
    )
    if dry_run:
        session.out.report([plan])
        return
    session.confirm(
        [Record(plan.fields[:-1])], f"Delete {count:,} of {explained.rows_total:,} rows of {table}?", yes=yes
    )
    result = t.delete(where, engine=engine, message=message, idempotency_key=key)
    session.out.report([record(table=table, version=result.version, deleted_rows=result.deleted, **_changed(result))])


def restore(
    session: Session,
    table: TableName,
    *,
    to: Annotated[str, typer.Option("--to", metavar="VERSION", help="A version number, a tag, or a moment.")],
    dry_run: DryRun = False,
    message: Message = None,
    key: Key = None,
    yes: Yes = False,
) -> None:
    """Make an earlier version the newest one again, as a new version; nothing is lost."""
    t = session.table(table)
    chosen = at(t, to)
    then, now = t.scan(**chosen), t.scan()
    plan = record(
        table=table,
        version=now.version,
        row_count=now.count(),
        restored_version=then.version,
        restored_rows=then.count(),
        dry_run=True,
    )
    if dry_run:
        session.out.report([plan])
        return
    session.confirm([Record(plan.fields[:-1])], f"Restore {table} as it was at version {then.version}?", yes=yes)
    session.out.report([_written(table, t.restore(**chosen, message=message, idempotency_key=key))])


def tag(
    session: Session,
    table: TableName,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The tag; all are listed without one.")] = None,
    *,
    at_version: At = None,
    remove: Annotated[bool, typer.Option("--delete", help="Take the tag away; the version stays.")] = False,
    yes: Yes = False,
) -> None:
    """Name a version, so that it can be read by name and is kept; or list the tags."""
    t = session.table(table)
    if name is None:
        if remove or at_version is not None:
            raise UsageError("say which tag: parqlake tag TABLE NAME")
        rows = sorted(t.tags().items(), key=lambda item: (item[1], item[0]))
        session.out.report([Listing("tags", columns("tag", "version"), rows, "no tags")])
        return
    before, after = t.tags().get(name), None if remove else pinned(t, at_version)
    if before is not None:
        after = None if remove else t.scan(version=after).version
        if before != after:  # the tag may be all that keeps the version
            what = f"Take tag {name} away" if remove else f"Move tag {name} to version {after}"
            plan = record(table=table, tag=name, version=before, tagged_version=after)
            session.confirm([plan], f"{what}? It keeps version {before} from being expired.", yes=yes)
    if remove:
        t.untag(name)
    else:
        t.tag(name, after)
    session.out.report([record(table=table, tag=name, version=t.tags().get(name), deleted=remove)])


def _there(session: Session, name: str) -> Table | None:
    from parqlake.core.errors import TableNotFoundError

    try:
        return session.table(name)
    except TableNotFoundError:
        return None


def _written(table: str, result: WriteResult) -> Record:
    return record(
        table=table,
        version=result.version,
        added_rows=result.row_count,
        removed_rows=result.removed_rows,
        added_files=len(result.files),
        added_bytes=sum(file.size_bytes for file in result.files),
        changed=not result.replayed,
        transaction_id=result.transaction_id or None,
    )


def _changed(result: Any) -> dict[str, Any]:
    """What results of changes have in common."""
    return {
        "added_files": result.files_added,
        "removed_files": result.files_removed,
        "rewritten_bytes": result.bytes_rewritten,
        "changed": bool(result.transaction_id) and not result.replayed,
        "transaction_id": result.transaction_id or None,
    }
