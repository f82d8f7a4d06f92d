"""The names that a code object looks up."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from resumable_nb.source import ambient, lookers, quoted, scripts
from resumable_nb.source.scope import DYNAMIC, IMPORTERS, Import

_GLOBAL: Final = frozenset(
    {"LOAD_NAME", "LOAD_GLOBAL", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_CLASSDEREF"}
)
_ATTRIBUTE: Final = frozenset(
    {"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR", "IMPORT_FROM"}
)

_STORES: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_NOTHING: Final = frozenset({"NOP", "CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL"})


_HAS_DOCSTRING: Final = 0x4000000
"""A flag of code objects, from Python 3.14 on; before, a function's first constant is its docstring or ``None``."""
_ANY_NAME: Final = frozenset({"eval"})
"""Code that looks this up may look up whatever there is."""


@dataclass(frozen=True, slots=True)
class Names:
    """What a code object looks up, nested code included. ``bare``: globals not used as ``name.attribute`` only."""

    globals: frozenset[str]
    attributes: frozenset[str]
    bare: frozenset[str]
    imports: frozenset[Import]
    environment: frozenset[str] = frozenset()
    """Variables of the environment that it names."""
    scripts: frozenset[str] = frozenset()
    """Paths that it names of files with code."""
    stores: frozenset[str] = frozenset()
    """Globals that it binds or deletes."""


@functools.lru_cache(maxsize=10_000)
def names_of(code: types.CodeType) -> Names:
    """Names, attributes and imports of a code object and of the code in it."""
    names: set[str] = set()
    attributes: set[str] = set()
    bare: set[str] = set()
    imports: set[Import] = set()
    environment: set[str] = set()
    named: set[str] = set()
    stores: set[str] = set()
    for each in _codes(code):
        steps = [i for i in dis.get_instructions(each) if i.opname not in _NOTHING]
        environment.update(ambient.in_code(steps))
        named.update(scripts.in_code(each))
        if "__main__" in each.co_consts and "modules" in (*each.co_names, *each.co_varnames):
            names |= _ANY_NAME  # sys.modules["__main__"]
        for constant in _texts(each):
            if lookers.imports_notebook(constant):
                names |= _ANY_NAME
            names |= (formula := quoted.in_formula(constant))
            bare |= formula
        for k, i in enumerate(steps):
            if i.opname.startswith("LOAD_") and lookers.is_looker(steps[k - 1].argval if k else None, i.argval):
                names |= _ANY_NAME
            if i.opname in _GLOBAL:
                names.add(i.argval)
                if k + 1 == len(steps) or steps[k + 1].opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                    bare.add(i.argval)
            if i.argval in IMPORTERS and i.opname.startswith("LOAD_"):
                given = next((step for step in steps[k + 1 : k + 3] if step.opname == "LOAD_CONST"), None)
                if given is not None and isinstance(given.argval, str):
                    imports.add(Import(given.argval))
            if i.opname in _STORES:
                stores.add(i.argval)
            if i.opname in _ATTRIBUTE:
                attributes.add(i.argval)
                words = quoted.in_code(steps, k)
                of_builtins = i.argval in DYNAMIC and steps[k - 1].argval in ("builtins", "__builtins__")
                names |= _ANY_NAME if words is None or of_builtins else words
                bare |= words or frozenset()
            elif i.opname == "IMPORT_NAME":
                level, wanted = steps[k - 2].argval, steps[k - 1].argval
                imports.add(Import(i.argval, tuple(wanted or ()), level if isinstance(level, int) else 0))
    return Names(
        frozenset(names),
        frozenset(attributes),
        frozenset(bare),
        frozenset(imports),
        frozenset(environment),
        frozenset(named),
        frozenset(stores),
    )


@functools.lru_cache(maxsize=10_000)
def calls_of(code: types.CodeType) -> frozenset[tuple[str, str]]:
    """What a code object and the code in it look up, as ``Touched.calls`` has it: ``np.random.seed`` as ``np`` and
    ``random.seed``. What it imports itself stands under the module's own name."""
    found: set[tuple[str, str]] = set()
    for each in _codes(code):
        own: dict[str, tuple[str, str]] = {}
        root, rest, module = "", "", ""
        for i in dis.get_instructions(each):
            if i.opname in _NOTHING:
                continue
            if i.opname in _ATTRIBUTE and root and i.opname != "IMPORT_FROM":
                rest = f"{rest}.{i.argval}" if rest else i.argval
                continue
            if root:
                found.add((root, rest or root))
            root, rest = "", ""
            match i.opname:
                case "IMPORT_NAME":
                    module = i.argval
                case "IMPORT_FROM":
                    module = f"{module.partition(':')[0]}:{i.argval}"
                case name if name.startswith("STORE_") and module:
                    where, _, part = module.partition(":")
                    own[i.argval] = (where, part)
                    module = where if part else ""
                case name if name.startswith("LOAD_") and isinstance(i.argval, str) and name != "LOAD_CONST":
                    root, rest = own.get(i.argval, (i.argval, ""))
    return frozenset(found)


def code_names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Names that the code looks up globally, and names of attributes; nested code included."""
    names = names_of(code)
    return names.globals, names.attributes


def _texts(code: types.CodeType) -> tuple[object, ...]:
    """The constants but for the docstring."""
    if sys.version_info >= (3, 14):
        return code.co_consts[bool(code.co_flags & _HAS_DOCSTRING) :]
    made_of_def = code.co_flags & inspect.CO_OPTIMIZED and (code.co_name == "<lambda>" or code.co_name[0] != "<")
    return code.co_consts[bool(made_of_def) :]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    todo = [code]
    while todo:
        each = todo.pop()
        yield each
        todo += [constant for constant in each.co_consts if isinstance(constant, types.CodeType)]
