"""What went wrong below, in one line that says what, where and what to do."""

from __future__ import annotations

import errno
import sqlite3
from typing import Final

from resumable_nb.errors import Corrupt, StoreError, StoreUnavailable

_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN: Final = {errno.EACCES, errno.EPERM, errno.EROFS}
_NOT_A_DIRECTORY: Final = {errno.ENOTDIR, errno.EEXIST}
_FORBIDDEN_SQL: Final = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_CANTOPEN}
_BUSY_SQL: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED_SQL: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def sqlite_code(error: BaseException | None) -> int:
    """The primary result code of an SQLite error, 0 for anything else."""
    # The low byte; the rest says more than anybody needs here.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: BaseException | None) -> bool:
    return sqlite_code(error) in _BUSY_SQL


def root_cause(error: BaseException) -> BaseException:
    """The first failed call: diskcache hides it behind its own error, a failed rollback behind the rollback's."""
    found, each = error, error.__context__
    while each is not None:
        if isinstance(each, OSError | sqlite3.Error):
            found = each
        each = each.__context__
    return found


def fault(error: BaseException, where: str, *, doing: str) -> StoreError:
    """The error to raise for a failed system or SQLite call; raise it ``from error``."""
    code, number = sqlite_code(error), error.errno if isinstance(error, OSError) else 0
    head = f"store {where} cannot be {doing}"
    if code in _DAMAGED_SQL:
        return Corrupt(
            f"store {where} is damaged ({error}): restore the directory from a backup, or remove it to begin anew",
            uri=where,
        )
    if code == sqlite3.SQLITE_FULL or number in _FULL:
        advice = "the disk is full; nothing that was saved is lost: free some space and run the cell again"
    elif number in _NOT_A_DIRECTORY:
        advice = "a file lies where a directory is needed; move the file away, or choose another place for the store"
    elif code in _FORBIDDEN_SQL or number in _FORBIDDEN:
        advice = "permission denied, or a read-only disk; make the directory writable for this user, or choose another"
    elif code in _BUSY_SQL:
        advice = "another process keeps it locked; wait for that process or end it, and run the cell again"
    else:
        advice = f"{error}; check the disk, and run the cell again"
    return StoreUnavailable(f"{head}: {advice}", uri=where)
