"""The task over time, as a picture: runs side by side, a lane a step, with calls, retries, pauses and deaths."""

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
LEFT: Final = 150
GAP: Final = 26
LANE: Final = 24
TOP: Final = 30
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
    height = TOP + LANE * len(lanes) + 24
    parts = [_axis(stretches, height)]
    rows = {step.id: TOP + LANE * index for index, step in enumerate(lanes)}
    parts += [_lane(step, rows[step.id]) for step in lanes]
    parts += [_bar(*each, rows, stretches) for each in _worked(spans, trails, stretches, live, now)]
    parts.append(_calls(trails, rows, stretches))
    parts += [_pause(each, stretches, height, now) for each in pauses if each.began_at is not None]
    died = sum(each.died for each in stretches.values())
    title = f"{plural(len(lanes), 'step')}, {plural(calls, 'tool call')}, {plural(len(runs), 'run')}, {died} died"
    return (
        f'<svg class="rnb-time" role="img" aria-label="Timeline: {title}" viewBox="0 0 {WIDTH} {height}" '
        f'xmlns="http://www.w3.org/2000/svg"><defs><pattern id="rnb-hatch" width="6" height="6" '
        'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="6" '
        f'class="rnb-tick"/></pattern></defs>{"".join(parts)}</svg>{_LEGEND}'
    )


_LEGEND: Final = (
    '<p class="rnb-note rnb-quiet">bar: step at work · stroke: tool call · △ retried · × failed · ? in doubt · '
    "hatched: paused · dashed line: the kernel died</p>"
)


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
    room = WIDTH - LEFT - 10 - GAP * (len(runs) - 1)
    least = min(40.0, room / len(runs))
    total = sum(spans.values())
    share = {run: least + (room - least * len(runs)) * span / total for run, span in spans.items()}
    found, x = {}, float(LEFT)
    for run in runs:
        died = run.ended_at is None and run.id != live
        found[run.id] = Stretch(run.started_at, ends[run.id], x, share[run.id], died)
        x += share[run.id] + GAP
    return found


def _axis(stretches: dict[str, Stretch], height: int) -> str:
    parts = []
    for each in stretches.values():
        parts.append(
            f'<line class="rnb-lane" x1="{each.x:.1f}" y1="{TOP - 6}" x2="{each.x + each.width:.1f}" y2="{TOP - 6}"/>'
            f'<text x="{each.x:.1f}" y="{TOP - 12}">{clock_time(each.start)}</text>'
        )
        if each.width > 150:
            parts.append(
                f'<text x="{each.x + each.width:.1f}" y="{TOP - 12}" text-anchor="end">'
                f"{duration(each.end - each.start)}</text>"
            )
        if each.died:
            x = each.x + each.width + 3
            parts.append(f'<line class="rnb-end" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 18}"/>')
            parts.append(f'<text x="{x:.1f}" y="{height - 6}" text-anchor="middle">died</text>')
    return "".join(parts)


def _lane(step: StepRecord, y: int) -> str:
    name = html.escape(line(step.name, 22))
    return (
        f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{name}</text>'
        f'<line class="rnb-lane" x1="{LEFT}" y1="{y + LANE - 1}" x2="{WIDTH - 10}" y2="{y + LANE - 1}"/>'
    )


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
    return f'<rect class="rnb-span" x="{x:.1f}" y="{y + 5}" width="{width:.1f}" height="{LANE - 11}" rx="2"/>'


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
    path = "".join(f"M{x} {y + 8}v{LANE - 17}" for x, y in sorted(ticks))
    drawn = "".join(
        f'<text x="{x}" y="{y + 9}" text-anchor="middle">{mark}</text>' for x, y, mark in sorted(marks)[:300]
    )
    return f'<path class="rnb-tick" fill="none" d="{path}"/>{drawn}' if path else ""


def _pause(pause: PauseRecord, stretches: dict[str, Stretch], height: int, now: float) -> str:
    stretch = stretches.get(pause.run)
    if stretch is None or pause.began_at is None:
        return ""
    x = stretch.at(pause.began_at)
    width = max(3.0, stretch.at(pause.ended_at or now) - x)
    return f'<rect class="rnb-pause" x="{x:.1f}" y="{TOP - 6}" width="{width:.1f}" height="{height - TOP - 14}"/>'
