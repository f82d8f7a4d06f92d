"""Completion and help of the magics."""

from __future__ import annotations

import json

import pytest

from tests.kernels import Kernel, Kernels


@pytest.fixture
def kernel(kernels: Kernels) -> Kernel:
    return kernels("%%resumable fetch\nx = 1", "%%resumable 'two words'\ny = 1")


def completed(kernel: Kernel, text: str) -> list[str]:
    shown = kernel(
        "import json\nfrom IPython.core.completer import provisionalcompleter\nwith provisionalcompleter():\n"
        f"    found = [each.text for each in get_ipython().Completer.completions({text!r}, {len(text)})]\n"
        "print(json.dumps(found))"
    )
    found: list[str] = json.loads(shown.stdout)
    return found


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("%resumable ", {"why", "pause", "resume", "stop", "history"}),
        ("%resumable re", {"rerun", "resolve", "restore", "resume"}),
        ("%resumable why ", {"fetch", "'two words'"}),
        ("%resumable restore fetch ", {"--version"}),
        ("%resumable resolve 0123456789ab ", {"happened", "not-happened"}),
        ("%%resumable ", {"fetch", "'two words'", "--files", "--quiet"}),
        ("%%resumable fetch --k", {"--keep"}),
    ],
)
def test_tab_completes_verbs_options_and_steps(kernel: Kernel, text: str, some: set[str]) -> None:
    assert some <= set(completed(kernel, text))


def test_given_options_are_not_offered_again(kernel: Kernel) -> None:
    assert "--quiet" not in completed(kernel, "%%resumable fetch --quiet --")


def test_completion_ends_with_the_extension(kernel: Kernel) -> None:
    kernel("%unload_ext resumable_nb")
    assert "why" not in completed(kernel, "%resumable ")


@pytest.mark.parametrize(("magic", "told"), [("%%resumable", "--files PATH"), ("%resumable", "why STEP")])
def test_help_tells_the_options(kernel: Kernel, magic: str, told: str) -> None:
    shown = kernel(f"print(get_ipython().find_magic({magic.lstrip('%')!r}, "
                   f"{'cell' if magic.startswith('%%') else 'line'!r}).__doc__)")  # fmt: skip
    assert told in shown.stdout
