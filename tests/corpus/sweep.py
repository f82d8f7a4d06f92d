"""A notebook through all its kernels: two plain ones, some that are killed, and two that end well."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import shutil
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import psutil

from tests.corpus.comparison import looks_at_us, out_of_scope, output_differences, variable_differences
from tests.corpus.kernel import LOAD, Kill, Life, Place, live

POINTS = (
    "step.begin",
    "step.begun",
    "step.body_done",
    "step.commit",
    "step.committed",
    "step.skipped",
    "step.pack_synced",
)
PLAIN_RUNS = 8
"""At most: two may happen to agree in what has an order of chance, so that more are asked where something differs."""
DURING_MARGIN_S = 0.05
"""A cell takes this much longer with a step round it, at most: a kill may hit the commit, too."""


@dataclass(slots=True)
class Verdict:
    """Of one notebook; no differences: it is as good as never killed."""

    name: str
    differences: list[str] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    cells: int = 0
    cut: str = ""
    """Why the notebook was run up to a cell only: that one raises in a plain run."""
    replayed: int = 0
    """How often a finished cell ran again because something it made could not be saved."""

    def __str__(self) -> str:
        if not self.differences:
            again = f", {self.replayed} replayed" if self.replayed else ""
            cut = f" (up to where it raises plainly: {self.cut})" if self.cut else ""
            return f"ok       {self.name}: {self.cells} cells, {len(self.kills)} kills{again}{cut}"
        return f"differs  {self.name}: " + "\n         ".join(self.differences)


async def sweep(notebook_path: Path, *, seed: int, kills: int) -> Verdict:
    """Run one notebook of a folder, of which each kernel's first copy is made."""
    verdict = Verdict(notebook_path.name)
    notebook = nbformat.read(notebook_path, as_version=4)
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="corpus"))).resolve()
        stack.callback(_end_processes, root)
        places = [_place(root / name, notebook_path) for name in ("first", "second", "resumed")]
        plain = [await live(_cleared(notebook), place, load=False) for place in places[:2]]
        ends = [life.failed for life in plain if life.failed is not None]
        if ends:
            verdict.cut = plain[0].error or plain[1].error
            notebook.cells = notebook.cells[: min(ends)]
            if not any(cell.cell_type == "code" and cell.source.strip() for cell in notebook.cells):
                return verdict
            places[:2] = [_place(root / name, notebook_path) for name in ("first again", "second again")]
            plain = [await live(_cleared(notebook), place, load=False) for place in places[:2]]
        if error := plain[0].error or plain[1].error or ("the kernel died" if plain[0].died or plain[1].died else ""):
            verdict.differences.append(f"does not run plainly: {error}")
            return verdict
        choice = random.Random(f"{seed} {verdict.name}")
        ends = await _resume(verdict, _stepped(notebook), places[2], plain[0], choice, kills)
        while _differences(plain, ends) and len(plain) < PLAIN_RUNS:
            more = _place(root / f"plain {len(plain)}", notebook_path)
            plain.append(await live(_cleared(notebook), more, load=False))
        verdict.differences += _differences(plain, ends)
        if verdict.differences:
            verdict.differences.append("kills: " + ", ".join(map(str, verdict.kills)))
    return verdict


async def _resume(
    verdict: Verdict, notebook: Any, place: Place, plain: Life, choice: random.Random, kills: int
) -> dict[str, Life]:
    """All lives of the notebook's steps. Returns those that ended well."""
    load = not any(cell.source == LOAD for cell in notebook.cells)
    cells = list(plain.durations_s)
    verdict.cells = len(cells)
    for _ in range(kills):
        kill = _choose(choice, cells, plain.durations_s)
        verdict.kills.append(kill)
        life = await live(notebook, place, load=load, kill=kill)
        if life.error:
            verdict.differences.append(f"before kill {len(verdict.kills)} ({kill}): {life.error}")
            break
    ends: dict[str, Life] = {}
    for end in ("resumed", "restored whole"):
        life = await live(notebook, place, load=load)
        if life.error or life.died:
            verdict.differences.append(f"{end}: {life.error or 'the kernel died'}")
            break
        ends[end] = life
    again = list(ran_again(place.log, always={f"cell_{index}" for index in cells if _is_always(notebook.cells[index])}))
    verdict.replayed = sum("replay" in why for _, why in again)
    verdict.differences += [f"{step} ran again: {why}" for step, why in again if "replay" not in why]
    return ends


def _differences(plain: list[Life], ends: dict[str, Life]) -> list[str]:
    found: list[str] = []
    ignored = out_of_scope(plain[0].notebook)
    for end, life in ends.items():
        lives = (*plain, life)
        here = output_differences(*(each.notebook for each in lives))
        here += variable_differences(
            *({name: value for name, value in each.variables.items() if name not in ignored} for each in lives)
        )
        found += [f"{end}: {each}" for each in here]
    return found


def ran_again(log: Path, *, always: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Steps that began when they were finished already, and why. ``always``: those that are to."""
    finished: dict[str, str] = {}
    for line in log.read_text().splitlines():
        kind, step, why = json.loads(line)
        if kind == "step.committed":
            finished[step] = ""
        elif kind == "step.begun" and step in finished and step not in always:
            # A kernel may be killed in a replay: the next one goes on with it.
            finished[step] = why = finished[step] if "after a crash" in why and finished[step] else why
            yield step, why


def _choose(choice: random.Random, cells: list[int], durations_s: dict[int, float]) -> Kill:
    cell = choice.choice(cells)
    match choice.choice(["after", "during", "at"]):
        case "after":
            return Kill(cell, "after")
        case "during":
            return Kill(cell, "during", delay_s=choice.uniform(0, durations_s[cell] + DURING_MARGIN_S))
        case _:
            return Kill(cell, "at", point=choice.choice(POINTS))


def _place(root: Path, notebook_path: Path) -> Place:
    folder, private = root / "folder", root / "private"
    private.mkdir(parents=True)
    shutil.copytree(notebook_path.parent, folder, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    return Place(folder, private, notebook_path.name)


def _end_processes(root: Path) -> None:
    """What a notebook started and did not end."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if Path(process.cwd()).is_relative_to(root):
                process.kill()


def _is_always(cell: Any) -> bool:
    return "always" in cell.metadata.get("tags", [])


def _cleared(notebook: Any) -> Any:
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def _stepped(notebook: Any) -> Any:
    """The notebook with each code cell as a step, but for those that belong to another cell magic, and to us."""
    notebook = _cleared(notebook)
    for index, cell in enumerate(notebook.cells):
        text = cell.source.strip()
        if cell.cell_type == "code" and text and not text.startswith("%%") and text != LOAD and not looks_at_us(text):
            always = " --always" if _is_always(cell) else ""
            cell.source = f"%%resumable cell_{index}{always}\n{cell.source}"
    return notebook
