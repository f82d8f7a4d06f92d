"""What the panel shows, decided and written without a browser."""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections import deque
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pandas as pd
import pytest
from ipywidgets.widgets import widget as widget_module

from resumable_nb import scope, session
from resumable_nb.errors import UsageError
from resumable_nb.events import Bus, Event
from resumable_nb.model import Attempt, CallRecord, Owner, PauseRecord, RunRecord, StepKey, StepRecord
from resumable_nb.panel import comms, keyparts, reshow, state, text, timeline, view
from resumable_nb.panel.book import Book
from resumable_nb.panel.comms import Request
from resumable_nb.panel.latecomers import Latecomers
from resumable_nb.panel.live import Live
from resumable_nb.panel.state import Hold, Query
from resumable_nb.panel.swap import Places
from resumable_nb.panel.trail import MOST, Trails
from resumable_nb.session import Session
from resumable_nb.task import Task
from resumable_nb.tools import tool
from tests.bench import Bench

DIED = f'text-anchor="middle">{timeline.SIGN}<'
EVIL = "<img src=x onerror=alert(1)>\x1b[31m\u202e\u200b\ud800\x00'\""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Session]:
    scope.reset()
    with session.opened("nightly", tmp_path) as made:
        yield made


def call(n: int = 0, **facts: Any) -> CallRecord:
    known: dict[str, Any] = {
        "id": f"{n:012d}", "step": "pay", "n": n, "tool": "charge", "version": "", "identity": f"i{n}", "k": 0,
        "arguments": {"order": str(n)}, "status": "done", "repeatable": False, "run": "r", "started_at": 100.0 + n,
        "ended_at": 100.5 + n, "preview": str(n * 10),
    }  # fmt: skip
    return CallRecord(**{**known, **facts})


def step(name: str = "pay", **facts: Any) -> StepRecord:
    known: dict[str, Any] = {
        "id": name, "name": name, "version": 1, "status": "done", "key": StepKey(source="s"), "run": "r",
        "why": "first run", "started_at": 100.0, "ended_at": 110.0, "duration_s": 10.0,
    }  # fmt: skip
    return StepRecord(**{**known, **facts})


def owner(run: str = "r", **facts: Any) -> Owner:
    known: dict[str, Any] = {
        "token": "t", "epoch": 1, "pid": 7, "pid_started": "1", "boot_id": "b", "host": "here", "run": run,
        "since": 100.0,
    }  # fmt: skip
    return Owner(**{**known, **facts})


def book(*steps: StepRecord, calls: tuple[CallRecord, ...] = ()) -> Book:
    made = Book(Bench().journal, "r")
    made.steps = {each.id: each for each in steps}
    for each in calls:
        made._put(each)
    return made


def trails(*calls: CallRecord) -> Trails:
    return book(calls=calls).trails


# --- text


def test_what_is_not_seen_is_spelled_out() -> None:
    assert text.plain("a\x1b[31mred\x1b[0m\x1b]8;;http://x\x07b") == "aredb"
    assert text.plain("\u202egnp\u200b.exe\x00\ud800") == "⟨U+202E⟩gnp⟨U+200B⟩.exe⟨U+0000⟩⟨U+D800⟩"
    assert text.plain("one\n\ttwo") == "one\n\ttwo"
    assert text.line(" one \n two ") == "one two"
    assert text.safe("<b>&\"'") == "<bdi>&lt;b&gt;&amp;&quot;&#x27;</bdi>"


def test_long_texts_are_cut_whatever_they_hold() -> None:
    for long in ("x" * 10_000_000, "\x1b[31m" * 2_000_000, "\u200b" * 5_000_000, "\n" * 5_000_000):
        assert len(text.line(long)) <= text.LINE
        assert len(text.plain(long)) <= text.BLOCK


def test_secrets_in_blocks_are_hidden() -> None:
    assert "hunter2" not in text.block("password='hunter2' https://u:hunter2@host")


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (12_345, "12 kB"), (999_600, "1.0 MB"), (5 * 10**15, "5000 TB")],
)
def test_sizes(size_bytes: int, shown: str) -> None:
    assert text.size(size_bytes) == shown


class Tags(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(name for name, _ in attrs)}


def test_nothing_foreign_becomes_a_tag_in_any_view() -> None:
    evil = step(EVIL, error=EVIL, why=EVIL, saved_names=(EVIL,), unsaved={EVIL: EVIL}, text=EVIL, status="failed",
                key=StepKey(source=EVIL, functions={EVIL: EVIL}, inputs={EVIL: EVIL}, files={EVIL: EVIL}),
                previews={EVIL: EVIL})  # fmt: skip
    worse = call(tool=EVIL, step=EVIL, arguments={EVIL: EVIL}, preview=EVIL, error=EVIL, doubt=EVIL, run=EVIL, id=EVIL)
    held = book(evil, calls=(worse,))
    hold = Hold(owner(host=EVIL), mine=False, by=EVIL, at=EVIL, waiting=True)
    head = state.head(held, hold, name=EVIL, store=EVIL, now=200.0, doubts=1)
    row = state.step_row(evil, held, hold, 200.0, 1)
    query = Query(text=EVIL, tool=EVIL, step=EVIL, status="done")
    page = state.select(held.calls, Query(), set(), 200.0)
    outputs = [{"name": "stdout", "text": EVIL}, {"data": {"text/plain": EVIL, "text/html": EVIL, EVIL: EVIL}}]
    runs = [RunRecord(id="r", pid=1, host=EVIL, started_at=99.0)]
    parts = [
        view.head(head, 200.0), view.step(row), view.history(page), view.doubt(worse, EVIL), view.message(EVIL),
        view.detail(evil, row, [worse], outputs, doubts=frozenset(), drifted=frozenset({worse.id}), by=EVIL),
        view.pandas(dataclasses.replace(page, query=query)),
        view.static(head, [row], [worse], page, "", 200.0),
        timeline.picture(runs, [evil], [evil], trails(worse), [], calls=1, live="r", now=200.0),
    ]  # fmt: skip
    for part in parts:
        tags = Tags()
        tags.feed(part)
        assert not tags.found & {"img", "script", "a", "onerror", "onload", "src", "href"}
        assert not re.search("[\x00\x1b\u202e\u200b\ud800]", part), part


# --- state


@pytest.mark.parametrize(
    ("record", "hold", "word"),
    [
        (step(status="running"), Hold(owner(), mine=True), "running"),
        (step(status="running"), Hold(owner(), mine=True, wanted="pause"), "running"),
        (step(status="running"), Hold(owner(), mine=True, wanted="pause", waiting=True), "paused"),
        (step(status="running"), Hold(owner(), mine=True, wanted="stop"), "stopping"),
        (step(status="running"), Hold(owner("another"), mine=False), "cut off"),
        (step(status="running"), Hold(state.MISSING, mine=False), "cut off"),
        (step(status="failed"), Hold(owner(), mine=True), "failed"),
        (step(status="stopped"), Hold(owner(), mine=True), "stopped"),
        (step(), Hold(owner(), mine=True), "done"),
    ],
)
def test_a_step_s_state_in_a_word_and_a_shape(record: StepRecord, hold: Hold, word: str) -> None:
    assert state.step_word(record, book(record), hold, 0) == word
    assert state.SHAPES[word]


def test_a_skipped_step_is_restored_and_a_failed_one_with_doubts_is_in_doubt() -> None:
    made = book(step(), step("pay/inner"), step("b", status="failed"), calls=(call(1), call(2, step="pay/inner")))
    made.skipped["pay"] = 10.0
    hold = Hold(owner(), mine=True)
    for name, why in (("pay", "nothing that it depends on has changed"), ("pay/inner", "with the step around it")):
        row = state.step_row(made.steps[name], made, hold, 0.0, 0)
        assert row.word == "restored"
        assert why in row.why
    assert state.head(made, hold, name="n", store="s", now=0.0, doubts=1).not_repeated == 2
    assert state.step_word(made.steps["b"], made, hold, 1) == "in doubt"
    for status, word in (("failed", "in doubt"), ("idle", "in doubt"), ("dead", "dead"), ("paused", "paused")):
        held = dataclasses.replace(hold, status=status)
        head = state.head(made, held, name="n", store="s", now=0.0, doubts=1)
        assert head.word == word
        assert ("Say so below, then run its cell again" in view.head(head, 0.0)) == (word == "in doubt")
        assert state.head(made, held, name="n", store="s", now=0.0, doubts=0).word == status
    made.skipped |= {"pay/inner": 3.0, "a/inner": 4.0}
    assert state.head(made, hold, name="n", store="s", now=0.0, doubts=1).saved_s == 14.0, "what is inside once"


def test_progress_counts_finished_steps_and_the_running_loop() -> None:
    made = book(step("a"), step("b", status="running", started_at=200.0, ended_at=None), step("b/inner"))
    for done in (0, 10):
        facts = {
            "loop": "l#1",
            "label": "l",
            "done": done,
            "total": 40,
            "resumed_at": 0,
            "elapsed_s": 5.0,
            "ended": False,
        }
        made.fold(deque([Event(kind="track.turn", step="b", facts=facts)]))
    head = state.head(made, Hold(owner(), mine=True), name="n", store="s", now=205.0, doubts=0)
    assert (head.done, head.total, head.fraction) == (1, 2, (1 + 0.25) / 2)
    assert head.left_s == 15.0
    assert head.elapsed_s == 10.0 + 5.0


def test_pauses_are_no_work() -> None:
    record = step(status="running", started_at=100.0, ended_at=None, duration_s=0.0)
    made = book(record)
    facts: dict[str, Any] = {"id": "p", "run": "r", "want": "pause", "by": "", "asked_at": 1.0}
    made.pauses = [
        PauseRecord(**facts, began_at=90.0, ended_at=110.0), PauseRecord(**facts, began_at=120.0, ended_at=125.0),
        PauseRecord(**facts, began_at=50.0, ended_at=60.0), PauseRecord(**facts), PauseRecord(**facts, began_at=190.0),
        PauseRecord(**{**facts, "run": "another"}, began_at=120.0, ended_at=125.0),
        PauseRecord(**{**facts, "want": "stop"}, began_at=120.0, ended_at=125.0),
    ]  # fmt: skip
    hold = Hold(owner(), mine=True, wanted="pause", waiting=True)
    assert state.step_row(record, made, hold, 200.0, 0).now_s == 100.0 - 10.0 - 5.0 - 10.0


def test_a_loop_does_not_end_before_those_inside_it() -> None:
    made = book(*(step(name, status="running", ended_at=None, duration_s=0.0) for name in ("a", "a/b")))
    facts: dict[str, Any] = {"resumed_at": 0, "ended": False}
    for name, loop, done, total, elapsed_s in (
        ("a", "l#1", 1, 3, 1.0), ("a", "k#1", 1, 2, 5.0), ("a/b", "m#1", 1, 4, 9.0), ("a/b", "n#1", 0, None, 1.0)
    ):  # fmt: skip
        turn = {**facts, "loop": loop, "label": loop, "done": done, "total": total, "elapsed_s": elapsed_s}
        made.fold(deque([Event(kind="track.turn", step=name, facts=turn)]))
    hold = Hold(owner(), mine=True)
    rows = [state.step_row(made.steps[name], made, hold, 105.0, 0) for name in ("a", "a/b")]
    assert [[each.left_s for each in row.loops] for row in rows] == [[27.0, 27.0], [27.0, None]]
    assert state.head(made, hold, name="n", store="s", now=105.0, doubts=0).left_s == 27.0


def test_time_before_a_step_went_on_counts() -> None:
    gone = step(duration_s=35.0, earlier_s=25.0, started_at=300.0)
    going = step("b", status="running", started_at=390.0, ended_at=None, duration_s=0.0, earlier_s=5.0)
    made = book(gone, going)
    made._last["b", 1] = 25.0
    hold = Hold(owner(), mine=True)
    row = state.step_row(gone, made, hold, 400.0, 0)
    assert (row.earlier_s, row.now_s) == (25.0, 35.0)
    assert state.step_row(going, made, hold, 400.0, 0).now_s == 15.0
    seen = state.head(made, hold, name="n", store="s", now=400.0, doubts=0)
    assert (seen.elapsed_s, seen.left_s) == (35.0 + 15.0, 10.0)
    assert "Before it went on <b>25.0 s</b>" in view.detail(
        gone, row, [], [], doubts=frozenset(), drifted=frozenset(), by=""
    )


def test_what_is_left_counts_steps_that_wait_to_run_again_and_names_no_moment_in_a_pause() -> None:
    running = step("b", status="running", started_at=200.0, ended_at=None, version=2)
    made = book(step("a"), running)
    made.again = {"a"}
    made._last["b", 2] = 30.0
    hold = Hold(owner(), mine=True)
    head = state.head(made, hold, name="n", store="s", now=210.0, doubts=0)
    assert head.left_s == 20.0 + 10.0
    assert "Left <b>30.0 s, at " in view.head(head, 210.0)
    head = dataclasses.replace(head, hold=dataclasses.replace(hold, waiting=True))
    assert "Left <b>30.0 s</b>" in view.head(head, 210.0)


def test_the_owner_s_heartbeat_is_told_of_this_kernel_and_of_another_one() -> None:
    made = book(step())
    for mine, who in ((True, "in this kernel (pid 7)"), (False, "in pid 7 on <bdi>here</bdi>")):
        hold = Hold(owner(beat_at=97.0), mine=mine)
        shown = view.head(state.head(made, hold, name="n", store="s", now=100.0, doubts=0), 100.0)
        assert who in shown
        assert "heartbeat 3 s ago" in shown


def test_the_steps_around_the_first_one_shown_stay_in_sight() -> None:
    made = book(step("all"), *(step(f"all/{n}", started_at=200.0 + n) for n in range(30)))
    ordered = state.ordered(made)
    assert [each.id for each in state.around(ordered[-2:], made)] == ["all", "all/28", "all/29"]
    assert state.around(ordered[:3], made) == ordered[:3]
    assert state.around([], made) == []


def test_what_a_step_depends_on_is_told_in_words() -> None:
    key = StepKey(
        source="abcdefabcdefabcdef", functions={"clean": "f" * 20}, files={"in.csv": "e" * 20},
        inputs={
            "sales": "1" * 20, "import np": "2" * 20, "environment HOME": "3" * 20, "settings of pandas": "4" * 20,
            "assigned total": "5" * 20, "random state of Python": "unseeded",
            "sharing of sales": "alone", "sharing of a": "b=is c=many =1234",
        },
    )  # fmt: skip
    found = {(kind, name): (value, mark) for kind, name, value, mark in keyparts.rows(
        step(key=key, previews={"sales": "DataFrame 10 × 2", "import np": "module numpy"}))}  # fmt: skip
    assert found == {
        ("code", ""): ("of the step itself", "abcdefabcdef"),
        ("function", "clean"): ("", "f" * 12),
        ("input", "sales"): ("DataFrame 10 × 2", "1" * 12),
        ("import", "np"): ("module numpy", "2" * 12),
        ("environment", "HOME"): ("", "3" * 12),
        ("settings of", "pandas"): ("", "4" * 12),
        ("random state of Python", ""): ("", "unseeded"),
        ("input", "total"): ("what it held before, as the step need not set it anew", "5" * 12),
        ("objects in", "sales"): ("shared with no other variable", ""),
        ("objects in", "a"): ("is one object with b; shared with c; some are in it more than once", ""),
        ("file", "in.csv"): ("", "e" * 12),
    }
    many = step(key=StepKey(source="s", functions={f"f{n}": "m" for n in range(60)}))
    assert [*keyparts.rows(many)][-1] == ("function", "", "and 10 more", "")


def test_steps_come_as_they_began_each_behind_the_one_around_it() -> None:
    made = book(
        step("b", started_at=2.0), step("a", started_at=1.0), step("a/z", started_at=1.5), step("b/y", started_at=3)
    )
    assert [record.id for record in state.ordered(made)] == ["a", "a/z", "b", "b/y"]


CALLS = [
    call(0), call(1, status="failed", error="Boom"), call(2, tool="ship", step="send"),
    call(3, status="intent", ended_at=None),
    call(4, step="pay/inner", ended_at=200.0),
    call(5, arguments={"name": "STRASSE"}, attempts=(Attempt(started_at=1.0),) * 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(), [5, 4, 3, 2, 1, 0]),
        (Query(order="oldest"), [0, 1, 2, 3, 4, 5]),
        (Query(order="slowest"), [4, 0, 1, 2, 5, 3]),
        (Query(order="tool"), [0, 1, 3, 4, 5, 2]),
        (Query(order="fastest"), [0, 1, 2, 5, 4, 3]),
        (Query(order="step"), [0, 1, 3, 5, 4, 2]),
        (Query(order="status"), [0, 2, 4, 5, 1, 3]),
        (Query(order="tries"), [5, 0, 1, 2, 3, 4]),
        (Query(tool="ship"), [2]),
        (Query(step="pay"), [5, 4, 3, 1, 0]),
        (Query(status="failed"), [1]),
        (Query(status="in doubt"), [3]),
        (Query(text="boom"), [1]),
        (Query(text="straße"), [5]),
        (Query(text="order=2"), [2]),
        (Query(since_s=2.5), [5, 4, 3]),
        (Query(tool="none"), []),
    ],
)
def test_history_is_filtered_and_sorted(query: Query, expected: list[int]) -> None:
    page = state.select(CALLS, query, {CALLS[3].id}, 105.0)
    assert [record.n for record in page.calls] == expected
    assert page.total == len(expected)


def test_pages_hold_all_calls_once_in_order() -> None:
    calls = [call(n) for n in range(95)]
    seen = [each.n for number in range(5) for each in state.select(calls, Query(page=number), (), 0.0).calls]
    assert seen == list(range(94, -1, -1))
    last = state.select(calls, Query(page=99), (), 0.0)
    assert (last.number, last.pages, len(last.calls)) == (4, 5, 15)


def test_the_pandas_code_asks_the_same_question(opened: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    def charge(order: int) -> int:
        if order == 2:
            raise ValueError("no")
        return order * 10

    @tool
    def ship(order: int) -> str:
        return f"parcel '{order}'"

    for n in range(4):
        ship(n)
        if n == 2:
            with pytest.raises(ValueError, match="no"):
                charge(n)
        else:
            charge(n)
    calls = opened.journal.calls()
    for query in (
        Query(), Query(tool="charge"), Query(status="failed"), Query(text="parcel '3'"), Query(text="ORDER=1"),
        Query(order="oldest"),
        Query(order="slowest", tool="ship"), Query(order="tool"), Query(order="fastest"), Query(order="step"),
        Query(order="status"), Query(order="tries"), Query(since_s=3600.0), Query(step="none"),
    ):  # fmt: skip
        code = state.code(query).splitlines()
        variables: dict[str, Any] = {}
        exec("\n".join([*code[:-1], f"result = {code[-1]}"]), variables)
        ours = state.select(sorted(calls, key=lambda record: record.started_at), query, (), time.time())
        found = variables["result"]
        assert isinstance(found, pd.DataFrame)
        assert set(found.index) == {record.id for record in ours.calls}, query
        assert list(found.index) == [record.id for record in ours.calls], query


# --- the book


def test_the_book_follows_the_events_of_a_run(opened: Session) -> None:
    events: deque[Event] = deque()
    opened.bus.listen(events.append)
    held = Book(opened.journal, opened.run)
    held.load()

    @tool
    def charge(order: int) -> int:
        if order == 3:
            raise ValueError("no")
        return order

    for n in range(3):
        charge(n)
    with pytest.raises(ValueError, match="no"):
        charge(3)
    scope.reset()
    charge(0)
    held.fold(events)
    fresh = Book(opened.journal, opened.run)
    fresh.load()
    assert [msgspec.json.encode(each) for each in held.calls] == [msgspec.json.encode(each) for each in fresh.calls]
    assert held.total("done") == fresh.total("done") == 3
    assert held.total("failed") == 1
    assert held.trails.keys() == fresh.trails.keys()
    assert [sorted(each.moments) for each in held.trails.values()] == [
        sorted(each.moments) for each in fresh.trails.values()
    ]
    assert held.not_repeated() == 1
    scope.reset()
    charge(0)
    held.fold(events)
    assert held.not_repeated() == 1, "one effect, however often it was asked for"
    held.skipped["pay"] = 1.0
    assert held.not_repeated() == 1
    late = Book(opened.journal, opened.run, replayed=opened.replayed.copy())
    late.load()
    assert late.not_repeated() == 1
    assert not held.open
    opened.forget()
    held.fold(events)
    assert held.calls == []


# --- the timeline


def test_the_timeline_shows_runs_steps_calls_pauses_and_deaths() -> None:
    runs = [
        RunRecord(id="r", pid=1, host="h", started_at=100.0),
        RunRecord(id="q", pid=2, host="h", started_at=90_000.0),
    ]
    steps = [step(), step("ship", run="q", started_at=90_001.0, ended_at=None, status="running")]
    calls = [call(1), call(2, status="failed"), call(3, attempts=(Attempt(started_at=1.0), Attempt(started_at=2.0)))]
    pauses = [PauseRecord(id="p", run="q", want="pause", by="x", asked_at=1.0, began_at=90_002.0, ended_at=90_003.0)]
    drawn = timeline.picture(runs, steps, steps, trails(*calls), pauses, calls=3, live="q", now=90_010.0)
    assert "2 steps, 3 tool calls, 2 runs, 1 died" in drawn
    assert drawn.count('class="rnb-span"') == 2
    assert drawn.count('class="rnb-pause"') == 1
    assert DIED in drawn
    assert {">×<", ">△<"} <= {mark for mark in (">×<", ">△<", ">?<") if mark in drawn}
    places = [float(each) for each in re.findall(r' x[12]?="([-\d.]+)%"', drawn)]
    assert len(places) > 10
    assert all(0 <= place <= 100 for place in places)
    widths = re.findall(r'x="([\d.]+)%" y="\d+" width="([\d.]+)%"', drawn)
    assert all(float(x) + float(width) <= 100 for x, width in widths)


def test_the_timeline_fits_any_width_and_its_moments_do_not_overlap() -> None:
    runs = [RunRecord(id=f"r{n}", pid=n, host="h", started_at=100.0 + 90_000 * n) for n in range(12)]
    spans = [step(f"s{n}", run=f"r{n}", started_at=101.0 + 90_000 * n, ended_at=900.0 + 90_000 * n) for n in range(12)]
    drawn = timeline.picture(runs, spans, spans, trails(), [], calls=0, live="r11", now=990_950.0)
    assert re.search(r'<svg class="rnb-time"[^>]* width="100%" height="\d+"', drawn)
    assert "viewBox" not in drawn.partition("<defs>")[0], "texts keep their size"
    assert "the newest 8 of 12 kernels" in drawn
    began = re.findall(r'<text x="([\d.]+)%" y="14">([^<]*)</text>', drawn)
    room_px = 350
    ends_px = [(float(x) * room_px / 100, float(x) * room_px / 100 + 6.5 * len(told)) for x, told in began]
    assert 2 <= len(ends_px) < 8
    assert all(end <= start for (_, end), (start, _) in pairwise(sorted(ends_px)))
    assert max(end for _, end in ends_px) <= room_px


def test_the_timeline_shows_every_time_that_a_step_was_at_work() -> None:
    runs = [
        RunRecord(id=each, pid=1, host="h", started_at=at) for each, at in (("a", 100.0), ("b", 200.0), ("c", 300.0))
    ]
    now = step(version=2, run="c", started_at=301.0, ended_at=305.0)
    spans = [step(run="a", started_at=101.0, ended_at=104.0), now]
    calls = [
        call(1, run="a", started_at=102.0), call(2, run="b", started_at=201.0, ended_at=202.0),
        call(3, run="b", step="pay/inner", started_at=203.0, ended_at=204.0),
    ]  # fmt: skip
    drawn = timeline.picture(runs, [now], spans, trails(*calls), [], calls=3, live="c", now=310.0)
    assert drawn.count('class="rnb-span"') == 3, "an earlier version, what was cut off and left only calls, the newest"
    assert drawn.count(DIED) == 2
    bars = [float(each) for each in re.findall(r'class="rnb-span" x="([\d.]+)%"', drawn)]
    assert len({round(each) for each in bars}) == 3


def test_a_picture_of_very_many_calls_is_of_few_moments_and_of_all_that_is_odd() -> None:
    calls = [call(n, started_at=100.0 + n / 100, ended_at=100.0 + n / 100) for n in range(10_000)]
    held = book(
        calls=(*calls, call(5, status="failed", started_at=100.05), call(6, run="q", doubt="?", status="intent"))
    )
    trail, other = held.trails["pay", "r"], held.trails["pay", "q"]
    moments = sorted(trail.moments)
    assert 500 < len(moments) <= MOST
    assert (trail.first_s, trail.last_s) == (100.0, 199.99)
    assert moments[0] == pytest.approx(100.0, abs=0.1)
    assert max(late - early for early, late in pairwise(moments)) < 0.3, "no gap"
    assert list(trail.odd.values()) == [(100.05, "×")]
    assert list(other.odd.values()) == [(106.0, "?")]
    held._put(call(6, run="t"))
    assert not other.odd, "another run has called it again"


def test_the_book_keeps_versions_and_follows_a_rollback(opened: Session) -> None:
    events: deque[Event] = deque()
    opened.bus.listen(events.append)
    held = Book(opened.journal, opened.run)
    held.load()

    @tool
    def refund(order: int) -> None: ...

    @tool(compensate=refund)
    def charge(order: int) -> int:
        return order

    charge(1)
    for version in (1, 2, 3):
        opened.journal.commit_step(step(version=version))
        opened.bus.emit("step.committed", "pay")
    held.fold(events)
    assert [each.version for each in held.spans()] == [3], "folded together, the others were not seen"
    opened.journal.begin_step(step(version=4, status="running"))
    opened.bus.emit("step.begun", "pay")
    held.fold(events)
    assert [each.version for each in held.spans()] == [3, 4]
    Task(opened).compensate()
    held.fold(events)
    assert [state.status_of(each, ()) for each in held.calls] == ["compensated", "done"]
    undone = step(status="compensated")
    row = state.step_row(undone, book(undone), Hold(owner(), mine=True), 0.0, 0)
    assert (row.word, row.why) == ("compensated", "its calls were undone")
    page = state.select(held.calls, Query(status="compensated"), (), time.time())
    assert [each.tool for each in page.calls] == ["charge"]
    assert "↶" in view.history(page)


def test_code_that_changed_since_a_call_is_told(opened: Session) -> None:
    @tool
    def charge(order: int) -> int:
        return order

    charge(1)
    panel = Task(opened).panel()
    page = panel._page(Query(), [], time.time())
    assert (page.drifted, "other code" in view.history(page)) == (frozenset(), False)

    @tool(name="charge")
    def charge_again(order: int) -> int:
        return order + 0

    page = panel._page(Query(), [], time.time())
    assert page.drifted == {page.calls[0].id}
    assert "recorded with other code of the tool" in view.history(page)
    panel.freeze()


def test_an_empty_task_has_no_timeline() -> None:
    assert timeline.picture([], [], [], {}, [], calls=0, live="r", now=1.0) == ""


def test_a_step_to_run_again_stays_in_the_list_and_says_so(opened: Session) -> None:
    events: deque[Event] = deque()
    opened.bus.listen(events.append)
    opened.journal.commit_step(step())
    held, fresh = Book(opened.journal, opened.run), Book(opened.journal, opened.run)
    held.load()
    Task(opened).rerun("pay")
    held.fold(events)
    fresh.load()
    hold = Hold(owner(opened.run), mine=True)
    for each in (held, fresh):
        row = state.step_row(each.steps["pay"], each, hold, 200.0, 0)
        assert (row.word, row.why, row.now_s, row.last_s) == ("pending", state.AGAIN, None, 10.0)
        seen = state.head(each, hold, name="nightly", store="", now=200.0, doubts=0)
        assert (seen.done, seen.total, seen.fraction) == (0, 1, 0.0)
    opened.journal.begin_step(step(status="running", run=opened.run))
    opened.bus.emit("step.begun", "pay")
    held.fold(events)
    assert state.step_row(held.steps["pay"], held, hold, 200.0, 0).word == "running"


def test_a_step_that_a_dead_kernel_left_is_not_running_in_the_next_one(opened: Session) -> None:
    opened.own()
    for run, status, word in (("dead", "idle", "cut off"), (opened.run, "running", "running")):
        opened.journal.begin_step(step(status="running", run=run, ended_at=None, duration_s=0.0))
        panel = Task(opened).panel()
        panel._live.close()
        assert Task(opened).status == status
        now = time.time()
        hold = panel._hold(now)
        head = panel._seen(hold, now, 0)
        assert head.word == status
        assert (head.elapsed_s > 0) == (word == "running")
        assert panel._row(panel._book.steps["pay"], hold, now, []).word == word
        panel.freeze()


def test_the_store_is_read_again_only_when_another_process_may_have_written(
    opened: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = Task(opened).panel()
    panel._live.close()
    lives = {"x": "alive"}
    monkeypatch.setattr(opened.lease, "life", lambda holder: lives[holder.run])
    reads: list[str] = []
    load = panel._book.load
    monkeypatch.setattr(type(panel._book), "load", lambda book: (reads.append("read"), load())[1])

    def reads_in(seconds: int) -> int:
        reads.clear()
        start = panel._loaded_s
        for second in range(seconds):
            panel._read(start + second)
        return len(reads)

    assert reads_in(60) == 0, "nobody works on it"
    monkeypatch.setattr(opened.lease, "owner", lambda: owner("x"))
    assert reads_in(60) > 5
    lives["x"] = "dead"
    assert reads_in(60) == 1, "what it did last, and then nothing"
    monkeypatch.setattr(opened.lease, "owner", lambda: owner("x", token="", epoch=2))
    assert reads_in(60) == 1, "somebody was there in between"
    panel._load_s = 1.0
    lives["x"] = "alive"
    monkeypatch.setattr(opened.lease, "owner", lambda: owner("x"))
    assert not panel._is_behind(panel._loaded_s + 15), "a long read comes seldom"
    assert panel._is_behind(panel._loaded_s + 25)


def test_a_pause_of_another_kernel_is_seen_and_can_be_ended_here(
    opened: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.journal.begin_step(step(status="running", run="x", ended_at=None))
    pauses = [PauseRecord(id="p", run="x", want="pause", by="somebody", asked_at=1.0, began_at=2.0, where="orders")]
    monkeypatch.setattr(opened.lease, "owner", lambda: owner("x"))
    monkeypatch.setattr(opened.lease, "life", lambda _: "alive")
    monkeypatch.setattr(opened.control, "pauses", lambda: pauses)
    panel = Task(opened).panel()
    panel._live.close()
    controls = panel._controls
    assert "paused" in panel._head.value
    assert "waits before <bdi>orders" in panel._head.value
    assert (controls.pause.disabled, controls.resume.disabled, controls.stop.disabled) == (True, False, False)
    pauses[:] = [msgspec.structs.replace(pauses[0], ended_at=3.0)]
    panel._status_s = 0.0
    panel._update()
    assert "running" in panel._head.value
    assert (controls.pause.disabled, controls.resume.disabled, controls.stop.disabled) == (False, True, False)
    panel.freeze()


# --- when it is drawn


def test_replies_go_the_way_of_requests_in_kernels_that_send_them_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = SimpleNamespace(_shell_socket="socket"), SimpleNamespace(_shell_stream="stream")
    stream = SimpleNamespace(send_multipart=print)
    for manager in (old, new, None):
        thread = manager and SimpleNamespace(manager=manager)
        found = SimpleNamespace(shell_channel_thread=thread, shell_stream=stream)
        monkeypatch.setattr(comms, "kernel", lambda found=found: found)
        comms.stay_awake()
    assert old._shell_socket is stream
    assert vars(new) == {"_shell_stream": "stream"}


def test_events_are_drawn_together_and_the_thread_ends() -> None:
    bus, drawn, enough = Bus(), [], threading.Event()

    def draw() -> None:
        drawn.append(len(live.events))
        live.events.clear()
        if sum(drawn) == 1000:
            enough.set()

    live = Live(bus, draw)
    live.start()
    for _ in range(1000):
        bus.emit("call.replayed", id="c")
        bus.emit("store.transaction")
    assert enough.wait(30)
    live.close()
    assert len(drawn) < 500, "many events, one drawing"
    bus.emit("call.replayed", id="c")
    assert not live.events
    assert not live._thread.is_alive()


def test_what_came_last_is_drawn_soon_when_the_run_has_ended_however_long_drawing_takes() -> None:
    bus, drawn, last = Bus(), [], threading.Event()

    def draw() -> None:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        drawn.append(len(live.events))
        live.events.clear()
        if len(drawn) == 2:
            last.set()

    live = Live(bus, draw)
    live.start()
    for _ in range(100):
        if drawn:
            break
        live._ending.wait(0.1)
    bus.emit("call.replayed", id="c")
    assert last.wait(30), "a share of half a percent would take ten seconds"
    assert drawn[1] == 1
    live.close()


def test_a_page_that_loads_is_told_again_until_it_surely_listens() -> None:
    late = Latecomers()
    assert not late.due(100.0), "nobody has asked"
    late.asked(100.0)
    times = [100.0 + tenth / 10 for tenth in range(600)]
    assert [at for at in times if late.due(at)] == pytest.approx([100.5, 102.0, 105.0, 115.0, 145.0])
    late.asked(200.0)
    assert [late.due(at) for at in (200.4, 203.0, 203.1, 203.2)] == [False, True, True, False]
    late.asked(203.3)
    assert [late.due(at) for at in (203.5, 203.9)] == [False, True], "another page asked"


def test_a_page_s_question_for_all_of_it_is_noticed(opened: Session) -> None:
    panel = Task(opened).panel()
    assert not panel._late.due(time.monotonic() + 1), "not when it is made"
    panel.get_state("children")
    assert not panel._late.due(time.monotonic() + 1)
    panel.get_state()
    assert panel._late.due(time.monotonic() + 1)
    panel.freeze()


def test_a_click_is_drawn_at_once_however_long_the_last_drawing_took() -> None:
    drawn: list[int] = []
    often = threading.Event()

    def draw() -> None:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        drawn.append(1)
        live.wake()
        if len(drawn) == 10:
            often.set()

    live = Live(Bus(), draw)
    live.start()
    assert often.wait(60), "a share of half a percent would take ten seconds each"
    live.close()


def test_a_panel_needs_widgets_and_says_so(opened: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install ipywidgets"):
        Task(opened).panel()


def test_in_a_terminal_a_panel_is_its_text_once(opened: Session, capsys: pytest.CaptureFixture[str]) -> None:
    opened.journal.commit_step(step(), step("a longer name"))
    panel = Task(opened).panel()
    panel._ipython_display_()
    panel._places.update("<p>", "again")
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "task nightly: idle, 2 of 2 steps done, 0 tool calls"
    assert shown[1:] == [
        "  a longer name  done         10.0 s  first run",
        "  pay            done         10.0 s  first run",
    ]
    panel.freeze()


def test_a_log_has_the_panel_s_text_once() -> None:
    shown: list[tuple[dict[str, Any], bool]] = []
    publisher = SimpleNamespace(publish=lambda data, update=False, **_: shown.append((data, update)))
    places = Places(publisher, {})
    places.show({"application/vnd.jupyter.widget-view+json": {}, "text/plain": "t"}, "<p>", "t", Request())
    assert [data["text/plain"] for data, _ in shown] == ["", "t"]


@pytest.mark.parametrize(
    ("code", "alone"),
    [
        ("%resumable", True), (" %resumable panel ", True), ("%resumable task nightly --store x", True), ("", True),
        ("from resumable_nb import task, tool\n# the panel\ntask().panel()", True),
        ("%load_ext resumable_nb\n%resumable", True),
        ("task().panel(); pay()", False), ("%resumable\npay()", False), ("%resumable rerun pay", False),
        ("from resumable_nb import task; pay()", False), ("%%resumable pay\ntask().panel()", False),
    ],
)  # fmt: skip
def test_a_cell_is_run_again_at_a_click_only_where_it_shows_the_panel_and_does_no_more(code: str, alone: bool) -> None:
    places = Places(SimpleNamespace(publish=lambda *_, **__: None), {})
    places.show({}, "", "", Request(code))
    assert places.alone == alone
    assert ("notebook:run-cell" in reshow.note(busy=False, alone=places.alone)) == alone
    assert "notebook:run-cell" not in reshow.note(busy=True, alone=alone)
    assert not Places(None, {"__vsc_ipynb_file__": "n.ipynb"}).alone


def test_a_cell_that_runs_again_has_one_panel() -> None:
    shown: list[str] = []
    publish = lambda _data, transient, **_: shown.append(transient["display_id"])  # noqa: E731
    places = Places(SimpleNamespace(publish=publish), {})
    for cell, message in (("a", "1"), ("a", "1"), ("b", "2"), ("a", "3"), ("", "4"), ("", "5")):
        places.show({}, "", "", Request("%resumable", cell, message))
    copies = shown[1::2]
    shown.clear()
    places.update("", "")
    assert shown == copies[2:], "both of the first execution are gone"


def test_a_copy_changes_with_the_task_and_not_with_the_clock(opened: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a notebook that was just saved would have to be saved again, for ever."""
    panel = Task(opened).panel()
    panel._live.close()
    copied: list[str] = []
    monkeypatch.setattr(panel._places, "update", lambda _html, text: copied.append(text))

    def drawn() -> int:
        copied.clear()
        panel._copied_s, panel._copy_s = 0.0, 0.0
        panel._update()
        return len(copied)

    drawn()
    assert [drawn(), drawn()] == [0, 0]
    panel._live.events.append(Event(kind="call.replayed", facts={"id": "c"}))
    assert [drawn(), drawn()] == [1, 0]
    panel.freeze()


def test_a_panel_that_comes_late_knows_what_was_skipped_before(opened: Session) -> None:
    opened.runner.skipped["pay"] = 12.0
    opened.journal.commit_step(step())
    panel = Task(opened).panel()
    now = time.time()
    hold = panel._hold(now)
    assert panel._row(panel._book.steps["pay"], hold, now, []).word == "restored"
    panel.freeze()


def test_what_came_of_a_click_goes_when_steps_have_been_entered_since(opened: Session) -> None:
    panel = Task(opened).panel()
    panel._live.close()
    panel._say("pay runs again")

    def said(*events: str, later: bool = False) -> str:
        panel._said = panel._said[0] - 11 * later, panel._said[1]
        panel._live.events.extend(Event(kind=kind, step="pay", facts={"saved_s": 1.0}) for kind in events)
        panel._update()
        return str(panel._controls._said.value)

    assert "pay runs again" in said("step.forgotten", later=True), "nothing has run since"
    panel._say("pay runs again")
    assert "pay runs again" in said("step.skipped"), "people read it first"
    assert said(later=True) == ""
    panel.freeze()


def test_an_older_version_can_be_chosen_and_the_next_step_begins_with_the_newest(opened: Session) -> None:
    for version in (1, 2, 3):
        opened.journal.commit_step(step(version=version))
    opened.journal.commit_step(step("b", started_at=120.0))
    panel = Task(opened).panel()
    panel._live.close()
    asked: list[tuple[str, int | None]] = []
    panel._actions.restore = lambda step, version: asked.append((step, version))
    steps = panel._steps
    steps._open(0)
    panel._draw()
    assert [value for _, value in steps._version.options] == [None, 2, 1]
    steps._version.value = 1
    panel._draw()
    steps._restore()
    assert "after version 1 of pay" in panel._controls._question.value
    panel._controls._answer()
    steps._open(1)
    panel._draw()
    assert "rnb-hidden" in steps._version._dom_classes, "there is no older one"
    steps._restore()
    panel._controls._answer()
    assert asked == [("pay", 1), ("b", None)]
    panel.freeze()


def test_a_panel_ends_with_its_task_and_its_copy_has_the_last_state(tmp_path: Path) -> None:
    opened = session.open_session("nightly", tmp_path)
    panel = Task(opened).panel()
    shown: list[dict[str, Any]] = []
    done = threading.Event()

    def publish(data: dict[str, Any], **_: Any) -> None:
        shown.append(data)
        if "closed" in data["text/plain"]:
            done.set()

    panel._places._publisher = SimpleNamespace(publish=publish)
    panel._ipython_display_ = lambda: panel._places.show({}, *panel._static(), Request())
    panel._ipython_display_()
    opened.own()
    opened.journal.commit_step(step())
    opened.bus.emit("step.committed", "pay")
    session.close()
    panel._draw()  # as its own thread may do just between two tasks
    with session.opened("another", tmp_path):
        assert done.wait(30), "nobody need look at the other task's panel for that"
        panel.freeze()
    assert shown[-1]["text/plain"].splitlines()[0] == "task nightly: closed, 1 of 1 step done, 0 tool calls"
    assert "no kernel works on it" in shown[-1]["text/html"]


def test_an_empty_task_says_how_a_step_is_made(opened: Session) -> None:
    panel = Task(opened).panel()
    assert "No step has run yet" in panel._steps._none.value
    opened.journal.commit_step(step())
    panel._book.load()
    panel._update()
    assert panel._steps._none.value == ""
    panel.freeze()


def test_one_session_has_one_panel_and_it_ends_with_the_session(tmp_path: Path) -> None:
    with session.opened("nightly", tmp_path) as made:
        panel = Task(made).panel()
        assert Task(made).panel() is panel
        data, _ = panel._repr_mimebundle_()
        assert data["text/plain"].startswith("task nightly")
        assert "rnb-static" in data["text/html"]
        assert repr(panel) == "<Panel nightly>"
        panel.freeze()


def test_a_panel_that_has_ended_keeps_its_last_state_and_no_records_nor_widgets(
    opened: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    """``Out`` holds each panel that a cell has shown: a hundred of them had all calls of the task a hundred times."""
    before = set(widget_module._instances)
    opened.journal.commit_step(step())
    panel = Task(opened).panel()
    assert len(widget_module._instances) - len(before) > 100
    assert panel._book.steps
    panel.freeze()
    assert set(widget_module._instances) <= before
    assert (panel._book.steps, panel._book.calls) == ({}, [])
    panel._ipython_display_()
    assert capsys.readouterr().out.startswith("task nightly: idle, 1 of 1 step done")
    shown: list[dict[str, Any]] = []
    panel._places._publisher = SimpleNamespace(publish=lambda data, **_: shown.append(data))
    panel._places.leave(*panel._static())
    assert [each.keys() for each in shown] == [{"text/plain", "text/html"}]
