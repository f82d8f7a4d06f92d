"""One scope while its code is followed: what is surely bound here, and what was looked up before."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

DYNAMIC: Final = frozenset({"globals", "eval", "exec", "execfile"})
"""Builtins that may look up any name."""

IMPORTERS: Final = frozenset({"import_module", "__import__"})
"""Functions that import the module that a text names."""

Kind = Literal["module", "class", "function"]
State = frozenset[str] | None
"""What is surely bound at a point; ``None`` where no path comes along. A dot before a name: of the class in hand."""


@dataclass(frozen=True, slots=True)
class Import:
    """``import module`` or, with names, ``from module import names``; ``level`` counts leading dots."""

    module: str
    names: tuple[str, ...] = ()
    level: int = 0
    bound: str = ""
    """The name that a module is bound to, where that is told."""


@dataclass(slots=True)
class Found:
    """What was found in all the scopes of one body. ``loaded``: names that the body itself looked up.
    ``leaves``: it may be left before its end, and not by an error."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    stars: list[str] = field(default_factory=list)
    imports: set[Import] = field(default_factory=set)
    bare: set[str] = field(default_factory=set)
    deferred: dict[str, set[str]] = field(default_factory=dict)
    only_deferred: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    bound: frozenset[str] = frozenset()
    leaves: bool = False
    dynamic: bool = False
    lazy_annotations: bool = False


class Scope:
    """``local``: names that are no globals here. ``runs``: its code runs now, not when somebody calls it."""

    def __init__(
        self,
        found: Found,
        kind: Kind,
        *,
        runs: bool,
        local: frozenset[str],
        shared: frozenset[str],
        bound: Iterable[str],
    ) -> None:
        self.found = found
        self.kind = kind
        self.runs = runs
        self.local = local - shared
        self.shared = shared
        """Names that this scope declares ``global``."""
        self.reads: set[str] = set()
        self.methods: dict[str, set[str]] = {}
        """For a class: what its functions look up when they are called."""
        self.bound = set(bound)
        self.dead = False

    def state(self) -> State:
        return None if self.dead else frozenset(self.bound)

    def go_on(self, *states: State) -> None:
        """Continue where several paths meet: bound is what each of them has bound."""
        alive = [state for state in states if state is not None]
        self.dead = not alive
        if alive:
            self.bound = set(frozenset.intersection(*alive))

    def load(self, name: str, *, bare: bool = True) -> None:
        if self.kind == "class":
            for each in self.methods.get(name, ()):
                self.load(each)
            if f".{name}" in self.bound:
                return
        if name in self.local or name == "get_ipython":
            return
        if bare:
            self.found.bare.add(name)
        if name in DYNAMIC or (name == "locals" and self.kind != "function"):
            self.found.dynamic = True
        if name not in self.bound:
            self.reads.add(name)
        if self.runs:
            self.use(name)

    def use(self, name: str) -> None:
        """The function may be called from now on, so what its code looks up is looked up now."""
        todo, seen = [name], set[str]()
        while todo:
            each = todo.pop()
            if each not in seen:
                seen.add(each)
                self.found.loaded.add(each)
                later = self.found.deferred.get(each, set())
                self.reads |= later - self.bound
                todo += later

    def defer(self, name: str, reads: set[str], *, in_loop: bool) -> None:
        """``name`` is a function or class now, whose code will look up ``reads`` when it is called."""
        self.found.deferred.setdefault(name, set()).update(reads)
        if in_loop and name in self.found.loaded:
            self.use(name)  # used further up in the loop: in its next turn

    def store(self, name: str) -> None:
        if self.kind == "class" and name not in self.shared:
            self.bound.add(f".{name}")
        elif not (self.kind == "function" and name in self.local):
            self.found.writes.add(name)
            self.bound.add(name)

    def delete(self, name: str) -> None:
        if self.kind == "class" and name not in self.shared:
            self.bound.discard(f".{name}")
        elif not (self.kind == "function" and name in self.local):
            self.found.deletes.add(name)
            self.bound.discard(name)


Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def parameters(args: ast.arguments) -> list[ast.arg]:
    optional = [each for each in (args.vararg, args.kwarg) if each is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *optional]


def targets(node: ast.AST) -> Iterator[str]:
    """Names that an assignment target binds."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id


def own_names(body: Iterable[ast.AST]) -> tuple[frozenset[str], frozenset[str]]:
    """Names that a function's body binds or deletes in its own scope, and those that it declares ``global``."""
    names: set[str] = set()
    shared: set[str] = set()
    todo = list(body)
    while todo:
        node = todo.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.Global(names=some):
                shared.update(some)
            case ast.alias():
                names.add(node.asname or node.name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
        todo += _same_scope(node, names)
    return frozenset(names), frozenset(shared)


def _same_scope(node: ast.AST, names: set[str]) -> Iterable[ast.AST]:
    """Children of a node that belong to its own scope; a definition adds its name."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            names.add(node.name)
            return [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        case ast.ClassDef():
            names.add(node.name)
            return [*node.decorator_list, *node.bases, *node.keywords]
        case ast.Lambda():
            return [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            # Its targets are its own; an assignment expression inside binds in the scope around it.
            names.update(each.target.id for each in ast.walk(node) if isinstance(each, ast.NamedExpr))
            return []
        case _:
            return ast.iter_child_nodes(node)
