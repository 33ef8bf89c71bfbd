"""Commands that look after a lake and its surroundings: check, recover, doctor."""

from __future__ import annotations

from typing import Annotated

import typer

from parqlake.cli.commanding import command
from parqlake.cli.exits import OK, UNHEALTHY
from parqlake.cli.report import Listing, columns, record
from parqlake.cli.session import Session

PANEL = "Look after"
_FINDINGS = columns("severity", "table", "version", "message", "fix", "file", rank={"file": 2, "version": 1})

_CHECKS = columns("status", "check", "detail")


def register(app: typer.Typer) -> None:
    """Adds the commands to the app."""
    for name, function in (("check", check), ("recover", recover), ("doctor", doctor)):
        command(app, name, panel=PANEL)(function)


def check(
    session: Session,
    full: Annotated[bool, typer.Option("--full", help="Read the rows of all files of all kept versions.")] = False,
) -> int:
    """Compare the catalog with the store, and say what is not as it should be; exits with 5 if something is broken."""
    found = session.lake.check(full=full)
    facts = record(
        healthy=found.ok,
        table_count=found.tables,
        version_count=found.versions,
        file_count=found.files,
        read_files=found.files_read,
    )
    rows = [
        (item.severity, item.table or None, item.version, item.message, item.fix, item.file) for item in found.findings
    ]
    session.out.report([facts, Listing("findings", _FINDINGS, rows, "nothing is wrong")])
    return OK if found.ok else UNHEALTHY


def recover(session: Session) -> None:
    """End transactions whose writers are gone, and take down the files that they left, for vacuum to delete."""
    found = session.lake.recover()
    facts = record(
        aborted_transactions=len(found.aborted),
        running_transactions=len(found.running),
        file_count=found.files,
        size_bytes=found.size_bytes,
    )
    shape = columns("status", "who", "operation", "started_at", "transaction_id", rank={"transaction_id": 1})
    rows = [
        (status, item.who, item.operation, item.started_at, item.txn_id)
        for status, items in (("aborted", found.aborted), ("running", found.running))
        for item in items
    ]
    session.out.report([facts, Listing("transactions", shape, rows, "no transaction was left open")])


def doctor(session: Session) -> int:
    """Say what is installed, which lake is meant and whether it can be reached; no secret is ever shown."""
    from parqlake.cli.doctoring import examine  # loads the metadata of all packages

    facts, checks = examine(session)
    session.out.report([facts, Listing("checks", _CHECKS, [check.row for check in checks])])
    return UNHEALTHY if any(check.status == "failed" for check in checks) else OK
