"""The whole flow of a step on one page: look up, decide, restore or run, capture, commit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import msgspec

from resumable_nb import assigned, divergence, output, plan, scope, sharing
from resumable_nb.configured import Configured
from resumable_nb.control import Control, waited_s
from resumable_nb.errors import NotSaved, ResumableError, Stopped, StoppedTask
from resumable_nb.events import Bus
from resumable_nb.execution import Execution, StepSpec, missing_files
from resumable_nb.fingerprint import Lookup
from resumable_nb.held import Held
from resumable_nb.journal import Journal
from resumable_nb.keys import Keys
from resumable_nb.lease import Lease
from resumable_nb.memory import Mark, Memory
from resumable_nb.model import MISSING, Missing, StepKey, StepRecord
from resumable_nb.passes import Passes
from resumable_nb.preview import scrub
from resumable_nb.replay import Replays
from resumable_nb.scope import Entry, StepScope
from resumable_nb.scripts import Scripts
from resumable_nb.snapshot import Before, Namespace, Snapshots
from resumable_nb.source import Body
from resumable_nb.wording import few

T = TypeVar("T")


class Runner:
    """Runs steps against one journal. Knows nothing of notebooks: who executes the body is the caller's affair.

    ``lookup`` gives the variables of a namespace to ``step_key``; ``run`` is this process's run id. ``made`` is told
    which variables a step has changed, now or when it ran, and what it depended on: they have that origin. ``undo``
    rolls a failed step back; ``go_on`` finishes a rollback that was cut short.
    """

    def __init__(
        self,
        journal: Journal,
        snapshots: Snapshots,
        bus: Bus,
        *,
        lease: Lease,
        memory: Memory,
        control: Control,
        run: str,
        lookup: Callable[[Namespace], Lookup],
        made: Callable[[Namespace, Collection[str], StepKey], None] = lambda _space, _names, _key: None,
        undo: Callable[[str], object] = lambda _step: None,
        go_on: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._journal = journal
        self._snapshots = snapshots
        self._bus = bus
        self._lease = lease
        self._memory = memory
        self.held = Held(journal, memory, bus)
        self._control = control
        self._run = run
        self._made = made
        self._undo = undo
        self._go_on = go_on
        self._clock = clock
        self._monotonic = time.monotonic
        self._configured = Configured(journal)
        self._scripts = Scripts(journal)
        self._passes = Passes()
        self.keys = Keys(self._configured, snapshots, lookup, self._scripts, self._passes)
        self.replays = Replays(snapshots, journal, bus)
        self._started_s: dict[str, float] = {}
        self.skipped: dict[str, float] = {}
        """Steps that were skipped here and have not begun since, each with the seconds that it saved."""

    def enter(self, spec: StepSpec, space: Namespace, *, replay: str = "") -> Execution:
        """Decide; bring a skipped step's state back; begin any other.

        ``replay`` says why the body has to run even when the step is done (its tool calls answer from the journal).
        Raises ``TaskBusy``, ``Corrupt``, ``StoreUnavailable``, ``Stopped`` before the body has run.
        """
        self._lease.ensure()
        self._control.working()
        self._control.checkpoint(spec.id)
        recorded = self._journal.step(spec.id)
        if recorded is not MISSING and recorded.status == "compensated":
            self._go_on()  # a crash may have cut the rollback short
        key = self.keys.now(spec, space, recorded)
        waits = recorded is not MISSING and self.replays.may_wait(space, recorded)
        here = (
            spec.kind == "cell"
            and recorded is not MISSING
            and recorded.run == self._run
            and not self.replays.given_up.runs(recorded, key)
        )
        foreign = frozenset[str]() if recorded is MISSING else self.keys.foreign(recorded, space)
        decision = plan.decide_step(
            recorded, key, spec.options, missing_files(spec), foreign=foreign, may_wait=waits, is_set_up=here
        )
        self._scripts.entered(spec.id)
        if recorded is MISSING and (done := self._journal.versions(spec.id)):  # its record was put aside
            decision = plan.Run(done[-1].version + 1, plan.ASKED)
        if isinstance(decision, plan.Skip) and self._memory.changed(decision.record):
            decision = plan.Run(decision.record.version + 1, "what it found in the memory changed")
        if isinstance(decision, plan.Skip) and spec.kind == "cell" and (torn := self._torn(spec, space, decision)):
            decision = plan.Run(decision.record.version + 1, torn)
        if replay and isinstance(decision, plan.Skip):
            decision = plan.Continue(decision.record, True, replay)
        if (names := scope.current().replayed_for) and not isinstance(decision, plan.Skip):
            raise NotSaved(f"step {spec.id} inside it has to run too", step=spec.id, names=names)
        if isinstance(decision, plan.Skip):
            return self._skip(spec, space, decision, decision.record, key)
        return self._begin(spec, space, decision, recorded, key)

    def _torn(self, spec: StepSpec, space: Namespace, skip: plan.Skip) -> str:
        """Why a skip would part what is one object; empty where it would not.

        What the cells below the step had left in an earlier pass is of no account: they bring that back themselves.
        """
        above = self._passes.above(spec.id)
        names = self._snapshots.binding.torn(space, skip.record.manifest, spec.id, above)
        return f"{few(names)} would be parted from what it brings back" if names else ""

    def leave(
        self,
        execution: Execution,
        space: Namespace,
        *,
        error: BaseException | None = None,
        result: Any | Missing = MISSING,
        outputs: list[dict[str, Any]] | None = None,
        left: str = "",
        given: Collection[str] = (),
        hold: bool = False,
    ) -> StepRecord:
        """Commit what the body did, or record that it failed. Returns the record as written.

        ``hold``: what the body did is taken down now, and committed with the next ``held.save()``. Else the record is
        durable when this returns; an error of the store leaves the step unfinished, not wrong.
        """
        if execution.entry is not None:
            execution.entry.leave()
        if not execution.pending:
            return execution.record
        if error is None and execution.stops != self._control.stops:
            # Were it committed, what the body has not done would count as done.
            caught = Stopped("it was stopped inside, and the code went on; Run All goes on from here")
            self._fail(execution, space, caught)
            raise caught
        if error is not None:
            return self._fail(execution, space, error)
        self._bus.emit("step.body_done", execution.spec.id)
        try:
            record = self._commit(execution, space, result, outputs or [], left, given)
            if not hold:
                self.held.save()
        except ResumableError as problem:
            with contextlib.suppress(ResumableError):  # no room for that either: then it looks like a crash
                self._fail(execution, space, problem)
            raise
        divergence.report(self._journal, execution.scope)
        return record

    def run(self, spec: StepSpec, space: Namespace, execute: Callable[[], T]) -> T | Missing:
        """The whole way for a body that is a callable; ``MISSING`` when the step was skipped."""
        execution = self.enter(spec, space)
        if not execution.pending:
            return MISSING
        try:
            value = execute()
        except BaseException as error:
            self.leave(execution, space, error=error)
            raise
        self.leave(execution, space, result=value)
        return value

    def put_back(self, records: Collection[StepRecord], space: Namespace) -> tuple[str, ...]:
        """Bring back what these steps left, one after another, lazily. Returns the names that are bound then."""
        names, lost = set[str](), set[str]()
        for record in records:
            self._configured.restore(record)
            restored = self._snapshots.restore(space, record.manifest)
            self._patch(space)
            self._configured.skipped(record, space.variables)
            names = (names | {*restored.names}) - {*restored.deleted}
            lost = (lost | record.unsaved.keys()) - {*restored.names, *restored.deleted}
            self._snapshots.left.note(space, restored.set, record.id)
            self._made(space, {*record.saved_names, *record.unsaved}, record.key)
        if left := sorted(lost - space.variables.keys()):
            self._bus.emit("step.put_back", record.id, lost=left)
        return tuple(sorted(names))

    def _skip(
        self, spec: StepSpec, space: Namespace, decision: plan.Skip, record: StepRecord, key: StepKey
    ) -> Execution:
        self._configured.restore(record)  # first: imports may need a path
        # A cell's names are loaded before the next cell that needs them; a block stands in the middle of running code.
        if spec.kind == "cell":
            self.replays.expect(record, spec.body, lambda: self.keys.now(spec, space, record), space)
            restored = self._snapshots.restore(space, record.manifest, step=spec.id, held=assigned.names(record.key))
        else:
            restored = self._snapshots.restore_now(
                space, record.manifest, block=spec.id, same=sharing.names(record.key)
            )
            self._configured.settle()
        self._snapshots.left.note(space, restored.set, record.id)
        self._patch(space)
        self._configured.skipped(record, space.variables)
        self._made(space, {*record.saved_names, *record.unsaved}, record.key)
        self._memory.skip(record)
        result = self._snapshots.result(space, restored.result) if record.left == "return" else None
        outputs = output.decode(self._journal.blob(record.output)) if record.output else []
        self.skipped[spec.id] = record.duration_s
        if spec.kind == "cell":
            self._passes.took(spec.id)
        self._bus.emit("step.skipped", spec.id, saved_s=record.duration_s)
        return Execution(spec, decision, record, key, StepScope(spec.id), restored, result, outputs)

    def _patch(self, space: Namespace) -> None:
        if (code := self._configured.code()).reads:
            self.replays.bring(space, code)
        self._configured.patch()

    def _begin(
        self,
        spec: StepSpec,
        space: Namespace,
        decision: plan.Run | plan.Continue,
        recorded: StepRecord | Missing,
        key: StepKey,
    ) -> Execution:
        mark = self._memory.begin(spec.id, recorded)
        self._configured.settle()
        self.replays.bring(space, spec.body)
        self._snapshots.left.run(spec.body, spec.id)
        same_key = isinstance(decision, plan.Continue) and decision.same_key
        random_blob, rows, reseeded = self._configured.random(spec.id, recorded if same_key else MISSING)
        self._configured.begin(spec.id, spec.body, space.variables)
        before = self._snapshots.begin(space, spec.body)
        shared = sharing.begun(before.joints, spec.body.writes)
        unchanged = same_key and recorded is not MISSING and recorded.sharing == shared and not reseeded
        version = decision.version if isinstance(decision, plan.Run) else decision.record.version
        record = StepRecord(
            id=spec.id,
            name=spec.name,
            kind=spec.kind,
            version=version,
            status="running",
            key=key,
            run=self._run,
            why=decision.why,
            changes=decision.changes,
            previews=self.keys.previews(key, space),
            first_call=recorded.first_call if recorded is not MISSING and unchanged else self._journal.count(spec.id),
            started_at=self._clock(),
            earlier_s=self._earlier_s(decision.record) if isinstance(decision, plan.Continue) else 0.0,
            text=spec.text,
            random=random_blob,
            sharing=shared,
            memory=mark.blob,
            settings="" if recorded is MISSING else recorded.settings,
        )
        self.skipped.pop(spec.id, None)
        if spec.kind == "cell":
            self._passes.took(spec.id)
        self._bus.emit("step.begin", spec.id)
        self._journal.begin_step(record, rows)
        self._bus.emit("step.begun", spec.id, why=record.why)
        self._started_s[spec.id] = self._worked_s()
        return self._opened(spec, space, decision, record, mark, before, unchanged=unchanged, reseeded=reseeded)

    def _opened(
        self,
        spec: StepSpec,
        space: Namespace,
        decision: plan.StepDecision,
        record: StepRecord,
        mark: Mark,
        before: Before,
        *,
        unchanged: bool,
        reseeded: bool,
    ) -> Execution:
        """What the body runs in; its tool calls belong to it from now on."""
        inner = StepScope(
            spec.id,
            version=record.version,
            key=record.key,
            continuing=isinstance(decision, plan.Continue),
            unchanged=unchanged,
            reseeded=reseeded,
            first_call=record.first_call,
        )
        execution = Execution(spec, decision, record, record.key, inner, mark=mark, stops=self._control.stops)
        execution.before = before
        inner.key = self.keys.at_begin(record.key, space, before)
        execution.entry = Entry(inner)
        return execution

    def _earlier_s(self, record: StepRecord) -> float:
        """How long an unfinished step has worked, up to the last thing on record: the rest is to be done again."""
        heard_at = self._journal.heard_at(record)
        waited = waited_s(self._control.pauses(), record.run, record.started_at, heard_at)
        return record.earlier_s + max(0.0, heard_at - record.started_at - waited)

    def _duration_s(self, record: StepRecord) -> float:
        now_s = self._worked_s()
        return record.earlier_s + now_s - self._started_s.pop(record.id, now_s)

    def _worked_s(self) -> float:
        """A clock that stands still in pauses."""
        return self._monotonic() - self._control.waited_s

    def _fail(self, execution: Execution, space: Namespace, error: BaseException) -> StepRecord:
        assert execution.mark is not None
        assert execution.before is not None
        before = execution.before
        touched = before.reached | before.groups.keys() | execution.spec.body.writes
        self._snapshots.left.interrupt(space, touched, execution.spec.id)
        self._memory.fail(execution.mark)
        text = scrub(f"{type(error).__name__}: {error}".removesuffix(": "))
        record = msgspec.structs.replace(
            execution.record,
            status="stopped" if isinstance(error, Stopped | StoppedTask) else "failed",
            ended_at=self._clock(),
            duration_s=self._duration_s(execution.record),
            error=text[:500],
        )
        self._journal.fail_step(record, execution.scope.failures.unhandled(error))
        self._bus.emit("step.failed", record.id, error=record.error)
        # An interrupt, or a question that somebody has to answer first, is no failure for good.
        for_good = isinstance(error, Exception) and not isinstance(error, ResumableError)
        if execution.spec.options.on_error == "compensate" and for_good:
            self._undo(record.id)
        return record

    def _commit(
        self,
        execution: Execution,
        space: Namespace,
        result: Any | Missing,
        outputs: list[dict[str, Any]],
        left: str,
        given: Collection[str],
    ) -> StepRecord:
        spec, options = execution.spec, execution.spec.options
        assert execution.before is not None
        assert execution.mark is not None
        capture = self._snapshots.capture(space, execution.before, keep=options.keep, drop=options.drop, result=result)
        memory, rows = self._memory.commit(execution.mark, spec.id)
        rows |= capture.rows
        output_blob = ""
        if options.output and outputs:
            output_blob, more = self._journal.blob_row(output.encode(outputs))
            rows |= more
        key = self.keys.at_end(execution, space, capture, outputs)
        self._snapshots.left.note(space, capture.set, spec.id)
        self._made(space, {*capture.saved, *capture.unsaved}, key)  # by the very key that a skip will know
        old = execution.record.settings
        settings, not_kept, more = self._configured.commit(spec.id, old, spec.body, space.variables)
        rows |= more
        after = self.keys.own_changes(execution, space, key, capture.unchanged)
        in_place = execution.before.in_place(space, capture.changed & set(given))
        record = msgspec.structs.replace(
            execution.record,
            status="done",
            key=key,
            ended_at=self._clock(),
            duration_s=self._duration_s(execution.record),
            after=after,
            manifest=capture.manifest_digest,
            output=output_blob,
            makes=options.makes,
            size_bytes=capture.size_bytes,
            saved_names=capture.saved,
            unsaved=capture.unsaved,
            error="",
            replay=in_place or not_kept,
            settings=settings,
            left=left,
            memory=memory,
        )
        self.held.add(record, rows)
        return record

    def settle(self, body: Body, space: Namespace) -> None:
        """Code outside any step is about to run: set again what skipped steps had set."""
        self._passes.took_plain(body.normal)
        self._configured.run(body, space.variables)
        self._snapshots.left.run(body)
