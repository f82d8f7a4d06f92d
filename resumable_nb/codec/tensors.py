"""Tensors of torch in streams: their memory apart, and shared with whatever else looks into it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from resumable_nb.codec import graphs, rebuild
from resumable_nb.groups import leaves

_MANY_PARTS: Final = 1000
_BITS: Final = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def tensor_type(kind: type) -> bool:
    """Whether objects of a type are plain tensors or parameters. Never imports torch."""
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "Tensor") and kind in (torch.Tensor, torch.nn.Parameter)


def in_memory(tensor: Any) -> bool:
    """Whether a plain tensor is a view of the memory of this process, as arrays are."""
    torch = sys.modules["torch"]
    simple = tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    return bool(simple and not tensor.is_conj() and not tensor.is_neg() and not tensor._backward_hooks)


def keeping_gradients(value: Any) -> dict[int, Any]:
    """The functions, by ``id()``, that made variables (or parts of them) of which ``retain_grad`` was asked.

    What a gradient leaves there on its way does not come from the ends of a graph.
    """
    if type(value) is not dict or "torch" not in sys.modules:
        return {}
    parts = [part for each in value.values() for part in (each, *_parts(each)) if tensor_type(type(part))]
    return {id(each.grad_fn): each.grad_fn for each in parts if not each.is_leaf and each.retains_grad}


def _parts(value: Any) -> Iterable[Any]:
    if not isinstance(value, list | tuple | dict) or len(value) > _MANY_PARTS:
        return ()
    return value.values() if isinstance(value, dict) else value


def reduce_tensor(tensor: Any, memory: Any, low: int, keeping: Mapping[int, Any]) -> Any:
    """``memory`` begins at address ``low`` and holds the tensor's; None: the tensor has its memory for itself.

    What a computation returned comes back with the ends of its graph alone, or without where there is none any more.
    """
    torch = sys.modules["torch"]
    kind = str(tensor.dtype).removeprefix("torch.")
    trained = tensor.is_leaf and tensor.requires_grad
    plain = tensor.detach()
    args: tuple[Any, ...]
    if memory is None:
        bits = plain.view(getattr(torch, _BITS[plain.element_size()])) if _is_foreign(plain) else plain
        args = (bits.numpy(), kind, None)
    else:
        args = (memory, kind, (tuple(plain.shape), plain.stride(), plain.data_ptr() - low))
    state = {name: value for name, value in _attributes(tensor).items() if value is not None}
    make: Callable[..., Any] = rebuild.make_tensor
    made: tuple[Any, ...] = (*args, trained, isinstance(tensor, torch.nn.Parameter))
    if graph := graphs.graph_of(tensor):
        ends = leaves(tensor, keeping)
        make = graphs.make_linked if ends else graphs.make_computed
        made = (graph, tuple(ends), *made) if ends else (graph, *made)
    return (make, made, state, None, None, rebuild.set_tensor) if state else (make, made)


def _attributes(tensor: Any) -> dict[str, Any]:
    return {"grad": tensor.grad if tensor.is_leaf else None, **getattr(tensor, "__dict__", {})}


def _is_foreign(plain: Any) -> bool:
    """Numbers of a kind that numpy has not: bfloat16 and smaller."""
    try:
        plain.new_empty(0).numpy()
    except TypeError:
        return True
    return False
