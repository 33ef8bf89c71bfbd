"""DuckDB's errors as those of the tree."""

from __future__ import annotations

import errno
import os

from parqlake.core.errors import InputError, ParqlakeError, StoreError
from parqlake.core.os_errors import store_error

_KNOWN = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)


def mapped_error(error: Exception, location: str) -> ParqlakeError:
    """The error for a failed `COPY` into `location`."""
    import duckdb

    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, duckdb.OutOfMemoryException):
        return StoreError(
            f'DuckDB ran out of memory while writing to "{location}" ({first}); '
            "give the engine more by memory_limit, fewer threads, or a temp_directory with room"
        )
    if isinstance(error, duckdb.IOException | duckdb.PermissionException):
        # DuckDB passes on the system's text but not its number.
        number = next((code for code in _KNOWN if os.strerror(code) in str(error)), None)
        return store_error(OSError(number, first), "write to", location, writing=True)
    return InputError(
        f'DuckDB cannot write this data to "{location}": {first}; mend the values, or write with engine="pyarrow"'
    )
