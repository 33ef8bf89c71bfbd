"""SQLite: the default catalog. WAL, one writer at a time, durable at each commit."""

from __future__ import annotations

import functools
import json
import os
import random
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from parqlake.catalogs.dialect import Fault, Params, Row, Session, fault_error, missing
from parqlake.catalogs.tables import Kind, Table
from parqlake.core.errors import CatalogError, CatalogUnavailableError

_OLDEST = (3, 35, 0)  # RETURNING
_MMAP_BYTES = 2**30
_FAULTS = {
    sqlite3.SQLITE_BUSY: Fault.BUSY,
    sqlite3.SQLITE_LOCKED: Fault.BUSY,
    sqlite3.SQLITE_READONLY: Fault.READ_ONLY,
    sqlite3.SQLITE_PERM: Fault.DENIED,
    sqlite3.SQLITE_AUTH: Fault.DENIED,
    sqlite3.SQLITE_IOERR: Fault.LOST,
    sqlite3.SQLITE_CANTOPEN: Fault.LOST,
    sqlite3.SQLITE_FULL: Fault.FULL,
    sqlite3.SQLITE_CORRUPT: Fault.DAMAGED,
    sqlite3.SQLITE_NOTADB: Fault.DAMAGED,
    sqlite3.SQLITE_TOOBIG: Fault.INPUT,
}
_DUPLICATES = {sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE}


class SqliteSession(Session):
    """A connection to a SQLite file."""

    driver_errors = sqlite3.Error

    def __init__(self, url: str, connection: sqlite3.Connection, *, immutable: bool) -> None:
        """An `immutable` connection reads a file in a place where nothing can be written."""
        super().__init__(url)
        self._connection = connection
        self._immutable = immutable
        # Without locks nobody tells us of a change, so each look at such a file starts afresh.
        self.reusable = not immutable
        self._durable = True

    def ids(self, values: Sequence[int] | Sequence[str]) -> object:
        """The ids as a JSON array: one parameter, however many there are."""
        return json.dumps(values)

    def fault(self, error: Exception) -> Fault:
        """Reads the extended error code."""
        code = getattr(error, "sqlite_errorcode", 0)
        return Fault.DUPLICATE if code in _DUPLICATES else _FAULTS.get(code & 0xFF, Fault.OTHER)

    def close(self) -> None:
        """Closes the connection; an open transaction is undone."""
        self._connection.close()

    def _fetch(self, sql: str, params: Params) -> list[Row]:
        return self._connection.execute(_render(sql), params).fetchall()

    def _change(self, sql: str, params: Params) -> int:
        return self._connection.execute(_render(sql), params).rowcount

    def _insert(self, table: Table, rows: Sequence[Params]) -> None:
        self._connection.executemany(_insert_statement(table), rows)

    def _begin_read(self) -> None:
        self._connection.execute("BEGIN")

    def _begin_write(self, *, durable: bool) -> None:
        if self._immutable:
            raise fault_error(Fault.READ_ONLY, self.url, "opened as an immutable file")
        if durable is not self._durable:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable
        # A plain BEGIN would find out too late that another writer was faster, and fail at once.
        self._connection.execute("BEGIN IMMEDIATE")

    def _commit(self) -> None:
        self._connection.execute("COMMIT")

    def _rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


class SqliteDialect:
    """A catalog in one SQLite file."""

    def __init__(self, path: Path, *, busy_timeout: float) -> None:
        """`path` must be absolute; `busy_timeout` is in seconds."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise CatalogError(f"SQLite {sqlite3.sqlite_version} is too old for a catalog; 3.35 or newer is needed")
        self._path = path
        self._busy_timeout = busy_timeout

    @property
    def url(self) -> str:
        """The file's absolute path as a URL."""
        return f"sqlite:///{self._path}"

    def prepare_place(self) -> None:
        """Creates an empty file for its owner only; SQLite gives its companions the same mode."""
        if self._is_there():
            return
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            return
        except FileNotFoundError as error:
            raise CatalogUnavailableError(
                f"the folder of catalog {self.url} does not exist; create it first"
            ) from error
        except OSError as error:
            raise CatalogError(f"catalog {self.url} cannot be created there: {error.strerror}") from error

    def connect(self) -> SqliteSession:
        """A connection; where nothing can be written, one that reads the file as it stands."""
        if self._path.is_dir():
            raise CatalogError(
                f"catalog {self.url} is a folder; give the path of a file, for instance …/catalog.sqlite"
            )
        if not self._is_there():
            # Else SQLite would make an empty database, with the wrong mode, of a catalog that was moved away.
            raise missing(self.url)
        try:
            return self._open(str(self._path), immutable=False)
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0)
            if code & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or not os.access(
                self._path, os.R_OK
            ):
                raise self._error(error) from error
        # A database in WAL mode needs a writable folder even to be read. The way around sees the database file
        # alone, so it must not be taken while committed versions still wait in the log beside it.
        log = self._path.with_name(self._path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise CatalogUnavailableError(
                f"catalog {self.url} is in a read-only place and part of it is still in {log.name};"
                " open it once where it can be written, then copy it again"
            )
        try:
            return self._open(f"file:{quote(str(self._path))}?mode=ro&immutable=1", immutable=True)
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _is_there(self) -> bool:
        try:
            return self._path.exists()
        except PermissionError as error:
            raise CatalogError(
                f"catalog {self.url} lies in a folder that this user may not look into; ask for the right to"
            ) from error

    def lock_creation(self, session: Session) -> None:
        """Nothing to do: BEGIN IMMEDIATE has locked the file."""

    def table_names(self, session: Session) -> set[str]:
        """The tables in the file."""
        return {name for (name,) in session.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def definition(self, table: Table) -> list[str]:
        """Small tables are clustered by their key; those with blobs are not, which would make them slow."""
        words = {Kind.INTEGER: "INTEGER", Kind.TEXT: "TEXT", Kind.BLOB: "BLOB", Kind.KEY: "TEXT"}
        lines = [f"{c.name} {words[c.kind]}{'' if c.nullable else ' NOT NULL'}" for c in table.columns]
        statements = []
        if table.has_blobs:
            statements.append(f"CREATE TABLE {table.name} ({', '.join(lines)})")
            columns = ", ".join(table.key + table.covering)
            statements.append(f"CREATE UNIQUE INDEX {table.name}_key ON {table.name} ({columns})")
        else:
            lines.append(f"PRIMARY KEY ({', '.join(table.key)})")
            statements.append(f"CREATE TABLE {table.name} ({', '.join(lines)}) WITHOUT ROWID")
        for index in table.indexes:
            where = f" WHERE {index.where}" if index.where else ""
            statements.append(f"CREATE INDEX {index.name} ON {table.name} ({', '.join(index.columns)}){where}")
        return statements

    def close(self) -> None:
        """Nothing is shared."""

    def _open(self, target: str, *, immutable: bool) -> SqliteSession:
        connection = sqlite3.connect(
            target,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            uri=immutable,
        )
        try:
            # FULL: a commit is on the disk when it returns. A catalog is data, not code: no SQL hidden in a
            # schema may run. fullfsync is what macOS needs to mean it; elsewhere it does nothing.
            connection.executescript(
                f"PRAGMA synchronous = FULL; PRAGMA fullfsync = 1; PRAGMA trusted_schema = 0;"
                f" PRAGMA mmap_size = {_MMAP_BYTES};"
            )
            # Touches the file, so that what is wrong with it shows here; and sets the mode once, for good.
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal" and not immutable:
                self._set_wal(connection)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except BaseException:
            connection.close()
            raise
        return SqliteSession(self.url, connection, immutable=immutable)

    def _set_wal(self, connection: sqlite3.Connection) -> None:
        # Unlike other statements, this one does not wait for its lock: several processes may create the catalog
        # at once. Where the file system cannot do WAL the answer is another mode, which is slower but as safe.
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchone()
                return
            except sqlite3.OperationalError as error:
                code = error.sqlite_errorcode & 0xFF
                if code == sqlite3.SQLITE_READONLY:
                    return
                if code != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 (jitter)
            if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                return

    def _error(self, error: sqlite3.Error) -> Exception:
        fault = _FAULTS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, Fault.OTHER)
        return fault_error(fault, self.url, str(error))


@functools.cache
def _render(sql: str) -> str:
    listed = "IN (SELECT value FROM json_each(?))"
    return sql.replace("= ANY_OF(?)", listed).replace("= ANY_TEXT(?)", listed).replace("FOR UPDATE", "")


@functools.cache
def _insert_statement(table: Table) -> str:
    return table.insert()
