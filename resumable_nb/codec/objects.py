"""Objects of the user's own classes that pickle takes apart, and would stumble over where it puts them together."""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable
from typing import Any, Final

from resumable_nb.canonical import user_module
from resumable_nb.groups import is_atom

Reduced = Any
_FILLING: Final = {list: ("append", "extend"), dict: ("__setitem__",)}
"""Kinds of containers, with the methods through which pickle fills them."""


def careful(kind: type) -> Callable[[Any], Reduced] | None:
    """How objects of this class are reduced; None: in the usual way.

    A ``__getattr__`` may fail, or ask itself without end, for an object that has nothing yet; a ``__hash__`` is asked
    for one that holds itself through a set or dictionary, before it has its attributes; an ``__init__`` of an error
    may want other arguments than the error has.
    """
    if not user_module(kind.__module__):
        return None
    if issubclass(kind, BaseException):
        return _error if _is_simple_error(kind) else None
    usual = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    own = {name for each in kind.__mro__ if each is not object for name in vars(each)}
    if not usual or own & {"__setstate__", "__getstate__", "__getnewargs__", "__getnewargs_ex__"}:
        return None
    if own & {"__getattr__", "__getattribute__"}:
        return _reduce
    return _reduce_with_parts if kind.__hash__ not in (None, object.__hash__) and "__hash__" in own else None


def _is_simple_error(kind: type[BaseException]) -> bool:
    """One that is no more than its arguments and attributes, with an ``__init__`` of its own."""
    base = next(each for each in kind.__mro__ if not user_module(each.__module__))
    own = {name for each in kind.__mro__ if user_module(each.__module__) for name in vars(each)}
    simple = base.__basicsize__ == BaseException.__basicsize__ and kind.__reduce__ is BaseException.__reduce__
    return simple and "__init__" in own


def _error(error: BaseException) -> Reduced:
    kind, args, *state = tuple(error.__reduce__())
    return make_empty, (kind, *args), state[0] if state else None, None, None, set_attributes


def _reduce_with_parts(thing: Any) -> Reduced:
    """Only what has more in it than atoms may hold itself."""
    reduced = _reduce(thing)
    if reduced is NotImplemented or not (state := reduced[2]):
        return NotImplemented
    parts = [value for each in (state if isinstance(state, tuple) else [state]) for value in (each or {}).values()]
    return NotImplemented if all(map(is_atom, parts)) else reduced


def _reduce(thing: Any) -> Reduced:
    """With those attributes first that can hold nothing."""
    make, args, state, items, pairs = (*object.__reduce_ex__(thing, 5), None, None, None)[:5]
    if make is not copyreg.__newobj__:  # type: ignore[attr-defined]  # typeshed leaves it out
        return NotImplemented
    own, slots = state if isinstance(state, tuple) else (state, None)
    first = [{name: value for name, value in (each or {}).items() if is_atom(value)} for each in (own, slots)]
    return make_filled, (*first, *args), state, items, pairs, set_state


def container(kind: type) -> Callable[[Any], Reduced] | None:
    """How containers of this class are reduced, where pickle would fill them before they have their attributes.

    A list that tells its owners of each change does not know them yet. ``None``: in the usual way.
    """
    base = next((each for each in _FILLING if issubclass(kind, each)), None)
    if base is None or kind is base or not kind.__dictoffset__:
        return None
    own = {name for each in kind.__mro__[: kind.__mro__.index(base)] for name in vars(each)}
    if own & {"__setstate__", "__getstate__", "__getnewargs__", "__getnewargs_ex__", "__reduce__", "__reduce_ex__"}:
        return None
    return _reduce_container if own.intersection(_FILLING[base]) else None


def _reduce_container(thing: Any) -> Reduced:
    make, args, state, items = (*object.__reduce_ex__(thing, 5), None, None)[:4]
    if make is not copyreg.__newobj__ or not state:  # type: ignore[attr-defined]  # typeshed leaves it out
        return NotImplemented
    # Not by the methods of its class, which may count, check or tell.
    held = [*list.__iter__(thing)] if items is not None else [*dict.items(thing)]
    return make_empty, args, (state, held), None, None, set_contents


def set_contents(thing: Any, found: Any) -> None:
    state, held = found
    set_state(thing, state)
    if isinstance(thing, list):
        list.extend(thing, held)
    else:
        dict.update(thing, held)


def make_filled(own: dict[str, Any], slots: dict[str, Any], kind: type, *args: Any) -> Any:
    found = make_empty(kind, *args)
    set_state(found, (own, slots))
    return found


def make_empty(kind: type, *args: Any) -> Any:
    """An object without its state. What the user's own ``__new__`` does has been done."""
    return next(each for each in kind.__mro__ if not user_module(each.__module__)).__new__(kind, *args)


def set_state(thing: Any, state: Any) -> None:
    own, slots = state if isinstance(state, tuple) else (state, None)
    if own:
        object.__getattribute__(thing, "__dict__").update({sys.intern(name): value for name, value in own.items()})
    for name, value in (slots or {}).items():
        object.__setattr__(thing, name, value)


def set_attributes(error: BaseException, attributes: dict[str, Any]) -> None:
    error.__dict__.update(attributes)
