"""How the built-in containers are taken apart."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from resumable_nb.canonical.leaves import count, leaf, ordered, plain, plain_keys, scalars, shrink
from resumable_nb.canonical.writer import Canonical, Expander, Node

_STRINGS: Final = frozenset({str})
_ROWS: Final = frozenset({dict, tuple, list})
_FEW_ROWS: Final = 16
_MANY_COLUMNS: Final = 64
_MANY_SHAPES: Final = 16
_NESTED_TABLES: Final = 3

Label = Callable[[int], str]


def _index(i: int) -> str:
    return f"[{i}]"


class _Column:
    """What the rows of a table hold under one key. ``level``: how many tables it is in."""

    __slots__ = ("label", "level", "values")

    def __init__(self, values: Sequence[object], label: Label, level: int) -> None:
        self.values = values
        self.label = label
        self.level = level


def _sequence(value: list[Any] | tuple[Any, ...], _canon: Canonical) -> Node:
    tag = (b"[" if type(value) is list else b"(") + count(len(value))
    return _table(tag, value, _index) or Node(tag, value, _index)


def _column(column: _Column, _canon: Canonical) -> bytes | Node:
    values = column.values
    chunk = plain(values, type(values))
    if chunk is not None:
        return chunk
    table = _table(b"[", values, column.label, column.level) if column.level < _NESTED_TABLES else None
    return table or Node(b"[" + count(len(values)), values, column.label)


def _table(head: bytes, rows: Sequence[Any], label: Label, level: int = 0) -> Node | None:
    """Many dicts with few different sets of keys, or many sequences of one length: by columns, which makes far fewer
    and longer pieces."""
    if len(rows) < _FEW_ROWS or (kind := type(rows[0])) not in _ROWS or {*map(type, rows)} != {kind}:
        return None
    if kind is dict:
        return _dict_table(head, rows, label, level)
    width = len(rows[0])
    if not 0 < width <= _MANY_COLUMNS or {*map(len, rows)} != {width}:
        return None
    parts = [
        _Column(list(values), _beside(label, key), level + 1) for key, values in enumerate(zip(*rows, strict=True))
    ]
    return Node(b"R" + head + (b"l" if kind is list else b"t") + count(width), parts)


def _dict_table(head: bytes, rows: Sequence[dict[Any, Any]], label: Label, level: int) -> Node | None:
    if not _STRINGS.issuperset(map(type, itertools.chain.from_iterable(rows))):
        return None
    shapes = list(map(tuple, rows))
    met = {*shapes}
    if len(met) > _MANY_SHAPES or max(map(len, met)) > _MANY_COLUMNS:
        return None
    kinds = sorted({tuple(sorted(shape)) for shape in met})
    of_shape = {shape: kinds.index(tuple(sorted(shape))) for shape in met}
    of_row = list(map(of_shape.__getitem__, shapes))
    parts: list[object] = [of_row] if len(kinds) > 1 else []
    for k, keys in enumerate(kinds):
        chosen = rows if len(kinds) == 1 else [row for row, its in zip(rows, of_row, strict=True) if its == k]
        own = label if len(kinds) == 1 else _nth(label, of_row, k)
        parts += [_Column([row[key] for row in chosen], _beside(own, key), level + 1) for key in keys]
    heads = b"".join(count(len(keys)) + plain_keys(keys) for keys in kinds)
    return Node(b"R" + head + b"d" + count(len(kinds)) + heads, parts)


def _nth(label: Label, of_row: list[int], kind: int) -> Label:
    """Labels for the rows of one kind."""
    return lambda i: label([row for row, its in enumerate(of_row) if its == kind][i])


def _beside(label: Label, key: object) -> Label:
    return lambda i: f"{label(i)}[{key!r}]"


def _dict(value: dict[Any, Any], canon: Canonical) -> Node:
    as_met = tuple(value)
    kinds = {*map(type, as_met)}
    if kinds == _STRINGS:
        keys, written = canon.text_keys(as_met)
        head = b"D" + count(len(keys)) + written
    elif (in_order := ordered(as_met)) is not None:
        keys, head = in_order, b"D" + count(len(in_order)) + plain_keys(in_order)
    else:
        chunks = scalars(value) or [leaf(key) for key in value]
        if None in chunks or len({*chunks}) < len(chunks):
            return _pairs(value)
        keys = [key for _, key in sorted(zip(chunks, value, strict=True), key=operator.itemgetter(0))]
        head = b"P" + count(len(keys)) + shrink(b"".join(sorted(filter(None, chunks))))
    values = [value[key] for key in keys]

    def label(i: int) -> str:
        return f"[{keys[i]!r}]"

    return _table(head, values, label) or Node(head, values, label)


def _pairs(value: dict[Any, Any]) -> Node:
    """A dict whose keys are nodes themselves: in no order until each pair is written."""
    items = list(value.items())
    return Node(b"Q" + count(len(items)), items, lambda i: f"[{items[i][0]!r:.60}]", unordered=True)


def _set(value: set[Any] | frozenset[Any], _canon: Canonical) -> Node:
    tag = b"<" if type(value) is set else b">"
    return Node(tag + count(len(value)), list(value), lambda _i: "{…}", unordered=True)


CONTAINERS: Final[dict[type, Expander]] = {
    list: _sequence,
    tuple: _sequence,
    dict: _dict,
    set: _set,
    frozenset: _set,
    _Column: _column,
}
