"""Rewrite a cell before it runs: its first line as text, the rest as a syntax tree. Pure.

A body is never indented as text (multi-line strings would change), and every node keeps its place, so that
tracebacks and ``inspect.getsource`` show the lines that the user wrote.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from IPython.core.inputtransformer2 import leading_indent

ENTER: Final = "get_ipython().run_cell_magic('resumable', "
"""What the first line of a marked cell turns into: a call of the cell magic, with no cell."""

_HEAD = re.compile(r"%%resumable(?:[ \t]+(?P<args>.*?))?\s*")
_RUNS_PYTHON = ("time", "timeit", "capture", "prun", "memit", "mprun", "lprun", "scalene", "debug")

Node = TypeVar("Node", bound=ast.AST)


def head(line: str) -> str | None:
    """The arguments of a ``%%resumable`` line; None for any other line."""
    match = _HEAD.fullmatch(line)
    return (match["args"] or "") if match else None


def below(text: str) -> str:
    """What stands below the ``%%resumable`` line of a cell."""
    lines = text.splitlines(keepends=True)
    first = _first(lines, 0)
    return "".join(lines[first + 1 :]) if first < len(lines) and head(lines[first].rstrip("\n")) is not None else text


def mark(lines: list[str]) -> list[str]:
    """Turn a leading ``%%resumable ARGS`` line into a call of the magic without a cell: one line for one line.

    A cell magic directly below becomes one call that gets the rest of the cell, as IPython itself would write it.
    What is below loses the indent that all of it has, as a whole cell does that was copied out of a function.
    The call is written as Python, because a magic that ends in ``?`` or a backslash means something else.
    """
    first = _first(lines, 0)
    args = head(lines[first]) if first < len(lines) else None
    if args is None:
        return lines
    enter = f"{ENTER}{args!r}, None)\n"
    below = _first(lines, first + 1)
    rest = leading_indent(lines[first + 1 :])  # type: ignore[no-untyped-call]  # IPython's
    lines = [*lines[: first + 1], *rest]
    if below < len(lines) and lines[below].startswith("%%") and not re.match(r"%%\w+\?", lines[below]):
        name, _, line = lines[below][2:].rstrip().partition(" ")
        body = "".join(lines[below + 1 :])
        call = f"get_ipython().run_cell_magic({name!r}, {line!r}, {body!r})\n"
        return [*lines[:first], enter, *lines[first + 1 : below], call]
    return [*lines[:first], enter, *lines[first + 1 :]]


# Completeness checks must see the cell magic: a terminal would run the cell after its first line otherwise.
mark.has_side_effects = True  # type: ignore[attr-defined]  # IPython asks for it


def filtered(prefilter: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    """What IPython does to a cell of one line (``ls``, ``cd data`` without a sign) done to a body of one line."""

    def transform(lines: list[str]) -> list[str]:
        body = [line for line in lines[1:] if line.strip()]
        if len(body) != 1 or not lines[0].startswith(ENTER):
            return lines
        return [f"{prefilter(line)}\n" if line is body[0] and _may_be_magic(line) else line for line in lines]

    return transform


def _may_be_magic(line: str) -> bool:
    """``ls -l`` may; a statement is Python, whatever its first word is."""
    try:
        return any(isinstance(each, ast.Expr) for each in ast.parse(line).body)
    except SyntaxError:
        return True


def misplaced(text: str) -> str | None:
    """What to tell the user where ``%%resumable`` stands below another cell magic that runs Python; else None."""
    lines = [line for line in text.splitlines() if line.strip()]
    stack: list[str] = []
    for line in lines:
        if head(line) is not None:
            break
        match = re.match(r"%%(\w+)(?!\w|\?)", line)
        if match is None or match[1] not in _RUNS_PYTHON:
            return None
        stack.append(match[1])
    else:
        return None
    if not stack:
        return None
    return f"%%resumable must be the first line of the cell: put it above %%{stack[0]}"


def _first(lines: Sequence[str], start: int) -> int:
    """Index of the first line with something in it, from ``start`` on."""
    return next((i for i in range(start, len(lines)) if lines[i].strip()), len(lines))


def expression(text: str, where: ast.AST) -> ast.expr:
    """``text`` as a tree that claims to stand at ``where``."""
    return placed(ast.parse(text, mode="eval").body, where)


def placed(node: Node, where: ast.AST) -> Node:
    """``node``, with every part of it at ``where``."""
    for each in ast.walk(node):
        ast.copy_location(each, where)
    return node


def enter_call(tree: ast.AST) -> ast.stmt | None:
    """The statement that ``mark`` put first, if ``tree`` is a marked cell."""
    match tree:
        case ast.Module(
            body=[
                ast.Expr(
                    value=ast.Call(
                        func=ast.Attribute(attr="run_cell_magic"),
                        args=[ast.Constant(value="resumable"), _, ast.Constant(value=None)],
                    )
                ) as stmt,
                *_,
            ]
        ):
            return stmt
    return None


def is_entered(tree: ast.AST) -> bool:
    """Whether ``tree`` is that of a marked cell."""
    return enter_call(tree) is not None


def body_of(tree: ast.Module) -> list[ast.stmt]:
    """The statements of a marked cell that the user wrote."""
    return [stmt for stmt in tree.body if stmt is not enter_call(tree)]


def raising(tree: ast.Module, call: str) -> ast.Module:
    """A cell that does nothing but evaluate ``call``, which raises, at the first line of ``tree``."""
    where = tree.body[0] if tree.body else ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
    return ast.Module([ast.copy_location(ast.Expr(expression(call, where)), where)], [])


def preceded(tree: ast.Module, call: str) -> ast.Module:
    """The cell, with ``call`` evaluated before anything else that it does."""
    early, body = _early(tree.body)
    where = body[0] if body else early[0]
    return ast.Module([*early, ast.copy_location(ast.Expr(expression(call, where)), where), *body], tree.type_ignores)


def code_of(tree: ast.Module) -> ast.Module:
    """What the user wrote in a marked cell, as a module of its own."""
    early, body = _early(body_of(tree))
    return ast.Module([*early, *body], tree.type_ignores)


class CellRewriter:
    """Put the body of a marked cell under a guard.

    A cell ``ENTER; BODY; LAST`` becomes (``last_expr``, the usual interactivity)::

        DOCSTRING, from __future__ …     # always run: they are compiled first, and later cells depend on them
        get_ipython().run_cell_magic('resumable', ARGS, None)
        if GUARD: STATEMENT              # each of BODY: IPython compiles them one by one, and so equal constants
        …                                # of two statements are two objects
        LAST if GUARD else None          # None shows nothing and leaves _ and Out alone

    ``last_expr_or_assign``: an assignment stays in BODY, and the name that it binds is LAST. Else LAST is a statement
    like the others: interactive code shows nested expressions, too. The guard must not change its mind while the cell
    runs.

    ``guard`` is the text of an expression, ``interactivity`` the shell's ``ast_node_interactivity``.
    """

    def __init__(self, guard: str, interactivity: str = "last_expr") -> None:
        self._guard = guard
        self._interactivity = interactivity

    def rewrite(self, tree: ast.Module) -> ast.Module:
        """The rewritten cell; ``tree`` itself where it is not a marked cell's."""
        enter = enter_call(tree)
        if enter is None:
            return tree
        early, body = _early(body_of(tree))
        return ast.Module([*early, enter, *self._guarded(body)], tree.type_ignores)

    def _guarded(self, body: list[ast.stmt]) -> list[ast.stmt]:
        if not body:
            return []
        interactivity, last = self._interactivity, body[-1]
        if interactivity == "last_expr_or_assign" and (name := _assigned(last)) is not None:
            return [*map(self._if, body), self._expr(placed(ast.Name(name, ast.Load()), last))]
        if interactivity in ("last_expr", "last_expr_or_assign") and isinstance(last, ast.Expr):
            return [*map(self._if, body[:-1]), self._expr(last.value)]
        return [*map(self._if, body)]

    def _if(self, stmt: ast.stmt) -> ast.stmt:
        return ast.copy_location(ast.If(expression(self._guard, stmt), [stmt], []), stmt)

    def _expr(self, value: ast.expr) -> ast.stmt:
        nothing = placed(ast.Constant(None), value)
        choice = ast.copy_location(ast.IfExp(expression(self._guard, value), value, nothing), value)
        return ast.copy_location(ast.Expr(choice), value)


def _early(body: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """What has to stand before all other code, and the rest.

    A top-level ``global`` means nothing, but is an error where its name was bound before in the same code; IPython
    compiles statement by statement, so that it was none.
    """
    docstring = body[:1] if len(body) > 1 and _is_text(body[0]) else []
    future = [s for s in body if isinstance(s, ast.ImportFrom) and s.module == "__future__" and not s.level]
    rest = [s for s in body if s not in docstring and s not in future and not isinstance(s, ast.Global)]
    return docstring + future, rest


def _is_text(stmt: ast.stmt) -> bool:
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant) and isinstance(stmt.value.value, str)


def _assigned(stmt: ast.stmt) -> str | None:
    """The name that ``last_expr_or_assign`` shows after an assignment."""
    match stmt:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.AugAssign(target=ast.Name(id=name)) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return None
