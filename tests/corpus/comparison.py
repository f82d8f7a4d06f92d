"""What a notebook showed and left, compared where two plain runs of it agree."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

ADDRESS = re.compile(r"0x[0-9a-f]{6,}|(?<=sk-container-id-)\d+")
"""Of objects, and what scikit-learn counts in each kernel to tell its pictures apart."""

PROGRESS = re.compile(r"(\d+/\d+) · .*")
"""How long a loop took, and from where it went on."""

TIMES = re.compile(r"((?:CPU times|Wall time): ).*|[\d.]+ \wi?s ± .* per loop.*|\[\d+:\d+[^]\n]*(?:it/s|s/it)[^]\n]*\]")
"""What ``%%time``, ``%timeit`` and tqdm measured: two plain runs may happen to agree."""

WRITTEN = re.compile(r"^Overwriting (?=\S+$)", re.MULTILINE)
"""A ``%%writefile`` cell is no step, so it runs in every kernel, and finds its file there."""

OVERWRITTEN = re.compile(r"^[^\n]*\r(?=[^\n])", re.MULTILINE)
"""Start of a line that a progress line writes over. nbclient drops it or not, as the messages come."""

LISTED = re.compile(r"%%?resumable  |'resumable': '\w+', ")
"""Our magics, where ``%lsmagic`` lists all."""

Piece = tuple[str, str]
"""Where in the output (``stdout``, ``display_data image/png``), and a line of it."""


def output_differences(*runs: Any) -> list[str]:
    """Cells of the last run that show something else than all plain runs before it, in words."""
    found: list[str] = []
    for index, cells in enumerate(zip(*(run.cells for run in runs), strict=True)):
        if cells[0].cell_type != "code" or looks_at_us(cells[0].source):
            continue
        *plain, resumed = (list(_pieces(_as_plain(cell).outputs)) for cell in cells)
        if difference := _difference(plain, resumed):
            found.append(f"output of [{index}]: {difference}")
    return found


def looks_at_us(source: str) -> bool:
    """Whether a cell shows the task's own history, of which kills are a part."""
    return re.search(r"^%resumable|\btask\(\)", source, re.MULTILINE) is not None


def _difference(plain: list[list[Piece]], resumed: list[Piece]) -> str:
    one = plain[0]
    if any([where for where, _ in each] != [where for where, _ in one] for each in plain):
        return ""
    for *same, right in zip(*plain, resumed, strict=False):
        left = same[0]
        if left[0] != right[0] or (all(each[1] == left[1] for each in same) and left[1] != right[1]):
            return f"{_short(left)} became {_short(right)}"
    if len(one) > len(resumed):
        return f"{_short(one[len(resumed)])} is missing"
    if len(one) < len(resumed):
        return f"{_short(resumed[len(one)])} is new"
    return ""


def _short(piece: Piece) -> str:
    where, text = piece
    return f"{where} {text[:90]!r}"


UNREADABLE = re.compile(r"(.*)\(\d+\.py, line (\d+)\)")
"""What a ``SyntaxError`` says of a cell, in a file that is named for the cell's text."""

COMPILED = re.compile(r"(?<=^<>:)\d+(?=: SyntaxWarning: )", re.MULTILINE)
"""What IPython is told when it looks whether a cell awaits something."""


def _as_plain(cell: Any) -> Any:
    """A step's lines are each one further down than those of the cell without it."""
    first = 1 if cell.source.startswith("%%resumable") else 0
    cell = copy.deepcopy(cell)
    for output in cell.outputs:
        if output.output_type == "error" and (found := UNREADABLE.fullmatch(output.evalue)):
            text = re.sub(r"(?<= on line )\d+", lambda line: str(int(line[0]) - first), found[1])
            output.evalue = f"{text}(line {int(found[2]) - first})"
        elif output.output_type == "stream" and output.name == "stderr":
            output.text = COMPILED.sub(lambda line: str(int(line[0]) - first), output.text)
    return cell


WIDGET = "application/vnd.jupyter.widget-view+json"
"""Names a widget, which is gone with its kernel: a skipped cell shows its text."""


def _pieces(outputs: list[Any]) -> Iterator[Piece]:
    """An output in lines, without what is ours, counts and addresses. Streams that alternate have no certain order."""
    streams: dict[str, str] = {}
    for output in outputs:
        if "resumable_nb" in output.get("metadata", {}):
            continue
        if output.output_type == "stream":
            streams[output.name] = streams.get(output.name, "") + output.text
            continue
        yield from _lines(streams)
        streams = {}
        if output.output_type == "error":
            yield from _lines({"error": "\n".join([output.ename, output.evalue])})
        else:
            shown = sorted((mime, data) for mime, data in output.data.items() if mime != WIDGET)
            yield from _lines({f"{output.output_type} {mime}": str(data) for mime, data in shown})
    yield from _lines(streams)


def _lines(texts: dict[str, str]) -> Iterator[Piece]:
    for where, text in sorted(texts.items()):
        text = LISTED.sub("", OVERWRITTEN.sub("", text.replace("\r\n", "\n")))
        text = WRITTEN.sub("Writing ", TIMES.sub(r"\1…", text))
        for line in PROGRESS.sub(r"\1", ADDRESS.sub("0x…", text)).split("\n"):
            yield where, line


def variable_differences(*runs: dict[str, str]) -> list[str]:
    """Names that the last run has otherwise than all plain runs before it, in words."""
    *plain, resumed = runs
    found = [f"{name}: {value}" for name, value in {**plain[0], **resumed}.items() if value.startswith("FAULT")]
    for name in sorted({name for run in runs for name in run}):
        one, *others = (each.get(name, "") for each in plain)
        three = resumed.get(name, "")
        same, there = all(one == each for each in others), all(bool(one) == bool(each) for each in others)
        if (same and not _alike(one, three)) or (there and bool(one) != bool(three)):
            found.append(f"variable {name}: {one or 'nothing'} became {three or 'nothing'}"[:160])
    return found


def _alike(plain: str, resumed: str) -> bool:
    """By type where the plain run has no content: its class may read up an iterator when it is restored."""
    return resumed == plain or ("#" not in plain and bool(plain) and resumed.partition(" #")[0] == plain)


def out_of_scope(notebook: Any) -> set[str]:
    """Names of variables that ``--keep`` and ``--drop`` leave out."""
    names: set[str] = set()
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if re.match(r"%%resumable.* --(keep|drop) ", cell.source):
            names |= set(re.findall(r"^(\w+) = ", cell.source, re.MULTILINE)) - set(cell.source.split("\n")[0].split())
    return names | {f"{name} is" for name in names}
