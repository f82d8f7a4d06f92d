"""The writing half: one pickle stream, large buffers beside it, and no silent loss."""

from __future__ import annotations

import enum
import io
import operator
import pickle
import sys
import types
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import cloudpickle

from resumable_nb.attributes import registered_with, told
from resumable_nb.canonical import ENROLLED, is_enrolled, module_named
from resumable_nb.codec import enums, graphs, rebuild
from resumable_nb.codec.arrays import address, bytearray_under, content_of, goes_out, map_under, reduce_map, writeable
from resumable_nb.codec.classes import layout, own_state
from resumable_nb.codec.definitions import CachedFunction, Definitions, importable, is_filled, reduced_function
from resumable_nb.codec.special import Reduced, bare, makes_itself, special
from resumable_nb.codec.tensors import in_memory, keeping_gradients, reduce_tensor, tensor_type

OUT_OF_BAND_BYTES: Final = 64 << 10
"""Buffers from this size on stay out of the stream."""

LONG_ROW_BYTES: Final = 1 << 20
"""Rows of a 2-D block from this size on are chunked one by one, so that a changed column changes its chunks only."""

Handler = Callable[[Any, Any], Reduced]


@dataclass(frozen=True, slots=True)
class OutOfBand:
    """A large buffer: its bytes, how long a row is, and whether its owner was read-only."""

    raw: memoryview
    row_bytes: int
    readonly: bool


@dataclass(frozen=True, slots=True)
class Encoded:
    """``refs`` are the definitions that the stream names: ``name@digest`` to the function or class.

    ``kinds`` are the types of all objects that were not written by the pickler's own fast ways. ``mapped`` is what is
    in files that are written by their paths only: it is compared, and not saved.
    """

    stream: bytes
    buffers: tuple[OutOfBand, ...]
    refs: dict[str, object]
    kinds: frozenset[type]
    mapped: tuple[memoryview, ...] = ()


@dataclass(frozen=True, slots=True)
class Shared:
    """Which arrays of a value look into the same memory: ``id()`` of the array to the memory's address range.

    ``roots`` is the same for arrays of objects: to the array that owns the elements.
    """

    memory: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    roots: Mapping[int, Any] = field(default_factory=dict)


NOTHING_SHARED: Final = Shared()


class _Memory:
    """Address range that several arrays look into; pickled once.

    Seen as an array of bytes: a ctypes array's shape lies in its type, which the garbage collector may take first.
    """

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.__array_interface__ = {"data": (low, False), "shape": (high - low,), "typestr": "|u1", "version": 3}

    def __reduce__(self) -> Reduced:
        return rebuild.make_memory, (pickle.PickleBuffer(sys.modules["numpy"].asarray(self)),)


class _Buffers:
    """Takes the large buffers out of the stream."""

    def __init__(self) -> None:
        self.taken: list[OutOfBand] = []

    def __call__(self, buffer: pickle.PickleBuffer) -> bool:
        view = memoryview(buffer)
        if view.nbytes < OUT_OF_BAND_BYTES:
            return True
        row = view.nbytes
        if view.ndim == 2 and view.c_contiguous and view.shape and view.shape[0] > 1:
            each = view.nbytes // view.shape[0]
            row = each if each >= LONG_ROW_BYTES else row
        self.taken.append(OutOfBand(buffer.raw(), row, view.readonly))
        return False


class _Reducer:
    """How objects are reduced, for a pickler. What ``own`` has is held by value even where it could be named."""

    def __init__(self, definitions: Definitions, own: Collection[object], shared: Shared, *, in_band: bool) -> None:
        self._target = io.BytesIO()
        self._buffers = _Buffers()
        # A callback of its own: one bound to this object would be a cycle that keeps all that was pickled alive.
        self._begin(self._target, None if in_band else self._buffers)
        self.refs: dict[str, object] = {}
        self.kinds: set[type] = set()
        self._mapped: list[memoryview] = []
        self._definitions = definitions
        self._own = {id(each) for thing in own for each in self._owned(thing)}
        self._shared = shared
        self._memories: dict[tuple[int, int], _Memory] = {}
        self._cells: dict[int, types.CellType] = {}
        self._sources: dict[str, tuple[str, str] | None] = {}
        self._met: set[int] = set()

    def _owned(self, thing: object) -> list[Any]:
        return [*self._definitions.owned(thing)] if isinstance(thing, type) else [thing]

    def _begin(self, target: io.BytesIO, callback: _Buffers | None) -> None:
        raise NotImplementedError

    def _write(self, value: Any) -> None:
        raise NotImplementedError

    def encode(self, value: Any) -> Encoded:
        self._variables = {*map(id, value.values())} if type(value) is dict else set()
        self._keeping = keeping_gradients(value)
        self._write(value)
        taken = tuple(self._buffers.taken)
        return Encoded(self._target.getvalue(), taken, self.refs, frozenset(self.kinds), tuple(self._mapped))

    def reducer_override(self, thing: Any) -> Reduced:
        kind = type(thing)
        self.kinds.add(kind)
        self._met.add(id(thing))
        if kind is types.FunctionType or issubclass(kind, type):
            module_named(told(thing, "__module__"))  # cloudpickle asks those alone that are loaded
            return self._function(thing) if kind is types.FunctionType else self._class(thing)
        handler = _handler(kind)
        if handler is not None:
            return handler(self, thing)
        return bare(thing) if makes_itself(kind) else NotImplemented

    # --- functions and classes

    def _reference(self, thing: object) -> tuple[tuple[str, str] | tuple[()], bool]:
        """The key of a definition (empty: it has none), and whether the stream is to hold it all the same."""
        key = self._definitions.reference(thing)
        if key is None:
            return (), True
        if id(thing) in self._own:
            return key, True
        self.refs["@".join(key)] = thing
        return key, False

    def _function(self, function: types.FunctionType) -> Reduced:
        usual = reduced_function(self, function)
        if usual is NotImplemented:
            return usual
        if where := importable(function):  # in a way that pickle does not go
            return rebuild.make_imported, (where,)
        key, held = self._reference(function)
        if not held:
            return rebuild.make_reference, key
        module = self._definitions.globals_of(function)
        if module is None:
            return usual
        cells = function.__closure__ or ()
        self._cells.update((id(cell), cell) for cell in cells)
        state = {
            "cells": [(cell, cell.cell_contents) for cell in cells if is_filled(cell)],
            "dict": dict(function.__dict__),
            "source": self._source(function.__code__),
            "modules": [each.__name__ for each in usual[2][1]["_cloudpickle_submodules"]],
            "__defaults__": function.__defaults__,
            "__kwdefaults__": function.__kwdefaults__,
            "__qualname__": function.__qualname__,
            "__module__": function.__module__,
            "__doc__": function.__doc__,
            "__annotations__": function.__annotations__,
        }
        if sys.version_info >= (3, 12):
            state["__type_params__"] = function.__type_params__
        args = (key, function.__code__, module, function.__name__, function.__closure__)
        return rebuild.make_function, args, state, None, None, rebuild.set_function

    def _source(self, code: types.CodeType) -> tuple[str, str] | None:
        if code.co_filename not in self._sources:  # one tuple a file: the stream then holds the text once
            self._sources[code.co_filename] = rebuild.source_of(code)
        return self._sources[code.co_filename]

    def _class(self, kind: type) -> Reduced:
        if enums.goes_by_name(kind):
            key, held = self._reference(kind)
            if not held:
                return rebuild.make_reference, key
            args, state = enums.taken_apart(kind)
            how = enums.set_enum, state
            return rebuild.make_class, (key, enums.make_enum, *args), how, None, None, rebuild.set_class
        usual = cloudpickle.Pickler.reducer_override(self, kind)
        if usual is NotImplemented or len(usual) < 6:
            return usual
        made_of = vars(kind).get("__pydantic_generic_metadata__") or {}
        if (origin := made_of.get("origin")) is not None:  # Box[int]: pydantic keeps one class for each argument
            return operator.getitem, (origin, made_of["args"])
        key, held = self._reference(kind)
        if not held:
            return rebuild.make_reference, key
        if is_enrolled(kind):
            raise pickle.PicklingError(f"{kind.__qualname__} is a class {ENROLLED}")
        make, args, state, _, _, setter = usual
        state = (own_state(kind, state[0]), *state[1:])
        if issubclass(kind, enum.Enum):
            # cloudpickle's tracker finds the living class by a number: here that would overwrite its attributes.
            args = (*args[:-2], None, None)
        else:
            make, args = rebuild.make_skeleton, (*args[:3], args[3] | layout(kind, state[0]))
        how = (setter, state, *filter(importable, registered_with(kind)))
        return rebuild.make_class, (key, make, *args), how, None, None, rebuild.set_class

    def _cell(self, cell: types.CellType) -> Reduced:
        # The functions that close over it fill it: inside a function's arguments a cycle could not be written.
        return (rebuild.make_cell, ()) if id(cell) in self._cells else NotImplemented

    def _cached(self, function: Any) -> Reduced:
        if where := importable(function):
            return rebuild.make_imported, (where,)
        key, held = self._reference(function)
        if not held:
            return rebuild.make_reference, key
        state = {name: value for name, value in vars(function).items() if name != "__wrapped__"}
        return rebuild.make_cached, (function.__wrapped__, function.cache_parameters()), state

    def _weak(self, reference: weakref.ref[Any]) -> Reduced:
        """To what stands in the stream on its own, and lives on when it is read."""
        met = reference.__callback__ is None and id(reference()) in self._met
        return (weakref.ref, (reference(),)) if met else NotImplemented

    # --- arrays

    def _array(self, array: Any) -> Reduced:
        """With the attributes of a subclass, which numpy itself would not keep."""
        reduced, own = self._bare_array(array), getattr(array, "__dict__", None)
        if not own or type(array).__reduce__ is not sys.modules["numpy"].ndarray.__reduce__:
            return reduced
        if reduced is not NotImplemented:
            return *reduced, own, None, None, rebuild.set_attributes
        make, args, state = array.__reduce__()
        return make, args, (state, own), None, None, rebuild.set_array

    def _bare_array(self, array: Any) -> Reduced:
        numpy = sys.modules["numpy"]
        if (root := self._shared.roots.get(id(array))) is not None and root is not array:
            offset = address(array) - address(root)
            other = () if array.dtype == root.dtype else (array.dtype,)
            return rebuild.make_object_view, (root, offset, array.shape, array.strides, *other)
        if (owner := bytearray_under(array)) is not None:
            offset = address(array) - address(numpy.frombuffer(owner, "u1"))
            return rebuild.make_array, (
                owner, offset, array.dtype, array.shape, array.strides, type(array), writeable(array),
            )  # fmt: skip
        if extent := self._shared.memory.get(id(array)):
            memory = self._memory(extent)
            offset = address(array) - memory.low
            return rebuild.make_array, (
                memory, offset, array.dtype, array.shape, array.strides, type(array), writeable(array),
            )  # fmt: skip
        if not writeable(array) and type(array) is numpy.ndarray and not goes_out(array):
            copy = array.copy(order="K")
            return rebuild.make_readonly, (copy,)
        return NotImplemented

    def _memory(self, extent: tuple[int, int]) -> _Memory:
        if extent not in self._memories:
            self._memories[extent] = _Memory(*extent)
        return self._memories[extent]

    def _row(self, row: Any) -> Reduced:
        """An element of a structured array, which it shares its memory with."""
        base = row.base
        if base is None or (base.nbytes > LONG_ROW_BYTES and id(base) not in self._variables):
            return NotImplemented  # nobody else has it
        return rebuild.make_row, (base, address(row) - address(base), row.dtype)

    def _tensor(self, tensor: Any) -> Reduced:
        if not in_memory(tensor):
            return NotImplemented
        at = tensor.data_ptr()
        found = [extent for extent in {*self._shared.memory.values()} if extent[0] <= at < extent[1]]
        memory, low = (self._memory(found[0]), found[0][0]) if found else (None, 0)
        reduced = reduce_tensor(tensor, memory, low, self._keeping)
        self.kinds |= {graphs.Linked} if reduced[0] is graphs.make_linked else set()
        return reduced

    def _memmap(self, array: Any) -> Reduced:
        base = map_under(array)
        if base is None:
            return self._array(array)
        if base is not array:
            offset = address(array) - address(base)
            return rebuild.make_array, (
                base, offset, array.dtype, array.shape, array.strides, type(array), writeable(array),
            )  # fmt: skip
        self._mapped.append(content_of(base))
        return reduce_map(base)


class Encoder(_Reducer, cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Writes one stream."""

    def _begin(self, target: io.BytesIO, callback: _Buffers | None) -> None:
        cloudpickle.Pickler.__init__(self, target, protocol=5, buffer_callback=callback)

    def _write(self, value: Any) -> None:
        # Not cloudpickle's own dump, which hides a RecursionError: the codec has a deeper stack for it.
        pickle.Pickler.dump(self, value)


class DeepEncoder(_Reducer, pickle._Pickler):
    """The same in Python: slow, but not bound to the C stack, whose depth is fixed from Python 3.12 on."""

    dispatch_table = cloudpickle.Pickler.dispatch_table

    def _begin(self, target: io.BytesIO, callback: _Buffers | None) -> None:
        pickle._Pickler.__init__(self, target, 5, buffer_callback=callback)
        self.globals_ref: dict[int, dict[str, Any]] = {}

    def _write(self, value: Any) -> None:
        pickle._Pickler.dump(self, value)

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """As inherited, with a call that Python makes without its C stack: ``f(*args)`` would use it."""
        if id(obj) in self.memo or type(obj) in self.dispatch:
            super().save(obj, save_persistent_id)  # type: ignore[misc]  # typeshed does not know it
            return
        self.framer.commit_frame()
        reduced = self.reducer_override(obj)
        if reduced is NotImplemented:
            if issubclass(type(obj), type):
                self.save_global(obj)
                return
            reducer = self.dispatch_table.get(type(obj))
            reduced = obj.__reduce_ex__(5) if reducer is None else reducer(obj)
        if isinstance(reduced, str):
            self.save_global(obj, reduced)
            return
        function, args, state, items, pairs, setter = list(reduced) + [None] * (6 - len(reduced))
        self.save_reduce(function, args, state, items, pairs, setter, obj=obj)

    def __getattr__(self, name: str) -> Any:
        """cloudpickle's own methods, which need no more than these attributes."""
        return types.MethodType(getattr(cloudpickle.Pickler, name), self)


_METHODS: Final[dict[type, Handler]] = {
    types.CellType: _Reducer._cell,
    CachedFunction: _Reducer._cached,
    weakref.ref: _Reducer._weak,
}
_handlers: dict[type, Handler | None] = {}


def _handler(kind: type) -> Handler | None:
    """How objects of this type are reduced; None: in the usual way."""
    try:
        return _handlers[kind]
    except KeyError:
        if len(_handlers) > 10_000:  # a notebook that makes classes in a loop
            _handlers.clear()
        found = _handlers[kind] = _METHODS.get(kind) or _array_handler(kind) or _plain_handler(kind)
        return found


def _array_handler(kind: type) -> Handler | None:
    numpy = sys.modules.get("numpy")
    if tensor_type(kind):
        return _Reducer._tensor
    if numpy is None or not issubclass(kind, numpy.ndarray):
        return _Reducer._row if numpy is not None and issubclass(kind, numpy.void) else None
    return _Reducer._memmap if issubclass(kind, numpy.memmap) else _Reducer._array


def _plain_handler(kind: type) -> Handler | None:
    reduce = special(kind)
    return None if reduce is None else lambda _, thing: reduce(thing)
