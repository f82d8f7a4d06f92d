"""What cells show: recorded in order while it streams live, and shown again."""

from __future__ import annotations

import io
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import nbformat
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import clear_output, display, update_display
from IPython.terminal.interactiveshell import TerminalInteractiveShell
from nbclient import NotebookClient

from resumable_nb.output import Recorder, decode, encode, replay
from resumable_nb.settle import settle
from resumable_nb.widgets import WIDGET
from tests.shells import cell, shell


@pytest.fixture(params=[TerminalInteractiveShell, InteractiveShell], ids=["terminal", "plain"])
def ip(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    with shell(request.param) as ip:
        yield ip


@pytest.fixture
def recorder(ip: Any) -> Iterator[Recorder]:
    """Not started: pytest gives a test's body other streams than its fixtures."""
    recorder = Recorder(ip)
    yield recorder
    recorder.stop()


def kinds(outputs: list[dict[str, Any]]) -> list[str]:
    return [output.get("name", output["output_type"]) for output in outputs]


def texts(outputs: list[dict[str, Any]]) -> list[str]:
    return [output["text"] if "text" in output else output["data"]["text/plain"] for output in outputs]


# ---- recorded


def test_order_is_kept_and_neighbours_merge(ip: Any, recorder: Recorder) -> None:
    recorder.start()
    cell(
        ip,
        "import sys\nfrom IPython.display import display\nprint('a')\nprint('b', file=sys.stderr)\n"
        "print('c', file=sys.stderr)\ndisplay({'d': 1})\nsys.stdout.writelines(['e', 'f\\n'])\nprint()\n5",
    )
    outputs = recorder.stop()
    assert kinds(outputs) == ["stdout", "stderr", "display_data", "stdout", "execute_result"]
    assert texts(outputs) == ["a\n", "b\nc\n", "{'d': 1}", "ef\n\n", "5"]


def test_everything_is_shown_live(ip: Any, recorder: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    recorder.start()
    for number in range(3):
        print(number)
        assert capsys.readouterr().out == f"{number}\n"


def test_display_is_not_recorded_twice(ip: Any, recorder: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    """A terminal prints what is published."""
    recorder.start()
    display("x")
    assert capsys.readouterr().out == "'x'\n"
    assert texts(recorder.stop()) == ["'x'"]


def test_bytes_and_odd_metadata_become_plain(ip: Any, recorder: Recorder) -> None:
    recorder.start()
    ip.display_pub.publish(
        {"image/png": b"\x89PNG", "text/plain": "p"}, {"a": {1: object, "b": (1, None, np.int64(2))}}
    )
    (output,) = recorder.stop()
    assert output["data"] == {"image/png": "iVBORw==", "text/plain": "p"}
    assert output["metadata"] == {"a": {"1": "<class 'object'>", "b": [1, None, 2]}}


def test_what_was_shown_is_not_changed_later(ip: Any, recorder: Recorder) -> None:
    recorder.start()
    bundle = {"application/json": {"x": [1]}}
    ip.display_pub.publish(bundle)
    bundle["application/json"]["x"].append(2)
    assert recorder.stop()[0]["data"] == {"application/json": {"x": [1]}}


def test_prints_of_threads_are_recorded(recorder: Recorder) -> None:
    recorder.start()
    threads = [threading.Thread(target=print, args=("x" * 50,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (output,) = recorder.stop()
    assert output["text"].count("x") == 1000


def test_subshell_threads_are_ignored(recorder: Recorder) -> None:
    recorder.start()
    thread = threading.Thread(target=print, args=("x",), name="subshell-1")
    thread.start()
    thread.join()
    assert recorder.stop() == []


def test_own_messages_are_not_recorded(ip: Any, recorder: Recorder) -> None:
    recorder.start()
    with Recorder.paused():
        with Recorder.paused():
            print("a")
        display("b")
    print("c")
    assert texts(recorder.stop()) == ["c\n"]


def test_tracebacks_are_not_recorded(ip: Any, recorder: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    recorder.start()
    print("before")
    ip.run_cell("1 / 0")
    ip.run_cell("x = = 1")
    assert "ZeroDivisionError" in capsys.readouterr().out
    assert texts(recorder.stop()) == ["before\n"]


def test_prints_of_a_repr_are_recorded(ip: Any, recorder: Recorder) -> None:
    recorder.start()
    cell(ip, "class C:\n    def __repr__(self):\n        print('side')\n        return 'C!'\nC()")
    assert texts(recorder.stop()) == ["side\n", "C!"]


def test_captured_output_is_not_recorded(ip: Any, recorder: Recorder) -> None:
    recorder.start()
    cell(ip, "%%capture out\nprint(1)\ndisplay(2)\n3")
    assert recorder._outputs == []
    cell(ip, "out.show()")
    assert kinds(recorder.stop()) == ["stdout", "display_data", "display_data"]


def test_clear_output_at_once(recorder: Recorder) -> None:
    recorder.start()
    print("a")
    clear_output()
    assert recorder._outputs == []
    print("b")
    assert texts(recorder.stop()) == ["b\n"]


def test_clear_output_when_the_next_comes(ip: Any, recorder: Recorder) -> None:
    recorder.start()
    print("a")
    clear_output(wait=True)
    assert len(recorder._outputs) == 1
    print("b")
    display("c")
    clear_output(wait=True)
    cell(ip, "5")
    clear_output(wait=True)
    assert texts(recorder.stop()) == ["5"]


def test_update_is_kept_where_the_display_stands(recorder: Recorder) -> None:
    recorder.start()
    display(1, display_id="a")
    print("x")
    for number in range(5):
        update_display(number, display_id="a")
    display(9, display_id="a")
    outputs = recorder.stop()
    assert kinds(outputs) == ["display_data", "stdout", "display_data"]
    assert texts(outputs) == ["4", "x\n", "9"]
    assert outputs[0]["display_id"] == "a"


def test_update_of_an_earlier_display_stays_an_update(ip: Any, capsys: pytest.CaptureFixture[str]) -> None:
    display(1, display_id="a")
    recorder = Recorder(ip)
    recorder.start()
    for number in range(5):
        update_display(number, display_id="a")
    outputs = recorder.stop()
    assert kinds(outputs) == ["update_display_data"]
    assert texts(outputs) == ["4"]


def test_nested_recorders_both_get_everything(ip: Any) -> None:
    outer, inner = Recorder(ip), Recorder(ip)
    outer.start()
    print("a")
    inner.start()
    print("b")
    assert texts(inner.stop()) == ["b\n"]
    print("c")
    assert texts(outer.stop()) == ["a\nb\nc\n"]


def test_recorders_need_not_end_in_order(ip: Any) -> None:
    first, second = Recorder(ip), Recorder(ip)
    first.start()
    second.start()
    print("a")
    assert texts(first.stop()) == ["a\n"]
    print("b")
    assert texts(second.stop()) == ["a\nb\n"]
    assert not is_wrapped(ip)


def is_wrapped(ip: Any) -> bool:
    owners = (sys.stdout, sys.stderr, ip.display_pub, ip.displayhook, ip)
    return any(hasattr(value, "__wrapped__") for owner in owners for value in vars(owner).values())


def test_stop_restores_everything_and_can_come_twice(ip: Any) -> None:
    before = [dict(vars(owner)) for owner in (sys.stdout, sys.stderr, ip.display_pub, ip.displayhook)]
    recorder = Recorder(ip)
    recorder.start()
    assert is_wrapped(ip)
    print("a")
    assert recorder.stop() is recorder.stop()
    assert [dict(vars(owner)) for owner in (sys.stdout, sys.stderr, ip.display_pub, ip.displayhook)] == before


def test_somebody_elses_patch_survives(ip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put on during the recording and taken off after it; our wrapper below it then only passes on."""
    seen: list[str] = []
    recorder = Recorder(ip)
    recorder.start()
    ours = sys.stdout.write

    def theirs(text: str) -> int:
        seen.append(text)
        return ours(text)

    monkeypatch.setattr(sys.stdout, "write", theirs)
    assert texts(recorder.stop()) == []
    assert sys.stdout.write is theirs
    second = Recorder(ip)
    second.start()
    print("a")
    assert texts(second.stop()) == ["a\n"]
    assert sys.stdout.write is theirs
    assert "".join(seen) == "a\n"


def test_stream_that_takes_no_attributes_is_left_alone(ip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slotted:
        __slots__ = ("texts",)

        def write(self, text: str) -> None:
            self.texts.append(text)

    stream = Slotted()
    stream.texts = []
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", None)
    recorder = Recorder(ip)
    recorder.start()
    print("a")
    assert recorder.stop() == []
    assert "".join(stream.texts) == "a\n"


def test_one_stream_for_both_is_recorded_once(ip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    both = io.StringIO()
    monkeypatch.setattr(sys, "stdout", both)
    monkeypatch.setattr(sys, "stderr", both)
    recorder = Recorder(ip)
    recorder.start()
    print("a", file=sys.stderr)
    assert texts(recorder.stop()) == ["a\n"]


def test_many_small_writes_stay_linear(ip: Any, recorder: Recorder) -> None:
    recorder.start()
    for _ in range(20_000):
        print("x")
    (output,) = recorder.stop()
    assert len(output["text"]) == 40_000


# ---- shown again


def test_replay_shows_the_same(ip: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import sys\nprint('a')\ndisplay('b')\nprint('c', file=sys.stderr)\n"
        "class C:\n    __repr__ = lambda self: 'x\\ny'\nC()"
    )
    recorder = Recorder(ip)
    recorder.start()
    cell(ip, code)
    outputs = recorder.stop()
    live = capsys.readouterr()
    assert live.err == "c\n"
    ip.user_ns["again"] = lambda: replay(ip, decode(encode(outputs)))
    cell(ip, "again()")
    again = capsys.readouterr()
    assert again.err == live.err
    assert again.out == live.out.replace("Out[1]", "Out[2]")
    assert "Out[2]" in again.out


def test_replay_is_recorded_by_the_step_around_it(ip: Any) -> None:
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": "a"},
        {"output_type": "display_data", "data": {"text/plain": "b"}, "metadata": {"m": 1}, "display_id": "i"},
        {"output_type": "update_display_data", "data": {"text/plain": "c"}, "metadata": {}, "display_id": "other"},
        {"output_type": "execute_result", "data": {"text/plain": "d"}, "metadata": {}},
    ]
    recorder = Recorder(ip)
    recorder.start()
    replay(ip, outputs)
    assert recorder.stop() == outputs


def test_widget_is_replayed_as_text(ip: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for data in ({WIDGET: {"model_id": "1"}, "text/plain": "Bar()"}, {WIDGET: {"model_id": "1"}}):
        replay(ip, [{"output_type": "display_data", "data": data, "metadata": {}}])
    assert capsys.readouterr().out == "Bar()\n[widget]\n"


def test_encoded_outputs_come_back() -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "ü\ud800\x1b[1m\n"},
        {"output_type": "display_data", "data": {"application/json": {"x": float("inf")}}, "metadata": {}},
    ]
    assert decode(encode(outputs)) == outputs


# ---- rewritten lines


@pytest.mark.parametrize(
    ("written", "settled"),
    [
        ("plain\ntext\x1b[A\n", "plain\ntext\x1b[A\n"),
        ("".join(f"\r{i}%" for i in range(101)) + "\n", "\r100%\n"),
        ("1\r2\r3", "3"),
        ("hello\rab", "abllo"),
        ("50%\r", "50%\r"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("abc\b\bX", "aXc"),
        ("long line\r\x1b[Kx\n", "x\n"),
        ("long line\x1b[2K\rx", "x        "),
        ("\x1b[31mred\x1b[0m\r\x1b[32mgreen\x1b[0m\n", "\x1b[32mgreen\x1b[0m\n"),
        ("outer 0\n\rinner 0\x1b[A\router 1\n\rinner 1\x1b[A\n\n", "outer 1\ninner 1\n"),
        ("a\n\x1b[5Ab\r", "b\n"),
        ("a\r\x1b]8;;x\x07b", "\x1b]8;;x\x07b"),
    ],
)
def test_rewritten_lines_are_kept_as_they_were_last(written: str, settled: str) -> None:
    assert settle(written) == settled
    assert settle(settled) == settled


def test_settled_text_shows_the_same_as_all_states(recorder: Recorder) -> None:
    recorder.start()
    for number in range(1000):
        sys.stderr.write(f"\rstep {number}")
    sys.stderr.write("\n")
    assert texts(recorder.stop()) == ["\rstep 999\n"]


# ---- in real kernels

SETUP = """
import sys, threading, matplotlib.pyplot as plt, ipywidgets, pandas as pd, rich.traceback
from IPython.display import HTML, clear_output, display, update_display
from resumable_nb.output import Recorder, decode, encode, replay
from resumable_nb.widgets import WIDGET

ip, saved = get_ipython(), {}
active = []

def send(kind, value, display_id=None, parent=None):
    data, metadata = ip.display_formatter.format(value)
    content = {"data": data, "metadata": metadata, "transient": {"display_id": display_id} if display_id else {}}
    if kind == "execute_result":
        content["execution_count"] = ip.displayhook.prompt_count
    ip.kernel.session.send(ip.kernel.iopub_socket, kind, content, parent or ip.get_parent())

def before(info):
    if info.raw_cell.startswith("# record"):
        active.append(Recorder(ip))
        active[-1].start()

def after(result):
    while active:
        saved["last"] = encode(active.pop().stop())

ip.events.register("pre_run_cell", before)
ip.events.register("post_run_cell", after)
display("first", display_id="earlier")
"""

CASES = {
    "order": "print('a')\nprint('b', file=sys.stderr)\ndisplay('c')\nprint('d')\n5",
    "html result": "pd.DataFrame({'x': [1, 2]})",
    "metadata": "display(HTML('<b>x</b>'), metadata={'text/html': {'isolated': True}})",
    "raw bytes": "ip.display_pub.publish({'image/png': b'12345'})",
    "sent by hand": "for kind in ('display_data', 'execute_result'):\n    send(kind, kind)\ndisplay('end')",
    "result by hand, updated": "send('execute_result', 1, 'n')\nprint('x')\nsend('update_display_data', 2, 'n')",
    "sent to another cell": "print('here')\nsend('display_data', 1, parent={'header': {'msg_id': 'other'}})",
    "figure": "print('a')\nplt.plot([1, 2])\nprint('b')",
    "two figures": "plt.plot([1])\nplt.show()\nprint('between')\nplt.plot([2]);",
    "cleared": "print('a')\nclear_output()\nprint('b')",
    "cleared late": "for i in range(5):\n    clear_output(wait=True)\n    print(i)\n    display(i)",
    "updated": "h = display(0, display_id=True)\nprint('x')\nfor i in range(5):\n    h.update(i)",
    "threads": "t = threading.Thread(target=print, args=('in a thread',))\nt.start()\nt.join()\nprint('end')",
    "progress": "for i in range(50):\n    print(f'\\r{i}', end='')\nprint()",
    "shell": "!echo hello",
    "nested recorders": "r = Recorder(ip)\nr.start()\nprint('a')\nplt.plot([1])\nr.stop()\nprint('b')",
}


def cells() -> list[Any]:
    notebook = [SETUP]
    for code in CASES.values():
        notebook += [f"# record\n{code}", "replay(ip, decode(saved['last']))"]
    notebook += [
        "# record\nbar = ipywidgets.IntProgress(value=3)\ndisplay(bar)",
        "replay(ip, decode(saved['last']))",
        "# record\nupdate_display('second', display_id='earlier')",
        "update_display('first', display_id='earlier')\nreplay(ip, decode(saved['last']))",
        "# record\nsend('execute_result', 'first', 'result')",
        "replay(ip, decode(saved['last']))\nsend('update_display_data', 'second', 'result')",
        "rich.traceback.install();",
        "# record\nprint('before')\n1 / 0",
        "replay(ip, decode(saved['last']))",
        "figure = plt.figure()\nr = Recorder(ip)\nr.start()\nplt.figure()\nplt.plot([1])\nn = len(r.stop())\nprint(n)",
    ]
    return [nbformat.v4.new_code_cell(source) for source in notebook]


@pytest.fixture(scope="module")
def executed() -> list[Any]:
    """Every case, and its replay, executed in one kernel: the notebook's cells with their outputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client's event loop, not ours
        notebook = nbformat.v4.new_notebook(cells=cells())
        NotebookClient(notebook, kernel_name="python3", timeout=120, allow_errors=True).execute()
    return list(notebook.cells)


def shown(cell: Any) -> list[dict[str, Any]]:
    """A cell's outputs without counts, with neighbouring texts of one stream merged and settled."""
    outputs: list[dict[str, Any]] = []
    for each in cell.outputs:
        output = {key: value for key, value in each.items() if key not in ("execution_count", "transient")}
        if outputs and output.get("name") and outputs[-1].get("name") == output["name"]:
            outputs[-1]["text"] += output["text"]
        else:
            outputs.append(output)
    return [{**each, "text": settle(each["text"])} if "text" in each else each for each in outputs]


@pytest.mark.kernel
@pytest.mark.parametrize("name", CASES)
def test_kernel_shows_the_same_again(executed: list[Any], name: str) -> None:
    at = 1 + 2 * list(CASES).index(name)
    assert executed[0].outputs[0].output_type == "display_data", executed[0].outputs
    assert shown(executed[at])
    assert shown(executed[at + 1]) == shown(executed[at])


@pytest.mark.kernel
def test_kernel_shows_results_under_the_current_count(executed: list[Any]) -> None:
    at = 1 + 2 * list(CASES).index("order")
    result = executed[at + 1].outputs[-1]
    assert result.output_type == "execute_result"
    assert result.execution_count == executed[at + 1].execution_count


@pytest.mark.kernel
def test_kernel_records_the_figure_at_its_place(executed: list[Any]) -> None:
    at = 1 + 2 * list(CASES).index("nested recorders")
    assert [output.output_type for output in executed[at + 1].outputs] == ["stream", "display_data", "stream"]
    assert "image/png" in executed[at + 1].outputs[1].data


@pytest.mark.kernel
def test_kernel_replays_a_widget_that_is_there_still(executed: list[Any]) -> None:
    at = 1 + 2 * len(CASES)
    assert WIDGET in executed[at].outputs[0].data
    assert executed[at + 1].outputs[0].data == executed[at].outputs[0].data


@pytest.mark.kernel
def test_kernel_replays_an_update_of_an_earlier_display(executed: list[Any]) -> None:
    assert executed[0].outputs[0].data["text/plain"] == "'second'"


@pytest.mark.kernel
def test_kernel_updates_a_result_that_was_replayed(executed: list[Any]) -> None:
    result = executed[1 + 2 * len(CASES) + 5].outputs[0]
    assert result.output_type == "execute_result"
    assert result.data["text/plain"] == "'second'"


@pytest.mark.kernel
def test_kernel_does_not_record_a_rich_traceback(executed: list[Any]) -> None:
    at = 1 + 2 * len(CASES) + 7
    assert "ZeroDivisionError" in str(executed[at].outputs)
    assert shown(executed[at + 1]) == [{"output_type": "stream", "name": "stdout", "text": "before\n"}]


@pytest.mark.kernel
def test_kernel_leaves_figures_from_before_the_block(executed: list[Any]) -> None:
    """A figure that was begun outside the block is still shown at the cell's end."""
    outputs = executed[-1].outputs
    assert [output.output_type for output in outputs] == ["display_data", "stream", "display_data"]
    assert outputs[1].text == "1\n"
