"""Several calls fail, some errors are handled, and the step runs again: which errors replay, which calls are made."""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from resumable_nb import Task, scope, session, task, tool

ALL = [0, 1, 2, 3, 4, 5]


class Refused(Exception):
    pass


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RESUMABLE_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    Path("down").touch()
    session._serve()
    yield
    session.close()
    scope.reset()


def ledger(*what: object) -> None:
    with Path("ledger").open("a") as file:
        print(*what, file=file)


def entries() -> list[str]:
    return Path("ledger").read_text().splitlines() if Path("ledger").exists() else []


def answer(n: int) -> int:
    """The receiver, which refuses everybody while it is down."""
    if Path("down").exists():
        raise Refused(n)
    ledger("sent", n)
    return n


@tool
def send(n: int) -> int:
    return answer(n)


@tool
async def send_async(n: int) -> int:
    return answer(n)


@tool
def instead(n: int, why: object = None) -> int:
    ledger("instead", n)
    return -n


@tool
async def instead_async(n: int) -> int:
    ledger("instead", n)
    return -n


async def gathered() -> list[int]:
    return await asyncio.gather(*[send_async(n) for n in ALL])


async def grouped() -> list[int]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(send_async(n)) for n in ALL]
    return [each.result() for each in tasks]


def mapped() -> list[int]:
    return task().map(send, ALL, concurrency=6)


def in_a_loop_of_its_own() -> list[int]:
    return asyncio.run(gathered())


async def amapped() -> list[int]:
    return await task().amap(send_async, ALL, concurrency=6)


@pytest.mark.parametrize("body", [gathered, grouped, mapped, in_a_loop_of_its_own, amapped])
def test_all_calls_of_a_step_that_failed_together_are_made_again(body: Callable[[], Any]) -> None:
    with pytest.raises((Refused, ExceptionGroup)):
        run(body)
    assert entries() == []
    Path("down").unlink()
    assert run(body) == ALL
    assert sorted(entries()) == [f"sent {n}" for n in ALL]


async def each_with_its_own_way_out() -> list[int]:
    async def one(n: int) -> int:
        try:
            return await send_async(n)
        except Refused:
            return await instead_async(n)

    return await asyncio.gather(*map(one, ALL))


def sent_instead() -> list[int]:
    errors = task().map(send, ALL, errors="collect")
    return [instead(n) for n, error in zip(ALL, errors, strict=True) if isinstance(error, Refused)]


def with_the_error_as_an_argument() -> list[int]:
    got = []
    for n in ALL:
        try:
            got.append(send(n))
        except Refused as error:
            got.append(instead(n, why=[error, traceback.format_exception_only(error)]))
    return got


def with_another_error_of_the_kind() -> list[int]:
    got = with_the_error_as_an_argument()
    gc.collect()
    if Path("down").exists():
        raise Refused("not of a call, and perhaps where one of theirs was in memory")
    return got


@pytest.mark.parametrize(
    "body", [each_with_its_own_way_out, sent_instead, with_the_error_as_an_argument, with_another_error_of_the_kind]
)
def test_handled_errors_replay_so_that_nothing_is_sent_twice(body: Callable[[], Any]) -> None:
    def step() -> Any:
        found = body()
        return left(found) if isinstance(found, Awaitable) else at_the_end(found)

    async def left(found: Awaitable[Any]) -> Any:
        return at_the_end(await found)

    def at_the_end(found: Any) -> Any:
        if Path("down").exists():
            raise RuntimeError("later")
        return found

    with pytest.raises((RuntimeError, Refused)):
        run(step)
    Path("down").unlink()
    assert run(step) == [-n for n in ALL]
    assert sorted(entries()) == [f"instead {n}" for n in ALL]


def run(body: Callable[[], Any]) -> Any:
    work = Task("sent", [body])
    return work.run() if body is in_a_loop_of_its_own else asyncio.run(work.arun())
