"""A process dies at each commit point of a tool call; the next one calls again. A ledger outside the store judges."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.sweep

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(__file__).with_name("tool_kernels.py")
POINTS = ("call.intent", "call.intent_committed", "call.returned", "call.result", "call.result_committed")
KINDS = ("plain", "repeatable", "reconcile")
PAID, RESOLVED = ["o1", "paid"], ["o1", "resolved"]


class Kernels:
    """Starts one process an order, and tells how it ended."""

    def __init__(self, key_file: Path, program: Path = PROGRAM) -> None:
        env = {**os.environ, "RESUMABLE_KEY_FILE": str(key_file), "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env
        )

    def run(self, folder: Path, **order: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"folder": str(folder), **order}) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    kernels = Kernels(tmp_path_factory.mktemp("key") / "key")
    yield kernels
    kernels.close()


def effects(folder: Path) -> int:
    ledger = folder / "ledger"
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


def outcome(folder: Path) -> Any:
    return json.loads((folder / "outcome").read_text())


# What the second process does, and how many effects there are then: by what was on disk when the first one died.
EXPECTED: dict[tuple[str, str], tuple[Any, int]] = {
    ("plain", "call.intent"): (PAID, 1),
    ("plain", "call.intent_committed"): ("in doubt", 0),
    ("plain", "call.returned"): ("in doubt", 1),
    ("plain", "call.result"): ("in doubt", 1),
    ("plain", "call.result_committed"): (PAID, 1),
    ("repeatable", "call.intent"): (PAID, 1),
    ("repeatable", "call.intent_committed"): (PAID, 1),
    ("repeatable", "call.returned"): (PAID, 2),
    ("repeatable", "call.result"): (PAID, 2),
    ("repeatable", "call.result_committed"): (PAID, 1),
    **{("reconcile", point): (PAID, 1) for point in POINTS},
}


def continue_and_judge(kernels: Kernels, folder: Path, last: str, **order: Any) -> None:
    """The next process, and where it is in doubt, one more after somebody has looked at the ledger."""
    value, count = EXPECTED[order["kind"], last]
    assert kernels.run(folder, **order) == 0
    assert (outcome(folder), effects(folder)) == (value, count)
    if value == "in doubt":
        happened = count == 1
        assert kernels.run(folder, **order, resolve=happened) == 0
        assert (outcome(folder), effects(folder)) == (RESOLVED if happened else PAID, 1)
        value, count = outcome(folder), 1
    assert kernels.run(folder, **order) == 0
    assert (outcome(folder), effects(folder)) == (value, count), "a finished call is answered from the journal"


@pytest.mark.parametrize("how", ["exit", "kill"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", POINTS)
def test_death_at_a_point_of_a_call(
    kernels: Kernels, tmp_path: Path, point: str, kind: str, is_async: bool, how: str
) -> None:
    assert kernels.run(tmp_path, kind=kind, is_async=is_async, point=point, how=how) == (9 if how == "exit" else -9)
    continue_and_judge(kernels, tmp_path, point, kind=kind, is_async=is_async)


@pytest.mark.parametrize("how", ["exit", "kill"])
@pytest.mark.parametrize("kind", KINDS)
def test_death_in_every_transaction(kernels: Kernels, tmp_path: Path, kind: str, how: str) -> None:
    """Also in those that take the lease and open the task: nothing of the transaction is there afterwards."""
    died = 9 if how == "exit" else -9
    for nth in itertools.count(1):
        folder = tmp_path / str(nth)
        folder.mkdir()
        code = kernels.run(folder, kind=kind, is_async=False, point="store.transaction", nth=nth, how=how)
        if code == 0:
            break
        assert code == died
        seen = [kind for kind in (folder / "trace").read_text().splitlines() if kind in POINTS]
        continue_and_judge(kernels, folder, seen[-1] if seen else "call.intent", kind=kind, is_async=False)
    assert nth > 4, "lease, task, intent and result are transactions"


# The effects that there must be at the end, and how often the receiver may have been asked for the one it refuses.
ROWS: dict[str, tuple[list[str], int]] = {
    "failed": (["o1"], 0),
    "handled": (["instead", "o1"], 2),
    "terminal": (["instead", "o1"], 2),
    "each_call": (["o1"] * 3, 0),
    "retries": (["o1"], 0),
    "keyed": (["o1"], 0),
    "together": ([f"o{n}" for n in range(50)], 0),
}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("row", ROWS)
def test_death_in_every_row_of_the_table(kernels: Kernels, tmp_path: Path, row: str, is_async: bool) -> None:
    """At each point, the first time and later; who is asked about a doubt looks into the ledger."""
    effects, refusals = ROWS[row]
    for point, nth in itertools.product(POINTS, (1, 25, 50) if row == "together" else (1, 2)):
        folder = tmp_path / f"{point}-{nth}"
        folder.mkdir()
        code = kernels.run(folder, row=row, is_async=is_async, again=False, point=point, nth=nth, how="kill")
        assert code in (0, -9)
        for _ in range(4):
            assert kernels.run(folder, row=row, is_async=is_async, again=True, settle=True) == 0
            if outcome(folder) not in ("in doubt", "refused"):
                break
        paid = [["o1", "paid"]] * 3 if row == "each_call" else [[each, "paid"] for each in effects]
        assert outcome(folder) == (paid if row in ("each_call", "together") else ["o1", "paid"]), (point, nth)
        ledger = (folder / "ledger").read_text().splitlines()
        if row == "keyed":  # the receiver takes those with one key for one
            assert len({line.split()[1] for line in ledger}) == 1
        else:
            assert sorted(ledger) == sorted(effects), (point, nth)
        assert (folder / "asked").read_text().splitlines().count("bad") <= refusals, (point, nth)
