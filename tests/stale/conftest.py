from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rows import Seeds, seeded


@pytest.fixture(scope="session")
def addresses() -> Iterator[list[str]]:
    with seeded(1, 2) as addresses:
        yield addresses


@pytest.fixture
def seeds(addresses: list[str], key_file: Path, tmp_path: Path) -> Iterator[Seeds]:
    """Starts kernels in ``tmp_path``, by turns with two hash seeds."""
    kernels = Seeds(addresses, tmp_path)
    yield kernels
    kernels.close()
