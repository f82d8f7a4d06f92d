"""A task's state as JSON data, and a task made of it in another store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from resumable_nb import Task, scope, session, tool
from resumable_nb.errors import UsageError, ValueUnavailable
from resumable_nb.memory import Memory
from tests.test_workflow import ran, what_ran


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RESUMABLE_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setenv("SHOP", "hunter22")
    session._serve()
    yield tmp_path
    session.close()
    scope.reset()


@tool
def charge(order: str, token: str = "") -> dict[str, str]:
    ran("charge", order)
    return {"paid": order}


@tool
def measure(n: int) -> tuple[int, ...]:
    ran("measure", n)
    return (n,)


def buy(memory: Memory) -> list[dict[str, str]]:
    memory.append({"say": "buying"})
    paid = [charge("a"), charge("b", token=os.environ["SHOP"])]
    memory.append({"say": "bought"})
    return paid


def report(paid: list[dict[str, str]], memory: Memory) -> str:
    memory.append({"say": "done"})
    return f"{len(paid)} paid"


STEPS: list[Callable[..., Any]] = [buy, report]


def test_state_is_json_and_says_all(here: Path) -> None:
    task = Task("shop", STEPS)
    new = task.to_dict()
    assert (new["status"], new["current_step"], new["total_steps"]) == ("pending", "buy", 2)
    task.run()
    data = json.loads(json.dumps(task.to_dict()))
    assert data == task.to_dict()
    assert (data["status"], data["current_step"], data["total_steps"]) == ("completed", None, 2)
    assert data["task"]["name"] == "shop"
    assert data["session"] == task._parts.run
    assert data["memory"] == [{"say": "buying"}, {"say": "bought"}, {"say": "done"}]
    assert [each["value"] for each in data["steps"]] == [[{"paid": "a"}, {"paid": "b"}], "2 paid"]
    assert [each["value"] for each in data["calls"]] == [{"paid": "a"}, {"paid": "b"}]
    assert data["started_at"] < data["last_at"]
    assert "hunter22" not in json.dumps(data)


def test_taken_into_another_store_no_call_is_made_again(here: Path) -> None:
    task = Task("shop", STEPS)
    task.run()
    taken = Task.from_dict(json.loads(json.dumps(task.to_dict())), STEPS, store=here / "other")
    assert taken.memory == task.memory.to_list()
    assert len(taken.history()) == 2
    assert taken.run() == "2 paid"
    assert what_ran() == ["charge a", "charge b"]
    assert taken.memory == [{"say": "buying"}, {"say": "bought"}, {"say": "done"}]


def test_a_result_that_is_no_json_is_not_there_and_its_call_not_made_again(here: Path) -> None:
    def look() -> tuple[int, ...]:
        return measure(3)

    task = Task("look", [look])
    task.run()
    data = task.to_dict()
    assert data["calls"][0]["preview"] == "(3,)"
    with pytest.raises(ValueUnavailable, match="is not JSON data"):
        Task.from_dict(data, [look], store=here / "other").run()
    assert what_ran() == ["measure 3"]


def test_what_cannot_be_taken_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("shop", STEPS)
    with pytest.raises(UsageError, match="no state of a task"):
        Task.from_dict(task.to_dict(), STEPS, store=here / "other")
    task.run()
    data = task.to_dict()
    with pytest.raises(UsageError, match="there is a task 'shop' in"):
        Task.from_dict(data, STEPS)
    monkeypatch.setenv("RESUMABLE_KEY_FILE", str(here / "stranger"))
    with pytest.raises(UsageError, match="has secret arguments"):
        Task.from_dict(data, STEPS, store=here / "third")


def test_a_task_that_is_being_rolled_back_is_not_taken() -> None:
    """What the other undos need is not in the data, so that the rest of it would count as undone."""

    def refund(order: str) -> None:
        raise ValueError(f"no refund of {order} now")

    @tool(compensate=refund)
    def pay(order: str) -> str:
        return order

    def shop() -> str:
        return pay("a")

    task = Task("paid", [shop])
    task.run()
    with pytest.raises(ValueError, match="no refund"):
        task.compensate()
    with pytest.raises(UsageError, match="being rolled back"):
        Task.from_dict(task.to_dict(), [shop], store="other")
