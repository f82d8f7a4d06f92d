"""Cells, rewritten: what runs, what is skipped, and what the user still sees."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Iterator
from typing import Any

import pytest

from resumable_nb.magics import configuration
from resumable_nb.magics.rewrite import CellRewriter, body_of, is_entered, mark, misplaced, raising
from tests.rewriting import GUARD, Session, rewriting_shell
from tests.shells import cell


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    return Session.installed(monkeypatch)


@pytest.fixture
def ip(session: Session) -> Iterator[Any]:
    with rewriting_shell(session) as ip:
        yield ip


# ---- the first line


def test_first_line_becomes_a_call_and_no_line_moves() -> None:
    lines = ["\n", "%%resumable fetch --files a.toml\n", "x = 1\n", "y = '''\n", "  %%resumable\n", "'''\n"]
    marked = mark(lines)
    assert marked[1] == "get_ipython().run_cell_magic('resumable', 'fetch --files a.toml', None)\n"
    assert [marked[0], *marked[2:]] == [lines[0], *lines[2:]]
    assert mark(marked) == marked


def test_what_is_below_loses_the_indent_that_all_of_it_has() -> None:
    assert mark(["%%resumable a\n", "\n", "    if x:\n", "        y = 1\n"])[1:] == ["\n", "if x:\n", "    y = 1\n"]
    assert (
        mark(["%%resumable a\n", "  %%time\n", "  x = 1\n"])[1]
        == "get_ipython().run_cell_magic('time', '', 'x = 1\\n')\n"
    )


@pytest.mark.parametrize(
    "first", ["%%resumables x\n", "%%resumable?\n", "%resumable x\n", "x = 1\n", " # %%resumable\n"]
)
def test_other_first_lines_stay(first: str) -> None:
    lines = [first, "%%resumable later\n"]
    assert mark(lines) == lines


@pytest.mark.parametrize("text", ["", "\n\n", "%%resumable", "%%resumable\n\n"])
def test_nothing_below_is_legal(text: str) -> None:
    marked = mark(text.splitlines(keepends=True))
    tree = ast.parse("".join(marked))
    assert is_entered(tree) == bool(text.strip())
    assert CellRewriter(GUARD).rewrite(tree).body == tree.body


@pytest.mark.parametrize("args", ["what?", "name \\", "it's", '"a b" --keep x'])
def test_arguments_reach_the_call_unchanged(args: str) -> None:
    """As a line magic, a question mark would ask for help and a backslash would swallow the next line."""
    tree = ast.parse("".join(mark([f"%%resumable {args}\n", "x = 1\n"])))
    call = tree.body[0].value  # type: ignore[attr-defined]  # a known tree
    assert call.args[1].value == args
    assert len(tree.body) == 2


def test_misplaced_is_told_and_text_is_left_alone() -> None:
    assert (
        misplaced("%%time\n%%resumable x\ny = 1")
        == "%%resumable must be the first line of the cell: put it above %%time"
    )
    assert misplaced("\n%%capture out\n\n%%time\n%%resumable x\n") is not None
    for text in (
        "%%resumable x\n%%time\ny",
        "%%writefile n.ipy\n%%resumable x\n",
        "s = '''\n%%resumable\n'''",
        "",
        "%%time\nx",
    ):
        assert misplaced(text) is None, text


# ---- the body of a cell


def guarded(text: str, interactivity: str = "last_expr") -> str:
    tree = ast.parse("".join(mark(f"%%resumable a\n{text}".splitlines(keepends=True))))
    return ast.unparse(CellRewriter("P()", interactivity).rewrite(tree)).split("\n", 1)[1]


@pytest.mark.parametrize(
    ("interactivity", "text", "expected"),
    [
        ("last_expr", "x = 1\nx", "if P():\n    x = 1\nx if P() else None"),
        ("last_expr", "x", "x if P() else None"),
        ("last_expr", "x = 1", "if P():\n    x = 1"),
        ("last_expr_or_assign", "y = 2\nx = 1", "if P():\n    y = 2\nif P():\n    x = 1\nx if P() else None"),
        ("last_expr_or_assign", "x: int = 1", "if P():\n    x: int = 1\nx if P() else None"),
        ("last_expr_or_assign", "x[0] = 1", "if P():\n    x[0] = 1"),
        ("last", "x = 1\nfor i in x:\n    i", "if P():\n    x = 1\nif P():\n    for i in x:\n        i"),
        ("all", "1\n2", "if P():\n    1\nif P():\n    2"),
        ("none", "1\n2", "if P():\n    1\nif P():\n    2"),
    ],
)
def test_body_goes_under_a_guard(interactivity: str, text: str, expected: str) -> None:
    assert guarded(text, interactivity) == expected


def test_future_imports_and_docstring_stay_in_front() -> None:
    tree = ast.parse(
        "".join(mark(["%%resumable a\n", "'doc'\n", "from __future__ import annotations\n", "x: y = 1\n"]))
    )
    new = CellRewriter("True").rewrite(tree)
    kinds = [type(stmt).__name__ for stmt in new.body]
    assert kinds == ["Expr", "ImportFrom", "Expr", "If"]
    space: dict[str, Any] = {"get_ipython": lambda: types.SimpleNamespace(run_cell_magic=print)}
    exec(compile(new, "<cell>", "exec"), space)
    assert space["__annotations__"] == {"x": "y"}
    assert space["__doc__"] == "doc"


def test_statements_legal_one_by_one_stay_legal_together() -> None:
    text = "x = 1\nglobal x\nfrom math import *\nfrom __future__ import annotations\ndel x\nclass C: pass"
    compile(guarded(text).replace("P()", "True"), "<cell>", "exec")


def test_body_of_is_what_the_user_wrote() -> None:
    tree = ast.parse("".join(mark(["%%resumable a\n", "x = 1\n", "y\n"])))
    assert [ast.unparse(stmt) for stmt in body_of(tree)] == ["x = 1", "y"]


def test_raising_replaces_everything() -> None:
    tree = raising(ast.parse("\nx = 1\ny = 2"), "fail()")
    assert ast.unparse(tree) == "fail()"
    assert tree.body[0].lineno == 2
    assert ast.unparse(raising(ast.parse(""), "fail()")) == "fail()"


# ---- cells in a real shell


def test_last_expression_is_the_result(ip: Any, session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    assert cell(ip, "%%resumable a\nx = 20\nx + 1") == 21
    assert ip.user_ns["_"] == 21
    assert ip.user_ns["Out"] == {1: 21}
    assert "Out[1]: 21" in capsys.readouterr().out
    assert session.ran == ["enter a"]


def test_skipped_cell_shows_nothing_and_leaves_the_last_result(
    ip: Any, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    cell(ip, "41 + 1")
    capsys.readouterr()
    session.cell = False
    assert cell(ip, "%%resumable a\nraise Exception\n1 / 0") is None
    assert ip.user_ns["_"] == 42
    assert ip.user_ns["Out"] == {1: 42}
    assert capsys.readouterr().out == ""


def test_semicolon_silences(ip: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cell(ip, "%%resumable a\n5;")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("interactivity", "text", "shown"),
    [
        ("all", "1\nif True:\n    2\n3", ["1", "2", "3"]),
        ("last", "1\nfor i in (7, 8):\n    i", ["7", "8"]),
        ("last_expr_or_assign", "1\nx = 9", ["9"]),
        ("last_expr", "1\nx = 9", []),
        ("none", "1\n2", []),
    ],
)
def test_shown_as_without_the_magic(
    ip: Any, capsys: pytest.CaptureFixture[str], interactivity: str, text: str, shown: list[str]
) -> None:
    ip.ast_node_interactivity = interactivity
    outputs = []
    for magic in ("", "%%resumable a\n"):
        cell(ip, magic + text)
        outputs.append([line.partition(": ")[2] for line in capsys.readouterr().out.splitlines() if line])
    assert outputs == [shown, shown]


def test_await_in_body_and_in_last_expression(ip: Any, session: Session) -> None:
    text = "%%resumable a\nimport asyncio\nx = await asyncio.sleep(0, 5)\nawait asyncio.sleep(0, x + 1)"
    assert cell(ip, text) == 6
    session.cell = False
    assert cell(ip, text) is None


def test_error_is_at_the_users_line(ip: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for text, line in (("x = 1\n1 / 0\ny = 2", 3), ("x = 1\n1 / 0", 3), ("def f():\n\n    1 / 0\nf()", 4)):
        result = ip.run_cell(f"%%resumable a\n{text}", store_history=True)
        tb = result.error_in_exec.__traceback__
        while tb.tb_next:
            tb = tb.tb_next
        assert tb.tb_lineno == line
        assert f"----> {line} " in capsys.readouterr().out


def test_syntax_error_is_at_the_users_line(ip: Any, capsys: pytest.CaptureFixture[str]) -> None:
    result = ip.run_cell("%%resumable a\nx = 1\nx = = 2")
    assert isinstance(result.error_before_exec, SyntaxError)
    assert result.error_before_exec.lineno == 3
    assert ip.run_cell("%%resumable a\nx = 1\nreturn x").error_before_exec.lineno == 3


def test_source_of_a_function_from_the_cell(ip: Any) -> None:
    text = "def f():\n    return '''a\n  b'''\n"
    cell(ip, f"%%resumable a\n\n{text}\nclass C:\n    y = 1\n")
    assert inspect.getsource(ip.user_ns["f"]) == text
    assert ip.user_ns["f"]() == "a\n  b"


def test_line_magics_and_shell_lines_work(ip: Any, capfd: pytest.CaptureFixture[str]) -> None:
    cell(ip, "%%resumable a\n%time x = 3\n!echo from {x}\nfiles = !echo one")
    assert "from 3" in capfd.readouterr().out
    assert ip.user_ns["x"] == 3
    assert list(ip.user_ns["files"]) == ["one"]


def test_cell_magic_below_gets_the_rest(ip: Any, session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    text = "%%resumable a\n\n%%time\nx = '''\n  kept'''\nx + '!'"
    assert cell(ip, text) == "\n  kept!"
    assert "Wall time" in capsys.readouterr().out
    session.cell = False
    ip.user_ns.pop("x")
    assert cell(ip, text) is None
    assert "x" not in ip.user_ns
    cell(ip, "%%resumable b\n%%capture out\nprint(1)")


def test_steps_under_a_cell_magic_are_rewritten(ip: Any, session: Session) -> None:
    for _ in range(2):
        cell(ip, "%%time\nwith step('a'):\n    ran('body')")
    assert session.ran == ["body"]


def test_future_import_in_a_cell_lasts(ip: Any) -> None:
    cell(ip, "%%resumable a\nfrom __future__ import annotations\ndef f(x: nowhere): pass")
    cell(ip, "def g(x: nowhere): pass")
    assert ip.user_ns["g"].__annotations__ == {"x": "nowhere"}


def test_terminal_waits_for_the_rest_of_the_cell(ip: Any) -> None:
    """As for any cell magic: a first line alone is not a complete cell."""
    assert ip.check_complete("%%resumable a")[0] == "incomplete"
    assert ip.check_complete("%%resumable a\nx = 1\n\n")[0] == "complete"


def test_no_name_is_left_in_the_namespace(ip: Any) -> None:
    before = set(ip.user_ns)
    cell(ip, "%%resumable a\nwith step('b'):\n    x = 1")
    assert {name for name in set(ip.user_ns) - before if not name.startswith("_i")} == {"x"}


def test_await_in_a_step_at_the_top_of_a_cell(ip: Any, session: Session) -> None:
    text = "import asyncio\nasync with step('a') as s:\n    x = await asyncio.sleep(0, 5)\n    ran('a')\nx"
    assert cell(ip, text) == 5
    del ip.user_ns["x"]
    assert cell(ip, text) == 5
    assert session.ran == ["a"]


def test_pylab_fills_the_namespace_in_a_skipped_cell_too() -> None:
    """It hides its names from IPython's lists, so that nobody takes them for variables."""
    tree = ast.parse("x = 1\nget_ipython().run_line_magic('pylab', 'inline')\n")
    assert configuration.set_up(tree.body) == (("pylab", "inline"),)
