"""The reading half: what the streams call to make functions, classes and views again.

A stream names the functions of this module; ``Decoder.find_class`` answers with its own methods where they need to know
the live namespace. The names are part of the format: streams in stores hold them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import linecache
import operator
import os
import pickle
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from resumable_nb.codec import living
from resumable_nb.codec.definitions import APART
from resumable_nb.codec.endings import has_ending
from resumable_nb.errors import NotSaved
from resumable_nb.model import MISSING, digest


class Library(Protocol):
    """What a stream's names of functions and classes mean."""

    @property
    def trial(self) -> bool:
        """The stream is read to see whether it can be: nothing living may change."""

    def resolve(self, name: str, digest: str) -> Any:
        """The function or class, or ``MISSING``."""

    def adopt(self, name: str, digest: str) -> Any:
        """The living class that a held one continues, or ``MISSING``."""

    def goes_on(self, name: str, /) -> Any:
        """The class that had the name until now, though it does something else, or ``MISSING``."""

    def register(self, name: str, digest: str, thing: Any) -> None:
        """A held function or class exists now, still empty: names of it in its own content lead to it."""


_OWN: Final = __name__


class Decoder(pickle.Unpickler):
    """Reads one stream, once."""

    def __init__(
        self,
        stream: bytes | memoryview,
        buffers: Sequence[Any],
        live: dict[str, Any],
        library: Library,
        beside: Mapping[str, Any] = {},
    ) -> None:
        super().__init__(io.BytesIO(stream), buffers=buffers)
        self._live = live
        self.library = library
        self._beside = beside
        """Classes of the stream that later ones have taken the place of: those, or ``MISSING``: others."""
        self._adopted: set[int] = set()
        self._settled: set[int] = set()
        self.has_endings = False
        """An object of a class with a ``__del__`` may be in there."""
        self.met: dict[int, Any] = {}
        """Classes and functions of others that the stream names."""

    def find_class(self, module: str, name: str) -> Any:
        if module == _OWN and name in _BOUND:
            return getattr(self, name)
        found = super().find_class(module, name)
        self.has_endings |= has_ending(found)
        if callable(found):
            self.met[id(found)] = found
        return found

    def make_reference(self, name: str, mark: str) -> Any:
        found = self.library.resolve(name, mark)
        if found is MISSING:
            raise NotSaved(f"the definition of {name} is not in the store", name=name)
        self.has_endings |= has_ending(found)
        self.met[id(found)] = found
        return found

    def make_function(
        self,
        key: tuple[str, str],
        code: types.CodeType,
        module: str,
        name: str,
        cells: tuple[types.CellType, ...] | None,
    ) -> types.FunctionType:
        space = vars(importlib.import_module(module)) if module else self._live
        function = types.FunctionType(code, space, name, None, cells)
        if key:
            self.library.register(*key, function)
        return function

    def make_class(self, key: tuple[str, str], make: Callable[..., type], *args: Any) -> type:
        if key and key[0].partition(".")[0] in self._beside:
            return self._make_beside(key[0], make, *args)
        found = self.library.adopt(*key) if key else MISSING
        goes_on = key and found is MISSING and not key[1].startswith(APART)
        if goes_on and living.may_go_on(former := self.library.goes_on(key[0]), *args):
            found = former
        if isinstance(found, type):
            self._adopted.add(id(found))
            self.met[id(found)] = found
            return found
        kind = make(*args)
        self.met[id(kind)] = kind
        if key:
            self.library.register(*key, kind)
        return kind

    def _make_beside(self, path: str, make: Callable[..., type], *args: Any) -> type:
        first, *rest = path.split(".")
        found = self._beside[first]
        for part in rest:
            found = vars(found).get(part, MISSING) if isinstance(found, type) else MISSING
        kind: type = found if isinstance(found, type) else make(*args)
        if kind is found:
            self._settled.add(id(kind))
        self.met[id(kind)] = kind
        return kind

    def set_class(self, kind: type, how: tuple[Any, ...]) -> None:
        setter, state, *abstract = how
        if id(kind) in self._settled:
            return
        if id(kind) not in self._adopted:
            setter(kind, state)
        elif not self.library.trial:
            living.go_on(kind, setter, state)
        if not self.library.trial:
            living.register_with(kind, abstract)


_BOUND: Final = frozenset({"make_reference", "make_function", "make_class", "set_class"})


def make_reference(*_: Any) -> Any:
    raise _foreign()


def make_function(*_: Any) -> Any:
    raise _foreign()


def make_class(*_: Any) -> Any:
    raise _foreign()


def set_class(*_: Any) -> None:
    raise _foreign()


def _foreign() -> pickle.UnpicklingError:
    return pickle.UnpicklingError("this stream can be read by resumable_nb.codec.Codec only")


def make_skeleton(meta: type, name: str, bases: tuple[Any, ...], namespace: dict[str, Any]) -> type:
    """A class without its attributes. Hooks of the notebook's own classes do not run: what they did is in the state."""
    real = types.resolve_bases(bases)
    space = dict(namespace)
    if real is not bases:
        space["__orig_bases__"] = bases
    elif meta.__name__ == "_TypedDictMeta":  # made by a call: it says ``dict``, and takes none itself
        real = tuple(each for each in real if each is not dict)
    maker = next(each for each in meta.__mro__ if not _is_own(each))
    quiet = [each for base in real for each in base.__mro__ if _is_own(each) and "__init_subclass__" in vars(each)]
    hooks = {each: vars(each)["__init_subclass__"] for each in quiet}
    for each in hooks:
        type.__setattr__(each, "__init_subclass__", classmethod(_no_hook))
    try:
        return maker.__new__(meta, name, real, space)
    finally:
        for each, hook in hooks.items():
            type.__setattr__(each, "__init_subclass__", hook)


def _is_own(kind: type) -> bool:
    return kind.__module__ == "__main__"


def _no_hook(_kind: type, /, **_options: Any) -> None:
    """In place of ``__init_subclass__``."""


def make_bare(kind: type, *args: Any) -> Any:
    """An object without its state. What the notebook's own ``__new__`` does has been done."""
    return next(each for each in kind.__mro__ if not _is_own(each)).__new__(kind, *args)


def set_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    for cell, content in state.pop("cells"):
        cell.cell_contents = content
    function.__dict__.update(state.pop("dict"))
    source = state.pop("source")
    if source is not None and (place := keep_source(*source)) != function.__code__.co_filename:
        function.__code__ = _moved(function.__code__, place)
    for submodule in state.pop("modules"):
        with contextlib.suppress(ImportError):
            importlib.import_module(submodule)
    for name, value in state.items():
        setattr(function, name, value)


def make_imported(where: str) -> Any:
    """``module:path`` of what a library has."""
    module, _, path = where.partition(":")
    return operator.attrgetter(path)(importlib.import_module(module))


def make_cell() -> types.CellType:
    return types.CellType()


def make_cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    """An empty cache round the function: what it held can be computed again."""
    return functools.lru_cache(**parameters)(function)


def make_view(mapping: Any, method: str) -> Any:
    return getattr(mapping, method)()


def make_iterator(mapping: Any, method: str, backwards: bool, size: int, taken: int) -> Any:
    """A dictionary's iterator, which has gone past some entries."""
    if len(mapping) != size:  # it is in the dictionary itself, which is not filled yet
        raise pickle.UnpicklingError("an iterator inside the dictionary that it goes through")
    found = (reversed if backwards else iter)(getattr(mapping, method)())
    for _ in range(taken):
        next(found)
    return found


def make_ended_calls() -> Any:
    ended = iter(int, 0)
    next(ended, None)
    return ended


def make_method(owner: Any, name: str, function: types.FunctionType) -> types.MethodType:
    kind = owner if isinstance(owner, type) else type(owner)
    found = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)
    living = found.__func__ if isinstance(found, classmethod) else found
    if isinstance(living, types.FunctionType) and living.__code__ == function.__code__:
        function = living
    return types.MethodType(function, owner)


def make_type_parameter(kind: Any, name: str, values: tuple[Any, ...], options: dict[str, Any], module: str) -> Any:
    found = kind(name, *values, **options)
    with contextlib.suppress(AttributeError):  # an alias of Python 3.12 says where it was made
        found.__module__ = module
    return found


def make_weak(kind: str, items: dict[Any, Any]) -> Any:
    return getattr(weakref, kind)(items)


def make_closed(name: str, mode: str, encoding: str | None) -> Any:
    """A file that was closed. Nothing is opened under its name, which may mean another file by now."""
    with open(name, mode, encoding=encoding, opener=lambda *_: os.open(os.devnull, os.O_RDWR)) as file:
        pass
    return file


def make_shut_down(workers: int, prefix: str) -> Any:
    """An executor that takes no more work."""
    from concurrent.futures import ThreadPoolExecutor

    executor = ThreadPoolExecutor(workers, prefix)
    executor.shutdown()
    return executor


def make_memory(buffer: Any) -> Any:
    """The memory that several arrays look into."""
    return buffer


def make_array(memory: Any, offset: int, dtype: Any, shape: Any, strides: Any, kind: Any, writeable: bool) -> Any:
    import numpy

    array = numpy.ndarray(shape, dtype, buffer=memory, offset=offset, strides=strides)
    if kind is not numpy.ndarray:
        array = array.view(kind)
    array.flags.writeable = writeable
    return array


def make_object_view(base: Any, offset: int, shape: Any, strides: Any, dtype: Any = None) -> Any:
    import numpy

    return numpy.ndarray(shape, base.dtype if dtype is None else dtype, buffer=base, offset=offset, strides=strides)


def make_row(base: Any, offset: int, dtype: Any) -> Any:
    return make_object_view(base, offset, (), (), dtype)[()]


def set_array(array: Any, content: tuple[Any, dict[str, Any]]) -> None:
    """An array of a subclass, with attributes of its own."""
    state, attributes = content
    array.__setstate__(state)
    set_attributes(array, attributes)


def set_attributes(thing: Any, attributes: dict[str, Any]) -> None:
    """Those that the class's own code would leave out."""
    vars(thing).update(attributes)


def set_own_dict(thing: Any, _state: bool) -> None:
    thing.__dict__ = thing


def make_readonly(array: Any) -> Any:
    array.flags.writeable = False
    return array


def make_memmap(path: str, dtype: Any, mode: str, offset: int, shape: Any, order: str) -> Any:
    import numpy

    return numpy.memmap(path, dtype=dtype, mode=mode, offset=offset, shape=shape, order=order)  # type: ignore[call-overload]  # the mode was read from a memmap


def make_arrow(kind: Any, length: int, buffers: Sequence[Any], nulls: int, offset: int) -> Any:
    import pyarrow  # type: ignore[import-untyped]  # it has no types

    held = [None if each is None else pyarrow.py_buffer(each) for each in buffers]
    return pyarrow.Array.from_buffers(kind, length, held, nulls, offset)


def make_tensor(memory: Any, kind: str, view: Any, trained: bool, parameter: bool) -> Any:
    """``memory`` is an array of the tensor's form, or bytes with a ``view`` into them: shape, strides, offset."""
    import numpy
    import torch

    dtype = getattr(torch, kind)
    if view is None:
        tensor = torch.from_numpy(memory).view(dtype)
    else:
        shape, strides, offset = view
        whole = torch.from_numpy(numpy.frombuffer(memory, "u1"))
        end = offset + (whole.numel() - offset) // dtype.itemsize * dtype.itemsize
        tensor = whole[offset:end].view(dtype).as_strided(shape, strides)
    return torch.nn.Parameter(tensor, trained) if parameter else tensor.requires_grad_(trained)


def set_tensor(tensor: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        setattr(tensor, name, value)


def keep_source(filename: str, text: str) -> str:
    """Let ``inspect.getsource`` and tracebacks find the text of a cell of another kernel; returns under what name."""
    lines = text.splitlines(keepends=True)
    entry = linecache.cache.get(filename)
    if entry is not None and len(entry) > 1 and entry[2] != lines:  # a cell of this kernel has the name
        filename = f"<{filename.strip('<>')} {digest(text.encode())[:8]}>"
    if filename not in linecache.cache and not Path(filename).exists():
        # Without a modification time the entry counts as loaded by a loader, and is never checked against the disk.
        linecache.cache[filename] = (len(text), None, lines, filename)
    return filename


def _moved(code: types.CodeType, filename: str) -> types.CodeType:
    inner = tuple(_moved(each, filename) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=filename, co_consts=inner)


def source_of(code: types.CodeType) -> tuple[str, str] | None:
    """File name and text of the cell that the code comes from; None for code of a real file, or without source."""
    entry = linecache.cache.get(code.co_filename)
    if entry is None or len(entry) == 1 or Path(code.co_filename).exists():
        return None
    return code.co_filename, "".join(entry[2])
