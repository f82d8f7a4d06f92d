"""Columns of a matrix in row order: turned into lines that lie in one piece, and hashed; threads share the work.

What it costs is set by the memory, the interpreter's lock and BLAKE3. Rows are read while the nearest cache still has
their neighbours; calls are few and long, as threads wait for each other between two; lines are hashed in long pieces.
"""

from __future__ import annotations

import collections
import itertools
import math
import sys
from typing import Any, Final

from blake3 import blake3

from resumable_nb.canonical.arrays import box_sides, head_of, joined, one_nan
from resumable_nb.canonical.writer import Written
from resumable_nb.threads import shared

_ABREAST: Final = 64
"""Columns that are turned together."""
_TURNS: Final = 8
"""Into so many turns the work is split where there is less of it, down to columns that fill a line of the cache."""
_ROOM_BYTES: Final = 1 << 24
"""The most that the lines of a turn take: each thread has such a room, and a desk, beside the data."""
_CUT_BYTES: Final = 1 << 16
"""A line that is hashed in parts is cut at multiples of this: BLAKE3 is fast where a part begins at one of its size."""
_PIECE_BYTES: Final = 1 << 20
"""Lines that are looked through and hashed while they are in the cache of a core."""
_NEAR_BYTES: Final = 1 << 15
"""What stays in the nearest cache while one column after the other is read from it."""
_CACHE_LINE_BYTES: Final = 64
_FEW_ROWS: Final = 128
"""In shorter bands, rows are read from a desk: their places in the cache are the same ones."""
_DESK_BYTES: Final = 1 << 19


def columns_of(matrix: Any) -> list[Written]:
    """Each column of a matrix in row order, as that column alone would be written; memory is read once for all."""
    rows, columns = matrix.shape
    head = head_of(matrix[:, 0])
    (side,) = box_sides((rows,), matrix.itemsize)
    parts = max(1, -(-rows // side))
    abreast = _abreast(columns, parts, matrix.itemsize)
    groups, rooms = range(0, columns, abreast), list[_Room]()

    def turn(k: int) -> list[blake3]:
        part, first = k // len(groups) * side, groups[k % len(groups)]
        block = matrix[part : part + side, first : first + abreast]
        hashers = [blake3(head if parts == 1 else b"") for _ in range(block.shape[1])]
        try:
            room = rooms.pop()
        except IndexError:  # no other thread has left one
            room = _Room(min(_ROOM_BYTES, side * abreast * matrix.itemsize))
        room.hash(hashers, block)
        rooms.append(room)
        return hashers

    found = shared(turn, parts * len(groups), matrix.nbytes)
    own = [list(itertools.chain(*found[k * len(groups) : (k + 1) * len(groups)])) for k in range(parts)]
    if parts > 1:
        own = [[joined(head, (each[k].digest() for each in own)) for k in range(columns)]]
    return [Written(b"#" + each.digest(length=16)) for each in own[0]]


def _abreast(columns: int, parts: int, itemsize: int) -> int:
    """How many columns make a group: equal ones, so that no thread is left with the rest."""
    unit = max(1, _CACHE_LINE_BYTES // itemsize)
    groups = min(max(-(-columns // _ABREAST), -(-_TURNS // parts)), -(-columns // unit))
    return -(-columns // (groups * unit)) * unit


class _Room:
    """Memory of one thread: for lines, and a desk for rows whose places the caches could not tell apart."""

    def __init__(self, size_bytes: int) -> None:
        self._np = np = sys.modules["numpy"]
        self._lines = np.empty(size_bytes, np.uint8)
        self._desk = np.empty(0, np.uint8)

    def hash(self, hashers: list[blake3], matrix: Any) -> None:
        """Add each column to its hasher."""
        np, width = self._np, len(hashers)
        step = len(matrix)
        if width * step * matrix.itemsize > self._lines.nbytes:
            line, longest = step * matrix.itemsize, self._lines.nbytes // width // _CUT_BYTES
            parts = -(-line // (longest * _CUT_BYTES))
            step = -(-line // (parts * _CUT_BYTES)) * _CUT_BYTES // matrix.itemsize
        for start in range(0, len(matrix), step):
            lines = self._turned(matrix[start : start + step])
            few = max(1, _PIECE_BYTES // lines[0].nbytes)
            for k in range(0, width, few):
                piece = lines[k : k + few]
                whole = one_nan(np, piece).reshape(len(piece), -1) if matrix.dtype.kind in "fc" else piece
                data = [line.data for line in whole.view(np.uint8)]
                collections.deque(map(blake3.update, hashers[k : k + few], data), maxlen=0)

    def _turned(self, matrix: Any) -> Any:
        """The columns as lines, in this room."""
        rows, width = matrix.shape
        lines = self._lines.view(matrix.dtype)[: rows * width].reshape(width, rows)
        stride = abs(matrix.strides[0])
        band = _band(stride)
        if band >= _FEW_ROWS:
            self._turn(matrix, lines, band)
            return lines
        desk = self._padded(matrix)
        for start in range(0, rows, len(desk)):
            part = desk[: rows - start]
            part[...] = matrix[start : start + len(desk)]
            self._turn(part, lines[:, start : start + len(desk)], _band(desk.strides[0]))
        return lines

    def _turn(self, matrix: Any, lines: Any, band: int) -> None:
        whole = len(matrix) // band * band
        if whole:
            bands = matrix[:whole].reshape(-1, band, matrix.shape[1]).transpose(0, 2, 1)
            self._np.concatenate(bands, axis=1, out=lines[:, :whole])
        if whole < len(matrix):
            lines[:, whole:] = matrix[whole:].T

    def _padded(self, matrix: Any) -> Any:
        """A desk whose rows begin an odd number of cache lines apart, so that many fit into the nearest cache."""
        width = matrix.shape[1]
        row_bytes = (width * matrix.itemsize // _CACHE_LINE_BYTES // 2 * 2 + 3) * _CACHE_LINE_BYTES
        if not self._desk.size:
            self._desk = self._np.empty(max(_DESK_BYTES, row_bytes), self._np.uint8)
        rows = self._desk.nbytes // row_bytes
        return self._desk[: rows * row_bytes].view(matrix.dtype).reshape(rows, -1)[:, :width]


def _band(stride: int) -> int:
    """How many rows, so far apart, the nearest cache has places for."""
    lines, rest = divmod(stride, _CACHE_LINE_BYTES)
    clash = 1 if rest else math.gcd(lines, _CACHE_LINE_BYTES)
    return _NEAR_BYTES // max(1, min(stride, _CACHE_LINE_BYTES)) // clash
