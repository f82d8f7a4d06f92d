"""``Records``: the rows of a task's store as records, written under the lease and read by anybody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol, TypeVar

import msgspec

from resumable_nb.errors import Corrupt, NewerSchema
from resumable_nb.events import Bus
from resumable_nb.model import MISSING, SCHEMA, Missing, Stored
from resumable_nb.store.base import Read, Store
from resumable_nb.store.seal import digest

R = TypeVar("R", bound=Stored)


class Fence(Protocol):
    """What records need of a lease."""

    def ensure(self) -> None:
        """Own the task, or raise ``TaskBusy``."""

    def guard(self, read: Read) -> None:
        """Called inside a transaction: raises ``LeaseLost`` when another owner has come."""


class Records:
    """Thread-safe; reading needs no lease and creates nothing.

    Every write checks the lease inside its transaction, and raises ``LeaseLost`` or ``StoreUnavailable``.
    """

    def __init__(self, store: Store, lease: Fence, bus: Bus, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._lease = lease
        self._bus = bus
        self._clock = clock
        self._lock = threading.RLock()

    def now(self) -> float:
        """Seconds since the epoch, by the journal's clock."""
        return self._clock()

    def own(self) -> None:
        """Take the lease, unless it is held. Raises ``TaskBusy``."""
        self._lease.ensure()

    def blob(self, name: str) -> bytes:
        """Raises ``Corrupt`` when it is not there: a row that names a blob without one is damage, never a miss."""
        data = self._store.get(f"blob/{name}")
        if data is MISSING:
            raise Corrupt(f"{self._store.uri}: blob {name} is named by a record, and is not there")
        return data

    def blob_row(self, data: bytes) -> tuple[str, dict[str, bytes]]:
        """The digest to name in a record, and the row to put in the same commit."""
        name = digest(data)
        return name, {f"blob/{name}": data}

    def _write(
        self,
        records: Mapping[str, Stored],
        rows: Mapping[str, bytes] | None = None,
        *,
        deletes: Collection[str] = (),
        durable: bool = True,
        check: Callable[[Read], None] | None = None,
    ) -> None:
        puts = dict(rows or {})
        puts |= {row: msgspec.json.encode(record) for row, record in records.items()}

        def guard(read: Read) -> None:
            self._lease.guard(read)
            if check is not None:
                check(read)

        self._lease.ensure()
        self._store.commit(puts, deletes, guard=guard, durable=durable)

    def _read(self, kind: type[R], row: str) -> R | Missing:
        data = self._store.get(row)
        return MISSING if data is MISSING else self._decode(kind, row, data)

    def _scan(self, kind: type[R], prefix: str) -> list[R]:
        return [self._decode(kind, row, data) for row, data in self._store.scan(prefix)]

    def _decode(self, kind: type[R], row: str, data: bytes) -> R:
        """Where records of older schemas are brought up to date when they are read."""
        try:
            record = msgspec.json.decode(data, type=kind)
            schema = record.schema
        except msgspec.MsgspecError as error:
            schema = _schema(data)
            if schema <= SCHEMA:
                raise Corrupt(f"{self._store.uri}: row {row!r} cannot be read: {error}") from None
        if schema > SCHEMA:
            raise NewerSchema(
                f"{self._store.uri}: row {row!r} has schema {schema}, this version knows {SCHEMA}; "
                "nothing was changed: update resumable_nb"
            )
        return record


def _schema(data: bytes) -> int:
    """The schema that undecodable data claims to have."""
    try:
        return msgspec.json.decode(data, type=Stored).schema
    except msgspec.MsgspecError:
        return SCHEMA
