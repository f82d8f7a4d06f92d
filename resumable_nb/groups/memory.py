"""Arrays and what holds them: address ranges, which of them overlap, and what lies in their elements."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any, Final


def extent(array: Any) -> tuple[int, int] | None:
    """First address of the array's elements, and the one after the last; None where it has none."""
    low = high = int(array.__array_interface__["data"][0])
    for length, stride in zip(array.shape, array.strides, strict=True):
        if length == 0:
            return None
        if stride > 0:
            high += (length - 1) * stride
        else:
            low += (length - 1) * stride
    return (low, high + array.itemsize) if array.itemsize else None


def clusters(spans: list[tuple[int, int, Any]]) -> Iterator[list[tuple[int, int, Any]]]:
    """Runs of overlapping address ranges."""
    cluster: list[tuple[int, int, Any]] = []
    end = 0
    for span in sorted(spans, key=lambda each: each[:2]):
        if cluster and span[0] >= end:
            yield cluster
            cluster = []
        end = max(end, span[1]) if cluster else span[1]
        cluster.append(span)
    if cluster:
        yield cluster


def root(array: Any) -> Any:
    """The array at the end of the chain of bases; what lends a tensor's memory to it is none."""
    while hasattr(array.base, "__array_interface__") and hasattr(array.base, "base"):
        array = array.base
    return array


def can_be_view(array: Any) -> bool:
    numpy = sys.modules["numpy"]
    return type(array).__reduce__ is numpy.ndarray.__reduce__ and not getattr(array, "__dict__", None)


class _Storage:
    """The memory that a tensor looks into, for numpy."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        memory = tensor.untyped_storage()
        at, size = memory.data_ptr(), memory.nbytes()
        self.__array_interface__ = {"data": (at, False), "shape": (size,), "typestr": "|u1", "version": 3}


def memory_of(tensor: Any) -> list[Any]:
    torch, numpy = sys.modules["torch"], sys.modules["numpy"]
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or not tensor.untyped_storage().nbytes():
        return []
    return [numpy.asarray(_Storage(tensor))]


def array_children(array: Any) -> list[Any]:
    children = gc.get_referents(array) if type(array) is not sys.modules["numpy"].ndarray else []
    base = root(array).base
    if base is not None and not hasattr(base, "__array_interface__"):
        children.append(base)  # a bytearray, a map
    if array.dtype.hasobject:
        end = root(array)
        if end is not array:
            children.append(end)
        children += _elements(array)
    return children


def _elements(array: Any) -> list[Any]:
    if array.dtype.names is None:
        return array.ravel().tolist() if array.dtype.kind == "O" else []
    return [each for name in array.dtype.names if array.dtype[name].hasobject for each in _elements(array[name])]


def pandas_children(thing: Any, island: list[Any]) -> list[Any]:
    """The mutable objects that a user put in: elements of object columns, ``attrs``, own attributes."""
    children: list[Any] = []
    manager = getattr(thing, "_mgr", None)
    if manager is not None:
        arrays = [block.values for block in manager.blocks]
    elif isinstance(thing, sys.modules["pandas"].Index):  # its name can change; a range has no array until asked
        arrays = [own for own in [thing.__dict__.get("_data")] if own is not None]
    else:
        arrays = [thing]
    for values in arrays:
        for part in _flat_arrays(values):
            island.append(part)
            if part.dtype.hasobject:
                children += _elements(part)
    own = {name: value for name, value in getattr(thing, "__dict__", {}).items() if name not in _PANDAS_OWN}
    children += own.values()
    if getattr(thing, "_attrs", None):
        children.append(thing._attrs)
    return children


def is_index(value: object) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, getattr(pandas, "Index", ()))


_PANDAS_OWN: Final = frozenset(("_mgr", "_item_cache", "_attrs", "_flags", "_name", "_cacher", "_hasna", "_dtype"))


def _flat_arrays(values: Any) -> list[Any]:
    """The numpy arrays under a block's values."""
    if isinstance(values, sys.modules["numpy"].ndarray):
        return [values]
    parts = (
        getattr(values, name, None) for name in ("_ndarray", "_data", "_mask", "_left", "_right", "_sparse_values")
    )
    return [part for part in parts if isinstance(part, sys.modules["numpy"].ndarray)]
