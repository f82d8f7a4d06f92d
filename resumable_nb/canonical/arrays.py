"""Arrays of numpy: dtype, shape, and the content in C order whatever the layout; all NaNs are one."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from blake3 import blake3

from resumable_nb.canonical.writer import Canonical, Expander, Node, Written, text

_BLOCK_BYTES: Final = 1 << 20
_COPY_BYTES: Final = 1 << 18
_AHEAD_BYTES: Final = 1 << 23
_HANDED_BYTES: Final = 1 << 21
_GROUP_BYTES: Final = 1 << 26
_LINE_ROWS: Final = 8
_LINE_BYTES: Final = 1 << 16


def numpy_expander(kind: type) -> Expander | None:
    """How values of a type of numpy's are taken apart, if it is one. Never imports numpy."""
    np = sys.modules.get("numpy")
    if np is None or not hasattr(np, "ndarray"):
        return None
    masked = sys.modules.get("numpy.ma")  # importing it takes a while; before that, there are none
    if masked is not None and issubclass(kind, masked.MaskedArray):
        return _masked
    if issubclass(kind, np.ndarray):
        return _array
    if issubclass(kind, np.generic):
        return _scalar
    if issubclass(kind, np.random.Generator):
        return lambda value, _canon: Node(b"Ng" + _name(value), [value.bit_generator])
    if issubclass(kind, np.random.BitGenerator):
        return lambda value, _canon: Node(b"Nb" + _name(value), [value.state])
    if issubclass(kind, np.random.RandomState):
        return lambda value, _canon: Node(b"Ns" + _name(value), [value.get_state(legacy=False)])
    return None


def _name(value: object) -> bytes:
    return text(f"{type(value).__module__}.{type(value).__qualname__}")


def _array(value: Any, canon: Canonical) -> bytes | Node:
    np = sys.modules["numpy"]
    # A map of a file is its content: after a restore it is a plain array.
    plain = type(value) in (np.ndarray, np.memmap)
    head = _head(value, b"" if plain else _name(value))
    parts: list[object] = [] if plain else [vars(value)] if hasattr(value, "__dict__") else []
    bare = value.view(np.ndarray)
    if value.dtype.hasobject:
        return Node(head, [*_object_parts(bare), *parts])
    if canon.known is not None and plain and (known := canon.known(value)) is not None:
        return b"K" + text(known)
    digest = b"#" + _hashed(head, bare).digest(length=16)
    return Node(b"Nd" + digest, parts) if parts else digest


def _hashed(head: bytes, value: Any) -> blake3:
    hasher = blake3(head)
    if value.dtype.char in "fd" and value.dtype.isnative and value.flags.c_contiguous:
        return _hash_floats(hasher, value.reshape(-1))
    pieces = _content(value)
    for data in _ahead(pieces) if value.nbytes > _AHEAD_BYTES else pieces:
        hasher.update(data)
    return hasher


def _hash_floats(hasher: blake3, flat: Any) -> blake3:
    """Each block is hashed first, and looked at while it is in the cache: most have no NaN, and that is cheapest."""
    np = sys.modules["numpy"]
    step = _BLOCK_BYTES // flat.itemsize
    for start in range(0, flat.size, step):
        block = flat[start : start + step]
        before = hasher.copy()
        hasher.update(_bytes(np, block))
        if _has_nan(np, block):
            for data in _content(flat[start:]):
                before.update(data)
            return before
    return hasher


@functools.lru_cache(maxsize=256)
def _plain_dtype(code: str) -> str:
    return repr(sys.modules["numpy"].dtype(code))


def _head(value: Any, kind: bytes = b"") -> bytes:
    dtype = value.dtype
    plain = dtype.kind in "biufc" and dtype.metadata is None
    shown = _plain_dtype(dtype.str) if plain else repr(dtype)
    return b"Na" + kind + text(f"{shown} {value.shape}")


def columns_of(matrix: Any) -> list[Written]:
    """Each column of a matrix in row order, as that column alone would be written; memory is read once for all."""
    hashers = [blake3(_head(matrix[:, k])) for k in range(matrix.shape[1])]
    pieces = _lines(matrix)
    for lines in _ahead(pieces) if matrix.nbytes > _AHEAD_BYTES else pieces:
        for hasher, line in zip(hashers, lines, strict=True):
            hasher.update(line.data)
    return [Written(b"#" + each.digest(length=16)) for each in hashers]


def _lines(matrix: Any) -> Iterator[Any]:
    """The bytes of a matrix by columns: a row of bytes for each, some rows of the matrix at a time."""
    np = sys.modules["numpy"]
    rows, columns = matrix.shape
    line_bytes = max(_LINE_BYTES, _BLOCK_BYTES // columns)
    step = max(1, min(line_bytes // matrix.itemsize, _GROUP_BYTES // (matrix.itemsize * columns)))
    for start in range(0, rows, step):
        block = _copy(np, matrix[start : start + step].T)
        whole = _one_nan(np, block) if matrix.dtype.kind in "fc" else block
        yield whole.reshape(columns, -1).view(np.uint8)


def _ahead(pieces: Iterator[Any]) -> Iterator[Any]:
    """The same pieces, some made in a thread while those before them are hashed."""
    with ThreadPoolExecutor(1) as helper:
        coming = helper.submit(_some, pieces)
        while made := coming.result():
            coming = helper.submit(_some, pieces)
            yield from made


def _some(pieces: Iterator[Any]) -> list[Any]:
    """The next pieces, enough for handing them over to cost little."""
    made: list[Any] = []
    size_bytes = 0
    for piece in pieces:
        made.append(piece)
        size_bytes += memoryview(piece).nbytes
        if size_bytes >= _HANDED_BYTES:
            break
    return made


def _object_parts(value: Any) -> list[object]:
    if value.dtype.names is not None:
        return [value[name] for name in value.dtype.names]
    return [value.reshape(-1).tolist()]


def _scalar(value: Any, _canon: Canonical) -> bytes | Node:
    np = sys.modules["numpy"]
    return Node(b"Nv" + _name(value), [np.asarray(value)])


def _masked(value: Any, _canon: Canonical) -> Node:
    """What lies under the mask is not content."""
    np = sys.modules["numpy"]
    mask = np.ma.getmaskarray(value)
    data = np.array(value.data, copy=True, subok=False)
    data[mask] = np.zeros((), data.dtype)[()]
    return Node(b"Nm" + _name(value), [data, mask, np.asarray(value.fill_value)])


def _content(value: Any) -> Iterator[Any]:
    """The bytes of an array in C order, in pieces; memory is read where it lies when it can be."""
    np = sys.modules["numpy"]
    if value.dtype.names is not None:  # field by field: between fields there is padding, with chance content
        for name in value.dtype.names:
            yield from _content(value[name])
        return
    if value.dtype.kind == "T":  # strings of any length lie elsewhere
        yield from (text(each) for each in value.reshape(-1).tolist())
        return
    if value.dtype.char in "gG":
        value = _without_padding(np, value)
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    floats = value.dtype.kind in "fc"
    if not value.flags.c_contiguous:
        for block in _blocks(value):
            own = _copy(np, block)
            yield _bytes(np, _one_nan(np, own) if floats else own)
    elif floats:
        flat = value.reshape(-1)
        step = _BLOCK_BYTES // flat.dtype.itemsize
        for start in range(0, flat.size, step):
            yield _bytes(np, _one_nan(np, flat[start : start + step]))
    else:
        yield _bytes(np, value)


def _bytes(np: Any, value: Any) -> Any:
    """A contiguous array's memory."""
    return value.reshape(-1).view(np.uint8).data if value.size and value.dtype.itemsize else b""


def _blocks(value: Any) -> Iterator[Any]:
    """Parts of an array, in C order, small enough to be copied within the cache."""
    if value.nbytes <= _COPY_BYTES or value.ndim == 0:
        yield value
        return
    row_bytes = value.nbytes // len(value)
    step = _COPY_BYTES // max(1, row_bytes)
    if step == 0 and abs(value.strides[0]) < abs(value.strides[-1]) and row_bytes * _LINE_ROWS <= _GROUP_BYTES:
        step = _LINE_ROWS  # neighbours in memory are one below the other: use each cache line whole
    if step == 0:
        for row in value:
            yield from _blocks(row)
        return
    for start in range(0, len(value), step):
        yield value[start : start + step]


def _copy(np: Any, block: Any) -> Any:
    """The block in C order, copied in tiles that fit into the cache."""
    own = np.empty(block.shape, block.dtype)
    tile = max(1, _COPY_BYTES * block.shape[-1] // block.nbytes) if block.nbytes > _COPY_BYTES else 0
    if not tile or block.ndim < 2:
        own[...] = block
        return own
    for start in range(0, block.shape[-1], tile):
        own[..., start : start + tile] = block[..., start : start + tile]
    return own


def _has_nan(np: Any, flat: Any) -> bool:
    if not flat.size:
        return False
    with np.errstate(invalid="ignore"):
        most = np.maximum.reduce(flat)
    return bool(most != most)


def _one_nan(np: Any, block: Any) -> Any:
    """The contiguous block with the same bits in every NaN; itself, where that is so already."""
    flat = block.reshape(-1)
    flat = flat.view(flat.real.dtype) if block.dtype.kind == "c" else flat
    if not _has_nan(np, flat):
        return flat
    missing = np.isnan(flat)
    bits = flat.view(f"u{flat.dtype.itemsize}")
    usual = np.array([np.nan], flat.dtype).view(bits.dtype)[0]
    if np.count_nonzero(bits == usual) == np.count_nonzero(missing):
        return flat
    own = flat.copy()
    np.copyto(own, np.nan, where=missing)
    return own


def _without_padding(np: Any, value: Any) -> Any:
    """Long doubles as pairs of a double and the rest: their own 16 bytes have padding with chance content."""
    if value.dtype.kind == "c":
        return np.stack([_without_padding(np, value.real), _without_padding(np, value.imag)])
    high = value.astype(np.float64)
    with np.errstate(invalid="ignore"):
        rest = np.where(np.isfinite(high), value - high, 0)
    return np.stack([high, rest.astype(np.float64)])
