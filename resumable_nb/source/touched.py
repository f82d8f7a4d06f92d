"""What code does to things of others, as it is written: attributes that it sets, and functions that it calls."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Touched:
    """``stores``: dotted targets (``pd.DataFrame.shout``), those in functions that it defines included.

    ``calls``: the name that a call begins with and the names after it (``get_ipython``, ``events.register``);
    decorators are calls, too, but not what a function that it defines would call.
    """

    stores: frozenset[str] = frozenset()
    calls: frozenset[tuple[str, str]] = frozenset()


def touched(statements: Sequence[ast.stmt]) -> Touched:
    """Read off the syntax tree; nothing is looked up."""
    stores: set[str] = set()
    calls: set[tuple[str, str]] = set()
    todo: list[tuple[ast.AST, bool]] = [(each, True) for each in statements]
    while todo:
        node, runs = todo.pop()
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                stores |= {_dotted(node)} - {""}
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[owner, ast.Constant(value=str(name)), *_]):
                stores |= {f"{_dotted(owner)}.{name}"} if _dotted(owner) else set()
            case ast.Call() if runs:
                calls |= _called(node.func)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if runs:
                calls |= {each for decorator in node.decorator_list for each in _called(decorator)}
        todo += _inside(node, runs)
    return Touched(frozenset(stores), frozenset(calls))


def _inside(node: ast.AST, runs: bool) -> list[tuple[ast.AST, bool]]:
    """The children, and whether they run when the node does."""
    later: list[ast.AST] = []
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            later = [*node.body]
        case ast.Lambda():
            later = [node.body]
    return [(each, runs and each not in later) for each in ast.iter_child_nodes(node)]


def _dotted(node: ast.expr) -> str:
    """``a.b.c``, or nothing where it is put together otherwise."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


def _called(node: ast.expr) -> set[tuple[str, str]]:
    names: list[str] = []
    while True:
        match node:
            case ast.Attribute(value=node, attr=name):
                names.append(name)
            case ast.Call(func=node) | ast.Subscript(value=node):
                pass
            case ast.Name(id=root):
                return {(root, ".".join(reversed(names)) or root)}
            case _:
                return set()
