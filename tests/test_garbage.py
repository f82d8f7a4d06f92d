"""``gc``: what nothing needs goes, what something needs stays, and a death in the middle harms nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from resumable_nb.cli.command import run
from tests.kernels import Kernels

COLLECT = """
import os, signal, sys
from resumable_nb.events import Bus
from resumable_nb.garbage import Garbage
from resumable_nb.lease import Lease
from resumable_nb.store.disk import DiskStore

bus = Bus()
store = DiskStore(sys.argv[1], bus=bus)
lease = Lease(store, run="gc", bus=bus)
lease.ensure()
bus.listen(lambda event: event.kind == sys.argv[2] and os.kill(os.getpid(), signal.SIGKILL))
print(Garbage(store, lease, bus).collect(1))
"""
TOOL = """
from resumable_nb import task, tool
@tool
def order(n):
    with open("ledger", "a") as ledger:
        ledger.write(f"{n}\\n")
    return [n] * 200
"""


def work(n: int) -> tuple[str, ...]:
    """Three steps: arrays in packs, a value over 1 MB in a stream, an order, and messages."""
    return (
        f"%%resumable array\nimport numpy as np\nbig = np.arange(200_000.0) + {n}\nsame = np.ones(150_000)",
        f"%%resumable text\nlong = [str(i + {n}) for i in range(300_000)]\nfunction = lambda x: x + {n}",
        f"%%resumable order\nreceipt = order({n})\ntask().memory.append({{'role': 'user', 'content': '{n}'}})",
    )


CHECK = """
assert big[0] == 3 and same.sum() == 150_000 and long[1] == "4" and function(1) == 4 and receipt == [3] * 200
assert [message["content"] for message in task().memory] == ["3"]
"""


@pytest.fixture
def store(kernels: Kernels, tmp_path: Path) -> Path:
    """A task that was forgotten once, and then worked through three times, with other values each time."""
    kernel = kernels(TOOL, *work(0), "%resumable forget --yes")
    for n in (1, 2, 3):
        kernel(*work(n))
    kernel.end()
    return tmp_path / ".resumable" / "book"


def goes_on(kernels: Kernels) -> None:
    """Run All skips every step, and has what it had."""
    kernel = kernels(TOOL)
    said = [kernel(cell).messages[0] for cell in work(3)]
    assert all(each.startswith("✓ ") for each in said)
    kernel(CHECK)
    kernel.end()
    assert (kernel.folder / "ledger").read_text() == "0\n1\n2\n3\n"


def packs(store: Path) -> set[str]:
    return {path.name for path in (store / "packs").iterdir()}


def test_what_was_forgotten_goes_and_every_version_stays(
    store: Path, kernels: Kernels, capsys: pytest.CaptureFixture[str]
) -> None:
    before = packs(store)
    assert run(["gc", str(store)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("book: ")
    assert "blobs" in told
    assert told.endswith(" freed\n")
    assert "version" not in told
    assert packs(store) < before
    goes_on(kernels)
    kernel = kernels(TOOL)
    for n in (1, 2, 3):
        kernel(f"from resumable_nb import task\ntask().restore('text', version={n})")
        assert kernel("float(big[0]), len(same), long[0], function(1)").value == f"({n}.0, 150000, '{n}', {n + 1})"
    kernel.end()
    assert run(["gc", str(store)]) == 0
    assert capsys.readouterr().out == "book: nothing to remove\n"


def test_only_as_many_versions_stay_as_are_to_be_kept(
    store: Path, kernels: Kernels, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["gc", str(store), "--keep", "2"]) == 0
    assert capsys.readouterr().out.startswith("book: 3 versions, ")
    kernel = kernels("from resumable_nb import task", "task().restore('text', version=2)")
    assert kernel("long[0]").value == "'2'"
    assert kernel.attempt("task().restore('text', version=1)").error == "UsageError"
    kernel.end()
    goes_on(kernels)


def test_a_task_that_a_kernel_has_is_left_alone(
    kernels: Kernels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = kernels("%%resumable a\nx = 1")
    assert run(["gc", str(tmp_path)]) == 1
    assert f"held by pid {kernel.pid}" in capsys.readouterr().err


@pytest.mark.sweep
@pytest.mark.parametrize("point", ["garbage.marked", "store.transaction", "garbage.rows_gone", "garbage.pack_gone"])
def test_killed_in_the_middle_it_leaves_a_right_store(
    point: str, store: Path, kernels: Kernels, capsys: pytest.CaptureFixture[str]
) -> None:
    died = subprocess.run([sys.executable, "-c", COLLECT, str(store), point], timeout=120, check=False)
    assert died.returncode == -signal.SIGKILL
    goes_on(kernels)
    assert run(["gc", str(store), "--keep", "1"]) == 0
    capsys.readouterr()
    goes_on(kernels)
    assert run(["gc", str(store), "--keep", "1"]) == 0
    assert capsys.readouterr().out == "book: nothing to remove\n"
    assert run(["doctor", str(store)]) == 0
