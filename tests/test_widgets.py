"""Widgets and the shell: not saved, told apart, and shown as their text when they are gone."""

from __future__ import annotations

import ipywidgets
import pytest
from IPython.core.interactiveshell import InteractiveShell

from resumable_nb.canonical import fingerprint
from resumable_nb.codec import Codec
from resumable_nb.errors import NoContent, NotSaved
from resumable_nb.output import Recorder, replay
from resumable_nb.widgets import WIDGET


def test_a_widget_is_refused_at_once() -> None:
    with pytest.raises(NotSaved, match=r"'a'\]: .* 'IntSlider' object, which is a part of its kernel"):
        Codec({}).encode({"a": ipywidgets.IntSlider()})
    with pytest.raises(NoContent):
        fingerprint(ipywidgets.IntSlider())


def test_a_change_of_a_widget_is_seen() -> None:
    slider, coder = ipywidgets.IntSlider(value=3), Codec({})
    before = coder.digestible(slider).stream
    assert coder.digestible(slider).stream == before
    slider.value = 4
    assert coder.digestible(slider).stream != before


def test_the_shell_is_that_of_the_process_that_reads() -> None:
    shell, coder = InteractiveShell.instance(), Codec({})
    assert coder.decode(coder.encode([shell]).stream) == [shell]
    assert fingerprint(shell) == fingerprint(shell)
    InteractiveShell.clear_instance()


def test_what_goes_into_a_widget_is_none_of_the_cells_output() -> None:
    shell, out = InteractiveShell.instance(), ipywidgets.Output()
    recorder = Recorder(shell)
    recorder.start()
    print("before")
    out.msg_id = "of the cell's request"
    print("inside")
    out.msg_id = ""
    print("after")
    outputs = recorder.stop()
    out.close()
    InteractiveShell.clear_instance()
    assert [each.get("text") for each in outputs] == ["before\nafter\n"]


def test_a_widget_that_is_gone_is_shown_as_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    shell = InteractiveShell.instance()
    data = {WIDGET: {"model_id": "of another kernel"}, "text/plain": "IntSlider(value=3)"}
    replay(shell, [{"output_type": "display_data", "data": data, "metadata": {}}])
    InteractiveShell.clear_instance()
    assert capsys.readouterr().out == "IntSlider(value=3)\n"
