"""Which variables of the environment does code read? Those that it names, as in ``os.environ["MODE"]``."""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator, Sequence
from typing import Final

_SOURCES: Final = frozenset({"environ", "getenv"})


def in_tree(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """Of all the code in these statements, nested functions included."""
    return frozenset(name for statement in statements for node in ast.walk(statement) for name in _in_node(node))


def _in_node(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Subscript(value=source, slice=key, ctx=ast.Load()) if _is_source(source):
            yield from _text(key)
        case ast.Call(func=function, args=[key, *_]) if _is_source(function) or _is_source(_owner(function)):
            yield from _text(key)
        case ast.Compare(left=key, comparators=[source]) if _is_source(source):
            yield from _text(key)


def _owner(node: ast.expr) -> ast.expr | None:
    return node.value if isinstance(node, ast.Attribute) else None


def _is_source(node: ast.expr | None) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _SOURCES
        case _:
            return False


def _text(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def in_code(steps: Sequence[dis.Instruction]) -> Iterator[str]:
    """The same for the instructions of a code object."""
    for k, step in enumerate(steps):
        if step.argval in _SOURCES and step.opname.startswith(("LOAD_", "IMPORT_")):
            after = next((each for each in steps[k + 1 : k + 3] if each.opname == "LOAD_CONST"), None)
            asked = k + 1 < len(steps) and steps[k + 1].opname == "CONTAINS_OP"
            before = next((each for each in reversed(steps[max(0, k - 2) : k]) if each.opname == "LOAD_CONST"), None)
            found = before if asked else after
            if found is not None and isinstance(found.argval, str):
                yield found.argval
