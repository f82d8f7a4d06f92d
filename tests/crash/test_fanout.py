"""Kernels are killed in the middle of a ``map`` over 1,000 items, and workers with them; a ledger outside judges."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
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


def sweep(
    folder: Path,
    setup: str,
    cell: str,
    seed: int,
    *,
    items: int = ITEMS,
    kills: int = KILLS,
    deadly: tuple[int, ...] = (),
) -> None:
    """Kill the kernel at seeded numbers of effects, then let it come to its end: each effect is there once.

    In the last one, workers die at the ``deadly`` items, before the effect and after it.
    """
    points = sorted(random.Random(seed).sample(range(1, items), kills))
    with forking() as address:
        kernels = Kernels(address, folder)
        try:
            for point in points:
                kernel = kernels(setup, "DEADLY = ()", TOOLS)
                kernel.start(cell)
                wait_for(kernel, folder, point)
                kernel.kill()
            kernel = kernels.again(setup, f"DEADLY = {deadly}", TOOLS)
            errors = []
            while (shown := kernel.attempt(cell)).error:
                errors.append(shown.error)
                assert set(errors) == {"WorkerLost"}, shown.text
                assert len(errors) < 12, errors
            kernel(f"assert paid == [n * 10 for n in range({items})]")
            done = Counter(ledger(folder))
            assert {effect: count for effect, count in done.items() if count != 1} == {}
            assert set(done) == {str(n) for n in range(items)}
            again = kernels.again(setup, f"DEADLY = {deadly}", TOOLS)
            assert "restored" in again(cell).text
            again(f"assert paid == [n * 10 for n in range({items})]")
            assert len(ledger(folder)) == items
        except Died:
            pytest.fail(f"a kernel died by itself; {len(ledger(folder))} effects")
        finally:
            kernels.close()


def test_map_over_threads(tmp_path: Path) -> None:
    sweep(tmp_path, "", f"%%resumable paid\npaid = task().map(pay, range({ITEMS}))", seed=1)


def test_map_over_tasks(tmp_path: Path) -> None:
    cell = f"%%resumable paid\npaid = await task().amap(ship, range({ITEMS}), concurrency=20)"
    sweep(tmp_path, "", cell, seed=2)


def test_map_over_a_pool_of_processes_whose_kernel_dies(tmp_path: Path) -> None:
    """The workers end with their kernel, before the next one asks what became of their calls."""
    setup = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"))
"""
    cell = "%%resumable paid\npaid = task().map(pay, range(200), executor=pool)"
    sweep(tmp_path, setup, cell, seed=5, items=200, kills=3)


CLUSTER = """
import sys
from distributed import LocalCluster

if __name__ == "__main__":
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(host="127.0.0.1", silence_logs=50, **options) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """Two workers, in processes that outlive the kernels."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    program = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


def test_map_over_dask(tmp_path: Path, cluster: str) -> None:
    """Workers die before and after an effect, and Dask starts their tasks again; what dead kernels sent goes on."""
    folder = tmp_path / "book"
    folder.mkdir()
    setup = f"from distributed import Client\nclient = Client({cluster!r})"
    cell = f"%%resumable paid\npaid = task().map(pay, range({ITEMS}), executor=client)"
    sweep(folder, setup, cell, seed=3, kills=2, deadly=(760, 900))


def test_map_over_a_cluster_that_dies_with_its_kernel(tmp_path: Path) -> None:
    setup = """
from distributed import Client, LocalCluster
options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
local = LocalCluster(host="127.0.0.1", **options)
client = Client(local)
"""
    cell = "%%resumable paid\npaid = task().map(pay, range(60), executor=client)"
    sweep(tmp_path, setup, cell, seed=4, items=60, kills=2, deadly=(55,))
