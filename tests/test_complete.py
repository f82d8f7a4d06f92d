"""Completion and help of the magics."""

from __future__ import annotations

import json
import re

import pytest

from resumable_nb.magics.line import COMMANDS
from tests.kernels import Kernel, Kernels


@pytest.fixture
def kernel(kernels: Kernels) -> Kernel:
    return kernels("%%resumable fetch\nx = 1", "%%resumable 'two words'\ny = 1", "%%resumable Prüfung\nz = 1")


def completed(kernel: Kernel, text: str) -> list[str]:
    shown = kernel(
        "import json\nfrom IPython.core.completer import provisionalcompleter\nwith provisionalcompleter():\n"
        f"    found = [each.text for each in get_ipython().Completer.completions({text!r}, {len(text)})]\n"
        "print(json.dumps(found))"
    )
    found: list[str] = json.loads(shown.stdout)
    return found


CELL = {"--files", "--makes", "--keep", "--drop", "--always", "--rerun", "--no-output", "--quiet", "--on-error"}


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("%resumable ", {*COMMANDS}),
        ("%resumable re", {"rerun", "resolve", "restore", "resume"}),
        ("x = 1\n%resumable why ", {"fetch", "'two words'", "'Prüfung'"}),
        ("%resumable why Pr", {"'Prüfung'"}),
        ("%resumable why two", {"'two words'"}),
        ("%resumable why 'two w", {"'two words'"}),
        ("%resumable restore fetch ", {"--version"}),
        ("%resumable resolve 0123456789ab ", {"happened", "not-happened", "ask"}),
        ("%%resumable ", {"fetch", "'two words'", "'Prüfung'", *CELL}),
        ("%%resumable f", {"fetch"}),
        ("%%resumable fetch --", CELL),
        ("%%resumable fetch --k", {"--keep"}),
        ("%%resumable fetch --on-error ", {"keep", "compensate"}),
    ],
)
def test_tab_completes_verbs_options_and_steps_and_offers_nothing_else(
    kernel: Kernel, text: str, offered: set[str]
) -> None:
    assert set(completed(kernel, text)) == offered


def test_variables_and_files_are_completed_behind_their_options_and_code_as_ever(kernel: Kernel) -> None:
    kernel("own_variable = 1\nopen('own_file.txt', 'w').close()")
    assert completed(kernel, "%%resumable fetch --keep x own_") == ["own_variable"]
    assert "own_file.txt" in completed(kernel, "%%resumable fetch --files own_f")
    assert "own_variable" in completed(kernel, "%%resumable fetch\nown_v")
    assert "own_variable" in completed(kernel, "own_v")


def test_given_options_are_not_offered_again(kernel: Kernel) -> None:
    assert "--quiet" not in completed(kernel, "%%resumable fetch --quiet --")


def test_completion_ends_with_the_extension(kernel: Kernel) -> None:
    kernel("%unload_ext resumable_nb")
    assert "why" not in completed(kernel, "%resumable ")


@pytest.mark.parametrize(("magic", "told"), [("%%resumable", CELL), ("%resumable", {*COMMANDS})])
def test_help_tells_every_option_and_every_verb(kernel: Kernel, magic: str, told: set[str]) -> None:
    shown = kernel(f"print(get_ipython().find_magic({magic.lstrip('%')!r}, "
                   f"{'cell' if magic.startswith('%%') else 'line'!r}).__doc__)").stdout  # fmt: skip
    assert {each for each in told if not re.search(rf"(?<![\w-]){each}\b", shown)} == set()
