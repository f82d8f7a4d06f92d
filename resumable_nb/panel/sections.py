"""The sections of the panel: buttons, questions, doubts, steps and history. Each draws itself from values."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any, Final

from resumable_nb.doubt import spelled
from resumable_nb.model import CallRecord
from resumable_nb.panel import parts, view
from resumable_nb.panel.actions import Actions
from resumable_nb.panel.state import UNDER_WAY, Head, Page, Query, StepRow
from resumable_nb.panel.text import line

STEPS: Final = 12
"""Rows of the list of steps; further ones are on further pages."""
ABOVE: Final = 2
"""Rows for the steps around the first one that is shown."""
DOUBTS: Final = 4


class Controls:
    """Pause, Resume, Stop and Retry, the question before what cannot be taken back, and what came of a click."""

    def __init__(self, actions: Actions) -> None:
        self._yes: Callable[[], None] | None = None
        self._back: Any = None
        """The button that asked."""
        self.pause = parts.button("Pause", actions.pause, title="Wait at the next safe point")
        self.resume = parts.button("Resume", actions.resume, title="Go on")
        self.stop = parts.button(
            "Stop", actions.stop, title="End the cell at the next safe point; finished work is kept"
        )
        question = "Make the failed calls again when their cells are executed?"
        self.retry = parts.button("Retry failed", lambda: self.ask(question, "Retry failed", actions.retry, self.retry))
        self._question = parts.text()
        self._confirm = parts.button("Yes", self._answer)
        cancel = parts.button("Cancel", self._cancel)
        self._asking = parts.row([self._question, self._confirm, cancel], "rnb-bar", "rnb-ask", "rnb-hidden")
        self._said = parts.text()
        self.box = parts.column([parts.row([self.pause, self.resume, self.stop, self.retry]), self._asking, self._said])

    def ask(self, question: str, label: str, yes: Callable[[], None], back: Any) -> None:
        """Ask once, in the panel. The focus goes to the answer that changes nothing, and then ``back``."""
        self._yes, self._back = yes, back
        parts.put(self._question, value=f'<div role="alert">{html.escape(line(question, 300))}</div>')
        parts.put(self._confirm, description=f"Yes: {label}")
        parts.hide(self._asking, False)
        self._asking.children[2].focus()

    def say(self, text: str) -> None:
        parts.put(self._said, value=view.message(text))

    def draw(self, head: Head) -> None:
        wanted, running = head.hold.wanted, head.word in UNDER_WAY
        parts.put(self.pause, disabled=wanted != "run" or not (running or head.hold.mine))
        parts.put(self.resume, disabled=wanted == "run")
        parts.put(self.stop, disabled=not running or wanted == "stop")
        parts.put(self.retry, disabled=not head.failed and head.word != "failed")

    def _answer(self) -> None:
        yes, self._yes = self._yes, None
        self._cancel()
        if yes is not None:
            yes()

    def _cancel(self) -> None:
        self._yes = None
        # First: the focus of what is hidden is lost, and the keys with it.
        if self._back is not None:
            self._back.focus()
        parts.hide(self._asking, True)


class Doubts:
    """Calls whose outcome nobody knows, oldest first, each with its answers."""

    def __init__(self, actions: Actions, controls: Controls) -> None:
        self._actions, self._controls = actions, controls
        self._calls: dict[int, CallRecord] = {}
        self._rows = [self._row(index) for index in range(DOUBTS)]
        self._more = parts.text()
        self.box = parts.column([*(row for row, *_ in self._rows), self._more], "rnb-hidden")

    def draw(self, calls: list[CallRecord], run: Callable[[CallRecord], str]) -> None:
        parts.hide(self.box, not calls)
        for index, (row, told, value, ask) in enumerate(self._rows):
            call = calls[index] if index < len(calls) else None
            parts.hide(row, call is None)
            if call is not None:
                if index in self._calls and self._calls[index].id != call.id:
                    parts.put(value, value="")
                self._calls[index] = call
                parts.put(told, value=view.doubt(call, run(call)))
                parts.hide(ask, not call.undo)
        more = len(calls) - DOUBTS
        parts.put(self._more, value=f"<p>{more} more in doubt</p>" if more > 0 else "")

    def _row(self, index: int) -> tuple[Any, Any, Any, Any]:
        told = parts.text()
        value = parts.field("Result", "JSON, if it happened")
        value.continuous_update = False  # whole, and before a click: half a number would be a wrong result
        happened = parts.button("It happened", lambda: self._happened(index, value.value.strip(), happened))
        not_happened = parts.button("It did not", lambda: self._not_happened(index, not_happened))
        ask = parts.button(
            "Ask the tool",
            lambda: self._actions.ask(self._calls[index].id),
            title="Its reconcile= function says what became of the call",
        )
        answers = parts.row([value, happened, not_happened, ask])
        return parts.column([told, answers], "rnb-doubt", "rnb-hidden"), told, value, ask

    def _happened(self, index: int, value: str, back: Any) -> None:
        call = self._calls[index]
        result = f"the result {line(value, 200)}" if value else "no result (None)"
        self._controls.ask(
            f"Record that {line(spelled(call), 120)} happened, with {result}?",
            "it happened",
            lambda: self._actions.happened(call.id, value),
            back,
        )

    def _not_happened(self, index: int, back: Any) -> None:
        call = self._calls[index].id
        self._controls.ask(
            "If it did happen after all, it will happen twice. Let it be called again?",
            "it did not happen",
            lambda: self._actions.not_happened(call),
            back,
        )


class Steps:
    """The list of steps, a page of it; a click on one opens what is known of it."""

    def __init__(self, actions: Actions, controls: Controls, changed: Callable[[], None]) -> None:
        self._actions, self._controls, self._changed = actions, controls, changed
        self._ids = [""] * (STEPS + ABOVE)
        self.opened = ""
        self.page: int | None = None
        """None: the last one, where things happen."""
        self._shown = 0
        self._rows = [self._row(index) for index in range(STEPS + ABOVE)]
        self._none, self._note = parts.text(), parts.text()
        self._earlier = parts.button("Earlier steps", lambda: self._turn(-1))
        self._later = parts.button("Later steps", lambda: self._turn(1))
        self._pager = parts.row([self._earlier, self._note, self._later], "rnb-bar", "rnb-hidden")
        self._version = parts.choice("of version", [("newest", None)], lambda: None)
        self._detail = parts.text()
        self._acting = [
            parts.button("Rerun step", self._rerun),
            parts.button("Restore step", self._restore),
            parts.button("Compensate", self._compensate),
        ]
        rerun, restore, compensate = self._acting
        self._acts = parts.row([rerun, restore, self._version, compensate], "rnb-bar", "rnb-hidden")
        self.box = parts.column([self._none, *(row for row, _, _ in self._rows), self._pager, self._acts, self._detail])

    def window(self, total: int) -> tuple[int, int]:
        """Which steps are on the page."""
        pages = max(1, -(-total // STEPS))
        if self.page is not None and self.page >= pages - 1:
            self.page = None
        self._shown = pages - 1 if self.page is None else self.page
        start = max(0, total - STEPS) if self._shown == pages - 1 else self._shown * STEPS
        parts.hide(self._pager, pages == 1)
        parts.put(self._earlier, disabled=self._shown == 0)
        parts.put(self._later, disabled=self.page is None)
        parts.put(self._note, value=f"steps {start + 1} to {min(total, start + STEPS)} of {total}")
        return start, start + STEPS

    def draw(self, rows: list[StepRow]) -> None:
        parts.put(self._none, value="" if rows else view.NO_STEPS)
        for index, (box, opener, cells) in enumerate(self._rows):
            row = rows[index] if index < len(rows) else None
            parts.hide(box, row is None)
            if row is not None:
                self._ids[index] = row.id
                opened = row.id == self.opened
                parts.put(opener, description=f"{chr(0x2003) * row.depth}{'▾' if opened else '▸'} {line(row.name, 60)}")
                parts.put(opener, tooltip=f"{'Close' if opened else 'Open'} {line(row.id, 120)}")
                parts.put(cells, value=view.step(row))

    def detail(self, text: str) -> None:
        """What is open, as HTML; empty closes it."""
        parts.hide(self._acts, not text)
        parts.put(self._detail, value=text)

    def offer(self, versions: list[tuple[str, int]]) -> None:
        """The older versions that can be restored, newest first."""
        options = [("newest", None), *versions]
        if list(self._version.options) != options:
            self._version.options = options
        parts.hide(self._version, not versions)

    def has_detail(self) -> bool:
        return bool(self._detail.value)

    def _row(self, index: int) -> tuple[Any, Any, Any]:
        opener = parts.button("", lambda: self._open(index), "rnb-open")
        cells = parts.text()
        return parts.row([opener, cells], "rnb-row", "rnb-hidden"), opener, cells

    def _open(self, index: int) -> None:
        step = self._ids[index]
        self.opened = "" if self.opened == step else step
        parts.put(self._version, value=None)
        self._changed()

    def _turn(self, by: int) -> None:
        self.page = max(0, self._shown + by)
        self._changed()

    def _rerun(self) -> None:
        step = self.opened
        question = f"Run {step} again the next time its cell is executed? Its record is put aside."
        self._controls.ask(question, "rerun", lambda: self._actions.rerun(step), self._acting[0])

    def _restore(self) -> None:
        step, version = self.opened, self._version.value
        of = f"version {version} of " if version is not None else ""
        question = f"Put the variables back as they were after {of}{step}? What they hold now is lost."
        self._controls.ask(question, "restore", lambda: self._actions.restore(step, version), self._acting[1])

    def _compensate(self) -> None:
        step = self.opened
        question = f"Undo the finished calls of {step}, newest first, by the functions that their tools name?"
        self._controls.ask(question, "compensate", lambda: self._actions.compensate(step), self._acting[2])


_TIMES: Final = (("any time", 0.0), ("last minute", 60.0), ("last 10 minutes", 600.0), ("last hour", 3600.0),
                 ("last day", 86400.0))  # fmt: skip
_ORDERS: Final = (("newest first", "newest"), ("oldest first", "oldest"), ("slowest first", "slowest"),
                  ("fastest first", "fastest"), ("most tries first", "tries"), ("by tool", "tool"), ("by step", "step"),
                  ("by status", "status"))  # fmt: skip
_STATUSES: Final = ("done", "failed", "running", "in doubt", "compensated")


class History:
    """Tool calls: searched, filtered, sorted, a page at a time."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._number = 0
        self._text = parts.field("Search", "names, arguments, results", self._asked)
        self._tool = parts.choice("Tool", [("all", "")], self._asked)
        self._step = parts.choice("Step", [("all", "")], self._asked)
        self._status = parts.choice("Status", [("all", ""), *((each, each) for each in _STATUSES)], self._asked)
        self._time = parts.choice("Started", _TIMES, self._asked)
        self._order = parts.choice("Sort", _ORDERS, self._asked)
        self._table = parts.text()
        self._count = parts.text()
        self._earlier = parts.button("Previous page", lambda: self._turn(-1))
        self._later = parts.button("Next page", lambda: self._turn(1))
        self._copy = parts.button("As pandas code", self._show_code)
        self._code = parts.text("rnb-hidden")
        filters = parts.row([self._text, self._tool, self._step, self._status, self._time, self._order])
        pager = parts.row([self._earlier, self._count, self._later, self._copy])
        self.box = parts.column([filters, pager, self._code, self._table], "rnb-hidden")

    def query(self) -> Query:
        return Query(
            text=self._text.value,
            tool=self._tool.value or "",
            step=self._step.value or "",
            status=self._status.value,
            since_s=self._time.value,
            order=self._order.value,
            page=self._number,
        )

    def offer(self, tools: list[str], steps: list[str]) -> None:
        """What can be filtered by. What is chosen stays."""
        changed, self._changed = self._changed, lambda: None
        number = self._number
        for widget, names in ((self._tool, tools), (self._step, steps)):
            options = [("all", ""), *((line(name, 60), name) for name in names)]
            if list(widget.options) != options:
                chosen = widget.value
                widget.options = options
                if chosen in names:
                    widget.value = chosen
        self._changed, self._number = changed, number

    def draw(self, page: Page) -> None:
        self._number = page.number
        parts.put(self._table, value=view.history(page))
        parts.put(self._count, value=view.counted(page))
        parts.put(self._code, value=view.pandas(page))
        parts.put(self._earlier, disabled=page.number == 0)
        parts.put(self._later, disabled=page.number + 1 >= page.pages)

    def _asked(self) -> None:
        self._number = 0
        self._changed()

    def _turn(self, by: int) -> None:
        self._number += by
        self._changed()

    def _show_code(self) -> None:
        parts.hide(self._code, "rnb-hidden" not in self._code._dom_classes)
