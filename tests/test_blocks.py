"""``with step`` blocks, rewritten: a block that is skipped leaves what the block that ran left."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from resumable_nb.magics.blocks import BlockRewriter
from tests.rewriting import Session, rewriting_shell
from tests.shells import cell


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    return Session.installed(monkeypatch)


@pytest.fixture
def ip(session: Session) -> Iterator[Any]:
    with rewriting_shell(session) as ip:
        yield ip


def rewritten(session: Session, text: str) -> ast.Module:
    return BlockRewriter(session.register).rewrite(ast.parse(textwrap.dedent(text)))


def run(session: Session, text: str, **names: Any) -> dict[str, Any]:
    """Execute rewritten code in a new namespace, with ``step`` and ``ran`` (a log) in it."""
    space: dict[str, Any] = {"__name__": "__main__", "step": session.step, "ran": session.ran.append, **names}
    exec(compile(rewritten(session, text), "<cell>", "exec"), space)
    return space


def twice(session: Session, text: str, call: str = "f()") -> tuple[Any, Any]:
    """What ``call`` gives when its blocks run, and when they are skipped; each block must run once."""
    values = []
    for _ in range(2):
        space = run(session, text)
        value = eval(call, space)
        values.append(asyncio.run(value) if inspect.iscoroutine(value) else value)
    assert len(session.ran) == len(set(session.ran)), session.ran
    assert session.ran
    return values[0], values[1]


def test_block_in_a_cell_is_skipped_with_its_namespace(session: Session) -> None:
    text = "y = 1\nwith step('a') as s:\n    x = [1]\n    del y\n    ran('a')\nend = 1"
    run(session, text)
    space = run(session, text)
    assert session.ran == ["a"]
    assert space["x"] == [1]
    assert "y" not in space
    assert space["end"] == 1


FUNCTIONS: dict[str, tuple[str, Any]] = {
    "locals": (
        """
        def f():
            with step("a"):
                ran("a")
                x = 1
            return x
        """,
        1,
    ),
    "parameter": (
        """
        def f(items=()):
            items = list(items)
            with step("a"):
                ran("a")
                items.append(1)
            return items
        """,
        [1],
    ),
    "alias": (
        """
        def f():
            a = b = []
            with step("a"):
                ran("a")
                a.append(1)
            return b
        """,
        [1],
    ),
    "deleted": (
        """
        def f():
            x = 1
            with step("a"):
                ran("a")
                del x
            return "x" in locals()
        """,
        False,
    ),
    "one line": (
        """
        def f():
            x = 0
            with step("a"): x = 1; ran("a")
            return x
        """,
        1,
    ),
    "two items": (
        """
        def f():
            with step("a") as s, step("b"):
                ran("a")
                x = 1
            return (x, s.name)
        """,
        (1, "a"),
    ),
    "nested": (
        """
        def f():
            with step("a"):
                with step("b"):
                    x = 1
                    ran("b")
                y = x + 1
            return (x, y)
        """,
        (1, 2),
    ),
    "loop": (
        """
        def f():
            out = []
            for i in range(3):
                with step(f"{i}"):
                    out.append(i)
                    ran(i)
            return out
        """,
        [0, 1, 2],
    ),
    "return": (
        """
        def f():
            with step("a"):
                ran("a")
                return 5
            return 6
        """,
        5,
    ),
    "bare return": (
        """
        def f():
            x = []
            def g():
                with step("a"):
                    ran("a")
                    return
                x.append(1)
            g()
            return x
        """,
        [],
    ),
    "return from two": (
        """
        def f():
            with step("a"):
                with step("b"):
                    ran("a")
                    return 5
            return 6
        """,
        5,
    ),
    "no return": (
        """
        def f(no=False):
            with step("a"):
                ran("a")
                if no:
                    return 5
            return 6
        """,
        6,
    ),
    "swallowed return": (
        """
        def f():
            with step("a"):
                ran("a")
                while True:
                    try:
                        return 5
                    finally:
                        break
            return 6
        """,
        6,
    ),
    "break": (
        """
        def f():
            for i in range(9):
                with step(f"{i}"):
                    ran(i)
                    if i == 2:
                        break
            return i
        """,
        2,
    ),
    "continue": (
        """
        def f():
            out = 0
            for i in range(3):
                with step(f"{i}"):
                    ran(i)
                    if i == 1:
                        continue
                out += i
            return out
        """,
        2,
    ),
    "inner loop": (
        """
        def f():
            with step("a"):
                ran("a")
                for i in range(9):
                    if i == 3:
                        break
                    continue
            return i
        """,
        3,
    ),
    "loop else": (
        """
        def f():
            for j in range(5):
                with step(f"{j}"):
                    ran(j)
                    while False:
                        pass
                    else:
                        break
            return j
        """,
        0,
    ),
    "try": (
        """
        def f():
            try:
                with step("a"):
                    ran("a")
                    x = 1
            finally:
                y = 2
            return (x, y)
        """,
        (1, 2),
    ),
    "match": (
        """
        def f():
            match 5:
                case 5:
                    with step("a"):
                        ran("a")
                        x = 1
            return x
        """,
        1,
    ),
    "captures": (
        """
        def f():
            with step("a"):
                ran("a")
                match [1, 2, {"k": 3, "l": 4}]:
                    case [a, *b, {"k": c, **d}] as e:
                        pass
                import math as m, os.path
                m = os = 0
                [(g := i) for i in "xy"]
            return (a, b, c, d, e, g)
        """,
        (1, [2], 3, {"l": 4}, [1, 2, {"k": 3, "l": 4}], "y"),
    ),
    "handler": (
        """
        def f():
            e = 1
            with step("a"):
                ran("a")
                try:
                    1 / 0
                except ZeroDivisionError as e:
                    pass
            return "e" in locals()
        """,
        False,
    ),
    "nonlocal": (
        """
        def f():
            x = 0
            def g():
                nonlocal x
                with step("a"):
                    ran("a")
                    x += 1
            g()
            return x
        """,
        1,
    ),
    "closure cell": (
        """
        def f():
            x = 0
            g = lambda: x
            with step("a"):
                ran("a")
                x = 5
            return g()
        """,
        5,
    ),
    "method": (
        """
        class C:
            def f(self):
                with step("a"):
                    ran("a")
                    __p = 1
                return __p
        f = C().f
        """,
        1,
    ),
    "coroutine": (
        """
        import asyncio
        async def f():
            async with step("a") as s:
                x = await asyncio.sleep(0, 5)
                ran("a")
            return (x, s.name)
        """,
        (5, "a"),
    ),
    "gather": (
        """
        import asyncio
        async def g(i):
            async with step(f"{i}"):
                await asyncio.sleep(0)
                x = i
                ran(i)
            return x
        async def f():
            return await asyncio.gather(*map(g, range(5)))
        """,
        [0, 1, 2, 3, 4],
    ),
    "generator": (
        """
        def f():
            def g():
                with step("a"):
                    ran("a")
                    x = 1
                yield x
            return list(g())
        """,
        [1],
    ),
    "async generator": (
        """
        async def f():
            async def g():
                with step("a"):
                    ran("a")
                    x = 1
                yield x
                with step("b"):
                    return
            return [i async for i in g()]
        """,
        [1],
    ),
    "class body": (
        """
        def f():
            class C:
                with step("a"):
                    ran("a")
                    x = 1
            return C.x
        """,
        1,
    ),
    "attribute": (
        """
        import types
        ns = types.SimpleNamespace(step=step)
        def f():
            with ns.step("a"):
                x = 1
                ran("a")
            return x
        """,
        1,
    ),
    "comprehension": (
        """
        def f():
            i = 7
            with step("a"):
                ran("a")
                x = [i for i in range(3)]
            return (i, x)
        """,
        (7, [0, 1, 2]),
    ),
    "inner function": (
        """
        def f():
            with step("a"):
                ran("a")
                def g():
                    return 5
                x = g()
            return x
        """,
        5,
    ),
}
"""``f()`` gives the value beside it, whether its blocks run or are skipped."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_block_run_and_block_skipped_give_the_same(session: Session, name: str) -> None:
    text, expected = FUNCTIONS[name]
    assert twice(session, textwrap.dedent(text)) == (expected, expected)


def test_recursion_finds_its_own_block(session: Session) -> None:
    text = "def f(n):\n  with step(f'{n}'):\n    ran(n)\n    x = f(n - 1) + 1 if n else 0\n  return x"
    assert twice(session, text, "f(4)") == (4, 4)


def test_global_is_not_made_local(session: Session) -> None:
    text = "x = 0\ndef f():\n  global x\n  with step('a'):\n    ran('a'); x = 1; y = 2\n  return y"
    assert twice(session, text) == (2, 2)
    (block,) = session.blocks.values()
    assert block["names"] == {"y"}


def test_name_that_is_only_read_stays_global(session: Session) -> None:
    """Also those that only comprehensions, lambdas and their parameters bind."""
    run(
        session,
        """
        items = []
        def f(g=lambda p: p):
            with step("a"):
                items.append([z for z in items])
                lambda q: (w := q)
        f()
        """,
    )
    (block,) = session.blocks.values()
    assert block["names"] == {"g"}
    assert block["kind"] == "function"


def test_error_in_a_block_leaves_it_undone(session: Session) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run(session, "def f():\n  with step('a'):\n    x = 1\n    1 / 0\nf()")
    assert caught.traceback[-1].lineno == 3
    assert session.done == {}


def test_body_that_yields_always_runs(session: Session) -> None:
    text = "def f():\n  with step('a'):\n    ran('a')\n    yield 1"
    for _ in range(2):
        space = run(session, text)
        session.done.clear()  # the session never skips a generator's block
        assert list(space["f"]()) == [1]
    assert [block["kind"] for block in session.blocks.values()] == ["generator"]


def test_other_context_managers_run(session: Session) -> None:

    space = run(session, "def f():\n  with step('a') as s:\n    x = s\n    return x", step=contextlib.nullcontext)
    assert space["f"]() == "a"


def test_ids_depend_on_the_block_alone(session: Session) -> None:
    block = "with step('a'):\n    x = 1\n"
    rewritten(session, block)
    rewritten(session, f"y = 2\n\n# comment\nif y:\n    with step('a'):\n        x   =   1\n{block}")
    assert len(session.blocks) == 1
    rewritten(session, block.replace("1", "2"))
    assert len(session.blocks) == 2


def test_registered_body_is_as_written(session: Session) -> None:
    rewritten(session, "with step('a'):\n    with step('b'):\n        x = 1")
    assert {block["text"] for block in session.blocks.values()} == {"with step('b'):\n    x = 1", "x = 1"}
    assert all(block["body"] == block["text"] for block in session.blocks.values())


def test_lines_and_source_of_a_function_with_a_block(ip: Any) -> None:
    text = "def f():\n    with step('a') as s:\n        x = 1\n\n        return 1 / 0\n"
    cell(ip, text)
    assert inspect.getsource(ip.user_ns["f"]) == text
    result = ip.run_cell("f()")
    tb = result.error_in_exec.__traceback__
    while tb.tb_next:
        tb = tb.tb_next
    assert tb.tb_lineno == 5
