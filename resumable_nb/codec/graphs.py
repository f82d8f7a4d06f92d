"""Tensors that a computation returned: their graph is gone, and they say so where it is needed."""

from __future__ import annotations

import functools
import sys
from typing import Any, Final

from resumable_nb.codec import rebuild

_GONE: Final = (
    "the graph behind this tensor was not saved, only its value: keep backward() in the step that computes it, "
    "or run that cell again with `%%resumable NAME --rerun`"
)


def graph_of(tensor: Any) -> str:
    """The name of the function that made it, where a gradient would go back through that."""
    return type(tensor.grad_fn).__name__ if tensor.requires_grad and not tensor.is_leaf else ""


def make_computed(graph: str, *made: Any) -> Any:
    """A tensor that shows as it did, and hands no gradient on: a leaf would take it from the parameters."""
    torch = sys.modules["torch"]
    with torch.enable_grad():
        return _function(graph).apply(rebuild.make_tensor(*made), torch.empty(0, requires_grad=True))


@functools.lru_cache(maxsize=1000)
def _function(graph: str) -> Any:
    base = sys.modules["torch"].autograd.Function
    made = type(base)(graph, (base,), {"forward": staticmethod(_forward), "backward": staticmethod(_backward)})
    made._backward_cls.__name__ = graph
    return made


def _forward(_context: Any, tensor: Any, _anchor: Any) -> Any:
    return tensor.new_empty(0).set_(tensor)  # over one memory, and no view


def _backward(_context: Any, *_gradients: Any) -> Any:
    raise RuntimeError(_GONE)
