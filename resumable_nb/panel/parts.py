"""The widgets of the panel, each with the one way in which it is made: labelled, styled by class, in tab order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import ipywidgets

Widget = Any
"""ipywidgets carries no types."""


def text(*classes: str) -> Widget:
    """A place for HTML."""
    return _classed(ipywidgets.HTML(), "rnb-fill", *classes)


def button(label: str, act: Callable[[], None], *classes: str, title: str = "") -> Widget:
    made = ipywidgets.Button(description=label, tooltip=title)
    made.on_click(lambda _button: act())
    return _classed(made, *classes)


def field(label: str, placeholder: str, changed: Callable[[], None] | None = None) -> Widget:
    """A line to write in."""
    made = ipywidgets.Text(description=label, placeholder=placeholder, style={"description_width": "auto"})
    if changed is not None:
        made.observe(lambda _change: changed(), "value")
    return made


def choice(label: str, options: Iterable[tuple[str, Any]], changed: Callable[[], None]) -> Widget:
    made = ipywidgets.Dropdown(description=label, options=list(options), style={"description_width": "auto"})
    made.observe(lambda _change: changed(), "value")
    return made


def row(children: Iterable[Widget], *classes: str) -> Widget:
    return _classed(ipywidgets.HBox(list(children)), *(classes or ("rnb-bar",)))


def column(children: Iterable[Widget], *classes: str) -> Widget:
    return _classed(ipywidgets.VBox(list(children)), *classes)


def put(widget: Widget, **values: Any) -> None:
    """Set what differs: what is equal costs no message."""
    for name, value in values.items():
        if getattr(widget, name) != value:
            setattr(widget, name, value)


def hide(widget: Widget, hidden: bool) -> None:
    mark(widget, "rnb-hidden", hidden)


def mark(widget: Widget, name: str, on: bool) -> None:
    """Give it the class, or take it away."""
    if on and name not in widget._dom_classes:
        widget.add_class(name)
    elif not on and name in widget._dom_classes:
        widget.remove_class(name)


OURS: Final = ("_dom_classes", "description", "disabled", "tooltip", "_options_labels", "index")


def again(widget: Widget) -> None:
    """Send once more what the kernel decides. Not what somebody may be writing in a field."""
    names = [*OURS, "value"] if isinstance(widget, ipywidgets.HTML) else OURS
    widget.send_state([name for name in names if name in widget.keys])


def every(widget: Widget) -> Iterable[Widget]:
    """The widget and all in it."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from every(child)


def close(widget: Widget) -> None:
    """Close it and all in it, with what says how they look: ipywidgets and the page keep each until then."""
    for each in [*every(widget)]:
        looks = [
            look for name in ("layout", "style") if isinstance(look := getattr(each, name, None), ipywidgets.Widget)
        ]
        for part in (each, *looks):
            part.close()


def _classed(widget: Widget, *classes: str) -> Widget:
    for each in classes:
        widget.add_class(each)
    return widget
