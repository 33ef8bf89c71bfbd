"""Commands that look at a lake: ls, show, schema, log, head, explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from parqlake.cli.commanding import command
from parqlake.cli.exits import UsageError
from parqlake.cli.parameters import At, Columns, TableName, Transpose, Where, Wide
from parqlake.cli.report import Kind, Listing, Record, columns, record
from parqlake.cli.rows import show_rows
from parqlake.cli.session import Session, names
from parqlake.cli.versions import at, pinned

if TYPE_CHECKING:
    from parqlake.table.history import HistoryEntry
    from parqlake.table.table import Table

PANEL = "Look"
_RECENT = 5

_TABLES = columns(
    "table",
    "version",
    "row_count",
    "file_count",
    "size_bytes",
    "changed_at",
    "partition_by",
    rank={"partition_by": 2, "file_count": 1},
    partition_by=Kind.NAMES,
)
_VERSIONS = columns(
    "version",
    "committed_at",
    "operation",
    "added_rows",
    "removed_rows",
    "row_count",
    "file_count",
    "size_bytes",
    "engine",
    "who",
    "message",
    "tags",
    "transaction_id",
    rank={
        "added_rows": 1,
        "removed_rows": 2,
        "tags": 2,
        "size_bytes": 3,
        "file_count": 3,
        "engine": 4,
        "who": 5,
        "transaction_id": 6,
    },
    tags=Kind.NAMES,
)
_COLUMNS = columns("column", "type", "nullable", "default", "partition", nullable=Kind.FLAG, partition=Kind.FLAG)
_CHANGES = columns("change", "column", "before", "after")
_FINDINGS = columns("severity", "kind", "message", "call")


def register(app: typer.Typer) -> None:
    """Adds the commands to the app."""
    for name, function in (
        ("ls", ls), ("show", show), ("schema", schema), ("log", log), ("head", head), ("explain", explain),
    ):  # fmt: skip
        command(app, name, panel=PANEL)(function)


def ls(
    session: Session, namespace: Annotated[str | None, typer.Argument(help="Only the tables of this one.")] = None
) -> None:
    """List the tables: their newest version, rows, files and size."""
    from parqlake.core.names import check_namespace

    if namespace is not None:
        check_namespace(namespace)
    rows: list[tuple[Any, ...]] = []
    with session.lake.context.catalog.read() as reader:
        for info in sorted(reader.tables(namespace), key=lambda info: info.name):
            version = reader.head(info.table_id).version
            newest = reader.snapshot(info.table_id, version) if version else None
            totals = (0, 0, 0) if newest is None else (newest.row_count, newest.file_count, newest.size_bytes)
            changed_at = info.created_at if newest is None else newest.committed_at
            rows.append((str(info.name), version, *totals, changed_at, info.partition_by))
    session.out.report([Listing("tables", _TABLES, rows, "no tables yet; parqlake write NAME FILE makes one")])


def show(session: Session, table: TableName) -> None:
    """Show a table: what it holds, its columns, its last versions, and what could be better about it."""
    t = session.table(table)
    recent = t.history(limit=_RECENT)
    health = t.health()
    tags = tuple(f"{name} ({version})" for name, version in sorted(t.tags().items(), key=lambda tag: tag[1]))
    facts = record(
        table=t.name,
        version=t.version,
        row_count=health.row_count,
        file_count=health.file_count,
        size_bytes=health.size_bytes,
        small_files_share=health.small_share,
        partition_by=t.partition_by,
        partition_count=health.partitions,
        sort_by=t.sort_by,
        tags=tags,
        location=t.location,
        created_at=t.info.created_at,
        changed_at=recent[0].committed_at if recent else t.info.created_at,
        old_files_bytes=health.old_bytes,
        healthy=health.ok,
    )
    properties = tuple(sorted(t.properties.items()))
    found = [(item.severity, item.kind, item.message, item.call) for item in health.findings]
    parts: list[Record | Listing] = [facts, _columns_of(session, t, None), _versions(recent, "last_versions")]
    if properties or session.out.as_json:
        parts.append(Listing("properties", columns("property", "value"), properties))
    if found or session.out.as_json:
        parts.append(Listing("findings", _FINDINGS, found))
    session.out.report(parts)


def schema(
    session: Session,
    table: TableName,
    at_version: At = None,
    diff: Annotated[
        tuple[str, str] | None, typer.Option("--diff", metavar="V1 V2", help="What changed between two versions.")
    ] = None,
) -> None:
    """Show the columns of a table, or what changed in them between two versions."""
    t = session.table(table)
    if diff is None:
        parts: list[Record | Listing] = [_columns_of(session, t, at_version)]
        checks = t.checks(pinned(t, at_version))
        if checks or session.out.as_json:
            parts.append(Listing("checks", columns("check", "condition"), sorted(checks.items())))
        session.out.report(parts)
        return
    if at_version is not None:
        raise UsageError("give --at or --diff, not both")
    before, after = (pinned(t, version) for version in diff)
    changes = t.schema_diff(0 if before is None else before, after).changes
    rows = [(change.kind, change.column, change.before, change.after) for change in changes]
    session.out.report([Listing("changes", _CHANGES, rows, "no changes")])


def log(
    session: Session,
    table: TableName,
    limit: Annotated[int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Only the newest.")] = None,
) -> None:
    """List the versions of a table, newest first: what was done, when, by whom."""
    session.out.report([_versions(session.table(table).history(limit=limit), "versions")])


def head(
    session: Session,
    table: TableName,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="ROWS", min=0, help="How many; 0 for all.")] = 20,
    at_version: At = None,
    where: Where = None,
    chosen: Columns = None,
    wide: Wide = False,
    transpose: Transpose = False,
) -> None:
    """Show rows of a table: the first ones, of any version, filtered if asked for."""
    t = session.table(table)
    scan = t.scan(where, columns=names(chosen), limit=limit or None, **at(t, at_version))
    show_rows(session.out, scan.to_batches(), limit=limit, wide=wide, transposed=transpose)


def explain(
    session: Session, table: TableName, where: Where = None, at_version: At = None, chosen: Columns = None
) -> None:
    """Say what a read would open, what it would skip and by which statistic, and what would help."""
    t = session.table(table)
    explained = t.scan(where, columns=names(chosen), **at(t, at_version)).explain()
    session.out.text(str(explained), explained.to_dict())


def _versions(entries: list[HistoryEntry], name: str) -> Listing:
    rows = [[getattr(entry, column.name) for column in _VERSIONS] for entry in entries]
    return Listing(name, _VERSIONS, rows, "none yet")


def _columns_of(session: Session, table: Table, at_version: str | None) -> Listing:
    """The columns of a version, with defaults, which the schema that users see does not carry."""
    from parqlake.core.evolution.marks import write_default
    from parqlake.table.versions import resolve

    with session.lake.context.catalog.read() as reader:
        number = pinned(table, at_version)
        _, schema_id = resolve(reader, table.info, version=number, as_of=None)
        stored = reader.schema(table.info.table_id, schema_id)
    plain = table.schema(number)
    rows = []
    for field, shown in zip(stored, plain, strict=True):
        default = write_default(field)
        value = None if default is None else default.as_py()
        rows.append((field.name, str(shown.type), field.nullable, value, field.name in table.partition_by))
    return Listing("columns", _COLUMNS, rows)
