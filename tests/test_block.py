"""``with step(…)``: skipped whole when it is done, in a cell, in a function, in a ``.py`` file; never run silently."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from resumable_nb.model import step_path
from tests.kernels import Kernels
from tests.test_magics import COUNT, counted

PRELUDE = f"from resumable_nb import step\n{COUNT}"


def twice(kernels: Kernels, cell: str, *, runs: int = 1) -> str:
    """What a cell's last expression is after its blocks were skipped, in a new kernel; it must be as when they ran."""
    first = kernels(PRELUDE)(cell)
    kernel = kernels.again(PRELUDE)
    second = kernel(cell)
    assert counted(kernel.folder) == runs
    assert second.value == first.value
    return second.value


CELLS = {
    "plain": (
        """\
with step('a'):
    count('ran')
    x = [1]
x
""",
        "[1]",
        1,
    ),
    "as": (
        """\
with step('a') as s:
    count('ran')
    x = 1
(x, s.pending is not None)
""",
        "(1, True)",
        1,
    ),
    "guarded": (
        """\
with step('a') as s:
    if s.pending:
        count('ran')
        x = 1
x
""",
        "1",
        1,
    ),
    "loop": (
        """\
out = []
for n in range(3):
    with step('a'):
        count('ran')
        out += [n]
out
""",
        "[0, 1, 2]",
        3,
    ),
    "computed names": (
        """\
out = []
for n in range(3):
    with step(f'a {n}'):
        count('ran')
        out += [n]
out
""",
        "[0, 1, 2]",
        3,
    ),
    "function": (
        """\
def f(p):
    with step('a'):
        count('ran')
        x = [p]
        p = x
    return p is x, x
f(4)
""",
        "(True, [4])",
        1,
    ),
    "return": (
        """\
def f():
    with step('a'):
        count('ran')
        return [1]
    return 2
f()
""",
        "[1]",
        1,
    ),
    "break": (
        """\
out = []
for n in range(5):
    with step('a'):
        count('ran')
        if n == 2:
            break
    out.append(n)
out
""",
        "[0, 1]",
        3,
    ),
    "continue": (
        """\
out = []
for n in range(3):
    with step('a'):
        count('ran')
        if n == 1:
            continue
    out.append(n)
out
""",
        "[0, 2]",
        3,
    ),
    "try": (
        """\
try:
    with step('a'):
        count('ran')
        x = 1
except Exception:
    x = 2
finally:
    y = 3
x, y
""",
        "(1, 3)",
        1,
    ),
    "nested": (
        """\
with step('a'):
    with step('b'):
        count('ran')
        x = 1
    with step('b'):
        count('ran')
        y = 2
x, y
""",
        "(1, 2)",
        2,
    ),
    "async": (
        """\
import asyncio
async with step('a'):
    await asyncio.sleep(0)
    count('ran')
    x = 1
x
""",
        "1",
        1,
    ),
    "gathered": (
        """\
import asyncio
async def f(n):
    async with step(f'a {n}'):
        await asyncio.sleep(0)
        count('ran')
        x = n
    return x
await asyncio.gather(f(1), f(2))
""",
        "[1, 2]",
        2,
    ),
    "closure": (
        """\
def f():
    total = 0
    def add(n):
        nonlocal total
        with step('a'):
            count('ran')
            total += n
    add(2)
    add(3)
    return total
f()
""",
        "5",
        2,
    ),
    "global in a function": (
        """\
total = 1
def f():
    global total
    with step('a'):
        count('ran')
        total = 7
f()
total
""",
        "7",
        1,
    ),
    "method": (
        """\
class A:
    def f(self):
        with step('a'):
            count('ran')
            self.seen = True
        return self
A().f().seen
""",
        "True",
        2,  # a restored copy would not be the object that the caller holds: the body is replayed
    ),
    "argument": (
        """\
def fill(box):
    with step('fill'):
        count('ran')
        box.append(1)
def main():
    mine = []
    fill(mine)
    return mine
main()
""",
        "[1]",
        2,
    ),
    "argument that is bound anew": (
        """\
def grown(box):
    with step('grow'):
        count('ran')
        box = [*box, 1]
    return box
grown([0])
""",
        "[0, 1]",
        1,
    ),
    "class body": (
        """\
class C:
    with step('attributes'):
        count('ran')
        attribute = 5
C.attribute
""",
        "5",
        1,
    ),
    "one line": (
        """\
with step('a'): count('ran'); x = 1
x
""",
        "1",
        1,
    ),
    "aliased": (
        """\
from resumable_nb import step as part
with part('a'):
    count('ran')
    x = 1
x
""",
        "1",
        1,
    ),
    "inside a step": (
        """\
%%resumable outer
with step('a'):
    count('ran')
    x = 1
x
""",
        "",
        1,
    ),
}
"""A cell whose last expression is what the blocks left; what that is; how many of them ran."""


@pytest.mark.parametrize("name", CELLS)
def test_block_in_a_cell(kernels: Kernels, name: str) -> None:
    cell, value, runs = CELLS[name]
    if name == "inside a step":
        kernels(PRELUDE, cell)
        kernel = kernels.again(PRELUDE, cell)
        assert kernel("x").value == "1"
        assert counted(kernel.folder) == runs
    else:
        assert twice(kernels, cell, runs=runs) == value


def test_done_blocks_of_an_unfinished_step(kernels: Kernels) -> None:
    cell = """%%resumable outer
parts = []
for n in range(3):
    with step("part"):
        print("part", n)
        count("ran")
        parts.append(n)
    if n == 1:
        assert os.path.exists("go")
parts
"""
    kernel = kernels(PRELUDE, "import os")
    assert kernel.attempt(cell).error == "AssertionError"
    Path(kernel.folder, "go").touch()
    kernel = kernels.again(PRELUDE, "import os")
    shown = kernel(cell)
    assert shown.value == "[0, 1, 2]"
    assert shown.stdout.startswith("part 0\npart 1\npart 2\n")
    assert counted(kernel.folder) == 3
    assert kernel("sorted(get_ipython().run_line_magic('resumable', 'steps').index)").value == (
        "['outer', 'outer/part', 'outer/part#2', 'outer/part#3']"
    )


def test_failed_block_is_continued(kernels: Kernels) -> None:
    kernel = kernels(PRELUDE)
    cell = "with step('a'):\n    count('ran')\n    x = 1 / zero"
    kernel("zero = 0")
    shown = kernel.attempt(cell)
    assert shown.error == "ZeroDivisionError"
    assert "----> 3     x = 1 / zero" in shown.text
    assert "resumable_nb" not in shown.text
    kernel("zero = 4", cell)
    assert kernel("x").value == "0.25"
    assert counted(kernel.folder) == 2


def test_bad_uses(kernels: Kernels) -> None:
    kernel = kernels(PRELUDE)
    for cell, says in [
        ("step('')", "needs a name"),
        ("step(3)", "needs a name"),
        ("s = step('a')\nwith s:\n    x = 1\nwith s:\n    pass", None),
        ("s = step('b')\nwith s:\n    with s:\n        pass", "was entered before"),
    ]:
        shown = kernel.attempt(cell)
        if says is None:
            assert not shown.error, shown.text
        else:
            assert shown.error == "UsageError"
            assert says in shown.said
            assert "\n" not in shown.said


# --- plain files


def python(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(f"{PRELUDE}\n{textwrap.dedent(text)}")
    return subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, env={**os.environ}, check=False
    )


def test_file_is_skipped(tmp_path: Path) -> None:
    """At module level, in a function, under a guard; a second process runs nothing."""
    text = """
        with step("a"):
            count("ran")
            x = [1]
        def f():
            with step("b"):
                count("ran")
                y = 2
            return y
        with step("c") as s:
            if s.pending:
                count("ran")
                z = 3
        print(x, f(), z)
    """
    first, second = python(tmp_path, text), python(tmp_path, text)
    assert first.stdout == second.stdout == "[1] 2 3\n", first.stderr + second.stderr
    assert first.stderr == second.stderr == ""
    assert counted(tmp_path) == 3


def test_guard_needs_no_trace(tmp_path: Path) -> None:
    text = """
        import sys
        with step("a") as s:
            if s.pending:
                count("ran")
                x = sys.gettrace() is None
        traced = sys.gettrace()
        with step("b") as s:
            if s.pending:
                pass
        print(x, traced)
    """
    assert python(tmp_path, text).stdout == python(tmp_path, text).stdout == "True None\n"
    assert counted(tmp_path) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("def f():\n    with step('a'):\n        count('ran')\n        return 1\nf()", "its body has a return"),
        ("with step('a'): count('ran')", "on a line of its own"),
        ("for n in 'ab':\n    with step('a'):\n        count('ran')\n        break", "its body has a break"),
        (
            "def f():\n    with step('a') as s:\n        if s.pending:\n            return 1\nf()",
            "its body has a return",
        ),
        ("exec(\"with step('a'):\\n    count('ran')\")", "its source cannot be read"),
    ],
)
def test_body_that_could_not_be_skipped_never_runs(tmp_path: Path, body: str, says: str) -> None:
    done = python(tmp_path, body)
    assert done.returncode == 1
    assert "UsageError: " in done.stderr
    assert says in done.stderr.splitlines()[-1]
    assert counted(tmp_path) == 0


def test_imported_module(kernels: Kernels, tmp_path: Path) -> None:
    work = """
def work(n):
    with step("inner"):
        count("ran")
        result = n * 2
    return result
"""
    (tmp_path / "my_steps.py").write_text(PRELUDE + work)
    cell = "import my_steps\nmy_steps.work(3)"
    assert twice(kernels, cell) == "6"


def test_the_path_of_a_step_is_its_names_but_for_what_parts_them_and_what_is_not_seen() -> None:
    assert step_path("pay", "Prüfung 支払い قائمة ✓", 0) == "pay/Prüfung 支払い قائمة ✓"
    assert step_path("", "a/b#2@c%d", 1) == "a%2Fb%232%40c%25d#2"
    assert step_path("", "x\u202e\u200b\x1b\ud800\xa0", 0) == "x%E2%80%AE%E2%80%8B%1B%ED%A0%80%C2%A0"
