"""Small changes between two kernels, and whether a step that follows them is skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kernels import Kernel
from tests.rows import Seeds, restored

NEXT = "\n# next cell\n"
"""Between the plain cells of one text."""


@dataclass(frozen=True)
class Change:
    """A plain cell ``before`` a step, and another one in its place ``after``; files, and what they are later.

    ``why`` is part of what the step says if it runs again; ``check`` holds afterwards.
    """

    before: str
    after: str
    body: str
    options: str
    why: str
    check: str
    files: Mapping[str, str]
    new_files: Mapping[str, str]

    def step(self, name: str) -> str:
        return f"%%resumable {name} {self.options}\n{self.body}"


TURNED = """%%resumable up-turned
class Turned:
    def __init__(self): self.lines, self.own = [['a']], {}
    def __setstate__(self, state): self.lines, self.own, self.cache = tuple(state['lines']), state['own'], {}
turned = Turned()
own = turned.own"""
"""A step whose value has other content since it was restored."""


def change(
    before: str,
    after: str | None = None,
    *,
    use: str,
    head: str = "",
    options: str = "",
    why: str = "input x changed",
    gives: str = "",
    files: Mapping[str, str] | None = None,
    new_files: Mapping[str, str] | None = None,
) -> Change:
    """``use`` is the expression that the step binds to ``y``, and ``gives`` its value after the change."""
    later = before if after is None else after
    check = f"assert repr(y) == {gives!r}, y" if gives else ""
    return Change(before, later, f"{head}y = {use}", options, why, check, files or {}, new_files or {})


@dataclass(frozen=True)
class Answer:
    """What became of a step after the change."""

    skipped: bool
    messages: list[str]
    error: str = ""


def ask(seeds: Seeds, case: Change) -> Answer:
    """The answer for one change, in kernels of its own."""
    return ask_all(seeds, {"a": case})["a"]


def ask_all(seeds: Seeds, cases: Mapping[str, Change]) -> dict[str, Answer]:
    """The answers for many changes, one after another in the same two kernels; each binds all that it uses."""
    for case in cases.values():
        write(seeds.folder, case.files)
    kernel = seeds()
    for index, case in enumerate(cases.values()):
        kernel(*case.before.split(NEXT), case.step(f"row-{index}"))
    for case in cases.values():
        write(seeds.folder, case.new_files)
    kernel = seeds()
    return {name: _answer(kernel, f"row-{index}", case) for index, (name, case) in enumerate(cases.items())}


def _answer(kernel: Kernel, name: str, case: Change) -> Answer:
    for cell in (*case.after.split(NEXT), case.step(name), case.check):
        shown = kernel.attempt(cell)
        if cell.startswith("%%resumable row"):
            answer = shown
        if shown.error:
            return Answer(False, [], f"{cell}\n{shown.text}")
    return Answer(restored(answer), answer.messages)


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
