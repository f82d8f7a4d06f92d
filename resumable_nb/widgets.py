"""Objects that are one with their kernel: widgets, and the machinery that shows them."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

WIDGET: Final = "application/vnd.jupyter.widget-view+json"
"""The form of a display that names a widget's model, which is gone when its kernel is."""

_TIED: Final = frozenset(
    {
        ("ipywidgets.widgets.widget", "Widget"), ("comm.base_comm", "BaseComm"), ("comm.base_comm", "CommManager"),
        ("traitlets.config.configurable", "Configurable"),
    }
)  # fmt: skip
_SHELL: Final = ("IPython.core.interactiveshell", "InteractiveShell")


def is_shell(kind: type) -> bool:
    """Whether ``get_ipython()`` returns such an object."""
    return _SHELL in _names(kind)


def is_tied(kind: type) -> bool:
    """Whether such an object is a part of this process and no other, and leads to all the rest of it."""
    return not _TIED.isdisjoint(_names(kind))


def _names(kind: type) -> list[tuple[str, str]]:
    return [(each.__module__, each.__name__) for each in kind.__mro__]


def model(data: Mapping[str, Any]) -> Any:
    """The widget that a display shows; ``None`` for none, and for one that is gone."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    view = data.get(WIDGET)
    return getattr(module, "_instances", {}).get(view.get("model_id")) if isinstance(view, Mapping) else None


def is_capturing() -> bool:
    """Whether what is shown now goes into an ``Output`` widget, and not below the cell. Asked at each ``write``."""
    kind = getattr(sys.modules.get("ipywidgets.widgets.widget_output"), "Output", None)
    if kind is None:
        return False
    instances = getattr(sys.modules.get("ipywidgets.widgets.widget"), "_instances", {})
    mark = len(instances), next(reversed(instances), None)  # a new widget is the last one
    if _outputs.mark != mark:
        _outputs.mark, _outputs.found = mark, [each for each in [*instances.values()] if isinstance(each, kind)]
    return any(each.msg_id for each in _outputs.found)


class _Outputs:
    mark: tuple[int, Any] = (0, None)
    found: Sequence[Any] = ()


_outputs: Final = _Outputs()


def state_of(thing: Any) -> str:
    """What a front end sees of a widget, with other widgets by their names; empty for anything else."""
    if not is_tied(type(thing)) or not hasattr(thing, "get_state"):
        return ""
    try:
        return repr(sorted(thing.get_state().items()))
    except Exception:  # any code may stand behind a trait
        return ""


def parts_of(thing: Any) -> list[Any]:
    """What a widget holds beside what a front end sees of it: other widgets, what is to be called, its attributes.

    Empty for anything else, and for what else is one with its kernel.
    """
    if not is_tied(type(thing)) or not hasattr(thing, "get_state"):
        return []
    own = vars(thing)
    traits = own.get(_TRAITS, {})
    seen = [traits[name] for name in traits.get("keys", ()) if name in traits]
    return [*seen, *(value for name, value in own.items() if name != _TRAITS)]


_TRAITS: Final = "_trait_values"
_FEW: Final = 10_000


def functions_of(thing: Any) -> Iterator[types.FunctionType]:
    """The functions that a widget calls when it changes or is clicked, and those of the widgets in it."""
    todo, seen = [thing], {id(thing)}
    while todo and len(seen) < _FEW:
        each = todo.pop()
        inner: list[Any] = []
        match each:
            case types.FunctionType():
                yield each
            case types.MethodType():
                inner = [each.__self__, each.__func__]
            case functools.partial():
                inner = [each.func, *each.args, *each.keywords.values()]
            case dict():
                inner = [*each.values()]
            case list() | tuple() | set():
                inner = [*each]
            case _ if is_tied(type(each)):
                inner = parts_of(each)
            case _ if (type(each).__module__, type(each).__name__) in _CALLING:
                inner = [*vars(each).values()]
        inner = [part for part in inner if id(part) not in seen]
        seen.update(map(id, inner))
        todo += inner


_CALLING: Final = frozenset(
    {("ipywidgets.widgets.widget", "CallbackDispatcher")}
    | {("traitlets.traitlets", "link"), ("traitlets.traitlets", "directional_link")}
)
"""Objects of the libraries that know what to call."""
