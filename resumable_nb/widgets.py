"""Objects that are one with their kernel: widgets, and the machinery that shows them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

WIDGET: Final = "application/vnd.jupyter.widget-view+json"
"""The form of a display that names a widget's model, which is gone when its kernel is."""

CAPTURED: Final = "captured"
"""The kind of an output that went into a widget: that it was there is all that is kept of it."""

_TIED: Final = frozenset(
    {
        ("ipywidgets.widgets.widget", "Widget"), ("comm.base_comm", "BaseComm"), ("comm.base_comm", "CommManager"),
        ("traitlets.config.configurable", "Configurable"),
    }
)  # fmt: skip
_SHELL: Final = ("IPython.core.interactiveshell", "InteractiveShell")
_PROGRESS: Final = frozenset({"IntProgress", "FloatProgress"})
_AROUND: Final = frozenset({"HBox", "VBox", "HTML", "Label"})
"""What a progress bar is made of, with the bar."""


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
    """Whether what is shown now goes into an ``Output`` widget, and not below the cell."""
    kind = getattr(sys.modules.get("ipywidgets.widgets.widget_output"), "Output", None)
    if kind is None:
        return False
    instances = getattr(sys.modules.get("ipywidgets.widgets.widget"), "_instances", {})
    return any(isinstance(each, kind) and each.msg_id for each in [*instances.values()])


def why_replayed(outputs: Collection[Mapping[str, Any]]) -> str:
    """Why a new kernel has to run a step that showed this once more; empty for most.

    A progress bar has done its work.
    """
    for output in outputs:
        if output["output_type"] == CAPTURED:
            return "it writes into a widget"
        shown = model(output.get("data", {}))
        if shown is not None and not _is_progress(shown):
            return f"it shows a widget ({type(shown).__name__})"
    return ""


def state_of(thing: Any) -> str:
    """What a front end sees of a widget, with other widgets by their names; empty for anything else."""
    if not is_tied(type(thing)) or not hasattr(thing, "get_state"):
        return ""
    try:
        return repr(sorted(thing.get_state().items()))
    except Exception:  # any code may stand behind a trait
        return ""


def _is_progress(shown: Any) -> bool:
    kinds = [{each.__name__ for each in type(part).__mro__} for part in _parts(shown)]
    return any(kind & _PROGRESS for kind in kinds) and all(kind & (_PROGRESS | _AROUND) for kind in kinds)


def _parts(shown: Any) -> Iterator[Any]:
    yield shown
    for each in getattr(shown, "children", ()):
        yield from _parts(each)
