"""What is drawn after a step that goes on comes from where the notebook has seeded the generators, as it is now."""

from __future__ import annotations

import random

import pytest

from tests.rows import Seeds, restored

pytestmark = pytest.mark.kernel

BREAKS = "%%resumable b\nimport os\nif not os.path.exists('seen'):\n    os.mkdir('seen')\n    1 / 0\nb = 1"
LOOP = (
    "%%resumable b\nimport os\nb = []\nfor turn in track(range(4), 'draws', keep=['b']):\n"
    "    if turn == 2 and not os.path.exists('seen'):\n        os.mkdir('seen')\n        1 / 0\n"
    "    b.append(random.random())\n    with open('turns', 'a') as file: _ = file.write(str(turn))"
)
DRAW = "%%resumable c\nc = random.random()"
SETUP = "import random\nfrom resumable_nb import track"


def seeded(number: int) -> str:
    return f"%%resumable a\nrandom.seed({number})\na = random.random()"


def drawn(number: int, count: int) -> list[float]:
    """The draws after the first one."""
    generator = random.Random(number)
    generator.random()
    return [generator.random() for _ in range(count)]


@pytest.mark.parametrize("anew", [True, False], ids=["in a new kernel", "in the kernel that it began in"])
def test_seed_that_is_edited_above_a_step_that_goes_on(seeds: Seeds, anew: bool) -> None:
    kernel = seeds()
    assert kernel.run_all([SETUP, seeded(1), BREAKS])[-1].error == "ZeroDivisionError"
    kernel = seeds() if anew else kernel
    kernel(SETUP, seeded(2), BREAKS, DRAW, f"assert c == {drawn(2, 1)[0]}")
    kernel = seeds()
    assert all(map(restored, [kernel(cell) for cell in (SETUP, seeded(2), BREAKS, DRAW)][1:]))
    kernel(f"assert c == {drawn(2, 1)[0]}")


def test_step_that_goes_on_had_run_before_those_above_it(seeds: Seeds) -> None:
    assert seeds().run_all([SETUP, "random.seed(5)", BREAKS])[-1].error == "ZeroDivisionError"
    seeds()(SETUP, seeded(1), BREAKS, DRAW, f"assert c == {drawn(1, 1)[0]}")


def test_plain_cell_above_draws_only_now(seeds: Seeds) -> None:
    assert seeds().run_all([SETUP, "random.seed(1)", BREAKS])[-1].error == "ZeroDivisionError"
    seeds()(SETUP, "random.seed(1)", "a = random.random()", BREAKS, DRAW, f"assert c == {drawn(1, 1)[0]}")


def test_loop_that_draws_begins_anew_where_the_seed_is_edited(seeds: Seeds) -> None:
    assert seeds().run_all([SETUP, seeded(1), LOOP])[-1].error == "ZeroDivisionError"
    seeds()(SETUP, seeded(2), LOOP, DRAW, f"assert [*b, c] == {drawn(2, 5)}")


def test_loop_that_draws_goes_on_with_the_same_seed(seeds: Seeds) -> None:
    assert seeds().run_all([SETUP, seeded(1), LOOP])[-1].error == "ZeroDivisionError"
    seeds()(SETUP, "random.random()", seeded(1), LOOP, DRAW, f"assert [*b, c] == {drawn(1, 5)}")
    assert (seeds.folder / "turns").read_text() == "0123"


def test_step_goes_on_from_where_it_began_where_nobody_has_seeded(seeds: Seeds) -> None:
    step = f"%%resumable b\nimport os\nb = random.random()\nopen('drawn', 'a').write(f'{{b}} ')\n{BREAKS.partition('os')[2]}"
    assert seeds().run_all([SETUP, step])[-1].error == "ZeroDivisionError"
    seeds()(SETUP, step, "one, other = open('drawn').read().split()\nassert one == other")
