"""Which notebook is this? What each front end tells, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resumable_nb import session
from resumable_nb.place import Place, here
from tests import shells
from tests.kernels import LOAD, Kernels


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A front end that says nothing, as Colab, PyCharm and nbclient."""
    for name in ("JPY_SESSION_NAME", "PAPERMILL_INPUT_PATH"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "content"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_jupyter_names_the_notebook_by_its_path(silent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", str(silent / "nightly.ipynb"))
    assert here() == Place(silent, "nightly", str(silent / "nightly.ipynb"))


def test_jupyter_from_another_root_names_it_and_the_folder_is_the_kernels(
    silent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "work/nightly.ipynb")
    assert here() == Place(silent, "nightly", "work/nightly.ipynb")


def test_a_console_without_a_notebook_is_named_after_its_folder(silent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "console-1-0ea9")
    assert here() == Place(silent, "content", "")


def test_vs_code_names_the_notebook_in_a_variable(silent: Path, tmp_path: Path) -> None:
    told = {"__vsc_ipynb_file__": str(tmp_path / "nightly.ipynb")}
    assert here(told) == Place(tmp_path, "nightly", str(tmp_path / "nightly.ipynb"))


def test_papermill_names_its_input(silent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAPERMILL_INPUT_PATH", str(tmp_path / "nightly.ipynb"))
    assert here() == Place(tmp_path, "nightly", str(tmp_path / "nightly.ipynb"))


def test_colab_names_nothing_so_the_task_has_the_folders_name(silent: Path) -> None:
    assert here({}) == Place(silent, "content", "")


def test_a_task_without_a_name_says_so_once(kernels: Kernels, tmp_path: Path) -> None:
    kernel = kernels(LOAD, load=False, notebook="")
    told = f"task {tmp_path.name}: named after the folder; %resumable task NAME gives it another name"
    assert kernel("%%resumable a\nx = 1").messages == [told]
    assert kernel("%%resumable b\ny = 1").messages == []
    (folder := tmp_path / "other").mkdir()
    named = kernels(LOAD, "%resumable task other", load=False, notebook="", folder=folder)
    assert named("%%resumable c\ny = 1").messages == [], "somebody named it, as its folder is called"


def run(shell: Any, cell_id: str, text: str) -> None:
    shell.run_cell(text, store_history=True, cell_id=cell_id).raise_error()


def test_vs_codes_cell_addresses_tell_cells_apart(
    silent: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [f"vscode-notebook-cell:/c%3A/books/book.ipynb#W{n}sZmlsZQ%3D%3D" for n in range(2)]
    with shells.shell() as shell:
        shell.user_ns["__vsc_ipynb_file__"] = str(silent / "book.ipynb")
        try:
            run(shell, cells[0], LOAD)
            assert session.current().name == "book"
            run(shell, cells[0], "%%resumable a\nx = 1")
            run(shell, cells[0], "%%resumable a\nx = 1")
            assert "another cell" not in capsys.readouterr().out
            run(shell, cells[1], "%%resumable a\nx = 2")
            assert "! a: another cell is called so too" in capsys.readouterr().out
        finally:
            run(shell, cells[0], "%unload_ext resumable_nb")
