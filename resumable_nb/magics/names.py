"""Which names statements bind in the scope that they stand in. Pure; knows no IPython."""

from __future__ import annotations

import ast
from collections.abc import Iterable


class OwnNames(ast.NodeVisitor):
    """What statements bind, delete and yield in the scope that they stand in, nested scopes left out."""

    def __init__(self, body: list[ast.stmt]) -> None:
        self.bound: set[str] = set()
        self.deleted: set[str] = set()
        self.global_: set[str] = set()
        self.yields = False
        self._in_comprehension = False
        for stmt in body:
            self.visit(stmt)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load) and not self._in_comprehension:
            self.bound.add(node.id)
        if isinstance(node.ctx, ast.Del):
            self.deleted.add(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.bound.add(node.target.id)  # from within a comprehension, too
        self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._definition(node, [*node.decorator_list, *_outside(node.args), node.returns])

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._definition(node, [*node.decorator_list, *_outside(node.args), node.returns])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._definition(node, [*node.decorator_list, *node.bases, *node.keywords])

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._all(_outside(node.args))

    def visit_ListComp(self, node: ast.AST) -> None:
        outer, self._in_comprehension = self._in_comprehension, True
        self.generic_visit(node)
        self._in_comprehension = outer

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp  # noqa: N815  # ast calls it by this name

    def visit_Global(self, node: ast.Global) -> None:
        self.global_.update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.bound.update(node.names)

    def visit_alias(self, node: ast.alias) -> None:
        self.bound.add(node.asname or node.name.split(".")[0])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:  # unbound again at the handler's end
            self.bound.add(node.name)
            self.deleted.add(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs  # noqa: N815  # ast calls it by this name

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.bound.add(node.rest)
        self.generic_visit(node)

    def visit_Yield(self, node: ast.Yield | ast.YieldFrom) -> None:
        self.yields = True
        self.generic_visit(node)

    visit_YieldFrom = visit_Yield  # noqa: N815  # ast calls it by this name

    def _definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, outside: list[ast.AST | None]
    ) -> None:
        self.bound.add(node.name)
        self._all(outside)

    def _all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)


def parameters(args: ast.arguments) -> list[ast.arg]:
    every = (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg)
    return [arg for arg in every if arg is not None]


def _outside(args: ast.arguments) -> list[ast.AST | None]:
    """The parts of a parameter list that are evaluated where the function is defined."""
    return [*args.defaults, *args.kw_defaults, *(arg.annotation for arg in parameters(args))]
