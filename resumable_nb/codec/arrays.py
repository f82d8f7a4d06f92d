"""Arrays of numpy in streams: where their memory lies, whose it is, and the files that are mapped into it."""

from __future__ import annotations

import pickle
from typing import Any, Final

from resumable_nb.codec import rebuild


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def bytearray_under(array: Any) -> bytearray | None:
    """The ``bytearray`` whose memory an array looks into, if it is one's."""
    base = array.base
    while base is not None and hasattr(base, "__array_interface__"):
        base = getattr(base, "base", None)
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, bytearray) else None


_WRITEABLE: Final = 0x0400
"""``numpy.ndarray.flags.writeable``, which warns when it is read of what ``numpy.broadcast_arrays`` has made."""


def writeable(array: Any) -> bool:
    return bool(array.flags.num & _WRITEABLE)


def goes_out(array: Any) -> bool:
    """Whether numpy hands the array to the pickler as a buffer, which keeps whether it can be written."""
    if not (array.flags.c_contiguous or array.flags.f_contiguous) or array.dtype.hasobject:
        return False
    try:
        memoryview(array)
    except (ValueError, BufferError):
        return False
    return True


def map_under(array: Any) -> Any:
    """The map of a whole file that an array looks into, if it can be mapped again by its path; else None."""
    base = array
    while type(base.base) is type(array):
        base = base.base
    again = array.filename is not None and getattr(base, "_mmap", None) is not None and base.mode != "c"
    return base if again else None


def reduce_map(base: Any) -> Any:
    if base.mode != "r":
        base.flush()
    mode = "r+" if base.mode == "w+" else base.mode
    order = "C" if base.flags.c_contiguous else "F"
    return rebuild.make_memmap, (str(base.filename), base.dtype, mode, base.offset, base.shape, order)


def content_of(base: Any) -> memoryview:
    return pickle.PickleBuffer(base).raw()
