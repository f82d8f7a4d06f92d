"""How often a step and a tool call wait for the disk, counted from outside."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sweep

PROGRAM = """
import os, sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
from resumable_nb import session

config = Config()
config.HistoryManager.enabled = False  # it syncs a database of its own
shell = InteractiveShell.instance(config=config)
def cell(text, mark=""):
    if mark:
        os.access(f"/mark/{mark}", os.F_OK)
    shell.run_cell(text, store_history=True).raise_error()
    os.access("/mark/end", os.F_OK)

cell("%load_ext resumable_nb", "load")
cell("%resumable", "summary")
cell('''
import numpy as np
from resumable_nb import tool, step, track
@tool
def pay(n): return n
@tool(repeatable=True)
def fetch(n): return n
@tool(repeatable=True)
def more(n): return n
@tool
async def send(n): return n
@tool(repeatable=True)
async def get(n): return n
''')
cell("%%resumable first\\nx = 1")
cell("%%resumable begun\\nraise_here = 1")
from resumable_nb.events import Event
def mark_begin(event):
    if event.kind in ("step.begin", "step.begun", "step.body_done", "step.committed"):
        os.access(f"/mark/{event.kind}", os.F_OK)
stop = session.current().bus.listen(mark_begin)
cell("%%resumable small\\ny = 1")
stop()
cell("%%resumable small\\ny = 1", "skip")
cell("%%resumable large\\nz = np.arange(200_000.0)", "first step with a pack")
cell("%%resumable larger\\nz2 = np.arange(300_000.0)", "step with a pack")
cell("pay(1)", "call")
cell("fetch(1)", "repeatable call")
cell("pay(1)\\nfetch(1)", "recorded calls")
cell("await send(1)", "async call")
cell("await get(1)", "async repeatable call")
cell("await send(1)\\nawait get(1)", "recorded async calls")
cell("from resumable_nb import task")
for mark in ("calls in threads", "recorded calls in threads"):
    cell("task().map(pay, range(100, 164), concurrency=16)", mark)
for mark in ("calls in tasks", "recorded calls in tasks"):
    cell("await task().amap(send, range(100, 164), concurrency=16)", mark)
cell('''%%resumable loop
for n in track(range(4), keep=["n"], every=2):
    pass''', "step that keeps two positions")
cell("%%resumable failing\\ntry:\\n    1 / 0\\nexcept ZeroDivisionError:\\n    pass", "step")
session.close()
"""


def counts(tmp_path: Path) -> dict[str, int]:
    strace = shutil.which("strace")
    assert strace, "this test counts fsync calls with strace: install the package 'strace'"
    log = tmp_path / "strace"
    watched = "fsync,fdatasync,sync_file_range,msync,sync,syncfs,access,faccessat,faccessat2"
    command = [
        strace,
        "-f",
        "-o",
        str(log),
        "-e",
        f"trace=?{watched.replace(',', ',?')}",
        sys.executable,
        "-c",
        PROGRAM,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, int] = {}
    mark = "before"
    for line in log.read_text().splitlines():
        if named := re.search(r'access.*"/mark/(.*?)"', line):
            mark = named[1]
            found.setdefault(mark, 0)
        elif re.search(r"\b(fsync|fdatasync|sync_file_range|msync|sync|syncfs)\(", line):
            found[mark] = found.get(mark, 0) + 1
    return found


def test_syncs(tmp_path: Path) -> None:
    """A commit: one; a pack: two; a call: two, or one where it may be repeated; to begin, to skip, to read: none.

    Sixty-four calls, sixteen at a time: far fewer than 128.
    """
    found = counts(tmp_path)
    found.pop("end")
    shared = found.pop("calls in threads"), found.pop("calls in tasks")
    assert min(shared) >= 8, shared
    assert max(shared) <= 64, shared
    assert found == {
        "load": 0,
        "summary": 0,
        "step.begin": 0,
        "step.begun": 0,
        "step.body_done": 1,
        "step.committed": 0,
        "skip": 0,
        "first step with a pack": 1 + 3,
        "step with a pack": 1 + 2,
        "call": 2,
        "repeatable call": 1,
        "recorded calls": 0,
        "async call": 2,
        "async repeatable call": 1,
        "recorded async calls": 0,
        "recorded calls in threads": 0,
        "recorded calls in tasks": 0,
        "step that keeps two positions": 1 + 2,
        "step": 1,
    }
