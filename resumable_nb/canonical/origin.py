"""Whose code is it: the user's, or a library's?"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import site
import sys
import sysconfig
import types
import warnings
from pathlib import Path
from typing import Any, Final

from resumable_nb.attributes import told

_OURS = __name__.partition(".")[0]


def user_module(module: types.ModuleType | str | None) -> bool:
    """Whether a module is the user's own: the notebook, or one outside the standard library and site-packages.

    A module that is not loaded is looked for, and not imported.
    """
    name = module if isinstance(module, str) else getattr(module, "__name__", None)
    if not isinstance(name, str) or not name:
        return False
    if name in ("__main__", "__mp_main__"):
        return True
    if name.partition(".")[0] in _not_users():
        return False
    loaded = sys.modules.get(name) if isinstance(module, str) else module
    if isinstance(loaded, types.ModuleType):
        return _is_users(loaded)
    return _is_users_file(_spec_file(name))


def module_named(name: object) -> types.ModuleType | None:
    """The module that a function or class says it is of: as pickle does, imported now where its package is loaded.

    Packages load some of their parts when they are asked for (``numpy.rec``), and what is in them is at hand before.
    """
    if not isinstance(name, str):
        return None
    found = sys.modules.get(name)
    if found is None and (parent := sys.modules.get(name.rpartition(".")[0])) is not None and not user_module(parent):
        return _part(name)
    return found


@functools.cache
def _part(name: str) -> types.ModuleType | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except Exception:  # it only says that it is of a module
            return None


_MOVED: Final = {"pathlib._local": "pathlib"}
"""Where a Python version says that a class lies elsewhere: an upgrade must not make other calls of the same ones."""


def qualified(thing: Any) -> str:
    """``module.name`` of a function, class or module."""
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    name = told(thing, "__qualname__") or told(thing, "__name__") or type(thing).__qualname__
    module = told(thing, "__module__") or ""
    return f"{_MOVED.get(module, module)}.{name}"


def home(function: types.FunctionType) -> str:
    """Name of the module that a function's code stands in. ``__module__`` may be that of what it wraps.

    What a library has made of a file of its own (a template) stands in none, and is no code of the user's.
    """
    name = function.__globals__.get("__name__")
    if isinstance(name, str):
        return name
    path = function.__code__.co_filename
    return "__main__" if not Path(path).is_absolute() or _is_users_file(path) else "builtins"


def is_ours(module: str) -> bool:
    """Whether a module is of this package."""
    return module.partition(".")[0] == _OURS


@functools.cache
def _not_users() -> frozenset[str]:
    return frozenset(sys.builtin_module_names) | sys.stdlib_module_names | {_OURS}


def _is_users(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return _is_users_file(file)
    paths = list(getattr(module, "__path__", ()))
    if paths:
        return _is_users_file(str(paths[0]))
    root = sys.modules.get(module.__name__.partition(".")[0])
    # Made at run time: by its root package, or by the user
    return root is None or root is module or _is_users(root)


def _spec_file(name: str) -> str:
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
    except (ImportError, AttributeError, ValueError):
        return ""
    if spec is None:
        return ""
    return next(iter(spec.submodule_search_locations or ()), "") if spec.origin is None else spec.origin


@functools.lru_cache(maxsize=4096)
def _is_users_file(file: str) -> bool:
    if not file or file in ("built-in", "frozen"):
        return False
    path = Path(os.path.realpath(file))
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in _library_folders())


@functools.cache
def _library_folders() -> tuple[Path, ...]:
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {str(Path(prefix) / "lib") for prefix in (sys.prefix, sys.base_prefix)}
    found |= {site.getusersitepackages(), *getattr(site, "getsitepackages", list)()}
    return tuple(Path(os.path.realpath(each)) for each in found if each)
