"""What a step depends on, in words: the parts of its key as people would name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from resumable_nb.change import ASSIGNED, NAMED, SCRIPT, SHARING
from resumable_nb.configured import PART
from resumable_nb.groups import ITSELF, SAME
from resumable_nb.model import StepRecord

Row = tuple[str, str, str, str]
"""Kind, name, value and digest; each may be empty."""
MOST = 50


def rows(record: StepRecord) -> Iterator[Row]:
    """The parts of the key, at most ``MOST`` of a kind."""
    key = record.key
    yield "code", "", "of the step itself", key.source[:12]
    groups: tuple[tuple[str, Mapping[str, str]], ...] = (
        ("function", key.functions), ("input", key.inputs), ("file", key.files),
    )  # fmt: skip
    for kind, marks in groups:
        for name, mark in list(marks.items())[:MOST]:
            if kind == "input":
                yield _input(name, mark, record.previews.get(name, ""))
            elif name.startswith(SCRIPT):
                yield SCRIPT.strip(), name.removeprefix(SCRIPT), "", mark[:12]
            else:
                yield kind, name, "", mark[:12]
        if (more := len(marks) - MOST) > 0:
            yield kind, "", f"and {more:,} more", ""


def _input(name: str, mark: str, preview: str) -> Row:
    if name.startswith(SHARING):
        return "objects in", name.removeprefix(SHARING), _shared(mark), ""
    if name.startswith(ASSIGNED):
        return "input", name.removeprefix(ASSIGNED), "what it held before, as the step need not set it anew", mark[:12]
    if name.startswith(PART):
        return "settings of", name.removeprefix(PART), "", mark[:12]
    kind, _, rest = name.partition(" ")
    if rest and kind in ("import", "environment"):
        return kind, rest, preview, mark[:12]
    return ("input", name, preview, mark[:12]) if " " not in name else (name, "", preview, mark[:12])


def _shared(mark: str) -> str:
    """``alone``, or who shares an object with the variable: changed through one, it is changed in the other."""
    others = dict(each.split("=", 1) for each in mark.split() if "=" in each)
    same = [name for name, how in others.items() if how == SAME]
    sharing = [name for name, how in others.items() if name != ITSELF and how not in (SAME, NAMED)]
    holding = [name for name, how in others.items() if how.endswith(NAMED)]
    told = [f"is one object with {', '.join(same)}"] * bool(same)
    told += [f"shared with {', '.join(sharing)}"] * bool(sharing)
    told += [f"holds {', '.join(holding)}"] * bool(holding)
    told += ["some are in it more than once"] * (ITSELF in others)
    return "; ".join(told) or "shared with no other variable"
