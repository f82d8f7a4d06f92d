"""Which variables can a piece of code reach by name, through the functions and classes of the notebook?"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from resumable_nb.attributes import own_dict
from resumable_nb.codec import importable, is_filled
from resumable_nb.groups import Holding
from resumable_nb.source import Body, code_names, formula_words

_CLASS: Final = re.compile(r"ClassDef\(name=str:'(\w+)'")
_EVERYTHING: Final = frozenset(("globals", "eval", "exec", "locals", "vars", "dir", "__main__"))
_EVERYTHING_ATTRIBUTES: Final = frozenset(("user_ns", "user_global_ns", "f_globals", "f_locals", "__globals__"))
_ANY_VALUE: Final = frozenset(("globals", "eval", "exec", "locals", "__main__", *_EVERYTHING_ATTRIBUTES))


def reach(
    body: Body,
    variables: Mapping[str, object],
    holding: Callable[[str], Holding | None],
    own_name: Callable[[object], str],
    pending: frozenset[str] = frozenset(),
    owed: frozenset[str] = frozenset(),
) -> frozenset[str]:
    """Names that ``body`` may read or delete, and those that what it finds there may.

    ``pending`` are variables that are not loaded yet; ``owed`` are names that only running a step can bring back:
    code that lists names (``dir()``, ``%whos``) does not reach them, only code that may look up any value does.
    ``holding(name)`` is what a variable holds; ``own_name`` the variable that a class is bound to, or "".
    """
    if body.dynamic:
        looks_up = not (body.reads | body.attributes).isdisjoint(_ANY_VALUE)
        return frozenset(variables) | pending | body.reads | body.deletes | (owed if looks_up else frozenset())
    found: set[str] = set()
    looked_at: set[int] = set()
    todo = set(body.reads | body.deletes)
    while todo:
        name = todo.pop()
        found.add(name)
        held = holding(name)
        todo |= (formula_words(variables.get(name)) & (variables.keys() | pending | owed)) - found
        for thing in held.definitions.values() if held is not None else ():
            if id(thing) in looked_at:
                continue
            looked_at.add(id(thing))
            names, attributes = names_in(thing)
            if names & _EVERYTHING or attributes & _EVERYTHING_ATTRIBUTES:
                looks_up = not (names | attributes).isdisjoint(_ANY_VALUE)
                return frozenset(variables) | found | todo | (pending | owed if looks_up else frozenset())
            todo |= (names | {own_name(thing)}) - found - {""}
    return frozenset(found)


def may_change(body: Body, reached: frozenset[str], variables: Mapping[str, object]) -> frozenset[str]:
    """Definitions that mean something else when the code has run: classes that it defines under a name of the
    notebook, and functions with attributes that it can set."""
    classes = body.writes.intersection(_CLASS.findall(body.normal)) if "ClassDef" in body.normal else frozenset()
    return classes | {
        name for name in reached if isinstance(variables.get(name), types.FunctionType) and own_dict(variables[name])
    }


def names_in(thing: object) -> tuple[frozenset[str], frozenset[str]]:
    """Global names and attributes that a function's or class's code looks up."""
    names: set[str] = set()
    attributes: set[str] = set()
    for code in codes(thing):
        globals_, attrs = _code_names(code)
        names |= globals_
        attributes |= attrs
    return frozenset(names), frozenset(attributes)


def codes(thing: Any) -> Iterator[types.CodeType]:
    """The code of a function, of what it wraps and closes over, or of a class's methods and bases."""
    todo, seen = [thing], set()
    while todo:
        each = todo.pop()
        if id(each) in seen or (isinstance(each, types.FunctionType | type) and importable(each)):
            continue
        seen.add(id(each))
        match each:
            case types.FunctionType():
                yield each.__code__
                todo += [cell.cell_contents for cell in each.__closure__ or () if is_filled(cell)]
                todo += (*(each.__defaults__ or ()), *(each.__kwdefaults__ or {}).values(), *vars(each).values())
            case type():
                todo += (*vars(each).values(), *each.__bases__, type(each))
            case staticmethod() | classmethod() | types.MethodType():
                todo.append(each.__func__)
            case property():
                todo += (each.fget, each.fset, each.fdel)
            case functools.partial() | functools.partialmethod() | functools.cached_property():
                todo.append(each.func)
            case _:
                todo.append(own_dict(each).get("__wrapped__"))


@functools.lru_cache(maxsize=10_000)
def _code_names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    names, attributes = code_names(code)
    return names, attributes
