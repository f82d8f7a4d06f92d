"""The README's example, pasted and run: in one kernel, killed in the middle, and in the next."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from tests.kernels import Kernels

README = Path(__file__).parent.parent / "README.md"


def blocks() -> list[str]:
    """The code of the section that is meant to be pasted."""
    section = README.read_text().split("## Lines to paste")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def test_pasted_lines_survive_a_kill(kernels: Kernels, tmp_path: Path) -> None:
    """As the text under the example says: every order is in the shop's file once."""
    load, define, buy, history = blocks()
    quick = define.replace("time.sleep(0.2)", "time.sleep(0.01)")
    shop = tmp_path / "shop.jsonl"

    first = kernels(load, quick)
    first.start(buy)
    while not (shop.exists() and len(shop.read_text().splitlines()) >= 5):
        time.sleep(0.005)
    first.kill()

    second = kernels(load, quick)
    shown = second.attempt(buy)
    if shown.error:  # it died inside a call, and nobody but the file knows
        assert shown.error == "InDoubt"
        call = re.search(r"resolve (\w+)", shown.text)
        number = re.search(r"amount=(\d+)", shown.text)
        assert call is not None
        assert number is not None
        happened = any(json.loads(line)[1] == int(number[1]) for line in shop.read_text().splitlines())
        value = json.dumps({"item": f"item {number[1]}", "amount": int(number[1])})
        second(f"%resumable resolve {call[1]} " + (f"happened {value}" if happened else "not-happened"), buy)
    assert second("total").value == "190"
    assert sorted(json.loads(line)[1] for line in shop.read_text().splitlines()) == list(range(20))
    assert "20 rows" in second(f"{history}\nprint(len(task().history()), 'rows')").stdout
