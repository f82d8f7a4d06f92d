"""What made the variables that have no content of their own (a connection, a generator): the code of a plain cell, with
what that read."""

from __future__ import annotations

import functools
import pathlib
import sys
import types
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

import msgspec

from resumable_nb.canonical import user_module
from resumable_nb.fingerprint import Lookup, step_key
from resumable_nb.model import MISSING, Missing, StepOptions, digest
from resumable_nb.source import Body

_PLAIN: Final = (int, float, complex, str, bytes, bool, type(None), pathlib.PurePath)
_CODE: Final = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, functools.partial)
_CONTAINERS: Final = (list, tuple, dict, set, frozenset)
_SMALL: Final = 1_000
"""How many values a variable may hold that counts for what a cell made of it."""
_OF_CONTENT: Final = (*_PLAIN, *_CODE, *_CONTAINERS)


def trace(
    origins: MutableMapping[str, str], body: Body, made: Collection[str], variables: Mapping[str, Any], lookup: Lookup
) -> None:
    """A plain cell has run, and ``made`` these variables. An iterator that it names has gone on there."""
    source = digest(body.normal.encode("utf-8", "surrogatepass"))
    if any(not isinstance(variables[name], _OF_CONTENT) for name in made):
        key = step_key(body, _Small(lookup), StepOptions(), Path(), is_user_module=_is_loaded)
        source = digest(msgspec.json.encode((source, key.functions, key.inputs)))
    used = {name for name in body.reads & variables.keys() - set(made) if isinstance(variables[name], Iterator)}
    origins.update({name: digest(f"{origins.get(name, '')} {source}".encode()) for name in used})
    origins.update(dict.fromkeys(made, source))


def _is_loaded(module: types.ModuleType | str) -> bool:
    """Modules of the user's; none is imported because a function that nobody has called would do so."""
    return (not isinstance(module, str) or module in sys.modules) and user_module(module)


class _Small:
    """A ``Lookup`` of code, and of values that are read in no time."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def value(self, name: str) -> object | Missing:
        value = self._lookup.value(name)
        return value if isinstance(value, _CODE) or _is_small(value) else MISSING

    def known(self, _name: str) -> str | Missing:
        return MISSING

    def as_saved(self, _name: str) -> str | Missing:
        return MISSING

    def provenance(self, name: str) -> str:
        return self._lookup.provenance(name)


def _is_small(value: object) -> bool:
    todo, count = [value], 0
    while todo:
        each = todo.pop()
        count += 1
        if isinstance(each, _CONTAINERS) and count + len(each) <= _SMALL:
            todo += [*each.keys(), *each.values()] if isinstance(each, dict) else each
        elif not isinstance(each, _PLAIN) or count > _SMALL:
            return False
    return True
