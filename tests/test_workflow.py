"""Functions as the steps of a task: what is run, skipped, handed on, and committed when."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from resumable_nb import SavePolicy, Task, scope, session, tool
from resumable_nb.errors import UsageError
from resumable_nb.memory import Memory

FACTOR = 10


def ran(*what: object) -> None:
    """Into a file: a list that the functions reach would be something that they depend on."""
    with Path("ran").open("a") as file:
        print(*what, file=file)


def what_ran(forget: bool = False) -> list[str]:
    lines = Path("ran").read_text().splitlines()
    if forget:
        Path("ran").unlink()
    return lines


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RESUMABLE_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    session._serve()
    yield tmp_path
    session.close()
    scope.reset()


def fetch(start: int = 1) -> list[int]:
    ran("fetch")
    return [start, start + 1]


def process(rows: list[int]) -> list[int]:
    ran("process")
    rows[:] = [row * FACTOR for row in rows]
    return rows


def save(rows: list[int]) -> int:
    ran("save")
    return sum(rows)


STEPS: list[Callable[..., Any]] = [fetch, process, save]


def test_each_function_is_given_the_result_of_the_one_before() -> None:
    task = Task("sums", STEPS)
    assert task.status == "pending"
    assert task.run() == 30
    assert task.status == "completed"
    assert task.step_names == ("fetch", "process", "save")
    assert list(task.steps().status) == ["done"] * 3


def test_done_steps_are_skipped_and_their_results_come_back() -> None:
    assert [Task("sums", STEPS).run() for _ in range(3)] == [30] * 3
    assert what_ran() == ["fetch", "process", "save"]


def test_another_value_or_function_runs_what_depends_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Task("sums", STEPS).run()
    assert Task("sums", STEPS).run(2) == 50
    monkeypatch.setattr("tests.test_workflow.FACTOR", 100)
    what_ran(forget=True)
    assert Task("sums", STEPS).run(2) == 500
    assert what_ran() == ["process", "save"]


@pytest.mark.parametrize(
    "result",
    [None, False, [], {"a": (1, 2)}, json.dumps, json],
    ids=["None", "False", "[]", "dict", "function", "module"],
)
def test_any_result_is_a_value(result: Any) -> None:
    def make() -> Any:
        ran("make")
        return result

    def take(value: Any) -> Any:
        return value

    for _ in range(2):
        assert Task("any", [make, take]).run() == result
    assert what_ran() == ["make"]


def test_a_result_that_cannot_be_saved_is_made_again() -> None:
    def lines() -> Any:
        ran("lines")
        return (each for each in "ab")

    def join(each: Any) -> str:
        ran("join")
        return "".join(each)

    for _ in range(2):
        assert Task("lines", [lines, join]).run() == "ab"
    assert what_ran() == ["lines", "join", "lines"]


def test_a_step_that_fails_is_where_the_next_run_goes_on() -> None:
    @tool
    def charge(amount: int) -> int:
        ran(f"charge {amount}")
        return amount

    def pay(rows: list[int]) -> list[int]:
        paid = [charge(row) for row in rows]
        if Path("broken").exists():
            raise ValueError("lost")
        return paid

    Path("broken").touch()
    task = Task("pay", [fetch, pay, save])
    with pytest.raises(ValueError, match="lost"):
        task.run()
    assert task.status == "failed"
    Path("broken").unlink()
    assert Task("pay", [fetch, pay, save]).run() == 3
    assert what_ran() == ["fetch", "charge 1", "charge 2", "save"]
    assert list(task.history().step) == ["pay", "pay"]


def test_async_steps_run_by_themselves_and_in_a_loop() -> None:
    async def double(rows: list[int]) -> list[int]:
        await asyncio.sleep(0)
        ran("double")
        return [2 * row for row in rows]

    steps = [fetch, double, save]
    assert Task("one", steps).run() == 6

    async def outer() -> None:
        with pytest.raises(UsageError, match=r"`await task.arun\(\)`"):
            Task("two", steps).run()
        assert await Task("two", steps).arun() == 6
        assert await Task("two", steps).arun() == 6

    asyncio.run(outer())
    assert what_ran().count("double") == 2


def test_tasks_that_run_side_by_side_keep_their_calls_apart() -> None:
    started = asyncio.Event()

    @tool
    async def call(name: str) -> str:
        await asyncio.sleep(0)
        return name

    async def first() -> str:
        started.set()
        await asyncio.sleep(0)
        return await call("first")

    async def second() -> str:
        await started.wait()
        return await call("second")

    one, two = Task("one", [first]), Task("two", [second])

    async def both() -> list[str]:
        return list(await asyncio.gather(one.arun(), two.arun()))

    assert asyncio.run(both()) == ["first", "second"]
    assert [list(each.history().value) for each in (one, two)] == [["first"], ["second"]]


def test_threads_of_a_step_belong_to_its_task() -> None:
    @tool
    def call(n: int) -> int:
        return n

    def work() -> None:
        thread = threading.Thread(target=call, args=(1,))
        thread.start()
        thread.join()

    task = Task("threads", [work])
    task.run()
    assert list(task.history().step) == ["work"]


def test_the_open_task_stays_open() -> None:
    notebook = session.task("notebook")
    Task("other", STEPS).run()
    assert session.task().name == "notebook"
    assert notebook.steps().empty


def test_a_task_that_is_open_is_the_same_one() -> None:
    opened = session.task("sums")
    opened.memory.append({"a": 1})
    assert Task("sums", STEPS).run() == 30
    assert len(opened.steps()) == 3
    assert session.task("sums").name == "sums"


def test_task_and_memory_are_given_by_name() -> None:
    def greet(name: str, memory: Memory, *, task: Task) -> str:
        memory.append({"role": "user", "content": name})
        return f"{task.name} {name}"

    def count(memory: Memory) -> int:
        return len(memory)

    task = Task("chat", [greet, count])
    for _ in range(2):
        assert task.run("Ada") == 1
    assert task.memory == [{"role": "user", "content": "Ada"}]


def test_functions_of_one_name_are_told_apart() -> None:
    assert Task("twice", [fetch, process, process]).run() == [100, 200]
    assert Task("twice", [fetch, process, process]).step_names == ("fetch", "process", "process#2")


def test_a_value_lies_where_the_store_is_said_to_be(here: Path) -> None:
    Task("sums", STEPS, store=here / "elsewhere").run()
    assert (here / "elsewhere" / "sums").is_dir()
    assert not (here / ".resumable").exists()


def two_values(a: int, b: int) -> None: ...


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Task("x", [lambda: 1]), "a step is a function with a name"),
        (lambda: Task("x", [3]), "a step is a function with a name"),  # type: ignore[list-item]  # what is refused
        (lambda: Task("x", [two_values]), "step 'two_values' needs 'b'"),
        (lambda: Task("x", save="often"), "save='often'"),  # type: ignore[arg-type]  # the same
        (lambda: Task("x").run(), "has no steps"),
        (lambda: Task("x", [process]).run(), r"step 'process' needs a value for 'rows': task.run\(value\)"),
        (lambda: SavePolicy(every=0), "a number above 0"),
    ],
)
def test_mistakes_are_told(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make()


# --- save policies


def saved(save: Any, during: Callable[[int, Task], None] | None = None) -> tuple[Task, Callable[[], list[int]]]:
    """A task of four steps; and which of them were on disk before each, as another process would see."""

    @tool
    def effect(n: int) -> int:
        ran(n)
        return n

    def work(n: int, task: Task) -> int:
        with Path("seen").open("a") as seen:
            print(sum(status == "done" for status in Task("policy").steps().status), file=seen)
        if during is not None:
            during(n, task)
        effect(n)
        if n == 3 and Path("broken").exists():
            raise ValueError
        return n + 1

    return Task("policy", [work] * 4, save=save), lambda: [int(line) for line in Path("seen").read_text().split()]


@pytest.mark.parametrize(
    ("save", "seen"),
    [
        ("step", [0, 1, 2, 3]),
        (SavePolicy(every=2), [0, 0, 2, 2]),
        (SavePolicy(every=3), [0, 0, 0, 3]),
        ("pause", [0, 0, 0, 0]),
        ("error", [0, 0, 0, 0]),
    ],
)
def test_steps_are_saved_when_the_policy_says_so_and_at_the_end(save: Any, seen: list[int]) -> None:
    task, were = saved(save)
    assert task.run(0) == 4
    assert were() == seen
    assert list(task.steps().status) == ["done"] * 4


def test_steps_are_saved_after_so_many_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("resumable_nb.workflow.time.monotonic", lambda: now[0])

    def during(n: int, task: Task) -> None:
        now[0] += 6

    task, were = saved(SavePolicy(every_s=10), during)
    task.run(0)
    assert were() == [0, 0, 2, 2]


@pytest.mark.parametrize(("save", "done"), [("error", 3), ("pause", 0), (SavePolicy(every=2), 3)])
def test_on_an_error_what_was_done_is_saved_or_not(save: Any, done: int) -> None:
    Path("broken").touch()
    task, were = saved(save)
    with pytest.raises(ValueError):  # noqa: PT011  # any text: the user's own error
        task.run(0)
    assert list(task.steps().status).count("done") == done
    Path("broken").unlink()
    Path("seen").unlink()
    assert saved(save)[0].run(0) == 4
    assert what_ran() == ["0", "1", "2", "3"], "calls are durable whatever is saved"
    assert len(were()) == 4 - done


def test_on_a_pause_what_was_done_is_saved() -> None:
    def during(n: int, task: Task) -> None:
        if n == 2:
            task.pause()

    task, were = saved("pause", during)
    task._parts.control._bus.listen(lambda event: task.resume() if event.kind == "control.paused" else None)
    assert task.run(0) == 4
    assert were() == [0, 0, 0, 2]


def test_a_value_that_nobody_can_compare_runs_the_step_again() -> None:
    def total(rows: Any) -> int:
        ran("total")
        return sum(rows)

    assert Task("rows", [total]).run(n for n in [1, 2]) == 3
    assert Task("rows", [total]).run(n for n in [3, 4]) == 7
    assert what_ran() == ["total", "total"]


def test_a_task_that_left_something_running_can_be_run_again() -> None:
    """``gather`` raises the first error, and its other tasks go on when the task was closed already."""
    first_failed = asyncio.Event()

    @tool
    async def send(n: int) -> int:
        if n == 0 and Path("down").exists():
            raise ValueError("down")
        return n

    async def one(n: int) -> int:
        if n and Path("down").exists():
            await first_failed.wait()
        return await send(n)

    async def all_three() -> list[int]:
        return await asyncio.gather(*map(one, range(3)))

    async def main() -> list[int]:
        with pytest.raises(ValueError, match="down"):
            await Task("three", [all_three]).arun()
        first_failed.set()
        left = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        assert sorted(await asyncio.gather(*left)) == [1, 2]
        Path("down").unlink()
        result: list[int] = await Task("three", [all_three]).arun()
        return result

    Path("down").touch()
    assert asyncio.run(main()) == [0, 1, 2]
