"""Records as DataFrames: the same columns and types whatever there is to tell."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from resumable_nb import history
from resumable_nb.model import Attempt, CallRecord, RunRecord, StepKey, StepRecord

CALL: dict[str, Any] = {
    "tool": "pay", "version": "1", "identity": "i", "k": 0, "arguments": {"n": "1"}, "status": "done",
    "repeatable": False, "run": "r",
}  # fmt: skip


def call(name: str, at: float, **facts: Any) -> CallRecord:
    return CallRecord(**{**CALL, "id": name, "step": "s", "n": 0, "started_at": at, **facts})


def step(name: str, at: float, **facts: Any) -> StepRecord:
    key = StepKey(source="s")
    known = {"id": name, "name": name, "version": 1, "status": "done", "key": key, "run": "r", "why": "first run"}
    return StepRecord(**{**known, "started_at": at, **facts})


CALLS = [
    call("b", 20.0, status="intent", doubt="interrupted"),
    call("a", 10.0, ended_at=12.5, attempts=(Attempt(started_at=10.0, error="x"), Attempt(started_at=11.0))),
    call("c", 30.0, status="failed", error="Boom: no", ended_at=30.5),
    call("d", 40.0, status="intent"),
]
STEPS = [
    step("t", 20.0, status="failed", error="E"),
    step("s", 10.0, saved_names=("x", "y"), size_bytes=7, duration_s=1.5),
]
RUNS = [
    RunRecord(id="2", pid=5, host="h", started_at=20.0),
    RunRecord(id="1", pid=4, host="h", started_at=10.0, ended_at=15.0),
]


def frames(*, empty: bool) -> dict[str, pd.DataFrame]:
    return {
        "history": history.history(
            [] if empty else CALLS, lambda call: 5 if call.id == "a" else None, lambda call: bool(call.doubt)
        ),
        "steps": history.steps([] if empty else STEPS, {"s": 3}),
        "runs": history.runs([] if empty else RUNS, lambda run: run.id == "2"),
    }


@pytest.mark.parametrize("name", ["history", "steps", "runs"])
def test_columns_and_types_do_not_depend_on_the_rows(name: str) -> None:
    full, empty = frames(empty=False)[name], frames(empty=True)[name]
    assert len(empty) == 0
    assert full.dtypes.to_dict() == empty.dtypes.to_dict()
    assert full.index.name == empty.index.name
    times = [column for column in full if isinstance(full[column].dtype, pd.DatetimeTZDtype)]
    assert len(times) >= 1
    assert {str(full[column].dt.tz) for column in times} == {"UTC"}


def test_calls_in_the_order_of_their_starts() -> None:
    frame = frames(empty=False)["history"]
    assert list(frame.index) == ["a", "b", "c", "d"]
    assert list(frame.status) == ["done", "in doubt", "failed", "running"]
    assert list(frame.attempts) == [2, 1, 1, 1]
    assert frame.loc["a", "duration_s"] == 2.5
    assert [repr(value) for value in frame.value] == ["5", "None", "None", "None"], "as they were, not as floats"
    assert pd.isna(frame.loc["b", "ended"])
    assert list(frame.error) == ["", "interrupted", "Boom: no", ""]
    assert frame.loc["a", "started"] == pd.Timestamp(10, unit="s", tz="UTC")


def test_steps_and_runs() -> None:
    found = frames(empty=False)
    assert list(found["steps"].index) == ["s", "t"]
    assert found["steps"].loc["s", ["calls", "variables", "size_bytes", "duration_s"]].tolist() == [3, 2, 7, 1.5]
    assert list(found["runs"].ended) == ["closed", "open"]
    assert list(found["runs"].index) == ["1", "2"]
