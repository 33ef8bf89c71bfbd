"""DuckDB: a catalog for one process. Writers of the process take turns; a second process is refused by DuckDB."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parqlake.catalogs.dialect import Fault, Params, Row, Session, fault_error, missing
from parqlake.catalogs.tables import Kind, Table
from parqlake.core.errors import CatalogError, CatalogUnavailableError, MissingExtraError

_MAGIC = b"DUCK"
_MAGIC_OFFSET = 8
_ROWS_AT_ONCE = 64
_WORDS = {Kind.INTEGER: "BIGINT", Kind.TEXT: "VARCHAR", Kind.BLOB: "BLOB", Kind.KEY: "VARCHAR"}


class _Database:
    """An open file, shared by all catalogs of this process that use it, with the turn of its writers."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.pid = os.getpid()
        self.users = 1
        self.turn = threading.Lock()


_open_databases: dict[Path, _Database] = {}
_registry_lock = threading.Lock()


class DuckdbSession(Session):
    """A connection to the process's DuckDB database."""

    def __init__(self, url: str, connection: Any, turn: threading.Lock, *, busy_timeout: float) -> None:
        """`turn` is held by the one writer of the process."""
        super().__init__(url)
        self._connection = connection
        self._turn = turn
        self._has_turn = False
        self._busy_timeout = busy_timeout
        self._duckdb = _import()
        self.driver_errors = self._duckdb.Error

    def ids(self, values: Sequence[int] | Sequence[str]) -> object:
        """The ids as a list."""
        return list(values)

    def fault(self, error: Exception) -> Fault:
        """Goes by DuckDB's exception classes."""
        duckdb = self._duckdb
        if isinstance(error, duckdb.TransactionException):
            return Fault.BUSY
        if isinstance(error, duckdb.ConstraintException):
            return Fault.DUPLICATE
        if isinstance(error, duckdb.IOException | duckdb.FatalException | duckdb.ConnectionException):
            return Fault.LOST
        if isinstance(error, duckdb.ConversionException | duckdb.OutOfRangeException):
            return Fault.INPUT
        return Fault.OTHER

    def close(self) -> None:
        """Closes the connection; an open transaction is undone."""
        self._connection.close()
        self._give_turn()

    def _fetch(self, sql: str, params: Params) -> list[Row]:
        rows: list[Row] = self._connection.execute(_render(sql), params).fetchall()
        return rows

    def _change(self, sql: str, params: Params) -> int:
        counted = self._connection.execute(_render(sql), params).fetchone()
        return int(counted[0]) if counted else 0

    def _insert(self, table: Table, rows: Sequence[Params]) -> None:
        # Few statements for many rows: executemany takes 0.6 ms a row, and registering an Arrow table imports pandas.
        if not table.has_blobs:
            self._connection.execute(_insert_lists(table), [list(column) for column in zip(*rows, strict=True)])
            return
        # Lists of large blobs are copied over and over on their way in; single values are not.
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            self._connection.execute(_insert_rows(table, len(some)), [value for row in some for value in row])

    def _begin_read(self) -> None:
        self._connection.execute("BEGIN")

    def _begin_write(self, *, durable: bool) -> None:  # noqa: ARG002 (there is only one kind of COMMIT)
        if not self._turn.acquire(timeout=self._busy_timeout):
            raise fault_error(Fault.BUSY, self.url, f"waited {self._busy_timeout:g} s for another writer")
        self._has_turn = True
        try:
            self._connection.execute("BEGIN")
        except BaseException:
            self._give_turn()
            raise

    def _commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        finally:
            self._give_turn()

    def _rollback(self) -> None:
        try:
            self._connection.execute("ROLLBACK")
        except self._duckdb.TransactionException:
            # A COMMIT that fails has already rolled back.
            pass
        finally:
            self._give_turn()

    def _give_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self._turn.release()


class DuckdbDialect:
    """A catalog in one DuckDB file."""

    def __init__(self, path: Path, *, busy_timeout: float) -> None:
        """`path` must be absolute; `busy_timeout` is in seconds."""
        _import()
        self._path = path
        self._key = path.resolve()
        self._busy_timeout = busy_timeout
        self._database: _Database | None = None
        self._may_create = False

    @property
    def url(self) -> str:
        """The file's absolute path as a URL."""
        return f"duckdb:///{self._path}"

    def prepare_place(self) -> None:
        """Allows `connect` to create the file, which it leaves to DuckDB: an empty one is no database to it."""
        if not self._path.parent.is_dir():
            raise CatalogUnavailableError(f"the folder of catalog {self.url} does not exist; create it first")
        self._may_create = True

    def connect(self) -> DuckdbSession:
        """A connection to the database of this process, which the first one opens."""
        with _registry_lock:
            database = self._database or self._join()
            self._database = database
            if database.pid != os.getpid():
                raise self._one_process("opened before this process was forked off")
            connection = database.root.cursor()
        return DuckdbSession(self.url, connection, database.turn, busy_timeout=self._busy_timeout)

    def lock_creation(self, session: Session) -> None:
        """Nothing to do: the writers of the one process take turns."""

    def table_names(self, session: Session) -> set[str]:
        """The tables in the file."""
        return {name for (name,) in session.rows("SELECT table_name FROM duckdb_tables() WHERE NOT internal")}

    def definition(self, table: Table) -> list[str]:
        """Blobs are stored as they are: trying to compress a page of statistics takes 0.1 s.

        There are no secondary indexes: DuckDB skips by the bounds of its own row groups.
        """
        lines = []
        for column in table.columns:
            null = "" if column.nullable else " NOT NULL"
            how = " USING COMPRESSION uncompressed" if column.kind is Kind.BLOB else ""
            lines.append(f"{column.name} {_WORDS[column.kind]}{how}{null}")
        lines.append(f"PRIMARY KEY ({', '.join(table.key)})")
        return [f"CREATE TABLE {table.name} ({', '.join(lines)})"]

    def close(self) -> None:
        """Closes the file when its last catalog in this process is closed."""
        with _registry_lock:
            database, self._database = self._database, None
            if database is None or database.pid != os.getpid():
                return
            database.users -= 1
            if not database.users:
                del _open_databases[self._key]
                database.root.close()

    def _join(self) -> _Database:
        known = _open_databases.get(self._key)
        if known is not None:
            if known.pid == os.getpid():
                known.users += 1
            return known
        if self._path.is_dir():
            raise CatalogError(
                f"catalog {self.url} is a folder; give the path of a file, for instance …/catalog.duckdb"
            )
        if not self._path.exists() and not self._may_create:
            raise missing(self.url)
        duckdb = _import()
        try:
            database = _Database(duckdb.connect(str(self._path)))
        except duckdb.Error as error:
            raise self._open_error(error) from error
        _open_databases[self._key] = database
        self._may_create = False
        return database

    def _open_error(self, error: Exception) -> Exception:
        """Tells a lock from a wrong file by looking at the file: DuckDB has one exception for both."""
        detail = " ".join(str(error).split())
        if not self._path.exists():
            return CatalogError(f"catalog {self.url} cannot be created there ({detail})")
        try:
            with self._path.open("rb") as file:
                head = file.read(_MAGIC_OFFSET + len(_MAGIC))
        except OSError as failure:
            return CatalogUnavailableError(f"catalog {self.url} cannot be opened: {failure.strerror}")
        if head[_MAGIC_OFFSET:] != _MAGIC:
            return fault_error(Fault.DAMAGED, self.url, detail)
        if not os.access(self._path, os.W_OK):
            return fault_error(Fault.READ_ONLY, self.url, detail)
        if isinstance(error, _import().IOException):
            return self._one_process(detail)
        return fault_error(Fault.OTHER, self.url, detail)

    def _one_process(self, detail: str) -> CatalogUnavailableError:
        return CatalogUnavailableError(
            f"catalog {self.url} is open in another process, and DuckDB allows one process only; close it there, or"
            f" use a SQLite or PostgreSQL catalog, which many processes can share ({detail})"
        )


def _import() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("DuckDB", "duckdb") from error
    return duckdb


@functools.cache
def _render(sql: str) -> str:
    for word, kind in (("= ANY_OF(?)", Kind.INTEGER), ("= ANY_TEXT(?)", Kind.TEXT)):
        sql = sql.replace(word, f"IN (SELECT unnest(?::{_WORDS[kind]}[]))")
    return sql.replace("FOR UPDATE", "")


@functools.cache
def _insert_rows(table: Table, count: int) -> str:
    marks = ", ".join("?" for _ in table.columns)
    return table.insert(", ".join(["", *[f"({marks})"] * (count - 1)]))


@functools.cache
def _insert_lists(table: Table) -> str:
    lists = ", ".join(f"unnest(?::{_WORDS[column.kind]}[])" for column in table.columns)
    return f"INSERT INTO {table.name} ({', '.join(table.column_names)}) SELECT {lists}"
