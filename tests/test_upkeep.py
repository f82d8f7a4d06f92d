"""``resumable recover``, ``gc`` and ``doctor``."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from resumable_nb.cli.command import run
from resumable_nb.store.seal import key_path
from tests.kernels import Died, Kernels

DIE = "%%resumable a\nimport os, signal\nif not os.path.exists('go'): os.kill(os.getpid(), signal.SIGKILL)\nx = 1"


@pytest.fixture
def folder(kernels: Kernels, tmp_path: Path) -> Path:
    """With a task ``book`` that has one finished step."""
    kernels("%%resumable a\nx = 1").end()
    return tmp_path


def test_a_sound_task_passes_every_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert [line.split(":")[0] for line in shown.splitlines()] == [
        f"✓ {name}" for name in ("versions", "key", "permissions", "disk", "records", "owner")
    ]


def test_doctor_tells_what_is_wrong_and_what_to_do(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = folder / ".resumable" / "book"
    store.chmod(0o755)
    key_path().chmod(0o644)
    assert run(["doctor", str(folder)]) == 1
    shown = capsys.readouterr().out
    assert f"✗ permissions: others can look into {store}: chmod 700 {store}" in shown
    assert f"✗ key: others can read {key_path()}, and sign rows with it: chmod 600 {key_path()}" in shown


def test_doctor_notices_a_row_that_somebody_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(sqlite3.connect(folder / ".resumable" / "book" / "cache.db")) as database, database:
        database.execute("UPDATE Cache SET value = replace(value, 'book', 'look') WHERE key = 'meta'")
    assert run(["doctor", str(folder)]) == 1
    assert "✗ records: " in capsys.readouterr().out


def test_gc_removes_what_a_killed_kernel_left(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = folder / ".resumable" / "book" / "values"
    values.mkdir(exist_ok=True)
    (values / "left.val").write_bytes(b"half a value")
    assert run(["gc", str(folder)]) == 0
    assert capsys.readouterr().out == "book: 1 file, 12 B freed\n"
    assert not (values / "left.val").exists()
    assert run(["doctor", str(folder)]) == 0


@pytest.mark.kernel
def test_recover_runs_dead_notebooks_and_leaves_others_alone(
    kernels: Kernels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = [new_code_cell("%load_ext resumable_nb"), new_code_cell(DIE), new_code_cell("print('end', x)")]
    nbformat.write(new_notebook(cells=cells), tmp_path / "book.ipynb")
    kernel = kernels()
    kernel.start(DIE)
    with pytest.raises(Died):
        kernel.finish()
    (tmp_path / "go").touch()
    assert run(["recover", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("book: completed in ")
    assert nbformat.read(tmp_path / "book.ipynb", 4).cells[2].outputs[0].text == "end 1\n"
    assert run(["recover", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "book: closed, nothing to do\n"
