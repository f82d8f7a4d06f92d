"""How a matrix is turned round: what lies beside each other comes to lie one after the other.

What it costs is set by the memory and the interpreter's lock. Rows are read while the nearest cache still has what lies
beside what is taken from them; calls are few and long, as threads wait for each other between two.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any, Final

CACHE_LINE_BYTES: Final = 64
_NEAR_BYTES: Final = 1 << 15
"""What stays in the nearest cache while one column after the other is read from it."""
_FEW_ROWS: Final = 128
"""In shorter bands, rows are read from the desk: their places in the cache are the same ones."""
_DESK_BYTES: Final = 1 << 18
_PAGE_BYTES: Final = 1 << 12
_STREAMS: Final = 40
"""Rows that are read side by side where each fills pages of its own: a core knows the places of some 64 pages."""
_FAR_BYTES: Final = 512
"""Rows of a box that far apart are copied side by side first, in strips."""
_STRIP_BYTES: Final = 1 << 10
"""Runs that the memory is fast with."""
_SHORT: Final = 16
_MANY_ROWS: Final = 256
_WORDS_BYTES: Final = 1 << 19
_WORD: Final = "u4"
_WORD_BYTES: Final = 4
_LITTLE: Final = sys.byteorder == "little"


class Desk:
    """Memory of one thread, used many times: for a copy, and for rows whose places the caches cannot tell apart."""

    def __init__(self) -> None:
        self._np = sys.modules["numpy"]
        self._memory: dict[str, Any] = {}

    def sheet(self, block: Any) -> Any:
        """An array of this shape, for a copy; it holds until the next one is asked for."""
        if not block.nbytes:
            return self._np.empty(block.shape, block.dtype)
        return self._room("sheet", block.nbytes).view(block.dtype).reshape(block.shape)

    def lay(self, block: Any, own: Any) -> None:
        """Copy a box of up to a few MB into an array in C order. Numpy alone would run along the last axis, wherever
        that lies."""
        width = block.shape[-1] if block.ndim > 1 else 0
        if 0 < width <= min(8, 32 // max(1, block.itemsize)):  # loops that short cost more than what they do
            for k in range(width):
                own[..., k] = block[..., k]
            return
        axes = [axis for axis in range(block.ndim) if block.shape[axis] >= _SHORT]
        near = min(axes, key=lambda axis: abs(block.strides[axis]), default=-1)
        if near < 0 or near == block.ndim - 1 or block.shape[-1] < _SHORT:
            own[...] = block
            return
        lines, rows = (self._np.moveaxis(each, near, -2) for each in (own, block))
        if block.ndim == 2 and block.itemsize > 4:  # few items: fewer calls count more than strips
            self.turn(rows.T, lines)
            return
        if block.ndim == 2:
            lines, rows = lines[None], rows[None]
        for where in self._np.ndindex(rows.shape[1:-2]):
            some = (slice(None), *where)
            self._turn_box(rows[some].swapaxes(1, 2), lines[some])

    def turn(self, matrix: Any, lines: Any) -> None:
        """Write the columns of a long matrix in row order into ``lines``."""
        width, size = matrix.shape[1], matrix.itemsize
        long = width * size >= _PAGE_BYTES
        band = _STREAMS if long else _band(abs(matrix.strides[0]))
        if long or band >= min(_FEW_ROWS, len(matrix)):
            self._bands(matrix, lines, band)
            return
        row_bytes = _row_bytes(width * size)
        step = max(1, _DESK_BYTES // row_bytes)
        for start in range(0, len(matrix), step):
            rows = self._padded(matrix[None, start : start + step], row_bytes)[0]
            rows[...] = matrix[start : start + step]
            self._bands(rows, lines[:, start : start + step], _band(row_bytes))

    def _bands(self, matrix: Any, lines: Any, band: int) -> None:
        whole = len(matrix) // band * band
        if whole:
            bands = matrix[:whole].reshape(-1, band, matrix.shape[1]).transpose(0, 2, 1)
            self._np.concatenate(bands, axis=1, out=lines[:, :whole])
        if whole < len(matrix):
            lines[:, whole:] = matrix[whole:].T

    def _turn_box(self, planes: Any, lines: Any) -> None:
        """Write matrices in row order so that their columns lie as ``lines``."""
        _, length, width = planes.shape
        size, whole = planes.itemsize, 0
        if size <= 2 and length >= _MANY_ROWS and planes.strides[2] == size and _LITTLE:
            whole = width * size // _WORD_BYTES * _WORD_BYTES // size
        if whole:
            self._turn_words(planes[:, :, :whole].view(_WORD), lines[:, :whole].view(f"u{size}"))
            planes, lines = planes[:, :, whole:], lines[:, whole:]
        for part, where in self._near(planes) if whole < width else ():
            target = lines[where[0], where[2], where[1]]
            if len(part) == 1:
                target[...] = part.swapaxes(1, 2)
                continue
            shape = part.shape[0], part.shape[2], part.shape[1]
            own = self._room("words", part.nbytes).view(part.dtype).reshape(shape)
            own[...] = part.swapaxes(1, 2)  # into the target at once, numpy would go in the target's order
            target[...] = own

    def _turn_words(self, planes: Any, lines: Any) -> None:
        """Small items cost as much each as large ones, so they are turned as words, and the words are parted: the
        columns of a word begin an item further each, and a cast takes the first item of what lies there."""
        np, size = self._np, lines.itemsize
        many, length, width = planes.shape
        row_bytes = _row_bytes(length * _WORD_BYTES)
        few = max(1, _WORDS_BYTES // (width * row_bytes))
        for k in range(0, many, few):
            some = planes[k : k + few]
            memory = self._room("words", len(some) * width * row_bytes)
            strides = width * row_bytes, row_bytes, _WORD_BYTES
            words = np.ndarray((len(some), width, length), _WORD, memory, 0, strides)
            for part, where in self._near(some):
                words[where[0], where[2], where[1]] = part.swapaxes(1, 2)
            shape = len(some), width, _WORD_BYTES // size, length
            parted = np.ndarray(shape, _WORD, memory, 0, (*strides[:2], size, _WORD_BYTES))
            np.copyto(lines[k : k + few].reshape(shape), parted, casting="unsafe")

    def _near(self, planes: Any) -> Iterator[tuple[Any, tuple[slice, slice, slice]]]:
        """The matrices in parts that are in the nearest caches, each with its planes, rows and columns."""
        many, length, width = planes.shape
        size, stride, across = planes.itemsize, abs(planes.strides[1]), width
        row_bytes, desk = max(1, min(stride, CACHE_LINE_BYTES)), False
        fit = max(1, _NEAR_BYTES // row_bytes)
        if width * size >= _PAGE_BYTES and size > 1:  # of bytes, so short a band costs more than it saves
            fit = _STREAMS
        elif stride >= _FAR_BYTES:
            across, desk = min(width, max(1, max(_STRIP_BYTES, _DESK_BYTES // length) // size)), True
            row_bytes = _row_bytes(across * size)
            fit = max(1, _DESK_BYTES // row_bytes)
        few = max(1, fit // length)
        for k, start, left in itertools.product(range(0, many, few), range(0, length, fit), range(0, width, across)):
            where = slice(k, k + few), slice(start, start + fit), slice(left, left + across)
            part = planes[where]
            if desk:
                rows, part = part, self._padded(part, row_bytes)
                part[...] = rows
            yield part, where

    def _padded(self, part: Any, row_bytes: int) -> Any:
        """Room for the rows of matrices, so many bytes apart."""
        many, length, _ = part.shape
        memory = self._room("desk", many * length * row_bytes)
        return self._np.ndarray(part.shape, part.dtype, memory, 0, (length * row_bytes, row_bytes, part.itemsize))

    def _room(self, name: str, size_bytes: int) -> Any:
        memory = self._memory.get(name)
        if memory is None or memory.nbytes < size_bytes:
            memory = self._memory[name] = self._np.empty(size_bytes, self._np.uint8)
        return memory[:size_bytes]


def _row_bytes(size_bytes: int) -> int:
    """Rows that begin an odd number of cache lines apart: many of them fit into the nearest cache."""
    return ((size_bytes - 1) // CACHE_LINE_BYTES // 2 * 2 + 3) * CACHE_LINE_BYTES


def _band(stride: int) -> int:
    """How many rows, so far apart, the nearest cache has places for."""
    lines, rest = divmod(stride, CACHE_LINE_BYTES)
    clash = 1 if rest else math.gcd(lines, CACHE_LINE_BYTES)
    return max(1, _NEAR_BYTES // max(1, min(stride, CACHE_LINE_BYTES)) // clash)
