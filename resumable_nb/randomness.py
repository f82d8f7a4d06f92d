"""The hidden state of the random generators that everybody shares: ``random``, numpy's, torch's."""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any

import msgspec

from resumable_nb.model import digest


class Generators(msgspec.Struct, frozen=True, omit_defaults=True):
    """The states as plain data: nothing has to be unpickled to set them."""

    python: tuple[int, tuple[int, ...], float | None] | None = None
    numpy: tuple[str, list[int], int, int, float] | None = None
    torch: bytes | None = None
    cuda: tuple[bytes, ...] = ()


def random_state() -> bytes:
    """The states of the generators that are loaded, as text that compares equal for equal states."""
    return msgspec.json.encode(Generators(random.getstate(), _numpy(), *_torch()))


def marks(state: bytes | None = None) -> dict[str, str]:
    """A digest for each generator that is loaded, or that the ``state`` speaks of."""
    if state is None:
        found = Generators(random.getstate(), _numpy(), *_torch())
    else:
        found = msgspec.json.decode(state, type=Generators)
    parts = {"Python": found.python, "numpy": found.numpy, "torch": found.torch}
    return {name: digest(msgspec.json.encode(part)) for name, part in parts.items() if part is not None}


def changed(before: bytes, after: bytes) -> bytes:
    """The states in ``after`` that are not as in ``before``; empty where all are."""
    if before == after:
        return b""
    old, new = (msgspec.json.decode(data, type=Generators) for data in (before, after))
    moved = {
        name: getattr(new, name) for name in Generators.__struct_fields__ if getattr(new, name) != getattr(old, name)
    }
    return msgspec.json.encode(Generators(**moved)) if moved else b""


def set_random_state(data: bytes) -> None:
    """Set the generators that ``data`` speaks of; numpy and torch are imported for it where they are not loaded."""
    state = msgspec.json.decode(data, type=Generators)
    if state.python is not None:
        random.setstate(state.python)
    if state.numpy is not None:
        importlib.import_module("numpy.random").set_state(state.numpy)
    if state.torch is not None or state.cuda:
        torch = importlib.import_module("torch")
        if state.torch is not None:
            torch.set_rng_state(_tensor(torch, state.torch))
        if state.cuda and torch.cuda.is_available():
            torch.cuda.set_rng_state_all([_tensor(torch, each) for each in state.cuda])


def _numpy() -> tuple[str, list[int], int, int, float] | None:
    module: Any = sys.modules.get("numpy.random")
    if module is None:
        return None
    state = module.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":  # the user has put another generator there: its state has another form
        return None
    inner = state["state"]
    return "MT19937", inner["key"].tolist(), int(inner["pos"]), int(state["has_gauss"]), float(state["gauss"])


def _torch() -> tuple[bytes | None, tuple[bytes, ...]]:
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_rng_state"):
        return None, ()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else ()
    return bytes(torch.get_rng_state().tolist()), tuple(bytes(each.tolist()) for each in cuda)


def _tensor(torch: Any, data: bytes) -> Any:
    return torch.tensor(list(data), dtype=torch.uint8)
