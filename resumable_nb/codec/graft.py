"""Put objects in the place of equal ones: in all that holds those, written and read once more.

The two are met in the same order on the way through equal values: what pickle asks about first, second and so on.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from resumable_nb.codec import rebuild
from resumable_nb.codec.arrays import address, writeable
from resumable_nb.codec.definitions import Definitions
from resumable_nb.codec.encoder import NOTHING_SHARED, Encoder, Shared
from resumable_nb.codec.rebuild import Decoder, Library
from resumable_nb.errors import NotSaved

Pairs = Mapping[int, tuple[Any, Any]]
"""``id()`` of an object to itself, and what comes in its place."""


def pair(definitions: Definitions, old: Any, new: Any, among: Collection[int]) -> Pairs:
    """What in two equal values stands for each other, as far as it is ``among`` these ids. Raises ``NotSaved``."""
    one, other = _Order(definitions), _Order(definitions)
    one.encode(old)
    other.encode(new)
    if [*map(type, one.met)] != [*map(type, other.met)]:
        raise NotSaved("what its body made is put together otherwise than what is there", path="")
    return {id(here): (here, there) for here, there in zip(one.met, other.met, strict=True) if id(here) in among}


class _Order(Encoder):
    """Notes what it is asked to write, in that order, and holds it: a temporary one's address is not another's then."""

    def __init__(self, definitions: Definitions) -> None:
        self.met: list[Any] = []
        super().__init__(definitions, (), NOTHING_SHARED, in_band=False)

    def persistent_id(self, thing: Any) -> None:
        self.met.append(thing)

    def reducer_override(self, thing: Any) -> Any:
        if not _is_array(thing):
            return super().reducer_override(thing)
        return list, (thing.ravel().tolist(),) if thing.dtype.hasobject else ()  # whoever its memory is


class Grafter(Encoder):
    """Leaves the objects of the ``pairs`` out of the stream."""

    def __init__(self, definitions: Definitions, shared: Shared, pairs: Pairs) -> None:
        self._pairs = pairs
        self._arrays = [each for each, _ in pairs.values() if _is_array(each)]
        super().__init__(definitions, (), shared, in_band=False)

    def persistent_id(self, thing: Any) -> int | None:
        return id(thing) if id(thing) in self._pairs else None

    def reducer_override(self, thing: Any) -> Any:
        for array in self._arrays if _is_array(thing) else ():
            low, high = _extent(thing)
            first, last = _extent(array)
            if low < last and first < high:
                new = self._pairs[id(array)][1]
                if not (first <= low and high <= last) or new.strides != array.strides:
                    raise NotSaved("it looks into memory that its body has made otherwise", path="")
                offset = address(thing) - address(array)
                if array.dtype.hasobject:
                    return rebuild.make_object_view, (array, offset, thing.shape, thing.strides, thing.dtype)
                args = (array, offset, thing.dtype, thing.shape, thing.strides, type(thing), writeable(thing))
                return rebuild.make_array, args
        return super().reducer_override(thing)


class Grafted(Decoder):
    """Finds the others in their place."""

    def __init__(
        self, stream: bytes, buffers: Sequence[Any], live: dict[str, Any], library: Library, pairs: Pairs
    ) -> None:
        super().__init__(stream, buffers, live, library)
        self._pairs = pairs

    def persistent_load(self, key: int) -> Any:
        return self._pairs[key][1]


def _is_array(thing: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(thing, numpy.ndarray)


def _extent(array: Any) -> tuple[int, int]:
    reach = [(length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True)]
    low = address(array) + sum(each for each in reach if each < 0)
    return low, low + sum(map(abs, reach)) + array.itemsize if array.size else low
