"""``CallRecords``: the record of a task's tool calls, each with its place in its step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from resumable_nb.errors import Corrupt, ResumableError, UsageError
from resumable_nb.events import Bus
from resumable_nb.model import MISSING, CallRecord, Missing, Stored
from resumable_nb.numbering import Numbering
from resumable_nb.records import Fence, Records
from resumable_nb.store.base import Read, Store

NEW: Final = -1
"""``n`` of a call record that has no row yet: ``intend`` assigns one."""

SHORTEST_ID: Final = 8
REMEMBERED: Final = 10_000


class _Taken(Exception):
    """The call row is there already: the count in memory is behind."""


class _Settled(Exception):
    """The call row is not this run's open intent any more."""


class CallRecords(Records):
    """Intents and outcomes of calls. ``call`` finds one by its identity, ``find_call`` by its id."""

    def __init__(self, store: Store, lease: Fence, bus: Bus, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(store, lease, bus, clock=clock)
        self._numbering = Numbering(self._counted)
        self._places: dict[str, tuple[str, tuple[str, int]]] = {}
        """Rows of calls, and whose they are, by their identities' rows: of those that were used last."""

    def call(self, identity: str, k: int) -> CallRecord | Missing:
        """The ``k``-th call of that identity."""
        name = ident_row(identity, k)
        if (known := self._places.get(name)) is not None:
            place, owner = known
            record = self._read(CallRecord, place)
            # Another owner may have forgotten the task meanwhile, and have put another call there.
            if record is not MISSING and (record.identity, record.k) == owner:
                return record
        row = self._store.get(name)
        if row is MISSING:
            return MISSING
        record = self._read(CallRecord, row.decode())
        if record is MISSING:
            raise Corrupt(f"{self._store.uri}: row {row.decode()!r} is named by an identity, and is not there")
        self._remember(name, row.decode(), record)
        return record

    def _remember(self, ident: str, row: str, record: CallRecord) -> None:
        """Where a call is. Only this kernel says that another row is the one, while it has the lease."""
        with self._lock:
            while len(self._places) >= REMEMBERED:
                self._places.pop(next(iter(self._places)))
            self._places[ident] = row, (record.identity, record.k)

    def calls(self, step: str | None = None) -> list[CallRecord]:
        """All calls, or those of one step (``""``: outside any), by step, then in the order of their intents."""
        found = self._scan(CallRecord, "call/" if step is None else f"call/{step}@")
        return sorted(found, key=lambda record: (record.step, record.n))

    def calls_inside(self, step: str) -> list[CallRecord]:
        """Those of the steps inside a step, in no order that matters."""
        return self._scan(CallRecord, f"call/{step}/")

    def find_call(self, call: str) -> CallRecord:
        """The call whose id is ``call``, or begins so. Raises ``UsageError`` where that is none, or several."""
        if len(call) < SHORTEST_ID:
            raise UsageError(f"{call!r} is too short for a call id: give {SHORTEST_ID} or more of its 12 characters")
        found = [record for record in self.calls() if record.id.startswith(call)]
        if not found:
            raise UsageError(f"no call {call!r} in this task: `%resumable history` lists the ids")
        if len(found) > 1:
            raise UsageError(f"{call!r} fits {len(found)} calls: {', '.join(each.id for each in found)}")
        return found[0]

    def last_call(self, step: str) -> CallRecord | Missing:
        """The one that was begun last in the step."""
        n = self.count(step)
        return self._read(CallRecord, f"call/{step}@{n - 1:08d}") if n else MISSING

    def count(self, step: str) -> int:
        """How many calls were ever recorded in the step."""
        return self._numbering.next(step)

    def intend(self, record: CallRecord, rows: Mapping[str, bytes] | None = None, *, durable: bool) -> CallRecord:
        """Commit that the call is about to be made; returns the record with its place ``n`` in the step.

        A record that has its place already is written over: one more try of the same call.
        """
        self._bus.emit("call.intent", record.step, tool=record.tool, id=record.id)
        record = self._place(record, rows, durable) if record.n == NEW else self._again(record, rows, durable)
        self._bus.emit("call.intent_committed", record.step, tool=record.tool, id=record.id, record=record)
        return record

    def finish(self, record: CallRecord, rows: Mapping[str, bytes] | None = None, *, durable: bool = True) -> None:
        """Commit the outcome of a call, with the blobs that it names; with that of an undo, that it has undone."""
        self._bus.emit("call.result", record.step, tool=record.tool, id=record.id)
        self._write({call_row(record): record, **self._undone(record)}, rows, durable=durable)
        self._bus.emit("call.result_committed", record.step, tool=record.tool, id=record.id, record=record)

    def adopt(self, record: CallRecord, identity: str, k: int) -> None:
        """From now on the recorded call answers for another identity too. Durable."""
        self._write({}, {ident_row(identity, k): call_row(record).encode()})
        self._remember(ident_row(identity, k), call_row(record), record)

    def note(self, record: CallRecord, rows: Mapping[str, bytes] | None = None, *, durable: bool = False) -> bool:
        """Write what is known of this run's open try; ``False``: it was settled meanwhile. Fsynced if ``durable``."""

        def still_open(read: Read) -> None:
            data = read(call_row(record))
            now = MISSING if data is MISSING else self._decode(CallRecord, call_row(record), data)
            mine = (record.run, len(record.attempts))
            if now is MISSING or now.status != "intent" or (now.run, len(now.attempts)) != mine:
                raise _Settled

        try:
            self._write({call_row(record): record, **self._undone(record)}, rows, durable=durable, check=still_open)
        except _Settled:
            return False
        return True

    def _undone(self, record: CallRecord) -> dict[str, Stored]:
        """The call that this one undoes, as it is with this outcome."""
        if not record.undoes:
            return {}
        undone = self._read(CallRecord, record.undoes)
        assert undone is not MISSING
        if record.status == "done":
            return {record.undoes: msgspec.structs.replace(undone, compensated=record.id)}
        return {record.undoes: msgspec.structs.replace(undone, compensated="")} if undone.compensated else {}

    def _place(self, record: CallRecord, rows: Mapping[str, bytes] | None, durable: bool) -> CallRecord:
        while True:
            placed = msgspec.structs.replace(record, n=self._numbering.take(record.step))
            row = call_row(placed)

            def free(read: Read, row: str = row) -> None:
                if read(row) is not MISSING:
                    raise _Taken

            ident = {ident_row(record.identity, record.k): row.encode()}
            try:
                self._write({row: placed}, {**(rows or {}), **ident}, durable=durable, check=free)
            except _Taken:
                self._numbering.look_again(record.step)
                continue
            except ResumableError:
                self._numbering.give_back(record.step, placed.n)
                raise
            self._remember(ident_row(record.identity, record.k), row, record)
            return placed

    def _again(self, record: CallRecord, rows: Mapping[str, bytes] | None, durable: bool) -> CallRecord:
        self._write({call_row(record): record}, rows, durable=durable)
        return record

    def _counted(self, step: str) -> int:
        last = max(self._store.keys(f"call/{step}@"), default="")
        return int(last.rpartition("@")[2]) + 1 if last else 0


def call_row(record: CallRecord) -> str:
    """The row of a call that has its place."""
    return f"call/{record.step}@{record.n:08d}"


def ident_row(identity: str, k: int) -> str:
    return f"ident/{identity}@{k:06d}"
