"""How things of each type are walked."""

from __future__ import annotations

import contextvars
import datetime
import decimal
import enum
import fractions
import functools
import gc
import itertools
import logging
import pathlib
import re
import sys
import types
import uuid
import weakref
from typing import Any, Final

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
    | {type(gc.get_referents(memoryview(b""))[0])}  # what a memoryview and those that were made of it look through
)
"""Two names for one such object share what is in it, not the object."""

_FOREIGN: Final = ("IPython", "ipykernel", "resumable_nb", "traitlets")
"""The machinery round the notebook holds the namespace itself: nothing of it is anybody's variable."""

_LINKS: Final = frozenset({("traitlets.traitlets", "link"), ("traitlets.traitlets", "directional_link")})
"""But these are, and hold the user's widgets."""


_RESULTS: Final = frozenset(
    {type(turn(getattr({}, name)())) for name in ("keys", "values", "items") for turn in (iter, reversed)}
    | {enumerate, zip, itertools.zip_longest, itertools.product, itertools.permutations}
    | {itertools.combinations, itertools.combinations_with_replacement}
)
"""Iterators that keep the tuple which they gave last, to give it again where nobody else has it."""


class Verdict(enum.Enum):
    STOP = enum.auto()
    PLAIN = enum.auto()
    TRANSPARENT = enum.auto()
    DEFINITION = enum.auto()
    ENUM = enum.auto()
    ARRAY = enum.auto()
    TENSOR = enum.auto()
    WEAK = enum.auto()
    PANDAS = enum.auto()
    VARIABLE = enum.auto()
    REFERENCE = enum.auto()
    EXPRESSION = enum.auto()
    RESULTS = enum.auto()
    ROW = enum.auto()
    WRAPPER = enum.auto()


_verdicts: dict[type, Verdict] = dict.fromkeys(ATOMS, Verdict.STOP)


def verdict_of(kind: type) -> Verdict:
    try:
        return _verdicts[kind]
    except KeyError:
        if len(_verdicts) > 100_000:  # a notebook that makes classes in a loop
            _verdicts.clear()
        found = _verdicts[kind] = _judge(kind)
        return found


def _judge(kind: type) -> Verdict:
    numpy, pandas, torch = (sys.modules.get(name) for name in ("numpy", "pandas", "torch"))
    foreign = str(kind.__module__).partition(".")[0] in _FOREIGN and (kind.__module__, kind.__name__) not in _LINKS
    if kind in ATOMS or (foreign and not issubclass(kind, type)):
        return Verdict.STOP  # a class of the user's may have a metaclass of theirs: a widget
    if (kind.__module__, kind.__name__) == ("_thread", "_localdummy"):
        return Verdict.STOP  # a thread has one for all its ``threading.local()``
    if issubclass(kind, type | types.FunctionType | type(functools.lru_cache(lambda: None))):
        return Verdict.DEFINITION
    if issubclass(kind, enum.Enum):
        return Verdict.ENUM
    if issubclass(kind, weakref.WeakValueDictionary | weakref.WeakKeyDictionary | weakref.WeakSet):
        return Verdict.WEAK
    if kind in _RESULTS:
        return Verdict.RESULTS
    if kind in _TRANSPARENT:
        return Verdict.TRANSPARENT
    if kind is weakref.ref:
        return Verdict.REFERENCE
    if kind in (staticmethod, classmethod):
        return Verdict.WRAPPER
    if kind is contextvars.ContextVar:
        return Verdict.VARIABLE
    if numpy is not None:
        if issubclass(kind, numpy.ndarray):
            return Verdict.ARRAY
        if issubclass(kind, numpy.void):
            return Verdict.ROW
        if issubclass(kind, numpy.generic | numpy.dtype | numpy.ufunc):
            return Verdict.STOP
    if torch is not None and hasattr(torch, "Tensor") and issubclass(kind, torch.Tensor):
        return Verdict.TENSOR
    if pandas is not None:
        if kind in (type(pandas.NaT), type(pandas.NA), pandas.Timestamp, pandas.Timedelta):
            return Verdict.STOP
        if issubclass(kind, pandas.DataFrame | pandas.Series | pandas.Index | pandas.api.extensions.ExtensionArray):
            return Verdict.PANDAS
    if _is_expression(kind):
        return Verdict.EXPRESSION
    return Verdict.PLAIN


def _is_expression(kind: type) -> bool:
    """Of sympy's own: immutable, and equal to its copy. A class that ``Function("f")`` made has no module.

    Those of ``sympy.physics`` are like any object: a frame's coordinate holds the frame itself, beside its arguments.
    """
    basic, module = getattr(sys.modules.get("sympy"), "Basic", None), str(kind.__module__)
    own = module.partition(".")[0] in ("sympy", "None") and not module.startswith("sympy.physics")
    return own and basic is not None and issubclass(kind, basic)


def wrapped(method: Any) -> dict[str, Any]:
    """What a static or class method holds, without what it has taken over from its function: that is not its own."""
    own = {name: each for name, each in vars(method).items() if name not in functools.WRAPPER_ASSIGNMENTS}
    return {"__func__": method.__func__, **own}


def members_of(kind: type) -> list[Any]:
    """An enumeration's own members."""
    found: dict[str, Any] = vars(kind).get("_member_map_") or {}
    return [*found.values()] if issubclass(kind, enum.Enum) else []


def is_atom(value: object) -> bool:
    """Whether the value is immutable and shares nothing: it changes only by being replaced."""
    return verdict_of(type(value)) is Verdict.STOP
