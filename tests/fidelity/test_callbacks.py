"""Widgets and what they call: none of it can be saved, and each step makes again what it had made and changed."""

from __future__ import annotations

import pytest

from tests.fidelity.test_unsaved import twice
from tests.rows import Seeds, restored

pytestmark = pytest.mark.kernel

WIDGETS = "import ipywidgets as widgets"
SLIDER = ("log, limit = [], 3", "def changed(change): log.append((change['new'], limit))")
CASES = {
    "an observer, and what later steps set": [
        *SLIDER,
        "w = widgets.IntSlider(value=1, max=10)\nw.observe(changed, names='value')",
        "w.value = 5",
        "limit = 4\nw.value = 6",
        "assert w.value == 6 and log == [(5, 3), (6, 4)]\nw.value = 7\nassert log[-1] == (7, 4)",
    ],
    "an observer that a later step puts there": [
        *SLIDER,
        "w = widgets.IntSlider(value=1, max=10)",
        "w.observe(changed, names='value')",
        "w.value = 5",
        "assert log == [(5, 3)]\nw.value = 7\nassert log[-1] == (7, 3)",
    ],
    "a part of a widget that a later step changes": [
        "scale = 10",
        "def f(x, y=2): return scale * x + y",
        "made = widgets.interactive(f, x=(0, 10), y=widgets.fixed(3))",
        "made.children[0].value = 4\nmade.update()",
        "assert (made.result, made.kwargs) == (43, {'x': 4, 'y': 3})\nscale = 11\nmade.update()\nassert made.result == 47",
    ],
    "widgets that are linked, and lie in a box": [
        "a = widgets.IntSlider(value=1)",
        "b = widgets.IntText()",
        "link = widgets.link((a, 'value'), (b, 'value'))",
        "box = widgets.VBox([a, b])",
        "a.value = 3",
        "assert box.children[0] is a is link.source[0] and b.value == 3\na.value = 4\nassert b.value == 4",
    ],
    "a button that is clicked": [
        "calls = []",
        "button = widgets.Button()\n@button.on_click\ndef clicked(b): calls.append(len(calls))",
        "button.click()",
        "button.click()",
        "assert calls == [0, 1]\nbutton.click()\nassert calls == [0, 1, 2]",
    ],
}


@pytest.mark.parametrize("cells", CASES.values(), ids=CASES)
def test_widgets_do_what_they_did(seeds: Seeds, cells: list[str]) -> None:
    """A kernel is killed after each step."""
    *cells, check = cells
    steps = [f"%%resumable s{number}\n{cell}" for number, cell in enumerate(cells)]
    for done in range(len(steps)):
        kernel = seeds()
        kernel(WIDGETS)
        shown = [kernel(step) for step in steps[: done + 1]]
        assert all(map(restored, shown[:done])), done
    kernel(check)
    twice(seeds, WIDGETS, *steps, check)


def test_what_a_widget_calls_counts_for_who_changes_the_widget(seeds: Seeds) -> None:
    """``limit`` is named by the callback alone, and set between the steps."""
    make = "%%resumable make\nlog = []\ndef changed(change): log.append((change['new'], limit))\nw = widgets.IntSlider()\nw.observe(changed, names='value')"
    cells = [WIDGETS, "limit = 1", make, "limit = {}", "%%resumable set\nw.value = 5", "assert log == [(5, {})]"]
    for limit in (2, 3):
        seeds().run_all([each.replace("{}", str(limit)) for each in cells])
    assert not seeds().run_all([each.replace("{}", "4") for each in cells])[-1].error
