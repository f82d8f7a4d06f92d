"""A module beside the notebook, as people have them."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def progress(items: Iterable[T]) -> Iterator[T]:
    """A progress line that writes over itself."""
    items = list(items)
    for done, item in enumerate(items, 1):
        yield item
        sys.stdout.write(f"\r{done}/{len(items)}")
        sys.stdout.flush()
    print()
