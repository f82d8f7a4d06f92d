"""Definite assignment: which names may a piece of code look up before it has surely bound them?"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from resumable_nb.source.expressions import Expressions
from resumable_nb.source.scope import DYNAMIC, Found, Import, State, own_names

_NEVER_SUPPRESS: Final = frozenset(
    {
        "open", "step", "redirect_stdout", "redirect_stderr", "catch_warnings", "errstate", "printoptions",
        "option_context", "no_grad", "closing", "nullcontext", "TemporaryDirectory", "NamedTemporaryFile",
        "ThreadPoolExecutor", "ProcessPoolExecutor", "Pool", "ZipFile",
    }
)  # fmt: skip
"""Context managers known to let every exception pass: when such a block ends, its whole body has run."""
_PASSIVE_DECORATORS: Final = frozenset(
    {
        "property", "staticmethod", "classmethod", "cached_property", "setter", "getter", "deleter",
        "abstractmethod", "override",
    }
)  # fmt: skip
"""They keep the function and don't call it."""


class Flow(Expressions, ast.NodeVisitor):  # named once more for the linter: visit_If and the like are names of ast
    """One scope, statement by statement."""

    @functools.cached_property
    def breaks(self) -> list[list[State]]:
        """What was bound where each of the loops around was left."""
        return []

    @classmethod
    def over(cls, statements: Sequence[ast.stmt], transform: Callable[[str], str] | None) -> Found:
        """Everything about the statements of a cell or a block."""
        found = Found()
        flow = cls(found, transform)
        flow.block(statements)
        found.reads = flow.reads
        found.bound = frozenset() if found.leaves else flow.state() or frozenset()
        for name in found.deferred.keys() & found.loaded:
            del found.deferred[name]  # counted where it was used
        found.only_deferred = set().union(*found.deferred.values()) - flow.bound - flow.reads
        return found

    # --- definitions

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.block(node.decorator_list)
        reads = self.function(node, node.body)
        self.store(node.name)
        if self.kind == "class" and all(_last_name(each) in _PASSIVE_DECORATORS for each in node.decorator_list):
            self.methods.setdefault(node.name, set()).update(reads)
        elif self.kind == "module" and not node.decorator_list:
            self.defer(node.name, reads, in_loop=bool(self.breaks))
        else:
            self.look_up(reads)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # ast calls it by this name

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.block(node.decorator_list)
        typed = frozenset(each.name for each in getattr(node, "type_params", ()))
        outer, self.local = self.local, self.local | typed
        self.block([*getattr(node, "type_params", ()), *node.bases, *node.keywords])
        _, shared = own_names(node.body)
        inner = Flow(
            self.found, self.transform, "class", runs=self.runs, local=self.local, shared=shared, bound=self.bound
        )
        inner.block(node.body)
        self.local = outer
        self.reads |= inner.reads
        self.bound |= {name for name in inner.bound if not name.startswith(".")}
        later = set().union(*inner.methods.values())
        self.store(node.name)
        if self.kind == "module" and not node.decorator_list and not node.keywords and _plain(node.bases):
            self.defer(node.name, later, in_loop=bool(self.breaks))
        elif self.kind == "class":
            self.methods.setdefault(node.name, set()).update(later)
        else:
            self.look_up(later)

    def visit_TypeAlias(self, node: ast.AST) -> None:  # new in 3.12
        name, value = node.name, node.value  # type: ignore[attr-defined]  # ast.TypeAlias is of Python 3.12
        self.store(name.id)
        outer, self.local = self.local, self.local | {each.name for each in node.type_params}  # type: ignore[attr-defined]  # the same
        self.visit(value)
        self.local = outer

    # --- statements

    def visit_Assign(self, node: ast.Assign) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as made) if self.kind == "module":
                reads = self.function(made, [made.body])
                self.store(name)
                self.defer(name, reads, in_loop=bool(self.breaks))
            case _:
                self.block([node.value, *node.targets])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if self.kind != "function" and not self.found.lazy_annotations:
            self.visit(node.annotation)
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.block([node.value, node.target])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.load(node.target.id)
        self.block([node.value, node.target])

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self.branches(node.body, node.orelse)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        empty = self.state()
        self._loop(node, [node.target, *node.body], empty)

    visit_AsyncFor = visit_For  # noqa: N815  # ast calls it by this name

    def visit_While(self, node: ast.While) -> None:
        self.breaks.append([])
        self.visit(node.test)
        self.breaks.pop()
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        self._loop(node, node.body, None if endless else self.state())

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, body: Iterable[ast.AST], empty: State) -> None:
        """``empty``: the state in which the loop ends without a turn; nothing that a turn binds is sure after it."""
        self.breaks.append([])
        self.block(body)
        left = self.breaks.pop()
        self.go_on(empty)
        self.block(node.orelse)
        self.go_on(self.state(), *left)

    def visit_Break(self, node: ast.Break) -> None:
        if self.breaks:
            self.breaks[-1].append(self.state())
        self._leave(node)

    def _leave(self, node: ast.AST) -> None:
        self.generic_visit(node)
        self.dead = True
        out = isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not self.breaks)
        self.found.leaves |= out and self.kind == "module"

    visit_Return = visit_Raise = visit_Continue = _leave  # noqa: N815  # ast calls it by this name

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.block([item.context_expr, item.optional_vars])
        suppressed = None
        if not all(_last_name(item.context_expr) in _NEVER_SUPPRESS for item in node.items):
            suppressed = self.state()
        self.block(node.body)
        if suppressed is not None:
            self.go_on(self.state(), suppressed)

    visit_AsyncWith = visit_With  # noqa: N815  # ast calls it by this name

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        before = self.state()
        self.block([*node.body, *node.orelse])
        ends = [self.state()]
        for handler in node.handlers:
            self.go_on(before)
            self.block([handler.type])
            if handler.name:
                self.store(handler.name)
            self.block(handler.body)
            if handler.name:
                self.delete(handler.name)
            ends.append(self.state())
        if not node.finalbody:
            self.go_on(*ends)
            return
        self.go_on(before)
        self.block(node.finalbody)
        last = self.state()
        self.go_on(*(None if end is None or last is None else end | last for end in ends))

    visit_TryStar = visit_Try  # noqa: N815  # ast calls it by this name

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        ends: list[State] = []
        for case in node.cases:
            before = self.state()
            self.block([case.pattern, case.guard, *case.body])
            ends.append(self.state())
            sure = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None
            self.go_on(None if sure else before)
        self.go_on(self.state(), *ends)

    def _capture(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self.generic_visit(node)
        if node.name:
            self.store(node.name)

    visit_MatchAs = visit_MatchStar = _capture  # noqa: N815  # ast calls it by this name

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest:
            self.store(node.rest)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._imported(Import(alias.name, bound=name))
            self.store(name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        names = tuple(alias.name for alias in node.names)
        module = node.module or ""
        self._imported(Import(module, names, node.level))
        self.found.lazy_annotations |= module == "__future__" and "annotations" in names
        for alias in node.names:
            if alias.name == "*":
                self.found.stars.append("." * node.level + module)
            else:
                self.store(alias.asname or alias.name)

    def _imported(self, what: Import) -> None:
        self.found.imports.add(what)
        named = what.module == "builtins" and not DYNAMIC.isdisjoint(what.names)
        self.found.dynamic |= what.module == "__main__" or named


def _last_name(node: ast.expr) -> str:
    """``f`` of ``f``, ``a.f`` and ``a.f(…)``."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return _last_name(function)
        case _:
            return ""


def _plain(bases: Sequence[ast.expr]) -> bool:
    """Base classes that run no code when they are inherited from."""
    return all(isinstance(each, ast.Name) and isinstance(getattr(builtins, each.id, None), type) for each in bases)
