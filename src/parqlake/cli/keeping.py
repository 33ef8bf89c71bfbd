"""Commands that keep tables in shape: compact, zorder, expire, vacuum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from parqlake.cli.commanding import command
from parqlake.cli.parameters import DryRun, Engine, Memory, Message, TableName, Yes, tables_like
from parqlake.cli.report import Kind, Listing, Record, columns, record
from parqlake.cli.session import Session, names

if TYPE_CHECKING:
    from parqlake.table.expiring import ExpireResult
    from parqlake.table.maintenance_stats import TableMaintenance
    from parqlake.table.vacuuming import VacuumResult

PANEL = "Keep in shape"
_Where = Annotated[
    str | None,
    typer.Option("--where", "-w", metavar="SQL", help="Only files that may hold rows for which this is true."),
]
_TargetMb = Annotated[
    float | None, typer.Option("--target-mb", metavar="MIB", help="About how large files shall be; 128 if left out.")
]
_TargetRows = Annotated[
    int | None, typer.Option("--target-rows", metavar="ROWS", help="The most rows that a file may have.")
]
_PerGroup = Annotated[
    bool, typer.Option("--per-group", help="Publish each group of files by itself, so that a stop loses little.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands to the app."""
    for name, function in (("compact", compact), ("zorder", zorder), ("expire", expire), ("vacuum", vacuum)):
        command(app, name, panel=PANEL)(function)


def compact(
    session: Session,
    table: TableName,
    *,
    target_mb: _TargetMb = None,
    target_rows: _TargetRows = None,
    where: _Where = None,
    dry_run: DryRun = False,
    per_group: _PerGroup = False,
    memory: Memory = None,
    engine: Engine = None,
    message: Message = None,
) -> None:
    """Put small files together and split over-large ones; no row changes, and appends are never in the way."""
    stats = session.table(table).compact(
        target_mb if target_mb is not None or target_rows is not None else 128,
        target_rows,
        where,
        dry_run=dry_run,
        memory_limit=memory,
        commit="per_group" if per_group else "per_run",
        engine=engine,
        message=message,
    )
    session.out.report(_rewritten(table, stats))


def zorder(
    session: Session,
    table: TableName,
    *,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="NAMES", help="Columns that reads filter by; else the table's cluster_by."),
    ] = None,
    curve: Annotated[str, typer.Option("--curve", metavar="NAME", help="hilbert or zorder.")] = "hilbert",
    target_mb: _TargetMb = None,
    target_rows: _TargetRows = None,
    where: _Where = None,
    dry_run: DryRun = False,
    per_group: _PerGroup = False,
    memory: Memory = None,
    engine: Engine = None,
    message: Message = None,
) -> None:
    """Lay rows out by several columns at once, so that reads by any of them skip most files; no row changes."""
    stats = session.table(table).optimize(
        names(by),
        curve=curve,
        target_mb_per_file=target_mb,
        target_rows_per_file=target_rows,
        where=where,
        dry_run=dry_run,
        memory_limit=memory,
        commit="per_group" if per_group else "per_run",
        engine=engine,
        message=message,
    )
    session.out.report(_rewritten(table, stats))


def expire(
    session: Session,
    table: TableName,
    *,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="Versions replaced so long ago: 7d, 12h. 7d if nothing is said."
        ),
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option("--keep-last", metavar="N", min=1, help="So many of the newest stay, however old.")
    ] = None,
    with_tags: Annotated[bool, typer.Option("--with-tags", help="Let tagged versions go, too.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Give old versions up: they cannot be read any more, and vacuum may delete what only they held."""
    t = session.table(table)
    planned = t.expire(older_than, keep_last=keep_last, keep_tags=not with_tags, dry_run=True)
    if dry_run:
        session.out.report([_expired(planned)])
        return
    if planned.versions:
        session.confirm([_expired(planned)], f"Give {len(planned.versions):,} versions of {table} up?", yes=yes)
    session.out.report([_expired(t.expire(older_than, keep_last=keep_last, keep_tags=not with_tags))])


def vacuum(
    session: Session,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE]",
            help="The table; the whole lake, dropped tables too, without one.",
            autocompletion=tables_like,
        ),
    ] = None,
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Files that have been of no use for so long: 7d, 12h.")
    ] = "7d",
    force: Annotated[
        bool, typer.Option("--force", help="Allow less than 15 minutes; reads that just began may fail.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete files that no version, tag, reader or open transaction needs."""
    target = session.lake if table is None else session.table(table)
    planned = target.vacuum(older_than, force=force, dry_run=True)
    if dry_run:
        session.out.report(_vacuumed(table, planned))
        return
    if planned.files or planned.tables:
        dropped = f" and {len(planned.tables):,} dropped tables for good" if planned.tables else ""
        question = f"Delete {planned.files:,} files of {table or 'the lake'}{dropped}?"
        session.confirm(_vacuumed(table, planned)[:1], question, yes=yes)
    session.out.report(_vacuumed(table, target.vacuum(older_than, force=force)))


def _rewritten(table: str, stats: TableMaintenance) -> list[Record | Listing]:
    facts = record(
        table=table,
        version=stats.version,
        before_files=stats.before_file_count,
        after_files=stats.after_file_count,
        before_bytes=stats.before_total_bytes,
        after_bytes=stats.after_total_bytes,
        rewritten_files=stats.compacted_file_count,
        rewritten_bytes=stats.rewritten_bytes,
        zorder_columns=None if stats.zorder_columns is None else tuple(stats.zorder_columns),
        changed=bool(stats.transaction_id) and not stats.replayed,
        transaction_id=stats.transaction_id or None,
        dry_run=stats.dry_run,
    )
    if stats.planned_groups is None:
        return [facts]
    rows = [(number, len(group), tuple(group)) for number, group in enumerate(stats.planned_groups, 1)]
    shape = columns("group", "file_count", "paths", group=Kind.NUMBER, paths=Kind.NAMES)
    return [facts, Listing("planned_groups", shape, rows, "nothing is worth rewriting")]


def _expired(result: ExpireResult) -> Record:
    return record(
        table=result.table,
        versions=result.versions,
        kept_versions=result.kept,
        tags=result.tags,
        file_count=result.files,
        size_bytes=result.size_bytes,
        dry_run=result.dry_run,
    )


def _vacuumed(table: str | None, result: VacuumResult) -> list[Record | Listing]:
    facts = record(
        table=table,
        deleted_files=result.files,
        deleted_bytes=result.size_bytes,
        expired_files=result.expired,
        leftover_files=result.leftovers,
        dropped_files=result.dropped,
        held_files=result.held,
        dropped_tables=result.tables,
        dry_run=result.dry_run,
    )
    parts: list[Record | Listing] = [facts]
    parts.append(Listing("paths", columns("path"), [(path,) for path in result.paths], "nothing to delete"))
    if result.strays:
        parts.append(Listing("strays", columns("stray"), [(path,) for path in result.strays]))
    return parts
