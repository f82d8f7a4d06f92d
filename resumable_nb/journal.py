"""The record of a task: its runs, steps, tool calls and loop positions, written under the lease and read by anybody."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol, TypeVar

import msgspec

from resumable_nb.errors import Corrupt, NewerSchema, ResumableError, UsageError
from resumable_nb.events import Bus
from resumable_nb.model import (
    FINGERPRINTS,
    MISSING,
    SCHEMA,
    CallRecord,
    Missing,
    Position,
    RunRecord,
    StepRecord,
    Stored,
    TaskRecord,
)
from resumable_nb.numbering import Numbering
from resumable_nb.store.base import Read, Store
from resumable_nb.store.seal import digest

R = TypeVar("R", bound=Stored)

NEW: Final = -1
"""``n`` of a call record that has no row yet: ``intend`` assigns one."""

SHORTEST_ID: Final = 8


class Fence(Protocol):
    """What the journal needs of a lease."""

    def ensure(self) -> None:
        """Own the task, or raise ``TaskBusy``."""

    def guard(self, read: Read) -> None:
        """Called inside a transaction: raises ``LeaseLost`` when another owner has come."""


class _Taken(Exception):
    """The call row is there already: the count in memory is behind."""


class _Settled(Exception):
    """The call row is not this run's open intent any more."""


class Journal:
    """Appends and folds records. Thread-safe; reading needs no lease and creates nothing.

    Every write checks the lease inside its transaction, and raises ``LeaseLost`` or ``StoreUnavailable``.
    """

    def __init__(self, store: Store, lease: Fence, bus: Bus, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._lease = lease
        self._bus = bus
        self._clock = clock
        self._lock = threading.RLock()
        self._numbering = Numbering(self._counted)

    def now(self) -> float:
        """Seconds since the epoch, by the journal's clock."""
        return self._clock()

    # --- the task and its runs

    def own(self) -> None:
        """Take the lease, unless it is held. Raises ``TaskBusy``."""
        self._lease.ensure()

    def task(self) -> TaskRecord | Missing:
        return self._read(TaskRecord, "meta")

    def task_or_fail(self) -> TaskRecord:
        """The task's record, where there has to be one."""
        record = self.task()
        if record is MISSING:
            raise UsageError(f"nothing is recorded in {self._store.uri} yet: run a step or a tool call first")
        return record

    def ensure_task(self, name: str, notebook: str = "") -> TaskRecord:
        """The task's record; a new one, with its own incarnation, where there is none. Durable."""
        with self._lock:
            record = self.task()
            if record is MISSING:
                record = self._new_task(name, notebook)
                self._write({"meta": record})
            elif record.fingerprints != FINGERPRINTS:
                raise NewerSchema(
                    f"{self._store.uri}: task {record.name!r} knows its calls by fingerprints of version "
                    f"{record.fingerprints}, and this resumable_nb makes version {FINGERPRINTS}: finish it with the "
                    "version that began it, or begin anew with `%resumable forget --yes`"
                )
            return record

    def forget(self, name: str, notebook: str = "") -> TaskRecord:
        """Begin the task anew: steps, calls and positions go, and every tool call has another identity. Durable.

        Runs stay; blobs and chunks are garbage now, which is not collected here.
        """
        with self._lock:
            record = self._new_task(name, notebook)
            gone = [
                row
                for kind in ("step", "version", "call", "ident", "pos", "pause", "memory")
                for row in self._store.keys(f"{kind}/")
            ]
            self._write({"meta": record}, deletes=gone)
            self._numbering.clear()
            self._bus.emit("task.forgotten")
            return record

    def complete_task(self) -> TaskRecord:
        """Say that the task is finished. Durable."""
        with self._lock:
            record = msgspec.structs.replace(self.task_or_fail(), completed_at=self._clock())
            self._write({"meta": record})
            return record

    def begin_run(self, run: str, *, pid: int, host: str, kernel: str = "") -> RunRecord:
        """Say that this process works on the task from now on. Not durable by itself."""
        record = RunRecord(id=run, pid=pid, host=host, started_at=self._clock(), kernel=kernel)
        self._write({f"run/{run}": record}, durable=False)
        return record

    def end_run(self, run: str) -> None:
        """Say that the process let go of the task in good order."""
        record = self.run(run)
        if record is not MISSING:
            self._write({f"run/{run}": msgspec.structs.replace(record, ended_at=self._clock())})

    def run(self, run: str) -> RunRecord | Missing:
        return self._read(RunRecord, f"run/{run}")

    def runs(self) -> list[RunRecord]:
        """All runs, oldest first."""
        return self._scan(RunRecord, "run/")

    # --- steps

    def step(self, step: str) -> StepRecord | Missing:
        """The step's newest record, done or not."""
        return self._read(StepRecord, f"step/{step}")

    def steps(self) -> list[StepRecord]:
        """The newest record of each step, by step id."""
        return self._scan(StepRecord, "step/")

    def versions(self, step: str = "") -> list[StepRecord]:
        """The finished versions of a step, oldest first; without a name those of all steps."""
        return self._scan(StepRecord, f"version/{step}@" if step else "version/")

    def begin_step(self, record: StepRecord, rows: Mapping[str, bytes] | None = None) -> None:
        """Survives the process, not the machine: a step that is lost so has done nothing that is not journalled."""
        self._write({f"step/{record.id}": record}, rows, durable=False)

    def commit_step(self, *records: StepRecord, rows: Mapping[str, bytes] | None = None) -> None:
        """The one transaction that makes steps done: their records and versions, ``rows``; positions go. Durable."""
        positions = [row for record in records for row in self._store.keys(f"pos/{record.id}@")]
        puts = {row: r for r in records for row in (f"step/{r.id}", f"version/{r.id}@{r.version:06d}")}
        self._write(puts, rows, deletes=positions)

    def fail_step(self, record: StepRecord, escaped: Collection[str] = ()) -> None:
        """Record that the body raised; the failed calls with ids in ``escaped`` are what it did not handle."""
        puts: dict[str, Stored] = {f"step/{record.id}": record}
        if escaped:
            puts |= {
                call_row(call): msgspec.structs.replace(call, escaped=True)
                for call in self.calls()
                if call.id in escaped and call.status == "failed"
            }
        self._write(puts, durable=False)

    def begin_rollback(self, step: str, steps: Collection[StepRecord]) -> None:
        """Say that the calls of ``step`` (``""``: all) will be undone: ``steps`` are not done any more. Durable."""
        puts: dict[str, Stored] = {
            f"step/{record.id}": msgspec.structs.replace(record, status="compensated") for record in steps
        }
        puts["meta"] = msgspec.structs.replace(self.task_or_fail(), rollback=step, completed_at=None)
        positions = [row for record in steps for row in self._store.keys(f"pos/{record.id}@")]
        self._write(puts, deletes=positions)

    def end_rollback(self) -> None:
        """Say that everything was undone. Durable."""
        self._write({"meta": msgspec.structs.replace(self.task_or_fail(), rollback=None)})

    def forget_step(self, step: str) -> None:
        """Take away the step's newest record and positions: it runs again. Versions and calls stay. Durable."""
        self._write({}, deletes=[f"step/{step}", *self._store.keys(f"pos/{step}@")])
        self._bus.emit("step.forgotten", step)

    # --- tool calls

    def call(self, identity: str, k: int) -> CallRecord | Missing:
        """The ``k``-th call of that identity."""
        row = self._store.get(ident_row(identity, k))
        if row is MISSING:
            return MISSING
        record = self._read(CallRecord, row.decode())
        if record is MISSING:
            raise Corrupt(f"{self._store.uri}: row {row.decode()!r} is named by an identity, and is not there")
        return record

    def calls(self, step: str | None = None) -> list[CallRecord]:
        """All calls, or those of one step (``""``: outside any), by step, then in the order of their intents."""
        found = self._scan(CallRecord, "call/" if step is None else f"call/{step}@")
        return sorted(found, key=lambda record: (record.step, record.n))

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
            return placed

    def _again(self, record: CallRecord, rows: Mapping[str, bytes] | None, durable: bool) -> CallRecord:
        self._write({call_row(record): record}, rows, durable=durable)
        return record

    def _counted(self, step: str) -> int:
        last = max(self._store.keys(f"call/{step}@"), default="")
        return int(last.rpartition("@")[2]) + 1 if last else 0

    # --- loop positions and blobs

    def position(self, step: str, loop: str) -> Position | Missing:
        return self._read(Position, f"pos/{step}@{loop}")

    def keep_position(self, position: Position, rows: Mapping[str, bytes] | None = None) -> None:
        """The one transaction that makes loop turns kept. Durable."""
        self._write({f"pos/{position.step}@{position.loop}": position}, rows)

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

    # --- rows

    def _new_task(self, name: str, notebook: str) -> TaskRecord:
        return TaskRecord(
            name=name,
            incarnation=uuid.uuid4().hex,
            created_at=self._clock(),
            notebook=notebook,
            fingerprints=FINGERPRINTS,
        )

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


def call_row(record: CallRecord) -> str:
    """The row of a call that has its place."""
    return f"call/{record.step}@{record.n:08d}"


def ident_row(identity: str, k: int) -> str:
    return f"ident/{identity}@{k:06d}"


def _schema(data: bytes) -> int:
    """The schema that undecodable data claims to have."""
    try:
        return msgspec.json.decode(data, type=Stored).schema
    except msgspec.MsgspecError:
        return SCHEMA
