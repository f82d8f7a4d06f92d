"""The benchmarks run. How long they take is nobody's verdict here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.kernel
def test_every_benchmark_runs_on_small_sizes() -> None:
    command = [sys.executable, "-m", "benchmarks", "--small", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert {each["against"] for each in figures} >= {"blake3", "pickle", "SQLite", "write + fsync", "hold nothing"}
    assert all(each["ratio"] > 0 for each in figures)
