"""``track``: after a kill the loop goes on at the last kept turn, with the variables and random numbers of then."""

from __future__ import annotations

import dataclasses
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resumable_nb import runner, track
from resumable_nb.events import Event
from resumable_nb.model import StepOptions
from resumable_nb.session import Session
from resumable_nb.source import analyse
from resumable_nb.store.memory import MemoryStore
from tests.kernels import Died, Kernel, Kernels

PRELUDE = """
import os, random, signal
from resumable_nb import step, tool, track

def ledger(what):
    with open("ledger", "a") as file:
        file.write(f"{what}\\n")

def die_once(name, when):
    if when and not os.path.exists(name):
        open(name, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def ledger(folder: Path) -> list[str]:
    path = folder / "ledger"
    return path.read_text().splitlines() if path.exists() else []


def until_done(kernels: Kernels, *cells: str) -> Kernel:
    """Run All in one kernel after the other, until one gets through."""
    for _ in range(10):
        try:
            return kernels.again(PRELUDE, *cells)
        except Died:
            continue
    raise AssertionError("it dies each time")


def test_goes_on_at_the_last_kept_turn(kernels: Kernels) -> None:
    """Killed in turn 5 with every=2: turns 0 to 3 are kept, 4 and 5 run again; the numbers are those of one run."""
    cell = """%%resumable a
random.seed(3)
total, noise = 0, []
for n in track(range(8), "turns", keep=["total", "noise"], every=2):
    ledger(n)
    total += n
    noise.append(random.random())
    die_once("died", n == 5)
after = random.random()
"""
    kernel = until_done(kernels, cell)
    assert ledger(kernel.folder) == list("012345" + "4567")
    generator = random.Random(3)
    noise = [generator.random() for _ in range(9)]
    assert kernel("total, noise + [after]").value == repr((28, noise))
    kernels.again(PRELUDE, cell)
    assert len(ledger(kernel.folder)) == 10


def test_interrupted_in_a_live_kernel(kernels: Kernels) -> None:
    """What the step reads and changes is, in the kernel that was interrupted, not what it began with."""
    cells = [
        "%%resumable made\nmodel = [0]",
        "%%resumable trained\nfor n in track(range(6), keep='model'):\n    ledger(n)\n    model.append(n)\n"
        "    if n == 3 and not os.path.exists('go'): raise KeyboardInterrupt",
    ]
    kernel = kernels(PRELUDE, cells[0])
    assert kernel.attempt(cells[1]).error == "KeyboardInterrupt"
    Path(kernel.folder, "go").touch()
    kernel(cells[1])
    assert kernel("model").value == "[0, 0, 1, 2, 3, 4, 5]"
    assert ledger(kernel.folder) == list("0123" + "345")
    kernel = kernels.again(PRELUDE, *cells)
    assert kernel("model").value == "[0, 0, 1, 2, 3, 4, 5]"
    assert len(ledger(kernel.folder)) == 7


def test_interrupted_then_killed(kernels: Kernels) -> None:
    cells = [
        "%%resumable made\nmodel = [0]",
        "%%resumable trained\nfor n in track(range(6), keep='model'):\n    ledger(n)\n    model.append(n)\n"
        "    if n == 3 and not os.path.exists('go'): raise KeyboardInterrupt\n    die_once('died', n == 4)",
    ]
    kernel = kernels(PRELUDE, cells[0])
    assert kernel.attempt(cells[1]).error == "KeyboardInterrupt"
    Path(kernel.folder, "go").touch()
    with pytest.raises(Died):
        kernel(cells[1])
    kernel = kernels.again(PRELUDE, *cells)
    assert kernel("model").value == "[0, 0, 1, 2, 3, 4, 5]"
    kernels.again(PRELUDE, *cells)
    assert ledger(kernel.folder) == list("0123" + "34" + "45")


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "interrupted"])
def test_kept_variable_that_is_edited_above_begins_the_loop_anew(kernels: Kernels, killed: bool) -> None:
    """Also where it is edited to just what the interrupted loop has in it, and then it goes on as it was edited."""
    cells = [
        "%%resumable made\nmodel = [0]\ntotal = 0",
        "%%resumable trained\nfor n in track(range(4), keep=['model', 'total']):\n    ledger(n)\n"
        "    model.append(n)\n    total += 1\n    if n == 2 and not os.path.exists('go'): raise KeyboardInterrupt\n"
        "    if n == 3 and not os.path.exists('gone'): raise KeyboardInterrupt",
    ]
    kernel = kernels(PRELUDE, cells[0])
    assert kernel.attempt(cells[1]).error == "KeyboardInterrupt"
    kernel = kernels.again(PRELUDE) if killed else kernel
    Path(kernel.folder, "go").touch()
    cells[0] = "%%resumable made\nmodel = [5]\ntotal = 3"
    kernel(cells[0])
    assert kernel.attempt(cells[1]).error == "KeyboardInterrupt"
    assert ledger(kernel.folder) == list("012" + "0123")
    kernel = kernels.again(PRELUDE, cells[0]) if killed else kernel
    Path(kernel.folder, "gone").touch()
    kernel(cells[1])
    assert ledger(kernel.folder) == list("012" + "0123" + "3")
    assert kernel("model, total").value == "([5, 0, 1, 2, 3], 7)"


def test_changed_cell_begins_the_loop_anew(kernels: Kernels) -> None:
    cell = """%%resumable a
xs = []
for n in track(range(4), keep='xs'):
    ledger(n)
    xs.append(n)
    die_once('died', n == 2)
"""
    with pytest.raises(Died):
        kernels(PRELUDE, cell)
    kernel = kernels.again(PRELUDE, cell.replace("xs.append(n)", "xs.append(-n)"))
    assert kernel("xs").value == "[0, -1, -2, -3]"
    assert ledger(kernel.folder) == list("012" + "0123")


def test_in_a_function_and_in_a_block(kernels: Kernels) -> None:
    cell = """
def work():
    with step("inner"):
        xs = []
        for n in track(range(4), "loop", keep="xs"):
            ledger(n)
            xs.append(n)
            die_once("died", n == 2)
        ys = xs
    return ys, xs is ys
work()
"""
    kernel = until_done(kernels, cell)
    assert kernel("_").value == "([0, 1, 2, 3], True)"
    assert ledger(kernel.folder) == list("012" + "23")


def test_finished_loop_is_not_repeated(kernels: Kernels) -> None:
    """Neither a nested one of kept turns, nor that of an unfinished turn, nor one before the kill."""
    cell = """%%resumable a
first, rows = [], []
for n in track((n for n in range(3)), "first", keep="first"):
    ledger(f"first {n}")
    first.append(n)
for i in track(range(2), "outer", keep="rows"):
    row = []
    for j in track(range(2), "inner", keep="row"):
        ledger(f"{i} {j}")
        row.append(j)
        die_once("died", (i, j) == (1, 1))
    rows.append(row)
    die_once("again", i == 1)
"""
    kernel = until_done(kernels, cell)
    assert kernel("first, rows").value == "([0, 1, 2], [[0, 1], [0, 1]])"
    assert ledger(kernel.folder) == ["first 0", "first 1", "first 2", "0 0", "0 1", "1 0", "1 1", "1 1"]


def test_async_for(kernels: Kernels) -> None:
    cell = """%%resumable a
async def pages():
    for n in range(4):
        yield n
xs = []
async for n in track(pages(), "pages", keep="xs"):
    ledger(n)
    xs.append(n)
    die_once("died", n == 2)
"""
    kernel = until_done(kernels, cell)
    assert kernel("xs").value == "[0, 1, 2, 3]"
    assert ledger(kernel.folder) == list("012" + "23")


def test_calls_in_a_kept_loop_go_on_counting(kernels: Kernels) -> None:
    """Two polls in each kept turn: the fifth poll of the step answers from the fifth record."""
    cell = """%%resumable a
@tool(each_call=True)
def poll():
    ledger("poll")
    return sum(1 for _ in open("ledger"))
seen = []
for n in track(range(3), keep="seen"):
    seen.append([poll(), poll()])
    die_once("died", n == 1)
"""
    kernel = until_done(kernels, cell)
    assert kernel("seen").value == "[[1, 2], [3, 4], [5, 6]]"


def test_kept_name_that_was_restored_and_not_loaded(kernels: Kernels) -> None:
    cells = ["%%resumable a\nmodel = [1]", "%%resumable b\nfor n in track(range(2), keep=['model']):\n    pass"]
    kernels(PRELUDE, cells[0])
    kernel = kernels.again(PRELUDE, *cells)
    assert kernel("model").value == "[1]"


def test_mistakes_are_one_line(kernels: Kernels) -> None:
    kernel = kernels(PRELUDE)
    for cell, says in [
        ("for n in track([1], keep='x'): pass", "keeps a place inside a step"),
        ("%%resumable a\nfor n in track([1], keep='nosuch'): pass", "there is no variable 'nosuch'"),
        (
            "%%resumable b\ng = (x for x in ())\nfor n in track([1], keep='g'): pass",
            "cannot be kept",
        ),
        ("track([1], every=2)", "needs keep="),
        ("track([1], keep='x', every=0)", "a number above 0"),
        ("track([1], keep='x', every_s=-1)", "a number above 0"),
        ("len(track(iter([])))", None),
    ]:
        shown = kernel.attempt(cell)
        assert shown.error == ("TypeError" if says is None else "UsageError"), cell
        if says is not None:
            assert says in shown.said
            assert "\n" not in shown.said


def test_progress_in_a_terminal_is_one_line_at_the_end(kernels: Kernels) -> None:
    kernel = kernels(PRELUDE)
    shown = kernel("for n in track(range(30), 'pages'): pass")
    assert len(shown.items) == 1
    assert shown.items[0][1]["text/plain"].startswith("pages ━━━━━━━━━━━━━━━━━━━━━━━━ 30/30 · ")


# --- in this process, with clocks of our own


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def session(clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Session]:
    made = Session("t", MemoryStore(), live=globals(), base=tmp_path)
    keeper = dataclasses.replace(made.keeper(), monotonic=clock)
    monkeypatch.setattr(sys.modules[track.__module__], "_provider", [lambda: keeper])
    yield made
    made.close()


def in_step(session: Session, work: Any) -> list[Event]:
    """Run ``work`` as a step; the events of its loops."""
    events: list[Event] = []
    stop = session.bus.listen(events.append)
    spec = runner.StepSpec("s", "s", "function", analyse([]), "", StepOptions(), session.base)
    try:
        session.runner.run(spec, session.space, work)
    finally:
        stop()
    return [event for event in events if event.kind.startswith("track")]


def test_every_s_keeps_by_the_clock_and_after_the_last_turn(session: Session, clock: Clock) -> None:
    def work() -> None:
        for _ in track(range(7), keep=[], every_s=10):
            clock.now_s += 4

    kept = [event.facts["done"] for event in in_step(session, work) if event.kind == "track.kept"]
    assert kept == [3, 6, 7]


def test_every_keeps_after_so_many_turns_and_the_last(session: Session) -> None:
    def work() -> None:
        for _ in track(range(7), keep=[], every=3):
            pass

    kept = [event.facts["done"] for event in in_step(session, work) if event.kind == "track.kept"]
    assert kept == [3, 6, 7]


def test_turns_are_told(session: Session, clock: Clock) -> None:
    def work() -> None:
        for _ in track("ab", "letters"):
            clock.now_s += 1

    told = [event.facts for event in in_step(session, work)]
    assert [(each["done"], each["elapsed_s"], each["ended"]) for each in told] == [
        (0, 0, False), (1, 1, False), (2, 2, False), (2, 2, True),
    ]  # fmt: skip
    assert {(each["label"], each["total"], each["loop"]) for each in told} == {("letters", 2, "letters#1")}


def test_loop_that_is_left_early_keeps_no_more(session: Session) -> None:
    def work() -> None:
        for n in track(range(7), keep=[]):
            if n == 2:
                break

    assert [e.facts["done"] for e in in_step(session, work) if e.kind == "track.kept"] == [1, 2]
