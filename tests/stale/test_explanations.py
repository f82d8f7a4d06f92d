"""What a step says when it runs again, and what ``%resumable why`` answers afterwards, in a kernel that never ran it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.rows import Seeds

pytestmark = pytest.mark.kernel


@dataclass(frozen=True)
class Told:
    """A plain cell and a step, before and after a kill; the step's line, and the answer without its first line."""

    before: tuple[str, str]
    after: tuple[str, str]
    line: str
    why: tuple[str, ...]


TOLD = {
    "source": Told(
        ("n = 1", "y = n"), ("n = 1", "y = n  # the same\nz = n + 1"), "its source changed",
        ("  source:", "    -y = n", "    +y = n  # the same", "    +z = n + 1"),
    ),
    "number": Told(("n = 1", "y = n"), ("n = 2", "y = n"), "input n changed", ("  input n: 1 → 2",)),
    "type": Told(("n = 1", "y = n"), ("n = 1.0", "y = n"), "input n changed", ("  input n: 1 → 1.0",)),
    "size": Told(
        ("n = [1]", "y = n"), ("n = [1, 2]", "y = n"), "input n changed", ("  input n: list of 1 → list of 2",)
    ),
    "shape": Told(
        ("import numpy as np\nn = np.zeros((2, 3))", "y = n"), ("import numpy as np\nn = np.zeros((3, 2))", "y = n"),
        "input n changed", ("  input n: ndarray 2 × 3 → ndarray 3 × 2",),
    ),
    "text, by its digest alone": Told(
        ("n = 'secret'", "y = n"), ("n = 'other!'", "y = n"), "input n changed",
        ("  input n: str of 6 (…) → str of 6 (…)",),
    ),
    "function": Told(
        ("def f(): return 1", "y = f()"), ("def f(): return 2", "y = f()"), "function f changed",
        ("  function f: … → …",),
    ),
    "function and what it reads": Told(
        ("K = 1\ndef f(): return K", "y = f()"), ("K = 2\ndef f(): return K + 0", "y = f()"),
        "function f changed; input K changed", ("  function f: … → …", "  input K: 1 → 2"),
    ),
    "input that is new": Told(
        ("", "y = 1 if 'n' not in globals() else n"), ("n = 1", "y = 1 if 'n' not in globals() else n"),
        "input n is new", ("  input n: nothing → 1 (…)",),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def heard(module_seeds: Seeds) -> dict[str, tuple[list[str], list[str]]]:
    kernel = module_seeds()
    for k, case in enumerate(TOLD.values()):
        kernel("%reset_selective -f ^(n|K|f|y|z)$", case.before[0], f"%%resumable s{k}\n{case.before[1]}")
    kernel = module_seeds()
    found = {}
    for k, (name, case) in enumerate(TOLD.items()):
        kernel("%reset_selective -f ^(n|K|f|y|z)$", case.after[0])
        messages = kernel(f"%%resumable s{k}\n{case.after[1]}").messages
        found[name] = (messages, kernel(f"%resumable why s{k}").stdout.splitlines())
    return found


@pytest.mark.xdist_group("explanations")
@pytest.mark.parametrize("name", TOLD)
def test_a_step_says_what_changed(heard: dict[str, tuple[list[str], list[str]]], name: str) -> None:
    messages, why = heard[name]
    number = list(TOLD).index(name)
    assert messages == [f"● s{number}: runs again: {TOLD[name].line}"]
    assert why[0].startswith(f"s{number} v2 done, ran ")
    assert why[0].endswith(f": {TOLD[name].line}")
    assert [without_digests(line) for line in why[1 : len(TOLD[name].why) + 1]] == list(TOLD[name].why)


def without_digests(line: str) -> str:
    """Eight hexadecimal digits stand for a value that has no short description."""
    words = line.split(" ")
    return " ".join("…" if is_digest(word) else "(…)" if is_digest(word.strip("()")) else word for word in words)


def is_digest(word: str) -> bool:
    return len(word) == 8 and set(word) <= set("0123456789abcdef")
