"""Memoryviews in streams: whose memory it is, and where in it they look."""

from __future__ import annotations

import ctypes
import math
import pickle
import struct
from typing import Any, Final

Place = tuple[Any, int, str, tuple[int, ...], tuple[int, ...], bool]
"""Whose memory it is, the byte in it where the first element begins, format, shape, strides, whether read-only."""


def reduce_view(view: memoryview) -> tuple[Any, Place]:
    """Raises ``PicklingError`` for a view that was released, and for one of a form that only its owner makes."""
    try:
        place = _place(view)
        there = _place(make_view(*place))[1:] == place[1:]
    except (ValueError, TypeError, BufferError, NotImplementedError, struct.error):
        there = False
    if not there:
        raise pickle.PicklingError("cannot pickle 'memoryview' object")
    return make_view, place


def make_view(
    owner: Any, offset: int, code: str, shape: tuple[int, ...], strides: tuple[int, ...], readonly: bool
) -> memoryview:
    whole: Any = memoryview(owner).cast("B")
    size = struct.calcsize(code)
    if len(shape) == 1 and strides != (size,):
        low, high = sorted((offset, offset + (shape[0] - 1) * strides[0]))
        view = whole[low : high + size].cast(code)[:: strides[0] // size]
    else:
        view = whole[offset : offset + size * math.prod(shape)].cast(code, shape)
    found: memoryview = view.toreadonly() if readonly else view
    return found


def _place(view: memoryview) -> Place:
    offset = _address(view) - _address(view.obj)
    return view.obj, offset, view.format, view.shape or (), view.strides or (), view.readonly


class _Buffer(ctypes.Structure):
    """``Py_buffer``."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_FULL_READ_ONLY: Final = 0x11C


def _address(thing: Any) -> int:
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(thing), ctypes.byref(buffer), _FULL_READ_ONLY)
    try:
        return buffer.buf or 0
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
