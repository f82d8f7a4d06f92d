"""The hidden state of the random generators that everybody shares: ``random``, numpy's, torch's."""

from __future__ import annotations

import array
import importlib
import random
import sys
from collections.abc import Collection
from typing import Any, Final

import msgspec

from resumable_nb.model import digest

_FRESH: Final = 623
"""Where numpy's begins; 624 after a seed."""


class Generators(msgspec.Struct, frozen=True, omit_defaults=True):
    """The states as plain data: nothing has to be unpickled to set them."""

    python: tuple[int, tuple[int, ...], float | None] | None = None
    numpy: tuple[str, list[int], int, int, float] | None = None
    torch: bytes | None = None
    cuda: tuple[bytes, ...] = ()


def random_state() -> bytes:
    """The states of the generators that are loaded, as text that compares equal for equal states."""
    return msgspec.json.encode(Generators(random.getstate(), _numpy(), *_torch()))


def marks() -> dict[str, str]:
    """A digest of where each generator stands that is loaded."""
    return _marks(random.getstate(), _numpy_state(), _torch()[0])


def marks_of(state: bytes) -> dict[str, str]:
    """The same for a recorded state."""
    found = msgspec.json.decode(state, type=Generators)
    return _marks(found.python, found.numpy, found.torch)


def is_fresh(name: str) -> bool:
    """Whether a generator stands where it does before its first draw: loading numpy or torch is none.

    It does so again after 312 doubles from numpy's, and after as many from torch's.
    """
    if name == "numpy":
        state = _numpy_state()
        return state is not None and state[2] >= _FRESH and not state[3]
    if name == "torch":
        data = _torch()[0]
        return data is not None and int.from_bytes(data[8:12], "little") == 1  # words left, before all are made
    return False


def _marks(python: Any, numpy: Any, torch: bytes | None) -> dict[str, str]:
    found = {} if torch is None else {"torch": digest(torch)}
    if python is not None:
        found["Python"] = digest(_words(python[1]) + repr(python[2]).encode())
    if numpy is not None:
        found["numpy"] = digest(_words(numpy[1]) + repr(numpy[2:]).encode())
    return found


def _words(numbers: Any) -> bytes:
    if hasattr(numbers, "tobytes"):
        return bytes(numbers.tobytes())
    return array.array("I", numbers).tobytes()


def changed(before: bytes, after: bytes) -> bytes:
    """The states in ``after`` that are not as in ``before``; empty where all are."""
    if before == after:
        return b""
    old, new = (msgspec.json.decode(data, type=Generators) for data in (before, after))
    moved = {
        name: getattr(new, name) for name in Generators.__struct_fields__ if getattr(new, name) != getattr(old, name)
    }
    return msgspec.json.encode(Generators(**moved)) if moved else b""


def without(state: bytes, names: Collection[str]) -> bytes:
    """A state that speaks of all but these generators; cuda's go with torch's."""
    if not names:
        return state
    found = msgspec.json.decode(state, type=Generators)
    return msgspec.json.encode(
        Generators(
            None if "Python" in names else found.python,
            None if "numpy" in names else found.numpy,
            *((None, ()) if "torch" in names else (found.torch, found.cuda)),
        )
    )


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
    state = _numpy_state()
    return None if state is None else (state[0], state[1].tolist(), *state[2:])


def _numpy_state() -> tuple[str, Any, int, int, float] | None:
    module: Any = sys.modules.get("numpy.random")
    if module is None:
        return None
    state = module.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":  # the user has put another generator there: its state has another form
        return None
    inner = state["state"]
    return "MT19937", inner["key"], int(inner["pos"]), int(state["has_gauss"]), float(state["gauss"])


def _torch() -> tuple[bytes | None, tuple[bytes, ...]]:
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_rng_state"):
        return None, ()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else ()
    return torch.get_rng_state().numpy().tobytes(), tuple(bytes(each.tolist()) for each in cuda)


def _tensor(torch: Any, data: bytes) -> Any:
    return torch.tensor(list(data), dtype=torch.uint8)
