"""Where a process has settings outside its variables: plot styles, display options, warning filters, search paths.

Each facet reads and writes its part as a flat mapping.
"""

from __future__ import annotations

import contextlib
import copy
import decimal
import importlib
import locale
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from resumable_nb import registered

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Facet:
    """One library's settings. ``read`` and ``write`` are called only while ``module`` is loaded."""

    module: str
    read: Callable[[], Values]
    write: Callable[[Values, Iterable[str]], None]
    """Set these, and remove the names."""
    default: Callable[[], Values] | None = None
    """What holds before anybody changes it, where the library tells."""
    early: bool = False
    """Imports depend on it, so it is set at once."""
    late: bool = False
    """It may take variables, so it is set when those are there."""


def _plain(value: Any) -> Any:
    """A value that a later change in place does not reach."""
    return copy.copy(value) if isinstance(value, list | dict | set) else value


# --- Python's own


def _environment() -> Values:
    return dict(os.environ)


def _set_environment(put: Values, gone: Iterable[str]) -> None:
    os.environ.update(put)
    for name in gone:
        os.environ.pop(name, None)


_LIBRARY: Final = str(Path(os.__file__).parent)


def _paths() -> Values:
    """Entry to whether it stands before the standard library or behind it: indexes move when another one comes."""
    middle = sys.path.index(_LIBRARY) if _LIBRARY in sys.path else len(sys.path)
    return {entry: place < middle for place, entry in enumerate(sys.path) if isinstance(entry, str)}


def _set_paths(put: Values, gone: Iterable[str]) -> None:
    """Entries that are there already stay where they are."""
    new = [entry for entry in put if entry not in sys.path]
    sys.path[:0] = [entry for entry in new if put[entry]]
    sys.path += [entry for entry in new if not put[entry]]
    for entry in gone:
        with contextlib.suppress(ValueError):
            sys.path.remove(entry)


def _folder() -> Values:
    return {"folder": str(Path.cwd())}


def _set_folder(put: Values, _gone: Iterable[str]) -> None:
    for folder in put.values():
        with contextlib.suppress(OSError):  # it is missed where a file is opened
            os.chdir(folder)


def _filters() -> Values:
    """In order; the first one counts, so being first is a part of it."""
    return {repr(each): (each, place == 0) for place, each in enumerate(warnings.filters)}


def _set_filters(put: Values, gone: Iterable[str]) -> None:
    """Imports add filters too: those that nobody speaks of stay, behind."""
    rest = [each for each in warnings.filters if repr(each) not in put and repr(each) not in gone]
    warnings.filters[:] = [*(each for each, _ in put.values()), *rest]  # type: ignore[index]  # a list in fact
    getattr(warnings, "_filters_mutated", getattr(warnings, "_filters_mutated_lock_held", lambda: None))()


_DECIMAL: Final = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def _decimals() -> Values:
    return _decimal_values(decimal.getcontext())


def _decimal_values(context: decimal.Context) -> Values:
    return {name: getattr(context, name) for name in _DECIMAL}


def _set_decimals(put: Values, _gone: Iterable[str]) -> None:
    for name, value in put.items():
        setattr(decimal.getcontext(), name, value)


def _locale() -> Values:
    return {"locale": locale.setlocale(locale.LC_ALL)}


def _set_locale(put: Values, _gone: Iterable[str]) -> None:
    for name in put.values():
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_ALL, name)


def _levels() -> Values:
    loggers: Mapping[str, object] = logging.Logger.manager.loggerDict
    found: Values = {"": logging.root.level}
    found |= {name: each.level for name, each in loggers.items() if isinstance(each, logging.Logger) and each.level}
    return found


def _set_levels(put: Values, gone: Iterable[str]) -> None:
    for name in gone:
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in put.items():
        logging.getLogger(name or None).setLevel(level)


def _handlers() -> Values:
    """Of the root logger those that ``logging.basicConfig`` makes; no other can be made again from outside."""
    found: Values = {}
    for handler in logging.root.handlers:
        described = _described(handler)
        if described is not None:
            found[repr(described)] = described
    return found


def _described(handler: logging.Handler) -> tuple[str, str, str, int, str | None, str | None] | None:
    formatter = handler.formatter
    if type(formatter) not in (type(None), logging.Formatter):
        return None
    text = getattr(formatter, "_fmt", None), getattr(formatter, "datefmt", None)
    if type(handler) is logging.StreamHandler:
        stream = "stderr" if handler.stream is sys.stderr else "stdout" if handler.stream is sys.stdout else ""
        return ("stream", stream, "", handler.level, *text) if stream else None
    if type(handler) is logging.FileHandler:
        return ("file", handler.baseFilename, handler.encoding or "", handler.level, *text)
    return None


def _set_handlers(put: Values, gone: Iterable[str]) -> None:
    there = {repr(_described(handler)): handler for handler in logging.root.handlers}
    for name in gone:
        if name in there:
            logging.root.removeHandler(there[name])
    for name, (kind, where, encoding, level, text, date) in put.items():
        if name in there:
            continue
        handler: logging.Handler = (
            logging.StreamHandler(getattr(sys, where))
            if kind == "stream"
            else logging.FileHandler(where, "a", encoding or None, delay=True)
        )
        handler.setLevel(level)
        if text is not None:
            handler.setFormatter(logging.Formatter(text, date))
        logging.root.addHandler(handler)


def _limits() -> Values:
    return {"recursion": sys.getrecursionlimit()}


def _set_limits(put: Values, _gone: Iterable[str]) -> None:
    sys.setrecursionlimit(max(put.values()))


# --- libraries


BACKEND: Final = frozenset(
    ("backend", "backend_fallback", "interactive", "toolbar", "datapath", "interpreter", "webagg.port")
)
"""What a front end, not a user, decides."""


_COLOUR: Final = "colour "
"""Before the letter of a colour (``r``): its meaning can be changed, too."""


def _plots() -> Values:
    matplotlib: Any = sys.modules["matplotlib"]
    named = importlib.import_module("matplotlib.colors").get_named_colors_mapping()
    return _styles(matplotlib.rcParams) | {_COLOUR + code: tuple(named[code]) for code in _base_colours()}


def _default_plots() -> Values:
    matplotlib: Any = sys.modules["matplotlib"]
    return _styles(matplotlib.rcParamsOrig) | {_COLOUR + code: value for code, value in _base_colours().items()}


def _base_colours() -> Values:
    return importlib.import_module("matplotlib.colors").BASE_COLORS  # type: ignore[no-any-return]  # a library that may be missing


def _styles(params: dict[str, Any]) -> Values:
    """Past the mapping's own look-up, which would choose a backend."""
    return {key: _plain(value) for key, value in dict.items(params) if key not in BACKEND}


def _set_plots(put: Values, _gone: Iterable[str]) -> None:
    matplotlib: Any = sys.modules["matplotlib"]
    named = importlib.import_module("matplotlib.colors").get_named_colors_mapping()
    for key, value in put.items():
        if key.startswith(_COLOUR):
            named[key.removeprefix(_COLOUR)] = value
        elif key in matplotlib.rcParams:
            dict.__setitem__(matplotlib.rcParams, key, _plain(value))


_CHOSEN: Final = "backend chosen"
"""The first drawing chooses one, which may set more: in Jupyter, that figures are shown by themselves."""


def _drawing() -> Values:
    return {_CHOSEN: getattr(sys.modules["matplotlib.pyplot"], "_backend_mod", None) is not None}


def _set_drawing(put: Values, _gone: Iterable[str]) -> None:
    """The front end of now decides which one. It cannot be taken back."""
    if put.get(_CHOSEN) and not _drawing()[_CHOSEN]:
        with contextlib.suppress(Exception):  # what draws next says so
            sys.modules["matplotlib.pyplot"].draw_if_interactive()  # there is no figure yet


def _options() -> Values:
    pandas: Any = sys.modules["pandas"]
    return {key: _plain(pandas.get_option(key)) for key in _option_names()}


def _default_options() -> Values:
    registered = importlib.import_module("pandas._config.config")._registered_options
    return {key: registered[key].defval for key in _option_names()}


def _option_names() -> list[str]:
    config = importlib.import_module("pandas._config.config")
    old = config._deprecated_options
    return [key for key in config._registered_options if key not in old]


def _set_options(put: Values, _gone: Iterable[str]) -> None:
    pandas: Any = sys.modules["pandas"]
    for key, value in put.items():
        with contextlib.suppress(Exception):  # a name of another version
            pandas.set_option(key, value)


_PRINTING: Final[Values] = {
    "edgeitems": 3,
    "threshold": 1000,
    "floatmode": "maxprec",
    "precision": 8,
    "suppress": False,
    "linewidth": 75,
    "nanstr": "nan",
    "infstr": "inf",
    "sign": "-",
    "formatter": None,
    "legacy": False,
}
_ERRORS: Final = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


def _arrays() -> Values:
    numpy: Any = sys.modules["numpy"]
    shown = {key: _plain(value) for key, value in numpy.get_printoptions().items() if key in _PRINTING}
    return {**shown, **numpy.geterr()}


def _set_arrays(put: Values, _gone: Iterable[str]) -> None:
    numpy: Any = sys.modules["numpy"]
    numpy.set_printoptions(**{key: value for key, value in put.items() if key in _PRINTING})
    numpy.seterr(**{key: value for key, value in put.items() if key in _ERRORS})


def _models() -> Values:
    return dict(sys.modules["sklearn"].get_config())


def _default_models() -> Values:
    return dict(importlib.import_module("sklearn._config")._global_config)  # each thread changes a copy


def _set_models(put: Values, _gone: Iterable[str]) -> None:
    sys.modules["sklearn"].set_config(**_differing(put, _models()))


def _labels() -> Values:
    return dict(sys.modules["xarray"].get_options())


def _set_labels(put: Values, _gone: Iterable[str]) -> None:
    sys.modules["xarray"].set_options(**_differing(put, _labels()))


def _differing(put: Values, now: Values) -> Values:
    """What is to be set: an option that goes out of use warns when it is, and one that is gone is an error."""
    return {key: value for key, value in put.items() if key in now and now[key] != value}


def _tensors() -> Values:
    torch: Any = sys.modules["torch"]
    return {
        "default dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def _default_tensors() -> Values:
    return {"default dtype": sys.modules["torch"].float32, "gradients": True, "deterministic": False}


def _set_tensors(put: Values, _gone: Iterable[str]) -> None:
    torch: Any = sys.modules["torch"]
    setters = {
        "default dtype": torch.set_default_dtype,
        "gradients": torch.set_grad_enabled,
        "deterministic": torch.use_deterministic_algorithms,
    }
    for key, value in put.items():
        setters[key](value)


FACETS: Final[dict[str, Facet]] = {
    "environment": Facet("os", _environment, _set_environment, early=True),
    "import path": Facet("sys", _paths, _set_paths, early=True),
    "working folder": Facet("os", _folder, _set_folder, early=True),
    "warning filters": Facet("warnings", _filters, _set_filters),
    "decimal": Facet("decimal", _decimals, _set_decimals, lambda: _decimal_values(decimal.DefaultContext)),
    "locale": Facet("locale", _locale, _set_locale),
    "log levels": Facet("logging", _levels, _set_levels),
    "log handlers": Facet("logging", _handlers, _set_handlers),
    "limits": Facet("sys", _limits, _set_limits),
    "matplotlib": Facet("matplotlib", _plots, _set_plots, _default_plots),
    "drawing": Facet("matplotlib.pyplot", _drawing, _set_drawing, lambda: {_CHOSEN: False}),
    "pandas": Facet("pandas", _options, _set_options, _default_options),
    "numpy": Facet("numpy", _arrays, _set_arrays, lambda: {**_PRINTING, **_ERRORS}),
    "sklearn": Facet("sklearn", _models, _set_models, _default_models),
    "xarray": Facet("xarray", _labels, _set_labels),
    "torch": Facet("torch", _tensors, _set_tensors, _default_tensors),
    "the shell": Facet("IPython", registered.read, registered.write, late=True),
}
