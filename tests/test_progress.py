"""Progress of loops where nothing can be updated, and where a line can be written over."""

from __future__ import annotations

from typing import Any

import pytest

from resumable_nb.events import Event
from resumable_nb.magics.progress import Progress, rich


class Shell:
    """One without a kernel; keeps what is displayed."""

    def __init__(self) -> None:
        self.display_pub = self
        self.shown: list[str] = []

    def publish(self, data: dict[str, str], *, transient: dict[str, str], update: bool) -> None:
        assert not update
        self.shown.append(data["text/plain"])


def turns(progress: Progress, count: int, label: str = "pages") -> None:
    facts: dict[str, Any] = {"loop": "p", "label": label, "total": count, "resumed_at": 0, "elapsed_s": 1.0}
    for done in range(count + 1):
        progress(Event(kind="track.turn", step="a", facts={**facts, "done": done, "ended": False}))
    progress(Event(kind="track.turn", step="a", facts={**facts, "done": count, "ended": True}))


def test_a_terminal_line_is_written_over_at_most_ten_times_a_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    clock = iter(n / 200 for n in range(10_000))  # two looks at the clock a turn, at least
    shell = Shell()
    turns(Progress(shell, lambda: next(clock)), 100)
    drawn = capsys.readouterr().out.split("\r")[1:]
    assert 5 <= len(drawn) <= 30
    assert drawn[-1] == "\x1b[K"
    assert len(shell.shown) == 1


def test_a_log_gets_a_line_each_half_minute_and_no_carriage_return(capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter(range(10_000))
    shell = Shell()
    turns(Progress(shell, lambda: float(next(clock))), 100)
    assert capsys.readouterr().out == ""
    assert 3 <= len(shell.shown) <= 10


def test_a_label_is_shown_as_text() -> None:
    shell = Shell()
    turns(Progress(shell), 1, "\x1b[2J" + "x" * 1_000_000)
    assert shell.shown[0].startswith("\\x1b[2Jxxx")
    assert len(shell.shown[0]) < 200


def test_the_bar_of_a_loop_without_a_length_stands_still_when_it_has_ended() -> None:
    facts = {"label": "held", "done": 3, "total": None, "resumed_at": 0, "elapsed_s": 1.0}
    assert "<progress style" in rich({**facts, "ended": False})
    assert '<progress value="1"' in rich({**facts, "ended": True})


class KernelShell(Shell):
    kernel = object()

    def publish(self, data: dict[str, str], *, transient: dict[str, str], update: bool) -> None:
        self.shown.append(data["text/html"])


def test_a_loop_that_was_left_stands_still_and_tells_no_time_that_is_left() -> None:
    shell = KernelShell()
    progress = Progress(shell, iter(range(10_000)).__next__)
    facts: dict[str, Any] = {"loop": "p", "label": "pages", "resumed_at": 0, "elapsed_s": 1.0, "ended": False}
    turns(progress, 1, "outer")
    shell.shown.clear()
    for total in (10, None):
        settle = progress.since()
        progress(Event(kind="track.turn", step="a", facts={**facts, "done": 1, "total": total}))
        assert ("9.0 s left" in shell.shown[-1]) == bool(total)
        settle()
        assert "pages" in shell.shown[-1]
        assert "left" not in shell.shown[-1]
        assert 'value="1"' in shell.shown[-1], "a bar without a value moves for ever"
        shown = len(shell.shown)
        settle()
        assert len(shell.shown) == shown


def test_a_pause_shows_how_far_loops_are_now() -> None:
    shell = KernelShell()
    progress = Progress(shell, lambda: 0.0)
    facts: dict[str, Any] = {"loop": "p", "label": "", "total": 9, "resumed_at": 0, "elapsed_s": 1.0, "ended": False}
    for done in range(4):
        progress(Event(kind="track.turn", step="a", facts={**facts, "done": done}))
    assert shell.shown == []
    progress(Event(kind="control.paused", facts={"where": "loop"}))
    assert "3/9" in shell.shown[-1]
