"""The agent of the examples, killed again and again while it works; the ledger of its world judges."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resumable_nb.supervisor import run_notebook
from tests.notebooks.refresh import EXAMPLES, close_servers

sys.path.insert(0, str(EXAMPLES))

import model_server  # the examples are no package

pytestmark = [pytest.mark.sweep, pytest.mark.kernel]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for name in ("agent.ipynb", "model_server.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    yield tmp_path
    close_servers(tmp_path)


def ledger(folder: Path) -> list[dict[str, Any]]:
    return model_server.read_ledger(folder / model_server.LEDGER)


class Killer:
    """Kills each kernel as soon as so many effects are on the ledger: within the call that made the last one."""

    def __init__(self, folder: Path, counts: list[int]) -> None:
        self._folder, self._counts = folder, counts
        self._watcher: threading.Thread | None = None
        self._over = threading.Event()
        self.killed = 0

    def __call__(self, pid: int) -> None:
        if self._watcher is not None:
            self._watcher.join()
        if self._counts:
            self._watcher = threading.Thread(target=self._watch, args=(pid, self._counts.pop(0)))
            self._watcher.start()

    def _watch(self, pid: int, count: int) -> None:
        while len(ledger(self._folder)) < count:
            if self._over.wait(0.01):
                return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.killed += 1

    def close(self) -> None:
        self._over.set()
        if self._watcher is not None:
            self._watcher.join()


def test_agent_that_is_killed_has_each_effect_once(folder: Path) -> None:
    """Four completions and three mails are on the ledger: it dies at the first, the third, and in two of the mails."""
    killer = Killer(folder, [1, 3, 4, 6])
    try:
        report = run_notebook(folder / "agent.ipynb", cwd=folder, on_kernel=killer, max_restarts=5)
    finally:
        killer.close()
    assert report.status == "completed", report
    assert killer.killed == 4
    effects = Counter(record.get("to", record["kind"]) for record in ledger(folder))
    people = ("ada@example.org", "grace@example.org", "alan@example.org")
    assert effects == {"completion": 4, **dict.fromkeys(people, 1)}
    assert (folder / "briefing.md").read_text().count("# Briefing") == 1
    messages = [cell for cell in report.notebook.cells if cell.get("id") == "memory"]
    assert messages[0].outputs[0].data["text/plain"] == "Counter({'tool': 7, 'assistant': 4, 'system': 1, 'user': 1})"
    again = run_notebook(folder / "agent.ipynb", cwd=folder)
    assert again.status == "completed", again
    assert len(ledger(folder)) == 7, "Run All on a finished agent does nothing"


@pytest.mark.parametrize("kind", ["completion", "mail"])
def test_model_server_keeps_its_books(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A completion of one key is billed once; a mail is sent each time."""
    monkeypatch.chdir(folder)
    model_server.start()
    messages = [{"role": "user", "content": "on tea, to a@b.c"}]
    for _ in range(2):
        if kind == "completion":
            answer = model_server.chat(messages, [], "key")
            assert [each["function"]["name"] for each in answer["tool_calls"]] == ["search"]
        else:
            model_server.post_mail("a@b.c", "s", "b")
    assert [record["kind"] for record in ledger(folder)] == [kind] * (1 if kind == "completion" else 2)
    assert len(model_server.find_mail("a@b.c", "s")) == (2 if kind == "mail" else 0)
