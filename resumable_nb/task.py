"""``Task``: what a user asks about, and does to, one durable piece of work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol

from resumable_nb import codec, plan, state
from resumable_nb.compensation import Compensation
from resumable_nb.control import Control
from resumable_nb.desk import Desk
from resumable_nb.errors import ResumableError, UsageError
from resumable_nb.execution import StepSpec
from resumable_nb.fanout import Errors, FanOut, fan_out, fan_out_async
from resumable_nb.glance import Glance
from resumable_nb.journal import Journal
from resumable_nb.lease import Lease
from resumable_nb.memory import Memory
from resumable_nb.model import MISSING, CallRecord, Missing, Owner, PauseRecord, RunRecord, StepRecord
from resumable_nb.once import once
from resumable_nb.runner import Runner
from resumable_nb.snapshot import Namespace, Snapshots
from resumable_nb.tooldef import drifted
from resumable_nb.tools import resolve_call
from resumable_nb.why import Now, Why
from resumable_nb.wording import clock_time, plain

if TYPE_CHECKING:
    from resumable_nb.history import DataFrame

Status = Literal["pending", "running", "idle", "paused", "stopped", "failed", "completed", "dead", "closed"]


class Parts(Protocol):
    """What a task is made of; the session has it."""

    name: str
    journal: Journal
    lease: Lease
    control: Control
    snapshots: Snapshots
    runner: Runner
    compensation: Compensation
    memory: Memory
    space: Namespace
    run: str
    specs: dict[str, StepSpec]

    def own(self) -> None: ...
    def desk(self) -> Desk: ...


class Task:
    """One durable piece of work, usually one notebook. Made by ``task()``; reading it needs no lease."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @property
    def name(self) -> str:
        return self._parts.name

    @property
    def status(self) -> Status:
        """pending (nothing ran yet), running, idle (open in a live kernel), paused, stopped, failed, completed, dead,
        closed.

        A task that was paused when its kernel ended stays paused: the next Run All resumes it.
        """
        journal = self._parts.journal
        record = journal.task()
        if record is MISSING:
            return "pending"
        steps, owner = journal.steps(), self.owner
        alive = owner is not MISSING
        # One that a dead kernel left is cut off, not running, when another kernel has the task now.
        executing = any(step.status == "running" and (owner is MISSING or step.run == owner.run) for step in steps)
        if self._paused(alive, executing):
            return "paused"
        if executing:
            return "running" if alive else "dead"
        for status in ("failed", "stopped"):
            if any(step.status == status for step in steps):
                return status
        if record.completed_at is not None:
            return "completed"
        return "idle" if alive else "closed"

    def _paused(self, alive: bool, executing: bool) -> bool:
        """Whether it waits, or would wait at once. One that is on its way to a safe point is running."""
        last = self._parts.control.pauses()[-1:]
        return any(each.want == "pause" and each.ended_at is None and _waits(each, alive, executing) for each in last)

    def pause(self, by: str = "") -> None:
        """Wait at the next safe point (between tool calls, turns of ``track`` loops, and steps) until ``resume``.

        In any thread, and for the kernel that has the task, also from another process: that one notices within about a
        second. ``by`` says who asked, for the record.
        """
        self._parts.control.pause(by)

    def resume(self, by: str = "") -> None:
        """Go on after ``pause``."""
        self._parts.control.resume(by)

    def stop(self, by: str = "") -> None:
        """End the running cell at its next safe point, and with it Run All; the next Run All goes on from there."""
        self._parts.control.stop(by)

    @property
    def memory(self) -> Memory:
        """The task's durable list of messages."""
        return self._parts.memory

    def history(self) -> DataFrame:
        """Tool calls, one a row, in the order in which they started.

        Index: call id. Columns: tool, step, status (done, failed, running, in doubt), arguments (redacted previews),
        value (the recorded result), error, attempts, started and ended (UTC), duration_s, idempotency_key, resolved,
        drift (the tool's code is not what it was at the call), run.
        """
        from resumable_nb import history

        calls = self._parts.journal.calls()
        return history.history(calls, self._value, self.in_doubt, drifted(calls))

    def steps(self) -> DataFrame:
        """Steps, one a row, in the order in which they last started.

        Index: step. Columns: status, version, why (it ran), started (UTC), duration_s, calls, variables, unsaved,
        size_bytes (written by this version), error, run.
        """
        from resumable_nb import history

        calls = Counter(call.step for call in self._parts.journal.calls())
        return history.steps(self._parts.journal.steps(), calls)

    def runs(self) -> DataFrame:
        """Processes that worked on the task, oldest first: pid, host, started and stopped (UTC), how it ended."""
        from resumable_nb import history

        return history.runs(self._parts.journal.runs(), self._alive)

    def why(self, step: str) -> Why:
        """Why the step ran the last time, and what would make it run now: which part of its key, old against new."""
        record = self._step(step)
        versions = [each for each in self._parts.journal.versions(record.id) if each.version < record.version]
        spec = self._parts.specs.get(record.id)
        now = None
        if spec is not None and spec.kind == "cell":
            key = self._parts.runner.keys.now(spec, self._parts.space, record)
            keys = self._parts.runner.keys
            foreign = keys.foreign(record, self._parts.space)
            now = Now(key, keys.previews(key, self._parts.space), spec.text, foreign)
        return Why(record, versions[-1] if versions else None, now)

    def versions(self, step: str) -> list[StepRecord]:
        """The finished versions of a step that the store still has, oldest first."""
        return self._parts.journal.versions(self._step(step).id)

    def restore(self, step: str, version: int | None = None) -> tuple[str, ...]:
        """Put the variables back as they were after that step (its newest version, or ``version``).

        That is what this step and the cells before it had left then; variables that only later cells made stay as they
        are. Nothing in the store changes: the next Run All goes by what the variables are. Returns the names. Raises
        ``UsageError`` when the step is not finished.
        """
        done = self.versions(step)
        found = [record for record in done if version is None or record.version == version]
        if not found:
            have = ", ".join(str(record.version) for record in done) or "none"
            raise UsageError(f"step {step!r} has no finished version {version or ''}; there is: {have}")
        return self._parts.runner.put_back(plan.up_to(found[-1], self._parts.journal.versions()), self._parts.space)

    def rerun(self, step: str) -> None:
        """Make the step run again the next time its cell is executed; recorded tool calls still answer."""
        record = self._step(step)
        self._parts.own()
        self._parts.journal.forget_step(record.id)

    def panel(self) -> Any:
        """The task as a widget: progress, history, timeline, and buttons that act while a cell runs.

        There is one for the task in this kernel; every view of it shows the same.
        """
        if not _views:
            raise UsageError("a panel needs IPython and ipywidgets: run `%load_ext resumable_nb` in a notebook")
        return _views[-1](self._parts)

    def resolve(self, call: str, happened: bool, value: Any = None) -> CallRecord:
        """Settle an in-doubt call: it happened, with this result, or it did not, and may be made again.

        ``call`` is the id that the ``InDoubt`` error names, or its first eight or more characters. A result given is
        final. Raises ``UsageError`` for a call that is not in doubt, ``TaskBusy`` while another kernel has the task.
        """
        self._parts.own()
        return resolve_call(self._parts.journal, call, happened, value)

    def ask(self, call: str) -> CallRecord:
        """Ask the receiver of a call in doubt, by the ``reconcile=`` of its tool, and record the answer.

        ``call`` as in ``resolve``. Raises ``InDoubt`` where nobody can say, ``UsageError`` where nobody can be asked.
        """
        return self._parts.compensation.ask(self._parts.journal.find_call(call))

    def compensate(self, step: str | None = None) -> tuple[str, ...]:
        """Undo the done tool calls of a step and of those inside it (``None``: of the whole task), newest end first.

        Returns the ids of the undone calls. First goes on with a rollback that was cut short. A call in doubt is
        reconciled; where nobody can say, ``InDoubt`` is raised, and what an undo raises comes through: call it again
        when that is settled. Afterwards the step is not done, and an identical call is a new one.
        """
        self._parts.own()
        return self._parts.compensation.run("" if step is None else self._step(step).id)

    def complete(self) -> None:
        """Say that the task is finished."""
        self._parts.own()
        self._parts.journal.complete_task()

    def map(
        self,
        tool: Callable[..., Any],
        items: Iterable[Any],
        *,
        executor: Any = None,
        concurrency: int = 8,
        errors: Errors = "raise",
        label: str | None = None,
        star: bool = False,
    ) -> list[Any]:
        """Call a sync tool once for each item, up to ``concurrency`` at a time; the results, in the items' order.

        Every call is recorded by itself: interrupted at any instant, the same ``map`` makes the missing ones. An item
        is the one argument, whatever it is; with ``star=True`` a tuple is several, and a mapping keyword arguments.

        ``executor``: threads by default, else a ``concurrent.futures`` executor or a Dask client (``pip install
        resumable-nb[dask]``, on the workers too). In another process runs only the function itself, sent by value,
        which can call no tools. A worker that is lost leaves its call in doubt; nothing is begun twice.

        ``errors="raise"``: after an error no further call is begun, and when those under way have ended, the first
        one by item is raised. ``"collect"``: the list holds the errors in their items' places. Errors that are about no
        item (a lost lease, a full disk) are always raised. A pause begins no further calls; an interrupt leaves those
        under way to end in the background, and to be recorded.
        """
        parts = self._parts
        fan = FanOut(tool, items, parts.desk(), concurrency=concurrency, errors=errors, label=label, star=star)
        return fan_out(fan, executor)

    async def amap(
        self,
        tool: Callable[..., Any],
        items: Iterable[Any],
        *,
        concurrency: int = 8,
        errors: Errors = "raise",
        label: str | None = None,
        star: bool = False,
    ) -> list[Any]:
        """As ``map``, for an async tool, in tasks of the running loop.

        A stop at a safe point lets calls under way end. Cancelled, as by the stop button, they are in doubt.
        """
        parts = self._parts
        fan = FanOut(tool, items, parts.desk(), concurrency=concurrency, errors=errors, label=label, star=star)
        return await fan_out_async(fan)

    def once(self, name: str, decide: Any) -> Any:
        """A value that is decided once for the task (a time, a random choice, an id), and the same for ever after.

        ``decide`` is a function without parameters, sync or async (then await the result), or the value itself. Its
        value is on disk before it is returned; the name alone says which decision it is. Where ``decide`` raises, or
        the kernel dies before, it is decided again.
        """
        return once(name, decide, self._parts.desk())

    @property
    def step_names(self) -> tuple[str, ...]:
        """What its steps are called, in order, where that is known before they have run."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """The whole state as JSON data: task and session id, ``status``, ``current_step`` and ``total_steps``, steps
        and calls as they are recorded, with their results (``value`` where that is JSON data and holds nothing called
        like a secret, else ``preview``), ``memory``, times in seconds since the epoch, and the versions ``format`` and
        ``schema``. No secrets: those are not recorded.
        """
        return state.to_dict(
            self._parts.journal,
            self._parts.memory,
            session=self._parts.run,
            status=self.status,
            names=self.step_names,
            result=self._result,
        )

    def _result(self, record: StepRecord) -> Any:
        """What a step returned, in a copy of its own."""
        if record.status != "done" or not record.manifest or record.left != "return":
            return MISSING
        return self._parts.snapshots.result_of(record.manifest)

    def in_doubt(self, call: CallRecord) -> bool:
        """Whether nobody knows if the call happened: its intent is recorded, and whoever made it is gone or gave up."""
        if call.status != "intent":
            return False
        if call.doubt:
            return True
        if call.run == self._parts.run:
            return not self._parts.lease.held
        owner = self.owner  # another process: it may be calling right now
        return owner is MISSING or owner.run != call.run

    def _step(self, name: str) -> StepRecord:
        record = self._parts.journal.step(name)
        if record is MISSING:
            known = ", ".join(each.id for each in self._parts.journal.steps()) or "none yet"
            raise UsageError(f"task {self.name!r} has no step {name!r}; it has: {known}")
        return record

    def _value(self, call: CallRecord) -> Any:
        if call.status != "done" or not call.result:
            return None
        try:
            return codec.loads_value(self._parts.journal.blob(call.result))
        except ResumableError as error:
            return f"<{error.message}>"

    def _alive(self, run: RunRecord) -> bool:
        owner = self.owner
        return owner is not MISSING and owner.run == run.id

    @property
    def owner(self) -> Owner | Missing:
        """Who works on the task now: not one that let go of it, and not a dead one."""
        owner = self._parts.lease.owner()
        if owner is MISSING or not owner.token or self._parts.lease.life(owner) == "dead":
            return MISSING
        return owner

    def summary(self) -> str:
        """A few lines of text: status, and each step with what became of it."""
        return self._glance().text()

    def _glance(self) -> Glance:
        steps = sorted(self._parts.journal.steps(), key=lambda record: record.started_at)
        calls = self._parts.journal.calls()
        doubtful = [call for call in calls if self.in_doubt(call)]
        done = sum(call.status == "done" for call in calls)
        return Glance(self.name, self.status, steps, done, doubtful)

    def _since(self) -> str:
        """Of a pause or stop: by whom, and when."""
        last = self._parts.control.pauses()[-1:] if self.status in ("paused", "stopped") else []
        return "".join(f" by {plain(each.by, 80)} at {clock_time(each.began_at or each.asked_at)}" for each in last)

    def __repr__(self) -> str:
        try:
            status: str = self.status
        except ResumableError as error:
            status = type(error).__name__
        return f"<Task {plain(self.name, 80)} {status}>"

    def _repr_html_(self) -> str:
        return self._glance().html()


_views: list[Callable[[Any], Any]] = []


def show_with(view: Callable[[Any], Any]) -> None:
    """Say what makes the panel of a session (a face does, which this floor does not know)."""
    _views[:] = [view]


def _waits(pause: PauseRecord, alive: bool, executing: bool) -> bool:
    return pause.began_at is not None or not alive or not executing
