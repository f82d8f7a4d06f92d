"""What looking at objects leaves in the notebook's classes, and nobody is to see."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

_CACHE: Final = "__slotnames__"
"""Put into a class by ``copyreg`` when an object of it is first taken apart."""


@contextlib.contextmanager
def unmarked(namespace: Mapping[str, Any]) -> Iterator[None]:
    """``print(A.__dict__)`` shows what it would without us."""
    before = _marked(namespace)
    try:
        yield
    finally:
        for kind in _marked(namespace):
            if not any(kind is each for each in before):
                with contextlib.suppress(AttributeError, TypeError):  # a metaclass of the notebook's may object
                    delattr(kind, _CACHE)


def _marked(namespace: Mapping[str, Any]) -> list[type]:
    kinds = [each for each in namespace.values() if isinstance(each, type) and each.__module__ == "__main__"]
    return [each for each in kinds if _CACHE in vars(each)]
