"""What a step makes is saved: against writing the same bytes to a file, with one fsync."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.race import Race, main, timed
from benchmarks.shell import shell


def races(small: bool) -> Iterator[Race]:
    rows, rounds = (2_000, 1) if small else ((1 << 30) // 80, 5)
    cell = shell()
    cell(f"import numpy as np\nsource = np.random.default_rng(0).random(({rows}, 10))")
    data = np.random.default_rng(1).random((rows, 10))
    size = f"{data.nbytes >> 20} MB"

    def write() -> None:
        with Path("raw").open("wb", buffering=0) as file:
            view = memoryview(data).cast("B")
            for start in range(0, len(view), 8 << 20):
                file.write(view[start : start + (8 << 20)])
            os.fsync(file.fileno())

    raw = timed(write)
    number = iter(range(1, 1000))

    def race(what: str, prepare: str, body: str) -> Race:
        def seconds() -> float:
            k = next(number)
            cell(prepare.replace("#", str(k)))
            return timed(lambda: cell(f"%%resumable 'snapshot {k}'\n{body}".replace("#", str(k))))()

        return Race(what, seconds, "write + fsync", raw, rounds=rounds)

    yield race(f"a new array of {size}", "other = source + #", "made = other; del other")
    cell("del made")
    yield race(f"{size} read, nothing new", "number = #", "total = source[number, 0]")
    yield race(f"{size}, one cell changed", "number = #", "source[number, 0] += 1")


if __name__ == "__main__":
    main([races], __doc__)
