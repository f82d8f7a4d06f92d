"""What a call of a ``@tool`` does, given what the journal says."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import pytest

from resumable_nb import scope, tools
from resumable_nb.errors import BadArgument, InDoubt, LeaseLost, UsageError, ValueUnavailable
from resumable_nb.events import Event
from resumable_nb.scope import StepScope
from resumable_nb.tools import CollapseWarning, Happened, NotHappened, resolve_call, tool
from tests.bench import Bench, Effect


class Boom(Exception):
    """An error of the user's."""


# --- answered from the journal


def test_result_is_returned_again_in_the_next_kernel(bench: Bench, effect: Effect) -> None:
    @tool
    def send(to: str) -> dict[str, int]:
        return {"n": effect(to)}

    assert send("a") == {"n": 1}
    bench.restart()
    assert send("a") == {"n": 1}
    assert send("b") == {"n": 2}
    assert effect.calls == ["a", "b"]


def test_argument_order_and_defaults_do_not_matter(bench: Bench, effect: Effect) -> None:
    @tool
    def send(to: str, amount: int = 3, **more: object) -> int:
        return effect(to)

    send("a")
    bench.restart()
    assert send(amount=3, to="a") == 1
    bench.restart()
    send("a", x={"p": 1, "q": 2})
    bench.restart()
    assert send("a", x={"q": 2, "p": 1}) == 2
    assert len(effect) == 2


def test_a_keyword_named_like_a_positional_parameter_counts_too(bench: Bench, effect: Effect) -> None:
    @tool
    def send(a: int, /, **more: int) -> int:
        return effect((a, more))

    assert [send(1, a=2), send(2, a=2), send(2)] == [1, 2, 3]


def test_none_is_a_value(bench: Bench, effect: Effect) -> None:
    @tool
    def send(to: str) -> None:
        effect(to)

    assert send("a") is None
    bench.restart()
    assert send("a") is None
    assert len(effect) == 1


def test_each_answer_is_a_fresh_copy(bench: Bench) -> None:
    """Neither what the caller does to the first result nor to an answer changes the next answer."""

    @tool
    def read() -> list[int]:
        return [1]

    read().append(2)
    bench.restart()
    first = read()
    first.append(3)
    bench.restart()
    assert read() == [1]


def test_no_desk_is_asked_for_before_the_first_call() -> None:
    def provider() -> tools.Desk:
        raise UsageError("asked")

    tools.use(provider)

    @tool
    def send() -> None: ...

    with pytest.raises(UsageError, match="asked"):
        send()


def test_version_makes_the_call_anew(bench: Bench, effect: Effect) -> None:
    for version in ("", "2", "2"):
        tool(lambda: effect("x"), name="send", version=version)()
        bench.restart()
    assert len(effect) == 2


def test_source_does_not_count(bench: Bench, effect: Effect) -> None:
    tool(lambda: effect("x"), name="send")()
    bench.restart()
    assert tool(lambda: effect("y") and 0, name="send")() == 1


def test_key_names_and_ignore_shape_the_identity(bench: Bench, effect: Effect) -> None:
    @tool(key="order")
    def by_name(order: int, at: float) -> int:
        return effect(order)

    @tool(key=lambda order, at: order % 10)
    def by_function(order: int, at: float) -> int:
        return effect(order)

    @tool(ignore=["at"])
    def without(order: int, at: float) -> int:
        return effect(order)

    for send in (by_name, by_function, without):
        assert send(1, 0.5) == len(effect)
        bench.restart()
        assert send(1, 0.7) == len(effect)
        send(2, 0.5)
        bench.restart()
    assert by_function(12, 0.1) == 4
    assert len(effect) == 6


def test_methods_count_self(bench: Bench, effect: Effect) -> None:
    class Mailer:
        def __init__(self, host: str) -> None:
            self.host = host

        @tool
        def send(self, to: str) -> int:
            return effect((self.host, to))

        @staticmethod
        @tool
        def ping(to: str) -> int:
            return effect(to)

    assert Mailer("a").send("x") == 1
    assert Mailer("b").send("x") == 2
    bench.restart()
    assert Mailer("a").send("x") == 1
    assert Mailer.ping("x") == Mailer("a").ping(to="y") - 1 == 3
    assert {call.tool for call in bench.journal.calls()} == {"Mailer.send", "Mailer.ping"}


def test_an_iterator_as_argument_is_refused_by_name(bench: Bench, effect: Effect) -> None:
    @tool
    def send(rows: object) -> int:
        return effect(rows)

    with pytest.raises(BadArgument, match="rows"):
        send(iter([1, 2]))
    assert len(effect) == 0
    assert bench.journal.calls() == []


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"n": 1}), ((1,), {"too": 1}), ((1, 2), {"a b": 3})],
)
async def test_arguments_that_do_not_fit_are_pythons_own_error_and_leave_no_trace(
    bench: Bench, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    def send(n: int, /, m: int = 2, *, to: "list[str]", more: object = bench) -> None: ...  # noqa: UP037  # as users do

    def keyed(n: int, /, m: int = 2, *, to: str, more: object = bench, idempotency_key: str) -> None: ...

    async def later(n: int, /, m: int = 2, *, to: str, more: object = bench) -> None: ...

    async def call(made: Any, **key: str) -> None:
        await made(*args, **kwargs, **key)

    with pytest.raises(TypeError) as own:
        send(*args, **kwargs)
    for function, key in ((send, {}), (keyed, {}), (keyed, {"idempotency_key": "k"}), (later, {})):
        with pytest.raises(TypeError) as caught:
            await call(tool(function), **key)
        assert str(caught.value) == str(own.value).replace("send", function.__name__)
        # IPython leaves out frames that are marked so.
        assert all(frame.locals.get("__tracebackhide__") for frame in caught.traceback[2:])
    assert bench.journal.calls() == []


async def test_an_error_of_a_key_function_is_its_own(bench: Bench) -> None:
    @tool(key=lambda n: n + "a")
    def send(n: int) -> None: ...

    with pytest.raises(TypeError, match="unsupported operand") as caught:
        send(1)
    assert caught.traceback[-1].name == "<lambda>"


# --- identical calls


def test_each_call_makes_identical_calls_distinct(bench: Bench, effect: Effect) -> None:
    @tool(each_call=True)
    def poll() -> int:
        return effect("poll")

    for _ in range(2):
        with scope.entered(StepScope("s")):
            assert [poll() for _ in range(3)] == [1, 2, 3]
        bench.restart()
    with scope.entered(StepScope("other")):
        assert poll() == 4
    assert [(call.step, call.k, call.n) for call in bench.journal.calls()] == [
        ("other", 0, 0), ("s", 0, 0), ("s", 1, 1), ("s", 2, 2),
    ]  # fmt: skip


class Pause:
    """At a safe point: tasks wait, and go on in the opposite order, or not at all."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        self.over = False

    async def __call__(self, where: str) -> None:
        if self.over:
            return
        self.waiting.append(asyncio.get_running_loop().create_future())
        await self.waiting[-1]

    async def end(self, tasks: int, error: Exception | None = None) -> None:
        while len(self.waiting) < tasks:
            await asyncio.sleep(0)
        self.over = True
        while self.waiting:
            each = self.waiting.pop()
            each.set_result(None) if error is None else each.set_exception(error)
            for _ in range(5):
                await asyncio.sleep(0)


async def test_a_pause_does_not_change_which_of_identical_calls_is_whose(bench: Bench, effect: Effect) -> None:
    @tool(each_call=True)
    async def draw() -> int:
        return effect("draw")

    pause = Pause()
    object.__setattr__(bench.made, "checkpoint_async", pause)
    with scope.entered(StepScope(id="step")):
        drawn, _ = await asyncio.gather(asyncio.gather(*(draw() for _ in range(4))), pause.end(4))
    assert drawn == [4, 3, 2, 1]
    bench.restart()
    with scope.entered(StepScope(id="step")):
        assert await asyncio.gather(*(draw() for _ in range(4))) == drawn


async def test_calls_that_a_stop_kept_from_beginning_leave_no_gap(bench: Bench, effect: Effect) -> None:
    """The next kernel counts from the first call on, and must find each."""

    @tool(each_call=True)
    async def draw() -> int:
        return effect("draw")

    assert await draw() == 1
    pause = Pause()
    object.__setattr__(bench.made, "checkpoint_async", pause)
    stopped, _ = await asyncio.gather(
        asyncio.gather(*(draw() for _ in range(3)), return_exceptions=True), pause.end(3, RuntimeError("stop"))
    )
    assert {str(each) for each in stopped} == {"stop"}
    assert [await draw(), await draw()] == [2, 3]
    assert {call.k for call in bench.journal.calls()} == {0, 1, 2}


async def test_a_number_that_was_given_back_is_not_used_while_later_ones_stand(bench: Bench, effect: Effect) -> None:
    """Two calls with one number would be one call."""

    @tool(each_call=True)
    async def draw() -> int:
        return effect("draw")

    pause = Pause()
    object.__setattr__(bench.made, "checkpoint_async", pause)
    first, second = (asyncio.create_task(draw()) for _ in range(2))
    while len(pause.waiting) < 2:
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    pause.waiting.pop(0)
    await asyncio.gather(second, pause.end(1))
    assert [second.result(), await draw()] == [1, 2]
    assert {call.k for call in bench.journal.calls()} == {1, 2}


def test_a_collapse_warns_once_and_names_each_call(bench: Bench, effect: Effect) -> None:
    @tool(name="collapsing")
    def send(to: str) -> int:
        return effect(to)

    send("a")
    with pytest.warns(CollapseWarning, match="each_call") as caught:
        assert send("a") == 1
    assert caught[0].filename == __file__
    assert send("a") == 1
    assert bench.kinds().count("call.collapsed") == 2


def test_answers_of_earlier_runs_and_executions_do_not_warn(bench: Bench, effect: Effect) -> None:
    @tool(name="not_collapsing")
    def send(to: str) -> int:
        return effect(to)

    send("a")
    scope.reset()
    send("a")
    bench.restart()
    send("a")
    send("a")
    assert "call.collapsed" not in bench.kinds()


def test_calls_are_journalled_under_their_step_without_gaps(bench: Bench, effect: Effect) -> None:
    @tool
    def send(to: object) -> int:
        return effect(to)

    send(0)
    with scope.entered(StepScope("a")):
        send(1)
        with scope.entered(StepScope("a/b")):
            send(2)
        send(3)
    assert [(call.step, call.n) for call in bench.journal.calls()] == [("", 0), ("a", 0), ("a", 1), ("a/b", 0)]
    assert [call.arguments for call in bench.journal.calls("a")] == [{"to": "1"}, {"to": "3"}]


# --- failures


def test_a_failed_call_is_made_again(bench: Bench, effect: Effect) -> None:
    @tool
    def send(to: str) -> int:
        if effect(to) == 1:
            raise Boom("no")
        return len(effect)

    with pytest.raises(Boom):
        send("a")
    assert (bench.only().status, bench.only().error) == ("failed", "Boom: no")
    bench.restart()
    assert send("a") == 2
    assert [attempt.error for attempt in bench.only().attempts] == ["Boom: no", ""]


def test_the_error_is_the_users_own_with_the_users_traceback(bench: Bench) -> None:
    raised = Boom("no")

    @tool
    def send() -> None:
        raise raised

    with pytest.raises(Boom) as caught:
        send()
    assert caught.value is raised
    names = [frame.name for frame in caught.traceback]
    assert names[-1] == "send"
    assert len(names) <= 4


def test_a_terminal_error_is_memoised(bench: Bench, effect: Effect) -> None:
    @tool(terminal=LookupError)
    def find(what: str) -> int:
        effect(what)
        raise KeyError(what)

    for _ in range(2):
        with pytest.raises(KeyError, match="x"):
            find("x")
        bench.restart()
    assert len(effect) == 1


def failing(effect: Effect, message: str = "x") -> tuple[Callable[[], None], type[Exception], type[Exception]]:
    """A tool whose errors are classes of a function, made anew in each kernel."""

    class Gone(Exception):
        def __init__(self, what: str) -> None:
            super().__init__(what)
            self.what = what

    class Sold(Gone): ...

    @tool(terminal=Gone)
    def buy() -> None:
        effect(message)
        raise Sold(message)

    return buy, Gone, Sold


@pytest.mark.parametrize("saved", [True, False])
def test_a_terminal_error_of_a_class_that_is_made_anew_is_memoised(
    bench: Bench, effect: Effect, monkeypatch: pytest.MonkeyPatch, saved: bool
) -> None:
    if not saved:
        monkeypatch.setattr("resumable_nb.result.codec.dumps_value", lambda value: 1 / 0)
    for _ in range(3):
        buy, gone, sold = failing(effect)
        with pytest.raises(gone) as caught:
            buy()
        assert str(caught.value) == "x"
        if saved:
            assert (type(caught.value), caught.value.what) == (sold, "x")  # type: ignore[attr-defined]  # set at run time
        bench.restart()
    assert len(effect) == 1


def handled(find: Callable[[str], int], after: Callable[[], Any]) -> str:
    try:
        find("x")
    except Boom:
        after()
        return "handled"
    return "found"


def test_a_handled_error_replays_while_the_step_continues(bench: Bench, effect: Effect) -> None:
    @tool
    def find(what: str) -> int:
        if effect(what) == 1:
            raise Boom(what)
        return 0

    @tool
    def after() -> int:
        return 7

    with scope.entered(StepScope("s")):
        assert handled(find, after) == "handled"
    bench.restart()
    with scope.entered(StepScope("s", continuing=True)):
        assert handled(find, after) == "handled"
    assert len(effect) == 1
    bench.restart()
    with scope.entered(StepScope("s", continuing=False)):
        assert handled(find, after) == "found"


def test_an_error_of_this_execution_is_not_replayed_to_itself(bench: Bench, effect: Effect) -> None:
    """A continued step that tries again in its own loop makes the call again."""

    @tool
    def find(what: str) -> int:
        if effect(what) == 1:
            raise Boom(what)
        return 0

    @tool
    def after() -> int:
        return 7

    with scope.entered(StepScope("s", continuing=True)):
        assert handled(find, after) == "handled"
        assert handled(find, after) == "found"


def test_an_escaped_error_is_called_again(bench: Bench, effect: Effect) -> None:
    @tool
    def find(what: str) -> int:
        if effect(what) == 1:
            raise Boom(what)
        return 0

    @tool
    def later() -> int:
        return 7

    inner = StepScope("s")
    with scope.entered(inner), pytest.raises(Boom) as caught:
        find("x")
    (failed,) = bench.journal.calls("s")
    assert inner.failures.unhandled(caught.value) == {failed.id}
    with scope.entered(inner):
        later()
    bench.journal.fail_step(step_record("s"), [failed.id])
    bench.restart()
    with scope.entered(StepScope("s", continuing=True)):
        assert find("x") == 0


def test_an_error_that_cannot_be_pickled_replays_by_type_and_message(bench: Bench, effect: Effect) -> None:
    @tool(terminal=Boom)
    def find() -> None:
        effect("x")
        error = Boom("no")
        error.lock = threading.Lock()  # type: ignore[attr-defined]  # set at run time
        raise error

    for _ in range(2):
        with pytest.raises(Boom, match="no"):
            find()
        bench.restart()
    assert len(effect) == 1


def test_two_tools_of_one_factory_do_not_answer_for_each_other(bench: Bench, effect: Effect) -> None:
    """``mail`` and ``sms`` are two tools, and one name for both would lose an effect."""

    def make(channel: str) -> Any:
        @tool
        def send(text: str) -> None:
            effect((channel, text))

        return send

    mail, sms = make("mail"), make("sms")
    with pytest.raises(UsageError, match="give each its own name"):
        mail("hello")
    del sms
    mail("hello")
    assert len(effect) == 1


def test_what_a_user_settled_can_be_settled_otherwise(bench: Bench, effect: Effect) -> None:
    """A wrong or forgotten value must not stay for ever."""

    @tool
    def pay(order: str) -> int:
        effect(order)
        raise ConnectionError("cut off")

    with pytest.raises(ConnectionError):
        pay("o1")
    call = bench.only().id
    for value in (None, 7):
        bench.restart()
        resolve_call(bench.journal, call, True, value)
        assert pay("o1") == value
    assert len(effect) == 1


# --- in doubt


DEATHS = [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, ConnectionError, TimeoutError, OSError]


@pytest.mark.parametrize("error", DEATHS, ids=lambda e: e.__name__)
@pytest.mark.parametrize("again", ["same kernel", "next kernel"])
def test_what_may_have_happened_is_never_repeated(
    bench: Bench, effect: Effect, error: type[BaseException], again: str
) -> None:
    @tool
    def pay(order: str) -> int:
        effect(order)
        raise error("cut off")

    with pytest.raises(error):
        pay("o1")
    if again == "next kernel":
        bench.restart()
    with pytest.raises(InDoubt) as caught:
        pay("o1")
    assert len(effect) == 1
    message, record = str(caught.value), bench.only()
    assert record.status == "intent"
    assert "cut off" in record.doubt
    for fact in ("pay(order='o1')", "pid 4001 on here", "run-1", f"%resumable resolve {record.id} happened", "2023-"):
        assert fact in message
    assert caught.value.id == record.id


@pytest.mark.parametrize("error", DEATHS, ids=lambda e: e.__name__)
def test_a_repeatable_tool_is_called_again_with_the_same_key(
    bench: Bench, effect: Effect, error: type[BaseException]
) -> None:
    @tool(repeatable=True)
    def pay(order: str, *, idempotency_key: str) -> int:
        if effect(idempotency_key) == 1:
            raise error("cut off")
        return len(effect)

    with pytest.raises(error):
        pay("o1")  # type: ignore[call-arg]  # the key is filled in
    bench.restart()
    assert pay("o1") == 2  # type: ignore[call-arg]  # the key is filled in
    assert len(set(effect.calls)) == 1
    assert bench.only().idempotency_key == effect.calls[0]


def test_the_callers_own_key_is_passed_on_and_does_not_count(bench: Bench, effect: Effect) -> None:
    @tool
    def pay(order: str, idempotency_key: str = "") -> int:
        return effect(idempotency_key)

    assert pay("o1", idempotency_key="mine") == 1
    bench.restart()
    assert pay("o1", idempotency_key="another") == pay("o1") == 1
    assert effect.calls == ["mine"]


def test_the_key_of_the_call_in_doubt_wins_over_a_new_one(bench: Bench, effect: Effect) -> None:
    @tool(repeatable=True)
    def pay(order: str, idempotency_key: str = "") -> int:
        if effect(idempotency_key) == 1:
            raise KeyboardInterrupt
        return 0

    with pytest.raises(KeyboardInterrupt):
        pay("o1", idempotency_key="first")
    pay("o1", idempotency_key="second")
    assert effect.calls == ["first", "first"]


def test_an_error_wrapped_round_a_lost_connection_is_in_doubt(bench: Bench) -> None:
    @tool
    def pay() -> None:
        try:
            raise ConnectionResetError
        except ConnectionError as error:
            raise Boom("sdk") from error

    with pytest.raises(Boom):
        pay()
    with pytest.raises(InDoubt):
        pay()


def test_unsure_and_retry_on_say_what_an_error_means(bench: Bench, effect: Effect) -> None:
    @tool(unsure=Boom)
    def unsure() -> None:
        raise Boom("?")

    @tool(retry_on=ConnectionRefusedError)
    def refused() -> None:
        effect("x")
        raise ConnectionRefusedError

    with pytest.raises(Boom) as caught:
        unsure()
    assert "in doubt" in caught.value.__notes__[0]
    with pytest.raises(InDoubt):
        unsure()
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            refused()
    assert len(effect) == 2


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [(Happened({"n": 5}), {"n": 5}), (Happened(None), None), (NotHappened(), "called"), (None, InDoubt), (5, InDoubt)],
    ids=repr,
)
def test_reconcile_decides(bench: Bench, effect: Effect, answer: object, outcome: object) -> None:
    asked: list[Any] = []

    def look(order: str, amount: int, idempotency_key: str) -> object:
        asked.append((order, amount, idempotency_key))
        return answer

    @tool(reconcile=look)
    def pay(order: str, amount: int = 2, *, idempotency_key: str) -> str:
        if effect(idempotency_key) == 1:
            raise KeyboardInterrupt
        return "called"

    with pytest.raises(KeyboardInterrupt):
        pay("o1")  # type: ignore[call-arg]  # the key is filled in
    bench.restart()
    if outcome is InDoubt:
        with pytest.raises(InDoubt, match="answered 5" if answer else "may have happened"):
            pay("o1")  # type: ignore[call-arg]  # the key is filled in
        assert bench.only().status == "intent"
    else:
        assert pay("o1") == outcome  # type: ignore[call-arg]  # the key is filled in
        bench.restart()
        assert pay("o1") == outcome  # type: ignore[call-arg]  # the key is filled in
        assert bench.only().resolved == ("reconcile" if isinstance(answer, Happened) else "")
    assert asked == [("o1", 2, effect.calls[0])]
    assert len(effect) == (2 if outcome == "called" else 1)


def test_reconcile_that_fails_leaves_the_doubt(bench: Bench, effect: Effect) -> None:
    def look(order: str) -> object:
        raise Boom("offline")

    @tool(reconcile=look)
    def pay(order: str) -> None:
        effect(order)
        raise TimeoutError

    with pytest.raises(TimeoutError):
        pay("o1")
    with pytest.raises(InDoubt, match="offline") as caught:
        pay("o1")
    assert isinstance(caught.value.__cause__, Boom)
    assert len(effect) == 1


def test_the_user_resolves_a_call(bench: Bench, effect: Effect) -> None:
    @tool
    def pay(order: str) -> str:
        if effect(order) <= 2:
            raise KeyboardInterrupt
        return "paid"

    for order in ("o1", "o2"):
        with pytest.raises(KeyboardInterrupt):
            pay(order)
    first, second = bench.journal.calls()
    settled = resolve_call(bench.journal, first.id[:8], True, {"receipt": 1})
    assert (settled.status, settled.resolved) == ("done", "user")
    resolve_call(bench.journal, second.id, False)
    bench.restart()
    assert pay("o1") == {"receipt": 1}
    with scope.entered(StepScope("", continuing=True)):
        assert pay("o2") == "paid"


def test_what_cannot_be_resolved_is_said_in_one_line(bench: Bench, effect: Effect) -> None:
    @tool
    def pay(order: str) -> int:
        return effect(order)

    pay("o1")
    done = bench.only().id
    for call, says in ((done, "is done, not in doubt"), ("0" * 12, "no call"), (done[:5], "too short")):
        with pytest.raises(UsageError, match=says) as caught:
            resolve_call(bench.journal, call, False)
        assert "\n" not in str(caught.value)
    assert bench.only().status == "done"


def test_a_call_that_is_executing_cannot_be_resolved(bench: Bench) -> None:
    @tool
    def pay() -> str:
        with pytest.raises(UsageError, match="executing"):
            resolve_call(bench.journal, bench.only().id, False)
        return "paid"

    assert pay() == "paid"


def test_without_its_lease_the_kernel_calls_nothing(bench: Bench, effect: Effect) -> None:
    @tool(repeatable=True)
    def read(what: str) -> int:
        return effect(what)

    @tool
    def pay(what: str) -> int:
        return effect(what)

    bench.fence.lost = True
    for call in (read, pay):
        with pytest.raises(LeaseLost):
            call("x")
    assert len(effect) == 0


# --- results


def test_a_result_that_cannot_be_saved_is_given_once_and_never_made_again(bench: Bench, effect: Effect) -> None:
    @tool
    def connect(to: str) -> object:
        effect(to)
        return threading.Lock()

    assert isinstance(connect("db"), type(threading.Lock()))
    for _ in range(2):
        bench.restart()
        with pytest.raises(ValueUnavailable, match=r"connect\(to='db'\) is done") as caught:
            connect("db")
        assert "resolve" in str(caught.value)
    assert len(effect) == 1
    resolve_call(bench.journal, bench.only().id, True, "spare")
    assert connect("db") == "spare"


def test_a_function_that_forgot_async_has_done_nothing(bench: Bench) -> None:
    async def work() -> None: ...

    with pytest.raises(UsageError, match="async def"):
        tool(lambda: work(), name="work")()
    assert bench.only().status == "failed"


def test_secrets_are_nowhere_in_the_store_nor_in_errors(bench: Bench) -> None:
    """Neither as argument, nor in a message, nor in the result's preview; they do count for the identity."""
    hush = "hunter2-hunter2"

    @tool(secret=["pin"], terminal=Boom)
    def login(user: str, password: str, pin: str, headers: dict[str, str]) -> None:
        raise Boom(f"bad password {password} or pin {pin} in {headers['Authorization']}")

    @tool
    def echo(api_key: str) -> int:
        raise KeyboardInterrupt(f"while sending {api_key}")

    for _ in range(2):
        with pytest.raises(Boom):
            login("ann", hush, hush + "9", {"Authorization": f"Bearer {hush}"})
        bench.restart()
    with pytest.raises(KeyboardInterrupt):
        echo(hush)
    with pytest.raises(InDoubt) as caught:
        echo(hush)
    assert hush not in str(caught.value) + repr(caught.value.facts)
    assert b"hunter2" not in bench.raw()
    assert bench.journal.calls()[0].arguments["user"] == "'ann'"
    with pytest.raises(KeyboardInterrupt):
        echo("another one")


# --- retries


def test_retries_wait_longer_each_time_and_are_journalled(bench: Bench, effect: Effect) -> None:
    @tool(retries=3, retry_on=Boom, backoff=1.0)
    def pay(order: str) -> str:
        if effect(order) < 4:
            raise Boom(str(len(effect)))
        return "paid"

    assert pay("o1") == "paid"
    assert [attempt.error for attempt in bench.only().attempts] == ["Boom: 1", "Boom: 2", "Boom: 3", ""]
    assert [low <= s <= low + 1 for low, s in zip((1, 2, 4), bench.slept, strict=True)] == [True] * 3


def test_retries_end(bench: Bench, effect: Effect) -> None:
    @tool(retries=2, repeatable=True)
    def read() -> None:
        raise Boom(str(effect("x")))

    with pytest.raises(Boom, match="3"):
        read()
    assert len(bench.slept) == 2
    assert bench.only().status == "failed"


def test_ctrl_c_in_the_pause_leaves_no_doubt(bench: Bench, effect: Effect) -> None:
    @tool(retries=1, retry_on=Boom)
    def pay() -> str:
        if effect("x") == 1:
            raise Boom
        return "paid"

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    bench.made = functools.partial(type(bench.made), **{**vars(bench.made), "sleep": interrupt})()
    with pytest.raises(KeyboardInterrupt):
        pay()
    bench.restart()
    with scope.entered(StepScope("", continuing=True)):
        assert pay() == "paid"


def test_an_unsure_error_is_not_retried(bench: Bench, effect: Effect) -> None:
    @tool(retries=3, retry_on=Boom)
    def pay() -> None:
        effect("x")
        raise ConnectionError

    with pytest.raises(ConnectionError):
        pay()
    assert len(effect) == 1


# --- durability


@pytest.mark.parametrize(("repeatable", "durable"), [(False, 2), (True, 1)])
def test_fsyncs_of_a_call(bench: Bench, repeatable: bool, durable: int) -> None:
    @tool(repeatable=repeatable)
    def read(what: int) -> int:
        return what

    read(1)
    assert bench.commits()[True] == durable
    scope.reset()
    bench.events.clear()
    read(1)
    assert not bench.commits()


def test_each_try_of_an_effect_has_a_durable_intent(bench: Bench, effect: Effect) -> None:
    """The last durable record before an effect says that it may have happened; a pause says that it has not."""
    durable: list[str] = []

    @tool(retries=2, retry_on=Boom)
    def pay() -> str:
        durable.append(bench.only().status)
        assert bench.events[-2].facts == {"durable": True}
        if effect("x") < 3:
            raise Boom
        return "paid"

    pay()
    assert durable == ["intent"] * 3
    assert bench.commits() == {True: 4, False: 2}


def test_tools_of_one_name_in_two_modules_do_not_answer_for_each_other(bench: Bench, effect: Effect) -> None:
    def a_send(module: str) -> Callable[[], int]:
        def send() -> int:
            return effect(module)

        send.__module__ = module
        return tool(send)

    assert a_send("mail")() == 1
    with pytest.raises(UsageError, match="in mail and in sms"):
        a_send("sms")()


def test_a_tool_may_move_from_the_notebook_to_a_module(bench: Bench, effect: Effect) -> None:
    def a_send(module: str) -> Callable[[], int]:
        def send() -> int:
            return effect(module)

        send.__module__ = module
        return tool(send)

    assert a_send("__main__")() == 1
    scope.reset()
    assert a_send("mail")() == 1
    scope.reset()
    assert a_send("mail")() == 1


def test_a_tool_of_the_notebook_and_one_of_a_module_do_not_answer_for_each_other(bench: Bench) -> None:
    text = "def send(to): return __name__\nsend = tool(send)"
    notebook, module = ({"__name__": name, "tool": tool} for name in ("__main__", "mail"))
    exec(text, notebook)
    exec(text, module)
    assert notebook["send"](1) == "__main__"
    with pytest.raises(UsageError, match="two tools are called 'send', in __main__ and in mail"):
        module["send"](1)
    notebook["send"] = module["send"]
    assert module["send"](2) == "mail"


def test_a_failed_call_inside_a_tool_is_made_again_with_it(bench: Bench, effect: Effect) -> None:
    """Not replayed, though other calls came later: it was never the step that handled it."""

    @tool
    def inner() -> int:
        if effect("inner") == 1:
            raise Boom
        return 5

    @tool
    def other() -> None: ...

    @tool
    def outer() -> int:
        return inner()

    with scope.entered(StepScope("s")):
        with pytest.raises(Boom):
            outer()
        other()
    failed = [call.id for call in bench.journal.calls("s") if call.tool == "outer"]
    bench.journal.fail_step(step_record("s"), failed)
    bench.restart()
    with scope.entered(StepScope("s", continuing=True)):
        assert outer() == 5


# --- names, options, pickling


def test_unknown_options_name_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'repeatable'"):
        tool(repeatble=True)  # type: ignore[call-overload]  # no such option
    with pytest.raises(UsageError, match="did you mean 'order'"):
        tool(lambda order: None, name="x", ignore=["oder"])
    with pytest.raises(UsageError, match="retry_on="):
        tool(lambda: None, name="x", retries=2)


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    "bad",
    [generator, async_generator, bool, "name", lambda: None, staticmethod(generator), functools.partial(print, 1)],
    ids=["generator", "async generator", "class", "text", "lambda", "staticmethod", "partial"],
)
def test_what_cannot_be_a_tool_is_refused_when_it_is_said(bad: Any) -> None:
    with pytest.raises(UsageError):
        tool(bad)


@tool
def module_level(a: int) -> int:
    """Doc."""
    return a + 1


def test_a_tool_looks_like_its_function() -> None:
    @tool
    async def later(a: int) -> int:
        return a

    assert inspect.iscoroutinefunction(later)
    assert not inspect.iscoroutinefunction(module_level)
    assert (module_level.__name__, module_level.__doc__) == ("module_level", "Doc.")
    assert list(inspect.signature(module_level).parameters) == ["a"]
    assert module_level.tool.name == "module_level"  # type: ignore[attr-defined]  # set at run time
    assert later.tool.name == "later"  # type: ignore[attr-defined]  # set at run time


def test_a_tool_is_pickled_as_its_function_is(bench: Bench) -> None:
    assert pickle.loads(pickle.dumps(module_level)) is module_level

    @tool(retries=1, retry_on=ValueError)
    def local(a: int) -> int:
        return a + 1

    assert local(1) == 2
    scope.reset()
    again = cloudpickle.loads(cloudpickle.dumps(local))
    assert again.tool.retry == local.tool.retry  # type: ignore[attr-defined]  # set at run time
    assert again(1) == 2


def test_a_forked_process_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resumable_nb.tools.os.getpid", lambda: 1)
    with pytest.raises(UsageError, match="forked"):
        module_level(1)


def test_drift_and_compensation_are_recorded(bench: Bench) -> None:
    @tool
    def refund(order: str) -> None: ...

    @tool(compensate=refund)
    def pay(order: str) -> None: ...

    pay("o1")
    assert bench.only().compensate == "refund"
    assert bench.only().source


def step_record(step: str) -> Any:
    from resumable_nb.model import StepKey, StepRecord

    return StepRecord(
        id=step, name=step, version=1, status="failed", key=StepKey(source="s"), run="r", why="", started_at=0.0
    )


@pytest.mark.parametrize("fails", [False, True])
def test_an_outcome_whose_commit_is_interrupted_is_recorded_all_the_same(bench: Bench, fails: bool) -> None:
    @tool
    def send(n: int) -> int:
        if fails:
            raise Boom(n)
        return n

    interrupts = iter([KeyboardInterrupt])

    def interrupt(event: Event) -> None:
        if event.kind == "call.result" and (error := next(interrupts, None)):
            raise error

    bench.bus.listen(interrupt)
    with pytest.raises(KeyboardInterrupt):
        send(1)
    assert (bench.only().status, bench.only().preview) == (("failed", "") if fails else ("done", "1"))
