"""Source text as names and a normal form. Pure: nothing is executed or imported."""

from __future__ import annotations

import ast
import dis
import re
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_DYNAMIC = frozenset(
    {"globals", "locals", "vars", "dir", "eval", "exec", "user_ns", "user_global_ns", "__dict__", "execfile"}
)
_DYNAMIC_MAGICS = frozenset(
    {"who", "whos", "who_ls", "psearch", "run", "store", "debug", "pdb", "macro", "recall", "rerun", "reset",
     "reset_selective", "xdel", "load", "notebook"}
)  # fmt: skip
_MAGIC_CALLS = frozenset({"run_line_magic", "run_cell_magic", "system", "getoutput", "magic", "ev", "ex"})

Transform = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Body:
    """What a piece of code does with names, without running it.

    ``normal``: the code, comments, blank lines, formatting and places left out. ``reads``: names that it may look up
    before it has surely bound them. ``dynamic``: it may touch any name.
    """

    normal: str
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    dynamic: bool = False
    star_imports: tuple[str, ...] = ()


def normal_form(node: ast.AST | Sequence[ast.AST]) -> str:
    """The syntax tree as text, the same under every supported Python: empty fields and contexts are left out."""
    out: list[str] = []
    todo: list[object] = [node]
    while todo:
        each = todo.pop()
        match each:
            case _Text(text):
                out.append(text)
            case ast.AST():
                out.append(type(each).__name__ + "(")
                parts: list[object] = []
                for name, value in ast.iter_fields(each):
                    if name in ("ctx", "type_comment", "type_ignores", "kind") or value is None or value == []:
                        continue
                    parts += [_Text(f"{name}="), value, _Text(",")]
                todo += reversed([*parts, _Text(")")])
            case list() | tuple():
                out.append("[")
                parts = []
                for value in each:
                    parts += [value, _Text(",")]
                todo += reversed([*parts, _Text("]")])
            case _:
                out.append(f"{type(each).__name__}:{each!r}")
    return "".join(out)


@dataclass(frozen=True, slots=True)
class _Text:
    text: str


def analyse(tree: ast.Module | Sequence[ast.stmt], *, transform: Transform | None = None) -> Body:
    """What the statements do with names. ``tree`` is of a cell that IPython has transformed.

    ``transform`` turns the text of a cell magic's body (``%%time``) into Python, so that it counts as code.
    """
    body = tree.body if isinstance(tree, ast.Module) else list(tree)
    walk = _Walk(transform)
    walk.block(body)
    return Body(
        normal=normal_form(body),
        reads=frozenset(walk.reads),
        writes=frozenset(walk.writes),
        deletes=frozenset(walk.deletes),
        attributes=frozenset(walk.attributes),
        dynamic=walk.dynamic or bool(walk.reads & _DYNAMIC) or bool(walk.attributes & {"user_ns", "user_global_ns"}),
        star_imports=tuple(walk.stars),
    )


@dataclass
class _Walk(ast.NodeVisitor):
    """Definite assignment over statements in order; a nested function reads what is not bound at its definition."""

    transform: Transform | None = None
    bound: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    stars: list[str] = field(default_factory=list)
    dynamic: bool = False

    def block(self, body: Iterable[ast.AST | None]) -> None:
        for node in body:
            if node is not None:
                self.visit(node)

    def branches(self, *bodies: Sequence[ast.AST]) -> None:
        """One of them runs: what is bound after them is bound by each."""
        before = set(self.bound)
        ends = []
        for body in bodies:
            self.bound = set(before)
            self.block(body)
            if not (body and isinstance(body[-1], ast.Raise | ast.Return | ast.Continue | ast.Break)):
                ends.append(self.bound)
        self.bound = set.intersection(*ends) if ends else before

    def maybe(self, body: Sequence[ast.AST]) -> None:
        """It may run in part, or not at all."""
        before = set(self.bound)
        self.block(body)
        self.bound = before

    def read(self, name: str) -> None:
        if name not in self.bound:
            self.reads.add(name)

    def bind(self, name: str) -> None:
        self.writes.add(name)
        self.bound.add(name)

    def visit_Name(self, node: ast.Name) -> None:  # noqa: N802
        match node.ctx:
            case ast.Load():
                self.read(node.id)
            case ast.Store():
                self.bind(node.id)
            case ast.Del():
                self.read(node.id)
                self.deletes.add(node.id)
                self.bound.discard(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802
        self.attributes.add(node.attr)
        self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        self.visit(node.value)
        self.block(node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)
        elif not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        if isinstance(node.target, ast.Name):
            self.read(node.target.id)
        self.visit(node.value)
        self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:  # noqa: N802
        self.visit(node.value)
        self.visit(node.target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:  # noqa: N802
        self.visit(node.iter)
        before = set(self.bound)
        self.visit(node.target)
        self.block(node.body)
        self.bound = set(before)
        self.maybe(node.orelse)

    visit_AsyncFor = visit_For  # noqa: N815

    def visit_While(self, node: ast.While) -> None:  # noqa: N802
        self.visit(node.test)
        self.maybe(node.body)
        self.maybe(node.orelse)

    def visit_If(self, node: ast.If) -> None:  # noqa: N802
        self.visit(node.test)
        self.branches(node.body, node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:  # noqa: N802
        self.visit(node.test)
        self.branches([node.body], [node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:  # noqa: N802
        self.visit(node.values[0])
        self.maybe(node.values[1:])

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:  # noqa: N802
        before = set(self.bound)
        self.block([*node.body, *node.orelse])
        ends = [set(self.bound)]
        for handler in node.handlers:
            self.bound = set(before)
            if handler.type is not None:
                self.visit(handler.type)
            if handler.name:
                self.bind(handler.name)
            self.block(handler.body)
            if handler.name:
                self.deletes.add(handler.name)
                self.bound.discard(handler.name)
            if not (handler.body and isinstance(handler.body[-1], ast.Raise | ast.Return)):
                ends.append(set(self.bound))
        after = set.intersection(*ends)
        self.bound = set(before)
        self.block(node.finalbody)
        self.bound |= after

    visit_TryStar = visit_Try  # noqa: N815

    def visit_Match(self, node: ast.Match) -> None:  # noqa: N802
        self.visit(node.subject)
        for case in node.cases:
            before = set(self.bound)
            self.visit(case.pattern)
            if case.guard is not None:
                self.visit(case.guard)
            self.block(case.body)
            self.bound = before

    def visit_MatchAs(self, node: ast.MatchAs) -> None:  # noqa: N802
        if node.pattern is not None:
            self.visit(node.pattern)
        if node.name:
            self.bind(node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:  # noqa: N802
        if node.name:
            self.bind(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:  # noqa: N802
        self.block([*node.keys, *node.patterns])
        if node.rest:
            self.bind(node.rest)

    def visit_alias(self, node: ast.alias) -> None:
        self.bind(node.asname or node.name.split(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:  # noqa: N802
        for alias in node.names:
            if alias.name == "*":
                self.stars.append("." * node.level + (node.module or ""))
            else:
                self.visit(alias)

    def visit_Global(self, node: ast.Global) -> None:  # noqa: N802
        self.writes.update(node.names)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:  # noqa: N802
        self.block(node.decorator_list)
        self._signature(node.args)
        if node.returns is not None:
            self.visit(node.returns)
        self.bind(node.name)
        self._function(node.args, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:  # noqa: N802
        self._signature(node.args)
        self._function(node.args, [node.body])

    def _signature(self, args: ast.arguments) -> None:
        self.block([*args.defaults, *args.kw_defaults])
        self.block(a.annotation for a in _parameters(args))

    def _function(self, args: ast.arguments, body: Sequence[ast.AST]) -> None:
        local = {a.arg for a in _parameters(args)}
        self._nested(body, local, own_scope=True)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:  # noqa: N802
        self.block(node.decorator_list)
        self.block([*node.bases, *node.keywords])
        inner = _Walk(self.transform, bound=set(self.bound) | {node.name})
        inner.block(node.body)
        self._take(inner, inner.reads - self.bound - {node.name})
        self.bind(node.name)

    def _comprehension(self, generators: list[ast.comprehension], *results: ast.expr) -> None:
        local = {name.id for g in generators for name in ast.walk(g.target) if isinstance(name, ast.Name)}
        self.visit(generators[0].iter)
        rest: list[ast.AST] = [g.iter for g in generators[1:]]
        rest += [condition for g in generators for condition in g.ifs]
        rest += [g.target for g in generators] + list(results)
        self._nested(rest, local, own_scope=False)
        for node in (n for part in rest for n in ast.walk(part)):
            if isinstance(node, ast.NamedExpr):
                self.writes.add(node.target.id)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:  # noqa: N802
        self._comprehension(node.generators, node.elt)

    visit_SetComp = visit_GeneratorExp = visit_ListComp  # noqa: N815

    def visit_DictComp(self, node: ast.DictComp) -> None:  # noqa: N802
        self._comprehension(node.generators, node.key, node.value)

    def _nested(self, body: Sequence[ast.AST], local: set[str], *, own_scope: bool) -> None:
        """A scope of its own: its locals are the names that it binds anywhere, unless it says ``global``."""
        inner = _Walk(self.transform)
        inner.block(body)
        shared = {n for s in body for g in _scope_nodes(s) if isinstance(g, ast.Global) for n in g.names}
        nonlocals = {n for s in body for g in _scope_nodes(s) if isinstance(g, ast.Nonlocal) for n in g.names}
        own = (local | inner.writes if own_scope else local) - shared - nonlocals
        free = {name for name in inner.all_reads(body) if name not in own} | (inner.reads & shared)
        for name in shared:
            self.writes.add(name)
        self._take(inner, free - self.bound)

    def all_reads(self, body: Sequence[ast.AST]) -> set[str]:
        return self.reads

    def _take(self, inner: _Walk, reads: set[str]) -> None:
        self.reads |= reads
        self.attributes |= inner.attributes
        self.stars += inner.stars
        self.dynamic = self.dynamic or inner.dynamic

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802
        if isinstance(node.func, ast.Attribute) and node.func.attr in _MAGIC_CALLS:
            self._magic(node)
        self.generic_visit(node)

    def _magic(self, node: ast.Call) -> None:
        assert isinstance(node.func, ast.Attribute)
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if node.func.attr in ("run_line_magic", "run_cell_magic") and texts:
            self.dynamic = self.dynamic or texts[0] in _DYNAMIC_MAGICS
            texts = texts[1:]
        for text in texts:
            if not self._code(text):
                names = set(_IDENTIFIER.findall(text))
                self.dynamic = self.dynamic or bool(names & _DYNAMIC)
                for name in names:
                    self.read(name)

    def _code(self, text: str) -> bool:
        """Analyse the text of a magic as code; whether it is any."""
        try:
            tree = ast.parse(self.transform(text) if self.transform else text)
        except (SyntaxError, ValueError):
            return False
        inner = _Walk(self.transform, bound=set(self.bound))
        inner.block(tree.body)
        self.writes |= inner.writes
        self.deletes |= inner.deletes
        self._take(inner, inner.reads)
        self.dynamic = self.dynamic or bool(inner.reads & _DYNAMIC)
        return True


def _parameters(args: ast.arguments) -> Iterator[ast.arg]:
    yield from (*args.posonlyargs, *args.args, *args.kwonlyargs)
    yield from (a for a in (args.vararg, args.kwarg) if a is not None)


def _scope_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of one scope, nested functions and classes left out."""
    todo = [node]
    while todo:
        each = todo.pop()
        yield each
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda) or each is node:
            todo += ast.iter_child_nodes(each)


def code_names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Names that the code looks up globally, and names of attributes; nested code included."""
    names: set[str] = set()
    attributes: set[str] = set()
    for each in _codes(code):
        for i in dis.get_instructions(each):
            if i.opname in ("LOAD_NAME", "LOAD_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"):
                names.add(i.argval)
            elif "ATTR" in i.opname or i.opname == "LOAD_METHOD":
                attributes.add(i.argval)
    return frozenset(names), frozenset(attributes)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    todo = [code]
    while todo:
        each = todo.pop()
        yield each
        todo += [c for c in each.co_consts if isinstance(c, types.CodeType)]


_SKIPPED = frozenset({"NOP", "CACHE", "RESUME", "EXTENDED_ARG", "PRECALL"})


def code_form(code: types.CodeType) -> bytes:
    """A code object as bytes: the same for equal functions in other places, files and formatting.

    Line numbers, file names and instructions that do nothing are left out; constants keep their types.
    """
    parts = [
        code.co_name, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags,
        code.co_varnames, code.co_freevars, code.co_cellvars,
    ]  # fmt: skip
    instructions = [i for i in dis.get_instructions(code) if i.opname not in _SKIPPED]
    index: dict[int, int] = {}
    position = 0
    for i in dis.get_instructions(code):  # a jump to a left-out instruction goes to the next one
        index[i.offset] = position
        position += i.opname not in _SKIPPED
    lines = [_instruction(i, index) for i in instructions]
    handlers = [
        (index.get(e.start), index.get(e.end), index.get(e.target), e.depth, e.lasti)
        for e in dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # undocumented, in all of 3.11-3.13
    ]
    return repr((parts, lines, handlers)).encode("utf-8", "surrogatepass")


def _instruction(i: dis.Instruction, index: dict[int, int]) -> tuple[object, ...]:
    if i.opcode in dis.hasconst:
        return i.opname, constant_form(i.argval)
    if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs:
        return i.opname, index.get(i.argval, i.argval)
    if i.opname.startswith("LOAD_CLOSURE") or i.opname == "MAKE_FUNCTION":
        return i.opname, i.argval if isinstance(i.argval, str) else i.arg
    return i.opname, i.argval if isinstance(i.argval, str | tuple) else i.arg


def constant_form(value: object) -> object:
    """A constant with its type; sets in a fixed order."""
    match value:
        case types.CodeType():
            return "code", code_form(value)
        case frozenset():
            return "frozenset", sorted(repr(constant_form(each)) for each in value)
        case tuple():
            return "tuple", [constant_form(each) for each in value]
        case _:
            return type(value).__name__, repr(value)
