"""Single values, self-contained: results of tool calls, and exceptions."""

from __future__ import annotations

import pickle
import sys
from typing import Any

from resumable_nb.codec.coder import Codec
from resumable_nb.codec.handles import stands_for_one
from resumable_nb.errors import NotSaved
from resumable_nb.model import MISSING


def dumps_value(value: Any) -> bytes:
    """One value as bytes, notebook functions and classes included. Proves that they load again; raises ``NotSaved``."""
    codec = Codec(vars(sys.modules["__main__"]))
    encoded = codec.encode(value, in_band=True)
    for kind in encoded.kinds:
        if stands_for_one(kind):
            raise NotSaved(f"cannot copy {kind.__qualname__!r} object", path="")
    codec.prove(encoded)
    return pickle.dumps((encoded.stream, codec.definitions_of(encoded.refs)), protocol=5)


def loads_value(data: bytes) -> Any:
    """The value again, a fresh copy. Reading a pickle runs code: only for bytes that were authenticated."""
    try:
        stream, definitions = pickle.loads(data)
    except Exception as error:
        raise NotSaved(f"cannot be read back: {error}", path="") from error
    codec = Codec(vars(sys.modules["__main__"]), fetch=lambda key: definitions.get(key, MISSING))
    return codec.decode(stream)
