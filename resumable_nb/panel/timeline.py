"""The task over time, as a picture: runs side by side, a lane a step, with calls, retries, pauses and deaths.

Places are parts of the width, and texts keep their size: it is as wide as its room, and readable in a narrow one.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from resumable_nb.model import PauseRecord, RunRecord, StepRecord
from resumable_nb.panel.text import line
from resumable_nb.panel.trail import Trails
from resumable_nb.wording import clock_time, duration, plural

WIDTH: Final = 1000
"""Units; each is a thousandth of the room."""
MARGIN: Final = 8
GAP: Final = 26
LANE: Final = 36
BAR: Final = 16
"""How far below the top of its lane a bar begins: the step's name stands above it."""
TOP: Final = 26
FOOT: Final = 24
"""Room below the lanes for the signs of kernels that died."""
LETTER: Final = 20
"""Units that a letter takes where the room is as narrow as 350 pixels."""
LANES: Final = 14
RUNS: Final = 8
LEAST_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run, and where it stands in the picture."""

    start: float
    end: float
    x: float
    width: float
    died: bool

    def at(self, moment: float) -> float:
        if moment <= self.start:
            return self.x
        if moment >= self.end:
            return self.x + self.width
        return self.x + self.width * (moment - self.start) / (self.end - self.start)


def picture(
    runs: list[RunRecord],
    steps: list[StepRecord],
    spans: list[StepRecord],
    trails: Trails,
    pauses: Iterable[PauseRecord],
    *,
    calls: int,
    live: str,
    now: float,
) -> str:
    """An SVG, or empty where nothing has happened yet.

    ``steps`` have lanes; ``spans`` are all their versions; ``trails`` are of so many ``calls``; ``live`` is the run
    that goes on.
    """
    lanes = [step for step in steps if "/" not in step.id][-LANES:]
    if not runs or not lanes:
        return ""
    stretches = _stretches(runs[-RUNS:], spans, trails, live, now)
    died = sum(each.died for each in stretches.values())
    height = TOP + LANE * len(lanes) + (FOOT if died else 8)
    parts = [_axis(stretches, height)]
    rows = {step.id: TOP + LANE * index for index, step in enumerate(lanes)}
    parts += [_lane(rows[step.id]) for step in lanes]
    parts += [_bar(*each, rows, stretches) for each in _worked(spans, trails, stretches, live, now)]
    parts.append(_calls(trails, rows, stretches))
    parts += [_pause(each, stretches, len(lanes), now) for each in pauses if each.began_at is not None]
    parts += [_name(step, rows[step.id]) for step in lanes]  # above what would cross them out
    left_out = _left_out(len(lanes), sum("/" not in step.id for step in steps), len(stretches), len(runs))
    title = f"{plural(len(lanes), 'step')}, {plural(calls, 'tool call')}, {plural(len(runs), 'run')}, {died} died"
    return (
        f'<svg class="rnb-time" role="img" aria-label="Timeline: {title}" width="100%" height="{height}" '
        f'xmlns="http://www.w3.org/2000/svg"><defs><pattern id="rnb-hatch" width="6" height="6" '
        'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="6" '
        f'class="rnb-tick"/></pattern></defs>{"".join(parts)}</svg>'
        f'<p class="rnb-note rnb-quiet">{_LEGEND}{left_out}</p>'
    )


def _left_out(lanes: int, steps: int, shown: int, runs: int) -> str:
    kinds = (("steps", lanes, steps), ("kernels", shown, runs))
    return "".join(f" · the newest {some} of {many:,} {kind}" for kind, some, many in kinds if some < many)


SIGN: Final = "⚡\ufe0e"
_LEGEND: Final = (
    "bar: step at work · stroke: tool call · △ retried · × failed · ? in doubt · hatched: paused · "
    f"{SIGN} dashed line: the kernel died"
)


def _at(x: float) -> str:
    """A place in the picture."""
    return f"{100 * x / WIDTH:.2f}%"


def _stretches(
    runs: list[RunRecord], steps: list[StepRecord], trails: Trails, live: str, now: float
) -> dict[str, Stretch]:
    """A run is as wide as it lasted; between runs is a gap, however long nobody worked."""
    last: dict[str, float] = {run.id: run.started_at for run in runs}
    known = [(step.run, step.ended_at or step.started_at) for step in steps]
    for of, end in [*known, *((of, trail.last_s) for (_, of), trail in trails.items())]:
        if end > last.get(of, math.inf):
            last[of] = end
    ends = {run.id: now if run.id == live else max(last[run.id], LEAST_S) for run in runs}
    # A kernel may stay open for hours after its last step: what counts is the work.
    spans = {run.id: max(ends[run.id] - run.started_at, LEAST_S) for run in runs}
    if live in spans and not any(step.run == live and step.status == "running" for step in steps):
        ends[live] = last[live]
        spans[live] = max(last[live] - next(run.started_at for run in runs if run.id == live), LEAST_S)
    room = WIDTH - 2 * MARGIN - GAP * (len(runs) - 1)
    least = min(40.0, room / len(runs))
    total = sum(spans.values())
    share = {run: least + (room - least * len(runs)) * span / total for run, span in spans.items()}
    found, x = {}, float(MARGIN)
    for run in runs:
        died = run.ended_at is None and run.id != live
        found[run.id] = Stretch(run.started_at, ends[run.id], x, share[run.id], died)
        x += share[run.id] + GAP
    return found


def _axis(stretches: dict[str, Stretch], height: int) -> str:
    parts = [_clocks(list(stretches.values()))]
    for each in stretches.values():
        end = each.x + each.width
        parts.append(f'<line class="rnb-lane" x1="{_at(each.x)}" y1="{TOP - 6}" x2="{_at(end)}" y2="{TOP - 6}"/>')
        if each.died:
            x = _at(end + 3)
            parts.append(f'<line class="rnb-end" x1="{x}" y1="{TOP - 6}" x2="{x}" y2="{height - FOOT + 6}"/>')
            parts.append(f'<text x="{x}" y="{height - 6}" text-anchor="middle">{SIGN}</text>')
    return "".join(parts)


def _clocks(stretches: list[Stretch]) -> str:
    """When each run began, and how long it took, where there is room: the newest run's comes first."""
    parts: list[str] = []
    taken: list[tuple[float, float]] = []
    for each in [stretches[-1], *stretches[:-1]]:
        began, took = clock_time(each.start), duration(each.end - each.start)
        width = LETTER * len(began)
        x = min(each.x, WIDTH - MARGIN - width)
        if any(x < end and start < x + width for start, end in taken):
            continue
        taken.append((x, x + width + LETTER))
        parts.append(f'<text x="{_at(x)}" y="{TOP - 12}">{began}</text>')
        if each.width > width + LETTER * (len(took) + 1):
            parts.append(f'<text x="{_at(each.x + each.width)}" y="{TOP - 12}" text-anchor="end">{took}</text>')
            taken.append((x, each.x + each.width))
    return "".join(parts)


def _lane(y: int) -> str:
    left, right, below = _at(MARGIN), _at(WIDTH - MARGIN), y + LANE - 1
    return f'<line class="rnb-lane" x1="{left}" y1="{below}" x2="{right}" y2="{below}"/>'


def _name(step: StepRecord, y: int) -> str:
    return f'<text x="{_at(MARGIN)}" y="{y + 12}">{html.escape(line(step.name, 44))}</text>'


def _worked(
    spans: list[StepRecord], trails: Trails, stretches: dict[str, Stretch], live: str, now: float
) -> list[tuple[str, str, float, float]]:
    """Step, run, beginning and end of each time that it was at work.

    A version that was cut off and went on in another kernel has no record of the first one: its calls tell.
    """
    found = []
    for step in spans:
        if step.run in stretches:
            end = step.ended_at or (now if step.run == live else stretches[step.run].end)
            found.append((step.id, step.run, step.started_at, end))
    known = {(of, run) for of, run, _, _ in found}
    hulls: dict[tuple[str, str], tuple[float, float]] = {}
    for (of, run), trail in trails.items():
        key = (of.partition("/")[0], run)
        if (of, run) not in known and key not in known:
            start, end = hulls.get(key, (trail.first_s, trail.last_s))
            hulls[key] = (min(start, trail.first_s), max(end, trail.last_s))
    return found + [(of, run, start, end) for (of, run), (start, end) in hulls.items()]


def _bar(step: str, run: str, start: float, end: float, rows: dict[str, int], stretches: dict[str, Stretch]) -> str:
    y, stretch = rows.get(step), stretches.get(run)
    if y is None or stretch is None:
        return ""
    x = stretch.at(start)
    width = max(2.0, stretch.at(end) - x)
    return f'<rect class="rnb-span" x="{_at(x)}" y="{y + BAR}" width="{_at(width)}" height="{LANE - BAR - 5}" rx="2"/>'


def _calls(trails: Trails, rows: dict[str, int], stretches: dict[str, Stretch]) -> str:
    """Strokes; those that would fall on one another are drawn once."""
    ticks: set[tuple[int, int]] = set()
    marks: set[tuple[int, int, str]] = set()
    for (step, run), trail in trails.items():
        y, stretch = rows.get(step.partition("/")[0]), stretches.get(run)
        if y is None or stretch is None:
            continue
        ticks |= {(round(stretch.at(moment)), y) for moment in trail.moments}
        marks |= {(round(stretch.at(moment)), y, mark) for moment, found in trail.odd.values() for mark in found}
    height = max(rows.values()) + LANE
    path = "".join(f"M{x} {y + BAR + 3}v{LANE - BAR - 11}" for x, y in sorted(ticks))
    drawn = "".join(
        f'<text class="rnb-odd" x="{_at(x)}" y="{y + BAR + 12}" text-anchor="middle">{mark}</text>'
        for x, y, mark in sorted(marks)[:300]
    )
    # One path for thousands of strokes; it is stretched to the room, the strokes are not.
    room = f'width="100%" height="{height}" viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none"'
    strokes = f'<path class="rnb-tick" fill="none" vector-effect="non-scaling-stroke" d="{path}"/>'
    return f"<svg {room}>{strokes}</svg>{drawn}" if path else ""


def _pause(pause: PauseRecord, stretches: dict[str, Stretch], lanes: int, now: float) -> str:
    stretch = stretches.get(pause.run)
    if stretch is None or pause.began_at is None:
        return ""
    x = stretch.at(pause.began_at)
    width = max(3.0, stretch.at(pause.ended_at or now) - x)
    return f'<rect class="rnb-pause" x="{_at(x)}" y="{TOP - 6}" width="{_at(width)}" height="{LANE * lanes + 6}"/>'
