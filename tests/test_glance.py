"""How tasks, steps and calls show themselves: in one line, or as HTML that takes nothing for markup."""

from __future__ import annotations

from pathlib import Path

import pytest

from resumable_nb.cli.command import run
from resumable_nb.glance import Glance
from tests.kernels import Kernels
from tests.test_history import call, step

HOSTILE = "<b>\x1b[31m\u202e\u200b[bold]</b>"
SHOWN = "<b>\\x1b[31m\\u202e\\u200b[bold]</b>"


def test_steps_and_calls_are_one_line_each() -> None:
    done = step("fetch", 10.0, version=2, duration_s=3.25, saved_names=("x", "y"))
    assert repr(done) == "<Step fetch v2 done, 3.2 s, 2 variables>"
    assert repr(step("t", 10.0, status="failed")) == "<Step t v1 failed, 0.0 s>"
    assert repr(call("c0ffee", 1.0)) == "<ToolCall c0ffee pay(n=1) done>"
    assert done._repr_html_() == "<code>&lt;Step fetch v2 done, 3.2 s, 2 variables&gt;</code>"


def test_what_they_hold_is_shown_as_text_and_cut() -> None:
    shown = repr(call("c", 1.0, tool=HOSTILE, arguments={"a": "x" * 1000}))
    assert shown.startswith(f"<ToolCall c {SHOWN}(a=xxx")
    assert len(shown) < 150
    assert "<b>" not in call("c", 1.0, tool=HOSTILE)._repr_html_()


def test_a_task_is_a_small_table_of_escaped_text() -> None:
    glance = Glance(HOSTILE, "idle", [step("s", 1.0, error=HOSTILE)], 3, [call("c0ffee", 1.0, tool=HOSTILE)])
    html = glance.html()
    assert html.count("<tr>") == 2
    assert html.count("&lt;b&gt;\\x1b[31m\\u202e\\u200b[bold]&lt;/b&gt;") == 3
    for harmful in ("<b>", "\x1b", "\u202e", "\u200b", "color", "background"):
        assert harmful not in html
    assert "1 step, 3 tool calls done" in html
    assert "%resumable resolve c0ffee" in html
    assert "<table" not in Glance("t", "pending", [], 0, []).html()


def test_the_task_of_a_notebook_is_shown_as_a_table(kernels: Kernels) -> None:
    kernel = kernels("from resumable_nb import task", "%%resumable a\nx = 1")
    html = kernel("print(task()._repr_html_())").stdout
    assert "task book: idle, 1 step, 0 tool calls done" in html
    assert ">a</td>" in html
    assert kernel("task().versions('a')").value.startswith("[<Step a v1 done, ")


TOOL = "from resumable_nb import task, tool\n@tool\ndef pay(n):\n    return n{}"


def test_history_says_where_the_code_has_changed_since(kernels: Kernels) -> None:
    kernel = kernels(TOOL.format(""), "pay(1)", "from resumable_nb import task")
    assert kernel("list(task().history().drift)").value == "['']"
    kernel(TOOL.format(" + 1"), "pay(2)")
    assert kernel("list(task().history().drift)").value == "['code changed since', '']"
    kernel.kill()
    kernel = kernels("from resumable_nb import task")
    assert kernel("list(task().history().drift)").value == "['', '']", "nobody knows the code yet"
    kernel(TOOL.format("  # the same"))
    assert kernel("list(task().history().drift)").value == "['', 'code changed since']"


def test_the_command_shows_what_tools_say_as_text(
    kernels: Kernels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fail = f"def pay(n):\n    raise ValueError({HOSTILE!r} * 2)"
    kernel = kernels(f"from resumable_nb import tool\n@tool\n{fail}")
    kernel.attempt(f"%%resumable a\npay({HOSTILE!r})")
    kernel.close()
    for command in ("history", "steps"):
        assert run([command, str(tmp_path)]) == 0
        shown = capsys.readouterr().out
        assert "\\x1b[31m" in shown.replace("\n", "")
        for harmful in ("\x1b", "\u202e", "\u200b"):
            assert harmful not in shown
    assert run(["steps", f"{tmp_path}/{HOSTILE[3:10]}"]) == 2
    assert "\u202e" not in capsys.readouterr().err
