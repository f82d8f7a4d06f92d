"""Kinds of objects that pickle or cloudpickle would change without a word, or not take although they could."""

from __future__ import annotations

import copyreg
import dataclasses
import functools
import gc
import io
import itertools
import pickle
import random
import sys
import types
import typing
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import cloudpickle

from resumable_nb.attributes import own_dict
from resumable_nb.codec import enums, handles, iterators, rebuild, reopen, views
from resumable_nb.codec.definitions import importable
from resumable_nb.codec.objects import careful, container
from resumable_nb.widgets import is_shell, is_tied

Reduced = Any
Reduce = Callable[[Any], Reduced]

_VIEWS: Final = {
    type(getattr(kind(), name)()): name for kind in (dict, OrderedDict) for name in ("keys", "values", "items")
}

_SENTINELS: Final[dict[type, str]] = {
    type(found): name
    for name in ("MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY")
    if (found := getattr(dataclasses, name, None)) is not None
}

_FILES: Final = (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
"""What ``open`` returns. Closed, they are left behind by every ``with open(…) as f``."""


def _code(code: types.CodeType) -> Reduced:
    make, args = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    at = args.index("<dynamic-code>")  # cloudpickle forgets the file, and with it the source
    return make, (*args[:at], code.co_filename, *args[at + 1 :])


def _file(file: Any) -> Reduced:
    for name in ("stdout", "stderr", "stdin"):
        if file is getattr(sys, name):
            return getattr, (sys, name)
    if type(file) in _FILES and file.closed:
        path = getattr(file, "name", None)
        encoding = file.encoding if isinstance(file, io.TextIOBase) else None
        return rebuild.make_closed, (path if isinstance(path, str) else "", getattr(file, "mode", "r"), encoding)
    if type(file) in (*_FILES, io.FileIO) and not file.closed:
        return handles.open_file(file)
    raise pickle.PicklingError(f"cannot pickle open file {getattr(file, 'name', file)!r}")


def _executor(executor: Any) -> Reduced:
    """Shut down, as every ``with ThreadPoolExecutor() as ex`` leaves one; else an idle one."""
    if not executor._shutdown:
        return handles.threads(executor)
    return rebuild.make_shut_down, (executor._max_workers, executor._thread_name_prefix)


def _cached_property(found: functools.cached_property[Any]) -> Reduced:
    state = {key: value for key, value in vars(found).items() if key not in ("func", "lock")}
    return functools.cached_property, (found.func,), state


def _dict_view(view: Any) -> Reduced:
    return rebuild.make_view, (gc.get_referents(view)[0], _VIEWS[type(view)])


def _proxy(proxy: types.MappingProxyType[Any, Any]) -> Reduced:
    return types.MappingProxyType, (gc.get_referents(proxy)[0],)


def _weak_dict(found: Any) -> Reduced:
    return rebuild.make_weak, (type(found).__name__, dict(found.items()))


def _method(method: types.MethodType) -> Reduced:
    """By its name in the class, where that has it: a living class keeps its functions."""
    function, owner = method.__func__, method.__self__
    if not isinstance(function, types.FunctionType) or importable(function):
        return NotImplemented
    return rebuild.make_method, (owner, function.__name__, function)


def _new_type(found: Any) -> Reduced:
    if importable(found):
        return NotImplemented
    return rebuild.make_bare, (type(found),), dict(vars(found)), None, None, rebuild.set_attributes


def _type_parameter(found: Any) -> Reduced:
    """Python's own way is by the name in its module."""
    if importable(found):
        return NotImplemented
    options = {name: getattr(found, f"__{name}__") for name in _OPTIONS if getattr(found, f"__{name}__", None)}
    if getattr(found, "has_default", bool)():
        options["default"] = found.__default__
    values = (found.__value__,) if hasattr(found, "__value__") else ()
    return rebuild.make_type_parameter, (type(found), found.__name__, values, options, found.__module__)


_OPTIONS: Final = ("bound", "covariant", "contravariant", "infer_variance", "type_params")


def _random(generator: random.Random) -> Reduced:
    """The hidden generator behind ``random.random`` is a module's, not the user's."""
    hidden = getattr(random, "_inst", None)
    return (getattr, (random, "_inst")) if generator is hidden else NotImplemented


def _random_state(generator: Any) -> Reduced:
    module = sys.modules.get("numpy.random.mtrand")
    hidden = getattr(module, "_rand", None)
    return (getattr, (module, "_rand")) if generator is hidden else NotImplemented


def _sentinel(thing: Any) -> Reduced:
    return _SENTINELS[type(thing)]


def _arrow(array: Any) -> Reduced:
    """As buffers, which stay out of the stream."""
    arrow = sys.modules["pyarrow"]
    simple = type(array.type) is arrow.DataType and not arrow.types.is_nested(array.type)
    if array.offset or not simple:
        return NotImplemented
    buffers = [None if each is None else pickle.PickleBuffer(each) for each in array.buffers()]
    return rebuild.make_arrow, (array.type, len(array), buffers, array.null_count, 0)


def _shell(_shell: Any) -> Reduced:
    return reopen.get_shell, ()


def _tied(thing: Any) -> Reduced:
    return handles.refuse(thing, ", which is a part of its kernel")


def _bunch(bunch: Any) -> Reduced:
    """scikit-learn's data sets: their class leaves its attributes behind."""
    return type(bunch), (), dict(vars(bunch)), None, iter(bunch.items()), rebuild.set_attributes


def _own_dict(thing: Any) -> Reduced:
    """A dictionary that is its own ``__dict__``, so that its items are its attributes (those of statsmodels)."""
    if own_dict(thing) is not thing:
        return NotImplemented
    return type(thing).__new__, (type(thing),), True, None, iter(thing.items()), rebuild.set_own_dict


def _figure(figure: Any) -> Reduced:
    """One that pyplot has open would open itself when it is read."""
    reduced = figure.__reduce_ex__(5)
    make, args, state = reduced[:3]
    if not isinstance(state, dict) or not state.pop("_restore_to_pylab", False):
        return reduced
    return make, args, (state, figure.canvas.manager.num), None, None, reopen.set_figure


def _callbacks(registry: Any) -> Reduced:
    """matplotlib's count on with each pickling: a figure that was only looked at would be another one then."""
    reduced = registry.__reduce_ex__(5)
    state = reduced[2]
    if isinstance(state, dict) and isinstance(state.get("_cid_gen"), int):
        registry._cid_gen = itertools.count(state["_cid_gen"])
    return reduced


_EXACT: Final[dict[type, Reduce]] = {
    types.CodeType: _code,
    memoryview: views.reduce_view,
    types.MappingProxyType: _proxy,
    functools.cached_property: _cached_property,
    weakref.WeakKeyDictionary: _weak_dict,
    weakref.WeakValueDictionary: _weak_dict,
    random.Random: _random,
    types.MethodType: _method,
    typing.NewType: _new_type,
    typing.ParamSpec: _type_parameter,
    typing.TypeVarTuple: _type_parameter,
    **dict.fromkeys(_VIEWS, _dict_view),
    **iterators.REDUCED,
    **dict.fromkeys(_SENTINELS, _sentinel),
}


def special(kind: type) -> Reduce | None:
    """How objects of this type are reduced; None: in the usual way."""
    if kind in _EXACT:
        return _EXACT[kind]
    if kind is getattr(typing, "TypeAliasType", None):
        return _type_parameter
    if is_shell(kind):
        return _shell
    if is_tied(kind):
        return _tied
    if enums.goes_by_name(kind):
        return enums.member
    if issubclass(kind, io.IOBase) and not issubclass(kind, io.BytesIO | io.StringIO):
        return None if any(map(_reduces_itself, kind.__mro__)) else _file
    if kind.__module__ == "itertools" and hasattr(kind, "__reduce__"):
        return iterators.of_itertools
    if (kind.__module__, kind.__name__) == ("concurrent.futures.thread", "ThreadPoolExecutor"):
        return _executor
    if (kind.__module__, kind.__name__) == ("sklearn.utils._bunch", "Bunch"):
        return _bunch
    if (filled := container(kind)) is not None:
        return lambda thing: filled(thing) if own_dict(thing) is not thing else _own_dict(thing)
    if (kind.__module__, kind.__name__) == ("matplotlib.cbook", "CallbackRegistry"):
        return _callbacks
    if issubclass(kind, dict) and kind.__dictoffset__ and not any(map(_reduces_itself, kind.__mro__)):
        return _own_dict
    if kind.__name__ == "RandomState" and "mtrand" in str(kind.__module__):
        return _random_state
    if (handle := handles.handle(kind)) is not None:
        return handle
    if (figures := sys.modules.get("matplotlib.figure")) is not None and issubclass(kind, figures.Figure):
        return _figure
    if (found := careful(kind)) is not None:
        return found
    arrow = sys.modules.get("pyarrow")
    return _arrow if arrow is not None and issubclass(kind, arrow.Array) else None


def _reduces_itself(kind: type) -> bool:
    """A class outside the library that says how it is pickled."""
    own = vars(kind).keys() & {"__reduce__", "__reduce_ex__", "__getstate__"}
    return bool(own) and kind.__module__ not in ("_io", "io", "builtins")


def makes_itself(kind: type) -> bool:
    """Whether ``pickle`` would call a ``__new__`` of the notebook's, which prints, counts, or gives another object."""
    found: Any = kind
    if found.__new__ is object.__new__ or found.__reduce_ex__ is not object.__reduce_ex__:
        return False
    own = {name for each in kind.__mro__ if each.__module__ == "__main__" for name in vars(each)}
    return "__new__" in own and own.isdisjoint({"__reduce__", "__getnewargs__", "__getnewargs_ex__"})


def bare(thing: Any) -> Reduced:
    """As ``pickle`` takes it apart, but for what makes it again."""
    reduced = thing.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    usual = isinstance(reduced, tuple) and reduced[0] is copyreg.__newobj__  # type: ignore[attr-defined]  # typeshed leaves it out
    return (rebuild.make_bare, *reduced[1:]) if usual else NotImplemented
