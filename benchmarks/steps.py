"""What a step adds to its cell where the namespace is full of objects that the cell does not touch."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.race import Race, main
from benchmarks.shell import shell

FULL = {
    "in a list": ("held = [[k] for k in range({n})]", "del held"),
    "in as many variables": (
        "globals().update({{f'v{{k}}': [k] for k in range({n})}})",
        "for k in range({n}): del globals()[f'v{{k}}']",
    ),
    "in a frame": (
        "held = __import__('pandas').DataFrame({{'a': list(map(str, range({n})))}}, dtype=object)",
        "del held",
    ),
}


def races(small: bool) -> Iterator[Race]:
    rounds = 1 if small else 9
    cell = shell()
    step = cell.timed("%%resumable 'step #'\nx = [#]")
    for where, (fill, clear) in FULL.items():
        number = 200 if small else 10_000 if "variables" in where else 100_000

        def full(fill: str = fill.format(n=number), clear: str = clear.format(n=number)) -> float:
            cell(fill)
            took = step()
            cell(clear)
            return took

        yield Race(f"{number:,} objects {where}", full, "none", step, None, rounds)


if __name__ == "__main__":
    main([races], __doc__)
