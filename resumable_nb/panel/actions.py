"""What the buttons do. A click comes in any thread: pause and stop set a flag, all else has a thread of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Final

from resumable_nb.errors import ResumableError, UsageError
from resumable_nb.model import StepRecord
from resumable_nb.panel import comms
from resumable_nb.session import Session, Task
from resumable_nb.wording import plural

BY: Final = "the panel"


class Actions:
    """Acts on one session. ``say`` shows a line; ``changed`` is called when something was done."""

    def __init__(self, session: Session, say: Callable[[str], None], changed: Callable[[], None]) -> None:
        self._session = session
        self._task = Task(session)
        self._say = say
        self._changed = changed
        self._busy = threading.Lock()

    def pause(self) -> None:
        self._session.control.pause(BY)
        self._changed()

    def resume(self) -> None:
        self._session.control.resume(BY)
        self._changed()

    def stop(self) -> None:
        self._session.control.stop(BY)
        self._changed()

    def rerun(self, step: str) -> None:
        def act() -> str:
            self._task.rerun(step)
            return f"{step} runs again the next time its cell is executed; recorded tool calls still answer"

        self._do(act)

    def restore(self, step: str, version: int | None = None) -> None:
        """In the main thread, between two cells: it binds the notebook's variables."""

        def act() -> str:
            if any(record.status == "running" and record.run == self._session.run for record in self._steps()):
                raise UsageError("a step runs now: restore when it has ended")
            names = self._task.restore(step, version)
            of = f"version {version}" if version is not None else "it"
            if not names:
                return f"{step}: the variables are as {of} left them already"
            return f"{step}: restored {', '.join(names)}, as {of} left them"

        if not comms.later(lambda: self._told(act)):
            self._do(act)

    def retry(self) -> None:
        """Finished steps that handled failed calls run again; failed steps go on by themselves."""

        def act() -> str:
            failed = {call.step for call in self._session.journal.calls() if call.status == "failed"}
            steps = [record for record in self._steps() if record.id in failed or record.status == "failed"]
            if not steps:
                return "nothing has failed"
            for record in steps:
                if record.status == "done":
                    self._task.rerun(record.id)
            names = ", ".join(record.name for record in steps)
            return f"{plural(len(steps), 'step')} will make the failed calls again when the cell is executed: {names}"

        self._do(act)

    def compensate(self, step: str) -> None:
        def act() -> str:
            undone = self._task.compensate(step)
            return f"{step}: {plural(len(undone), 'call')} undone"

        self._do(act)

    def ask(self, call: str) -> None:
        def act() -> str:
            record = self._task.ask(call)
            return f"{record.tool} {record.id}: {'it happened' if record.status == 'done' else 'it did not happen'}"

        self._do(act)

    def happened(self, call: str, text: str) -> None:
        def act() -> str:
            try:
                value = json.loads(text) if text.strip() else None
            except json.JSONDecodeError as error:
                raise UsageError(f"the result is not JSON: {error}") from None
            record = self._task.resolve(call, True, value)
            return f"{record.tool} {record.id}: recorded as happened; run the cell again"

        self._do(act)

    def not_happened(self, call: str) -> None:
        def act() -> str:
            record = self._task.resolve(call, False)
            return f"{record.tool} {record.id}: may be called again; run the cell again"

        self._do(act)

    def _steps(self) -> list[StepRecord]:
        return self._session.journal.steps()

    def _do(self, act: Callable[[], str]) -> None:
        if not self._busy.acquire(blocking=False):
            self._say("the last click is still being carried out")
            return

        def run() -> None:
            try:
                self._told(act)
            finally:
                self._busy.release()

        # Its name keeps what it shows out of the record of a cell that runs meanwhile.
        threading.Thread(target=run, name="subshell-resumable_nb", daemon=True).start()

    def _told(self, act: Callable[[], str]) -> None:
        try:
            self._say(act())
        except ResumableError as error:
            self._say(f"{type(error).__name__}: {error.message}")
        except Exception as error:  # a user's function failed: what it said belongs where the click was
            self._say(f"{type(error).__name__}: {error}")
        self._changed()
