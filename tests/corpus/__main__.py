"""``python -m tests.corpus FOLDER``: one line a notebook, then a summary; exit status 1 where anything differs."""

from __future__ import annotations

import argparse
import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.corpus.sweep import Verdict, sweep


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=3, help="kernels killed for each notebook (default 3)")
    parser.add_argument("--jobs", type=int, default=2, help="notebooks at a time (default 2)")
    parser.add_argument("--only", default="", help="notebooks whose names contain this")
    options = parser.parse_args(arguments)
    paths = [path for path in sorted(options.folder.glob("*.ipynb")) if options.only in path.name]
    if not paths:
        parser.error(f"{options.folder}: there is no notebook")

    def judge(path: Path) -> Verdict:
        try:
            return asyncio.run(sweep(path, seed=options.seed, kills=options.kills))
        except Exception as error:  # the other notebooks are judged all the same
            return Verdict(path.name, [f"{type(error).__name__}: {error}"])

    verdicts = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for verdict in pool.map(judge, paths):
            print(verdict, flush=True)
            verdicts.append(verdict)
    bad = sum(bool(verdict.differences) for verdict in verdicts)
    kills = sum(len(verdict.kills) for verdict in verdicts)
    print(f"{len(verdicts)} notebooks, {kills} kills, seed {options.seed}: {bad or 'nothing'} differs")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
