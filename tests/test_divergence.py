"""A step that goes on unchanged and asks for other calls than before: stopped in time, or reported at its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kernels import Died, Kernels, Shown

PRELUDE = """
import asyncio, json, os, random, signal, threading, time, uuid, warnings
from concurrent.futures import ThreadPoolExecutor
from resumable_nb import step, tool, track

warnings.simplefilter("always")

def effect(*what):
    with open("ledger", "a") as file:
        file.write(json.dumps(what) + "\\n")

def die_once(name="died"):
    if not os.path.exists(name):
        open(name, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)

def fresh():
    return uuid.uuid4().hex[:6]

class Boom(Exception): ...

@tool
def pay(order, at=None):
    if order == "bad":
        raise Boom(order)
    effect("pay", order)
    return order

@tool(repeatable=True)
def ask(question):
    effect("ask")
    return question

@tool
def die(name="died"):
    die_once(name)

@tool
async def send(order, at=None):
    await asyncio.sleep(0)
    effect("pay", order)
    return order

@tool
def both(order):
    return pay(order, "inside")
"""


def ledger(folder: Path) -> list[list[str]]:
    path = folder / "ledger"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def go_on(kernels: Kernels, cell: str, *, prelude: str = PRELUDE, edited: str = "") -> Shown:
    """Run the cell in a kernel that dies in it, and once more, perhaps edited, in the next one."""
    with pytest.raises(Died):
        kernels.again(PRELUDE, cell)
    kernel = kernels.again(prelude)
    return kernel.attempt(edited or cell)


# --- stopped before the call is made


def test_a_random_id_in_the_arguments_is_stopped_with_the_difference(kernels: Kernels, tmp_path: Path) -> None:
    shown = go_on(kernels, "%%resumable shop\npay('o1', fresh())\ndie_once()")
    assert shown.error == "Diverged"
    assert len(shown.said.splitlines()) == 1
    assert "step 'shop' went on unchanged" in shown.said
    assert "The difference: at: '" in shown.said
    assert "`%resumable rerun shop`" in shown.said
    assert ledger(tmp_path) == [["pay", "o1"]]


ORDERED = {
    "a call in doubt": "open_ = fresh()\npay_and_die('o1', open_)",
    "one of several": "pay('o1')\npay('o2', fresh())\ndie_once()",
    "in an awaited call": "await send('o1', fresh())\ndie_once()",
    "in a block": "with step('inner'):\n    pay('o1', fresh())\n    die_once()",
    "in a loop": "for n in track(range(3)):\n    pay(n, fresh())\n    if n: die_once()",
    "after a kept turn": "for n in track(range(3), keep=[]):\n    pay(n, fresh())\n    if n: die_once()",
    "in a loop of its own": "import threading\ndef work():\n    asyncio.run(main())\nasync def main():\n"
    "    await send('o1', fresh())\nwith step('outer'):\n    work_here = work\ndie_once() if pay('x', fresh()) else 0",
}

PAY_AND_DIE = """
@tool
def pay_and_die(order, at):
    effect("pay", order)
    die_once()
"""


@pytest.mark.parametrize("body", ORDERED.values(), ids=ORDERED)
def test_calls_in_order_are_stopped(kernels: Kernels, tmp_path: Path, body: str) -> None:
    prelude = PRELUDE + PAY_AND_DIE
    with pytest.raises(Died):
        kernels.again(prelude, f"%%resumable shop\n{body}")
    before = ledger(tmp_path)
    shown = kernels.again(prelude).attempt(f"%%resumable shop\n{body}")
    assert shown.error == "Diverged", shown.text
    assert ledger(tmp_path) == before


def test_a_call_that_may_be_repeated_warns_once_and_goes_on(kernels: Kernels, tmp_path: Path) -> None:
    shown = go_on(kernels, "%%resumable shop\nfor n in range(3):\n    ask(fresh())\ndie_once()")
    assert shown.error == ""
    assert shown.text.count("DivergenceWarning") == 1
    assert "question: '" in shown.text
    assert len(ledger(tmp_path)) == 6


# --- and how it goes on


def test_rerun_accepts_it_as_another_call(kernels: Kernels, tmp_path: Path) -> None:
    cell = "%%resumable shop\npay('o1', fresh())\ndie_once()"
    assert go_on(kernels, cell).error == "Diverged"
    kernels.again(PRELUDE, "%resumable rerun shop", cell)
    assert ledger(tmp_path) == [["pay", "o1"]] * 2


@pytest.mark.parametrize("options", ["ignore='at'", "key='order'", "key=['order']"])
def test_leaving_the_argument_out_finds_the_recorded_call(kernels: Kernels, tmp_path: Path, options: str) -> None:
    """What happened under the old rule happened: the payment is not made again because it is known otherwise now."""
    cell = "%%resumable shop\nfor n in range(3):\n    pay(n, fresh())\n    if n: die_once()\nlast = pay(n, 0)"
    assert go_on(kernels, cell).error == "Diverged"
    fixed = PRELUDE.replace("@tool\ndef pay", f"@tool({options})\ndef pay")
    for _ in range(2):
        kernel = kernels.again(fixed, cell)
        assert kernel("last").value == "2"
    assert ledger(tmp_path) == [["pay", 0], ["pay", 1], ["pay", 2]]


def test_a_rule_that_cannot_be_compared_is_asked_about(kernels: Kernels, tmp_path: Path) -> None:
    cell = "%%resumable shop\npay('o1')\ndie_once()"
    fixed = PRELUDE.replace("@tool\ndef pay", "@tool(key=lambda order, at: order)\ndef pay")
    shown = go_on(kernels, cell, prelude=fixed)
    assert shown.error == "Diverged"
    assert "what identifies its calls was changed (at,order → key())" in shown.said
    assert ledger(tmp_path) == [["pay", "o1"]]


# --- what has not diverged

SAME = {
    "kept turns": "for n in track(range(5), keep=[], every=2):\n    pay(n)\n    if n == 3: die_once()",
    "two loops": "for n in track(range(3), 'a', keep=[]):\n    pay(n)\npay('between')\n"
    "for n in track(range(3, 6), 'b', keep=[]):\n    pay(n)\n    if n == 4: die_once()",
    "polling": "import itertools\n@tool(each_call=True)\ndef poll(job):\n    effect('poll')\n"
    "for n in range(4):\n    poll('a')\n    if n == 2: die_once()",
    "a handled failure": "for n in (1, 'bad', 2, 3):\n    try:\n        pay(n)\n    except Boom:\n"
    "        pay('instead')\n    if n == 2: die_once()",
    "a failure that varies": "try:\n    pay('bad', fresh())\nexcept Boom:\n    pass\ndie_once()\npay(1)",
    "random numbers": "for n in range(4):\n    pay(n, random.random())\n    if n == 2: die_once()",
    "a tool in a tool": "both(1)\ndie_once()\npay(2, 'own')\nboth(3)",
    "nested steps": "for n in range(4):\n    with step('page'):\n        pay(n)\n    if n == 2: die_once()\npay('end')",
    "nothing before": "die_once()\npay(1, fresh())",
    "more to do than before": "jobs = [1, 2] if not os.path.exists('died') else [1, 2, 3]\nfor n in jobs:\n    pay(n)\n"
    "die_once()",
    "gather": "order = (4, 2, 3, 1) if os.path.exists('died') else (1, 2, 3)\n"
    "await asyncio.gather(*[send(n) for n in order])\ndie_once()",
    "threads": "order = (4, 2, 3, 1) if os.path.exists('died') else (1, 2, 3)\n"
    "with ThreadPoolExecutor(2) as pool:\n    list(pool.map(pay, order))\ndie_once()",
}


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_the_same_calls_go_on(kernels: Kernels, tmp_path: Path, body: str) -> None:
    shown = go_on(kernels, f"%%resumable shop\n{body}")
    assert shown.error == "", shown.text
    assert "Divergence" not in shown.text
    paid = [what for what in ledger(tmp_path) if what[0] == "pay"]
    assert len(paid) == len({json.dumps(what) for what in paid})


@pytest.mark.parametrize("again", ["", "a crash"])
def test_an_edited_step_asks_for_what_it_likes(kernels: Kernels, tmp_path: Path, again: str) -> None:
    """Also when it goes on unchanged later: the calls of its earlier code are no calls of its own."""
    edited = "%%resumable shop\npay('o2')" + ("\ndie_once('second')" if again else "")
    if again:
        with pytest.raises(Died):
            go_on(kernels, "%%resumable shop\npay('o1')\ndie_once()", edited=edited)
        shown = kernels.again(PRELUDE).attempt(edited + "\n")
    else:
        shown = go_on(kernels, "%%resumable shop\npay('o1')\ndie_once()", edited=edited)
    assert shown.error == ""
    assert "Divergence" not in shown.text
    assert ledger(tmp_path) == [["pay", "o1"], ["pay", "o2"]]


# --- judged at the end

REPORTED = {
    "gather": "await asyncio.gather(*[send(n, fresh()) for n in range(2)])\ndie_once()",
    "threads": "with ThreadPoolExecutor(2) as pool:\n    list(pool.map(lambda n: pay(n, fresh()), range(2)))\n"
    "die_once()",
    "steps of other names": 'with step(fresh()):\n    pay(0, fresh())\nwith step("b"):\n    pay("b")\n'
    'with step(fresh()):\n    pay(1, fresh())\n    pay("c")\ndie_once()',
    "a path not taken": "if not os.path.exists('died'):\n    pay(0), pay(1)\ndie_once()",
}


@pytest.mark.parametrize("body", REPORTED.values(), ids=REPORTED)
def test_effects_that_nobody_asked_for_are_reported_at_the_end(kernels: Kernels, body: str) -> None:
    shown = go_on(kernels, f"%%resumable shop\n{body}")
    assert shown.error == "", shown.text
    assert shown.text.count("DivergenceWarning") == 1
    assert shown.text.count(" happened (call ") == 2
    assert "order=0" in shown.text
    assert "order=1" in shown.text
    assert "order='" not in shown.text


def test_a_finished_step_that_is_replayed_makes_no_call_that_is_not_recorded(kernels: Kernels, tmp_path: Path) -> None:
    """Its body runs for what could not be saved; that must not pay again."""
    cell = "%%resumable shop\npay('o1', fresh())\ngoes = (n for n in [1])"
    kernels.again(PRELUDE, cell)
    shown = kernels.again(PRELUDE).run_all([cell, "next(goes)"])
    assert shown[-1].error == "NotSaved", shown[-1].text
    assert "is not recorded as done" in shown[-1].text
    assert ledger(tmp_path) == [["pay", "o1"]]


def test_names_that_are_no_longer_one_object_are_another_beginning(kernels: Kernels) -> None:
    cell = "%%resumable shop\nbooked.append(1)\npay(len(asked))\ndie_once()"
    with pytest.raises(Died):
        kernels.again(PRELUDE, "asked = []\nbooked = asked", cell)
    kernel = kernels.again(PRELUDE, "asked = []\nbooked = []", cell)
    assert ledger(kernel.folder) == [["pay", 1], ["pay", 0]]
