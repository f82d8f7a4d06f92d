"""Frames of running code: their variables, read and written, and bodies of ``with`` statements that must not run.

In a cell a ``with`` body is skipped by rewriting the cell's syntax tree. Elsewhere (``.py`` files, ``%run``) nothing
was rewritten: there a trace function on the frame raises at the first line of the body, and ``__exit__`` catches that.
"""

from __future__ import annotations

import ast
import ctypes
import dis
import inspect
import itertools
import linecache
import sys
from collections.abc import Collection, Iterable, Mapping
from types import FrameType
from typing import Any, Final

from resumable_nb.errors import UsageError

_WRITE_THROUGH: Final = sys.version_info >= (3, 13)
"""``f_locals`` of a function is a view (PEP 667)."""
_CAN_DELETE: Final = sys.version_info < (3, 12)
"""Newer code takes it that a bound local variable stays bound."""


def is_function(frame: FrameType) -> bool:
    """Whether the frame is a function's, whose variables are not in a dict; else a module's, cell's or class body's."""
    return bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED)


def is_module(frame: FrameType) -> bool:
    """Whether the frame is a module's or a cell's: its variables are the globals."""
    return not is_function(frame) and frame.f_locals is frame.f_globals


def variables(frame: FrameType) -> dict[str, Any]:
    """The frame's own variables: a function's as a copy, free variables included; else the live namespace itself."""
    return dict(frame.f_locals) if is_function(frame) else frame.f_locals


def own_names(frame: FrameType) -> Collection[str]:
    """The names that belong to the frame, bound or not; a module owns every name."""
    code = frame.f_code
    if is_function(frame):
        return frozenset((*code.co_varnames, *code.co_cellvars, *code.co_freevars))
    if frame.f_locals is frame.f_globals:
        return _Every()
    stores = (each for each in dis.get_instructions(code) if each.opname in ("STORE_NAME", "DELETE_NAME"))
    return frozenset(each.argval for each in stores) | frame.f_locals.keys()


def given_names(frame: FrameType) -> frozenset[str]:
    """A function's parameters and free variables: what code outside of it may hold too."""
    code = frame.f_code
    if not is_function(frame):
        return frozenset()
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return frozenset((*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars], *code.co_freevars))


class _Every(frozenset[str]):
    """Holds every name."""

    def __contains__(self, name: object) -> bool:
        return True


def assign(frame: FrameType, values: Mapping[str, Any], deletes: Iterable[str] = ()) -> None:
    """Set and delete variables of the frame. In a function, names that it does not have are left out.

    Raises ``UsageError``, and changes nothing, where a function's variable would have to be deleted and this Python
    has no way to do so.
    """
    if not is_function(frame):
        frame.f_locals.update(values)
        for name in deletes:
            frame.f_locals.pop(name, None)
        return
    own = own_names(frame)
    bound = frame.f_locals
    gone = [name for name in deletes if name in own and name in bound]
    if gone and not _CAN_DELETE:
        raise UsageError(
            f"step: the skipped body had deleted {', '.join(sorted(gone))} of function {frame.f_code.co_name}, which "
            f"cannot be repeated from outside in a .py file; move the del below the with block"
        )
    bound.update({name: value for name, value in values.items() if name in own})
    for name in gone:
        del bound[name]
    if not _WRITE_THROUGH:
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(1))


class SkipBody(BaseException):
    """Raised at the first line of a body that must not run; never seen outside its ``with`` statement."""


class Skipping:
    """A body that is going to be skipped, until ``restore`` puts tracing back as it was."""

    def __init__(self, frame: FrameType, lines: range) -> None:
        self._frame = frame
        self._lines = lines
        self._signal = SkipBody()
        self._before = (sys.gettrace(), frame.f_trace, frame.f_trace_lines)
        sys.settrace(_ignore)  # a frame's own trace function is called only while there is a global one
        frame.f_trace_lines = True
        frame.f_trace = self._trace

    def restore(self, error: BaseException | None) -> bool:
        """Call it in ``__exit__``. Whether ``error`` is ours, and has to be suppressed."""
        tracer, self._frame.f_trace, self._frame.f_trace_lines = self._before
        sys.settrace(tracer)  # anew also because an exception in a trace function ends all tracing
        return error is self._signal

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        # Lines of the header come again (3.12: for async with; anywhere: where "as name" stands on a line of its own).
        if event == "line" and frame.f_lineno in self._lines:
            raise self._signal
        return self._trace


def _ignore(*_: Any) -> None:
    return None


def skip_body(frame: FrameType, name: str = "") -> Skipping:
    """Keep the body of the ``with`` statement that ``frame`` is just entering from running.

    Call it in ``__enter__``, and ``restore`` in ``__exit__``. Raises ``UsageError`` where ``with_statement`` does.
    """
    node = with_statement(frame, name)
    return Skipping(frame, range(_first_line(node.body), (node.end_lineno or node.lineno) + 1))


def with_statement(frame: FrameType, name: str = "") -> ast.With | ast.AsyncWith:
    """The statement that ``frame`` is just entering, from its source.

    Raises ``UsageError`` where its body cannot be skipped from outside: there is no source (or not that of the running
    code any more), the body begins on a line of the header, or it is left by ``return``, ``break``, ``continue`` or
    ``yield``, which nothing would repeat, or the statement holds two steps.
    """
    place = f"step {name!r} at {frame.f_code.co_filename}:{frame.f_lineno}"
    node = _with_statements(frame).get(_position(frame))
    if node is None:
        raise UsageError(f"{place}: its source cannot be read, or has changed; put the block into a cell or a .py file")
    if node.body[0].lineno <= _last_header_line(node) and not is_guarded(node):
        raise UsageError(f"{place}: put the body on a line of its own, or under ``if s.pending:``")
    if sum(_names_step(item.context_expr) for item in node.items) > 1:
        raise UsageError(f"{place}: give each step a with statement of its own")
    way = _Exits.of(node.body)
    if way:
        raise UsageError(
            f"{place}: its body has a {way}, which a skipped body cannot repeat in a .py file; move it below the block"
        )
    return node


def is_guarded(node: ast.With | ast.AsyncWith) -> bool:
    """Whether the body asks by itself whether it has to run: ``with … as s:`` and nothing but ``if s.pending:``."""
    match node.items[-1].optional_vars, node.body:
        case ast.Name(id=name), [ast.If(test=ast.Attribute(value=ast.Name(id=asked), attr="pending"), orelse=[])]:
            return name == asked
    return False


_Position = tuple[int | None, int | None, int | None, int | None]
_With = ast.With | ast.AsyncWith

_parsed: dict[str, tuple[list[str], dict[_Position, _With]]] = {}
"""File name to its lines, as they were when it was parsed, and its ``with`` statements."""


def _position(frame: FrameType) -> _Position:
    """Where the running instruction stands: the ``with`` statement, from 3.13 on its item."""
    positions = frame.f_code.co_positions()
    position = next(itertools.islice(positions, frame.f_lasti // 2, None))
    return (frame.f_lineno, None, None, None) if None in position else position  # -X no_debug_ranges: lines alone


def _with_statements(frame: FrameType) -> dict[_Position, _With]:
    """The ``with`` statements of the frame's file, by every position that ``_position`` may tell for them."""
    name = frame.f_code.co_filename
    linecache.checkcache(name)
    lines = linecache.getlines(name, frame.f_globals)
    known = _parsed.get(name)
    if known is not None and known[0] is lines:
        return known[1]
    found: dict[_Position, _With] = {}
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.With | ast.AsyncWith):
            for place in (node, *(item.context_expr for item in node.items)):
                position = (place.lineno, place.end_lineno, place.col_offset, place.end_col_offset)
                found[position] = found[place.lineno, None, None, None] = node
    _parsed[name] = (lines, found)
    return found


def _last_header_line(node: _With) -> int:
    item = node.items[-1]
    return (item.optional_vars or item.context_expr).end_lineno or node.lineno


def _names_step(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="step") | ast.Attribute(attr="step")):
            return True
    return False


def _first_line(body: list[ast.stmt]) -> int:
    """Where the first statement begins that does something.

    Others may leave an instruction that belongs to no block: an error raised there would pass by ``__exit__``.
    """
    for stmt in body:
        match stmt:
            case ast.Pass() | ast.Expr(ast.Constant()) | ast.Global() | ast.Nonlocal() | ast.AnnAssign(value=None):
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if stmt.decorator_list:
                return stmt.decorator_list[0].lineno
            case _:
                return stmt.lineno
    return (body[-1].end_lineno or body[-1].lineno) + 1


class _Exits(ast.NodeVisitor):
    """Finds how statements leave the block that they stand in."""

    def __init__(self) -> None:
        self.way = ""
        self._in_loop = False

    @classmethod
    def of(cls, body: list[ast.stmt]) -> str:
        """``return``, ``yield``, ``break`` or ``continue``; empty where the body runs to its end."""
        finder = cls()
        finder._all(body)
        return finder.way

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                return
            case ast.Return():
                self.way = "return"
            case ast.Yield() | ast.YieldFrom():
                self.way = "yield"
            case ast.Break() | ast.Continue() if not self._in_loop:
                self.way = type(node).__name__.lower()
            case ast.For() | ast.AsyncFor() | ast.While():
                outer, self._in_loop = self._in_loop, True
                self._all(node.body)
                self._in_loop = outer
                self._all(node.orelse)
            case _:
                self.generic_visit(node)

    def _all(self, body: list[ast.stmt]) -> None:
        for stmt in body:
            self.visit(stmt)


def user_level() -> int:
    """How far up the nearest frame outside this package is, as ``stacklevel`` of our caller."""
    package = __name__.partition(".")[0]
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    return level
