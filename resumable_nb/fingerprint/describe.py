"""Inputs in a few words, for people."""

from __future__ import annotations

import reprlib
import types
from typing import Any, Final

from resumable_nb.canonical import qualified
from resumable_nb.fingerprint.reach import IMPORTED, Lookup
from resumable_nb.model import MISSING
from resumable_nb.preview import is_secret

_SHORT: Final = reprlib.Repr()
_SHORT.maxother = _SHORT.maxlong = 40
_SIZED: Final = (str, list, tuple, dict, set, frozenset, bytes, bytearray)
_SHAPED: Final = frozenset({"numpy", "pandas", "polars", "pyarrow", "torch", "xarray"})


def describe(name: str, lookup: Lookup) -> str:
    """An input's type and size, or a number's value. No text, which may be a secret by any name; nothing is loaded."""
    if lookup.known(name) is not MISSING:
        return ""
    value = lookup.value(name.removeprefix(IMPORTED))
    if value is MISSING:
        return ""
    kind = type(value)
    if isinstance(value, types.ModuleType | types.BuiltinFunctionType | types.FunctionType | type):
        return qualified(value)
    if isinstance(value, bool | int | float | None) and not is_secret(name):
        return _SHORT.repr(value)
    return f"{kind.__name__}{_size(value, kind)}"


def _size(value: Any, kind: type) -> str:
    if str(kind.__module__).partition(".")[0] in _SHAPED:
        shape = getattr(value, "shape", None)
        return f" {' × '.join(map(str, shape))}" if isinstance(shape, tuple) else ""
    return f" of {len(value)}" if isinstance(value, _SIZED) else ""
