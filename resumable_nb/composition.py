"""``Session``, the composition root: makes the parts that work on one task, and hands them to each other."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from resumable_nb import assigned, tools, track
from resumable_nb import frame as frames
from resumable_nb.compensation import Compensation
from resumable_nb.control import Control
from resumable_nb.events import Bus, Event
from resumable_nb.execution import Execution, StepSpec
from resumable_nb.fingerprint import Lookup
from resumable_nb.journal import Journal
from resumable_nb.lease import Lease
from resumable_nb.memory import Memory
from resumable_nb.model import StepKey, digest
from resumable_nb.output import Recorder
from resumable_nb.runner import Runner
from resumable_nb.shell import Shell
from resumable_nb.snapshot import Namespace, Snapshots
from resumable_nb.source import Body
from resumable_nb.store.base import Store
from resumable_nb.store.seal import user_key
from resumable_nb.variables import Variables


def is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


class Session:
    """One task, open in this process. Opening reads; the first step or tool call takes the lease."""

    def __init__(
        self,
        name: str,
        store: Store,
        *,
        live: dict[str, Any],
        base: Path,
        notebook: str = "",
        lazy: bool = False,
        hidden: Callable[[str], bool] = is_special,
        bus: Bus | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.store = store
        self.base = base
        self.notebook = notebook
        self.unnamed = False
        """Nobody named the task: it has its folder's name, and the user was not told so yet."""
        self.bus = bus or Bus()
        self.run = f"{time.time_ns() // 1_000_000:013d}-{uuid.uuid4().hex[:6]}"
        self.lease = Lease(store, run=self.run, bus=self.bus)
        self.control = Control(store, self.lease, self.bus, run=self.run, clock=clock)
        self.journal = Journal(store, self.lease, self.bus, clock=clock)
        self.space = Namespace(live, live, hidden, lazy)
        self.snapshots = Snapshots(store, self.bus, live, verify=True)
        self.provenance: dict[str, str] = {}
        self.specs: dict[str, StepSpec] = {}
        self.counts: Counter[str] = Counter()
        self.replayed: set[str] = set()  # the calls that were answered from the record
        self.memory = Memory(self.journal, store, self.lease)
        self.compensation = Compensation(self.journal, self.bus, desk=self.desk, load=self.load_all)
        self.runner = Runner(
            self.journal,
            self.snapshots,
            self.bus,
            lease=self.lease,
            memory=self.memory,
            control=self.control,
            run=self.run,
            lookup=self.lookup,
            made=self._made,
            undo=self.compensation.run,
            go_on=self.compensation.go_on,
            clock=clock,
        )
        self._clock = clock
        self._lock = threading.RLock()
        self._desk: tools.Desk | None = None
        self._shell: Shell | None = None
        self.bus.listen(self._on_event)

    def lookup(self, space: Namespace) -> Lookup:
        return Variables(space, self.snapshots, self.provenance, self.runner.replays.load)

    def _made(self, space: Namespace, names: Collection[str], key: StepKey) -> None:
        """A value without content of its own counts by the step that changed it last, and by what went into that."""
        if space is self.space:
            self.provenance |= dict.fromkeys(names, digest(msgspec.json.encode(assigned.left_out(key))))

    def own(self) -> None:
        """Take the lease and open the task's record, unless that is done."""
        with self._lock:
            self.lease.ensure()

    def desk(self) -> tools.Desk:
        """What a tool call needs."""
        self.own()
        self.compensation.refuse_calls()
        if self._desk is None:
            task = self.journal.task_or_fail()
            self._desk = tools.Desk(
                journal=self.journal,
                incarnation=task.incarnation,
                branch=task.branch,
                run=self.run,
                key=user_key(),
                bus=self.bus,
                clock=self._clock,
                sleep=self.control.wait,
                sleep_async=self.control.wait_async,
                checkpoint=self.control.checkpoint,
                checkpoint_async=self.control.checkpoint_async,
            )
        return self._desk

    def keeper(self) -> track.Keeper:
        """What a loop needs."""
        return track.Keeper(self.journal, self.snapshots, self.bus, self.space_of, self.control, self._clock)

    def space_of(self, frame: FrameType, needed: Body | Collection[str] = ()) -> Namespace:
        """The variables that code in ``frame`` sees: the notebook's own, or a merged copy in a function or class.

        Of the pending variables the copy has those that are ``needed``: that a body can reach, or these names.
        """
        if frame.f_globals is self.space.live and frames.is_module(frame):
            return self.space
        if frame.f_globals is self.space.live:
            names = self.snapshots.reach(self.space, needed) if isinstance(needed, Body) else needed
            self.snapshots.materialise(self.space, names)
        variables = {**frame.f_globals, **frames.variables(frame)}
        return Namespace(variables, frame.f_globals, self.space.hidden, own=frames.own_names(frame))

    def load(self, body: Body) -> frozenset[str]:
        """Bring back the pending variables that this code can reach. Returns all names that it can reach."""
        names = self.snapshots.reach(self.space, body)
        self.snapshots.materialise(self.space, names)
        self.snapshots.presence.touch(names)
        return names

    def settle(self, body: Body) -> None:
        """Bring back also what only running a step's body can: as the first act of the cell that reaches it."""
        self.runner.replays.bring(self.space, body)

    def load_all(self) -> None:
        """Bring back every pending variable: afterwards nobody will know where they are."""
        self.snapshots.materialise(self.space, None)

    def use_shell(self, shell: Shell | None) -> None:
        """Say which shell shows and records output (None: there is none)."""
        self._shell = shell
        if shell is not None:
            self.runner.replays.execute, self.runner.replays.can_execute = shell.execute, shell.can_execute

    def record(self) -> Recorder | None:
        return None if self._shell is None else self._shell.record()

    def replay(self, outputs: list[dict[str, Any]]) -> None:
        if self._shell is not None:
            self._shell.replay(outputs)

    def announce(self, execution: Execution) -> None:
        if self._shell is not None:
            self._shell.announce(execution)

    def take_over(self, rows: dict[str, bytes]) -> None:
        """Put the rows of a task into a store that has none yet. Durable."""
        self.own()
        self.store.commit(rows, guard=self.lease.guard)
        self._desk = None
        self.memory.reload()

    def forget(self) -> None:
        """Delete all steps and calls of the task; the next use begins a new incarnation."""
        self.own()
        self.compensation.noted(self.journal.forget(self.name, self.notebook))
        self._desk = None
        self.memory.reload()
        self.snapshots.forget_pending(self.snapshots.pending())
        self.specs.clear()

    def close(self) -> None:
        """Give the lease back and close the store. The session opens again at the next use."""
        self.control.close()
        if self.lease.held:
            with contextlib.suppress(Exception):  # a store that is gone must not keep a kernel from ending
                self.journal.end_run(self.run)
            self.lease.release()
        self.store.close()

    def _on_event(self, event: Event) -> None:
        self.counts[event.kind] += 1
        match event.kind:
            case "lease.acquired":
                self.memory.reload()
                self.compensation.noted(self.journal.ensure_task(self.name, self.notebook))
                self.journal.begin_run(
                    self.run, pid=os.getpid(), host=socket.gethostname(), kernel=os.environ.get("JPY_SESSION_NAME", "")
                )
                self.control.owned()
            case "call.replayed":
                self.replayed.add(event.facts["id"])
