"""A task's messages: a list that is durable, belongs to the steps that use it, and loses nothing silently."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from resumable_nb import memory as memory_module
from resumable_nb import scope, session, tool, tools
from resumable_nb.errors import UsageError
from resumable_nb.execution import StepSpec
from resumable_nb.memory import Memory, MemoryWarning
from resumable_nb.model import StepOptions
from resumable_nb.session import Session
from resumable_nb.store.memory import MemoryStore
from tests.notebook import body


class Kernel:
    """Steps that append; ``again`` is the next kernel."""

    def __init__(self, base: Path) -> None:
        self.base, self.store = base, MemoryStore()
        self.ran: list[str] = []
        self._begin()

    def _begin(self) -> None:
        scope.reset()
        self.session = Session("t", self.store, live={"__name__": "__main__"}, base=self.base)
        memory_module.use(lambda: self.session.memory)

    @property
    def memory(self) -> Memory:
        return self.session.memory

    def again(self) -> None:
        self.session.lease.release()
        self._begin()

    def step(self, name: str, work: Callable[[], Any], text: str = "pass", **options: Any) -> None:
        spec = StepSpec(name, name, "cell", body(text), text, StepOptions(**options), self.base)

        def execute() -> None:
            self.ran.append(name)
            work()

        self.session.runner.run(spec, self.session.space, execute)

    def say(self, step: str, *words: str, text: str = "pass", **options: Any) -> None:
        """A step that says these words; another ``text`` is another cell."""
        self.step(step, lambda: self.memory.extend({"say": word} for word in words), text, **options)

    def words(self) -> str:
        return " ".join(message["say"] for message in self.memory)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    yield Kernel(tmp_path)
    scope.reset()
    session._serve()


def fails() -> None:
    raise ValueError


# --- a list


def test_it_is_a_list_of_dicts_and_durable_at_once(kernel: Kernel) -> None:
    memory = kernel.memory
    memory.append({"role": "user", "content": "ü", "parts": [1, {"a": None}]})
    memory.extend([{"n": n} for n in range(4)])
    del memory[1:3]
    memory.insert(1, {"n": "one"})
    memory[-1] = {"n": 33}
    expected = [{"role": "user", "content": "ü", "parts": [1, {"a": None}]}, {"n": "one"}, {"n": 2}, {"n": 33}]
    for _ in range(2):
        assert kernel.memory == expected
        assert kernel.memory.to_list() == expected
        assert (len(kernel.memory), kernel.memory[1], kernel.memory[1:3]) == (4, {"n": "one"}, expected[1:3])
        assert repr(kernel.memory) == "<Memory of 4 messages>"
        kernel.again()
    kernel.memory.clear()
    kernel.again()
    assert kernel.memory == []
    with pytest.raises(IndexError):
        kernel.memory[0]


def test_reading_takes_no_lease(kernel: Kernel) -> None:
    assert kernel.memory.to_list() == []
    assert not kernel.session.lease.held
    kernel.memory.append({"a": 1})
    other = Session("t", kernel.store, live={}, base=kernel.base)
    assert other.memory == [{"a": 1}]
    assert not other.lease.held


def test_a_message_cannot_be_changed_in_place(kernel: Kernel) -> None:
    """A copy that is changed would be lost without a word."""
    kernel.memory.append({"a": 1, "b": [1, {"c": 2}]})
    message = kernel.memory[0]
    edits: list[Callable[[], object]] = [
        lambda: message.update(a=2),
        lambda: message.pop("a"),
        lambda: message.setdefault("z", 1),
        lambda: message["b"].append(3),
        lambda: message["b"].sort(),
        lambda: message["b"][1].update(c=3),
        lambda: message.__setitem__("a", 2),
        lambda: message["b"].__iadd__([1]),
        lambda: message.__ior__({}),
    ]
    for edit in edits:
        with pytest.raises(UsageError, match="replaces it"):
            edit()
    assert kernel.memory == [{"a": 1, "b": [1, {"c": 2}]}]
    assert json.dumps(message) == '{"a": 1, "b": [1, {"c": 2}]}'
    plain = kernel.memory.to_list()[0]
    plain["b"].append(9)
    for thawed in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message), {**message, "b": plain["b"]}):
        assert type(thawed) is dict
        thawed["b"].append(4)
    assert kernel.memory == [{"a": 1, "b": [1, {"c": 2}]}]


@pytest.mark.parametrize(
    "message", [{"a": (1, 2)}, {1: "a"}, {"a": float("nan")}, {"a": {1, 2}}, {"a": object()}, {"a": b"x"}, "text", [1]]
)
def test_what_would_not_come_back_as_it_is_is_refused(kernel: Kernel, message: Any) -> None:
    with pytest.raises(UsageError, match=r"JSON data only|a message is a dict"):
        kernel.memory.append(message)
    assert kernel.memory == []


def test_a_variable_that_holds_it_comes_back_as_the_memory(kernel: Kernel) -> None:
    kernel.memory.append({"a": 1})
    assert pickle.loads(pickle.dumps(kernel.memory)) is kernel.memory


# --- and steps


def test_what_a_step_says_is_durable_with_its_end(kernel: Kernel) -> None:
    def work() -> None:
        kernel.memory.append({"say": "a"})
        assert Session("t", kernel.store, live={}, base=kernel.base).memory == []

    kernel.step("one", work)
    kernel.again()
    assert kernel.words() == "a"


def test_a_step_that_failed_or_died_says_it_once(kernel: Kernel) -> None:
    kernel.say("one", "a")

    def work() -> None:
        kernel.memory.append({"say": "b"})
        fails()

    with pytest.raises(ValueError):  # noqa: PT011  # any text: the user's own error
        kernel.step("two", work)
    assert kernel.words() == "a"
    kernel.say("two", "b", "c")
    assert kernel.words() == "a b c"
    kernel.again()
    assert kernel.words() == "a b c"


def test_skipping_leaves_it_as_it_is(kernel: Kernel) -> None:
    for _ in range(2):
        kernel.say("one", "a")
        kernel.say("two", "b")
        assert kernel.words() == "a b"
        kernel.say("one", "a")
        assert kernel.words() == "a b"
        kernel.again()
    assert kernel.ran == ["one", "two"]


@pytest.mark.parametrize("how", ["edit", "rerun", "forget", "compensated"])
def test_a_step_that_runs_again_says_it_once(kernel: Kernel, how: str) -> None:
    kernel.say("one", "a")
    kernel.say("two", "b", "c")
    kernel.again()
    if how == "forget":
        kernel.session.own()
        kernel.session.journal.forget_step("two")
    if how == "compensated":
        kernel.session.own()
        record = kernel.session.journal.step("two")
        kernel.session.journal.begin_rollback("two", [record])  # type: ignore[list-item]  # the step is there
    kernel.say("one", "a")
    kernel.say("two", "B", text="other" if how == "edit" else "pass", rerun=how == "rerun")
    assert kernel.words() == "a B"
    kernel.again()
    assert kernel.words() == "a B"


def test_a_crash_while_it_runs_again_says_it_once(kernel: Kernel) -> None:
    kernel.say("one", "a")

    def dies() -> None:
        kernel.memory.append({"say": "B"})
        raise SystemExit  # its record stays as a crash leaves it, below

    before = dict(kernel.store.scan("step/"))
    kernel.again()
    began: list[dict[str, bytes]] = []
    kernel.session.bus.listen(
        lambda event: began.append(dict(kernel.store.scan("step/"))) if event.kind == "step.begun" else None
    )
    with pytest.raises(SystemExit):
        kernel.step("one", dies, "other")
    kernel.store.commit(began[0])
    assert began[0] != before
    kernel.again()
    kernel.say("one", "B", text="other")
    assert kernel.words() == "B"


def test_a_step_depends_on_what_earlier_steps_have_said(kernel: Kernel) -> None:
    def run_all(first: str, text: str = "pass") -> None:
        kernel.say("one", first, text=text)
        kernel.say("two", "b")
        kernel.step("aside", lambda: None)
        kernel.say("three", "c")

    run_all("a")
    kernel.again()
    run_all("A", "other")
    assert kernel.words() == "A b c"
    assert kernel.ran == ["one", "two", "aside", "three", "one", "two", "three"]
    record = kernel.session.journal.step("two")
    assert record.why == "what it found in the memory changed"  # type: ignore[union-attr]  # the same
    kernel.again()
    run_all("A", "other")
    assert len(kernel.ran) == 7


def test_a_step_that_only_reads_depends_on_it_too(kernel: Kernel) -> None:
    kernel.say("one", "a")
    kernel.step("reads", lambda: len(kernel.memory))
    kernel.say("three", "c")
    kernel.again()
    kernel.say("one", "a", "b", text="other")
    kernel.step("reads", lambda: len(kernel.memory))
    assert kernel.ran == ["one", "reads", "three", "one", "reads"]


def test_later_words_come_back_after_an_earlier_step_ran_again_alike(kernel: Kernel) -> None:
    kernel.say("one", "a")
    kernel.say("two", "b")
    kernel.again()
    kernel.say("one", "a", rerun=True)
    assert kernel.words() == "a"
    kernel.say("two", "b")
    assert kernel.words() == "a b"
    assert kernel.ran == ["one", "two", "one"]
    kernel.again()
    assert kernel.words() == "a b"


def test_a_step_may_shorten_it(kernel: Kernel) -> None:
    def run_all(**options: Any) -> None:
        kernel.say("one", "a", "b", "c")
        kernel.step("short", shorten, **options)
        kernel.say("three", "d")

    def shorten() -> None:
        kernel.memory[:] = [{"say": "(" + kernel.words().replace(" ", "") + ")"}, *kernel.memory[2:]]

    run_all()
    assert kernel.words() == "(abc) c d"
    kernel.again()
    run_all()
    assert kernel.words() == "(abc) c d"
    run_all(rerun=True)
    assert kernel.words() == "(abc) c d"
    assert kernel.ran == ["one", "short", "three", "short"]


def test_nested_steps_are_durable_with_the_outer_one(kernel: Kernel) -> None:
    broken = [True]

    def outer() -> None:
        kernel.memory.append({"say": "a"})
        kernel.say("outer/inner", "b")
        if broken:
            fails()
        kernel.memory.append({"say": "c"})

    with pytest.raises(ValueError):  # noqa: PT011  # any text: the user's own error
        kernel.step("outer", outer)
    assert kernel.words() == ""
    broken.clear()
    kernel.again()
    kernel.step("outer", outer)
    assert kernel.words() == "a b c"
    assert kernel.ran == ["outer", "outer/inner", "outer"], "what it had found was the same: it is not asked again"
    kernel.again()
    assert kernel.words() == "a b c"


def test_forgetting_the_task_forgets_its_messages(kernel: Kernel) -> None:
    kernel.say("one", "a")
    kernel.session.forget()
    assert kernel.memory == []
    kernel.again()
    assert kernel.memory == []


def test_a_tool_that_appends_is_told_that_its_answer_does_not(kernel: Kernel) -> None:
    tools.use(kernel.session.desk)

    @tool
    def ask(question: str) -> str:
        kernel.memory.append({"say": question})
        return question

    with pytest.warns(MemoryWarning, match="inside a tool"):
        kernel.step("ask", lambda: ask("who"))
    ask("outside any step it is durable at once")
    assert kernel.words() == "who outside any step it is durable at once"
