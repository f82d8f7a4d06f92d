"""Every test has its own signing key, so that no test touches the user's."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from resumable_nb import scope, tools
from tests.bench import Bench, Effect
from tests.kernels import Kernels, forking
from tests.lives import Lives

# A background job of a shell starts with SIGINT ignored, and so would the kernels that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first: at the end no worker waits for one that began late."""
    items.sort(key=lambda item: item.get_closest_marker("sweep") is None)


@pytest.fixture(autouse=True)
def key_file(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("key") / "key"
    monkeypatch.setenv("RESUMABLE_KEY_FILE", str(path))
    return path


@pytest.fixture(scope="session")
def kernel_address() -> Iterator[str]:
    with forking() as address:
        yield address


@pytest.fixture
def kernels(kernel_address: str, key_file: Path, tmp_path: Path) -> Iterator[Kernels]:
    """Starts kernels that work in ``tmp_path``."""
    made = Kernels(kernel_address, tmp_path)
    yield made
    made.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    tools.use(bench.desk)
    yield bench
    scope.reset()


@pytest.fixture
def effect() -> Effect:
    return Effect()


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Lives]:
    made = Lives(tmp_path)
    yield made
    made.close()
