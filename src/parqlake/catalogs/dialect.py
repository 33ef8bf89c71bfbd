"""What the three databases have to say for themselves: how to connect, begin, insert, and what an error means.

The rest of this room writes one SQL with `?` marks and three words that dialects translate: `= ANY_OF(?)` (one bound
list of ids), `= ANY_TEXT(?)` (one of texts) and `FOR UPDATE` (nothing, where a writer is alone anyway).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

from parqlake.catalogs.tables import Table
from parqlake.core.errors import (
    CatalogBusyError,
    CatalogError,
    CatalogUnavailableError,
    ConflictError,
    InputError,
    LakeNotFoundError,
    ParqlakeError,
    UnknownOutcomeError,
)

Row = tuple[Any, ...]
Params = Sequence[object]


class Fault(Enum):
    """What a driver's error means, found from its type and code and never from its text."""

    BUSY = "others hold the lock, or this transaction was chosen to give way"
    LOST = "the database cannot be reached or read"
    READ_ONLY = "the database cannot be written to"
    DENIED = "the user may not do this"
    FULL = "the disk is full"
    DAMAGED = "not a database, or a damaged one"
    DUPLICATE = "a key is there already"
    INPUT = "a value that the database cannot hold"
    OTHER = "anything else"


def fault_error(fault: Fault, url: str, detail: str) -> ParqlakeError:
    """The error of parqlake's tree for a fault; `url` and `detail` must hold no secret."""
    match fault:
        case Fault.BUSY:
            return CatalogBusyError(
                f"catalog {url} is busy with other writers; nothing was written; run it again ({detail})"
            )
        case Fault.LOST:
            return CatalogUnavailableError(f"catalog {url} cannot be reached or read; nothing was written ({detail})")
        case Fault.READ_ONLY:
            return CatalogError(
                f"catalog {url} is read-only; make its file and folder writable, or open another lake ({detail})"
            )
        case Fault.DENIED:
            return CatalogError(f"catalog {url}: permission denied; ask its owner to grant it ({detail})")
        case Fault.FULL:
            return CatalogError(
                f"catalog {url}: the disk is full; nothing was written; make room and run it again ({detail})"
            )
        case Fault.DAMAGED:
            return CatalogError(
                f"catalog {url} is not a database of that kind, or it is damaged; check the path ({detail})"
            )
        case Fault.DUPLICATE:
            return ConflictError(f"catalog {url}: another commit was faster; run it again ({detail})")
        case Fault.INPUT:
            return InputError(f"catalog {url} cannot hold this value ({detail})")
    return CatalogError(f"catalog {url} failed ({detail})")


def missing(url: str) -> LakeNotFoundError:
    """The error for a catalog that should be there and is not."""
    return LakeNotFoundError(f"there is no catalog at {url}; check the path, or bring the catalog back from a copy")


class Session(ABC):
    """One connection, used by one thread at a time; every error leaves it as one of parqlake's tree.

    After a failed statement of a write transaction nothing more can be run or committed in it, on every
    database: some roll back on their own by then, and a caller that swallows the error would otherwise commit half.
    """

    reusable = True
    """Whether the connection may serve again after its transaction."""
    driver_errors: type[Exception] | tuple[type[Exception], ...]

    def __init__(self, url: str) -> None:
        """`url` names the catalog in errors."""
        self.url = url
        self._failure: ParqlakeError | None = None

    # ---- statements

    def rows(self, sql: str, params: Params = ()) -> list[Row]:
        """All rows of a query."""
        self._refuse_after_failure()
        try:
            return self._fetch(sql, params)
        except self.driver_errors as error:
            raise self._failed(error) from error

    def row(self, sql: str, params: Params = ()) -> Row | None:
        """The first row of a query, or None."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def change(self, sql: str, params: Params = ()) -> int:
        """Runs a statement that writes; returns how many rows it touched."""
        self._refuse_after_failure()
        try:
            return self._change(sql, params)
        except self.driver_errors as error:
            raise self._failed(error) from error

    def insert(self, table: Table, rows: Sequence[Params]) -> None:
        """Inserts whole rows, by the quickest way for their number."""
        if not rows:
            return
        self._refuse_after_failure()
        try:
            self._insert(table, rows)
        except self.driver_errors as error:
            raise self._failed(error) from error

    @abstractmethod
    def ids(self, values: Sequence[int] | Sequence[str]) -> object:
        """The list of ids as it is bound to `= ANY_OF(?)`, or of texts, as to `= ANY_TEXT(?)`."""

    # ---- transactions

    def begin_single(self) -> None:
        """Makes ready for queries of which each stands alone, outside a transaction."""
        self._failure = None
        try:
            self._begin_single()
        except self.driver_errors as error:
            raise self._failed(error) from error

    def begin_read(self) -> None:
        """Starts a transaction in which all queries see the same moment."""
        self._failure = None
        try:
            self._begin_read()
        except self.driver_errors as error:
            raise self._failed(error) from error

    def begin_write(self, *, durable: bool = True) -> None:
        """Starts a transaction that writes; waits for other writers where the database lets only one in.

        Without `durable` the database may forget the transaction if the machine fails, where that is cheaper.
        """
        self._failure = None
        try:
            self._begin_write(durable=durable)
        except self.driver_errors as error:
            raise self._failed(error) from error

    def commit(self) -> None:
        """Makes a write durable.

        Any error but `UnknownOutcomeError` means that nothing was committed.
        """
        if self._failure is not None:
            self.rollback()
            self._refuse_after_failure()
        try:
            self._commit()
        except self.driver_errors as error:
            fault = self.fault(error)
            if fault is Fault.LOST:
                self.reusable = False
                raise UnknownOutcomeError(
                    f"catalog {self.url}: the connection failed during COMMIT, so the commit may or may not have"
                    f" happened; look the transaction up; no file was deleted ({self.detail(error)})"
                ) from error
            self.rollback()
            raise fault_error(fault, self.url, self.detail(error)) from error

    def end_read(self) -> None:
        """Ends a read transaction; a connection that cannot do that is not used again."""
        self.rollback()

    def rollback(self) -> None:
        """Undoes the transaction; a connection that cannot do that is not used again."""
        try:
            self._rollback()
        except self.driver_errors:
            self.reusable = False

    @abstractmethod
    def close(self) -> None:
        """Closes the connection, whatever its state."""

    # ---- what a database supplies

    @abstractmethod
    def fault(self, error: Exception) -> Fault:
        """What the driver's error means."""

    def detail(self, error: Exception) -> str:
        """The driver's own words on one line, without secrets."""
        return " ".join(str(error).split()) or type(error).__name__

    @abstractmethod
    def _fetch(self, sql: str, params: Params) -> list[Row]: ...

    @abstractmethod
    def _change(self, sql: str, params: Params) -> int: ...

    @abstractmethod
    def _insert(self, table: Table, rows: Sequence[Params]) -> None: ...

    def _begin_single(self) -> None:
        return

    @abstractmethod
    def _begin_read(self) -> None: ...

    @abstractmethod
    def _begin_write(self, *, durable: bool) -> None: ...

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _rollback(self) -> None: ...

    # ---- shared

    def _failed(self, error: Exception) -> ParqlakeError:
        fault = self.fault(error)
        if fault is Fault.LOST:
            self.reusable = False
        self._failure = fault_error(fault, self.url, self.detail(error))
        return self._failure

    def _refuse_after_failure(self) -> None:
        if self._failure is not None:
            raise CatalogError(
                f"catalog {self.url}: an earlier statement of this transaction failed, so nothing of it was committed"
            ) from self._failure


class Dialect(Protocol):
    """A database that can hold a catalog."""

    @property
    def url(self) -> str:
        """Where the catalog is, without secrets."""

    def connect(self) -> Session:
        """A new connection, ready for `begin_read` and `begin_write`."""

    def prepare_place(self) -> None:
        """Makes the place where a new catalog may be created; until then, `connect` fails where nothing is."""

    def lock_creation(self, session: Session) -> None:
        """Inside a write transaction: makes sure that no one else creates or migrates the catalog meanwhile."""

    def table_names(self, session: Session) -> set[str]:
        """The tables that are already in the place."""

    def definition(self, table: Table) -> list[str]:
        """The statements that create the table and its indexes."""

    def close(self) -> None:
        """Lets go of what connections share."""
