"""Creating a catalog and bringing an old one up to date, in one transaction that any number of openers may race for."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from parqlake._version import __version__
from parqlake.catalogs.dialect import Dialect, Session, missing
from parqlake.catalogs.tables import (
    FIRST_TABLES,
    FOOTER_TABLES,
    LAKE,
    MIGRATION,
    RECORD_TABLES,
    RETENTION_TABLES,
    Table,
)
from parqlake.core.errors import CatalogError, CatalogVersionError
from parqlake.core.model import to_micros


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the catalog's format. Steps are added at the end and never changed."""

    number: int
    apply: Callable[[Session, Dialect], None]


def _create(session: Session, dialect: Dialect, tables: Sequence[Table]) -> None:
    for table in tables:
        for statement in dialect.definition(table):
            session.change(statement)


def _first(session: Session, dialect: Dialect) -> None:
    _create(session, dialect, FIRST_TABLES)


def _retention(session: Session, dialect: Dialect) -> None:
    _create(session, dialect, RETENTION_TABLES)


def _records(session: Session, dialect: Dialect) -> None:
    _create(session, dialect, RECORD_TABLES)


def _footers(session: Session, dialect: Dialect) -> None:
    _create(session, dialect, FOOTER_TABLES)


MIGRATIONS = (Migration(1, _first), Migration(2, _retention), Migration(3, _records), Migration(4, _footers))
FORMAT_VERSION = MIGRATIONS[-1].number
_IDENTITY = LAKE.select("", "lake_id", "format_version")
_RAISE_FORMAT = "UPDATE lake SET format_version = ?"


@dataclass(frozen=True, slots=True)
class Identity:
    """What opening a catalog finds out."""

    lake_id: str
    is_new: bool


def prepare(dialect: Dialect, session: Session, *, create: bool) -> Identity:
    """Makes sure that the catalog is there and of our format; creates it, or raises `LakeNotFoundError`."""
    session.begin_read()
    try:
        found = _identity(dialect, session)
    finally:
        session.end_read()
    if found is not None and found[1] == FORMAT_VERSION:
        return Identity(found[0], is_new=False)
    if found is None and not create:
        raise missing(dialect.url)
    session.begin_write()
    try:
        dialect.lock_creation(session)
        # Someone else may have been faster.
        found = _identity(dialect, session)
        lake_id, start = found or (str(uuid.uuid4()), 0)
        for migration in MIGRATIONS:
            if migration.number > start:
                migration.apply(session, dialect)
                session.insert(MIGRATION, [(migration.number, _now(), __version__)])
        if found is None:
            session.insert(LAKE, [(1, lake_id, FORMAT_VERSION, _now(), 1)])
        elif start < FORMAT_VERSION:
            session.change(_RAISE_FORMAT, (FORMAT_VERSION,))
    except BaseException:
        session.rollback()
        raise
    session.commit()
    return Identity(lake_id, is_new=found is None)


def _identity(dialect: Dialect, session: Session) -> tuple[str, int] | None:
    """The lake's id and format; None if the place is empty. Refuses newer formats, and databases of others."""
    names = dialect.table_names(session)
    if not names:
        return None
    row = session.row(_IDENTITY) if {LAKE.name, MIGRATION.name} <= names else None
    if row is None:
        shown = ", ".join(sorted(names)[:5])
        raise CatalogError(
            f"{dialect.url} holds a database that is no parqlake catalog (tables: {shown});"
            " give a file or schema of its own"
        )
    lake_id, version = row
    if version > FORMAT_VERSION:
        raise CatalogVersionError(
            f"catalog {dialect.url} has format {version}, and parqlake {__version__} knows formats up to"
            f" {FORMAT_VERSION}; upgrade parqlake: pip install --upgrade parqlake"
        )
    return lake_id, version


def _now() -> int:
    return to_micros(datetime.now(UTC))
