"""What a notebook showed and left, compared where two plain runs of it agree."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

ADDRESS = re.compile(r"0x[0-9a-f]{6,}")

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


def output_differences(plain: Any, again: Any, resumed: Any) -> list[str]:
    """Cells of ``resumed`` that show something else than both of ``plain`` and ``again``, in words."""
    found: list[str] = []
    for index, (one, two, three) in enumerate(zip(plain.cells, again.cells, resumed.cells, strict=True)):
        if one.cell_type != "code" or looks_at_us(one.source):
            continue
        difference = _difference(*(list(_pieces(_as_plain(cell).outputs)) for cell in (one, two, three)))
        if difference:
            found.append(f"output of [{index}]: {difference}")
    return found


def looks_at_us(source: str) -> bool:
    """Whether a cell shows the task's own history, of which kills are a part."""
    return re.search(r"^%resumable|\btask\(\)", source, re.MULTILINE) is not None


def _difference(one: list[Piece], two: list[Piece], three: list[Piece]) -> str:
    if len(one) != len(two) or [where for where, _ in one] != [where for where, _ in two]:
        return ""
    for left, same, right in zip(one, two, three, strict=False):
        if left[0] != right[0] or (left[1] == same[1] != right[1]):
            return f"{_short(left)} became {_short(right)}"
    if len(one) > len(three):
        return f"{_short(one[len(three)])} is missing"
    if len(one) < len(three):
        return f"{_short(three[len(one)])} is new"
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


def variable_differences(plain: dict[str, str], again: dict[str, str], resumed: dict[str, str]) -> list[str]:
    """Names that ``resumed`` has otherwise than both plain runs, in words."""
    found = [f"{name}: {value}" for name, value in {**plain, **resumed}.items() if value.startswith("FAULT")]
    for name in sorted(plain.keys() | again.keys() | resumed.keys()):
        one, two, three = (each.get(name, "") for each in (plain, again, resumed))
        if one == two != three or bool(one) == bool(two) != bool(three):
            found.append(f"variable {name}: {one or 'nothing'} became {three or 'nothing'}"[:160])
    return found


def out_of_scope(notebook: Any) -> set[str]:
    """Names of variables that ``--keep`` and ``--drop`` leave out."""
    names: set[str] = set()
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if re.match(r"%%resumable.* --(keep|drop) ", cell.source):
            names |= set(re.findall(r"^(\w+) = ", cell.source, re.MULTILINE)) - set(cell.source.split("\n")[0].split())
    return names | {f"{name} is" for name in names}
