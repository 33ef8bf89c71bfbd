"""Errors, grouped by what a handler would do about them.

Each message says what is wrong, shows the value, and says what to do. The groups:

* `InputError`: the call is wrong; mend the call. Nothing was written.
* `NotFoundError`, `AlreadyExistsError`: the lake is not in the state the call expects.
* `ConflictError`: another commit got in the way; run the operation again.
* `UnknownOutcomeError`: the answer to a commit was lost; ask again, nothing was deleted.
* `CatalogError`, `StoreError`: the surroundings fail; mend them and run again.
* `DataCorruptionError`: a committed file is missing or damaged.
* `QualityError`: the data is not as a pipeline expects it; mend the data or the expectation.
* `AmbiguousFilesError`: a lost catalog cannot be made again without a decision.
* `MissingExtraError`, `JavaMissingError`: something optional is not installed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class ParqlakeError(Exception):
    """Base of every error that parqlake raises on purpose."""


class InputError(ParqlakeError, ValueError):
    """The call is wrong; nothing was written."""


class InvalidNameError(InputError):
    """A table, namespace, column or tag name that cannot be used."""


class InvalidPredicateError(InputError):
    """A `where` that cannot be parsed, or that does not fit the table's columns."""


class InvalidQueryError(InputError):
    """A query of `lake.sql` that cannot be read, or that would do more than read tables."""


class InvalidOptionError(InputError):
    """An option with a value that makes no sense."""


class ColumnNotFoundError(InputError):
    """A column that the table does not have."""


class SchemaMismatchError(InputError):
    """Data whose columns do not fit the table's schema."""


class TypeMismatchError(SchemaMismatchError, TypeError):
    """Data whose column types do not fit the table's schema."""


class UnsupportedTypeError(ParqlakeError, TypeError):
    """A type that tables, or one engine, cannot hold."""


class UnsupportedInputError(ParqlakeError, TypeError):
    """An object that cannot be read as Arrow data."""


class ConstraintError(InputError):
    """Rows that break a NOT NULL or CHECK constraint."""


class NotFoundError(ParqlakeError, LookupError):
    """Something that the call names does not exist."""


class TableNotFoundError(NotFoundError):
    """No table of that name."""


class VersionNotFoundError(NotFoundError):
    """No such version, tag, or point in time."""


class LakeNotFoundError(NotFoundError, FileNotFoundError):
    """No lake at that place."""


class FileNotInStoreError(NotFoundError, FileNotFoundError):
    """A path in a store where nothing lies."""


class NotAppendOnlyError(ParqlakeError):
    """Rows were removed or replaced, so that two versions do not differ by new rows alone."""


class AlreadyExistsError(ParqlakeError):
    """What the call would create is already there."""


class TableExistsError(AlreadyExistsError):
    """A table of that name is already there."""


class ConflictError(ParqlakeError):
    """Another commit changed what this one relied on; run it again."""


class ConcurrentAppendError(ConflictError):
    """Rows were added that this operation should have seen."""


class ConcurrentRemoveError(ConflictError):
    """Files that this operation read or replaces were removed."""


class ConcurrentSchemaChangeError(ConflictError):
    """The table's schema changed meanwhile."""


class ConcurrentDropError(ConflictError):
    """The table was dropped meanwhile."""


class RecordConflictError(ConflictError):
    """A record in the catalog is not as the transaction expected; nothing of it was committed.

    Attributes:
        scope: the scope of the record.
        key: its key.
        found: the `Record` that is there, or None.
    """

    def __init__(self, message: str, *, scope: str = "", key: str = "", found: Any = None) -> None:
        """Names the record, and what is there."""
        super().__init__(message)
        self.scope = scope
        self.key = key
        self.found = found


class ConcurrentRunError(ConflictError):
    """Another run of the same pipeline committed first; nothing of this one was committed."""


class TransactionExpiredError(ConflictError):
    """The transaction's lease ran out and recovery ended it."""


class UnknownOutcomeError(ParqlakeError):
    """The answer to a commit was lost and could not be found out; no file was deleted."""


class CatalogError(ParqlakeError):
    """The catalog database fails or refuses."""


class CatalogUnavailableError(CatalogError, ConnectionError):
    """The catalog cannot be reached or opened."""


class CatalogBusyError(CatalogError):
    """The catalog stayed locked by others for longer than the time limit."""


class CatalogVersionError(CatalogError):
    """The catalog was written by a newer parqlake."""


class CatalogMismatchError(CatalogError):
    """The catalog and the store belong to different lakes."""


class StoreError(ParqlakeError, OSError):
    """The store fails or refuses."""


class StoreReadOnlyError(StoreError, PermissionError):
    """The store cannot be written to."""


class PathIsFileError(StoreError, NotADirectoryError):
    """A folder was expected where a file lies."""


class UnsafePathError(StoreError):
    """A path that would leave the lake's root."""


class DataCorruptionError(ParqlakeError):
    """A committed file is missing, short, or fails its checksum."""


class QualityError(ParqlakeError):
    """Rows or tables are not as a pipeline expects them; nothing of the run was committed.

    Attributes:
        report: what the run came to, if it was a run.
    """

    def __init__(self, message: str, *, report: Any = None) -> None:
        """Says which expectations were broken."""
        super().__init__(message)
        self.report = report


class AmbiguousFilesError(ParqlakeError):
    """Files of a lost catalog's table may have replaced one another; somebody has to decide."""


class MissingExtraError(ParqlakeError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        """Names the extra that brings `what`."""
        super().__init__(f"{what} is not installed; run: pip install 'parqlake[{extra}]'")


class JavaMissingError(ParqlakeError, RuntimeError):
    """Spark was asked for, and there is no Java that it can run on."""


class ColumnBecameTextWarning(UserWarning):
    """A write with `schema_mode="promote"` made a column a string."""


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """Returns ` did you mean "x"?` with the closest of the known names, or nothing."""
    close = difflib.get_close_matches(wrong, list(known), n=1, cutoff=0.6)
    return f' did you mean "{close[0]}"?' if close else ""


def column_not_found(name: str, known: Iterable[str]) -> ColumnNotFoundError:
    """Makes the error for a wrong column: the name, the closest one, and all there are."""
    names = list(known)
    shown = ", ".join(names[:50]) + (", …" if len(names) > 50 else "")
    hint = suggestion(name, names)
    return ColumnNotFoundError(f'no column "{name}";{hint} columns: {shown}')
