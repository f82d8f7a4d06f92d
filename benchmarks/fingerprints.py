"""Fingerprints: of numeric data against BLAKE3 over the same bytes, of small objects against pickling in C."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator

import numpy as np
import pandas as pd
from blake3 import blake3

from benchmarks.race import Race, main, timed
from resumable_nb.fingerprint import fingerprint

NUMERIC = 1.5
OBJECTS = 5.0


def races(small: bool) -> Iterator[Race]:
    yield from _numeric(1 << 20 if small else 1 << 30, 1 if small else 5)
    yield from _objects(2_000 if small else 200_000, 1 if small else 5)


def _numeric(size_bytes: int, rounds: int) -> Iterator[Race]:
    size = f"{size_bytes >> 20} MB"
    matrix = np.random.default_rng(0).random((size_bytes // 80, 10))
    flat = matrix.reshape(-1)
    hashed = timed(lambda: blake3(flat.view(np.uint8).data).digest())

    def race(what: str, value: object) -> Race:
        return Race(f"{size} {what}", timed(lambda: fingerprint(value)), "blake3", hashed, NUMERIC, rounds)

    yield race("array of float64", flat)
    yield race("array of int64", flat.view(np.int64))
    yield race("frame, 10 columns, one block", pd.DataFrame(matrix, copy=False))
    yield race("frame, 1,000 columns, one block", _in_rows(flat, 1000))
    columns = {f"c{k}": part for k, part in enumerate(np.split(flat[: flat.size // 10 * 10], 10))}
    yield race("frame, 10 columns, each its own", pd.DataFrame(columns, copy=False))
    yield race("in arrays of 1 MB", np.array_split(flat, max(1, size_bytes >> 20)))
    yield race("array in Fortran order", flat[: flat.size // 100 * 100].reshape(100, -1).T)
    side = math.isqrt(flat.size)
    yield race("square, turned round", flat[: side * side].reshape(side, side).T)
    short = np.concatenate([flat.astype(np.float32)] * 2)
    for width in (32, 1000):
        yield race(f"float32, {width:,} columns, one block", _in_rows(short, width))


def _in_rows(flat: np.ndarray, columns: int) -> pd.DataFrame:
    return pd.DataFrame(flat[: flat.size // columns * columns].reshape(-1, columns), copy=False)


def _objects(number: int, rounds: int) -> Iterator[Race]:
    flat = [{"id": k, "name": f"user {k}", "score": k * 1.5, "ok": k % 2 == 0} for k in range(number)]
    nested = [{"id": k, "tags": ["a", str(k % 7)], "at": {"x": k / 3, "y": k / 7}} for k in range(number)]
    varied = [{f"k{k % 50}": k, f"n{k % 7}": str(k)} for k in range(number)]
    named = {f"user {k}": each for k, each in enumerate(flat)}
    for what, value in (("alike", flat), ("nested", nested), ("of many kinds", varied), ("in a dict", named)):
        yield Race(
            f"{number:,} dicts, {what}",
            timed(lambda value=value: fingerprint(value)),
            "pickle",
            timed(lambda value=value: pickle.dumps(value, 5)),
            OBJECTS,
            rounds,
        )


if __name__ == "__main__":
    main([races], __doc__)
