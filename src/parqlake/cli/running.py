"""Commands for pipelines: run, runs."""

from __future__ import annotations

import traceback
import warnings
from pathlib import Path
from typing import Annotated

import typer

from parqlake.cli import plain
from parqlake.cli.commanding import command
from parqlake.cli.exits import OK, UsageError, failure_of
from parqlake.cli.parameters import tables_like
from parqlake.cli.report import Column, Kind, Listing
from parqlake.cli.session import Session

PANEL = "Pipelines"
_RUNS = (
    Column("pipeline"),
    Column("run_id"),
    Column("status"),
    Column("started_at", Kind.TIME),
    Column("seconds", Kind.NUMBER, rank=1),
    Column("inputs", Kind.NAMES, rank=3),
    Column("outputs", Kind.NAMES, rank=2),
    Column("rejected_rows", Kind.COUNT, rank=1),
    Column("error", rank=2),
)


def register(app: typer.Typer) -> None:
    """Adds the commands to the app."""
    command(app, "run", panel=PANEL)(run)
    command(app, "runs", panel=PANEL)(runs)


def run(
    session: Session,
    pipeline: Annotated[Path, typer.Argument(metavar="PIPELINE", help="Its file: .py or .toml.")],
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be read and written, and do nothing.")] = False,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="TEXT", help="A repeat with the same one changes nothing.")
    ] = None,
    backfill: Annotated[
        tuple[str, str, str] | None,
        typer.Option("--backfill", metavar="FROM TO STEP", help="Windows of time, such as 2026-01-01 2026-02-01 1d."),
    ] = None,
) -> int:
    """Run a pipeline once: all its tables or none, its expectations checked before anything is visible."""
    from parqlake.pipeline.loading import run_file

    if session.shared.lake is not None or session.shared.catalog is not None:
        raise UsageError("a pipeline's file names its lake; leave --lake and --catalog out")
    # Spark says it at every start, and means a part of it that is not used here.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    outcome = run_file(pipeline, plan=plan, run_id=run_id, backfill=backfill)
    if outcome.error is None:
        session.out.text(outcome.text, dict(outcome.data))
        return OK
    if outcome.data:
        session.out.text(outcome.text, dict(outcome.data))
    if session.shared.debug:
        traceback.print_exception(outcome.error)
    failure = failure_of(outcome.error)
    session.out.failure(failure)
    return failure.code


def runs(
    session: Session,
    pipeline: Annotated[str | None, typer.Option("--pipeline", metavar="NAME", help="Only of this one.")] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="TABLE", help="Only those that read or wrote this table.", autocompletion=tables_like
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="The newest.")] = 50,
) -> None:
    """List the runs of pipelines, newest first: what they read and wrote, and how they went."""
    found = session.lake.runs(pipeline, table, limit)
    if session.out.as_json:
        session.out.lines([plain.dumps({"runs": [one.to_dict() for one in found]})])
        return
    rows = [
        (
            one.pipeline,
            one.run_id,
            one.status,
            one.started_at,
            round(one.seconds, 1),
            tuple(read.name if read.version is None else f"{read.name}@{read.version}" for read in one.inputs),
            tuple(made.table if made.version is None else f"{made.table}@{made.version}" for made in one.outputs),
            sum(one.rejects.values()),
            one.error,
        )
        for one in found
    ]
    session.out.report([Listing("runs", _RUNS, rows, "no run is on record")])
