"""``code_form``: a code object as canonical bytes.

Formatting reaches bytecode in more ways than line tables: the compiler threads a jump through another, inverts a
condition, fuses two loads or copies the end of a function only where the lines match. So the instructions are taken
as the graph of what may follow what, unconditional jumps left out, and equal parts of the graph are merged. What
remains depends on the meaning alone.
"""

from __future__ import annotations

import dis
import functools
import itertools
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

_NOTHING: Final = frozenset({"NOP", "CACHE", "RESUME", "EXTENDED_ARG", "PRECALL", "PUSH_NULL", "NOT_TAKEN"})
_JUMPS: Final = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
_ENDS: Final = frozenset({"RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})
_NAMED: Final = {"LOAD_GLOBAL": "LOAD_GLOBAL", "LOAD_ATTR": "LOAD_ATTR", "LOAD_METHOD": "LOAD_ATTR"}
"""Instructions that count by their name alone. Whether ``m.f()`` calls a method or what an attribute holds depends on
where ``m`` is imported: in the same cell, or in another."""
_FLAG_BITS: Final = {"LOAD_SUPER_ATTR": 3}
"""Instructions whose argument is a name and, in its low bits, something else."""
_FLAGS: Final = 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0x80 | 0x100 | 0x200
"""Flags that say what a function is (arguments, generator, coroutine), not where it stands."""
_VARARGS, _VARKEYWORDS, _OPTIMIZED = 0x4, 0x8, 0x1
_PLACE: Final = frozenset({"__firstlineno__", "__static_attributes__"})
"""What a class body notes about its own text (Python 3.13)."""
_NOWHERE: Final = -1
_AGAIN: Final = -2
"""In place of a node: the end, and an endless loop around nothing."""


@functools.lru_cache(maxsize=10_000)
def code_form(code: types.CodeType) -> bytes:
    """A code object as bytes: the same for equal code in another place, file or layout, under any hash seed.

    Differs with the version of Python, as bytecode does. Constants keep their types; docstrings and names count.
    """
    flags = code.co_flags
    arguments = code.co_argcount + code.co_kwonlyargcount + bool(flags & _VARARGS) + bool(flags & _VARKEYWORDS)
    docstring = code.co_consts[0] if flags & _OPTIMIZED and code.co_consts else None
    head = (
        code.co_name,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        flags & _FLAGS,
        code.co_varnames[:arguments],
        code.co_freevars,
        docstring if isinstance(docstring, str) else None,
    )
    return repr((head, _minimal(*_graph(code)))).encode("utf-8", "surrogatepass")


@dataclass(slots=True)
class _Step:
    """One instruction. ``offset``: where it lies; ``target``: the offset that it may jump to, or -1."""

    offset: int
    name: str
    argument: object = None
    target: int = -1


@dataclass(slots=True)
class _Node:
    """A step, and the nodes that may come after it."""

    name: str
    after: list[int] = field(default_factory=list)
    handler: tuple[int, ...] = ()
    """Node that an exception goes to."""


def _steps(code: types.CodeType) -> Iterator[_Step]:
    for i in dis.get_instructions(code):
        value = i.argval
        if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs:
            yield _Step(i.offset, i.opname, target=value)
        elif i.opname == "RETURN_CONST":
            yield _Step(i.offset, "LOAD_CONST", _constant(value))
            yield _Step(i.offset, "RETURN_VALUE")
        elif isinstance(value, tuple) and i.opcode in dis.haslocal:  # two fused instructions
            for name, each in zip(_halves(i.opname), value, strict=True):
                yield _Step(i.offset, name, each)
        elif i.opcode in dis.hasconst:
            yield _Step(i.offset, i.opname, _constant(value))
        elif i.opname in _NAMED:
            yield _Step(i.offset, _NAMED[i.opname], value)
        elif i.opname in _FLAG_BITS:
            yield _Step(i.offset, i.opname, (value, (i.arg or 0) & _FLAG_BITS[i.opname]))
        else:
            yield _Step(i.offset, i.opname, value if isinstance(value, str) else i.arg)


def _halves(name: str) -> tuple[str, str]:
    """``LOAD_FAST_LOAD_FAST`` and its like, as two."""
    at = max(name.find("_LOAD", 1), name.find("_STORE", 1))
    return name[:at], name[at + 1 :]


def _without_place(steps: list[_Step]) -> list[_Step]:
    for load, store in itertools.pairwise(steps):
        if store.name == "STORE_NAME" and store.argument in _PLACE:
            load.name = store.name = "NOP"
    return steps


def _without_swaps(steps: list[_Step]) -> list[_Step]:
    """Exchange two stores instead of the values that they store: the compiler does so where all is on one line."""
    targets = {step.target for step in steps}
    for i in reversed(range(len(steps))):
        if steps[i].name != "SWAP" or not isinstance(depth := steps[i].argument, int):
            continue
        places: list[int] = []
        for k in range(i + 1, len(steps)):
            step = steps[k]
            if step.offset in targets or step.name not in ("STORE_FAST", "POP_TOP", "NOP") or len(places) == depth:
                break
            if step.name != "NOP":
                places.append(k)
        if len(places) < depth:
            continue
        first, last = steps[places[0]], steps[places[-1]]
        stored = [steps[k].argument for k in places if steps[k].name == "STORE_FAST"]
        if any(each.name == "STORE_FAST" and stored.count(each.argument) > 1 for each in (first, last)):
            continue
        first.name, last.name = last.name, first.name
        first.argument, last.argument = last.argument, first.argument
        steps[i].name = "NOP"
    return steps


def _graph(code: types.CodeType) -> tuple[list[_Node], int]:
    """The instructions as nodes, and the one where the code begins."""
    steps = _without_swaps(_without_place(list(_steps(code))))
    at = {step.offset: k for k, step in reversed(list(enumerate(steps)))}
    kept = [k for k, step in enumerate(steps) if step.name not in _NOTHING and step.name not in _JUMPS]
    number = {k: n for n, k in enumerate(kept)}

    def follow(k: int) -> int:
        """The node that is executed when control comes to step ``k``."""
        seen: set[int] = set()
        while k < len(steps) and k not in number:
            if k in seen:
                return _AGAIN
            seen.add(k)
            k = at[steps[k].target] if steps[k].name in _JUMPS else k + 1
        return number.get(k, _NOWHERE)

    nodes = [
        _node(
            steps[k],
            [] if steps[k].name in _ENDS else [follow(k + 1)],
            [follow(at[steps[k].target])] if steps[k].target >= 0 else [],
        )
        for k in kept
    ]
    for start, end, target, depth, lasti in _handlers(code):
        for n, k in enumerate(kept):
            if start <= steps[k].offset < end:
                nodes[n].handler = (follow(at[target]), depth, lasti)
    for node in nodes:
        _shorten(node, nodes)
    return nodes, follow(0)


def _handlers(code: types.CodeType) -> list[tuple[int, int, int, int, int]]:
    # undocumented, the same in 3.11 to 3.13; the documented text of dis holds no more than this
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # typeshed leaves it out
    return [(e.start, e.end, e.target, e.depth, int(e.lasti)) for e in entries]


def _node(step: _Step, following: list[int], target: list[int]) -> _Node:
    """A conditional jump goes first where its condition is true (or None), second where it is not."""
    name = step.name.replace("_FORWARD", "").replace("_BACKWARD", "")
    match name:
        case "POP_JUMP_IF_TRUE":
            return _Node("IF", [*target, *following])
        case "POP_JUMP_IF_FALSE":
            return _Node("IF", [*following, *target])
        case "POP_JUMP_IF_NONE":
            return _Node("IF_NONE", [*target, *following])
        case "POP_JUMP_IF_NOT_NONE":
            return _Node("IF_NONE", [*following, *target])
        case "JUMP_IF_TRUE_OR_POP":
            return _Node("TRUE_OR_POP", [*target, *following])
        case "JUMP_IF_FALSE_OR_POP":
            return _Node("FALSE_OR_POP", [*following, *target])
        case _:
            return _Node(f"{name} {step.argument!r}", following + target)


_KEPT_SIDE: Final[dict[str, Literal[0, 1]]] = {"TRUE_OR_POP": 0, "FALSE_OR_POP": 1}


def _shorten(node: _Node, nodes: list[_Node]) -> None:
    """A tested value that is kept only to be tested again goes straight to where the second test sends it."""
    seen: set[int] = set()
    while node.name in _KEPT_SIDE:
        side = _KEPT_SIDE[node.name]
        where = node.after[side]
        if where < 0 or where in seen:
            return
        seen.add(where)
        match nodes[where].name:
            case "IF":
                node.name = "IF"
            case "TRUE_OR_POP" | "FALSE_OR_POP" as second if _KEPT_SIDE[second] != side:
                node.name = "IF"
            case "TRUE_OR_POP" | "FALSE_OR_POP":
                pass
            case _:
                return
        node.after[side] = nodes[where].after[side]


def _minimal(nodes: list[_Node], entry: int) -> list[tuple[object, ...]]:
    """The smallest graph that behaves like the given one, numbered as it is walked from its entry: that is unique."""
    kinds = _kinds(nodes)
    order: dict[int, int] = {_NOWHERE: _NOWHERE, _AGAIN: _AGAIN}
    walked: list[_Node] = []
    todo = [entry]
    while todo:
        n = todo.pop()
        kind = n if n < 0 else kinds[n]
        if kind in order:
            continue
        order[kind] = len(walked)
        walked.append(nodes[n])
        todo += [*reversed(nodes[n].after), *nodes[n].handler[:1]]

    def place(n: int) -> int:
        return order[n if n < 0 else kinds[n]]

    return [(n.name, tuple(map(place, n.after)), tuple(map(place, n.handler[:1])), n.handler[1:]) for n in walked]


def _kinds(nodes: list[_Node]) -> list[int]:
    """Nodes that no execution can tell apart get the same number (partition refinement)."""
    kinds = [0] * len(nodes)
    table: dict[object, int] = {}
    for n in reversed(range(len(nodes))):  # what follows further down is told apart at once, loops need rounds
        node = nodes[n]
        later = tuple(kinds[m] if m > n else min(m, 0) for m in (*node.after, *node.handler[:1]))
        kinds[n] = table.setdefault((node.name, node.handler[1:], later), len(table))
    while True:
        table = {}
        new = [
            table.setdefault(
                (kinds[n], *(kinds[m] if m >= 0 else m for m in (*node.after, *node.handler[:1]))), len(table)
            )
            for n, node in enumerate(nodes)
        ]
        if len(table) == len(set(kinds)):
            return kinds
        kinds = new


def _constant(value: object) -> object:
    """A constant with its type; sets in a fixed order."""
    match value:
        case types.CodeType():
            return "code", code_form(value)
        case frozenset():
            return "frozenset", sorted(repr(_constant(each)) for each in value)
        case tuple():
            return "tuple", [_constant(each) for each in value]
        case slice():  # a constant since 3.14
            return "slice", [_constant(each) for each in (value.start, value.stop, value.step)]
        case int() if type(value) is int:
            return "int", hex(value)  # str() of an integer with many digits is refused
        case _:
            return type(value).__name__, repr(value)
