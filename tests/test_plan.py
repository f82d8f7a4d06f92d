"""Decisions from records alone."""

from __future__ import annotations

from typing import Any

import pytest

from resumable_nb import plan
from resumable_nb.model import MISSING, CallRecord, StepKey, StepOptions, StepRecord

KEY = StepKey(source="s", functions={"f": "1"}, inputs={"x": "1"}, files={"a.csv": "1"}, options="o")


def record(**changes: Any) -> StepRecord:
    facts = {
        "id": "a",
        "name": "a",
        "version": 3,
        "status": "done",
        "key": KEY,
        "run": "r",
        "why": "",
        "started_at": 0.0,
    }
    return StepRecord(**(facts | changes))


def call(**changes: Any) -> CallRecord:
    facts: dict[str, Any] = {
        "id": "c", "step": "a", "n": 0, "tool": "t", "version": "", "identity": "i", "k": 0, "arguments": {},
        "status": "done", "repeatable": False, "run": "r", "started_at": 0.0,
    }  # fmt: skip
    return CallRecord(**(facts | changes))


def test_unknown_step_runs_for_the_first_time() -> None:
    assert plan.decide_step(MISSING, KEY, StepOptions()) == plan.Run(1, "first run")


def test_done_step_with_the_same_key_is_skipped() -> None:
    assert plan.decide_step(record(), KEY, StepOptions()) == plan.Skip(record())


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"source": "t"}, "its source changed"),
        ({"functions": {"f": "2"}}, "function f changed"),
        ({"inputs": {"x": "2"}}, "input x changed"),
        ({"inputs": {}}, "input x is gone"),
        ({"inputs": {"x": "1", "y": "1"}}, "input y is new"),
        ({"files": {"a.csv": "2"}}, "file a.csv changed"),
        ({"options": "p"}, "its options changed"),
    ],
)
def test_any_changed_part_runs_again_and_is_named(changed: dict[str, Any], why: str) -> None:
    facts = {"source": "s", "functions": {"f": "1"}, "inputs": {"x": "1"}, "files": {"a.csv": "1"}, "options": "o"}
    decision = plan.decide_step(record(), StepKey(**(facts | changed)), StepOptions())
    assert isinstance(decision, plan.Run)
    assert (decision.version, decision.why) == (4, why)


def test_input_that_the_step_changed_may_be_as_after_it() -> None:
    """``x += 1`` is skipped in the kernel that ran it, and still runs for a third value."""
    done = record(after={"input x": "2"})
    after = StepKey(source="s", functions={"f": "1"}, inputs={"x": "2"}, files={"a.csv": "1"}, options="o")
    other = StepKey(source="s", functions={"f": "1"}, inputs={"x": "3"}, files={"a.csv": "1"}, options="o")
    assert isinstance(plan.decide_step(done, after, StepOptions()), plan.Skip)
    assert isinstance(plan.decide_step(done, KEY, StepOptions()), plan.Skip)
    assert isinstance(plan.decide_step(done, other, StepOptions()), plan.Run)


@pytest.mark.parametrize(("status", "error"), [("running", ""), ("failed", "ValueError: no")])
def test_unfinished_step_is_continued_whatever_its_key(status: str, error: str) -> None:
    same = plan.decide_step(record(status=status, error=error), KEY, StepOptions())
    other = plan.decide_step(record(status=status, error=error), StepKey(source="t"), StepOptions())
    assert isinstance(same, plan.Continue)
    assert isinstance(other, plan.Continue)
    assert (same.same_key, other.same_key) == (True, False)
    assert error in same.why


def test_a_step_that_goes_on_after_a_doubt_says_it_in_few_words() -> None:
    error = "InDoubt: charge(order=45) was begun at 2026-11-30 07:11:32 by pid 25878, and may have happened"
    decision = plan.decide_step(record(status="failed", error=error), KEY, StepOptions())
    assert isinstance(decision, plan.Continue)
    assert decision.why == "continued after a tool call in doubt"


def test_options_and_missing_artefacts_run_a_done_step_again() -> None:
    assert isinstance(plan.decide_step(record(), KEY, StepOptions(rerun=True)), plan.Run)
    assert isinstance(plan.decide_step(record(), KEY, StepOptions(always=True)), plan.Run)
    missing = plan.decide_step(record(), KEY, StepOptions(), ["b.png", "a.png"])
    assert missing == plan.Run(4, "missing: a.png, b.png")


def test_step_with_unsaved_variables_is_replayed() -> None:
    decision = plan.decide_step(record(unsaved={"conn": "socket"}), KEY, StepOptions())
    assert isinstance(decision, plan.Continue)
    assert decision.why == "replayed: conn could not be saved"


@pytest.mark.parametrize(
    ("recorded", "asked", "expected"),
    [
        (MISSING, {}, plan.Call()),
        (call(), {}, plan.Replay(call())),
        (call(status="failed"), {}, plan.Call(call(status="failed"))),
        (call(status="failed"), {"terminal": True}, plan.ReplayError(call(status="failed"))),
        (call(status="failed"), {"handled": True}, plan.ReplayError(call(status="failed"))),
        (call(status="intent"), {}, plan.Ask(call(status="intent"))),
        (call(status="intent"), {"reconcile": True}, plan.Reconcile(call(status="intent"))),
        (call(status="intent"), {"repeatable": True, "reconcile": True}, plan.Call(call(status="intent"))),
    ],
)
def test_call_decisions(recorded: Any, asked: dict[str, bool], expected: plan.CallDecision) -> None:
    facts = {"repeatable": False, "reconcile": False, "terminal": False, "handled": False}
    assert plan.decide_call(recorded, **(facts | asked)) == expected
