"""Tables and columns of pandas, pyarrow and polars: types, names, index and values, not how they lie in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from blake3 import blake3

from resumable_nb.canonical.arrays import filled
from resumable_nb.canonical.columns import columns_of
from resumable_nb.canonical.leaves import count, text
from resumable_nb.canonical.writer import Canonical, Expander, Node

_MANY: Final = 1 << 15
_NUMBERS: Final = "?bBhHiIlLqQefdFDmM"
"""Codes of dtypes whose bytes are their content; long doubles have padding."""


def frame_expander(kind: type) -> Expander | None:
    """How values of a type of these libraries are taken apart, if it is one. Never imports them."""
    for library, pick in (("pandas", _pandas), ("pyarrow", _pyarrow), ("polars", _polars)):
        module = sys.modules.get(library)
        if module is not None and (found := pick(module, kind)) is not None:
            return found
    return None


def _name(value: object) -> bytes:
    return text(f"{type(value).__module__}.{type(value).__qualname__}")


# --- pandas


def _pandas(pd: Any, kind: type) -> Expander | None:
    if not hasattr(pd, "DataFrame"):
        return None
    if issubclass(kind, pd.DataFrame):
        return _frame
    if issubclass(kind, pd.Series):
        return _series
    if issubclass(kind, pd.MultiIndex):
        return _multi_index
    if issubclass(kind, pd.RangeIndex):
        return _range_index
    if issubclass(kind, pd.Index):
        return _index
    if issubclass(kind, pd.api.extensions.ExtensionArray):
        return _extension
    return None


def _values(column: Any) -> Any:
    """The array of a Series or Index: numpy's where its dtype is, else the extension array."""
    np = sys.modules["numpy"]
    return column.values if isinstance(column.dtype, np.dtype) else column.array


def _extras(value: Any) -> list[object]:
    own = [getattr(value, name, None) for name in type(value)._metadata if name not in ("name", "_name")]
    return [value.attrs, value.flags.allows_duplicate_labels, own]


def _frame(value: Any, canon: Canonical) -> bytes | Node:
    if canon.known is not None and (known := canon.known(value)) is not None:
        return b"K" + text(known)
    columns = _columns(value)
    names = [str(name) for name in value.columns]
    return Node(
        b"Df" + _name(value) + count(len(columns)),
        [value.columns, value.index, *columns, *_extras(value)],
        lambda i: f"[{names[i - 2]!r}]" if 2 <= i < len(names) + 2 else "",
    )


def _columns(value: Any) -> list[Any]:
    """The columns; long ones that lie beside each other, in one block in row order, are written together."""
    np = sys.modules["numpy"]
    own = dict(_block_columns(np, value))
    columns = [own[i] if i in own else _values(value.iloc[:, i]) for i in range(value.shape[1])]
    if value.size < _MANY:
        return columns
    blocks: dict[tuple[object, int, int], list[int]] = {}
    for i, each in enumerate(columns):
        if isinstance(each, np.ndarray) and not each.flags.contiguous:
            blocks.setdefault((each.dtype, each.strides[0], id(each.base)), []).append(i)
    for places in blocks.values():
        found = sorted((_address(columns[i]), i) for i in places)
        if (matrix := _matrix(np, [at for at, _ in found], columns[found[0][1]])) is not None:
            for (_, i), written in zip(found, columns_of(matrix), strict=True):
                columns[i] = written
    return columns


def _block_columns(np: Any, value: Any) -> Iterator[tuple[int, Any]]:
    """Columns that lie in blocks of numpy's, each with its place: the frame itself takes 30 µs to give one."""
    for block in getattr(value._mgr, "blocks", ()):
        values = block.values if isinstance(block.values, np.ndarray) else getattr(block.values, "_ndarray", None)
        if values is not None and isinstance(block.dtype, np.dtype):  # those of times are wrapped
            yield from zip(block.mgr_locs.as_array.tolist(), values, strict=True)


def _address(column: Any) -> int:
    return int(column.__array_interface__["data"][0])


def _matrix(np: Any, places: list[int], first: Any) -> Any:
    """The matrix whose columns lie there, in the same memory; nothing, if they do not lie side by side."""
    size = first.itemsize
    beside = places == [*range(places[0], places[0] + len(places) * size, size)]
    if first.dtype.char not in _NUMBERS or not first.dtype.isnative or not beside:
        return None
    return np.lib.stride_tricks.as_strided(first, (len(first), len(places)), (*first.strides, size), writeable=False)


def _series(value: Any, canon: Canonical) -> bytes | Node:
    if canon.known is not None and (known := canon.known(value)) is not None:
        return b"K" + text(known)
    return Node(b"Ds" + _name(value), [_values(value), value.index, value.name, *_extras(value)])


def _index(value: Any, _canon: Canonical) -> Node:
    return Node(b"Di" + _name(value), [_values(value), value.name, getattr(value, "freqstr", None)])


def _range_index(value: Any, _canon: Canonical) -> Node:
    return Node(b"Di" + _name(value), [range(value.start, value.stop, value.step), value.name])


def _multi_index(value: Any, _canon: Canonical) -> Node:
    # Not levels and codes: levels may hold what no code uses, in any order.
    levels = [value.get_level_values(i) for i in range(value.nlevels)]
    return Node(b"Dm" + _name(value), [*levels, list(value.names)])


def _extension(value: Any, _canon: Canonical) -> Node:
    pd, np = sys.modules["pandas"], sys.modules["numpy"]
    dtype = value.dtype
    head = b"De" + _name(value) + text(f"{dtype!r} {getattr(dtype, 'storage', '')} {getattr(dtype, 'na_value', '')}")
    if isinstance(dtype, pd.CategoricalDtype):
        return Node(head, [np.asarray(value.codes), value.categories, bool(value.ordered)])
    if hasattr(value, "asi8"):
        return Node(head, [value.asi8])
    if (arrow := getattr(value, "_pa_array", None)) is not None:
        return Node(head, [arrow])
    plain = getattr(dtype, "numpy_dtype", None)
    if isinstance(plain, np.dtype) and hasattr(value, "_mask") and isinstance(value._data, np.ndarray):
        # What lies under the mask is not content.
        return Node(head, [filled(value._data, value._mask), value._mask])
    return Node(head, [np.asarray(value, dtype=object)])


# --- pyarrow


def _pyarrow(pa: Any, kind: type) -> Expander | None:
    if not hasattr(pa, "Table"):
        return None
    if issubclass(kind, pa.Table | pa.RecordBatch):
        return _arrow_table
    if issubclass(kind, pa.ChunkedArray):
        return lambda value, _canon: _arrow_column(value, value.type)
    if issubclass(kind, pa.Array):
        return lambda value, _canon: Node(b"Aa", [pa.chunked_array([value], value.type)])
    if issubclass(kind, pa.Scalar):
        return lambda value, _canon: Node(b"As" + text(str(value.type)), [value.as_py()])
    if issubclass(kind, pa.Schema):
        return lambda value, _canon: Node(b"Ac", [_schema(value)])
    if issubclass(kind, pa.DataType):
        return lambda value, _canon: b"At" + text(str(value))
    return None


def _schema(schema: Any) -> object:
    fields = [(each.name, str(each.type), each.nullable, dict(each.metadata or {})) for each in schema]
    return fields, dict(schema.metadata or {})


def _arrow_table(value: Any, _canon: Canonical) -> Node:
    pa = sys.modules["pyarrow"]
    columns = [pa.chunked_array(each) if isinstance(each, pa.Array) else each for each in value.columns]
    names = list(value.schema.names)
    return Node(
        b"AT" + _name(value),
        [_schema(value.schema), *columns],
        lambda i: f"[{names[i - 1]!r}]" if i else "",
    )


def _arrow_column(value: Any, kind: Any) -> bytes | Node:
    """Values, in whatever chunks they come, with any offset, and whatever lies where there is none."""
    pa = sys.modules["pyarrow"]
    head = b"Ac" + text(str(kind)) + count(len(value))
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return _arrow_strings(head, value)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_temporal(kind):
        return Node(head, _arrow_numbers(value, kind))
    return Node(head, [value.to_pylist()], lambda _i: "")


def _arrow_numbers(value: Any, kind: Any) -> list[object]:
    pa, np = sys.modules["pyarrow"], sys.modules["numpy"]
    missing = np.asarray(value.is_null().to_numpy(zero_copy_only=False)) if value.null_count else None
    if pa.types.is_temporal(kind):
        if kind.bit_width not in (32, 64) or pa.types.is_interval(kind):
            return [value.to_pylist()]
        plain = pa.int32() if kind.bit_width == 32 else pa.int64()
        value = pa.chunked_array([each.view(plain) for each in value.chunks], plain)
    if value.null_count:
        value = value.fill_null(0)
    chunks = [each.to_numpy(zero_copy_only=False) for each in value.chunks]
    joined = chunks[0] if len(chunks) == 1 else np.concatenate(chunks) if chunks else np.empty(0)
    return [joined, missing]


def _arrow_strings(head: bytes, value: Any) -> bytes:
    np = sys.modules["numpy"]
    large = np.dtype(np.int64) if "large" in str(value.type) else np.dtype(np.int32)
    lengths, data, missing = blake3(), blake3(), blake3()
    for part in value.chunks:
        if not len(part):
            continue
        if part.null_count:
            missing.update(np.ascontiguousarray(part.is_null().to_numpy(zero_copy_only=False)).view(np.uint8).data)
            part = part.fill_null("" if "string" in str(part.type) else b"")
        else:
            missing.update(bytes(len(part)))
        _, offsets, content = part.buffers()
        places = np.frombuffer(offsets, large)[part.offset : part.offset + len(part) + 1]
        lengths.update(np.diff(places).astype(np.int64).view(np.uint8).data)
        if content is not None:
            data.update(memoryview(content)[places[0] : places[-1]])
    return head + b"".join(each.digest(length=16) for each in (lengths, data, missing))


# --- polars


def _polars(pl: Any, kind: type) -> Expander | None:
    if not hasattr(pl, "DataFrame"):
        return None
    if issubclass(kind, pl.DataFrame):
        return lambda value, _canon: Node(
            b"Pf" + _name(value), [list(value.columns), *value.get_columns()], lambda i: f"[{value.columns[i - 1]!r}]"
        )
    if issubclass(kind, pl.Series):
        return _polars_series
    return None


def _polars_series(value: Any, _canon: Canonical) -> Node:
    head = b"Ps" + text(f"{value.dtype!r}")
    if value.dtype.is_numeric() and not value.null_count() and not value.dtype.is_decimal():
        return Node(head, [value.name, value.to_numpy()])
    return Node(head, [value.name, value.to_list()])
