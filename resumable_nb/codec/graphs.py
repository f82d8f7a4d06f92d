"""Tensors that a computation returned: their graph is not saved, and is made again where a gradient needs it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Final

from resumable_nb.codec import rebuild
from resumable_nb.groups import leaves

_GONE: Final = (
    "the graph behind this tensor was not saved, only its value: keep backward() in the step that computes it, "
    "or run that cell again with `%%resumable NAME --rerun`"
)
_OTHER: Final = (
    "the graph behind this tensor was not saved, and running its step once more gave another one: "
    "run its cell again with `%%resumable NAME --rerun`"
)


class Linked:
    """Among the kinds of a stream: it has tensors that lead to the ends of their graph."""


def graph_of(tensor: Any) -> str:
    """The name of the function that made it, where a gradient would go back through that."""
    return type(tensor.grad_fn).__name__ if tensor.requires_grad and not tensor.is_leaf else ""


def make_computed(graph: str, *made: Any) -> Any:
    """A tensor that shows as it did, and hands no gradient on: a leaf would take it from the parameters."""
    torch = sys.modules["torch"]
    with torch.enable_grad():
        return _function(graph).apply(rebuild.make_tensor(*made), torch.empty(0, requires_grad=True))


def make_linked(graph: str, ends: tuple[Any, ...], *made: Any) -> Any:
    """A tensor that shows as it did, and whose gradient goes on to the ``ends`` of its graph; see ``link``."""
    with sys.modules["torch"].enable_grad():
        return _function(graph, linked=True).apply(rebuild.make_tensor(*made), *ends)


def is_linked(value: Any) -> bool:
    """Whether ``make_linked`` has made it."""
    node = getattr(value, "grad_fn", None) if type(value).__module__ == "torch" else None
    return getattr(getattr(type(node), "_forward_cls", None), "linked", False) is True


def link(tensor: Any, again: Callable[[], Any]) -> None:
    """``again()`` computes the tensor once more, with all that is behind it."""
    tensor.grad_fn.again = again


@functools.lru_cache(maxsize=1000)
def _function(graph: str, *, linked: bool = False) -> Any:
    base = sys.modules["torch"].autograd.Function
    forward, backward = (_forward_linked, _backward_linked) if linked else (_forward, _backward)
    own = {"forward": staticmethod(forward), "backward": staticmethod(backward), "linked": linked}
    made = type(base)(graph, (base,), own)
    made._backward_cls.__name__ = graph
    return made


def _forward(_context: Any, tensor: Any, _anchor: Any) -> Any:
    return tensor.new_empty(0).set_(tensor)  # over one memory, and no view


def _backward(_context: Any, *_gradients: Any) -> Any:
    raise RuntimeError(_GONE)


def _forward_linked(context: Any, tensor: Any, *ends: Any) -> Any:
    context.save_for_backward(tensor)
    context.shapes = [each.shape for each in ends]
    return _forward(context, tensor, None)


def _backward_linked(context: Any, gradient: Any) -> Any:
    """The gradients at the ends, by way of a graph that is made for it. The second time torch raises its own error."""
    torch = sys.modules["torch"]
    (value,) = context.saved_tensors
    if torch.is_grad_enabled() or not hasattr(context, "again"):  # a second derivative would have to go on there, too
        raise RuntimeError(_GONE)
    with torch.enable_grad():
        again = context.again()
    ends = leaves(again) if isinstance(again, torch.Tensor) else []
    alike = ends and again.shape == value.shape and torch.allclose(again.detach(), value, equal_nan=True)
    if not alike or [each.shape for each in ends] != context.shapes:
        raise RuntimeError(_OTHER)
    return None, *torch.autograd.grad(again, ends, gradient, allow_unused=True)
