"""The process dies at every named commit point of a step and of a tool call; a ledger outside the project judges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from resumable_nb.events import COMMIT_POINTS

pytestmark = pytest.mark.sweep

PROGRAM = Path(__file__).with_name("notebook.py")


def run_all(folder: Path, *death: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "PYTHONHASHSEED": str(len(death))}
    return subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), *death],
        capture_output=True, text=True, timeout=120, env=env, check=False,
    )  # fmt: skip


def effects(folder: Path) -> Counter[tuple[str, int]]:
    lines = (folder / "ledger.jsonl").read_text().splitlines()
    return Counter(tuple(json.loads(line)) for line in lines)


def occurrences(count: int) -> list[int]:
    return sorted({1, 2, (count + 1) // 2, count} & set(range(1, count + 1)))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Counter[tuple[str, int]], dict[str, int]]:
    folder = tmp_path_factory.mktemp("plain")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESUMABLE_KEY_FILE", str(folder / "key"))
        done = run_all(folder)
    assert done.returncode == 0, done.stderr
    return (
        json.loads((folder / "final.json").read_text()),
        effects(folder),
        json.loads((folder / "points.json").read_text()),
    )


def test_every_commit_point_is_passed(uninterrupted: Any) -> None:
    """So that the sweep below dies at each of them, and at none in name only."""
    assert set(COMMIT_POINTS) <= set(uninterrupted[2])


@pytest.mark.parametrize("how", ["exit", "kill"])
@pytest.mark.parametrize("point", COMMIT_POINTS)
def test_death_at(point: str, how: str, tmp_path: Path, uninterrupted: Any) -> None:
    """No effect twice, none lost, and the variables of an uninterrupted run."""
    variables, ledger, points = uninterrupted
    for n in occurrences(points[point]):
        folder = tmp_path / f"{point}-{n}"
        folder.mkdir()
        died = run_all(folder, point, str(n), how)
        assert died.returncode in (9, -9), (point, n, died.stdout, died.stderr)
        again = run_all(folder)
        assert again.returncode == 0, (point, n, again.stdout, again.stderr)
        assert json.loads((folder / "final.json").read_text()) == variables, (point, n)
        happened = effects(folder)
        repeatable = {effect for effect in ledger if effect[0] == "fetch"}
        assert set(happened) == set(ledger), (point, n)
        assert {e: c for e, c in happened.items() if e not in repeatable and c != 1} == {}, (point, n)
        third = run_all(folder)
        assert third.returncode == 0, (point, n, third.stderr)
        assert effects(folder) == happened, "Run All on a finished notebook executes no tool"
        assert json.loads((folder / "final.json").read_text()) == variables, (point, n)


def test_restart_after_every_tool_call(tmp_path: Path, uninterrupted: Any) -> None:
    """A process that gets through one call each, over and over, ends where one process does."""
    variables, ledger, points = uninterrupted
    calls = points["call.result_committed"]
    for _ in range(calls):
        assert run_all(tmp_path, "call.result_committed", "1", "exit").returncode == 9
    last = run_all(tmp_path, "call.result_committed", "1", "exit")
    assert last.returncode == 0, last.stderr
    assert json.loads((tmp_path / "final.json").read_text()) == variables
    assert effects(tmp_path) == ledger
