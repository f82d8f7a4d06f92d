"""Two ways side by side: rounds in turn, medians, and the ratio. Times depend on the machine, ratios much less."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from resumable_nb import session

Seconds = Callable[[], float]


@dataclass(frozen=True)
class Race:
    """``ours`` and ``theirs`` run once a call, and say how long it took. ``limit`` is the ratio that was promised."""

    what: str
    ours: Seconds
    against: str
    theirs: Seconds
    limit: float | None = None
    rounds: int = 7

    def run(self) -> Figure:
        pairs = [(self.ours(), self.theirs()) for _ in range(self.rounds)]
        ours, theirs = (statistics.median(each) for each in zip(*pairs, strict=True))
        return Figure(self.what, self.against, ours, theirs, ours / theirs, self.limit)


@dataclass(frozen=True)
class Figure:
    """The outcome of a race: medians in seconds, and their ratio."""

    what: str
    against: str
    ours_s: float
    theirs_s: float
    ratio: float
    limit: float | None


Races = Callable[[bool], Iterator[Race]]
"""The races of one program; ``True`` asks for small sizes, which show only that it runs."""


def timed(action: Callable[[], object], times: int = 1) -> Seconds:
    """Seconds that one action takes, as the mean of several in a row."""

    def seconds() -> float:
        began = time.perf_counter()
        for _ in range(times):
            action()
        return (time.perf_counter() - began) / times

    return seconds


def main(races: Sequence[Races], description: str) -> None:
    """The command line of a program."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="figures in full, for programs")
    parser.add_argument("--small", action="store_true", help="small sizes, one round: only to see that it runs")
    asked = parser.parse_args()
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["RESUMABLE_KEY_FILE"] = str(Path(folder) / "key")
        figures = []
        if not asked.json:
            print(f"{'':<36} {'ours':>9}  {'':<13} {'theirs':>9} {'ratio':>6}")
        for each in races:
            for race in each(asked.small):
                figures.append(race.run())
                if not asked.json:
                    print(line(figures[-1]), flush=True)
        session.close()
        os.chdir(here)
    if asked.json:
        print(json.dumps([vars(each) for each in figures], indent=1))


def line(figure: Figure) -> str:
    """A figure in 80 columns."""
    times = f"{shown(figure.ours_s):>9}  {figure.against:<13} {shown(figure.theirs_s):>9}"
    return f"{figure.what:<36} {times} {figure.ratio:>6.2f}"


def shown(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
