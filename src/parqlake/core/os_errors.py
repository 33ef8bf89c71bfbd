"""Errors of the operating system, told apart by what a handler would do about them."""

from __future__ import annotations

import errno

from parqlake.core.errors import FileNotInStoreError, ParqlakeError, PathIsFileError, StoreError, StoreReadOnlyError

_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}


def store_error(error: OSError, doing: str, path: str, *, writing: bool) -> ParqlakeError:
    """Makes the error of the tree for a failed call: what was done to which path, why it failed, what to do.

    Args:
        error: what the operating system or the store's client raised.
        doing: the verb, as in "cannot {doing} …".
        path: as users know it; never with secrets.
        writing: whether the call would have changed the store.
    """
    reason = error.strerror or str(error) or type(error).__name__
    text = f'cannot {doing} "{path}": {reason}'
    if isinstance(error, FileNotFoundError) and not writing:
        return FileNotInStoreError(f'there is no file at "{path}"; check the path, or whether it was deleted')
    if isinstance(error, NotADirectoryError):
        return PathIsFileError(f"{text}; a file lies where a folder is needed: move it, or choose another place")
    if error.errno in _FULL:
        return StoreError(f"{text}; make room in the store, then run it again")
    if isinstance(error, PermissionError) or error.errno in _REFUSED:
        if writing:
            return StoreReadOnlyError(f"{text}; give this user the right to write there, or choose another place")
        return StoreError(f"{text}; give this user the right to read it")
    return StoreError(f"{text}; mend the store, then run it again")
