"""What has been done is undone: which calls, in which order, with what, and what is new afterwards."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from resumable_nb import scope, session, tools
from resumable_nb.errors import BadArgument, InDoubt, UsageError
from resumable_nb.execution import StepSpec
from resumable_nb.model import MISSING, StepOptions
from resumable_nb.session import Session
from resumable_nb.store.memory import MemoryStore
from resumable_nb.task import Task
from resumable_nb.tools import Happened, NotHappened, tool
from tests.notebook import body


class Kernel:
    """A session whose steps are functions of a test; ``again`` is the next kernel on the same store."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.store = MemoryStore()
        self.done: list[Any] = []
        self.said: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        self.session = Session("t", self.store, live={"__name__": "__main__"}, base=self.base)
        self.session.bus.listen(lambda event: self.said.append(event) if event.kind.startswith("rollback") else None)
        tools.use(self.session.desk)
        scope.reset()
        self.task = Task(self.session)

    def again(self) -> None:
        self.session.lease.release()
        self._begin()

    def step(self, name: str, work: Callable[[], Any], **options: Any) -> Any:
        spec = StepSpec(name, name, "cell", body("pass"), "pass", StepOptions(**options), self.base)
        return self.session.runner.run(spec, self.session.space, work)

    def status(self, step: str) -> str:
        record = self.session.journal.step(step)
        assert not isinstance(record, type(MISSING))
        return record.status

    def calls(self) -> list[tuple[str, str]]:
        frame = self.task.history()
        return list(zip(frame["tool"], frame["status"], strict=True))

    def do(self, *what: Any) -> Any:
        self.done.append(what)
        return len(self.done)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    yield Kernel(tmp_path)
    scope.reset()
    session._serve()


def shop(kernel: Kernel, **options: Any) -> Callable[[str], Any]:
    """A tool with an undo, defined as a cell defines it."""

    def refund(order: str, result: int) -> None:
        kernel.do("refund", order, result)

    @tool(**{"compensate": refund, **options})
    def charge(order: str, amount: int = 3) -> int:
        return int(kernel.do("charge", order))

    return charge


def test_calls_of_a_step_are_undone_newest_first_with_their_arguments_and_results(kernel: Kernel) -> None:
    charge = shop(kernel)
    kernel.step("buy", lambda: [charge("a"), charge("b")])
    kernel.step("more", lambda: charge("c"))
    undone = kernel.task.compensate("buy")
    assert kernel.done[3:] == [("refund", "b", 2), ("refund", "a", 1)]
    assert [kernel.session.journal.find_call(each).arguments["order"] for each in undone] == ["'b'", "'a'"]
    assert (kernel.status("buy"), kernel.status("more")) == ("compensated", "done")
    assert kernel.calls() == [
        *[("charge", "compensated")] * 2,
        ("charge", "done"),
        *[("refund", "done")] * 2,
    ]


def test_undoing_twice_undoes_once(kernel: Kernel) -> None:
    charge = shop(kernel)
    kernel.step("buy", lambda: charge("a"))
    assert len(kernel.task.compensate("buy")) == 1
    assert kernel.task.compensate("buy") == ()
    assert kernel.task.compensate() == ()
    assert len(kernel.done) == 2


def test_history_names_what_an_undo_undoes(kernel: Kernel) -> None:
    charge = shop(kernel)
    kernel.step("buy", lambda: charge("a"))
    kernel.task.compensate()
    frame = kernel.task.history()
    assert list(frame["undoes"]) == ["", frame.index[0]]


def test_the_same_call_is_a_new_one_afterwards_with_another_key(kernel: Kernel) -> None:
    keys = []

    def refund(order: str, idempotency_key: str) -> None:
        keys.append(idempotency_key)

    @tool(compensate=refund)
    def charge(order: str, *, idempotency_key: str) -> int:
        keys.append(idempotency_key)
        return int(kernel.do("charge", order))

    for generation in (1, 2, 3):
        assert kernel.step("buy", lambda: charge("a")) == generation
        assert charge("a") == generation
        kernel.again()
        assert charge("a") == generation, "the newest one answers in another kernel"
        assert len(kernel.task.compensate("buy")) == 1
    assert len(set(keys)) == 6
    assert [status for name, status in kernel.calls() if name == "charge"] == ["compensated"] * 3


def test_the_kth_identical_call_is_new_where_each_counts(kernel: Kernel) -> None:
    charge = shop(kernel, each_call=True)
    assert kernel.step("buy", lambda: [charge("a"), charge("a")]) == [1, 2]
    kernel.task.compensate("buy")
    assert kernel.done[2:] == [("refund", "a", 2), ("refund", "a", 1)]
    assert kernel.step("buy", lambda: [charge("a"), charge("a")]) == [5, 6]


def test_a_step_runs_again_as_a_new_version_and_what_it_used_is_answered(kernel: Kernel) -> None:
    charge = shop(kernel)

    @tool
    def read(page: int) -> int:
        return int(kernel.do("read", page))

    kernel.step("buy", lambda: [read(1), charge("a")])
    kernel.task.compensate("buy")
    assert kernel.step("buy", lambda: [read(1), charge("a")]) == [1, 4]
    record = kernel.session.journal.step("buy")
    assert (record.version, record.why) == (2, "its calls were undone")  # type: ignore[union-attr]  # the step is recorded


def test_the_order_is_that_of_the_ends(kernel: Kernel) -> None:
    """Of two calls that overlap, the one that ended first is undone last."""

    def undo(name: str) -> None:
        kernel.do("undo", name)

    @tool(compensate=undo)
    async def work(name: str, before: str = "") -> None:
        if before:
            await ended[before].wait()
        kernel.do("do", name)
        ended[name].set()

    ended = {name: asyncio.Event() for name in "abc"}

    async def all_of_them() -> None:
        await asyncio.gather(work("a", before="b"), work("b", before="c"), work("c"))

    kernel.step("s", lambda: asyncio.run(all_of_them()))
    kernel.task.compensate("s")
    assert [name for what, name in kernel.done if what == "do"] == ["c", "b", "a"]
    assert [name for what, name in kernel.done if what == "undo"] == ["a", "b", "c"]


def test_nested_steps_are_undone_with_the_one_around_them_and_open_it_again(kernel: Kernel) -> None:
    charge = shop(kernel)

    def outer() -> None:
        charge("a")
        kernel.step("buy/inner", lambda: charge("b"))

    kernel.step("buy", outer)
    kernel.task.compensate("buy/inner")
    assert kernel.done[2:] == [("refund", "b", 2)]
    assert (kernel.status("buy"), kernel.status("buy/inner")) == ("compensated", "compensated")
    kernel.step("buy", outer)
    kernel.task.compensate("buy")
    assert kernel.done[4:] == [("refund", "b", 4), ("refund", "a", 1)]


def test_a_call_belongs_to_the_step_that_made_it(kernel: Kernel) -> None:
    charge = shop(kernel)
    kernel.step("one", lambda: charge("a"))
    assert kernel.step("two", lambda: charge("a")) == 1
    assert kernel.task.compensate("two") == ()
    assert kernel.status("two") == "done"
    assert len(kernel.task.compensate("one")) == 1


def test_calls_outside_any_step_are_undone_with_the_task(kernel: Kernel) -> None:
    charge = shop(kernel)
    charge("a")
    kernel.step("buy", lambda: charge("b"))
    kernel.task.compensate()
    assert kernel.done[2:] == [("refund", "b", 2), ("refund", "a", 1)]


# --- when a step fails


def test_a_step_that_fails_for_good_is_undone_and_raises_its_own_error(kernel: Kernel) -> None:
    charge = shop(kernel)

    def fails() -> None:
        charge("a")
        raise ValueError("no stock")

    with pytest.raises(ValueError, match="no stock"):
        kernel.step("buy", fails, on_error="compensate")
    assert kernel.done == [("charge", "a"), ("refund", "a", 1)]
    assert kernel.status("buy") == "compensated"
    assert [event.kind for event in kernel.said] == ["rollback.begun", "rollback.ended"]
    assert kernel.step("buy", lambda: charge("a"), on_error="compensate") == 3


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InDoubt("who knows"), SystemExit()])
def test_what_is_no_failure_for_good_undoes_nothing(kernel: Kernel, error: BaseException) -> None:
    charge = shop(kernel)

    def fails() -> None:
        charge("a")
        raise error

    with pytest.raises(type(error)):
        kernel.step("buy", fails, on_error="compensate")
    assert kernel.done == [("charge", "a")]


def test_without_the_option_a_failed_step_keeps_its_calls(kernel: Kernel) -> None:
    charge = shop(kernel)

    def fails() -> None:
        charge("a")
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  # raised without a text
        kernel.step("buy", fails)
    assert kernel.step("buy", lambda: charge("a")) == 1


# --- in doubt


def lost(kernel: Kernel, work: Callable[[], Any]) -> None:
    """A call that is made while the line breaks, in a step that fails with it."""
    with pytest.raises(ConnectionError):
        kernel.step("buy", work)


@pytest.mark.parametrize("happened", [True, False])
def test_a_call_in_doubt_is_reconciled_before_it_is_undone(kernel: Kernel, happened: bool) -> None:
    asked = []

    def look(order: str, amount: int) -> Happened | NotHappened:
        asked.append((order, amount))
        return Happened(77) if happened else NotHappened()

    def refund(order: str, result: int) -> None:
        kernel.do("refund", order, result)

    @tool(compensate=refund, reconcile=look)
    def charge(order: str, amount: int = 3) -> int:
        raise ConnectionError

    lost(kernel, lambda: charge("a"))
    kernel.again()
    assert len(kernel.task.compensate("buy")) == happened
    assert asked == [("a", 3)]
    assert kernel.done == ([("refund", "a", 77)] if happened else [])
    assert kernel.task.compensate("buy") == ()


def test_without_reconcile_the_rollback_stops_and_goes_on_after_resolve(kernel: Kernel) -> None:
    def refund(order: str) -> None:
        kernel.do("refund", order)

    @tool(compensate=refund)
    def charge(order: str) -> int:
        kernel.do("charge", order)
        if order == "b":
            raise ConnectionError
        return 1

    lost(kernel, lambda: [charge("a"), charge("b")])
    kernel.again()
    with pytest.raises(InDoubt) as raised:
        kernel.task.compensate("buy")
    with pytest.raises(UsageError, match="rollback of step 'buy' is not finished"):
        charge("c")
    with pytest.raises(InDoubt):
        kernel.step("buy", lambda: charge("c"))
    kernel.task.resolve(raised.value.id, True, 5)
    kernel.step("buy", lambda: charge("c"))
    assert kernel.done[2:] == [("refund", "b"), ("refund", "a"), ("charge", "c")]


# --- undos


def test_a_failed_undo_stops_the_rollback_and_is_tried_again(kernel: Kernel) -> None:
    broken = [True]

    def refund(order: str) -> None:
        kernel.do("refund", order)
        if order == "b" and broken:
            raise ValueError("bank is closed")

    charge = shop(kernel, compensate=refund)
    kernel.step("buy", lambda: [charge("a"), charge("b"), charge("c")])
    with pytest.raises(ValueError, match="bank is closed") as raised:
        kernel.task.compensate()
    assert "`%resumable compensate` goes on" in raised.value.__notes__[0]
    assert ("refund", "failed") in kernel.calls()
    broken.clear()
    kernel.again()
    assert len(kernel.task.compensate()) == 2
    assert [order for what, order in kernel.done if what == "refund"] == ["c", "b", "b", "a"]


def test_what_a_failed_undo_was_to_do_can_be_done_by_hand(kernel: Kernel) -> None:
    def refund(order: str) -> None:
        raise ValueError

    charge = shop(kernel, compensate=refund)
    kernel.step("buy", lambda: charge("a"))
    with pytest.raises(ValueError):  # noqa: PT011  # raised without a text
        kernel.task.compensate()
    (undo,) = [call for call in kernel.session.journal.calls() if call.undoes]
    kernel.task.resolve(undo.id, True)
    assert kernel.task.compensate() == ()
    assert kernel.calls() == [("charge", "compensated"), ("refund", "done")]


def test_an_undo_may_be_a_tool_with_options_of_its_own(kernel: Kernel) -> None:
    @tool(retries=1, retry_on=(KeyError,), backoff=0.0)
    def refund(order: str) -> None:
        kernel.do("refund", order)
        if len(kernel.done) == 2:
            raise KeyError

    charge = shop(kernel, compensate=refund)
    kernel.step("buy", lambda: charge("a"))
    kernel.task.compensate()
    assert kernel.done == [("charge", "a"), ("refund", "a"), ("refund", "a")]


def test_tools_that_an_undo_calls_are_called_each_time(kernel: Kernel) -> None:
    """They are no memo of what an earlier undo has called."""

    @tool
    def post(path: str) -> int:
        return int(kernel.do("post", path))

    def refund(order: str) -> None:
        post(f"refund {order}")

    charge = shop(kernel, compensate=refund)
    for _ in range(2):
        kernel.step("buy", lambda: charge("a"))
        kernel.task.compensate()
    assert [what for what, *_ in kernel.done] == ["charge", "post", "charge", "post"]
    assert kernel.task.compensate() == ()


@pytest.mark.parametrize("running", [False, True], ids=["no loop", "in a loop"])
def test_async_tools_and_undos(kernel: Kernel, running: bool) -> None:
    async def refund(order: str, result: int) -> None:
        await asyncio.sleep(0)
        kernel.do("refund", order, result)

    @tool(compensate=refund)
    async def charge(order: str) -> int:
        await asyncio.sleep(0)
        return int(kernel.do("charge", order))

    async def undo() -> None:
        kernel.task.compensate()

    kernel.step("buy", lambda: asyncio.run(charge("a")))
    if running:
        asyncio.run(undo())
    else:
        kernel.task.compensate()
    assert kernel.done == [("charge", "a"), ("refund", "a", 1)]


@pytest.mark.filterwarnings("ignore::resumable_nb.MutationWarning")
def test_an_undo_gets_the_arguments_as_they_were_when_the_call_began(kernel: Kernel) -> None:
    def undo(items: list[int]) -> None:
        kernel.do("undo", items)

    @tool(compensate=undo)
    def work(items: list[int]) -> None:
        items.append(9)

    work([1])
    kernel.task.compensate()
    assert kernel.done == [("undo", [1])]


def test_an_undo_of_any_arguments(kernel: Kernel) -> None:
    def undo(first: int, /, *rest: int, **more: Any) -> None:
        kernel.do(first, rest, more)

    @tool(compensate=undo)
    def work(first: int, /, *rest: int, flag: bool = False, **more: int) -> str:
        return "value"

    work(1, 2, 3, x=4)
    kernel.task.compensate()
    assert kernel.done == [(1, (2, 3), {"flag": False, "x": 4, "result": "value"})]


def test_a_result_that_is_not_available_does_not_matter_where_nobody_takes_it(kernel: Kernel) -> None:
    def undo(name: str) -> None:
        kernel.do("undo", name)

    @tool(compensate=undo)
    def work(name: str) -> Any:
        return (each for each in "ab")

    work("a")
    kernel.task.compensate()
    assert kernel.done == [("undo", "a")]


# --- refused


def test_what_could_not_be_undone_later_is_not_done(kernel: Kernel) -> None:
    def undo(connection: Any, order: str) -> None: ...

    @tool(compensate=undo, ignore="connection")
    def work(connection: Any, order: str) -> int:
        return int(kernel.do("work", order))

    with pytest.raises(BadArgument, match="takes 'connection', which cannot be saved"):
        work((each for each in "ab"), "a")
    assert kernel.done == []
    assert kernel.session.journal.calls() == []


def test_an_undo_cannot_have_secrets(kernel: Kernel) -> None:
    def undo(order: str, token: str) -> None: ...

    with pytest.raises(UsageError, match="needs the secret 'token', which is not kept"):

        @tool(compensate=undo)
        def work(order: str, token: str) -> None: ...

    def undo_headers(headers: dict[str, str]) -> None: ...

    @tool(compensate=undo_headers)
    def send(headers: dict[str, str]) -> None: ...

    with pytest.raises(BadArgument, match="holds a secret"):
        send({"authorization": "hunter22"})
    assert b"hunter22" not in b"".join(value for _, value in kernel.store.scan(""))


def test_secrets_that_no_undo_takes_are_not_kept(kernel: Kernel) -> None:
    def undo(order: str, **more: Any) -> None:
        kernel.do("undo", order, more)

    @tool(compensate=undo, reconcile=lambda order, token: None)
    def work(order: str, token: str) -> int:
        return 1

    work("a", token="hunter22")
    kernel.task.compensate()
    assert kernel.done == [("undo", "a", {"result": 1})]
    assert b"hunter22" not in b"".join(value for _, value in kernel.store.scan(""))


@pytest.mark.parametrize(
    ("undo", "said"),
    [
        (lambda charge_id: None, "needs 'charge_id', which a call does not have; there is: order, result"),
        (lambda result, **_: None, None),
        (lambda other=1: None, None),
    ],
)
def test_parameters_of_an_undo_are_checked_when_the_tool_is_defined(undo: Any, said: str | None) -> None:
    def work(order: str) -> None: ...

    if said is None:
        assert tool(work, compensate=undo)
    else:
        with pytest.raises(UsageError, match=said):
            tool(work, compensate=undo)


def test_a_tool_that_is_not_defined_in_this_kernel_is_named(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    charge = shop(kernel)
    kernel.step("buy", lambda: charge("a"))
    monkeypatch.setattr("resumable_nb.tooldef._ASKED_LATER", {})
    kernel.again()
    with pytest.raises(
        UsageError, match=r"charge\(order='a', amount=3\) is to be undone by refund, and no tool 'charge'"
    ):
        kernel.task.compensate("buy")
    shop(kernel)
    kernel.task.compensate()
    assert kernel.done == [("charge", "a"), ("refund", "a", 1)]


def test_a_step_cannot_be_undone_from_inside(kernel: Kernel) -> None:
    charge = shop(kernel)

    def inside() -> None:
        charge("a")
        kernel.task.compensate("buy")

    with pytest.raises(UsageError, match="is executing, and cannot be undone from inside"):
        kernel.step("buy", inside)
    kernel.step("buy", lambda: charge("a"))
    kernel.step("other", lambda: kernel.task.compensate("buy"))
    assert kernel.done == [("charge", "a"), ("refund", "a", 1)]
    assert (kernel.status("buy"), kernel.status("other")) == ("compensated", "done")


def test_forgetting_the_task_forgets_its_rollback(kernel: Kernel) -> None:
    charge = shop(kernel, compensate=lambda order: 1 / 0)
    kernel.step("buy", lambda: charge("a"))
    with pytest.raises(ZeroDivisionError):
        kernel.task.compensate()
    kernel.session.forget()
    assert charge("a") == 2


@pytest.mark.parametrize("ask", ["compensate", "ask"])
def test_a_call_that_is_still_at_work_is_not_judged(kernel: Kernel, ask: str) -> None:
    """Its receiver knows nothing of it yet; told that it did not happen, we would lose what it then does."""
    go_on = threading.Event()
    undone: list[str] = []

    @tool(timeout_s=0.01, compensate=lambda order: undone.append(order), reconcile=lambda _order: NotHappened())
    def charge(order: str) -> int:
        go_on.wait()
        return int(kernel.do("charge", order))

    with pytest.raises(TimeoutError):
        kernel.step("pay", lambda: charge("o1"))
    (call,) = kernel.session.journal.calls()
    with pytest.raises(InDoubt, match="still at work"):
        kernel.task.compensate() if ask == "compensate" else kernel.task.ask(call.id)
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "resumable-tool":
            thread.join()
    assert kernel.calls() == [("charge", "done")]
    kernel.task.compensate()
    assert (kernel.done, undone) == ([("charge", "o1")], ["o1"])


# --- asked without its cell


def gone(kernel: Kernel, answer: object, **options: Any) -> Callable[..., Any]:
    """A tool whose calls are cut off, and a function that defines it as the next kernel does."""
    asked = kernel.done

    def lookup(*args: Any, **more: Any) -> object:
        asked.append((args, more))
        return answer

    @tool(reconcile=lookup, **options)
    def charge(order: Any, amount: int = 3, **more: Any) -> int:
        raise ConnectionError

    return charge


@pytest.mark.parametrize(
    ("answer", "status", "later"),
    [(Happened({"id": 7}), "done", {"id": 7}), (NotHappened(), "failed", ConnectionError)],
)
def test_a_tool_is_asked_without_its_cell(kernel: Kernel, answer: object, status: str, later: Any) -> None:
    charge = gone(kernel, answer)
    lost(kernel, lambda: charge(["a", None], note="n"))
    (call,) = kernel.session.journal.calls()
    kernel.again()
    settled = kernel.task.ask(call.id[:8])
    assert (settled.status, settled.resolved) == (status, "reconcile")
    assert kernel.done == [((["a", None], 3), {"note": "n"})]
    with pytest.raises(UsageError, match=f"is {status}, not in doubt"):
        kernel.task.ask(call.id)
    if later is ConnectionError:
        lost(kernel, lambda: charge(["a", None], note="n"))
    else:
        assert kernel.step("buy", lambda: charge(["a", None], note="n")) == later
    assert len(kernel.done) == 1


async def test_an_async_tool_is_asked_without_its_cell(kernel: Kernel) -> None:
    async def lookup(order: str) -> Happened:
        return Happened(order.upper())

    @tool(reconcile=lookup)
    async def charge(order: str) -> str:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await charge("a")
    (call,) = kernel.session.journal.calls()
    kernel.task.ask(call.id)
    assert await charge("a") == "A"


def test_who_does_not_know_leaves_the_doubt(kernel: Kernel) -> None:
    charge = gone(kernel, None)
    lost(kernel, lambda: charge("a"))
    (call,) = kernel.session.journal.calls()
    with pytest.raises(InDoubt):
        kernel.task.ask(call.id)
    assert [each.status for each in kernel.session.journal.calls()] == ["intent"]


def test_a_tool_that_is_to_be_asked_has_to_be_defined(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    charge = gone(kernel, NotHappened())
    lost(kernel, lambda: charge("a"))
    (call,) = kernel.session.journal.calls()
    monkeypatch.setattr("resumable_nb.tooldef._ASKED_LATER", {})
    with pytest.raises(UsageError, match="no tool 'charge' with reconcile= is defined in this kernel"):
        kernel.task.ask(call.id)
    gone(kernel, NotHappened())
    assert kernel.task.ask(call.id).status == "failed"


class Http:
    """Holds a secret two objects deep, under a name that says so."""

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers


class Account:
    def __init__(self, headers: dict[str, str]) -> None:
        self.http = Http(headers)


@pytest.mark.parametrize(
    ("order", "more"),
    [
        ("a", {"token": "hunter22"}),
        ({"Authorization": "hunter22"}, {}),
        (Account({"Authorization": "hunter22"}), {}),
        ("https://me:hunter22@shop/a", {}),
        ("x" * 300_000, {}),
    ],
    ids=["named", "header", "in an object", "in a URL", "large"],
)
def test_secrets_and_large_arguments_are_not_kept_for_asking(kernel: Kernel, order: Any, more: dict[str, str]) -> None:
    charge = gone(kernel, NotHappened())
    lost(kernel, lambda: charge(order, **more))
    (call,) = kernel.session.journal.calls()
    with pytest.raises(UsageError, match=r"the arguments of charge\(.*\) were not kept") as caught:
        kernel.task.ask(call.id)
    assert "\n" not in str(caught.value)
    stored = b"".join(value for _, value in kernel.store.scan(""))
    assert b"hunter22" not in stored
    assert b"x" * 1000 not in stored


def test_what_a_reconcile_needs_and_an_undo_does_not_may_be_a_secret(kernel: Kernel) -> None:
    charge = gone(kernel, NotHappened(), compensate=lambda order: None)
    lost(kernel, lambda: charge("a", token="hunter22"))
    (call,) = kernel.session.journal.calls()
    with pytest.raises(InDoubt, match="reconcile= needs token, which was not kept"):
        kernel.task.ask(call.id)
    assert kernel.done == []


def test_kept_arguments_are_garbage_when_the_call_is_settled(kernel: Kernel) -> None:
    charge = tool(lambda order: order, name="charge", reconcile=lambda order: None)
    charge("a")
    (call,) = kernel.session.journal.calls()
    assert call.undo == ""
