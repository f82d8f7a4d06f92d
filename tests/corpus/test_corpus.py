"""The corpus is sound, and a sample of its notebooks is killed and compared; ``python -m tests.corpus`` takes all."""

from __future__ import annotations

import json
import random
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.corpus.comparison import output_differences, variable_differences
from tests.corpus.sweep import ran_again, sweep

NOTEBOOKS = sorted((Path(__file__).parent / "notebooks").glob("*.ipynb"))
SEED = 4
SAMPLE = random.Random(SEED).sample(NOTEBOOKS, 8)


def test_there_are_enough_of_them() -> None:
    assert len(NOTEBOOKS) >= 25


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_valid_and_has_no_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert [cell.id for cell in notebook.cells if cell.get("outputs")] == []


@pytest.mark.kernel
@pytest.mark.sweep
@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
async def test_killed_notebook_shows_and_leaves_what_it_always_does(path: Path) -> None:
    verdict = await sweep(path, seed=SEED, kills=2)
    assert not verdict.differences, str(verdict)
    assert verdict.cells
    assert len(verdict.kills) == 2


def notebook(*texts: str) -> nbformat.NotebookNode:
    """One cell for each text, that prints it."""
    return new_notebook(
        cells=[new_code_cell(outputs=[new_output("stream", name="stdout", text=text)]) for text in texts]
    )


def test_comparison_sees_other_missing_and_new_output() -> None:
    plain = notebook("a\nb", "c")
    assert output_differences(plain, plain, plain) == []
    assert output_differences(plain, plain, notebook("a\nb", "d")) == ["output of [1]: stdout 'c' became stdout 'd'"]
    assert output_differences(plain, plain, notebook("a", "c")) == ["output of [0]: stdout 'b' is missing"]
    assert output_differences(plain, plain, notebook("a\nb", "c\nd")) == ["output of [1]: stdout 'd' is new"]


def test_comparison_leaves_out_what_two_plain_runs_show_differently() -> None:
    assert output_differences(notebook("at 1\nb"), notebook("at 2\nb"), notebook("at 3\nb")) == []
    assert output_differences(notebook("at 1\nb"), notebook("at 2\nb"), notebook("at 3\nc")) != []
    by_chance = [notebook("x y\nb"), notebook("x y\nb"), notebook("y x\nb")]
    assert output_differences(*by_chance, notebook("y x\nb")) == []
    assert output_differences(*by_chance, notebook("y x\nc")) == ["output of [0]: stdout 'b' became stdout 'c'"]
    assert (
        output_differences(notebook("at 0x7f00aa11bb22"), notebook("at 0x7f00aa11bb22"), notebook("at 0xabcdef0")) == []
    )


@pytest.mark.parametrize(
    ("plain", "resumed"),
    [
        ("CPU times: user 17 μs, sys: 2 μs, total: 19 μs\nWall time: 21 μs", "CPU times: user 1 s\nWall time: 2 s"),
        ("1.2 μs ± 3 ns per loop (mean ± std. dev.)", "1.3 ms ± 3 ns per loop (mean ± std. dev.)"),
        ("100%|█| 3/3 [00:00<00:00, 9.1it/s]", "100%|█| 3/3 [00:01<00:00, 2.2s/it]"),
        ("Writing a.py", "Overwriting a.py"),
    ],
)
def test_comparison_leaves_out_times_that_happen_to_agree(plain: str, resumed: str) -> None:
    assert output_differences(notebook(plain), notebook(plain), notebook(resumed)) == []
    assert output_differences(notebook(plain), notebook(plain), notebook(f"{resumed} more\nb")) != []


def test_comparison_knows_that_a_step_has_one_line_more() -> None:
    said = "expected an indented block after 'if' statement on line {} ({}.py, line {})"

    def unreadable(source: str, text: str) -> nbformat.NotebookNode:
        outputs = [
            new_output("error", ename="IndentationError", evalue=text, traceback=[]),
            new_output("stream", name="stderr", text=f"<>:{len(source.splitlines())}: SyntaxWarning: hm"),
        ]
        return new_notebook(cells=[new_code_cell(source, outputs=outputs)])

    plain = unreadable("if x:\nx", said.format(1, 123, 2))
    assert output_differences(plain, plain, unreadable("%%resumable a\nif x:\nx", said.format(2, 456, 3))) == []
    assert output_differences(plain, plain, unreadable("%%resumable a\nif x:\nx", said.format(2, 456, 2))) != []
    assert output_differences(plain, plain, unreadable("%%resumable a\n\nif x:\nx", said.format(2, 456, 3))) != []


def test_comparison_sees_other_missing_and_new_variables() -> None:
    plain = {"a": "1", "b": "2"}
    assert variable_differences(plain, plain, plain) == []
    assert variable_differences(plain, {"a": "other", "b": "2"}, {"a": "third", "b": "2"}) == []
    assert variable_differences(plain, plain, {"a": "other", "b": "2"}, {"a": "third", "b": "2"}) == []
    for resumed in ({"a": "1"}, {"a": "1", "b": "3"}, {**plain, "c": "4"}):
        assert len(variable_differences(plain, plain, resumed)) == 1


def test_comparison_takes_content_that_came_by_being_restored_for_its_type() -> None:
    without = {"a": "m.Lines"}
    assert variable_differences(without, without, {"a": "m.Lines #1"}) == []
    for one, other in (("m.Lines", "m.Other #1"), ("m.Lines #1", "m.Lines #2"), ("m.Lines #1", "m.Lines")):
        assert len(variable_differences({"a": one}, {"a": one}, {"a": other})) == 1


def test_finished_step_that_begins_again_is_seen(tmp_path: Path) -> None:
    events = [
        ["step.begun", "a", "first run"],
        ["step.begun", "a", "continued after a crash"],
        ["step.committed", "a", ""],
        ["step.begun", "a", "input x changed"],
    ]
    log = tmp_path / "log"
    log.write_text("\n".join(map(json.dumps, events)))
    assert list(ran_again(log)) == [("a", "input x changed")]
    assert list(ran_again(log, always={"a"})) == []


def test_replay_that_a_kill_cut_short_is_one_still(tmp_path: Path) -> None:
    whys = ["first run", "replayed: it sets up", "continued after a crash"]
    log = tmp_path / "log"
    lines = [["step.begun", "a", whys[0]], ["step.committed", "a", ""], *(["step.begun", "a", why] for why in whys[1:])]
    log.write_text("\n".join(map(json.dumps, lines)))
    assert list(ran_again(log)) == [("a", whys[1])] * 2
