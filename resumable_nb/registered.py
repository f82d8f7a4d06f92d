"""What code registers with the IPython shell: extensions, magics, callbacks, transformers, printers of types."""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

Values = dict[str, Any]

_SYSTEM: Final = frozenset(
    {"IPython", "ipykernel", "ipywidgets", "matplotlib", "matplotlib_inline", "resumable_nb", "traitlets"}
)
"""The shell's own packages, and those that register with it when they are imported or first draw."""
_LISTS: Final = ("input_transformers_cleanup", "input_transformers_post", "ast_transformers")
_EXTENSION: Final = "extension "
_EVENT: Final = "callback of "
_PRINTER: Final = "printer of "
_SIGNS: Final = {"line": "%", "cell": "%%"}


class Foreign:
    """Something that only its own call can register again: it may be tied to what else that call has set up."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Foreign) and bool(self.thing == other.thing)

    def __hash__(self) -> int:
        return hash(self.thing)

    def __reduce__(self) -> str:
        raise TypeError(f"{_said(self.thing)} is registered with the shell")


def read() -> Values:
    """All that is neither the shell's own nor an extension's."""
    shell = _shell()
    if shell is None:
        return {}
    loaded = [each for each in shell.extension_manager.loaded if each.partition(".")[0] not in _SYSTEM]
    usual = _SYSTEM | {each.partition(".")[0] for each in loaded}
    found: Values = {_EXTENSION + each: True for each in sorted(loaded)}
    for key, thing in _entries(shell):
        if package(thing) not in usual:
            found[key] = thing if _is_plain(thing) else Foreign(thing)
    return found


def write(put: Values, gone: Iterable[str]) -> None:
    """Register these, and take the names out."""
    shell = _shell()
    if shell is None:
        return
    there = dict(_entries(shell))
    for key in gone:
        _take_out(shell, key, there.get(key))
    for key, value in put.items():
        thing = value.thing if isinstance(value, Foreign) else _living(shell, value)
        if key in there and there[key] is thing:
            continue
        _take_out(shell, key, there.get(key))
        _put_in(shell, key, thing)


def magics(names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Of these magics those that are not the shell's own: name to what it calls."""
    shell = _shell()
    known: Mapping[str, Mapping[str, Any]] = shell.magics_manager.magics if shell is not None else {}
    for name in sorted(names):
        for kind, sign in _SIGNS.items():
            thing = known.get(kind, {}).get(name)
            if thing is not None and package(thing) not in _SYSTEM:
                yield sign + name, thing


def functions(values: Values) -> list[types.FunctionType]:
    """The functions of the notebook among these: the shell may call them whenever it likes."""
    return [each for each in values.values() if isinstance(each, types.FunctionType)]


def _living(shell: Any, thing: Any) -> Any:
    """The variable that a function was: it may be taken away by its name."""
    found = shell.user_ns.get(getattr(thing, "__name__", ""))
    same = isinstance(found, types.FunctionType) and found.__code__ == thing.__code__
    return found if same else thing


def _shell() -> Any:
    ask = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return ask() if ask is not None else None


def _entries(shell: Any) -> Iterator[tuple[str, Any]]:
    for kind, sign in _SIGNS.items():
        for name, thing in shell.magics_manager.magics[kind].items():
            yield sign + name, thing
    for event, callbacks in shell.events.callbacks.items():
        for thing in callbacks:
            yield f"{_EVENT}{event}: {_said(thing)}", thing
    for place in _LISTS:
        for thing in getattr(shell, place):
            yield f"{place}: {_said(thing)}", thing
    if shell.custom_exceptions:
        yield "handler of errors", shell.CustomTB
    for name, formatter in _formatters(shell):
        for kind, thing in formatter.type_printers.items():
            yield f"{_PRINTER}{kind.__module__}:{kind.__qualname__} as {name}", thing
        for (module, kind), thing in formatter.deferred_printers.items():
            yield f"{_PRINTER}{module}:{kind} as {name}", thing


def _formatters(shell: Any) -> Iterator[tuple[str, Any]]:
    display = shell.display_formatter
    yield from display.formatters.items()
    for name in ("ipython_display_formatter", "mimebundle_formatter"):
        if (formatter := getattr(display, name, None)) is not None:
            yield name, formatter


def _put_in(shell: Any, key: str, thing: Any) -> None:
    if key.startswith(_EXTENSION):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):  # what misses it says so
            shell.extension_manager.load_extension(key.removeprefix(_EXTENSION))
    elif key.startswith(_EVENT):
        event = key.removeprefix(_EVENT).partition(":")[0]
        if event in shell.events.callbacks:
            shell.events.register(event, thing)
    elif key.startswith(_PRINTER):
        kind, _, name = key.removeprefix(_PRINTER).partition(" as ")
        module, _, path = kind.partition(":")
        if (formatter := dict(_formatters(shell)).get(name)) is not None:
            formatter.for_type_by_name(module, path, thing)
    elif key.startswith("%"):
        kind = "cell" if key.startswith("%%") else "line"
        shell.magics_manager.magics[kind][key.lstrip("%")] = thing
    elif (place := key.partition(":")[0]) in _LISTS:
        getattr(shell, place).append(thing)


def _take_out(shell: Any, key: str, thing: Any) -> None:
    """``thing`` is what is there now, or ``None``."""
    if key.startswith(_EXTENSION):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            shell.extension_manager.unload_extension(key.removeprefix(_EXTENSION))
    elif thing is None:
        return
    elif key.startswith(_EVENT):
        shell.events.unregister(key.removeprefix(_EVENT).partition(":")[0], thing)
    elif key.startswith(_PRINTER):
        for _, formatter in _formatters(shell):
            for known in (formatter.type_printers, formatter.deferred_printers):
                for kind in [each for each, printer in known.items() if printer is thing]:
                    del known[kind]
    elif key.startswith("%"):
        del shell.magics_manager.magics["cell" if key.startswith("%%") else "line"][key.lstrip("%")]
    elif (place := key.partition(":")[0]) in _LISTS:
        getattr(shell, place).remove(thing)


def _function(thing: Any) -> Any:
    """What is behind partials and bound methods."""
    while isinstance(thing, functools.partial | types.MethodType):
        thing = thing.func if isinstance(thing, functools.partial) else thing.__func__
    return thing


def package(thing: Any) -> str:
    """The root of the module that a function or object is from."""
    owner = type(thing.__self__) if isinstance(thing, types.MethodType) else _function(thing)
    module = getattr(owner, "__module__", None)
    if not isinstance(module, str):
        module = type(thing).__module__
    return module.partition(".")[0]


def _said(thing: Any) -> str:
    found = _function(thing)
    name = getattr(found, "__qualname__", None) or type(found).__qualname__
    return f"{getattr(found, '__module__', None) or type(found).__module__}.{name}"


def _is_plain(thing: Any) -> bool:
    """A function of the notebook that is its code, and nothing that it shares with others."""
    if not isinstance(thing, types.FunctionType) or thing.__module__ != "__main__":
        return False
    return not (thing.__closure__ or thing.__defaults__ or thing.__kwdefaults__ or vars(thing))
