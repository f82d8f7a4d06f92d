"""``Body``: what a piece of code does with names, and its text without formatting."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from resumable_nb.source import ambient, magic, scripts
from resumable_nb.source.flow import Flow
from resumable_nb.source.scope import Found, Import
from resumable_nb.source.setting import sets
from resumable_nb.source.touched import Touched, touched

_NOT_MEANT = frozenset({"ctx", "kind", "type_comment", "type_ignores", "lineno", "col_offset"})
_DEEP = 200_000


@dataclass(frozen=True, slots=True)
class Body:
    """What a piece of code does with names, without running it."""

    normal: str
    """The syntax tree as text: comments, blank lines, formatting and line numbers don't count."""
    reads: frozenset[str] = frozenset()
    """Global names that it may look up before it has surely bound them, nested functions included."""
    writes: frozenset[str] = frozenset()
    """Names that it may bind."""
    bound: frozenset[str] = frozenset()
    """Names that it has surely bound when it comes to its end."""
    sets: frozenset[str] = frozenset()
    """Names that its own code surely sets, or something in what they hold; ``*`` for any. See ``source/setting.py``."""
    deletes: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    dynamic: bool = False
    """It may touch every name (``globals()``, ``eval``, ``%run``…)."""
    star_imports: tuple[str, ...] = ()
    imports: frozenset[Import] = frozenset()
    bare: frozenset[str] = frozenset()
    """Global names that are used otherwise than as ``name.attribute``."""
    deferred: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """For a function or class that it defines and does not use itself: the names that the definition's code would look
    up, when somebody calls it. They are in ``reads`` too."""
    only_deferred: frozenset[str] = frozenset()
    """The names in ``reads`` that nothing but such uncalled code looks up."""
    touched: Touched = field(default_factory=Touched)
    environment: frozenset[str] = frozenset()
    """Variables of the environment that it names."""
    scripts: frozenset[str] = frozenset()
    """Paths that it names of files with code."""
    magics: frozenset[str] = frozenset()
    """The magics that it calls by their names."""


def analyse(tree: ast.Module | Sequence[ast.stmt], *, transform: Callable[[str], str] | None = None) -> Body:
    """What the statements do with names. ``tree`` is of a cell that IPython has transformed.

    ``transform`` turns the text of a magic (``%%time``) into Python, so that it counts as code.
    """
    statements = tree.body if isinstance(tree, ast.Module) else list(tree)
    found = _follow(statements, transform)
    return Body(
        normal=normal_form(statements),
        reads=frozenset(found.reads | found.only_deferred),
        writes=frozenset(found.writes),
        bound=found.bound,
        sets=sets(statements, transform),
        deletes=frozenset(found.deletes),
        attributes=frozenset(found.attributes),
        dynamic=found.dynamic,
        star_imports=tuple(found.stars),
        imports=frozenset(found.imports),
        bare=frozenset(found.bare),
        deferred={name: frozenset(reads) for name, reads in found.deferred.items()},
        only_deferred=frozenset(found.only_deferred),
        touched=touched(statements),
        environment=ambient.in_tree(statements),
        scripts=scripts.in_tree(statements),
        magics=magic.named(statements),
    )


def _follow(statements: Sequence[ast.stmt], transform: Callable[[str], str] | None) -> Found:
    try:
        return Flow.over(statements, transform)
    except RecursionError:  # a chain of a thousand operators or branches: depth costs heap, not stack
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(_DEEP)
        try:
            return Flow.over(statements, transform)
        finally:
            sys.setrecursionlimit(limit)


def normal_form(node: ast.AST | Sequence[ast.AST]) -> str:
    """The syntax tree as text, the same under every supported Python: empty fields and contexts are left out."""
    out: list[str] = []
    todo: list[object] = [node]
    while todo:
        match todo.pop():
            case _Text(text):
                out.append(text)
            case ast.AST() as node:
                out.append(f"{type(node).__name__}(")
                todo.append(_Text(")"))
                for name, value in reversed(list(ast.iter_fields(node))):
                    if name not in _NOT_MEANT and value is not None and value != []:
                        todo += (value, _Text(f"{name}="))
            case list() | tuple() as nodes:
                out.append("[")
                todo.append(_Text("]"))
                todo += reversed(nodes)
            case constant:
                out.append(_constant(constant))
    return "".join(out)


@dataclass(frozen=True, slots=True)
class _Text:
    text: str


def _constant(value: object) -> str:
    # hex(): str() of an integer with many digits is refused
    shown = hex(value) if type(value) is int else repr(value)
    return f"{type(value).__name__}:{shown},"
