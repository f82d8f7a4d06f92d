"""Which names does an expression look up, and bind?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Self

from resumable_nb.source import lookers, quoted
from resumable_nb.source.magic import magic_call
from resumable_nb.source.scope import (
    DYNAMIC,
    IMPORTERS,
    Comprehension,
    Found,
    Import,
    Kind,
    Scope,
    own_names,
    parameters,
    targets,
)

_DYNAMIC_ATTRIBUTES: Final = frozenset(
    {"user_ns", "user_global_ns", "f_globals", "f_locals", "__globals__", "run_cell", "run_line_magic"}
)


class Expressions(Scope, ast.NodeVisitor):
    """The expressions of one scope, and what functions in it look up."""

    def __init__(
        self,
        found: Found,
        transform: Callable[[str], str] | None,
        kind: Kind = "module",
        *,
        runs: bool = True,
        local: frozenset[str] = frozenset(),
        shared: frozenset[str] = frozenset(),
        bound: Iterable[str] = (),
    ) -> None:
        super().__init__(found, kind, runs=runs, local=local, shared=shared, bound=bound)
        self.transform = transform

    def within(self, kind: Kind, *, local: frozenset[str], shared: frozenset[str] = frozenset()) -> Self:
        """A scope inside this one whose code does not run where it stands."""
        return type(self)(self.found, self.transform, kind, runs=False, local=local, shared=shared)

    def block(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def maybe(self, nodes: Iterable[ast.AST | None]) -> None:
        """They run, or they don't."""
        before = self.state()
        self.block(nodes)
        self.go_on(before)

    def branches(self, *bodies: Iterable[ast.AST]) -> None:
        """One of them runs."""
        before, ends = self.state(), []
        for body in bodies:
            self.go_on(before)
            self.block(body)
            ends.append(self.state())
        self.go_on(*ends)

    # --- one by one

    def visit_Name(self, node: ast.Name) -> None:
        match node.ctx:
            case ast.Load():
                self.load(node.id)
            case ast.Store():
                self.store(node.id)
            case ast.Del():
                self.delete(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.found.attributes.add(node.attr)
        self.found.dynamic |= node.attr in _DYNAMIC_ATTRIBUTES
        if isinstance(node.value, ast.Name):
            self.found.dynamic |= node.attr in DYNAMIC and node.value.id in ("builtins", "__builtins__")
            self.load(node.value.id, bare=False)
        else:
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        match node:
            case ast.Subscript(value=ast.Attribute(attr="modules"), slice=ast.Constant(value="__main__")):
                self.found.dynamic = True
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        self.found.dynamic |= lookers.imports_notebook(node.value)
        for name in sorted(quoted.in_formula(node.value)):
            self.load(name)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.visit(node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.block([node.value, node.target])

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self.branches([node.body], [node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self.maybe(node.values[1:])

    def visit_Compare(self, node: ast.Compare) -> None:
        self.block([node.left, node.comparators[0]])
        self.maybe(node.comparators[1:])

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("vars", "dir") and not node.args:
            self.found.dynamic |= self.kind != "function"
        self.found.dynamic |= lookers.looks_up(node)
        match node:
            case ast.Call(func=ast.Attribute(attr="ev" | "ex", value=ast.Call(func=ast.Name(id="get_ipython")))):
                self.found.dynamic = True
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(module)), *_]
            ):
                if name in IMPORTERS:
                    self.found.imports.add(Import(module))
                    self.found.dynamic |= module == "__main__"
        if (magic := magic_call(node, self.transform)) is None:
            self.generic_visit(node)
            words = quoted.in_call(node)
            self.found.dynamic |= words is None
            for name in sorted(words or ()):
                self.load(name)
            return
        self.found.dynamic |= magic.dynamic
        self.block(magic.code)
        for part in magic.maybe_code:
            self.maybe(part)
        for name in sorted(magic.names):
            self.load(name)

    def _comprehension(self, node: Comprehension, results: Sequence[ast.AST]) -> None:
        self.visit(node.generators[0].iter)
        own = frozenset(name for each in node.generators for name in targets(each.target))
        inner = self.within("function", local=self.local | own)
        for k, each in enumerate(node.generators):
            inner.block([each.iter if k else None, each.target, *each.ifs])
        inner.block(results)
        self.look_up(inner.reads)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self._comprehension(node, [node.elt])

    visit_SetComp = visit_GeneratorExp = visit_ListComp  # noqa: N815  # ast calls it by this name

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node, [node.key, node.value])

    def look_up(self, names: Iterable[str]) -> None:
        """Names that nested code looks up; how it uses them was noted there."""
        for name in sorted(names):
            self.load(name, bare=False)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.look_up(self.function(node, [node.body]))

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: Sequence[ast.AST]) -> set[str]:
        """Evaluate defaults and annotations; what the body will look up when it is called."""
        args, own = node.args, parameters(node.args)
        self.block([*args.defaults, *args.kw_defaults])
        names, shared = own_names(body)
        typed = frozenset(each.name for each in getattr(node, "type_params", ()))
        if not self.found.lazy_annotations:
            annotations = [*(each.annotation for each in own), getattr(node, "returns", None)]
            outer, self.local = self.local, self.local | typed
            self.block([*getattr(node, "type_params", ()), *annotations])
            self.local = outer
        local = self.local | names | typed | {each.arg for each in own}
        if self.kind == "class":
            local |= {"__class__"}
        inner = self.within("function", local=local, shared=shared)
        inner.block(body)
        return inner.reads
