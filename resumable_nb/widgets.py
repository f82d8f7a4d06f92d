"""Objects that are one with their kernel: widgets, and the machinery that shows them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
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
