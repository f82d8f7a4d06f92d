from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.rows import Seeds, seeded


@pytest.fixture(scope="session")
def addresses() -> Iterator[list[str]]:
    with seeded(0, 7, 4242) as addresses:
        yield addresses


@pytest.fixture
def seeds(addresses: list[str], key_file: Path, tmp_path: Path) -> Iterator[Seeds]:
    """Starts kernels in ``tmp_path``, by turns with three hash seeds."""
    kernels = Seeds(addresses, tmp_path)
    yield kernels
    kernels.close()


@pytest.fixture(scope="module")
def module_seeds(addresses: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeds]:
    """The same for a whole module."""
    folder = tmp_path_factory.mktemp("table")
    with mock.patch.dict(os.environ, RESUMABLE_KEY_FILE=str(folder / "key")):
        kernels = Seeds(addresses, folder)
        yield kernels
        kernels.close()
