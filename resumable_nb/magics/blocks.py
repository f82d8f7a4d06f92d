"""Rewrite ``with step(…)`` blocks, so that a finished one can be skipped wherever it stands. Pure; knows no IPython."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from resumable_nb.magics.names import OwnNames, parameters
from resumable_nb.magics.rewrite import expression, placed
from resumable_nb.model import digest
from resumable_nb.source import is_step, normal_form

BlockKind = Literal["cell", "class", "function", "generator"]
"""Where a block stands. ``generator``: it yields, so that it has to run each time, whatever is recorded."""

Register: TypeAlias = Callable[[str, list[ast.stmt], frozenset[str], BlockKind, str], None]
"""``register(block_id, body, names, kind, text)``: called for each block of a cell before the cell runs.

``body`` is a copy of the statements as the user wrote them, ``text`` their source. ``names``: the function's own
variables, which the generated code brings back (empty in a cell or class, where the namespace itself is written).
"""

_SESSION: Final = "__import__('resumable_nb.session', fromlist=['enter_block'])"
_Exit = Literal["return", "break", "continue"]


class BlockRewriter(ast.NodeTransformer):
    """Makes ``with step(…)``, ``async with`` and ``x.step(…)`` skippable, in any depth.

    With ``S`` for ``__import__('resumable_nb.session', fromlist=['enter_block'])``, in a function::

        with S.enter_block(step("a"), ID) as s:      # returns its first argument
            if S.pending(ID):                        # True, too, for what is not a step
                BODY
                S.leave(ID, '')                      # only where BODY can be left by return, break or continue
            else:
                if 'x' in S.restored(ID).values: x = S.restored(ID).values['x']      # each variable of the function
                if 'y' in S.restored(ID).deleted: del y                              # each one that BODY may delete
                if S.restored(ID).left == 'return': return S.restored(ID).result     # only where BODY has such a …
                if S.restored(ID).left == 'break': break                             # … way out
                if S.restored(ID).left == 'continue': continue

    In BODY ``return VALUE`` becomes ``return S.leave(ID, 'return', VALUE)``, which returns VALUE; before a bare
    ``return``, a ``break`` or a ``continue`` comes ``S.leave(ID, 'return')`` and so on. What leaves several blocks
    tells each of them. In a cell or a class body ``else`` has no assignments: the session writes the namespace.
    A body that yields has no ``else`` at all: nobody could give back what it had yielded.

    Of several items of one ``with`` each step gets a ``with`` of its own, which means the same.

    ID is the digest of the block's syntax, its kind and ``names``: equal ids mean equal registrations, and a block has
    the same id in every kernel, whatever else the cell holds.
    """

    def __init__(self, register: Register) -> None:
        self._register = register
        self._scopes: list[_Scope] = [_Scope("cell")]

    def rewrite(self, tree: ast.Module) -> ast.Module:
        """Rewrite a cell's tree in place, and register its blocks."""
        self.visit(tree)
        return tree

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._within(_Scope("class", class_name=node.name), node)

    def visit_With(self, node: ast.With) -> ast.AST:
        return self._with(node)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        return self._with(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        own = OwnNames(node.body)
        own.bound.update(arg.arg for arg in parameters(node.args))
        return self._within(_Scope("function", own.bound - own.global_, self._scopes[-1].class_name), node)

    def _within(self, scope: _Scope, node: ast.AST) -> ast.AST:
        self._scopes.append(scope)
        try:
            return self.generic_visit(node)
        finally:
            self._scopes.pop()

    def _with(self, node: ast.With | ast.AsyncWith) -> ast.AST:
        at = next((i for i, item in enumerate(node.items) if is_step(item.context_expr)), None)
        if at is None:
            return self.generic_visit(node)
        item, later = node.items[at], node.items[at + 1 :]
        if later:
            node.body = [ast.copy_location(type(node)(items=later, body=node.body), later[0].context_expr)]
            node.items = node.items[: at + 1]
        block = self._block(item.context_expr, node.body)
        self.generic_visit(node)  # inner blocks first: a way out of them is then seen as one out of this block too
        node.body = block.guarded(node.body)
        item.context_expr = block.entered(item.context_expr)
        return node

    def _block(self, call: ast.expr, body: list[ast.stmt]) -> _Block:
        scope, own = self._scopes[-1], OwnNames(body)
        names = frozenset(_mangled(name, scope.class_name) for name in scope.names)
        kind: BlockKind = "generator" if own.yields else scope.kind
        form = normal_form((call, *body))
        block_id = digest("\n".join((form, kind, *sorted(names))).encode())
        self._register(block_id, copy.deepcopy(body), names, kind, "\n".join(map(ast.unparse, body)))
        return _Block(block_id, kind, scope, own.deleted, call)


@dataclass(frozen=True, slots=True)
class _Scope:
    kind: Literal["cell", "class", "function"]
    names: set[str] | frozenset[str] = frozenset()
    """The function's own variables, as they are spelled in its text."""
    class_name: str = ""


@dataclass(frozen=True, slots=True)
class _Block:
    """Makes the generated parts of one block."""

    id: str
    kind: BlockKind
    scope: _Scope
    deleted: set[str]
    where: ast.expr

    def entered(self, call: ast.expr) -> ast.expr:
        enter = self._session("enter_block(None, ID)")
        assert isinstance(enter, ast.Call)
        enter.args[0] = call
        return enter

    def guarded(self, body: list[ast.stmt]) -> list[ast.stmt]:
        exits = _Exits(self)
        body = exits.all(body)
        if exits.ways:
            body = [*body, self.leave("", body[-1])]
        skipped = [] if self.kind == "generator" else [*self._assignments(), *self._ways_out(exits)]
        return [ast.copy_location(ast.If(self._session("pending(ID)"), body, skipped), self.where)]

    def leave(self, way: str, where: ast.stmt) -> ast.stmt:
        return placed(ast.Expr(self._session(f"leave(ID, {way!r})")), where)

    def returned(self, value: ast.expr) -> ast.expr:
        call = placed(self._session("leave(ID, 'return', None)"), value)
        assert isinstance(call, ast.Call)
        call.args[2] = value
        return call

    def _assignments(self) -> Iterable[ast.stmt]:
        for name in sorted(self.scope.names):
            key = _mangled(name, self.scope.class_name)
            assign = ast.Assign([ast.Name(name, ast.Store())], self._session(f"restored(ID).values[{key!r}]"))
            yield self._if(f"{key!r} in S.restored(ID).values", assign)
            if name in self.deleted:
                yield self._if(f"{key!r} in S.restored(ID).deleted", ast.Delete([ast.Name(name, ast.Del())]))

    def _ways_out(self, exits: _Exits) -> Iterable[ast.stmt]:
        for way in sorted(exits.ways):
            result = self._session("restored(ID).result") if exits.values else None
            out: ast.stmt = {"return": ast.Return(result), "break": ast.Break(), "continue": ast.Continue()}[way]
            yield self._if(f"S.restored(ID).left == {way!r}", out)

    def _if(self, test: str, then: ast.stmt) -> ast.stmt:
        return placed(ast.If(self._session(test), [then], []), self.where)

    def _session(self, text: str) -> ast.expr:
        """An expression about this block; a bare call is one of the session's."""
        text = text if "S." in text else f"S.{text}"
        return expression(text.replace("S.", f"{_SESSION}.").replace("ID", repr(self.id)), self.where)


class _Exits(ast.NodeTransformer):
    """Tell a block of every statement in its body that leaves it."""

    def __init__(self, block: _Block) -> None:
        self._block = block
        self._in_loop = False
        self.ways: set[_Exit] = set()
        self.values = False
        """Some ``return`` has a value."""

    def all(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return self.generic_visit(ast.Module(body, [])).body  # type: ignore[attr-defined, no-any-return]  # a module in, a module out

    def visit_Return(self, node: ast.Return) -> ast.Return | list[ast.stmt]:
        if node.value is None:
            return self._out("return", node)
        self.ways.add("return")
        self.values = True
        node.value = self._block.returned(node.value)
        return node

    def visit_Break(self, node: ast.Break) -> ast.stmt | list[ast.stmt]:
        return node if self._in_loop else self._out("break", node)

    def visit_Continue(self, node: ast.Continue) -> ast.stmt | list[ast.stmt]:
        return node if self._in_loop else self._out("continue", node)

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._loop(node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        return self._loop(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._loop(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def _out(self, way: _Exit, node: ast.stmt) -> list[ast.stmt]:
        self.ways.add(way)
        return [self._block.leave(way, node), node]

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> ast.AST:
        """A loop's own ``break`` and ``continue`` stay inside the block; those in its ``else`` are an outer loop's."""
        outer, self._in_loop = self._in_loop, True
        node.body = self.all(node.body)
        self._in_loop = outer
        node.orelse = self.all(node.orelse)
        return node


def _mangled(name: str, class_name: str) -> str:
    """The name under which a method's frame knows a private variable."""
    if not class_name.strip("_") or not name.startswith("__") or name.endswith("__"):
        return name
    return f"_{class_name.lstrip('_')}{name}"
