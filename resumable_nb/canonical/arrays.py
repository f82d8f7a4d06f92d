"""Arrays of numpy: dtype, shape, and the content in C order whatever the layout; all NaNs are one.

A large array is cut into boxes, by shape and item size alone. Each is copied into C order, if it does not lie so, and
hashed while it is in the cache of a core; threads share the boxes. The digest is that of the digests of the boxes.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from blake3 import blake3

from resumable_nb.canonical.leaves import text
from resumable_nb.canonical.turning import Desk
from resumable_nb.canonical.writer import Canonical, Expander, Node, Written
from resumable_nb.threads import WORTHWHILE_BYTES, shared

_BOX_BYTES: Final = 1 << 20
_RUN_BYTES: Final = 1 << 14
_SIDE_BYTES: Final = 1 << 10
_AHEAD_BYTES: Final = 1 << 15
_MANY: Final = 1024
_INFINITE: Final = 0x7C00
"""Of 16 bits."""


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
    head = head_of(value, b"" if plain else _name(value))
    parts: list[object] = [] if plain else [vars(value)] if hasattr(value, "__dict__") else []
    bare = value.view(np.ndarray)
    if value.dtype.hasobject:
        return Node(head, [*_object_parts(bare), *parts])
    if canon.known is not None and plain and (known := canon.known(value)) is not None:
        return b"K" + text(known)
    if plain and _AHEAD_BYTES <= value.nbytes <= _BOX_BYTES:
        _ahead(canon)
    digest = b"#" + _hashed(head, bare).digest(length=16)
    return Node(b"Nd" + digest, parts) if parts else digest


def _ahead(canon: Canonical) -> None:
    """Hash the arrays that come after this one: each is done with before a thread is there, all of them are not."""
    np = sys.modules["numpy"]
    beside: list[Any] = [
        each
        for each in canon.following(_MANY)
        if type(each) is np.ndarray and not each.dtype.hasobject and _AHEAD_BYTES <= each.nbytes <= _BOX_BYTES
        if canon.known is None or canon.known(each) is None
    ]
    size_bytes = sum(each.nbytes for each in beside)
    if size_bytes > WORTHWHILE_BYTES:
        found = shared(lambda k: _hashed(head_of(beside[k]), beside[k]).digest(length=16), len(beside), size_bytes)
        for each, digest in zip(beside, found, strict=True):
            canon.foretell(each, b"#" + digest)


def _hashed(head: bytes, value: Any) -> blake3:
    if value.nbytes <= _BOX_BYTES:
        return _add(blake3(head), value, Desk())
    boxes = [value[where] for where in _places(value)]
    return _in_boxes(head, len(boxes), boxes.__getitem__, value.nbytes)


def _in_boxes(head: bytes, number: int, box: Callable[[int], Any], size_bytes: int) -> blake3:
    desks: list[Desk] = []

    def hashed(k: int) -> bytes:
        try:
            desk = desks.pop()
        except IndexError:  # no other thread has left one
            desk = Desk()
        found = _add(blake3(), box(k), desk).digest()
        desks.append(desk)
        return found

    return joined(head, shared(hashed, number, size_bytes))


def joined(head: bytes, digests: Iterable[bytes]) -> blake3:
    """A large array, by the digests of its boxes."""
    return blake3(b"Nl" + head).update(b"".join(digests))


def _add(hasher: blake3, value: Any, desk: Desk) -> blake3:
    np = sys.modules["numpy"]
    if value.dtype.char in "efd" and value.dtype.isnative and value.flags.c_contiguous:
        # Hashed first, and looked at while it is in the cache: most have no NaN, and that is cheapest.
        before = hasher.copy()
        hasher.update(_bytes(np, value))
        usual = one_nan(np, value)
        return hasher if usual is value else before.update(_bytes(np, usual))
    for data in _content(value, desk):
        hasher.update(data)
    return hasher


def _places(value: Any) -> Iterator[tuple[slice, ...]]:
    """Where the parts of a large array are, of about ``_BOX_BYTES``, in an order that the shape alone decides."""
    sides = box_sides(value.shape, value.itemsize)
    starts = (range(0, length, side) for length, side in zip(value.shape, sides, strict=True))
    for corner in itertools.product(*starts):
        yield tuple(slice(start, start + side) for start, side in zip(corner, sides, strict=True))


def box_sides(shape: tuple[int, ...], item_bytes: int) -> list[int]:
    """The shape of a box: it has long runs along the last axis, and width along the first, so no layout is slow.

    Of a matrix both sides are of use: either may be the one along which it lies.
    """
    sides, most = [1] * len(shape), _BOX_BYTES // item_bytes
    if len(shape) == 2:
        sides = [min(length, max(1, _SIDE_BYTES // item_bytes)) for length in shape]
        while growing := [k for k in (0, 1) if sides[k] < shape[k] and math.prod(sides) * 2 <= most]:
            axis = min(growing, key=lambda k: sides[k] * (4, 1)[k])
            sides[axis] = min(shape[axis], sides[axis] * 2)
        return sides
    backwards = range(len(shape) - 1, -1, -1)
    for axes, size_bytes in ((backwards, _RUN_BYTES), (range(len(shape)), _BOX_BYTES), (backwards, _BOX_BYTES)):
        for axis in axes:
            room = size_bytes // (math.prod(sides) * item_bytes)
            sides[axis] = min(shape[axis], sides[axis] * max(1, room))
    return sides


@functools.lru_cache(maxsize=256)
def _plain_dtype(code: str) -> str:
    return repr(sys.modules["numpy"].dtype(code))


def head_of(value: Any, kind: bytes = b"") -> bytes:
    dtype = value.dtype
    plain = dtype.kind in "biufc" and dtype.metadata is None
    shown = _plain_dtype(dtype.str) if plain else repr(dtype)
    return b"Na" + kind + text(f"{shown} {value.shape}")


def _object_parts(value: Any) -> list[object]:
    if value.dtype.names is not None:
        return [value[name] for name in value.dtype.names]
    return [value.reshape(-1).tolist()]


def _scalar(value: Any, _canon: Canonical) -> bytes | Node:
    np = sys.modules["numpy"]
    return Node(b"Nv" + _name(value), [np.asarray(value)])


def _masked(value: Any, _canon: Canonical) -> bytes | Node:
    """What lies under the mask is not content."""
    np = sys.modules["numpy"]
    if value is np.ma.masked:
        return b"Nm" + text("masked")  # of which there is one, and nothing can be asked of it
    mask = np.ma.getmaskarray(value)
    return Node(b"Nm" + _name(value), [filled(np.asarray(value.data), mask), mask, np.asarray(value.fill_value)])


def filled(data: Any, mask: Any) -> object:
    """An array as it is with zeros where the mask says so; a box at a time, where it is large."""
    np = sys.modules["numpy"]
    if data.dtype.kind not in "biufcmM":
        own = np.array(data, copy=True, subok=False)
        _fill(np, own, mask)
        return own
    zero, head = np.zeros((), data.dtype)[()], head_of(data)
    if data.nbytes <= _BOX_BYTES:
        whole = _add(blake3(head), np.where(mask, zero, data), Desk())
    else:
        places = list(_places(data))
        whole = _in_boxes(head, len(places), lambda k: np.where(mask[places[k]], zero, data[places[k]]), data.nbytes)
    return Written(b"#" + whole.digest(length=16))


def _fill(np: Any, own: Any, mask: Any) -> None:
    for name in own.dtype.names or ():
        _fill(np, own[name], mask[name])
    if own.dtype.names is None:
        own[mask] = np.zeros((), own.dtype)[()]


def _content(value: Any, desk: Desk) -> Iterator[Any]:
    """The bytes of a box in C order; memory is read where it lies when it can be. Each piece holds until the next."""
    np = sys.modules["numpy"]
    if value.dtype.names is not None:  # field by field: between fields there is padding, with chance content
        for name in value.dtype.names:
            yield from _content(value[name], desk)
        return
    if value.dtype.kind == "T":  # strings of any length lie elsewhere
        yield from (text(each) for each in value.reshape(-1).tolist())
        return
    if value.dtype.char in "gG":
        value = _without_padding(np, value)
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    own = value
    if not value.flags.c_contiguous:
        desk.lay(value, own := desk.sheet(value))
    yield _bytes(np, one_nan(np, own) if value.dtype.kind in "fc" else own)


def _bytes(np: Any, value: Any) -> Any:
    """A contiguous array's memory."""
    return value.reshape(-1).view(np.uint8).data if value.size and value.dtype.itemsize else b""


def _has_nan(np: Any, flat: Any) -> bool:
    if not flat.size:
        return False
    if flat.dtype.char == "e":  # those of half the size are not compared fast; by their bits, NaNs lie above the rest
        return bool(flat.view("i2").max() > _INFINITE or flat.view("u2").max() > _INFINITE | 1 << 15)
    with np.errstate(invalid="ignore"):
        most = np.maximum.reduce(flat)
    return bool(most != most)


def one_nan(np: Any, block: Any) -> Any:
    """The contiguous block with the same bits in every NaN; the block itself, where that is so already."""
    flat = block.reshape(-1)
    flat = flat.view(flat.real.dtype) if block.dtype.kind == "c" else flat
    if not _has_nan(np, flat):
        return block
    missing = np.isnan(flat)
    bits = flat.view(f"u{flat.dtype.itemsize}")
    usual = np.array([np.nan], flat.dtype).view(bits.dtype)[0]
    if np.count_nonzero(bits == usual) == np.count_nonzero(missing):
        return block
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
