"""Pause and stop: asked for in any thread or process, taken at the next safe point of the one that owns the task."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, Protocol

import msgspec

from resumable_nb.drive import inside_a_tool
from resumable_nb.errors import LeaseLost, ResumableError, Stopped, StoppedTask
from resumable_nb.events import Bus
from resumable_nb.model import MISSING, ControlRequest, Missing, Owner, PauseRecord, Want
from resumable_nb.store.base import Read, Store

ROW: Final = "control"
"""What another process asks for. Written without the lease: the owner obeys, or has gone."""
POLL_S: Final = 0.05
WATCH_S: Final = 0.5
TERMINATED: Final = "a request to end the process (SIGTERM)"
"""By whom a preempted kernel's cell was stopped."""

Life = Literal["alive", "dead", "unknown"]


class Ownership(Protocol):
    """What control needs of the lease."""

    @property
    def held(self) -> bool: ...
    def guard(self, read: Read) -> None: ...
    def owner(self) -> Owner | Missing: ...
    def life(self, owner: Owner) -> Life: ...


def waited_s(pauses: Iterable[PauseRecord], run: str, since: float, until: float) -> float:
    """How long a run waited in pauses between two moments."""
    waits = ((each.began_at, each.ended_at or until) for each in pauses if each.want == "pause" and each.run == run)
    return sum(max(0.0, min(end, until) - max(began, since)) for began, end in waits if began is not None)


class Control:
    """What is wanted of the task: to run, to pause, or to stop.

    Code calls ``checkpoint`` wherever nothing would be left half done. That costs next to nothing while nothing is
    wanted. A stop stays wanted until the cell has ended, so that code which catches it cannot go on past it.
    """

    def __init__(
        self,
        store: Store,
        lease: Ownership,
        bus: Bus,
        *,
        run: str,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        watch_s: float = WATCH_S,
    ) -> None:
        self._store, self._lease, self._bus, self._run = store, lease, bus, run
        self._clock, self._monotonic, self._watch_s = clock, monotonic, watch_s
        self._lock = threading.RLock()
        self._wanted: Want = "run"
        self._by = ""
        self._moving = threading.Event()
        self._record: PauseRecord | None = None
        self._polls: tuple[Callable[[], None], ...] = ()
        self._polled_s = 0.0
        self._polling = False
        self._cell: asyncio.Task[Any] | None = None
        self._ending = threading.Event()
        self._watcher: threading.Thread | None = None
        self._seen = ""
        self._resumed = False
        self._waited_s = 0.0
        self._waits_since_s: float | None = None
        self.stops = 0
        """How often ``Stopped`` was raised: who caught it can be told by that."""

    def __repr__(self) -> str:
        return f"<Control {self._store.uri} {self._wanted}>"

    @property
    def wanted(self) -> Want:
        """What the owner in this process was asked for last."""
        return self._wanted

    @property
    def by(self) -> str:
        """Who asked for it."""
        return self._by

    def pause(self, by: str = "") -> None:
        """Wait at the next safe point until ``resume``. From any thread, and for the task's owner in any process."""
        self._want("pause", by)

    def resume(self, by: str = "") -> None:
        """Go on. Also takes back a stop that nothing has noticed yet."""
        self._want("run", by)

    def stop(self, by: str = "") -> None:
        """End the running cell at the next safe point with ``Stopped``."""
        self._want("stop", by)

    def pauses(self) -> list[PauseRecord]:
        """Every pause and stop of the task, oldest first."""
        return [msgspec.json.decode(data, type=PauseRecord) for _, data in self._store.scan("pause/")]

    @property
    def waited_s(self) -> float:
        """How long this process has waited in pauses: that is no work."""
        since_s = self._waits_since_s
        return self._waited_s + (0.0 if since_s is None else self._monotonic() - since_s)

    def on_poll(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call it at safe points of the main thread: at most 20 times a second, and so often while paused.

        The returned function removes it.
        """
        self._polls = (*self._polls, callback)

        def remove() -> None:
            self._polls = tuple(each for each in self._polls if each is not callback)

        return remove

    def checkpoint(self, where: str = "") -> None:
        """A safe point, in the middle of nothing. Waits while paused; raises ``Stopped``."""
        if not self._due() or inside_a_tool():
            return
        self._poll()
        if self._wanted == "pause":
            with self._paused(where):
                while self._wanted == "pause":
                    self._moving.wait(POLL_S)
                    self._poll()
        if self._wanted == "stop":
            self._raise(where)

    async def checkpoint_async(self, where: str = "") -> None:
        """The same in a coroutine: other tasks run on until their own safe points."""
        if not self._due() or inside_a_tool():
            return
        self._poll()
        if self._wanted == "pause":
            with self._paused(where):
                while self._wanted == "pause":
                    await asyncio.sleep(POLL_S)
                    self._poll()
        if self._wanted == "stop":
            self._raise(where)

    def _due(self) -> bool:
        """Whether there is anything to do at a safe point: asked a million times for each yes."""
        return self._wanted != "run" or (bool(self._polls) and self._monotonic() - self._polled_s >= POLL_S)

    def wait(self, seconds: float, where: str = "") -> None:
        """Sleep, with safe points all along."""
        end_s = self._monotonic() + seconds
        self.checkpoint(where)
        while (rest_s := end_s - self._monotonic()) > 0:
            time.sleep(min(rest_s, POLL_S))
            self.checkpoint(where)

    async def wait_async(self, seconds: float, where: str = "") -> None:
        """Sleep in a coroutine, with safe points all along."""
        end_s = self._monotonic() + seconds
        await self.checkpoint_async(where)
        while (rest_s := end_s - self._monotonic()) > 0:
            await asyncio.sleep(min(rest_s, POLL_S))
            await self.checkpoint_async(where)

    # --- the life of a cell, and of the lease

    def begin(self) -> None:
        """A cell begins: a stop that was asked for while nothing ran does not hit it, as with the stop button."""
        self._cell = current_task()
        if self._wanted == "stop":
            self._settle("nothing was running")

    def end(self) -> Stopped | None:
        """A cell has ended. Returns the stop that came too late for its last safe point: Run All stops here."""
        self._cell = None
        if self._wanted != "stop":
            return None
        late = Stopped(self._text("at the end of the cell"))
        self._settle("stopped")
        return late

    def interrupted(self, by: str) -> Stopped:
        """The error with which a signal stops the cell at once. Callable in a signal handler: no lock, no store."""
        if self._wanted != "stop":
            self._wanted, self._by = "stop", by
            self._record = self._record or self._new("stop", by)
            self.stops += 1
        return Stopped(self._text(""))

    def working(self) -> None:
        """A step begins: what an earlier run had paused is resumed by that."""
        if self._resumed:
            return
        self._resumed = True
        for record in self.pauses():
            if record.ended_at is None and record.run != self._run:
                self._write(_over(record, self._clock(), "run", "resumed"))

    def owned(self) -> None:
        """The lease was just taken: requests are heard from now on."""
        with self._lock:
            if self._record is not None:
                self._write(self._record)
        row = self._request()
        self._seen = "" if row is MISSING else row.id
        self.close()
        self._ending = threading.Event()
        self._watcher = threading.Thread(
            target=self._watch, args=(self._ending,), name="resumable_nb control", daemon=True
        )
        self._watcher.start()

    def close(self) -> None:
        """Hear no more requests. The store is not read any more when this returns."""
        self._ending.set()
        if self._watcher is not None:
            self._watcher.join()
        self._watcher = None

    # --- inside

    def _want(self, want: Want, by: str) -> None:
        by = by or "this kernel"
        owner = MISSING if self._lease.held else self._lease.owner()
        if owner is not MISSING and owner.run != self._run and self._lease.life(owner) != "dead":
            request = ControlRequest(id=uuid.uuid4().hex, want=want, by=by, at=self._clock())
            self._store.update(ROW, lambda _: msgspec.json.encode(request))
        else:
            self._take(want, by)

    def _take(self, want: Want, by: str) -> None:
        """Become what is wanted: first in memory, so that a full disk delays no pause."""
        with self._lock:
            before, self._wanted, self._by = self._wanted, want, by
            if want == "pause":
                self._moving.clear()
            else:
                self._moving.set()
            if want == before:
                return
            ended, self._record = self._record, None if want == "run" else self._new(want, by)
        if ended is not None:
            self._write(_over(ended, self._clock(), by, "resumed" if want == "run" else "stopped"))
        if self._record is not None:
            self._write(self._record)
        self._bus.emit(f"control.{want}", by=by)

    def _settle(self, end: Literal["stopped", "nothing was running"]) -> None:
        """The stop is over, and with it a pause."""
        with self._lock:
            record, self._record, self._wanted = self._record, None, "run"
            self._moving.set()
        if record is not None:
            self._write(_over(record, self._clock(), self._by, end))

    def _new(self, want: Want, by: str) -> PauseRecord:
        now = self._clock()
        return PauseRecord(
            id=_new_id(),
            run=self._run,
            want=want,
            by=by,
            asked_at=now,
        )

    @contextlib.contextmanager
    def _paused(self, where: str) -> Iterator[None]:
        """The block is a wait. The first one that waits says when it began."""
        with self._lock:
            record = self._record
            first = record is not None and record.began_at is None
            if record is not None and first:
                self._record = msgspec.structs.replace(record, began_at=self._clock(), where=where)
        if not first:
            yield
            return
        self._waits_since_s = self._monotonic()
        try:
            if self._record is not None:
                self._write(self._record)
                self._bus.emit("control.paused", where=where, by=self._by)
            yield
        finally:
            self._waited_s, self._waits_since_s = self.waited_s, None
        self._bus.emit("control.resumed", where=where, by=self._by, want=self._wanted)

    def _raise(self, where: str) -> None:
        self.stops += 1
        with self._lock:
            record = self._record
            if record is not None and record.began_at is None:
                self._record = msgspec.structs.replace(record, began_at=self._clock(), where=where)
        # An event loop does not survive a KeyboardInterrupt out of one of its tasks; the cell's own task catches it.
        inner = self._cell is not None and current_task() not in (None, self._cell)
        text = self._text(f"before {where}" if where else "")
        raise StoppedTask(text) if inner else Stopped(text)

    def _text(self, where: str) -> str:
        parts = [each for each in ("stopped", f"by {self._by}" if self._by else "", where) if each]
        return f"{' '.join(parts)}; what is finished is kept, and Run All goes on from here"

    def _poll(self) -> None:
        if not self._polls or self._polling or threading.current_thread() is not threading.main_thread():
            return
        now_s = self._monotonic()
        if now_s - self._polled_s < POLL_S:
            return
        self._polled_s, self._polling = now_s, True
        try:
            for callback in self._polls:
                try:
                    callback()
                except Exception as error:  # a view that fails must not fail the step
                    self._polls = tuple(each for each in self._polls if each is not callback)
                    warnings.warn(f"a poll failed and is left out: {type(error).__name__}: {error}", stacklevel=2)
        finally:
            self._polling = False

    def _write(self, record: PauseRecord) -> None:
        """Best effort, and not durable by itself: a pause that cannot be recorded is a pause all the same."""
        if self._lease.held:
            try:
                rows = {f"pause/{record.id}": msgspec.json.encode(record)}
                self._store.commit(rows, guard=self._lease.guard, durable=record.began_at is not None)
            except LeaseLost:
                raise
            except ResumableError as error:
                warnings.warn(f"the {record.want} could not be recorded: {error.message}", stacklevel=2)

    def _request(self) -> ControlRequest | Missing:
        row = self._store.get(ROW)
        return MISSING if row is MISSING else msgspec.json.decode(row, type=ControlRequest)

    def _watch(self, ending: threading.Event) -> None:
        while not ending.wait(self._watch_s):
            try:
                request = self._request()
                if request is not MISSING and request.id != self._seen:
                    self._seen = request.id
                    self._take(request.want, request.by)
            except LeaseLost:
                return
            except (ResumableError, msgspec.MsgspecError):
                continue  # a store that cannot be read now may be there again


def _over(record: PauseRecord, at: float, by: str, end: str) -> PauseRecord:
    return msgspec.structs.replace(record, ended_at=at, ended_by=by, end=end)


def current_task() -> asyncio.Task[Any] | None:
    """The asyncio task that runs here, if one does."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _new_id() -> str:
    """Sorts by time."""
    return f"{time.time_ns():019d}-{uuid.uuid4().hex[:6]}"
