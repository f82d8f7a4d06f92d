"""``%resumable restore`` and ``task().restore``: variables as they were after a step, in a kernel that never ran it."""

from __future__ import annotations

import pytest

from tests.kernels import Kernel, Kernels
from tests.rows import restored

pytestmark = pytest.mark.kernel

A = "%%resumable a\nimport random\nfrom resumable_nb import task\nrandom.seed(1)\nx, gone = [1], 'here'"
B = "%%resumable b\nx.append(2)\ndel gone\ny = sum(x)"
C = "%%resumable c\nx.append(3)\nz = x"
ALL = (A, B, C)


def test_restore_in_a_new_kernel_brings_the_cells_before_along(kernels: Kernels) -> None:
    kernels(*ALL)
    kernel = kernels.again()
    assert kernel("%resumable restore b").stdout == "b: restored random, task, x, y\n"
    assert kernel("x, y").value == "([1, 2], 3)"
    assert kernel.attempt("gone").error == kernel.attempt("z").error == "NameError"


def test_restore_goes_back_in_the_live_kernel(kernels: Kernels) -> None:
    """A name that was deleted since comes back; one that only a later cell made stays as it is."""
    kernel = kernels(*ALL)
    assert kernel("task().restore('a')").value == "('gone', 'random', 'task', 'x')"
    assert kernel("x, gone, y, z").value == "([1], 'here', 3, [1, 2, 3])"


def test_restore_of_the_last_step_puts_back_what_was_changed_by_hand(kernels: Kernels) -> None:
    kernel = kernels(*ALL, "x.clear()\ndel y\nz = None")
    kernel("%resumable restore c")
    assert kernel("x, y, z is x").value == "([1, 2, 3], 3, True)"


def test_restore_says_what_it_cannot_bring(kernels: Kernels) -> None:
    cells = ("%%resumable a\ng, x = (n for n in [1]), 1", "%%resumable b\nx = 2\ndel g")
    for start in (lambda: kernels(*cells), kernels.again):
        kernel = start()
        shown = kernel("%resumable restore a")
        assert shown.messages == ["! a: g was not saved; run the cell that makes it"]
        assert kernel("x, 'g' in dir()").value == "(1, False)"
    assert not kernel("%resumable restore b").messages


def test_restore_of_an_older_version(kernels: Kernels) -> None:
    """Cells before it are as they were at the time of that version."""
    kernels(*ALL)
    kernels.again(A.replace("[1]", "[10]"), B, C)
    kernel = kernels.again("from resumable_nb import task")
    assert kernel("[each.version for each in task().versions('b')]").value == "[1, 2]"
    kernel("%resumable restore b --version 1")
    assert kernel("x, y").value == "([1, 2], 3)"
    kernel("task().restore('b')")
    assert kernel("x, y").value == "([10, 2], 12)"


def test_restore_sets_the_random_state(kernels: Kernels) -> None:
    first = kernels(A, "%%resumable b\nu = random.random()")
    value = first("random.random()").value
    kernel = kernels.again("from resumable_nb import task\ntask().restore('b')")
    assert kernel("random.random()").value == value
    kernel("task().restore('a')\nimport random")
    assert kernel("random.random() == u").value == "True"


@pytest.mark.parametrize(
    "command", ["%resumable restore a", "%resumable restore b", "from resumable_nb import task\ntask().restore('b', 1)"]
)
def test_run_all_after_a_restore_is_neither_stale_nor_run_again(kernels: Kernels, command: str) -> None:
    def run_all(kernel: Kernel) -> None:
        assert all(restored(kernel(cell)) for cell in ALL)
        assert kernel("x, y, z is x, 'gone' in globals()").value == "([1, 2, 3], 3, True, False)"

    run_all(kernels(*ALL, command))
    run_all(kernels.again(command))


def test_a_single_cell_after_a_restore_goes_by_the_restored_values(kernels: Kernels) -> None:
    kernel = kernels(*ALL, A.replace("[1]", "[10]"), B, C, "%resumable restore a --version 1")
    shown = kernel("%%resumable d\ny2 = sum(x)")
    assert kernel("y2").value == "1"
    kernel("%resumable restore c")
    assert kernel("%%resumable d\ny2 = sum(x)").messages == ["● d: runs again: input x changed"]
    assert kernel("y2").value == "15"
    assert not shown.error
