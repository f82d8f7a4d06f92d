"""Rows of a table of behaviours: small notebooks that are killed after each step and run again in a new kernel."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from tests.kernels import Kernel, Kernels, Shown, forking


@dataclass(frozen=True)
class Row:
    """``steps`` are the bodies of ``%%resumable`` cells; ``check`` is a cell of asserts that holds after them.

    ``setup`` runs in every kernel, before the steps; ``files`` are beside the notebook. The steps that are ``replayed``
    have made something that cannot be saved: a new kernel runs them again. Those that are ``asking`` have others run
    again before they go on, and say so.
    """

    steps: tuple[str, ...]
    check: str
    setup: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    replayed: frozenset[int] = frozenset()
    asking: frozenset[int] = frozenset()


def row(
    *steps: str,
    check: str,
    setup: str = "",
    files: Mapping[str, str] | None = None,
    replayed: tuple[int, ...] = (),
    asking: tuple[int, ...] = (),
) -> Row:
    return Row(steps, check, setup, files or {}, frozenset(replayed), frozenset(asking))


class Seeds:
    """Starts kernels, one after another with other hash seeds and memory layouts."""

    def __init__(self, addresses: list[str], folder: Path) -> None:
        self.folder = folder
        self._addresses = addresses
        self._makers = itertools.cycle([Kernels(address, folder) for address in addresses])
        self._last: Kernels | None = None

    def __call__(self) -> Kernel:
        """A new kernel, with the extension loaded; the one before it is killed."""
        self.close()
        self._last = next(self._makers)
        return self._last()

    def move(self, name: str) -> None:
        """Move the folder of the notebook, between two kernels."""
        self.folder = self.folder.rename(self.folder.with_name(name))
        self._makers = itertools.cycle([Kernels(address, self.folder) for address in self._addresses])

    def close(self) -> None:
        if self._last is not None:
            self._last.close()


@contextlib.contextmanager
def seeded(*seeds: int) -> Iterator[list[str]]:
    """A process that forks kernels for each hash seed, for the block; their addresses."""
    with contextlib.ExitStack() as stack:
        addresses = []
        for seed in seeds:
            with mock.patch.dict(os.environ, PYTHONHASHSEED=str(seed)):
                addresses.append(stack.enter_context(forking()))
        yield addresses


def prove(kernels: Seeds, case: Row) -> None:
    """Kill a kernel after each step; every new one skips the steps before and leaves the same state."""
    for name, text in case.files.items():
        path = kernels.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for done in range(len(case.steps)):
        kernel = kernels()
        run(kernel, case, done, case.steps[: done + 1])
    kernel(case.check)
    kernel = kernels()
    run(kernel, case, len(case.steps), case.steps)
    kernel(case.check)


def run(kernel: Kernel, case: Row, done: int, steps: tuple[str, ...]) -> None:
    if case.setup:
        kernel(case.setup)
    for index, text in enumerate(steps):
        shown = kernel(f"%%resumable step-{index}\n{text}")
        if index >= done:
            assert not restored(shown), shown.messages
        elif index in case.replayed:
            assert any("replayed" in each for each in shown.messages), shown.messages
        else:
            assert restored(shown), shown.messages
            assert len(shown.messages) == 1, shown.messages


def restored(shown: Shown) -> bool:
    return any(each.startswith("✓ ") for each in shown.messages)


def prove_all(kernels: Seeds, cases: Mapping[str, Row]) -> dict[str, str]:
    """As ``prove``, for many cases in the same kernels; each binds all that it uses. What went wrong, by case."""
    faults: dict[str, str] = dict.fromkeys(cases, "")
    for done in range(max(len(case.steps) for case in cases.values()) + 1):
        kernel = kernels()
        for number, (name, case) in enumerate(cases.items()):
            faults[name] = faults[name] or _fault(kernel, case, f"row-{number}", done)
    return faults


def _fault(kernel: Kernel, case: Row, name: str, done: int) -> str:
    """Run the case as far as its turn has come; what is not as it should be."""
    for index, text in enumerate(case.steps[: done + 1]):
        shown = kernel.attempt(f"%%resumable {name}-{index}\n{text}")
        messages = [each for each in shown.messages if index not in case.asking or "replayed for" not in each]
        if shown.error or restored(shown) != (index < done) or len(messages) != (index < done):
            return f"turn {done}, step {index}: {text}\n{shown.text}"
    if done >= len(case.steps) - 1:
        shown = kernel.attempt(case.check)
        if shown.error:
            return f"turn {done}: {case.check}\n{shown.text}"
    return ""
