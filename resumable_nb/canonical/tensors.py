"""Tensors of torch: dtype, shape, content and gradient, whatever the strides and whose the memory."""

from __future__ import annotations

import sys
from typing import Any

from resumable_nb.canonical.leaves import text
from resumable_nb.canonical.writer import Canonical, Expander, Node


def tensor_expander(kind: type) -> Expander | None:
    """How tensors are taken apart, if it is a type of those. Never imports torch."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "Tensor") or not issubclass(kind, torch.Tensor):
        return None
    return _tensor


def _tensor(value: Any, _canon: Canonical) -> Node:
    torch = sys.modules["torch"]
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    leaf = value.is_leaf
    head = b"Tt" + text(f"{name} {value.dtype} {value.layout} {tuple(value.shape)} {leaf and value.requires_grad}")
    gradient = value.grad if leaf else None
    parts = [gradient, getattr(value, "__dict__", None) or None]
    plain = value.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg().cpu()
    if plain.is_quantized:
        parts += [plain.q_scale(), plain.q_zero_point()]
        plain = plain.int_repr()
    return Node(head, [_numbers(torch, plain), *parts])


def _numbers(torch: Any, plain: Any) -> Any:
    """As an array; kinds of numbers that numpy has not, by their bits."""
    try:
        return plain.numpy()
    except TypeError:
        bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[plain.element_size()]
        return plain.view(bits).numpy()
