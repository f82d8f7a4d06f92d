"""The command: what it prints, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from resumable_nb import scope, session, tool, tools
from resumable_nb.cli import demo, verdict
from resumable_nb.cli.command import run
from tests.kernels import Kernels


@tool
def pay(reference: str, cents: int, token: str = "") -> dict[str, Any]:
    if cents < 0:
        raise ValueError("cents is negative")
    if cents == 13:
        raise KeyboardInterrupt
    return {"reference": reference, "cents": cents}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the task ``nightly``: a payment that was made, one that failed, and one in doubt."""
    monkeypatch.chdir(tmp_path)
    tools.use(lambda: session.current().desk())  # as the import of session does; other tests use desks of their own
    scope.reset()
    with session.opened("nightly", tmp_path / ".resumable", live={}):
        pay("A1", 500, token="s3cret")
        with pytest.raises(ValueError, match="negative"):
            pay("A2", -1)
        with pytest.raises(KeyboardInterrupt):
            pay("A3", 13)
    return tmp_path


def out(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """What the command prints; on success to stdout only, else one line to stderr only."""
    assert run(arguments) == status
    captured = capsys.readouterr()
    if status:
        assert captured.out == ""
        assert captured.err.endswith("\n")
        assert captured.err.count("\n") == 1
        return captured.err
    assert captured.err == ""
    return captured.out


def call_in_doubt(capsys: pytest.CaptureFixture[str]) -> str:
    records = json.loads(out(capsys, "history", "--json"))
    return next(str(record["id"]) for record in records if record["status"] == "intent")


def test_status_counts_calls_and_doubts(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "status")
    assert "nightly" in text
    row = json.loads(out(capsys, "status", "--json"))[0]
    assert (row["task"], row["calls"], row["in_doubt"], row["steps"]) == ("nightly", 3, 1, 0)


def test_history_shows_calls_without_their_secrets(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "history", str(store))
    assert "reference='A1'" in text
    assert "in doubt" in text
    assert "ValueError" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "s3cret" not in text + out(capsys, "history", "--json")


def test_history_unpickles_nothing(store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("unpickled")

    monkeypatch.setattr("pickle.loads", refuse)
    monkeypatch.setattr("pickle.Unpickler", refuse)
    for command in ("status", "steps", "history"):
        out(capsys, command)


def test_every_way_to_name_a_task(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "nightly.ipynb").write_text("{}")
    for path in (store, store / ".resumable", store / ".resumable" / "nightly", store / "nightly.ipynb"):
        assert len(json.loads(out(capsys, "history", str(path), "--json"))) == 3


def test_task_has_to_be_named_where_there_are_several(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with session.opened("weekly", store / ".resumable", live={}):
        pay("W1", 1)
    assert [row["task"] for row in json.loads(out(capsys, "status", "--json"))] == ["nightly", "weekly"]
    assert "there are 2 tasks here" in out(capsys, "history", status=2)


@pytest.mark.parametrize("spelled", [["--value", '{"cents": 13}'], ['--value={"cents": 13}'], ['{"cents": 13}']])
def test_call_that_happened_gets_its_value(store: Path, capsys: pytest.CaptureFixture[str], spelled: list[str]) -> None:
    """In the words of a shell, and in those of the magic."""
    call = call_in_doubt(capsys)
    assert "happened" in out(capsys, "resolve", call, "happened", *spelled)
    assert json.loads(out(capsys, "status", "--json"))[0]["in_doubt"] == 0
    scope.reset()  # as in a new kernel
    with session.opened("nightly", store / ".resumable", live={}):
        assert pay("A3", 13) == {"cents": 13}


def test_call_that_did_not_happen_may_be_made_again(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out(capsys, "resolve", call_in_doubt(capsys), "not-happened")
    with session.opened("nightly", store / ".resumable", live={}), pytest.raises(KeyboardInterrupt):
        pay("A3", 13)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["resolve", "CALL", "happened", "--value", "{cents: 13}"], "is not JSON"),
        (["resolve", "CALL", "not-happened", "--value", "1"], "has no --value"),
        (["resolve", "CALL", "happened", "1", "--value", "1"], "one value"),
        (["resolve", "CALL", "perhaps"], "'perhaps' is not one of"),
        (["resolve", "0000000000", "happened"], "no call '0000000000'"),
        (["why", "clean"], "has no step 'clean'"),
        (["history", "nowhere"], "'nowhere' does not exist"),
        (["stauts"], "No such command 'stauts'"),
        (["run"], "Missing argument 'NOTEBOOK'"),
        (["demo", "--kills", "-1"], "-1 is not in the range"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(
    store: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    call = call_in_doubt(capsys)
    assert said in out(capsys, *[call if each == "CALL" else each for each in arguments], status=2)


def test_folder_without_a_task_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no task here" in out(capsys, "status", str(tmp_path), status=2)


def test_damaged_store_is_a_failure_and_no_wrong_use(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (store / ".resumable" / "nightly").glob("*.db*"):
        path.unlink()
    assert "StoreLost" in out(capsys, "status", status=1)


def test_help_and_version_need_no_heavy_import() -> None:
    for arguments in (["--version"], ["--help"], ["demo", "--help"]):
        code = f"from resumable_nb.cli.command import run; import sys; run({arguments!r}); print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        assert not {"rich", "pandas", "nbclient"} & set(done.stdout.split())


@pytest.mark.kernel
def test_run_writes_the_notebook_and_ends_with_its_status(tmp_path: Path) -> None:
    path = tmp_path / "work.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("print(6 * 7)")]), path)
    done = resumable("run", str(path))
    assert (done.returncode, done.stdout[:12]) == (0, "completed in")
    assert nbformat.read(path, 4).cells[0].outputs[0].text == "42\n"

    nbformat.write(new_notebook(cells=[new_code_cell("raise ValueError('no\\nway')")]), path)
    done = resumable("run", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "in cell 1: ValueError: no" in done.stderr.splitlines()[-1]


def resumable(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "resumable_nb.cli", *arguments], capture_output=True, text=True, check=False, timeout=280
    )


LEDGER = [{"kind": "charge", "key": "bill 1"}, {"kind": "charge", "key": "bill 2"}, {"kind": "page", "key": "1"}]
EXPECTED = {"page": ["1"], "charge": ["bill 1", "bill 2"]}


def test_verdict_finds_what_is_missing_repeated_and_strange() -> None:
    again, page, strange = LEDGER[0], LEDGER[2], {"kind": "charge", "key": "bill 3"}
    assert verdict.differences(EXPECTED, [*LEDGER, page]) == []
    assert verdict.differences(EXPECTED, LEDGER[1:]) == ["charges missing: bill 1"]
    assert verdict.differences(EXPECTED, [*LEDGER, again]) == ["charges more than once: bill 1"]
    assert verdict.differences(EXPECTED, [*LEDGER, strange]) == ["charges not asked for: bill 3"]


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [1, 2])
def test_demo_survives_its_kills(seed: int, tmp_path: Path) -> None:
    """At least one kernel dies inside a charge, and one inside a parcel, which only a person can settle."""
    done = resumable("demo", "--seed", str(seed), "--kills", "4", "--keep", str(tmp_path / "demo"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none of them twice" in done.stdout
    assert "inside charge" in done.stdout
    assert "inside parcel" in done.stdout
    assert "4 of them killed" in done.stdout
    assert max(map(len, done.stdout.splitlines()[1:3] + done.stdout.splitlines()[-20:])) <= 100


@pytest.mark.sweep
def test_demo_without_the_package_is_judged_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The judge can say no: the same notebook, with steps and tools made plain, charges twice."""
    examples = tmp_path / "examples"
    examples.mkdir()
    for name in demo.FILES:
        text = (demo.examples() / name).read_text()
        if name == demo.NOTEBOOK:
            plain = nbformat.reads(text, as_version=4)
            for cell in plain.cells:
                cell.source = "\n".join(line for line in cell.source.splitlines() if line[:2] not in ("%%", "@t"))
            at = next(i for i, cell in enumerate(plain.cells) if cell.id == "tools")
            plain.cells[at].source += (
                "\n\nconfirm_with_key, keys = confirm, {}\n\ndef confirm(reference):\n"
                "    return confirm_with_key(reference, idempotency_key=reference)\n"
            )
            text = nbformat.writes(plain)
        (examples / name).write_text(text)
    monkeypatch.setattr(demo, "examples", lambda: examples)
    assert demo.play(seed=3, kills=2, keep=tmp_path / "demo") == 1
    captured = capsys.readouterr()
    assert "WRONG: charges more than once: bill" in captured.err


def test_plan_of_kills_depends_on_the_seed_alone(tmp_path: Path) -> None:
    shop = demo.set_up(tmp_path)
    expected = demo.expected_effects(shop)
    assert Counter({kind: len(keys) for kind, keys in expected.items()}) == {
        "page": 60,
        "charge": 110,
        "parcel": 20,
        "confirmation": 110,
    }
    plans = [demo.plan_kills(seed, 5, expected) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert [kill.kind for kill in plans[0] if kill.inside] == ["charge", "parcel"]
    assert demo.plan_kills(1, 0, expected) == []


def test_demo_does_not_write_into_a_used_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").touch()
    assert "is not empty" in out(capsys, "demo", "--keep", str(tmp_path), status=2)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]


LIVE = """
import pathlib, sys, time
from resumable_nb import session, tool

@tool
def pay(reference):
    pathlib.Path("begun").touch()
    time.sleep(1000)

with session.opened("live", ".resumable", live={}):
    pay("A1")
"""


def test_call_of_a_live_kernel_is_running_and_not_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seen from another process: in doubt only when the process that makes the call is gone."""
    monkeypatch.chdir(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", LIVE])
    pause = threading.Event()
    try:
        while not Path("begun").exists():
            assert process.poll() is None
            pause.wait(0.02)
        assert json.loads(out(capsys, "status", "--json"))[0]["in_doubt"] == 0
        assert "running" in out(capsys, "history")
        assert "TaskBusy" in out(capsys, "resolve", call_in_doubt(capsys), "happened", status=1)
    finally:
        process.kill()
        process.wait(10)
    assert json.loads(out(capsys, "status", "--json"))[0]["in_doubt"] == 1
    assert "in doubt" in out(capsys, "history")


def test_trust_accepts_a_store_that_another_key_signed(
    kernels: Kernels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels("%%resumable a\nx = 1").close()
    monkeypatch.setenv("RESUMABLE_KEY_FILE", str(tmp_path / "another-key"))
    assert run(["steps", str(tmp_path)]) == 1
    assert "resumable trust" in capsys.readouterr().err
    assert run(["trust", str(tmp_path)]) == 0
    assert "task book: trusted" in capsys.readouterr().out
    assert run(["steps", str(tmp_path)]) == 0
