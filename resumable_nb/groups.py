"""Which variables share mutable objects? They are saved together, so that two names for one list stay one list.

Everything that each variable holds is walked with ``gc.get_referents``. Arrays, which the collector does not see into,
share where their address ranges overlap. pandas objects are an island: since copy-on-write two frames over one memory
are two values, and must never be restored over one.
"""

from __future__ import annotations

import contextvars
import datetime
import decimal
import enum
import fractions
import functools
import gc
import logging
import pathlib
import re
import sys
import types
import uuid
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

ATOMS: Final = frozenset(
    {type(None), bool, int, float, complex, str, bytes, range, slice, type(...), type(NotImplemented)}
    | {datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone}
    | {decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern, pathlib.PosixPath, pathlib.PurePosixPath}
    | {types.CodeType, types.ModuleType, types.GenericAlias, types.UnionType}
    | {types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType}
    | {types.MemberDescriptorType, types.ClassMethodDescriptorType, types.FrameType, types.TracebackType}
    | {logging.RootLogger, logging.Logger}
)
"""Types whose objects cannot change, or are found again by name: nothing is shared through them."""

_TRANSPARENT: Final = frozenset(
    {tuple, frozenset, types.MappingProxyType, types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType}
)
"""Two names for one such object share what is in it, not the object."""

_FOREIGN: Final = ("IPython", "ipykernel", "resumable_nb", "traitlets")
"""The machinery round the notebook holds the namespace itself: nothing of it is anybody's variable."""


Written = Literal["imported", "named", "held"]
"""How a stream writes a function or class: as a module's attribute, as the name of a definition, or by value."""


_Verdict = enum.Enum("_Verdict", "STOP PLAIN TRANSPARENT DEFINITION ENUM ARRAY TENSOR WEAK PANDAS VARIABLE REFERENCE")


@dataclass(slots=True)
class Holding:
    """What one variable holds: mutable objects by ``id()``, arrays, and functions and classes that go by name."""

    nodes: dict[int, object] = field(default_factory=dict)
    arrays: list[Any] = field(default_factory=list)
    island: list[Any] = field(default_factory=list)
    """Arrays inside pandas objects."""
    definitions: dict[int, Any] = field(default_factory=dict)
    owned: set[int] = field(default_factory=set)
    """Classes inside a class that is the variable's own value."""

    @property
    def size_bytes(self) -> int:
        """A guess at how much there is to write."""
        return 64 * len(self.nodes) + sum(int(each.nbytes) for each in (*self.arrays, *self.island))


def is_atom(value: object) -> bool:
    """Whether the value is immutable and shares nothing: it changes only by being replaced."""
    return _verdict(type(value)) is _Verdict.STOP


class Survey:
    """What a set of variables holds, and which of them share. A value that is an atom is in no group.

    ``kind_of(thing)`` says of a function or class how streams write it.
    """

    def __init__(
        self, values: Mapping[str, object], kind_of: Callable[[object], Written], live: Mapping[str, object]
    ) -> None:
        self._kind_of = kind_of
        self._kinds: dict[int, Written] = {}
        self._live = id(live)
        self._labels = {id(value) for value in values.values() if _is_index(value)}
        """Indexes that are variables themselves: a frame may have one, too."""
        self.holdings = {name: self._walk(value) for name, value in values.items() if not is_atom(value)}
        self.groups = self._partition(islands=False)
        self.near = self._partition(islands=True)
        """As ``groups``, with pandas objects joined to the arrays whose memory they use."""

    def group_of(self, name: str) -> frozenset[str]:
        return self.groups.get(name, frozenset((name,)))

    def extended(self, names: Collection[str]) -> frozenset[str]:
        """``names``, and all that share with them, through pandas objects too."""
        return frozenset().union(names, *(self.near[name] for name in names if name in self.near))

    def shared_memory(self, names: Iterable[str]) -> tuple[dict[int, tuple[int, int]], dict[int, Any]]:
        """The arrays of a group that overlap: ``id()`` to the address range that they look into together.

        The second mapping is for arrays of objects: ``id()`` of a view to the array that owns its elements.
        """
        arrays = {id(each): each for name in names if name in self.holdings for each in self.holdings[name].arrays}
        flat = [each for each in arrays.values() if not each.dtype.hasobject and _can_be_view(each)]
        memory: dict[int, tuple[int, int]] = {}
        for cluster in _clusters([(*bounds, each) for each in flat if (bounds := extent(each))]):
            if len(cluster) > 1:
                low, high = min(each[0] for each in cluster), max(each[1] for each in cluster)
                memory |= {id(each[2]): (low, high) for each in cluster}
        owners: dict[int, list[Any]] = {}
        for each in arrays.values():
            if each.dtype.hasobject:
                owners.setdefault(id(_root(each)), []).append(each)
        roots = {id(each): _root(each) for family in owners.values() if len(family) > 1 for each in family}
        return memory, roots

    # --- walking

    def _walk(self, value: object) -> Holding:
        found = Holding()
        seen: set[int] = {id(value)}
        frontier: list[Any] = [value]
        top = True
        while frontier:
            children: list[Any] = []
            plain: list[Any] = []
            for thing in frontier:
                match _verdict(type(thing)):
                    case _Verdict.PLAIN:
                        found.nodes[id(thing)] = thing
                        plain.append(thing)
                    case _Verdict.TRANSPARENT:
                        plain.append(thing)
                    case _Verdict.DEFINITION:
                        children += self._definition(thing, found, top=top)
                    case _Verdict.ARRAY:
                        found.nodes[id(thing)] = thing
                        found.arrays.append(thing)
                        children += _array_children(thing)
                    case _Verdict.WEAK:
                        found.nodes[id(thing)] = thing
                        plain.append(thing)
                        children += thing.values() if isinstance(thing, weakref.WeakValueDictionary) else thing
                    case _Verdict.TENSOR:
                        found.nodes[id(thing)] = thing
                        found.arrays += _memory_of(thing)
                        children += [thing.grad if thing.is_leaf else None, *vars(thing).values()]
                    case _Verdict.PANDAS:
                        found.nodes[id(thing)] = thing
                        children += _pandas_children(thing, found.island)
                        axes = getattr(getattr(thing, "_mgr", None), "axes", ())
                        children += [each for each in axes if id(each) in self._labels]
                    case _Verdict.ENUM:
                        children.append(type(thing))
                    case _Verdict.REFERENCE:
                        target = thing()
                        # Libraries tie much together in this way that nobody sees.
                        if top or type(target).__module__ == "__main__":
                            children.append(target)
                    case _Verdict.VARIABLE:
                        found.nodes[id(thing)] = thing
                        children.append(contextvars.copy_context().get(thing))
                    case _Verdict.STOP:
                        pass
            children += gc.get_referents(*plain)
            frontier = self._new(children, seen)
            top = False
        return found

    def _new(self, children: list[Any], seen: set[int]) -> list[Any]:
        fresh: list[Any] = []
        for child in children:
            if type(child) not in ATOMS and id(child) not in seen and id(child) != self._live:
                seen.add(id(child))
                if _verdict(type(child)) is not _Verdict.STOP:
                    fresh.append(child)
        return fresh

    def _definition(self, thing: Any, found: Holding, *, top: bool) -> list[Any]:
        """Functions and classes: those that go by name are noted, the others are objects like any other.

        A class that is a variable's own value is saved with its state.
        """
        if id(thing) not in self._kinds:
            self._kinds[id(thing)] = self._kind_of(thing)
        written = self._kinds[id(thing)]
        if written == "imported":
            return []
        found.definitions[id(thing)] = thing
        if written == "named" and not (isinstance(thing, type) and (top or id(thing) in found.owned)):
            return []
        found.nodes[id(thing)] = thing
        if isinstance(thing, type):
            inner = [each for each in vars(thing).values() if isinstance(each, type)]
            found.owned |= {id(each) for each in inner if each.__qualname__.startswith(f"{thing.__qualname__}.")}
            members = (value for name, value in vars(thing).items() if name != "__dict__")
            return [type(thing), *thing.__bases__, *members]
        if isinstance(thing, types.FunctionType):
            parts = (thing.__closure__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__ or None)
            return [part for part in parts if part is not None]
        return [thing.__wrapped__, vars(thing)]

    # --- joining

    def _partition(self, *, islands: bool) -> dict[str, frozenset[str]]:
        parent = {name: name for name in self.holdings}

        def find(name: str) -> str:
            while parent[name] != name:
                parent[name] = name = parent[parent[name]]
            return name

        owner: dict[int, str] = {}
        for name, holding in self.holdings.items():
            for common in holding.nodes.keys() & owner.keys():
                parent[find(owner[common])] = find(name)
            owner.update(dict.fromkeys(holding.nodes, name))
        spans = [
            (*bounds, name)
            for name, holding in self.holdings.items()
            for each in ((*holding.arrays, *holding.island) if islands else holding.arrays)
            if (bounds := extent(each))
        ]
        for cluster in _clusters(spans):
            for _, _, name in cluster[1:]:
                parent[find(name)] = find(cluster[0][2])
        members: dict[str, list[str]] = {}
        for name in parent:
            members.setdefault(find(name), []).append(name)
        return {name: group for names in members.values() for group in [frozenset(names)] for name in names}


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


def _clusters(spans: list[tuple[int, int, Any]]) -> Iterator[list[tuple[int, int, Any]]]:
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


_verdicts: dict[type, _Verdict] = dict.fromkeys(ATOMS, _Verdict.STOP)


def _verdict(kind: type) -> _Verdict:
    try:
        return _verdicts[kind]
    except KeyError:
        if len(_verdicts) > 100_000:  # a notebook that makes classes in a loop
            _verdicts.clear()
        found = _verdicts[kind] = _judge(kind)
        return found


def _judge(kind: type) -> _Verdict:
    numpy, pandas, torch = (sys.modules.get(name) for name in ("numpy", "pandas", "torch"))
    if kind in ATOMS or str(kind.__module__).partition(".")[0] in _FOREIGN:
        return _Verdict.STOP
    if issubclass(kind, type | types.FunctionType | type(functools.lru_cache(lambda: None))):
        return _Verdict.DEFINITION
    if issubclass(kind, enum.Enum):
        return _Verdict.ENUM
    if issubclass(kind, weakref.WeakValueDictionary | weakref.WeakKeyDictionary | weakref.WeakSet):
        return _Verdict.WEAK
    if kind in _TRANSPARENT:
        return _Verdict.TRANSPARENT
    if kind is weakref.ref:
        return _Verdict.REFERENCE
    if kind is contextvars.ContextVar:
        return _Verdict.VARIABLE
    if numpy is not None:
        if issubclass(kind, numpy.ndarray):
            return _Verdict.ARRAY
        if issubclass(kind, numpy.generic | numpy.dtype | numpy.ufunc):
            return _Verdict.STOP
    if torch is not None and hasattr(torch, "Tensor") and issubclass(kind, torch.Tensor):
        return _Verdict.TENSOR
    if pandas is not None:
        if kind in (type(pandas.NaT), type(pandas.NA), pandas.Timestamp, pandas.Timedelta):
            return _Verdict.STOP
        if issubclass(kind, pandas.DataFrame | pandas.Series | pandas.Index | pandas.api.extensions.ExtensionArray):
            return _Verdict.PANDAS
    return _Verdict.PLAIN


def _root(array: Any) -> Any:
    """The array at the end of the chain of bases."""
    while type(array.base) is type(array) or hasattr(array.base, "__array_interface__"):
        array = array.base
    return array


def _can_be_view(array: Any) -> bool:
    numpy = sys.modules["numpy"]
    return type(array).__reduce__ is numpy.ndarray.__reduce__ and not getattr(array, "__dict__", None)


class _Storage:
    """The memory that a tensor looks into, for numpy."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        memory = tensor.untyped_storage()
        at, size = memory.data_ptr(), memory.nbytes()
        self.__array_interface__ = {"data": (at, False), "shape": (size,), "typestr": "|u1", "version": 3}


def _memory_of(tensor: Any) -> list[Any]:
    torch, numpy = sys.modules["torch"], sys.modules["numpy"]
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or not tensor.untyped_storage().nbytes():
        return []
    return [numpy.asarray(_Storage(tensor))]


def _array_children(array: Any) -> list[Any]:
    children = gc.get_referents(array) if type(array) is not sys.modules["numpy"].ndarray else []
    base = _root(array).base
    if base is not None and not hasattr(base, "__array_interface__"):
        children.append(base)  # a bytearray, a map
    if array.dtype.hasobject:
        root = _root(array)
        if root is not array:
            children.append(root)
        children += _elements(array)
    return children


def _elements(array: Any) -> list[Any]:
    if array.dtype.names is None:
        return array.ravel().tolist() if array.dtype.kind == "O" else []
    return [each for name in array.dtype.names if array.dtype[name].hasobject for each in _elements(array[name])]


def _pandas_children(thing: Any, island: list[Any]) -> list[Any]:
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


def _is_index(value: object) -> bool:
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
