"""A store in one directory: rows in a diskcache database, large buffers in packs beside it."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from resumable_nb.errors import Corrupt, UsageError
from resumable_nb.events import Bus
from resumable_nb.model import MISSING, Missing
from resumable_nb.store.base import IDENTITY, Guard, Read, refuse_identity
from resumable_nb.store.disk import counter
from resumable_nb.store.disk.database import FAILURES, VALUES, Database, ValueDisk, faults
from resumable_nb.store.disk.fault import fault
from resumable_nb.store.disk.marker import (
    Identity,
    decode_identity,
    make_directories,
    new_identity,
    read_marker,
    write_marker,
    write_new,
)
from resumable_nb.store.disk.pack import PackFile, Packs
from resumable_nb.store.disk.proof import Proof
from resumable_nb.store.disk.reader import DATABASE, Reader, Row
from resumable_nb.store.disk.worker import Outcome, Worker
from resumable_nb.store.seal import TAG_BYTES, Seal, sync_directory

Rows = tuple[Mapping[str, bytes], Collection[str]]
"""What to write, and which keys to delete."""
Change = Callable[[Read], Rows]
"""Says so, given what is there; raises to refuse."""


class Part(NamedTuple):
    """What one caller commits."""

    change: Change
    durable: bool


class DiskStore:
    """The ``Store`` in a directory. The first commit creates it."""

    def __init__(self, path: str | os.PathLike[str], *, key: bytes | None = None, bus: Bus | None = None) -> None:
        self._path = Path(path).expanduser().absolute()
        self._bus = bus or Bus()
        self._reader = Reader(self._path)
        self._proof = Proof(self._path, self._reader, None if key is None else Seal(key))
        self._values = ValueDisk(str(self._path))
        self._packs = Packs(self._path / "packs")
        self._worker = Worker(f"resumable_nb store {self._path.name}")
        self._gate = threading.RLock()
        """Held while a write is handed to the worker, and across a fork."""
        self._open: list[Database] = []
        """The database, once something was written; used in the worker's thread only."""
        self._marked = False
        weakref.finalize(self, _abandon, self._reader, self._worker, self._open).atexit = False
        _stores.add(self)

    def __repr__(self) -> str:
        return f"<DiskStore {self._path}>"

    @property
    def uri(self) -> str:
        return str(self._path)

    def exists(self) -> bool:
        return self._proof.verify()

    def get(self, key: str) -> bytes | Missing:
        for _, data in self._select(lambda: self._reader.row(key) if key != IDENTITY else []):
            return self._unseal(key, data)
        return MISSING

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        found = self._select(lambda: self._reader.rows(prefix))
        return ((key, self._unseal(key, data)) for key, data in found if key != IDENTITY)

    def keys(self, prefix: str) -> Iterator[str]:
        found = self._reader.keys(prefix) if self._proof.verify() else []
        return (key for key in found if key != IDENTITY)

    def commit(
        self,
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        guard: Guard | None = None,
        durable: bool = True,
    ) -> None:
        def change(read: Read) -> Rows:
            if guard is not None:
                guard(read)
            return puts, deletes

        refuse_identity(*puts, *deletes)
        self._transact(change, durable=durable)

    def update(self, key: str, change: Callable[[bytes | Missing], bytes], *, durable: bool = True) -> bytes:
        def replace(read: Read) -> Rows:
            return {key: change(read(key))}, ()

        refuse_identity(key)
        puts, _ = self._transact(replace, durable=durable)
        return puts[key]

    def new_pack(self) -> PackFile:
        self._proof.verify()
        try:
            make_directories(self._path)
            with contextlib.suppress(FileExistsError):
                self._packs.directory.mkdir(mode=0o700)
                sync_directory(self._path)
        except OSError as error:
            raise fault(error, self.uri, doing="written") from error
        return self._packs.new()

    def map_pack(self, pack: str, offset: int, size_bytes: int) -> memoryview:
        return self._packs.map(pack, offset, size_bytes)

    def read_pack(self, pack: str, offset: int, into: memoryview) -> None:
        self._packs.read(pack, offset, into)

    def packs(self) -> Iterator[str]:
        return self._packs.names()

    def remove_pack(self, pack: str) -> None:
        self._packs.remove(pack)

    def pack_size(self, pack: str) -> int:
        return self._packs.size(pack)

    def sweep(self) -> tuple[int, int]:
        """Unlink value files that no row names (left by killed writers); returns how many, and their bytes."""

        def orphans() -> list[Path]:
            # A durable write, so that no row of an earlier, lost state can name one of the files.
            with self._transaction(durable=True) as database:
                database.set(IDENTITY, database.get(IDENTITY))
                # Nobody else is writing now, and committed rows are all there are.
                named = self._reader.files()
                return [path for path in (self._path / VALUES).glob("*.val") if f"{VALUES}/{path.name}" not in named]

        if not self._proof.verify():
            return 0, 0
        with self._gate:
            ticket = self._worker.submit(orphans)
        found = ticket.wait()
        size_bytes = sum(path.stat().st_size for path in found)
        for path in found:
            path.unlink(missing_ok=True)
        return len(found), size_bytes

    def trust(self) -> None:
        """Take what lies here as written by this user: sign every row anew."""

        def sign() -> None:
            with faults(self.uri, self._open):
                database = self._connect()
                with database.transaction(durable=True):
                    for key in list(database):
                        self._put(database, key, database.get(key)[TAG_BYTES:])
                    if (data := database.get(IDENTITY, MISSING)) is MISSING:
                        raise self._proof.lost()
                    old = decode_identity(data[TAG_BYTES:])
                    self._put(database, IDENTITY, Identity(store=old.store, key=self._proof.seal.id).encode())
                    commits = database.number()
                # Also what is older than it was known to be is taken as it is.
                counter.note(self._path, commits)
                self._initialise(database)

        if self._reader.state() is MISSING:
            raise UsageError(f"there is no store at {self._path}; name the directory that holds {DATABASE}")
        with self._gate:
            self._worker.run(sign)

    def close(self) -> None:
        with self._gate:
            self._worker.drain()
            # Readers first: the last connection to go folds the log into the database.
            self._reader.close()
            if self._open:
                self._worker.run(self._open[0].close)
            self._worker.stop(_nothing)
            self._open.clear()
            self._proof.forget()
            self._marked = False

    # -- reading

    def _select(self, read: Callable[[], list[Row]]) -> list[tuple[str, bytes]]:
        if not self._proof.verify():
            return []
        rows = read()
        while True:
            try:
                return [(key, self._values.fetch(mode, name, value, False)) for key, mode, name, value in rows]
            except Corrupt:
                # A value file may go while its row is replaced; then the row names another one now.
                again = read()
                if again == rows:
                    raise
                rows = again

    def _unseal(self, key: str, data: bytes) -> bytes:
        return self._proof.seal.unseal(key, data)

    # -- writing: all below runs in the worker's thread

    def _put(self, database: Database, key: str, value: bytes) -> None:
        database.set(key, self._proof.seal.seal(key, value))

    def _transact(self, change: Change, *, durable: bool) -> Rows:
        assert not self._worker.is_current(), "a guard or listener writes inside the transaction that it watches"
        with self._gate:
            ticket = self._worker.share(self._commit_together, Part(change, durable))
        return ticket.wait()

    def _commit_together(self, parts: list[Part]) -> list[Outcome[Rows]]:
        """What several callers wait for, in one transaction: one sync for all of them."""
        if len(parts) > 1:
            # A refusal is the caller's own. Whatever else goes wrong may be one part's fault, so each tries alone.
            with contextlib.suppress(Exception):
                return self._commit(parts)
        outcomes: list[Outcome[Rows]] = []
        for part in parts:
            try:
                outcomes += self._commit([part])
            except BaseException as error:
                outcomes.append((None, error))
        return outcomes

    def _commit(self, parts: list[Part]) -> list[Outcome[Rows]]:
        """Each part's rows, or why it refused. Raises, and writes nothing, where all refuse or anything else fails."""
        durable = any(part.durable for part in parts)
        with self._transaction(durable=durable) as database:
            outcomes = [self._apply(database, part) for part in parts]
            refusals = [error for _, error in outcomes if error is not None]
            if len(refusals) == len(parts):
                raise refusals[0]
            self._bus.emit("store.transaction", durable=durable, commits=len(parts))
        return outcomes

    def _apply(self, database: Database, part: Part) -> Outcome[Rows]:
        def read(key: str) -> bytes | Missing:
            data = database.get(key, MISSING)
            return MISSING if data is MISSING else self._unseal(key, data)

        try:
            puts, deletes = part.change(read)
        except FAILURES:
            raise
        except Exception as refusal:
            return None, refusal
        for key, value in puts.items():
            self._put(database, key, value)
        for key in deletes:
            database.delete(key)
        return (puts, deletes), None

    @contextlib.contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[Database]:
        with faults(self.uri, self._open):
            exists = self._proof.verify()
            database = self._connect()
            if not exists or not self._marked:
                self._initialise(database)
            with database.transaction(durable=durable):
                if database.get(IDENTITY, MISSING) is MISSING:
                    raise self._proof.lost()
                yield database
                commits = database.number() if durable and database.has_changed() else None
            if commits is not None:
                counter.note(self._path, commits)

    def _connect(self) -> Database:
        """The database of the file that is at the path, made where there is none."""
        if self._open and self._open[0].inode != self._proof.inode:
            self._open.pop().close()
        if not self._open:
            make_directories(self._path)
            with contextlib.suppress(FileExistsError):
                write_new(self._path / DATABASE, b"")
            self._open.append(Database(self._path))
        return self._open[0]

    def _initialise(self, database: Database) -> None:
        """Give the store its identity, then its marker: a crash in between leaves a store without a marker."""
        with database.transaction(durable=True):
            if database.get(IDENTITY, MISSING) is MISSING:
                self._put(database, IDENTITY, new_identity(self._proof.seal.id).encode())
        self._proof.verify()
        assert self._proof.identity is not None
        if read_marker(self._path) != self._proof.identity:
            write_marker(self._path, self._proof.identity)
        self._marked = True


def _nothing() -> None:
    pass


def _abandon(reader: Reader, worker: Worker, opened: list[Database]) -> None:
    """The store was dropped without ``close``."""
    reader.close()
    databases = list(opened)

    def close() -> None:
        for database in databases:
            database.close()

    worker.stop(close)


_stores: weakref.WeakSet[DiskStore] = weakref.WeakSet()
_held: list[DiskStore] = []


def _before_fork() -> None:
    """Close every connection: SQLite's locks don't survive a fork, and it does not know."""
    for store in list(_stores):
        if store._worker.is_current():
            continue
        store._gate.acquire()
        store._worker.drain()
        store._reader.lock.acquire()
        store._reader.close()
        for database in store._open:
            store._worker.run(database.close)
        _held.append(store)


def _after_fork() -> None:
    while _held:
        store = _held.pop()
        store._reader.lock.release()
        store._gate.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
