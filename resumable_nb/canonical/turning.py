"""How a matrix is turned round: what lies beside each other comes to lie one after the other.

What it costs is set by the memory and the interpreter's lock. Rows are read while the nearest cache still has what lies
beside what is taken from them; calls are few and long, as threads wait for each other between two.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Final

CACHE_LINE_BYTES: Final = 64
_NEAR_BYTES: Final = 1 << 15
"""What stays in the nearest cache while one column after the other is read from it."""
_FEW_ROWS: Final = 128
"""In shorter bands, rows are read from the desk: their places in the cache are the same ones."""
_DESK_BYTES: Final = 1 << 19
_PAGE_BYTES: Final = 1 << 12
_STREAMS: Final = 40
"""Rows that are read side by side where each fills pages of its own: a core knows the places of some 64 pages."""


class Desk:
    """Memory of one thread, used many times: for a copy, and for rows whose places the caches cannot tell apart."""

    def __init__(self) -> None:
        self._np = sys.modules["numpy"]
        self._sheet: Any = None
        self._memory: Any = None

    def sheet(self, block: Any) -> Any:
        """An array of this shape, for a copy; it holds until the next one is asked for."""
        if not block.nbytes:
            return self._np.empty(block.shape, block.dtype)
        if self._sheet is None or self._sheet.nbytes < block.nbytes:
            self._sheet = self._np.empty(block.nbytes, self._np.uint8)
        return self._sheet[: block.nbytes].view(block.dtype).reshape(block.shape)

    def turn(self, matrix: Any, lines: Any) -> None:
        """Write the columns of a matrix in row order into ``lines``."""
        long = matrix.shape[1] * matrix.itemsize >= _PAGE_BYTES
        band = _STREAMS if long else _band(abs(matrix.strides[0]))
        if long or band >= min(_FEW_ROWS, len(matrix)):
            self._turn(matrix, lines, band)
            return
        desk = self._padded(matrix)
        for start in range(0, len(matrix), len(desk)):
            rows = desk[: len(matrix) - start]
            rows[...] = matrix[start : start + len(desk)]
            self._turn(rows, lines[:, start : start + len(desk)], _band(desk.strides[0]))

    def _turn(self, matrix: Any, lines: Any, band: int) -> None:
        whole = len(matrix) // band * band
        if whole:
            bands = matrix[:whole].reshape(-1, band, matrix.shape[1]).transpose(0, 2, 1)
            self._np.concatenate(bands, axis=1, out=lines[:, :whole])
        if whole < len(matrix):
            lines[:, whole:] = matrix[whole:].T

    def _padded(self, matrix: Any) -> Any:
        """Room for rows that begin an odd number of cache lines apart, so that many fit into the nearest cache."""
        width = matrix.shape[1]
        row_bytes = (width * matrix.itemsize // CACHE_LINE_BYTES // 2 * 2 + 3) * CACHE_LINE_BYTES
        if self._memory is None or self._memory.nbytes < row_bytes:
            self._memory = self._np.empty(max(_DESK_BYTES, row_bytes), self._np.uint8)
        rows = self._memory.nbytes // row_bytes
        return self._memory[: rows * row_bytes].view(matrix.dtype).reshape(rows, -1)[:, :width]


def _band(stride: int) -> int:
    """How many rows, so far apart, the nearest cache has places for."""
    lines, rest = divmod(stride, CACHE_LINE_BYTES)
    clash = 1 if rest else math.gcd(lines, CACHE_LINE_BYTES)
    return _NEAR_BYTES // max(1, min(stride, CACHE_LINE_BYTES)) // clash
