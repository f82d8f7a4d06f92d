"""A process dies at each instant of a rollback; the next one goes on. A ledger outside the store judges."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.test_tool_points import Kernels

pytestmark = pytest.mark.sweep

CHARGES = [f"charge {each}" for each in "abc"]
REFUNDS = [f"refund {each}" for each in "cba"]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    kernels = Kernels(tmp_path_factory.mktemp("key") / "key", Path(__file__).with_name("undo_kernels.py"))
    yield kernels
    kernels.close()


def ledger(folder: Path) -> list[str]:
    return (folder / "ledger").read_text().splitlines()


def outcome(folder: Path) -> Any:
    return json.loads((folder / "outcome").read_text())


def go_on_and_judge(kernels: Kernels, folder: Path, **order: Any) -> None:
    """Kernels until the step is done: each undo has happened once, in reverse, before anything new."""
    at_death = ledger(folder)
    assert at_death == (CHARGES + REFUNDS)[: len(at_death)]
    assert kernels.run(folder, **order) == 0
    while outcome(folder) != "done":
        assert not order["reconcile"], "there is somebody to ask"
        call, about = outcome(folder)
        happened = f"refund {about}" in ledger(folder)
        assert kernels.run(folder, **order, resolve=call, happened=happened) == 0
    if order["begun"]:
        assert ledger(folder) == CHARGES + REFUNDS + CHARGES
    else:  # it died before the rollback was on record: the step went on with its calls
        assert ledger(folder) == CHARGES


@pytest.mark.parametrize(
    ("kind", "how"), [("sync", "exit"), ("sync", "kill"), ("async", "kill"), ("reconcile", "kill")]
)
def test_death_in_every_event_of_a_rollback(kernels: Kernels, tmp_path: Path, kind: str, how: str) -> None:
    """Transactions, and what lies between an intent, the effect and its result."""
    order: dict[str, Any] = {"is_async": kind == "async", "reconcile": kind == "reconcile"}
    deaths = 0
    for point in ("store.transaction", "call.returned"):
        for nth in itertools.count(1):
            folder = tmp_path / f"{point} {nth}"
            folder.mkdir()
            code = kernels.run(folder, **order, fail=True, point=point, nth=nth, how=how)
            if code == 0:
                assert outcome(folder) == "undone"
                assert ledger(folder) == CHARGES + REFUNDS
                break
            assert code == (9 if how == "exit" else -9)
            deaths += 1
            begun = "rollback.begun" in (folder / "trace").read_text()
            go_on_and_judge(kernels, folder, **order, fail=False, begun=begun)
    assert deaths >= 8 + 3, "begin, three undos of two transactions each and the end are transactions"
