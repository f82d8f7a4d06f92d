"""``Panel``: the widget that is left open beside a long run."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from typing import Any, Final

import ipywidgets

from resumable_nb import output, session
from resumable_nb.model import MISSING, CallRecord, Missing, Owner, PauseRecord, StepRecord
from resumable_nb.panel import comms, parts, reshow, state, view
from resumable_nb.panel.actions import Actions
from resumable_nb.panel.book import Book
from resumable_nb.panel.latecomers import Latecomers
from resumable_nb.panel.live import SHARE, Live
from resumable_nb.panel.sections import Controls, Doubts, History, Steps
from resumable_nb.panel.style import style
from resumable_nb.panel.swap import Bundle, Places
from resumable_nb.panel.timeline import picture
from resumable_nb.session import Session, Task
from resumable_nb.tooldef import drifted
from resumable_nb.wording import clock_time

VIEWS: Final = ("Steps", "History", "Timeline")
STATUS_S: Final = 1.0
FOREIGN_S: Final = 2.0
FOREIGN_SHARE: Final = 0.05
"""How often the store is read again while another process works on the task: its events do not come here. And which
part of the time that may take."""
COPY_S: Final = 5.0
CLOSED_S: Final = 5.0
"""So long without any task the panel waits for the next one, which makes a static copy of it."""
SAID_S: Final = 10.0
"""So long what came of a click stays at least; then until a step is entered."""


class Panel(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """One task, live. There is one panel for a session: wherever it is displayed, it shows the same."""

    def __init__(self, of: Session) -> None:
        self._session = of
        self._task = Task(of)
        skipped, replayed = dict(of.runner.skipped), of.replayed.copy()
        self._book = Book(of.journal, of.run, of.control.pauses, skipped=skipped, replayed=replayed)
        self._live = Live(of.bus, self._draw)
        self._actions = Actions(of, self._say, self._live.wake)
        self._places = Places(_publisher(), of.space.live)
        self._late = Latecomers()
        self._ending = threading.Lock()
        self._reloaded = False
        """A page was loaded after the panel was shown: it does not know where the static copy stands."""
        self._loaded = self._broken = False
        self._view = VIEWS[0]
        self._status: str = "pending"
        self._holder: object = None
        """Who could write when the store was last read."""
        self._load_s = 0.0
        self._status_s = self._loaded_s = self._copied_s = self._copy_s = 0.0
        self._last: tuple[str, str] | None = None
        """What stays of it when it has ended, as HTML and as text."""
        self._copied = ("", 0)
        """What the copies show: the task's state in a word, and of which revision of the book."""
        self._closed_s = 0.0
        self._said = (0.0, 0)
        """When something was said last, and how many steps had been entered then."""
        self._detail: tuple[Any, ...] = ()
        self._outputs: tuple[str, list[Any]] = ("", [])
        self._build()
        super().__init__(self._children())
        self._late, self._reloaded = Latecomers(), False  # it was asked when it was made, by nobody
        self.add_class("rnb-panel")
        comms.stay_awake()
        comms.unblock(parts.every(self))
        self._unpoll = of.control.on_poll(comms.poll)
        self._draw()
        self._live.start()

    def freeze(self) -> None:
        """End: a static copy of what is true now takes the widget's place. The session's next panel is another one."""
        if not self._ending.acquire(blocking=False):  # the panel's own thread may have seen it, too
            return
        if self in _panels:
            _panels.remove(self)
        self._unpoll()
        self._live.close()
        here = session.is_open() and session.current() is self._session
        self._status_s, self._loaded = 0.0, self._loaded and here
        self._redraw()
        self._last = self._static()
        self._places.end(*self._last)
        if not here:
            self._session.store.close()  # looking has opened it again
        parts.close(self)
        # ``Out`` may hold the panel as long as the kernel lives: not all records with it.
        self._book, self._detail, self._outputs = Book(self._session.journal, self._session.run), (), ("", [])

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> Any:
        """Widgets are asked for all of it by pages that load."""
        if key is None:
            self._late.asked(time.monotonic())
            self._reloaded = True
        return super().get_state(key=key, drop_defaults=drop_defaults)

    def _ipython_display_(self) -> None:
        if comms.kernel() is None:  # a terminal: what is printed there stays, and is never brought up to date
            print(self._static()[1])
            return
        if self._last is not None:
            self._places.leave(*self._last)
            return
        made = super()._repr_mimebundle_()
        self._reloaded = False
        view = dict(made[0] if isinstance(made, tuple) else made or {})
        self._places.show(view, *self._static(), comms.request())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **options: Any) -> Any:
        made = super()._repr_mimebundle_(include=include, exclude=exclude, **options)
        data, metadata = made if isinstance(made, tuple) else (made or {}, {})
        page, told = self._static()
        static: Bundle = {"text/plain": told, "text/html": style() + page}
        return {**data, **static}, metadata

    def __repr__(self) -> str:
        return f"<Panel {self._session.name}>"

    # --- made once

    def _build(self) -> None:
        self._head = parts.text()
        self._controls = Controls(self._actions)
        self._doubts = Doubts(self._actions, self._controls)
        self._steps = Steps(self._actions, self._controls, self._live.wake)
        self._history = History(self._live.wake)
        self._time = parts.text("rnb-wrap", "rnb-hidden")
        self._time.tabbable = True  # not what is in it: that is drawn anew, and would lose the focus
        self._note = parts.text()
        self._openers = [parts.button(name, lambda name=name: self._show(name)) for name in VIEWS]  # type: ignore[misc]  # a lambda's default has no type
        parts.mark(self._openers[0], "rnb-on", True)

    def _children(self) -> list[Any]:
        look = parts.text("rnb-style")
        look.value = style(swap=True)
        return [
            look, self._head, self._controls.box, self._doubts.box, parts.row(self._openers, "rnb-bar", "rnb-views"),
            self._steps.box, self._history.box, self._time, self._note,
        ]  # fmt: skip

    def _show(self, name: str) -> None:
        self._view = name
        for opener in self._openers:
            parts.mark(opener, "rnb-on", opener.description.startswith(name))
        for each, widget in zip(VIEWS, (self._steps.box, self._history.box, self._time), strict=True):
            parts.hide(widget, each != name)
        self._live.wake()

    def _say(self, text: str) -> None:
        self._said = time.monotonic(), self._book.entered
        self._controls.say(text)

    # --- drawn again and again, in the panel's own thread

    def _draw(self) -> None:
        """Never an error: a panel that cannot be drawn says why, and the run goes on."""
        if not session.is_open():  # another task may be opened now; or the kernel ends
            self._closed_s = self._closed_s or time.monotonic()
            if time.monotonic() - self._closed_s >= CLOSED_S:
                self._unpoll()
                self._live.close()
        elif session.current() is not self._session:
            self.freeze()  # the kernel has another task now
        else:
            self._redraw()

    def _redraw(self) -> None:
        try:
            self._update()
            self._broken = False
        except Exception as error:
            if not self._broken:
                self._broken = True
                self._say(f"the panel cannot be drawn: {type(error).__name__}: {error}")

    def _update(self) -> None:
        now = time.time()
        self._read(now)
        hold = self._hold(now)
        doubts = state.doubtful(self._book, self._task.in_doubt)
        head = self._seen(hold, now, len(doubts))
        said_s, entered = self._said
        if entered != self._book.entered and time.monotonic() - said_s >= SAID_S:
            self._say("")
        parts.put(self._head, value=view.head(head, now))
        self._controls.draw(head)
        self._doubts.draw(doubts, self._maker)
        match self._view:
            case "Steps":
                self._draw_steps(hold, now, doubts)
            case "History":
                self._history.offer(sorted({call.tool for call in self._recent()}), sorted(self._book.steps))
                self._history.draw(self._page(self._history.query(), doubts, now))
            case _:
                parts.put(self._time, value=self._picture(now) or "<p>Nothing has happened yet.</p>")
        if self._late.due(time.monotonic()):
            for widget in parts.every(self):
                parts.again(widget)
        parts.put(self._note, value=self._advice(head) if self._reloaded else "")
        self._copy(head, now)

    def _advice(self, head: state.Head) -> str:
        return reshow.note(busy=head.word in state.UNDER_WAY, alone=self._places.alone)

    def _copy(self, head: state.Head, now: float) -> None:
        """Bring the static copies up to date: at once when a run has ended, or else seldom, as they cost more.

        While nothing happens they stay as they are: each change makes the notebook one that has to be saved.
        """
        word, revision = head.word, self._book.revision
        ended = word != self._copied[0] and (word == "paused" or word not in state.UNDER_WAY)
        due = now - self._copied_s >= max(COPY_S, self._copy_s / SHARE)
        if ended or (due and (word in state.UNDER_WAY or (word, revision) != self._copied)):
            begun_s = time.thread_time()
            self._places.update(*self._static())
            self._copied, self._copied_s, self._copy_s = (word, revision), now, time.thread_time() - begun_s

    def _read(self, now: float) -> None:
        if not self._loaded or self._is_behind(now):
            self._holder, begun_s = self._writer(), time.monotonic()  # before it is read: it may end meanwhile
            self._live.events.clear()
            self._book.load()
            self._loaded, self._loaded_s, self._load_s = True, now, time.monotonic() - begun_s
        elif self._book.fold(self._live.events):
            self._status_s = 0.0

    def _is_behind(self, now: float) -> bool:
        """Whether another process may have written what is not known here: nobody writes without the lease."""
        if self._session.lease.held or now - self._loaded_s < max(FOREIGN_S, self._load_s / FOREIGN_SHARE):
            return False
        return self._owner() is not MISSING or self._writer() != self._holder

    def _writer(self) -> object:
        owner = self._session.lease.owner()
        return owner is not MISSING and (owner.epoch, owner.token, self._owner() is not MISSING)

    def _hold(self, now: float) -> state.Hold:
        owner = self._owner()
        if now - self._status_s >= STATUS_S:
            self._status_s = now
            self._status = self._task.status
        mine = owner is not MISSING and owner.run == self._session.run
        wanted, by, pause = self._session.control.wanted, self._session.control.by, None
        if owner is not MISSING and not mine:  # what is wanted of it stands in the store alone
            pause = self._pause(owner.run)
            wanted, by = (pause.want, pause.by) if pause is not None else ("run", "")
        elif wanted != "run":
            pause = self._pause(self._session.run)
        return state.Hold(
            owner=owner,
            mine=mine,
            wanted=wanted,
            waiting=pause is not None and pause.began_at is not None,
            by=by,
            at=pause.where if pause is not None else "",
            status=self._status,
        )

    def _owner(self) -> Owner | Missing:
        owner = self._session.lease.owner()
        if owner is MISSING or not owner.token or self._session.lease.life(owner) == "dead":
            return MISSING
        return owner

    def _pause(self, run: str) -> PauseRecord | None:
        """The pause or stop of that run which has not ended."""
        last = self._session.control.pauses()[-1:]
        return next((each for each in last if each.ended_at is None and each.run == run), None)

    def _seen(self, hold: state.Hold, now: float, doubts: int) -> state.Head:
        of = self._session
        return state.head(self._book, hold, name=of.name, store=of.store.uri, now=now, doubts=doubts)

    def _draw_steps(self, hold: state.Hold, now: float, doubts: list[CallRecord]) -> None:
        records = state.ordered(self._book)
        start, end = self._steps.window(len(records))
        shown = state.around(records[start:end], self._book)
        self._steps.draw([self._row(record, hold, now, doubts) for record in shown])
        opened = self._book.steps.get(self._steps.opened)
        if opened is None:
            self._steps.detail("")
            return
        calls = self._book.calls_of(opened.id)
        seen = (opened, len(calls), self._book.counts[opened.id].copy())
        if seen != self._detail or not self._steps.has_detail():
            self._detail = seen
            row = self._row(opened, hold, now, doubts)
            self._steps.offer(self._older(opened))
            self._steps.detail(
                view.detail(
                    opened,
                    row,
                    calls,
                    self._shown(opened),
                    doubts=frozenset(call.id for call in doubts),
                    drifted=drifted(view.newest(calls)),
                    by=self._maker(opened),
                )
            )

    def _older(self, record: StepRecord) -> list[tuple[str, int]]:
        done = self._session.journal.versions(record.id)
        return [(f"{each.version} ({clock_time(each.started_at)})", each.version) for each in done[-2::-1]]

    def _row(self, record: StepRecord, hold: state.Hold, now: float, doubts: list[CallRecord]) -> state.StepRow:
        return state.step_row(record, self._book, hold, now, sum(call.step == record.id for call in doubts))

    def _shown(self, record: StepRecord) -> list[Any]:
        """The step's output record, read once."""
        if self._outputs[0] != record.output:
            outputs = output.decode(self._session.journal.blob(record.output)) if record.output else []
            self._outputs = (record.output, outputs)
        return self._outputs[1]

    def _page(self, query: state.Query, doubts: list[CallRecord], now: float) -> state.Page:
        page = state.select(self._book.calls, query, {call.id for call in doubts}, now)
        return dataclasses.replace(page, drifted=drifted(page.calls))

    def _recent(self) -> list[CallRecord]:
        return self._book.calls[-20_000:]

    def _picture(self, now: float) -> str:
        book = self._book
        lanes = state.ordered(book)
        return picture(
            book.runs,
            lanes,
            book.spans(),
            book.trails,
            book.pauses,
            calls=len(book.calls),
            live=self._session.run,
            now=now,
        )

    def _maker(self, of: CallRecord | StepRecord) -> str:
        run = next((run for run in self._book.runs if run.id == of.run), None)
        return f"pid {run.pid} on {run.host}" if run is not None else f"run {of.run}"

    # --- without widgets

    def _static(self) -> tuple[str, str]:
        """The last state as HTML and as text."""
        if self._last is not None:
            return self._last
        now = time.time()
        hold = self._hold(now)
        doubts = state.doubtful(self._book, self._task.in_doubt)
        records = state.ordered(self._book)
        rows = [self._row(record, hold, now, doubts) for record in state.around(records[-100:], self._book)]
        page = self._page(state.Query(), doubts, now)
        head = self._seen(hold, now, len(doubts))
        copy = view.static(head, rows, doubts, page, self._picture(now), now, len(records))
        return copy, view.told(head, rows, doubts)


def _publisher() -> Any:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "display_pub", None)


_panels: list[Panel] = []


def panel(of: Session) -> Panel:
    """The session's panel; the one of a session before it ends."""
    for known in _panels[:]:
        if known._session is of:
            return known
        known.freeze()
    _panels.append(Panel(of))
    return _panels[-1]
