"""Reads a diskcache database through a connection of our own, which writes nothing: not even on a full disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from resumable_nb.errors import StoreUnavailable
from resumable_nb.model import MISSING, Missing
from resumable_nb.store.disk.fault import fault, sqlite_code

DATABASE: Final = "cache.db"
_ATTEMPTS: Final = 20
_BUSY_TIMEOUT_S: Final = 5.0
_UNOPENABLE: Final = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_PERM,
}


Row = tuple[str, int, "str | None", Any]
"""Key, diskcache's mode, value file, inline value."""
_ROWS: Final = "SELECT key, mode, filename, value FROM Cache WHERE raw = 1"


class State(NamedTuple):
    """What a connection was opened on; where it differs, the connection is of no use any more."""

    device: int
    inode: int
    live: bool
    """There is a write-ahead log: somebody writes, or was killed. Only then does SQLite need its lock files."""
    size_bytes: int
    changed_ns: int


class Reader:
    """One connection, shared by all threads under a lock."""

    def __init__(self, directory: Path) -> None:
        self._directory = os.fspath(directory)
        self._database = os.path.join(self._directory, DATABASE)  # noqa: PTH118  # looked at before each query
        self._log = f"{self._database}-wal"
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._state: State | None = None

    def state(self) -> State | Missing:
        """What is on disk now; ``MISSING`` where there is no database, or an empty file."""
        try:
            database = os.stat(self._database)  # noqa: PTH116  # at each read: a Path costs more than the call
        except FileNotFoundError:
            return MISSING
        except OSError as error:
            raise self._fault(error) from error
        if database.st_size == 0:
            return MISSING
        try:
            live = os.stat(self._log).st_size > 0  # noqa: PTH116  # at each read: a Path costs more than the call
        except FileNotFoundError:
            live = False
        # SQLite watches a live database itself.
        size_bytes, changed_ns = (0, 0) if live else (database.st_size, database.st_mtime_ns)
        return State(database.st_dev, database.st_ino, live, size_bytes, changed_ns)

    def query(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows, as of one instant; none where there is no database or no table."""
        with self.lock:
            for _ in range(_ATTEMPTS):
                state = self.state()
                if state is MISSING:
                    self.close()
                    return []
                # A connection that was right before reads this very file, and SQLite minds the log.
                watched = state.live and self._connection is not None and self._state == state
                try:
                    rows = self._connect(state).execute(statement, values).fetchall()
                except sqlite3.Error as error:
                    self.close()
                    if self.state() == state:
                        return self._after_error(error, statement, values)
                    continue
                if watched or self.state() == state:
                    return rows
        raise StoreUnavailable(
            f"store {self._directory} changes faster than it can be read; run the cell again",
            uri=self._directory,
        )

    def row(self, key: str) -> list[Row]:
        """The row, or nothing."""
        return self.query(f"{_ROWS} AND key = ?", (key,))

    def rows(self, prefix: str) -> list[Row]:
        """The rows whose key starts with ``prefix``, in key order."""
        condition, values = _within(prefix)
        return self.query(f"{_ROWS} AND {condition} ORDER BY key", values)

    def keys(self, prefix: str) -> list[str]:
        condition, values = _within(prefix)
        return [key for (key,) in self.query(f"SELECT key FROM Cache WHERE {condition} ORDER BY key", values)]  # noqa: S608  # the condition is ours, the values are bound

    def files(self) -> set[str]:
        """The value files that rows name."""
        return {name for (name,) in self.query("SELECT filename FROM Cache WHERE filename IS NOT NULL")}

    def commits(self) -> int:
        """How many durable commits the database has seen, as ``Database.number`` counts them."""
        found = self.query("PRAGMA user_version")
        return int(found[0][0]) if found else 0

    def copy(self, target: Path) -> None:
        """The whole database as of one instant, into a new file."""
        with self.lock:
            for _ in range(_ATTEMPTS):
                state = self.state()
                if state is MISSING:
                    break
                try:
                    with contextlib.closing(sqlite3.connect(target)) as copy:
                        self._connect(state).backup(copy)
                except sqlite3.Error as error:
                    self.close()
                    if self.state() == state:
                        raise self._fault(error) from error
                if self.state() == state:
                    return
                target.unlink(missing_ok=True)
        raise StoreUnavailable(
            f"store {self._directory} could not be copied: it changes; try again", uri=self._directory
        )

    def close(self) -> None:
        with self.lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connect(self, state: State) -> sqlite3.Connection:
        if self._connection is not None and self._state == state:
            return self._connection
        self.close()
        # Without a log nothing is pending, and "immutable" keeps SQLite from creating lock files.
        # What changes meanwhile is seen by the second look at the state.
        mode = "mode=ro" if state.live else "mode=ro&immutable=1"
        self._connection = sqlite3.connect(
            f"file:{quote(self._database)}?{mode}",
            uri=True,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        self._state = state
        return self._connection

    def _after_error(self, error: sqlite3.Error, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        if sqlite_code(error) == sqlite3.SQLITE_ERROR and "no such table" in str(error):
            return []
        if sqlite_code(error) in _UNOPENABLE:
            return self._query_copy(error, statement, values)
        raise self._fault(error) from error

    def _query_copy(self, cause: sqlite3.Error, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """A log that a killed writer left on a disk where SQLite can't make its lock files: read a copy."""
        try:
            with tempfile.TemporaryDirectory(prefix="resumable_nb-") as temporary:
                for source in (Path(self._database), Path(self._log)):
                    if source.exists():
                        shutil.copyfile(source, Path(temporary) / source.name)
                connection = sqlite3.connect(Path(temporary) / DATABASE, isolation_level=None)
                try:
                    return connection.execute(statement, values).fetchall()
                finally:
                    connection.close()
        except (OSError, sqlite3.Error):
            raise self._fault(cause) from cause

    def _fault(self, error: BaseException) -> Exception:
        return fault(error, self._directory, doing="read")


def _within(prefix: str) -> tuple[str, tuple[str, ...]]:
    """SQL condition for the text keys that start with ``prefix``; the table's index serves it."""
    stem = prefix.rstrip(chr(sys.maxunicode))
    if not stem:
        return "typeof(key) = 'text' AND key >= ?", (prefix,)
    following = ord(stem[-1]) + 1
    if following == 0xD800:  # no text holds a surrogate
        following = 0xE000
    return "key >= ? AND key < ?", (prefix, stem[:-1] + chr(following))
