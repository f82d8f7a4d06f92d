"""The shared random generators' state as bytes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from resumable_nb.randomness import changed, is_fresh, random_state, set_random_state


def test_generators_go_on_from_a_state() -> None:
    random.gauss(0, 1)
    np.random.standard_normal()  # both keep a second number back
    state = random_state()
    expected = (random.gauss(0, 1), random.random(), np.random.standard_normal(), np.random.rand())
    set_random_state(state)
    assert (random.gauss(0, 1), random.random(), np.random.standard_normal(), np.random.rand()) == expected


def test_equal_states_are_equal_bytes() -> None:
    assert random_state() == random_state()


@pytest.mark.parametrize(("moved", "still"), [("random", "numpy"), ("numpy", "random")])
def test_only_the_generator_that_moved_is_kept(moved: str, still: str) -> None:
    draw = {"random": random.random, "numpy": np.random.rand}
    before = random_state()
    draw[moved]()
    kept = changed(before, random_state())
    expected = draw[moved]()
    draw[still]()
    state = random.getstate() if still == "random" else np.random.get_state()[2]
    set_random_state(kept)
    assert (random.getstate() if still == "random" else np.random.get_state()[2]) == state
    assert draw[moved]() == expected


def test_nothing_is_kept_where_nothing_moved() -> None:
    assert changed(random_state(), random_state()) == b""


FIRST_LOADED = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("%load_ext resumable_nb")
assert "numpy" not in sys.modules
for _ in range(2):
    shell.run_cell("%%resumable imports\\nimport numpy as np, numpy.random")
    shell.run_cell("%%resumable seed\\nnp.random.seed(0)")
shell.run_cell("%%resumable draw\\nx = np.random.rand()")
"""


def test_importing_numpy_is_no_draw(tmp_path: Path) -> None:
    """Run All again in the live kernel, where a seed came after the import."""
    place = {**os.environ, "RESUMABLE_KEY_FILE": str(tmp_path / "key"), "IPYTHONDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", FIRST_LOADED], cwd=tmp_path, env=place, capture_output=True, text=True, check=True
    )
    assert "imports: restored" in ended.stdout
    assert "seed: restored" in ended.stdout
    assert "again" not in ended.stdout


@pytest.mark.parametrize("draws", [1, 2, 311])
def test_generator_that_has_given_something_is_not_fresh(draws: int) -> None:
    before = np.random.get_state()
    try:
        np.random.seed(1)
        assert is_fresh("numpy")
        np.random.rand(draws)
        assert not is_fresh("numpy")
        np.random.seed(1)
        np.random.standard_normal()  # leaves a second one for the next draw
        assert not is_fresh("numpy")
    finally:
        np.random.set_state(before)
