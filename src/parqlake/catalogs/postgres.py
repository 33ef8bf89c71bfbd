"""PostgreSQL: a catalog for many machines. READ COMMITTED with row locks, so that writers wait instead of failing."""

from __future__ import annotations

import functools
import hashlib
import re
import selectors
from collections.abc import Mapping, Sequence
from typing import Any

from parqlake.catalogs.dialect import Fault, Params, Row, Session, fault_error
from parqlake.catalogs.tables import Kind, Table
from parqlake.core.errors import InvalidOptionError, MissingExtraError

_COPY_ABOVE = 64
_CONNECT_TIMEOUT = 10
_WORDS = {Kind.INTEGER: "BIGINT", Kind.TEXT: "TEXT", Kind.BLOB: "BYTEA", Kind.KEY: 'TEXT COLLATE "C"'}
_COPY_TYPES = {Kind.INTEGER: "int8", Kind.TEXT: "text", Kind.BLOB: "bytea", Kind.KEY: "text"}
_SCHEMA_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_FAULTS = {
    "40001": Fault.BUSY,  # serialization_failure
    "40P01": Fault.BUSY,  # deadlock_detected
    "55P03": Fault.BUSY,  # lock_not_available
    "57P01": Fault.LOST,  # admin_shutdown
    "57P02": Fault.LOST,  # crash_shutdown
    "57P03": Fault.LOST,  # cannot_connect_now
    "57P05": Fault.LOST,  # idle_session_timeout
    "25P03": Fault.LOST,  # idle_in_transaction_session_timeout
    "53300": Fault.LOST,  # too_many_connections
    "25006": Fault.READ_ONLY,  # read_only_sql_transaction
    "42501": Fault.DENIED,  # insufficient_privilege
    "53100": Fault.FULL,  # disk_full
    "23505": Fault.DUPLICATE,  # unique_violation
    "XX001": Fault.DAMAGED,  # data_corrupted
    "XX002": Fault.DAMAGED,  # index_corrupted
}
_FAULT_CLASSES = {"08": Fault.LOST, "28": Fault.LOST, "3D": Fault.LOST, "22": Fault.INPUT}


class PostgresSession(Session):
    """A connection to a PostgreSQL server."""

    def __init__(self, url: str, connection: Any, secrets: Sequence[str]) -> None:
        """`secrets` are taken out of the server's messages."""
        super().__init__(url)
        self._connection = connection
        self._cursor = connection.cursor(binary=True)
        self._secrets = secrets
        self._answers_due = False
        psycopg = _import()
        self.driver_errors = psycopg.Error
        self._in_transaction = psycopg.pq.TransactionStatus.INTRANS

    def ids(self, values: Sequence[int] | Sequence[str]) -> object:
        """The ids as a list, bound as one array."""
        return list(values)

    def fault(self, error: Exception) -> Fault:
        """Goes by SQLSTATE, and by whether the connection still stands."""
        return Fault.LOST if self._connection.closed else sqlstate_fault(error)

    def detail(self, error: Exception) -> str:
        """The server's words, without the password."""
        return without_secrets(super().detail(error), self._secrets)

    def close(self) -> None:
        """Closes the connection; an open transaction is undone."""
        self._connection.close()

    def _fetch(self, sql: str, params: Params) -> list[Row]:
        rows: list[Row] = self._cursor.execute(_render(sql), params).fetchall()
        return rows

    def _change(self, sql: str, params: Params) -> int:
        return int(self._cursor.execute(_render(sql), params).rowcount)

    def _insert(self, table: Table, rows: Sequence[Params]) -> None:
        if len(rows) == 1:
            self._cursor.execute(_insert_statement(table), rows[0])
            return
        if len(rows) <= _COPY_ABOVE:
            self._cursor.executemany(_insert_statement(table), rows)
            return
        with self._cursor.copy(_copy_statement(table)) as copy:
            copy.set_types([_COPY_TYPES[column.kind] for column in table.columns])
            for row in rows:
                copy.write_row(row)

    def end_read(self) -> None:
        """Sends ROLLBACK and does not wait for the answer, which the next transaction takes off the line first."""
        pgconn = self._connection.pgconn
        try:
            pgconn.send_query(b"ROLLBACK")
            self.reusable = self.reusable and pgconn.flush() == 0
        except self.driver_errors:
            self.reusable = False
        self._answers_due = True

    def _take_answers(self) -> None:
        if not self._answers_due:
            return
        pgconn = self._connection.pgconn
        more: object = pgconn
        while more is not None:
            pgconn.consume_input()
            while pgconn.is_busy():  # get_result would wait too, but without letting other threads run
                with selectors.DefaultSelector() as selector:
                    selector.register(pgconn.socket, selectors.EVENT_READ)
                    selector.select()
                pgconn.consume_input()
            more = pgconn.get_result()
        self._answers_due = False

    def _begin_single(self) -> None:
        self._take_answers()

    def _begin_read(self) -> None:
        self._take_answers()
        self._cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def _begin_write(self, *, durable: bool) -> None:  # noqa: ARG002
        # READ COMMITTED: after waiting for a row lock, the winner's commit must be seen. `durable` is ignored:
        # unlike a local database, the server can crash while the writer lives on and wants its row back.
        self._take_answers()
        self._cursor.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")

    def _commit(self) -> None:
        if not self._connection.closed and self._connection.info.transaction_status != self._in_transaction:
            # PostgreSQL answers COMMIT of a failed transaction with a quiet ROLLBACK.
            raise _import().errors.InFailedSqlTransaction("the transaction had failed before COMMIT")
        self._cursor.execute("COMMIT")

    def _rollback(self) -> None:
        self._cursor.execute("ROLLBACK")


class PostgresDialect:
    """A catalog in one schema of a PostgreSQL database."""

    def __init__(self, options: Mapping[str, str], *, url: str, schema: str, busy_timeout: float) -> None:
        """`options` are libpq's; `url` is the same without secrets; `busy_timeout` is in seconds."""
        psycopg = _import()
        if not _SCHEMA_NAME.fullmatch(schema):
            raise InvalidOptionError(
                f"PostgreSQL schema name {schema!r} is not usable; use letters, digits and _, at most 63,"
                " for instance ?parqlake_schema=parqlake"
            )
        self._url = url
        self._schema = schema
        self._secrets = [value for key, value in options.items() if "password" in key and value]
        self._busy_timeout = busy_timeout
        try:
            # Checked here so that libpq's complaint, which would quote the password, is never shown.
            self._conninfo = psycopg.conninfo.make_conninfo(
                "", **{"connect_timeout": str(_CONNECT_TIMEOUT), "application_name": "parqlake"} | dict(options)
            )
        except psycopg.Error:
            known = ", ".join(sorted(key for key in options if "password" not in key))
            raise InvalidOptionError(f"catalog {url}: PostgreSQL does not know one of these options: {known}") from None

    @property
    def url(self) -> str:
        """The server, database and schema, without a password."""
        return self._url

    def prepare_place(self) -> None:
        """Nothing to do: the database must be there, and the schema is made in the same transaction as the tables."""

    def connect(self) -> PostgresSession:
        """A connection whose names mean those of the catalog's schema."""
        psycopg = _import()
        try:
            connection = psycopg.connect(self._conninfo, autocommit=True)
        except psycopg.Error as error:
            text = without_secrets(" ".join(str(error).split()), self._secrets)
            fault = sqlstate_fault(error)
            raise fault_error(Fault.LOST if fault is Fault.OTHER else fault, self._url, text) from None
        # One width for all numbers, so that a statement is prepared once and not for each size of argument.
        connection.adapters.register_dumper(int, psycopg.types.numeric.Int8BinaryDumper)
        session = PostgresSession(self._url, connection, self._secrets)
        try:
            session.rows(
                "SELECT set_config('search_path', ?, false), set_config('lock_timeout', ?, false),"
                " set_config('client_min_messages', 'warning', false)",
                (f'"{self._schema}"', f"{max(1, int(self._busy_timeout * 1000))}ms"),
            )
        except BaseException:
            session.close()
            raise
        return session

    def lock_creation(self, session: Session) -> None:
        """Takes a lock for the schema's name and makes the schema: IF NOT EXISTS alone fails when two are as fast."""
        digest = hashlib.blake2b(f"parqlake:{self._schema}".encode(), digest_size=8).digest()
        session.rows("SELECT pg_advisory_xact_lock(?)", (int.from_bytes(digest, "big", signed=True),))
        if session.row("SELECT 1 FROM pg_namespace WHERE nspname = ?", (self._schema,)) is None:
            session.change(f'CREATE SCHEMA "{self._schema}"')

    def table_names(self, session: Session) -> set[str]:
        """The tables in the schema."""
        sql = "SELECT tablename::text FROM pg_tables WHERE schemaname = ?"
        return {name for (name,) in session.rows(sql, (self._schema,))}

    def definition(self, table: Table) -> list[str]:
        """Blobs are kept out of line and uncompressed: pages of keys do not shrink, and are read whole."""
        lines = [f"{c.name} {_WORDS[c.kind]}{'' if c.nullable else ' NOT NULL'}" for c in table.columns]
        include = f" INCLUDE ({', '.join(table.covering)})" if table.covering else ""
        lines.append(f"PRIMARY KEY ({', '.join(table.key)}){include}")
        statements = [f"CREATE TABLE {table.name} ({', '.join(lines)})"]
        statements += [
            f"ALTER TABLE {table.name} ALTER COLUMN {column.name} SET STORAGE EXTERNAL"
            for column in table.columns
            if column.kind is Kind.BLOB and column.name not in table.covering
        ]
        for index in table.indexes:
            where = f" WHERE {index.where}" if index.where else ""
            statements.append(f"CREATE INDEX {index.name} ON {table.name} ({', '.join(index.columns)}){where}")
        return statements

    def close(self) -> None:
        """Nothing is shared."""


def sqlstate_fault(error: Exception) -> Fault:
    """What the error's SQLSTATE means; without one the driver refused a value, or never reached the server."""
    state = getattr(error, "sqlstate", None)
    if state is None:
        return Fault.INPUT if isinstance(error, _import().DataError) else Fault.OTHER
    return _FAULTS.get(state) or _FAULT_CLASSES.get(state[:2], Fault.OTHER)


def without_secrets(text: str, secrets: Sequence[str]) -> str:
    """The text with every secret replaced."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _import() -> Any:
    try:
        import psycopg
        import psycopg.conninfo
        import psycopg.types.numeric
    except ImportError as error:
        raise MissingExtraError("psycopg", "postgres") from error
    return psycopg


@functools.cache
def _render(sql: str) -> str:
    return sql.replace("= ANY_OF(?)", "= ANY(?)").replace("= ANY_TEXT(?)", "= ANY(?)").replace("?", "%s")


@functools.cache
def _insert_statement(table: Table) -> str:
    return _render(table.insert())


@functools.cache
def _copy_statement(table: Table) -> str:
    return f"COPY {table.name} ({', '.join(table.column_names)}) FROM STDIN (FORMAT BINARY)"
