"""The record of a task: its runs, steps, tool calls and loop positions, written under the lease and read by anybody."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping

import msgspec

from resumable_nb.call_records import CallRecords, call_row
from resumable_nb.errors import NewerSchema, UsageError
from resumable_nb.model import FINGERPRINTS, MISSING, Missing, Position, RunRecord, StepRecord, Stored, TaskRecord


class Journal(CallRecords):
    """Appends and folds records."""

    # --- the task and its runs

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
            self._places.clear()
            self._bus.emit("task.forgotten")
            return record

    def complete_task(self) -> TaskRecord:
        """Say that the task is finished. Durable."""
        with self._lock:
            record = msgspec.structs.replace(self.task_or_fail(), completed_at=self._clock())
            self._write({"meta": record})
            return record

    def _new_task(self, name: str, notebook: str) -> TaskRecord:
        return TaskRecord(
            name=name,
            incarnation=uuid.uuid4().hex,
            created_at=self._clock(),
            notebook=notebook,
            fingerprints=FINGERPRINTS,
        )

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

    def heard_at(self, step: StepRecord) -> float:
        """When an unfinished step last recorded something, in any of its executions; 0 where it never did."""
        inside = self._scan(StepRecord, f"step/{step.id}/")
        unfinished = [step.id, *(each.id for each in inside if each.ended_at is None)]
        moments = [each.ended_at for each in inside if each.ended_at is not None]
        moments += [each.at for path in ("@", "/") for each in self._scan(Position, f"pos/{step.id}{path}")]
        for each in unfinished:
            if (call := self.last_call(each)) is not MISSING:
                # Nobody knows when one ended that was settled afterwards.
                moments.append(call.started_at + (call.duration_s or 0.0))
        return max(moments, default=0.0)

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

    # --- loop positions

    def position(self, step: str, loop: str) -> Position | Missing:
        return self._read(Position, f"pos/{step}@{loop}")

    def keep_position(self, position: Position, rows: Mapping[str, bytes] | None = None) -> None:
        """The one transaction that makes loop turns kept. Durable."""
        self._write({f"pos/{position.step}@{position.loop}": position}, rows)
