"""Random notebooks: cells as text, of statements that a plain run of them gives a meaning to."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

VARIABLES = ("a", "b", "c", "d", "es0", "es1", "es2", "ws", "xs", "ys", "zs", "ds", "es", "tmp", "big")
"""What runs are compared by."""

SETUP = """
import asyncio, random, sys
import numpy as np

a, b, c = {values}
d, es0, es1, es2 = 100, 100, 100, 100
ws, xs, ys, ds = [100], [100], [100], []
zs, es = xs, [ws]
tmp, big = 0, None

def receive(*what):
    return sys.modules["tests.machine.receiver"].receive(*what)

def look(*what):
    happened = sys.modules["tests.machine.receiver"].happened(*what)
    return Happened(receive_again(*what)) if happened else NotHappened()

def receive_again(*what):
    return sys.modules["tests.machine.receiver"].now.answer(what)

def tick():
    return sys.modules["tests.machine.receiver"].tick()

def helper(x):
    return x + {helper}

@tool
def pay(n):
    return receive("pay", n)

@tool
async def apay(n):
    await asyncio.sleep(0)
    return receive("apay", n)

@tool(repeatable=True)
def fetch(n):
    return receive("fetch", n)

@tool(reconcile=lambda n: look("ship", n))
def ship(n):
    return receive("ship", n)

@tool(terminal=Refused)
def vote(n):
    return receive("vote", n)

@tool(ignore=["at"])
def stamp(n, at):
    return receive("stamp", n)

@tool(each_call=True)
def note(where, n):
    return receive("note", where, n)

def unbook(where, n):
    return receive("unbook", where, n)

@tool(compensate=unbook)
def book(where, n):
    return receive("book", where, n)
"""


@dataclass(frozen=True)
class Setup:
    """The first cell, which is no step and runs each time: inputs, a helper function, the tools."""

    values: tuple[int, int, int] = (100, 101, 102)
    helper: int = 1

    @property
    def text(self) -> str:
        return SETUP.replace("{values}", str(self.values)).replace("{helper}", str(self.helper))


@dataclass(frozen=True)
class Cell:
    """A ``%%resumable`` cell."""

    name: str
    body: str
    undo: bool = False

    @property
    def text(self) -> str:
        text = self.body.replace("HERE", repr(self.name))
        return text.replace("TURN", f"i{self.name}").replace("MAYBE", f"e{self.name}")

    @property
    def options(self) -> dict[str, Any]:
        return {"on_error": "compensate"} if self.undo else {}


VALUES = ["0", "1", "2", "3", "a", "b", "c", "a + 1", "b + c", "len(xs)", "sum(ys)", "helper(a)", "sum(xs)"]
TOOLS = ["pay", "fetch", "ship", "vote", "await apay"]
values = st.sampled_from(VALUES)
constants = st.sampled_from("0123")
tools = st.sampled_from(TOOLS)

calls = st.builds("OWN = {}(({}) % 4)".format, tools, values)
handled = st.builds("try:\n    OWN = {0}(({1}) % 6)\nexcept Refused:\n    OWN = 9".format, tools, values)
changes = st.one_of(
    st.builds("OWN = ({}) % 10".format, values),
    st.builds("LIST.append(({}) % 10)".format, values),
    st.builds("ALIAS.append(({}) % 10)".format, values),
    st.sampled_from(["del LIST[:1]", "LIST.sort()"]),
)
rebinds = st.sampled_from(["LIST = ALIAS", "LIST = list(ALIAS)"])
joins = st.sampled_from(["es = [LIST, ALIAS]", "es = {'a': LIST}", "LIST = es['a'] if type(es) is dict else es[0]"])
stamps = st.builds("OWN = stamp(({}) % 4, tick())".format, values)
gathered = st.builds("OWN = sum(await asyncio.gather(apay(0), apay(({}) % 4))) % 10".format, values)
kept = st.one_of(changes, calls, calls, handled, stamps, gathered)
"""What a turn may do that keeps what it changes: a list that it binds anew may have been another one's, too."""
simple = kept | joins | rebinds


def block(head: str, lines: list[str]) -> str:
    return head + ":\n" + textwrap.indent("\n".join(lines), "    ")


def loops(statements: st.SearchStrategy[str], *, keep: bool = False) -> st.SearchStrategy[str]:
    """Two labels to share. What is kept may be set before the loop, or above the step."""
    tracked = [f'track(range(3), "{label}"{kept})' for label in "LM" for kept in (KEPT if keep else [""])]
    before = ["random.seed(7)\n", "random.seed(7)\nOWN = 1\nLIST = [OWN]\n"] if keep else ["random.seed(7)\n"]
    heads = st.sampled_from([f"{each}for TURN in {loop}" for each in before for loop in (*tracked, "range(2)")])
    found = st.builds(block, heads, st.lists(statements, min_size=1, max_size=3))
    return found.map(lambda text: text.replace("ALIAS", "LIST")) if keep else found


KEPT = (", keep=['OWN', 'LIST']", ", keep=['OWN', 'LIST'], every=2")


def nested() -> st.SearchStrategy[str]:
    inner = st.one_of(calls, calls, handled, stamps, gathered, changes, joins, rebinds) | st.builds(
        "ds = [{}]".format, constants
    )
    heads = st.sampled_from(['with step("m")', 'with step("n")'])
    return st.builds(block, heads, st.lists(inner, min_size=1, max_size=3))


notes = st.sampled_from(["note(HERE, 0)", "note(HERE, 1)", "OWN = note(HERE, 1)"])
books = st.builds("OWN = book(HERE, ({}) % 3)".format, values)
appends = st.sampled_from(["LIST.append(TURN)", "LIST.append(random.randrange(9))"])
turns = st.one_of(simple, simple, notes, appends)
rare = st.sampled_from(
    [
        "big = np.arange(50_000.0) + OWN",
        "if OWN > 5:\n    MAYBE = 1",
        "random.seed(OWN)\nOWN = random.randrange(10)",
        'try:\n    with step("failing"):\n        d = pay(2)\n        pay(4)\nexcept Refused:\n    OWN = 7',
        'try:\n    with step("failing"):\n        vote(4)\nexcept Refused:\n    OWN = ship(1)',
        "vote(4)",
    ]
)
statements = st.one_of(
    calls,
    calls,
    calls,
    handled,
    changes,
    joins,
    rebinds,
    simple,
    notes,
    books,
    books,
    loops(st.one_of(kept, kept, notes, appends), keep=True),
    loops(turns | nested()),
    nested(),
    rare,
)


def filled(text: str, own: str, changed: str, alias: str) -> str:
    """A statement and what it changes: any cell may change what any other one does."""
    return text.replace("OWN", own).replace("LIST", changed).replace("ALIAS", alias)


lists = st.sampled_from(["ws", "xs", "ys", "zs"])
bodies = st.lists(st.builds(filled, statements, st.sampled_from("abcd"), lists, lists), min_size=2, max_size=5).map(
    "\n".join
)
setups = st.builds(Setup, st.tuples(*[st.integers(100, 103)] * 3), st.integers(0, 2))
