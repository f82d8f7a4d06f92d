"""The practice shop: its effects are real, and its ledger is right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))

import shop  # noqa: E402  # the examples are no package


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An open shop in an empty folder."""
    monkeypatch.chdir(tmp_path)
    shop.open_shop()
    yield tmp_path
    close_shop()


def close_shop() -> None:
    process = psutil.Process(shop.ask("GET", "/health")["pid"])
    process.send_signal(signal.SIGKILL)
    process.wait(10)


def effects(kind: str) -> list[tuple[str, int]]:
    return [(record["key"], record["n"]) for record in shop.read_ledger(Path(shop.LEDGER)) if record["kind"] == kind]


def test_pages_overlap_and_together_hold_every_purchase(folder: Path) -> None:
    first, second = shop.get_orders(1), shop.get_orders(2)
    assert first[-shop.OVERLAP :] == second[: shop.OVERLAP]
    assert first[0] == {"order": "O-00001", "customer": "00001", "date": "19970101", "items": "1", "total": "$11.77"}
    assert len(shop.read_purchases()) == shop.PAGES * shop.PAGE_SIZE
    assert effects("page") == [("1", 1), ("2", 2)]
    with pytest.raises(ValueError, match="page is 1 to 60, not '61'"):
        shop.get_orders(61)


def test_two_charges_are_two_charges(folder: Path) -> None:
    """The shop does not protect anybody from asking twice: that is what the package is for."""
    assert shop.find_charges("C 1&2") == []
    made = [shop.post_charge("C 1&2", 500), shop.post_charge("C 1&2", 500)]
    assert shop.find_charges("C 1&2") == made
    assert effects("charge") == [("C 1&2", 1), ("C 1&2", 2)]


def test_a_confirmation_is_sent_once_for_a_key(folder: Path) -> None:
    sent = shop.post_confirmation("C1", "k1")
    assert shop.post_confirmation("C1", "k1") == sent
    shop.post_confirmation("C1", "k2")
    assert effects("confirmation") == [("C1", 1), ("C1", 2)]


def test_reopened_shop_knows_its_ledger_and_drops_half_a_line(folder: Path) -> None:
    shop.post_charge("C1", 500)
    close_shop()
    with Path(shop.LEDGER).open("a") as ledger:
        ledger.write('{"kind": "charge", "n": 2, "ke')
    assert [record["key"] for record in shop.read_ledger(Path(shop.LEDGER))] == ["C1"]
    assert not shop.is_open()
    with pytest.raises(ConnectionError):
        shop.get_orders(1)
    shop.open_shop()
    assert [record["n"] for record in shop.find_charges("C1")] == [1]
    shop.post_charge("C2", 100)
    assert effects("charge") == [("C1", 1), ("C2", 2)]


def test_open_shop_is_used_again(folder: Path) -> None:
    pid = shop.ask("GET", "/health")["pid"]
    shop.open_shop()
    assert shop.ask("GET", "/health")["pid"] == pid


def test_charge_is_on_disk_before_a_slow_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The asker is gone before the answer: the charge stands, once."""
    monkeypatch.chdir(tmp_path)
    server = subprocess.Popen([sys.executable, EXAMPLES / "shop.py", "--slow", "charge:1", "--slow-s", "1000"])
    try:
        wait_for(lambda: shop.is_open())
        asker = subprocess.Popen([sys.executable, "-c", "import shop; shop.post_charge('C1', 5)"], env=with_examples())
        wait_for(lambda: effects("charge") == [("C1", 1)])
        asker.kill()
        asker.wait(10)
        assert [record["cents"] for record in shop.find_charges("C1")] == [5]
    finally:
        server.kill()
        server.wait(10)


def test_idle_shop_closes_by_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "shop.py", "--idle-s", "0"], cwd=tmp_path, timeout=60, check=False
    )
    assert done.returncode == 0


def with_examples() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(EXAMPLES)}


def wait_for(condition: object) -> None:
    assert callable(condition)
    pause = threading.Event()
    while not condition():
        pause.wait(0.01)
