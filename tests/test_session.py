"""Opening a task: where it lies, who may write, and what a store that cannot be written costs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from resumable_nb.errors import UsageError
from resumable_nb.place import slug
from tests.kernels import LOAD, Kernels
from tests.test_magics import COUNT, counted, step

# --- where


def test_opening_is_reading(kernels: Kernels, tmp_path: Path) -> None:
    """No file, no lease; a step makes both."""
    kernel = kernels("from resumable_nb import task")
    kernel("%resumable", "len(task().history()), len(task().steps()), len(task().runs())", "x = 1")
    assert list(tmp_path.iterdir()) == []
    kernel("%%resumable a\nx = 1")
    assert [path.name for path in tmp_path.iterdir()] == [".resumable"]
    assert (tmp_path / ".resumable" / ".gitignore").read_text().splitlines()[-1] == "*"
    assert (tmp_path / ".resumable").stat().st_mode & 0o777 == 0o700


def test_task_is_named_after_the_notebook(kernels: Kernels, tmp_path: Path) -> None:
    kernel = kernels("from resumable_nb import task", notebook="my report.ipynb")
    assert kernel("task()").value == "<Task my report pending>"
    kernel("%%resumable a\nx = 1")
    assert (tmp_path / ".resumable" / "my report").is_dir()


def test_task_without_a_notebook_is_named_after_its_folder_and_says_so(kernels: Kernels, tmp_path: Path) -> None:
    folder = tmp_path / "sales"
    folder.mkdir()
    kernel = kernels("from resumable_nb import task", folder=folder, notebook="")
    assert kernel("task()").value == "<Task sales pending>"
    said = "task sales: named after the folder; %resumable task NAME gives it another name"
    assert kernel("%%resumable a\nx = 1").messages == [said]
    assert kernel("%%resumable b\nx = 1").messages == []


def test_two_notebooks_with_one_step_name(kernels: Kernels, tmp_path: Path) -> None:
    kernels(COUNT, step("x = 1"), notebook="one.ipynb")
    kernel = kernels(COUNT, step("x = 2"), notebook="two.ipynb")
    assert kernel("x").value == "2"
    assert counted(tmp_path) == 2


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("a b", "a b"),
        ("a/b", "a%2Fb"),
        ("..", "%2E."),
        (".x", "%2Ex"),
        ("x*?", "x%2A%3F"),
        ("Größe", "Gr%C3%B6%C3%9Fe"),
    ],
)
def test_slug_is_a_safe_folder(name: str, folder: str) -> None:
    assert slug(name) == folder


@pytest.mark.parametrize("name", ["", "  ", "x" * 121])
def test_slug_refuses(name: str) -> None:
    with pytest.raises(UsageError, match="1 to 120 characters"):
        slug(name)


def test_loading_twice_and_unloading(kernels: Kernels) -> None:
    kernel = kernels(COUNT, LOAD, step("x = 1"), "%reload_ext resumable_nb", step("x = 1"))
    assert counted(kernel.folder) == 1
    kernel("%unload_ext resumable_nb")
    other = kernels(COUNT)
    assert other(step("x = 1")).messages[0].startswith("✓ a: restored 1 variable")
    assert "not found" in kernel.attempt("%%resumable a\nx = 1").text


# --- who


def test_pending_variables_outlive_a_change_of_task(kernels: Kernels) -> None:
    kernels(COUNT, step("x = 1"))
    assert kernels.again(COUNT, step("x = 1"), "%resumable task other")("x").value == "1"
    assert kernels.again(COUNT, step("x = 1"), "%reload_ext resumable_nb")("x").value == "1"


def test_second_kernel_is_refused_until_the_first_is_gone(kernels: Kernels) -> None:
    first, second = kernels(COUNT, step("x = 1")), kernels(COUNT)
    shown = second.attempt(step("x = 1"))
    assert shown.error == "TaskBusy"
    assert shown.text == f"TaskBusy: {shown.said}\n"
    assert f"held by pid {first.pid} on this machine since" in shown.said
    assert "\n" not in shown.said
    assert "a  done" in second("%resumable").stdout
    assert second("from resumable_nb import task\nlen(task().steps())").value == "1"
    first.kill()
    assert second(step("x = 1")).messages[0].startswith("✓ a: restored")
    assert counted(second.folder) == 1


def test_kernel_that_lost_its_task_is_told(kernels: Kernels) -> None:
    """Its record was handed to another owner, as after a long sleep."""
    kernel = kernels(COUNT, step("x = 1"))
    kernel(
        "import msgspec, secrets\n"
        "from resumable_nb import session\n"
        "from resumable_nb.model import Owner\n"
        "def usurp(row):\n"
        "    owner = msgspec.json.decode(row, type=Owner)\n"
        "    return msgspec.json.encode(msgspec.structs.replace(owner, token=secrets.token_hex(16), pid=1))\n"
        "_ = session.current().store.update('lease', usurp)"
    )
    shown = kernel.attempt(step("x = 2", head="b"))
    assert shown.error == "LeaseLost"
    assert shown.text == f"LeaseLost: {shown.said}\n"
    assert counted(kernel.folder) == 1


# --- stores that cannot be written


@pytest.mark.parametrize("store", ["taken", "taken/below"])
def test_store_at_a_file(kernels: Kernels, tmp_path: Path, store: str) -> None:
    """One line, nothing runs; it goes on when the file is gone."""
    path = tmp_path / "taken"
    path.write_text("a file")
    kernel = kernels(COUNT)
    shown = kernel.attempt(f"%resumable task book --store {store}")
    assert shown.text in ("Out[3]: <Task book pending>\n", f"StoreUnavailable: {shown.said}\n")
    shown = kernel.attempt(step("x = 1"))
    assert shown.error in ("StoreUnavailable", "UsageError")
    assert shown.text == f"{shown.error}: {shown.said}\n"
    assert str(path) in shown.said
    assert counted(tmp_path) == 0
    path.unlink()
    kernel(step("x = 1"))
    assert counted(tmp_path) == 1


LIMIT = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({}, resource.RLIM_INFINITY))"


def test_commit_that_finds_no_room(kernels: Kernels, tmp_path: Path) -> None:
    """The cell fails in one line, Run All stops; what was done before is there, and this step runs again."""
    kernel = kernels(COUNT, "%%resumable small\ny = 1")
    kernel(LIMIT.format(400_000))
    cells = [step("import os\nx = os.urandom(1_000_000)"), "after = 1"]
    shown = kernel.run_all(cells)
    assert [each.error for each in shown] == ["StoreUnavailable"]
    assert shown[0].text == f"StoreUnavailable: {shown[0].said}\n"
    kernel(LIMIT.format(-1))
    assert kernel("%%resumable small\ny = 1").messages[0].startswith("✓ small")
    kernel(*cells)
    size = kernel("len(x)").value
    kernel = kernels.again(COUNT, "%%resumable small\ny = 1", *cells)
    assert kernel("y, len(x)").value == f"(1, {size})"
    assert counted(tmp_path) == 2


def test_store_that_vanishes_under_a_kernel(kernels: Kernels, tmp_path: Path) -> None:
    """Never a silent new beginning in the same kernel."""
    kernel = kernels(COUNT, step("x = 1"))
    shutil.rmtree(tmp_path / ".resumable")
    shown = kernel.attempt(step("x = 1"))
    assert shown.error in ("", "LeaseLost", "StoreLost", "StoreUnavailable")
    if shown.error:
        assert shown.text == f"{shown.error}: {shown.said}\n"
