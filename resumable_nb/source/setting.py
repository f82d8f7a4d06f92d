"""Which variables code surely sets itself, be it to what they are already: nobody can see that afterwards."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from resumable_nb.source.magic import magic_call

ANY_NAME: Final = "*"
"""In place of a name: code that may set any variable."""
_SCOPES = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda


def sets(statements: Sequence[ast.stmt], transform: Callable[[str], str] | None = None) -> frozenset[str]:
    """Names that the statements bind, delete, or store something in (``d["n"] = 1``).

    What a ``with step(…)`` among them does is that step's own. A loop counts as one that has turns.
    """
    found: set[str] = set()
    for each in statements:
        match each:
            case ast.If():
                found |= sets(each.body, transform) & sets(each.orelse, transform)
            case ast.For() | ast.AsyncFor():
                found |= {*_stored(each.target, transform), *sets(each.body, transform)}
            case ast.With() | ast.AsyncWith():
                found.update(*(_stored(item, transform) for item in each.items))
                if not any(is_step(item.context_expr) for item in each.items):
                    found |= sets(each.body, transform)
            case ast.Try() | ast.TryStar():
                found |= sets([*each.body, *each.orelse, *each.finalbody], transform)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(each.name)
            case ast.Import() | ast.ImportFrom():
                found |= {alias.asname or alias.name.partition(".")[0] for alias in each.names} - {ANY_NAME}
            case ast.While() | ast.Match():
                pass
            case _:
                found.update(_stored(each, transform))
    return frozenset(found)


def _stored(tree: ast.AST, transform: Callable[[str], str] | None) -> Iterator[str]:
    todo = [tree]
    while todo:
        node = todo.pop()
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()):
                yield node.id
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield _root(node)
            case ast.Call(func=ast.Name(id="exec")):
                yield ANY_NAME
            case ast.Call() if (magic := magic_call(node, transform)) is not None:
                yield from sets(magic.code, transform)
                if magic.dynamic:
                    yield ANY_NAME
        todo += [] if isinstance(node, _SCOPES) else ast.iter_child_nodes(node)


def _root(node: ast.expr) -> str:
    """``d`` of ``d["n"].a``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ANY_NAME


def is_step(node: ast.expr) -> bool:
    """A call of something named ``step`` or ``….step``. What it really is shows when it is entered."""
    match node:
        case ast.Call(func=ast.Name(id="step") | ast.Attribute(attr="step")):
            return True
    return False
