"""What the journal writes, what it gives back, and what it refuses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resumable_nb.call_records import NEW, call_row
from resumable_nb.errors import Corrupt, LeaseLost, NewerSchema, UsageError
from resumable_nb.events import Bus
from resumable_nb.journal import Journal
from resumable_nb.model import MISSING, SCHEMA, CallRecord, Position, StepKey, StepRecord
from resumable_nb.store.memory import MemoryStore
from tests.bench import Bench, Fence


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def journal(bench: Bench) -> Journal:
    return bench.journal


def a_call(identity: str = "i", k: int = 0, step: str = "s", **more: Any) -> CallRecord:
    return CallRecord(
        **{  # type: ignore[arg-type]  # of several types
            "id": f"{identity}{k}".ljust(12, "0"), "step": step, "n": NEW, "tool": "t", "version": "",
            "identity": identity, "k": k, "arguments": {}, "status": "intent", "repeatable": False, "run": "run-1",
            "started_at": 1.0, **more,
        }
    )  # fmt: skip


def a_step(step: str = "s", version: int = 1, **more: Any) -> StepRecord:
    return StepRecord(
        **{  # type: ignore[arg-type]  # of several types
            "id": step, "name": step, "version": version, "status": "running", "key": StepKey(source="x"),
            "run": "run-1", "why": "", "started_at": 1.0, **more,
        }
    )  # fmt: skip


def a_position(step: str = "s", loop: str = "l") -> Position:
    return Position(step=step, loop=loop, version=1, done=3, total=None, at=1.0, key="k")


def test_reading_creates_nothing() -> None:
    store = MemoryStore()
    journal = Journal(store, Fence(), Bus())
    assert (journal.task(), journal.step("s"), journal.call("i", 0), journal.position("s", "l")) == (MISSING,) * 4
    assert journal.steps() == journal.calls() == journal.runs() == journal.versions("s") == []
    assert not store.exists()
    with pytest.raises(UsageError):
        journal.task_or_fail()


def test_the_task_keeps_its_incarnation(bench: Bench) -> None:
    first = bench.journal.task_or_fail()
    bench.restart()
    assert bench.journal.ensure_task("other") == first
    assert bench.journal.complete_task().completed_at is not None


def test_runs_are_listed_oldest_first(bench: Bench) -> None:
    bench.journal.end_run("run-1")
    bench.restart()
    assert [(run.id, run.ended_at is None) for run in bench.journal.runs()] == [("run-1", False), ("run-2", True)]


def test_calls_are_numbered_per_step_without_gaps(bench: Bench) -> None:
    """Also across threads, in the next run, and after a commit that was refused."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: bench.journal.intend(a_call(f"i{i}"), durable=False), range(40)))
    bench.restart()
    bench.journal.intend(a_call("after"), durable=False)
    bench.fence.lost = True
    with pytest.raises(LeaseLost):
        bench.journal.intend(a_call("refused"), durable=True)
    bench.fence.lost = False
    assert bench.journal.intend(a_call("last"), durable=False).n == 41
    assert bench.journal.intend(a_call("elsewhere", step="s/t"), durable=False).n == 0
    assert [call.n for call in bench.journal.calls("s")] == list(range(42))
    assert bench.journal.call("refused", 0) is MISSING


def test_a_count_that_is_behind_is_found_out_in_the_transaction(bench: Bench) -> None:
    assert bench.journal.count("s") == 0
    Journal(bench.store, Fence(), Bus()).intend(a_call("other"), durable=False)
    assert bench.journal.intend(a_call("mine"), durable=False).n == 1
    assert [call.identity for call in bench.journal.calls()] == ["other", "mine"]


def test_one_more_try_keeps_its_place(journal: Journal) -> None:
    record = journal.intend(a_call(), durable=True)
    journal.finish(msgspec.structs.replace(record, status="failed"))
    again = journal.intend(msgspec.structs.replace(record, started_at=2.0), durable=True)
    assert (again.n, journal.calls()) == (0, [again])


def test_calls_are_ordered_by_step_then_number(journal: Journal) -> None:
    for step in ("a/b", "a", "", "a/b"):
        journal.intend(a_call(f"{step}{journal.count(step)}", step=step), durable=False)
    assert [(call.step, call.n) for call in journal.calls()] == [("", 0), ("a", 0), ("a/b", 0), ("a/b", 1)]
    assert [call.step for call in journal.calls("a")] == ["a"]
    assert [call.step for call in journal.calls("")] == [""]


def test_blobs_are_in_the_same_commit_as_their_record(bench: Bench) -> None:
    record = bench.journal.intend(a_call(), durable=True)
    name, rows = bench.journal.blob_row(b"value")
    bench.events.clear()
    bench.journal.finish(msgspec.structs.replace(record, status="done", result=name), rows)
    assert bench.commits() == {True: 1}
    assert bench.journal.blob(name) == b"value"
    with pytest.raises(Corrupt, match="blob"):
        bench.journal.blob("0" * 64)


def test_a_note_never_overwrites_an_outcome(journal: Journal) -> None:
    record = journal.intend(a_call(), durable=True)
    assert journal.note(msgspec.structs.replace(record, doubt="cut off"))
    journal.finish(msgspec.structs.replace(record, status="done"))
    assert not journal.note(msgspec.structs.replace(record, doubt="too late"))
    assert not journal.note(msgspec.structs.replace(record, n=7))
    assert journal.calls()[0].status == "done"


def test_a_note_leaves_the_call_of_another_run_alone(journal: Journal) -> None:
    record = journal.intend(a_call(), durable=True)
    assert not journal.note(msgspec.structs.replace(record, run="run-0"))
    assert journal.calls() == [record]


def test_call_ids_may_be_shortened_while_they_fit_one_call(journal: Journal) -> None:
    for identity in ("aaaaaaaa1", "aaaaaaaa2", "bbbbbbbb1"):
        journal.intend(a_call(identity), durable=False)
    assert journal.find_call("bbbbbbbb").identity == "bbbbbbbb1"
    with pytest.raises(UsageError, match="fits 2 calls: aaaaaaaa10"):
        journal.find_call("aaaaaaaa")
    for unknown, says in (("cccccccc", "no call"), ("bbbb", "too short"), ("", "too short")):
        with pytest.raises(UsageError, match=says):
            journal.find_call(unknown)


def test_a_done_step_is_one_durable_commit_and_its_positions_go(bench: Bench) -> None:
    journal = bench.journal
    for step in ("s", "s/inner", "st"):
        journal.keep_position(a_position(step), {})
    journal.begin_step(a_step())
    bench.events.clear()
    done = a_step(status="done", version=2)
    journal.commit_step(done, rows={"blob/x": b"1"})
    assert bench.commits() == {True: 1}
    assert journal.step("s") == done
    assert journal.versions("s") == [done]
    assert journal.blob("x") == b"1"
    assert journal.position("s", "l") is MISSING
    assert journal.position("s/inner", "l") == a_position("s/inner")
    assert journal.position("st", "l") == a_position("st")


def test_a_begun_step_costs_no_fsync(bench: Bench) -> None:
    bench.journal.begin_step(a_step())
    bench.journal.fail_step(a_step(status="failed"))
    assert bench.commits() == {False: 2}


def test_versions_are_listed_oldest_first(journal: Journal) -> None:
    for version in range(1, 13):
        journal.commit_step(a_step(version=version, status="done"))
    assert [record.version for record in journal.versions("s")] == list(range(1, 13))
    assert journal.steps() == [journal.step("s")]


def test_a_failed_step_marks_what_it_did_not_handle(journal: Journal) -> None:
    for identity, status in (("a", "failed"), ("b", "failed"), ("c", "done")):
        journal.finish(msgspec.structs.replace(journal.intend(a_call(identity), durable=False), status=status))
    ids = [call.id for call in journal.calls()]
    journal.fail_step(a_step(status="failed"), [ids[1], ids[2]])
    assert [call.escaped for call in journal.calls()] == [False, True, False]


def test_a_forgotten_step_keeps_versions_and_calls(journal: Journal) -> None:
    journal.commit_step(a_step(status="done"))
    journal.intend(a_call(), durable=False)
    journal.forget_step("s")
    assert journal.step("s") is MISSING
    assert len(journal.versions("s")) == len(journal.calls()) == 1


def test_a_forgotten_task_begins_anew_in_one_commit(bench: Bench) -> None:
    journal = bench.journal
    journal.commit_step(a_step(status="done"))
    journal.keep_position(a_position("t"))
    journal.intend(a_call(), durable=False)
    before = journal.task_or_fail()
    bench.events.clear()
    after = journal.forget("bench")
    assert bench.commits() == {True: 1}
    assert after.incarnation != before.incarnation
    assert journal.task() == after
    assert journal.steps() == journal.calls() == journal.versions("s") == []
    assert (journal.position("t", "l"), journal.call("i", 0)) == (MISSING, MISSING)
    assert [run.id for run in journal.runs()] == ["run-1"]
    assert journal.intend(a_call(), durable=False).n == 0


def test_more_calls_are_found_than_are_remembered(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resumable_nb.call_records.REMEMBERED", 2)
    made = [journal.intend(a_call(identity=each), durable=True) for each in "abcd"]
    assert [journal.call(each, 0) for each in "abcdabcd"] == made * 2
    journal.adopt(made[0], "e", 0)
    assert journal.call("e", 0) == made[0]
    journal.forget("bench")
    assert [journal.call(each, 0) for each in "abcde"] == [MISSING] * 5


def test_a_place_that_another_owner_gave_to_another_call_does_not_answer(bench: Bench) -> None:
    """This kernel slept; another one forgot the task meanwhile, and made other calls."""
    mine = bench.journal.intend(a_call("mine"), durable=True)
    assert bench.journal.call("mine", 0) == mine
    other = Journal(bench.store, Fence(), Bus())
    other.forget("t")
    theirs = other.intend(a_call("theirs"), durable=True)
    assert call_row(theirs) == call_row(mine)
    assert bench.journal.call("mine", 0) is MISSING
    assert bench.journal.call("theirs", 0) == theirs


def test_every_write_is_fenced(bench: Bench) -> None:
    journal = bench.journal
    record = journal.intend(a_call(), durable=True)
    before = bench.raw()
    bench.fence.lost = True
    for write in (
        lambda: journal.complete_task(),
        lambda: journal.begin_run("r", pid=1, host="h"),
        lambda: journal.end_run("run-1"),
        lambda: journal.begin_step(a_step()),
        lambda: journal.commit_step(a_step()),
        lambda: journal.fail_step(a_step()),
        lambda: journal.forget_step("s"),
        lambda: journal.forget("bench"),
        lambda: journal.intend(a_call("j"), durable=True),
        lambda: journal.finish(record),
        lambda: journal.note(record),
        lambda: journal.keep_position(a_position()),
        journal.own,
    ):
        with pytest.raises(LeaseLost):
            write()
    assert bench.raw() == before


def test_damage_is_an_error_and_never_a_miss(bench: Bench) -> None:
    journal = bench.journal
    record = journal.intend(a_call(), durable=False)
    for bad in (b"", b"{", b"[]", b'{"schema": 1}', b'"x"', b"\xff"):
        bench.store.commit({call_row(record): bad})
        for read in (lambda: journal.call("i", 0), journal.calls, lambda: journal.find_call("i0000000")):
            with pytest.raises(Corrupt, match="call/s@00000000"):
                read()
    bench.store.commit({}, [call_row(record)])
    with pytest.raises(Corrupt):
        journal.call("i", 0)


@pytest.mark.parametrize("more", [{}, {"id": 5, "new": [1]}], ids=["same fields", "other fields"])
def test_a_newer_schema_is_refused(bench: Bench, more: dict[str, Any]) -> None:
    row = msgspec.json.encode({**msgspec.to_builtins(a_step()), **more, "schema": SCHEMA + 1})
    bench.store.commit({"step/s": row})
    with pytest.raises(NewerSchema, match="update resumable_nb"):
        bench.journal.step("s")
    assert bench.store.get("step/s") == row


@settings(deadline=None)
@given(st.text(), st.text(), st.dictionaries(st.text(), st.text()), st.floats(allow_nan=False, allow_infinity=False))
def test_records_come_back_as_they_were(error: str, tool: str, arguments: dict[str, str], at: float) -> None:
    journal = Journal(MemoryStore(), Fence(), Bus())
    record = journal.intend(a_call(error=error, tool=tool, arguments=arguments, started_at=at), durable=False)
    assert journal.call("i", 0) == record == journal.calls("s")[0]
