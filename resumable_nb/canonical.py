"""Values as digests: typed, and the same for equal values however they were built. Never pickle bytes."""

from __future__ import annotations

import functools
import math
import re
import struct
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from blake3 import blake3

from resumable_nb.errors import NoContent
from resumable_nb.source import code_form

_CHUNK: Final = 1 << 20
_NAN: Final = struct.pack("<d", math.nan)


def fingerprint(value: object) -> str:
    """The canonical digest of a value, 32 hexadecimal characters.

    Equal digests mean the same types and contents: ``1``, ``1.0`` and ``True`` differ, ``-0.0`` and ``0.0`` too; all
    NaNs are one; the order of dicts and sets, memory layout and shared objects don't matter. Raises ``NoContent``,
    with ``path``, for what has none: connections, generators, locks.
    """
    try:
        return _digest(value)
    except RecursionError:
        return _with_deep_stack(lambda: _digest(value))


def _digest(value: object) -> str:
    writer = _Writer()
    writer.value(value, "")
    return writer.hash.update(writer.flush()).hexdigest(16)  # type: ignore[no-any-return]


def _with_deep_stack(work: Callable[[], str]) -> str:
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:
            result.append(error)

    before, size = sys.getrecursionlimit(), threading.stack_size(512 << 20)
    sys.setrecursionlimit(max(before, 2_000_000))
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(before)
        threading.stack_size(size)
    if isinstance(result[0], BaseException):
        raise result[0]
    return str(result[0])


def qualified(thing: Any) -> str:
    return f"{getattr(thing, '__module__', None) or ''}.{getattr(thing, '__qualname__', type(thing).__name__)}"


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(str(Path(p).resolve()) for p in paths if p)


@functools.lru_cache(4096)
def _is_user_file(file: str) -> bool:
    path = str(Path(file).resolve())
    if "site-packages" in path or "dist-packages" in path:
        return False
    return not path.startswith(_library_folders())


def user_module(module: types.ModuleType | str | None) -> bool:
    """Whether a module is the user's own: the notebook, or a file outside the standard library and site-packages."""
    name = module.__name__ if isinstance(module, types.ModuleType) else module
    if name == "__main__":
        return True
    if not name or name == "resumable_nb" or name.startswith("resumable_nb."):
        return False
    loaded = sys.modules.get(name) if isinstance(module, str) else module
    file = getattr(loaded, "__file__", None)
    return bool(file) and _is_user_file(str(file))


class _Writer:
    """Writes one value as tagged bytes into a hash."""

    def __init__(self) -> None:
        self.hash = blake3()
        self.out = bytearray()
        self.open: dict[int, int] = {}

    def flush(self) -> bytes:
        data = bytes(self.out)
        self.out.clear()
        return data

    def part(self, value: object, path: str) -> bytes:
        """One value by itself, for sorting."""
        inner = _Writer()
        inner.open = self.open
        inner.value(value, path)
        inner.hash.update(inner.flush())
        return inner.hash.digest(16)

    def text(self, tag: bytes, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        self.out += tag + len(data).to_bytes(8, "little") + data

    def value(self, value: object, path: str) -> None:
        writer = _EXACT.get(type(value))
        if writer is not None:
            writer(self, value, path)
            return
        depth = self.open.get(id(value))
        if depth is not None:
            self.out += b"^" + (len(self.open) - depth).to_bytes(4, "little")
            return
        self.open[id(value)] = len(self.open)
        try:
            self._container(value, path)
        finally:
            del self.open[id(value)]
        if len(self.out) > _CHUNK:
            self.hash.update(self.flush())

    def items(self, tag: bytes, values: Iterable[object], path: str, count: int) -> None:
        self.out += tag + count.to_bytes(8, "little")
        for i, each in enumerate(values):
            self.value(each, f"{path}[{i}]")

    def mapping(self, value: dict[Any, Any], path: str) -> None:
        self.out += b"d" + len(value).to_bytes(8, "little")
        if all(type(key) is str for key in value):
            for key in sorted(value):
                self.text(b"s", key)
                self.value(value[key], f"{path}[{key!r}]")
            return
        for digest, key in sorted(((self.part(k, path), k) for k in value), key=lambda pair: pair[0]):
            self.out += b"k" + digest
            self.value(value[key], f"{path}[{key!r}]")

    def elements(self, tag: bytes, value: Iterable[object], path: str) -> None:
        digests = sorted(self.part(each, path) for each in value)
        self.out += tag + len(digests).to_bytes(8, "little") + b"".join(digests)

    def raw(self, data: Any) -> None:
        self.hash.update(self.flush())
        self.hash.update(data)

    def _container(self, value: Any, path: str) -> None:
        kind = type(value)
        if kind is list:
            self.items(b"[", value, path, len(value))
        elif kind is tuple:
            self.items(b"(", value, path, len(value))
        elif kind is dict:
            self.mapping(value, path)
        elif kind is set or kind is frozenset:
            self.elements(b"{" if kind is set else b"}", value, path)
        else:
            self._other(value, kind, path)

    def _other(self, value: Any, kind: type, path: str) -> None:
        library = kind.__module__.partition(".")[0]
        if library == "numpy" and _numpy(self, value, path):
            return
        if library == "pandas" and _pandas(self, value, path):
            return
        if isinstance(value, type):
            self._class(value, path)
        elif isinstance(value, types.FunctionType):
            self._function(value, path)
        elif isinstance(value, types.ModuleType):
            self.text(b"M", value.__name__)
        elif isinstance(value, types.BuiltinFunctionType | types.MethodType):
            self.text(b"m", value.__name__)
            self.value(getattr(value, "__func__", None), path)
            owner = value.__self__
            self.value(owner.__name__ if isinstance(owner, types.ModuleType) else owner, f"{path}.__self__")
        elif isinstance(value, property):
            self.items(b"P", (value.fget, value.fset, value.fdel), path, 3)
        elif isinstance(value, staticmethod | classmethod):
            self.text(b"S", kind.__name__)
            self.value(value.__func__, path)
        elif isinstance(value, types.CellType):
            self._cell(value, path)
        elif isinstance(value, types.GenericAlias | types.UnionType | types.MappingProxyType):
            self.text(b"g", repr(value))
        elif isinstance(value, slice):
            self.items(b"L", (value.start, value.stop, value.step), path, 3)
        elif isinstance(value, re.Pattern):
            self.items(b"r", (value.pattern, value.flags), path, 2)
        else:
            self._reduced(value, kind, path)

    def _cell(self, cell: types.CellType, path: str) -> None:
        try:
            content = cell.cell_contents
        except ValueError:
            self.out += b"e"
            return
        self.value(content, path)

    def _function(self, function: types.FunctionType, path: str) -> None:
        if not user_module(function.__module__) and "<locals>" not in function.__qualname__:
            self.text(b"F", qualified(function))
            return
        self.out += b"f"
        form = code_form(function.__code__)
        self.out += len(form).to_bytes(8, "little") + form
        self.value(function.__defaults__, f"{path}.__defaults__")
        self.value(function.__kwdefaults__, f"{path}.__kwdefaults__")
        cells = function.__closure__ or ()
        self.out += len(cells).to_bytes(4, "little")
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
            self._cell(cell, f"{path}.{name}")
        self.value({k: v for k, v in vars(function).items() if k != "tool"}, path)

    def _class(self, cls: type, path: str) -> None:
        if not user_module(cls.__module__):
            self.text(b"C", qualified(cls))
            return
        self.text(b"c", cls.__qualname__)
        self.items(b"b", cls.__bases__, path, len(cls.__bases__))
        skipped = {"__dict__", "__weakref__", "__module__", "__firstlineno__", "__static_attributes__", "__doc__",
                   "__abstractmethods__", "_abc_impl", "__slotnames__", "__classcell__"}  # fmt: skip
        members = {k: v for k, v in vars(cls).items() if k not in skipped}
        members = {k: v for k, v in members.items() if not isinstance(v, types.MemberDescriptorType)}
        members = {k: v for k, v in members.items() if not isinstance(v, types.GetSetDescriptorType)}
        self.out += len(members).to_bytes(4, "little")
        for name in sorted(members):
            self.text(b"s", name)
            try:
                self.out += self.part(members[name], f"{path}.{name}")
            except NoContent:
                self.text(b"?", qualified(type(members[name])))

    def _reduced(self, value: Any, kind: type, path: str) -> None:
        try:
            reduced = value.__reduce_ex__(4)
        except Exception as error:
            where = path or "it"
            message = f"{where}: a {kind.__module__}.{kind.__qualname__} has no content that lasts"
            raise NoContent(f"{message} ({error})", path=path) from None
        if isinstance(reduced, str):
            self.text(b"G", f"{qualified(kind)}:{reduced}")
            return
        make, args, state, listed, paired = (*reduced, None, None, None)[:5]
        self.text(b"o", qualified(kind))
        if getattr(make, "__name__", "") in ("__newobj__", "__newobj_ex__", "_reconstructor"):
            args = args[1:] if make.__name__ != "__newobj_ex__" else args[1:]
        else:
            self.text(b"s", qualified(make))
        self.value(list(args), path)
        self._state(state, path)
        if listed is not None:
            self.value(list(listed), path)
        if paired is not None:
            self.value(dict(paired), path)

    def _state(self, state: Any, path: str) -> None:
        parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        self.out += b"t" + len(parts).to_bytes(1, "little")
        for each in parts:
            if type(each) is dict and all(type(key) is str for key in each):
                self.out += b"d" + len(each).to_bytes(8, "little")
                for key in sorted(each):
                    self.text(b"s", key)
                    self.value(each[key], f"{path}.{key}")
            else:
                self.value(each, path)


def _int(w: _Writer, value: Any, path: str) -> None:
    text = b"%d" % value if -(10**4000) < value < 10**4000 else hex(value).encode()
    w.out += b"i" + len(text).to_bytes(4, "little") + text


def _float(w: _Writer, value: Any, path: str) -> None:
    w.out += b"n" + (_NAN if value != value else struct.pack("<d", value))


def _complex(w: _Writer, value: Any, path: str) -> None:
    w.out += b"j"
    _float(w, value.real, path)
    _float(w, value.imag, path)


def _bytes(w: _Writer, value: Any, path: str) -> None:
    w.out += b"y" if type(value) is bytes else b"Y"
    w.out += len(value).to_bytes(8, "little")
    if len(value) > _CHUNK:
        w.raw(value)
    else:
        w.out += value


_EXACT: dict[type, Callable[[_Writer, Any, str], None]] = {
    type(None): lambda w, v, p: w.out.extend(b"N"),
    bool: lambda w, v, p: w.out.extend(b"T" if v else b"B"),
    type(...): lambda w, v, p: w.out.extend(b"."),
    type(NotImplemented): lambda w, v, p: w.out.extend(b"!"),
    int: _int,
    float: _float,
    complex: _complex,
    str: lambda w, v, p: w.text(b"s", v),
    bytes: _bytes,
    bytearray: _bytes,
    range: lambda w, v, p: w.text(b"R", repr(v)),
}


def _numpy(w: _Writer, value: Any, path: str) -> bool:
    np = sys.modules["numpy"]
    if isinstance(value, np.dtype):
        w.text(b"D", str(value.descr if value.names else value.str))
        return True
    if isinstance(value, np.generic):
        w.out += b"0"
        value = np.asarray(value)
    if type(value) is not np.ndarray:
        return False
    w.text(b"A", f"{value.dtype.descr if value.dtype.names else value.dtype.str}{value.shape}")
    if value.dtype.hasobject:
        w.items(b"[", value.ravel().tolist(), path, value.size)
        return True
    flat = value.reshape(-1) if value.flags.c_contiguous else None
    if flat is None:
        flat = np.ascontiguousarray(value).reshape(-1)
    floating = value.dtype.kind in "fc"
    step = max(1, _CHUNK // max(1, value.dtype.itemsize))
    w.hash.update(w.flush())
    for start in range(0, flat.size, step):
        chunk = flat[start : start + step]
        if floating and np.isnan(chunk).any():
            chunk = chunk.copy()
            chunk[np.isnan(chunk)] = np.nan
        w.hash.update(chunk.view(np.uint8).data if chunk.dtype.itemsize else b"")
    return True


def _pandas(w: _Writer, value: Any, path: str) -> bool:
    pd = sys.modules["pandas"]
    match value:
        case pd.DataFrame():
            w.text(b"X", "DataFrame")
            w.value(value.columns, f"{path}.columns")
            w.value(value.index, f"{path}.index")
            for i in range(value.shape[1]):
                _array(w, value.iloc[:, i].array, f"{path}[{value.columns[i]!r}]")
            w.value(dict(value.attrs), f"{path}.attrs")
        case pd.Series():
            w.text(b"X", "Series")
            w.value(value.name, f"{path}.name")
            w.value(value.index, f"{path}.index")
            _array(w, value.array, path)
            w.value(dict(value.attrs), f"{path}.attrs")
        case pd.MultiIndex():
            w.items(b"X", list(value.names), path, value.nlevels)
            for i in range(value.nlevels):
                _array(w, value.get_level_values(i).array, path)
        case pd.Index():
            w.text(b"I", str(getattr(value, "freqstr", None)))
            w.value(value.name, f"{path}.name")
            _array(w, value.array, path)
        case pd.api.extensions.ExtensionArray():
            _array(w, value, path)
        case _:
            return False
    return True


def _array(w: _Writer, array: Any, path: str) -> None:
    """The values of one column: dtype, then content."""
    pd = sys.modules["pandas"]
    w.text(b"K", f"{array.dtype!r}")
    if isinstance(array.dtype, pd.CategoricalDtype):
        w.value(array.dtype.categories, path)
        w.value(array.codes, path)
    elif hasattr(array, "_data") and hasattr(array, "_mask"):
        data = array._data.copy()
        data[array._mask] = data.dtype.type(0)
        w.value(array._mask, path)
        w.value(data, path)
    elif array.dtype.kind in "mM" and hasattr(array, "asi8"):
        w.value(array.asi8, path)
    else:
        values = array.to_numpy()
        if values.dtype.hasobject:
            missing = pd.isna(values)
            w.value(missing, path)
            w.items(b"[", ["" if m else v for v, m in zip(values, missing, strict=True)], path, len(values))
        else:
            w.value(values, path)
