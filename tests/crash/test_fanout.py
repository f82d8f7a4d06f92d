"""Kernels are killed in the middle of a ``map`` over 1,000 items, and workers with them; a ledger outside judges."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.kernels import Died, Kernel, Kernels, forking

pytestmark = [pytest.mark.sweep, pytest.mark.kernel]

ITEMS = 1000
KILLS = 4

TOOLS = """
import os
from resumable_nb import Happened, NotHappened, task, tool

FOLDER = os.getcwd()

def note(n):
    fd = os.open(f"{FOLDER}/ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{n}\\n".encode()); os.fsync(fd); os.close(fd)

def lookup(n):
    lines = open(f"{FOLDER}/ledger").read().split() if os.path.exists(f"{FOLDER}/ledger") else []
    return Happened(n * 10) if str(n) in lines else NotHappened()

def first_time(name):
    try:
        os.close(os.open(f"{FOLDER}/{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

@tool(reconcile=lookup)
def pay(n):
    if n in DEADLY and first_time(f"before {n}"):
        os.kill(os.getpid(), 9)
    note(n)
    if n in DEADLY and first_time(f"after {n}"):
        os.kill(os.getpid(), 9)
    return n * 10

@tool(reconcile=lookup)
async def ship(n):
    note(n)
    return n * 10
"""


def ledger(folder: Path) -> list[str]:
    path = folder / "ledger"
    return path.read_text().split() if path.exists() else []


def wait_for(kernel: Kernel, folder: Path, effects: int) -> None:
    """Until so many effects are there."""
    while len(ledger(folder)) < effects:
        os.kill(kernel.pid, 0)
        time.sleep(0.002)


def sweep(folder: Path, setup: str, cell: str, seed: int) -> None:
    """Kill the kernel at seeded numbers of effects, then let it come to its end: each effect is there once."""
    points = sorted(random.Random(seed).sample(range(1, ITEMS), KILLS))
    with forking() as address:
        kernels = Kernels(address, folder)
        try:
            for point in points:
                kernel = kernels(setup, TOOLS)
                kernel.start(cell)
                wait_for(kernel, folder, point)
                kernel.kill()
            kernel = kernels.again(setup, TOOLS)
            errors = []
            while (shown := kernel.attempt(cell)).error:
                errors.append(shown.error)
                assert set(errors) == {"WorkerLost"}, shown.text
                assert len(errors) < 12, errors
            kernel(f"assert paid == [n * 10 for n in range({ITEMS})]")
            done = Counter(ledger(folder))
            assert {effect: count for effect, count in done.items() if count != 1} == {}
            assert set(done) == {str(n) for n in range(ITEMS)}
            again = kernels.again(setup, TOOLS)
            again(cell, f"assert paid == [n * 10 for n in range({ITEMS})]")
            assert len(ledger(folder)) == ITEMS
        except Died:
            pytest.fail(f"a kernel died by itself; {len(ledger(folder))} effects")
        finally:
            kernels.close()


def test_map_over_threads(tmp_path: Path) -> None:
    sweep(tmp_path, "DEADLY = ()", f"%%resumable paid\npaid = task().map(pay, range({ITEMS}))", seed=1)


def test_map_over_tasks(tmp_path: Path) -> None:
    cell = f"%%resumable paid\npaid = await task().amap(ship, range({ITEMS}), concurrency=20)"
    sweep(tmp_path, "DEADLY = ()", cell, seed=2)
