"""The flow of a step without a notebook: skip, run, continue; what is committed when."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resumable_nb.call_records import NEW
from resumable_nb.errors import StoreUnavailable
from resumable_nb.execution import StepSpec
from resumable_nb.model import MISSING, CallRecord, PauseRecord, Position, StepOptions
from resumable_nb.session import Session
from resumable_nb.store.memory import MemoryStore
from tests.notebook import body

X = "x = x + [random.random()]"


class Kernel:
    """A session on a store, and its variables."""

    def __init__(self, store: MemoryStore, base: Path) -> None:
        self.variables: dict[str, Any] = {"__name__": "__main__", "x": [0], "random": random}
        self.session = Session("t", store, live=self.variables, base=base, clock=lambda: self.now_s)
        self.session.runner._monotonic = lambda: self.now_s
        self.now_s = 0.0
        self.ran: list[str] = []

    def run(self, text: str, then: Callable[[], None] = lambda: None, **options: Any) -> Any:
        spec = StepSpec("s", "s", "cell", body(text), text, StepOptions(**options), self.session.base)

        def execute() -> str:
            self.ran.append(text)
            exec(text, self.variables)
            then()
            return "value"

        return self.session.runner.run(spec, self.session.space, execute)

    def record(self) -> Any:
        return self.session.journal.step("s")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def new(store: MemoryStore, tmp_path: Path) -> Iterator[Callable[[], Kernel]]:
    made: list[Kernel] = []

    def make() -> Kernel:
        for each in made:
            each.session.lease.release()
        made.append(Kernel(store, tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.session.close()


def fail() -> None:
    raise ValueError("no")


def test_done_step_is_skipped(new: Callable[[], Kernel]) -> None:
    first = new()
    random.seed(1)
    assert first.run(X) == "value"
    after = random.getstate()
    second = new()
    random.seed(2)
    assert second.run(X) is MISSING
    assert second.variables["x"] == first.variables["x"]
    assert random.getstate() == after, "the skipped step's use of random numbers is seen afterwards"
    assert second.ran == []


def test_failed_step_starts_from_the_same_random_state(new: Callable[[], Kernel]) -> None:
    first = new()
    random.seed(1)
    with pytest.raises(ValueError, match="no"):
        first.run(X, fail)
    record = first.record()
    assert (record.status, record.error) == ("failed", "ValueError: no")
    second = new()
    random.seed(2)
    second.run(X)
    assert second.variables["x"] == first.variables["x"]
    assert second.record().version == 1
    assert second.record().why == "continued after ValueError: no"


def test_changed_key_runs_as_a_new_version(new: Callable[[], Kernel]) -> None:
    kernel = new()
    kernel.run(X)
    kernel.variables["x"] = [5]
    kernel.run(X)
    record = kernel.record()
    assert (record.version, [str(change) for change in record.changes]) == (2, ["input x changed"])
    assert [each.version for each in kernel.session.journal.versions("s")] == [1, 2]


def test_input_that_the_step_changed_counts_before_and_after(new: Callable[[], Kernel]) -> None:
    kernel = new()
    kernel.run(X)
    kernel.run(X)
    assert kernel.ran == [X]
    kernel.variables["x"] = [0]
    kernel.run(X)
    assert kernel.ran == [X]


def test_code_that_may_look_up_any_name_depends_on_all_of_them(new: Callable[[], Kernel]) -> None:
    kernel, text = new(), "y = eval('x')"
    kernel.run(text)
    kernel.run(text)
    assert kernel.ran == [text]
    kernel.variables["x"] = [5]
    kernel.run(text)
    assert kernel.variables["y"] == [5]


def test_variable_that_is_assigned_what_it_was_comes_back(new: Callable[[], Kernel]) -> None:
    kernel, text = new(), "x = 1"
    kernel.variables["x"] = 1
    kernel.run(text)
    kernel.variables["x"] = 2
    kernel.run(text)
    kernel.session.load_all()
    assert (kernel.ran, kernel.variables["x"]) == ([text], 1)


@pytest.mark.parametrize("y", [0, 1])
def test_variable_that_is_perhaps_assigned_what_it_was_counts(new: Callable[[], Kernel], y: int) -> None:
    """Afterwards nobody can tell whether it was: so the step runs where something else is there."""
    kernel, text = new(), "if y: x = 1"
    kernel.variables |= {"x": 1, "y": y}
    kernel.run(text)
    kernel.run(text)
    assert kernel.ran == [text]
    kernel.variables["x"] = 2
    kernel.run(text)
    assert (kernel.ran, kernel.variables["x"]) == ([text, text], 1 if y else 2)
    assert [str(change) for change in kernel.record().changes] == ["input x changed"]


def test_variable_that_was_perhaps_assigned_need_not_be_there(new: Callable[[], Kernel]) -> None:
    first, text = new(), "for i in (1, 2): pass"
    first.variables["i"] = 2
    first.run(text)
    second = new()
    second.run(text)
    second.session.load_all()
    assert (second.ran, second.variables["i"]) == ([], 2)


def test_commit_that_fails_leaves_the_step_unfinished(
    new: Callable[[], Kernel], store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = new()

    def full(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("no space left")

    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable):
        kernel.run(X, lambda: patch.setattr(store, "commit", full))
    assert kernel.record().status == "running"
    kernel = new()
    kernel.run(X)
    assert kernel.record().status == "done"
    assert kernel.record().why == "continued after a crash"


def test_order_of_events(new: Callable[[], Kernel]) -> None:
    kernel = new()
    seen: list[str] = []
    kernel.session.bus.listen(lambda event: seen.append(event.kind))
    kernel.run(X)
    kernel.run(X)
    wanted = ["step.begin", "step.begun", "step.body_done", "step.commit", "step.committed", "step.skipped"]
    assert [kind for kind in seen if kind in wanted] == wanted
    assert kernel.session.runner.skipped == {"s": kernel.record().duration_s}
    kernel.run(f"{X} # again")
    kernel.run("x = []")
    assert not kernel.session.runner.skipped, "it has run since"


def test_a_step_whose_record_was_put_aside_is_a_new_version_and_says_why(new: Callable[[], Kernel]) -> None:
    kernel = new()
    kernel.run("x = [1]")
    kernel.run("x = [2]")
    kernel.session.journal.forget_step("s")
    kernel.run("x = [3]")
    assert (kernel.record().version, kernel.record().why) == (3, "asked to run again")
    versions = kernel.session.journal.versions("s")
    assert [each.text for each in versions] == ["x = [1]", "x = [2]", "x = [3]"]
    kernel.session.forget()
    kernel.run("x = [4]")
    assert (kernel.record().version, kernel.record().why) == (1, "first run")


def call(n: int, began_s: float, ended_s: float, **facts: Any) -> CallRecord:
    return CallRecord(
        id=f"{n:012d}", step="s", n=NEW, tool="charge", version="", identity=f"i{n}", k=0, arguments={}, status="done",
        repeatable=False, run="r", started_at=began_s, ended_at=ended_s, **facts,
    )  # fmt: skip


def test_a_step_that_goes_on_took_also_what_it_need_not_do_again(
    new: Callable[[], Kernel], store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the last thing that is on record, over all its executions; what a skip saves is all of it."""
    kernel = new()
    kernel.now_s = 100.0

    def until_killed() -> None:
        kernel.session.journal.intend(call(1, 110.0, 130.0), durable=True)
        kernel.session.journal.intend(call(2, 131.0, 9_000.0, resolved="user"), durable=True)
        kernel.now_s = 150.0
        patch.setattr(store, "commit", full)

    def full(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("no space left")

    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable):
        kernel.run(X, until_killed)
    assert kernel.record().status == "running"

    kernel = new()
    kernel.now_s = 200.0

    def until_it_fails() -> None:
        position = Position(step="s", loop="l#1", version=1, done=3, total=9, at=215.0, key="")
        kernel.session.journal.keep_position(position)
        facts: dict[str, Any] = {"run": kernel.session.run, "want": "pause", "by": "", "asked_at": 1.0}
        pause = PauseRecord(id="p", **facts, began_at=202.0, ended_at=205.0)
        store.commit({"pause/p": msgspec.json.encode(pause)})
        kernel.now_s = 220.0
        raise ValueError("no address")

    with pytest.raises(ValueError, match="no address"):
        kernel.run(X, until_it_fails)
    assert (kernel.record().earlier_s, kernel.record().duration_s) == (31.0, 31.0 + 20.0)

    kernel.now_s = 300.0
    kernel.session.control._waited_s = 1000.0  # an earlier pause

    def until_it_ends() -> None:
        kernel.session.control._waited_s += 2.0
        kernel.now_s = 307.0

    kernel.run(X, until_it_ends)
    assert (kernel.record().earlier_s, kernel.record().duration_s) == (31.0 + 12.0, 43.0 + 5.0)
    kernel.run(X)
    assert kernel.session.runner.skipped == {"s": 48.0}
    kernel.run(f"{X}; y = 1")
    assert (kernel.record().earlier_s, kernel.record().duration_s) == (0.0, 0.0), "a new version"
