"""A real kernel is SIGKILLed at random instants until the notebook is through; a ledger outside the project judges."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from resumable_nb.supervisor import run_notebook
from tests.crash.notebook import CELLS, FINAL

pytestmark = [pytest.mark.sweep, pytest.mark.kernel]

KILLS_EACH = 9
SEEDS = range(6)  # 54 kills in all


def write_notebook(folder: Path) -> Path:
    """The notebook of the sweep, each effect followed by a pause, so that many instants lie inside of tool calls."""
    cells = [cell.replace("os.close(fd)", "os.close(fd); __import__('time').sleep(0.03)") for cell in CELLS]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text.strip()) for text in [*cells, FINAL]])
    path = folder / "everything.ipynb"
    nbformat.write(notebook, path)
    return path


class Killer:
    """Kills each kernel once, some time after its start, until it has done so often enough."""

    def __init__(self, seed: int, kills: int) -> None:
        self._random = random.Random(seed)
        self._kills = kills
        self._timer: threading.Timer | None = None
        self.killed = 0

    def __call__(self, pid: int) -> None:
        self.rest()
        if self.killed < self._kills:
            self._timer = threading.Timer(self._random.uniform(0.3, 2.0), self._kill, [pid])
            self._timer.start()

    def _kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it was through before its time
            os.kill(pid, signal.SIGKILL)
            self.killed += 1

    def rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()


def uninterrupted(folder: Path) -> object:
    report = run_notebook(write_notebook(folder), cwd=folder)
    assert report.status == "completed", report
    return json.loads((folder / "final.json").read_text())


@pytest.mark.parametrize("seed", SEEDS)
def test_kernel_killed_at_random_instants(seed: int, tmp_path: Path) -> None:
    """No effect twice, none lost, and the variables of an uninterrupted run."""
    plain, folder = tmp_path / "plain", tmp_path / "killed"
    plain.mkdir()
    folder.mkdir()
    expected = uninterrupted(plain)
    notebook = write_notebook(folder)
    killer = Killer(seed, KILLS_EACH)
    while killer.killed < KILLS_EACH:
        report = run_notebook(notebook, cwd=folder, on_kernel=killer, max_restarts=KILLS_EACH + 1)
        killer.rest()
        assert report.status == "completed", report
    assert json.loads((folder / "final.json").read_text()) == expected
    effects = Counter(tuple(json.loads(line)) for line in (folder / "ledger.jsonl").read_text().splitlines())
    wanted = {tuple(json.loads(line)) for line in (plain / "ledger.jsonl").read_text().splitlines()}
    assert set(effects) == wanted
    assert {effect: count for effect, count in effects.items() if effect[0] != "fetch" and count > 1} == {}
