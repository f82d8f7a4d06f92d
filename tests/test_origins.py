"""What a plain cell read counts for the connections and iterators that it made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import Kernels
from tests.rows import restored

pytestmark = pytest.mark.kernel


def test_looking_at_what_a_cell_read_imports_nothing(kernels: Kernels, tmp_path: Path) -> None:
    (tmp_path / "loud_one.py").write_text("open('imported', 'w').close()\n")
    cells = (
        "def later():\n    import loud_one\n    return loud_one.__name__",
        "source = (later for _ in 'ab')\nuse = later\nother = (later, iter('ab'))",
        "%%resumable a\nn = 1",
    )
    kernels(*cells)
    kernel = kernels.again(*cells[:2])
    assert restored(kernel(cells[2]))
    assert not (tmp_path / "imported").exists()
