"""Columns of a matrix in row order: turned into lines that lie in one piece, and hashed; threads share the work."""

from __future__ import annotations

import collections
import itertools
import sys
from typing import Any, Final

from blake3 import blake3

from resumable_nb.canonical.arrays import box_sides, head_of, joined, one_nan
from resumable_nb.canonical.turning import CACHE_LINE_BYTES, Desk
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
    unit = max(1, CACHE_LINE_BYTES // itemsize)
    groups = min(max(-(-columns // _ABREAST), -(-_TURNS // parts)), -(-columns // unit))
    return -(-columns // (groups * unit)) * unit


class _Room:
    """Memory of one thread."""

    def __init__(self, size_bytes: int) -> None:
        self._np = np = sys.modules["numpy"]
        self._lines = np.empty(size_bytes, np.uint8)
        self._desk = Desk()

    def hash(self, hashers: list[blake3], matrix: Any) -> None:
        """Add each column to its hasher."""
        np, width = self._np, len(hashers)
        step = len(matrix)
        if width * step * matrix.itemsize > self._lines.nbytes:
            line, longest = step * matrix.itemsize, self._lines.nbytes // width // _CUT_BYTES
            parts = -(-line // (longest * _CUT_BYTES))
            step = -(-line // (parts * _CUT_BYTES)) * _CUT_BYTES // matrix.itemsize
        for start in range(0, len(matrix), step):
            block = matrix[start : start + step]
            lines = self._lines.view(matrix.dtype)[: block.size].reshape(width, -1)
            self._desk.turn(block, lines)
            few = max(1, _PIECE_BYTES // lines[0].nbytes)
            for k in range(0, width, few):
                piece = lines[k : k + few]
                whole = one_nan(np, piece).reshape(len(piece), -1) if matrix.dtype.kind in "fc" else piece
                data = [line.data for line in whole.view(np.uint8)]
                collections.deque(map(blake3.update, hashers[k : k + few], data), maxlen=0)
