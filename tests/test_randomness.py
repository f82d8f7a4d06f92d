"""The shared random generators' state as bytes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from resumable_nb.randomness import changed, random_state, set_random_state


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
