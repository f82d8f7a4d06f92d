"""The door to diskcache, with the settings and the ``Disk`` that make it keep what it was given."""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import diskcache
from diskcache.core import MODE_BINARY, MODE_RAW, UNKNOWN

from resumable_nb.errors import Corrupt, StoreUnavailable
from resumable_nb.store.disk.counter import TURN
from resumable_nb.store.disk.fault import fault, is_busy, root_cause
from resumable_nb.store.disk.marker import write_new
from resumable_nb.store.disk.reader import DATABASE
from resumable_nb.store.seal import sync_directory

DURABLE: Final = 2  # FULL: the log is synced at each commit
NOT_DURABLE: Final = 1  # NORMAL: the log is synced when it is folded into the database
SETTINGS: Final = {
    "eviction_policy": "none",
    "cull_limit": 0,
    "statistics": 0,
    "size_limit": 2**62,
    "sqlite_synchronous": DURABLE,
    "sqlite_mmap_size": 0,  # a mapped database that somebody truncates kills the process
    "disk_min_file_size": 2**20,
}
FAILURES: Final = (OSError, sqlite3.Error, diskcache.Timeout)
"""What a database raises when something is wrong with it, not with what it was asked for."""
BUSY_TIMEOUT_S = 5.0
BUSY_ATTEMPTS = 3
VALUES: Final = "values"
"""Directory of the value files."""


class ValueDisk(diskcache.Disk):  # type: ignore[misc]  # diskcache has no types
    """Bytes under text keys only; large values in durable files, which go when no durable row names them."""

    def __init__(self, directory: str, **options: Any) -> None:
        super().__init__(directory, **options)
        self.written: list[str] = []
        """Value files of the transaction that is open."""
        self.replaced: list[str] = []
        """Value files that the open transaction makes superfluous."""
        self.superfluous: list[str] = []
        """Value files that go with the next durable commit."""

    def put(self, key: str) -> tuple[str, bool]:
        if type(key) is not str:
            raise TypeError(f"keys are text, not {type(key).__name__}")
        return key, True

    def get(self, key: Any, raw: bool) -> str:
        if not raw or type(key) is not str:
            raise Corrupt("a key in the database is not text: it was not written by this package")
        return key

    def store(self, value: bytes, read: bool, key: str = UNKNOWN) -> tuple[int, int, str | None, Any]:
        if type(value) is not bytes or read:
            raise TypeError(f"values are bytes, not {type(value).__name__}")
        if len(value) < self.min_file_size:
            return 0, MODE_RAW, None, sqlite3.Binary(value)
        name, path = self.filename(key, value)
        with contextlib.suppress(FileExistsError):
            Path(path).parent.mkdir(mode=0o700)
            sync_directory(Path(self._directory))
        self.written.append(name)
        # The file and its name before the row: no row may outlive what it names.
        write_new(Path(path), value)
        sync_directory(Path(path).parent)
        return len(value), MODE_BINARY, name, None

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> bytes:  # noqa: ARG002  # diskcache's signature
        if mode == MODE_RAW and type(value) is bytes:
            return value
        if mode != MODE_BINARY or filename is None:
            raise Corrupt(f"a row in {self._directory} holds something else than bytes: it is not unpickled")
        try:
            return (Path(self._directory) / filename).read_bytes()
        except FileNotFoundError:
            # diskcache takes an OSError for absence; a lost value is not absent.
            raise Corrupt(
                f"the value file {filename} in {self._directory} is gone; restore it, or forget the step",
                file=filename,
            ) from None
        except OSError as error:
            raise fault(error, self._directory, doing="read") from error

    def filename(self, key: str = UNKNOWN, value: Any = UNKNOWN) -> tuple[str, str]:  # noqa: ARG002  # ditto
        # One flat directory: one sync for the name, where diskcache's two levels would need three.
        name = f"{VALUES}/{secrets.token_hex(16)}.val"
        return name, str(Path(self._directory) / name)

    def remove(self, file_path: str) -> None:
        # diskcache unlinks before an outer transaction commits; a rollback would then miss its value.
        self.replaced.append(file_path)

    def begin(self) -> None:
        self.written.clear()
        self.replaced.clear()

    def end(self, *, durable: bool) -> None:
        self.superfluous += self.replaced
        if durable:
            self._unlink(self.superfluous)

    def undo(self) -> None:
        self._unlink(self.written)

    def _unlink(self, names: list[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):
                (Path(self._directory) / name).unlink()
        names.clear()


class Database(diskcache.Cache):  # type: ignore[misc]  # diskcache has no types
    """A ``Cache`` of which each thread closes its own connection; use it in one thread."""

    def __init__(self, directory: Path) -> None:
        try:
            # diskcache writes each setting twice, in a commit of its own. Closing at the end makes them durable.
            quick = SETTINGS | {"sqlite_synchronous": NOT_DURABLE}
            super().__init__(str(directory), timeout=BUSY_TIMEOUT_S, disk=ValueDisk, **quick)
            self.reset("sqlite_synchronous", DURABLE)
            self._check(directory)
            status = (directory / DATABASE).stat()
            self.inode = (status.st_dev, status.st_ino)
        except BaseException:
            self.close()
            raise

    def _check(self, directory: Path) -> None:
        # Another opener may have stored other settings, which then hold for all.
        wrong = {name: got for name, want in SETTINGS.items() if (got := self.reset(name)) != want}
        if wrong:
            raise StoreUnavailable(
                f"store {directory} has settings under which values are lost ({wrong}): another program changes "
                "them; end it, and run the cell again",
                uri=str(directory),
            )
        with contextlib.closing(sqlite3.connect(directory / DATABASE, isolation_level=None)) as connection:
            ((journal,),) = connection.execute("PRAGMA journal_mode")
        if journal != "wal":
            raise StoreUnavailable(
                f"store {directory} lies on a file system without shared memory for SQLite's log (a network drive?); "
                "choose a local directory",
                uri=str(directory),
            )

    @contextlib.contextmanager
    def transaction(self, *, durable: bool) -> Iterator[None]:
        """All or nothing, value files included. Nobody else writes meanwhile."""
        level = DURABLE if durable else NOT_DURABLE
        if self.sqlite_synchronous != level:
            self.reset("sqlite_synchronous", level, update=False)
        self.disk.begin()
        committing = False
        try:
            with contextlib.ExitStack() as stack:
                self._begin(stack)
                self._began = self._con.total_changes
                yield
                committing = True
        except BaseException:
            # A commit that failed half-way may come back from the log after a crash: leave it its files.
            if not committing:
                self.disk.undo()
            raise
        self.disk.end(durable=durable)

    def has_changed(self) -> bool:
        """Whether the open transaction has changed any row."""
        return bool(self._con.total_changes != self._began)

    def number(self) -> int:
        """Number the transaction that is open: which durable one it is. In the header, which costs next to nothing."""
        ((before,),) = self._sql("PRAGMA user_version").fetchall()
        self._sql(f"PRAGMA user_version = {(before + 1) % TURN}")
        return int(before + 1) % TURN

    def _begin(self, stack: contextlib.ExitStack) -> None:
        for attempt in range(1, BUSY_ATTEMPTS + 1):
            try:
                stack.enter_context(self.transact())
                return
            except diskcache.Timeout as error:
                # diskcache calls every failure to begin a time-out.
                if attempt == BUSY_ATTEMPTS or not is_busy(error.__context__):
                    raise


@contextlib.contextmanager
def faults(uri: str, opened: list[Database]) -> Iterator[None]:
    """Turns what diskcache, SQLite and the system raise into a ``StoreError``."""
    try:
        yield
    except FAILURES as error:
        # The connection may be in the middle of something; the next one starts clean.
        for database in opened:
            database.close()
        cause = root_cause(error)
        raise fault(cause, uri, doing="written") from cause
