"""What a gradient would reach through a tensor of torch."""

from __future__ import annotations

import functools
from collections.abc import Container
from typing import Any, Final

_MANY: Final = 10_000
"""Functions up to which a graph is followed."""


def leaves(tensor: Any, past: Container[int] = ()) -> list[Any]:
    """The tensors at the ends of the graph behind one, in the order in which a walk meets them.

    Empty where no gradient goes there any more: ``backward`` has freed the graph, or what it needs was changed since;
    and where one would go through a function with an ``id()`` that is in ``past``.
    """
    found: list[Any] = []
    seen: dict[int, Any] = {}  # with the nodes: torch makes those anew that nobody holds
    todo = [tensor.grad_fn] if tensor.grad_fn is not None else []
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        if len(seen) > _MANY or id(node) in past or not _is_whole(node):
            return []
        if (end := getattr(node, "variable", None)) is not None:
            found.append(end)
        todo += [each for each, _ in reversed(node.next_functions) if each is not None]
    return found if all(each.requires_grad for each in found) else []


def _is_whole(node: Any) -> bool:
    kind: Any = type(node)
    try:
        for name in _saved(kind):
            getattr(node, name)
    except RuntimeError:  # torch's word for both
        return False
    return True


@functools.lru_cache(maxsize=1000)
def _saved(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_saved_") or name == "saved_tensors")
