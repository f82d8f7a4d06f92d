"""``%resumable``: what its subcommands show and do, and one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import Kernels
from tests.test_magics import COUNT, counted, step

PRELUDE = f"from resumable_nb import step, tool, task\n{COUNT}"


def test_summary(kernels: Kernels) -> None:
    kernel = kernels(PRELUDE)
    assert kernel("%resumable").stdout == "task book: pending, 0 steps, 0 tool calls done\n"
    kernel(step("x = 1"))
    kernel.attempt("%%resumable b\n1 / 0")
    lines = kernel("%resumable").stdout.splitlines()
    assert lines[0] == "task book: failed, 2 steps, 0 tool calls done"
    assert [line.split()[:2] for line in lines[1:]] == [["a", "done"], ["b", "failed"]]
    assert lines[2].endswith("ZeroDivisionError: division by zero")
    assert kernel("%resumable status").stdout.splitlines() == lines


def test_why_names_the_part_that_changed(kernels: Kernels) -> None:
    kernel = kernels(PRELUDE, "rate = 1\ndef helper(n):\n    return n", step("y = helper(rate)"))
    assert kernel("%resumable why a").stdout.splitlines()[1:] == [
        "nothing that it depends on is known to have changed since"
    ]
    kernel("rate = 2\ndef helper(n):\n    return n + 1")
    lines = kernel("%resumable why a").stdout.splitlines()
    assert lines[1] == "it would run again now:"
    assert lines[2].startswith("  function helper: ")
    assert lines[3] == "  input rate: 1 → 2"
    kernel(step("y = helper(rate)"))
    lines = kernel("%resumable why a").stdout.splitlines()
    assert lines[0].startswith("a v2 done, ran ")
    assert lines[0].endswith(": function helper changed; input rate changed")
    assert lines[2] == "  input rate: 1 → 2"
    kernel(step("y = helper(rate) + 1"))
    lines = kernel("%resumable why a").stdout.splitlines()
    assert lines[1:4] == ["  source:", "    -y = helper(rate)", "    +y = helper(rate) + 1"]


def test_rerun(kernels: Kernels) -> None:
    kernel = kernels(PRELUDE, step("x = 1"))
    assert kernel("%resumable rerun a").stdout == "a: runs again the next time its cell is executed\n"
    kernel(step("x = 1"))
    assert counted(kernel.folder) == 2


def test_restore(kernels: Kernels) -> None:
    kernel = kernels(PRELUDE, step("x = 1"), step("x = 2"), "x = 3")
    assert kernel("%resumable restore a").stdout == "a: restored x\n"
    assert kernel("x").value == "2"
    there = "a: nothing to bring back: what was saved is here, as it was after a\n"
    assert kernel("%resumable restore a").stdout == there
    kernel("%resumable restore a --version 1")
    assert kernel("x").value == "1"


def test_resolve(kernels: Kernels) -> None:
    cells = [
        "@tool\ndef pay(n):\n    count('paid')\n    raise TimeoutError('gone')\n",
        "%%resumable a\nreceipt = pay(3)",
    ]
    kernel = kernels(PRELUDE, cells[0])
    assert kernel.attempt(cells[1]).error == "TimeoutError"
    shown = kernel.attempt(cells[1])
    assert shown.error == "InDoubt"
    call = kernel("task().history().index[0]").value.strip("'")
    assert call in shown.said
    assert "resumable_nb" not in shown.text
    assert f"in doubt: pay {call}" in kernel("%resumable").stdout
    assert kernel.attempt(f"%resumable resolve {call} not-happened 5").error == "UsageError"
    assert "is not JSON" in kernel.attempt(f"%resumable resolve {call} happened {{x}}").said
    value = '{"id": [1, 2], "who": "it\'s happened"}'
    for spelled in ("1", "--value 2", "--value=3", "'4'", f"--value '{value}'", value):
        shown = kernel(f"%resumable resolve {call[:8]} happened {spelled}")
        assert shown.stdout == f"pay {call}: recorded as happened\n"
    kernel(cells[1])
    assert kernel("receipt").value == "{'id': [1, 2], 'who': \"it's happened\"}"
    assert counted(kernel.folder, "paid") == 1
    kernel(
        "from resumable_nb import Happened\n@tool(reconcile=lambda n: Happened(n + 1))\ndef look(n): raise TimeoutError"
    )
    kernel.attempt("%%resumable b\nfound = look(1)")
    call = kernel("task().history().index[-1]").value.strip("'")
    assert kernel.attempt(f"%resumable resolve {call} ask 5").error == "UsageError"
    assert kernel(f"%resumable resolve {call} ask").stdout == f"look {call}: its reconcile= says that it happened\n"
    assert kernel("%%resumable b\nfound = look(1)", "found").value == "2"


def test_task(kernels: Kernels, tmp_path: Path) -> None:
    kernel = kernels(PRELUDE, step("x = 1"))
    assert kernel("%resumable task nightly").value == "<Task nightly pending>"
    kernel(step("x = 1"))
    assert counted(tmp_path) == 2
    assert kernel("task().name").value == "'nightly'"
    kernel("%resumable task 'a/b: c' --store elsewhere", step("x = 1"))
    assert sorted(p.name for p in tmp_path.glob("elsewhere/[!.]*")) == ["a%2Fb%3A c"]
    kernel("%resumable task book", step("x = 1"))
    assert counted(tmp_path) == 3


def test_forget(kernels: Kernels) -> None:
    kernel = kernels(PRELUDE, step("x = 1"))
    shown = kernel.attempt("%resumable forget")
    assert shown.error == "UsageError"
    assert "%resumable forget --yes" in shown.said
    assert kernel("%resumable forget --yes").stdout == "book: forgotten; the next run starts anew\n"
    kernel(step("x = 1"))
    assert counted(kernel.folder) == 2


def test_complete(kernels: Kernels) -> None:
    kernel = kernels(PRELUDE, step("x = 1"))
    assert kernel("%resumable complete").stdout == "<Task book completed>\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nosuch", "nosuch"),
        ("why", "required: step"),
        ("why nosuch", "task 'book' has no step 'nosuch'; it has: a"),
        ("rerun nosuch", "has no step 'nosuch'"),
        ("restore nosuch", "has no step 'nosuch'"),
        ("restore a --version 7", "no finished version 7; there is: 1"),
        ("restore a --version x", "invalid int value"),
        ("resolve 12345678 happened", "no call '12345678'"),
        ("resolve 12 happened", "too short"),
        ("resolve 12345678 perhaps", "invalid choice: 'perhaps'"),
        ("task", "required: name"),
        ("task ' '", "1 to 120 characters"),
        ("task x --store redis://localhost/0", "no such store"),
        ("status --verbose", "unrecognized arguments: --verbose"),
        ("why 'a", "unbalanced quotes"),
    ],
)
def test_mistakes_are_one_line(kernels: Kernels, line: str, says: str) -> None:
    kernel = kernels(PRELUDE, step("x = 1"))
    shown = kernel.attempt(f"%resumable {line}")
    assert shown.error == "UsageError"
    assert says in shown.said
    assert shown.text == f"UsageError: {shown.said}\n"
    assert shown.said.count("\n") == 0


def test_names_with_quotes_and_spaces(kernels: Kernels) -> None:
    kernel = kernels(PRELUDE, "%%resumable 'load pages'\nx = 1", "%resumable why 'load pages'")
    assert kernel("list(task().steps().index)").value == "['load pages']"
