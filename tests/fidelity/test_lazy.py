"""A skip reads the manifest only: what comes back, and when it is read, after a kernel was killed."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from resumable_nb.cli.command import run
from tests.kernels import Kernel, Kernels
from tests.rows import restored

pytestmark = pytest.mark.kernel

SIZE = 200_000
"""Bytes of a value that is a row of the database; larger ones lie in packs."""
LARGE = "%%resumable large\nimport numpy as np\nlarge = np.arange(1_000_000.0)\nview = large[10:]"
ROWS = [
    f"%%resumable row-{k}\nimport random\nrow_{k} = random.Random({k}).randbytes({SIZE}).hex()[:{SIZE}]"
    for k in range(8)
]
SUM = "%%resumable sum\ntotal = float(large[-1]) + len(row_3)"


def read_by(kernel: Kernel, *cells: str) -> int:
    """How many bytes the kernel reads from files while these steps are skipped."""
    process = psutil.Process(kernel.pid)
    before = process.io_counters().read_chars
    for cell in cells:
        assert restored(kernel(cell))
    return process.io_counters().read_chars - before


def test_skip_reads_the_manifest_only(kernels: Kernels, tmp_path: Path) -> None:
    """Packs may even be away; what a cell reaches is read then, and only that."""
    kernels(LARGE, *ROWS, SUM)
    kernels.close()
    packs = tmp_path / ".resumable" / "book" / "packs"
    away = packs.rename(tmp_path / "away")
    kernel = kernels()
    assert restored(kernel(LARGE))  # the first one finds out what tables there are
    assert read_by(kernel, *ROWS, SUM, LARGE) < 2 * SIZE
    assert kernel("total").value == f"{999_999.0 + SIZE}"
    before = psutil.Process(kernel.pid).io_counters().read_chars
    assert kernel("len(row_5)").value == str(SIZE)
    assert SIZE < psutil.Process(kernel.pid).io_counters().read_chars - before < 3 * SIZE
    away.rename(packs)
    assert kernel("float(large[5]), view.base is not None, np.shares_memory(view, large)").value == "(5.0, True, True)"


def test_versions_are_those_that_the_store_still_has(kernels: Kernels, tmp_path: Path) -> None:
    """Each of them can be restored, with the cells above it as they were then."""
    cells = "%%resumable a\nx = [{n}]", "%%resumable b\ny = x * {n}"
    for n in (1, 2, 3, 4):
        kernels.again(*(cell.format(n=n) for cell in cells))
    kernels.close()
    listed = "[(each.version, each.status, each.text.count('4')) for each in task().versions('b')]"
    kernel = kernels("from resumable_nb import task")
    assert kernel(listed).value == "[(1, 'done', 0), (2, 'done', 0), (3, 'done', 0), (4, 'done', 1)]"
    kernels.close()
    assert run(["gc", str(tmp_path), "--keep", "2"]) == 0
    kernel = kernels("from resumable_nb import task")
    assert kernel(listed).value == "[(3, 'done', 0), (4, 'done', 1)]"
    for n in (3, 4):
        kernel(f"task().restore('b', version={n})")
        assert kernel("x, y").value == f"([{n}], {[n] * n})"
    gone = kernel.attempt("task().restore('b', version=2)")
    assert gone.error == "UsageError"
    assert "3, 4" in gone.said
