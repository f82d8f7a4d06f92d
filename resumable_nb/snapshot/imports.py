"""Names that are bound to what a module has: they are imported again, never pickled."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import types
from collections.abc import Collection, Mapping
from typing import Any, Final

from resumable_nb.attributes import told
from resumable_nb.canonical import home, qualified
from resumable_nb.codec import is_filled
from resumable_nb.errors import NotSaved
from resumable_nb.fingerprint import user_module
from resumable_nb.groups import is_atom
from resumable_nb.model import MISSING, Manifest, digest
from resumable_nb.source import Body, code_form

_IMPORTED: Final = re.compile(r"alias\(name=str:'([\w.]+\.\w+)'")
"""A dotted import in a body's normal form."""

_NOTEBOOK: Final = ("__main__", "__mp_main__")
"""multiprocessing has the notebook under a second name."""

_CALLABLES = (types.FunctionType, types.BuiltinFunctionType, type, types.MethodType)


def origin(name: str, value: object, body: Body | None = None) -> str:
    """``package.module`` or ``package.module:attribute`` to import ``value`` from; empty where no module has it.

    ``body`` is the code that bound the name.
    """
    if isinstance(value, types.ModuleType):
        known = sys.modules.get(value.__name__) is value and value.__name__ != "__main__"
        return value.__name__ if known else ""
    if stream := _stream(value):
        return stream
    if not callable(value) or not (isinstance(value, _CALLABLES) or _is_native(type(value))):
        return "" if is_atom(value) else _of_library(name, value, body)
    if told(value, "__module__") in _NOTEBOOK:
        return ""
    own = told(value, "__qualname__")
    for attribute in (own,) if isinstance(value, types.FunctionType) else (own, name):
        for module in (told(value, "__module__"), None):
            found = _in_module(module, attribute, value) if module else _anywhere(attribute, value)
            if found:
                return found
    return ""


def _stream(value: object) -> str:
    """``old = sys.stdout``: one of the process's own streams, not a buffer that stands in for it for now."""
    names = [name for name in ("stdout", "stderr", "stdin") if getattr(sys, name, None) is value]
    own = names and type(value).__module__ not in ("__main__", "io", "_io")
    return f"sys:{names[0]}" if own else ""


def _of_library(name: str, value: object, body: Body | None) -> str:
    """What a library has one of (``os.environ``, ``sys.modules``): a copy would be nobody's."""
    asked = [(each.module, each.names) for each in body.imports if each.names and not each.level] if body else []
    for module, names in [*asked, (type(value).__module__, ())]:
        members = getattr(sys.modules.get(module), "__dict__", {})
        if module in ("builtins", *_NOTEBOOK) or user_module(module):
            continue
        for attribute in (name, *names) if names else members:
            if members.get(attribute, MISSING) is value:
                return f"{module}:{attribute}"
    return ""


def alike(name: str, value: object, body: Body | None) -> tuple[str, str] | None:
    """Where a module has a function that does not say so itself (a decorated one, a lambda), and what it is.

    A call may have put it there, and nobody makes that again: it is saved as well, and the copy is bound where the
    module has something else.
    """
    if not callable(value) or _kind(value).startswith(_NOTEBOOK):
        return None
    where = _in_module(told(value, "__module__"), name, value) or _of_library(name, value, body)
    return (where, _kind(value)) if where else None


def _kind(value: object, inside: int = 3) -> str:
    """What a function is, but for the attributes that count how it is used."""
    if isinstance(value, types.FunctionType):
        held = [each.cell_contents for each in value.__closure__ or () if is_filled(each)]
        held += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        inner = [_kind(each, inside - 1) for each in held] if inside else []
        return f"{home(value)} {value.__qualname__} {digest(code_form(value.__code__))} {inner}"
    name = told(value, "__qualname__")
    return f"{qualified(type(value))} {name or (repr(value) if is_atom(value) else '')}"


def _is_native(kind: type) -> bool:
    """Callables of extension modules (numpy's ufuncs), and cached functions."""
    return not kind.__flags__ & (1 << 9)  # a static type: made in C


def _in_module(module: object, path: object, value: object) -> str:
    if not isinstance(module, str) or not isinstance(path, str) or module in _NOTEBOOK:
        return ""
    found: object = sys.modules.get(module, MISSING)
    for part in path.split("."):
        found = getattr(found, part, MISSING)
    return f"{module}:{path}" if found is value else ""


def _anywhere(name: object, value: object) -> str:
    """Bound methods of a module's hidden instance (``random.random``) do not say where they are from."""
    if not isinstance(name, str) or isinstance(value, types.FunctionType):
        return ""
    for module_name, module in list(sys.modules.items()):
        if module_name not in _NOTEBOOK and getattr(module, "__dict__", {}).get(name, MISSING) is value:
            return f"{module_name}:{name}"
    return ""


def submodules(body: Body, variables: Mapping[str, object], before: Collection[str]) -> dict[str, str]:
    """``import a.b`` binds only ``a``: the modules so named, and those loaded since ``before`` in a bound package.

    Their keys have a dot, which says that nothing is bound.
    """
    packages = {value.__name__ for value in variables.values() if isinstance(value, types.ModuleType)}
    named = {name for name in _IMPORTED.findall(body.normal) if name in sys.modules}
    loaded = {
        name
        for name in sys.modules.keys() - set(before)
        if any(name.startswith(f"{package}.") for package in packages)
        and not any(part.startswith("_") for part in name.split("."))
    }
    return {name: name for name in sorted(named | loaded)}


def load(where: str) -> Any:
    """What ``origin`` described. Raises ``NotSaved`` where it cannot be imported any more."""
    module, _, path = where.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in filter(None, path.split(".")):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise NotSaved(f"{where.replace(':', '.')} cannot be imported again: {error}", path=where) from error
    return found


def again(manifest: Manifest) -> dict[str, Any]:
    """What a step had imported, by name. Raises ``NotSaved`` where it is gone."""
    found = {name: load(where) for name, where in manifest.imports.items() if "." not in name}
    for name, (where, kind) in manifest.alike.items():
        with contextlib.suppress(NotSaved):
            value = load(where)
            if _kind(value) == kind:
                found[name] = value
    for name in filter(lambda each: "." in each, manifest.imports):
        with contextlib.suppress(NotSaved):  # a submodule that is gone is missed where it is used
            load(name)
    return found
