"""What the runner executes inside of a kernel, beside the notebook's own cells. Leaves no name there."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import types
from pathlib import Path
from typing import Any

ATOMS = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type,
    types.FunctionType,
    types.ModuleType,
    tuple,
    frozenset,
)
"""Whether two names have one such object, or two equal ones, makes no difference."""
HISTORY = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|In|Out|_[dio]h|get_ipython|__\w+__")


def watch(log: str, point: str, step: str) -> None:
    """Write each event to ``log``; die by SIGKILL where ``step`` passes ``point`` (empty: never)."""
    from resumable_nb import session

    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def listen(event: Any) -> None:
        if event.kind in ("step.begun", "step.committed", "step.skipped", "step.failed"):
            line = json.dumps([event.kind, event.step, str(event.facts.get("why", ""))])
            os.write(file, f"{line}\n".encode())
        if point and event.kind == point and step in (event.step, ""):
            os.kill(os.getpid(), signal.SIGKILL)

    session.current().bus.listen(listen)


def report(shell: Any, path: str) -> None:
    """Write a digest of each of the user's variables, and which of them are one object.

    Not of ``Out``: what a cell uses of that shows in its output.
    """
    values = {name: value for name, value in shell.user_ns.items() if _is_users(shell, name, value)}
    found = {name: _digest(value) for name, value in values.items()}
    same: dict[int, list[str]] = {}
    for name, value in values.items():
        if not isinstance(value, ATOMS):
            same.setdefault(id(value), []).append(name)
    for names in same.values():
        found.update({f"{name} is": ", ".join(sorted(names)) for name in names})
    found.update(_memory(values))
    found["random state"] = _random()
    Path(path).write_text(json.dumps(found))


def _is_users(shell: Any, name: str, value: Any) -> bool:
    return not HISTORY.fullmatch(name) and not (name in shell.user_ns_hidden and shell.user_ns_hidden[name] is value)


def _digest(value: Any) -> str:
    from resumable_nb.canonical import fingerprint
    from resumable_nb.errors import NoContent

    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    try:
        return f"{kind} #{fingerprint(value)}"
    except NoContent:
        return kind
    except Exception as error:
        return f"FAULT {type(error).__name__}: {error}"


def _memory(values: dict[str, Any]) -> dict[str, str]:
    """Arrays that look into the memory of others."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return {}
    arrays = {name: value for name, value in values.items() if isinstance(value, numpy.ndarray)}
    return {
        f"{name} overlaps": ", ".join(sorted(n for n, other in arrays.items() if numpy.shares_memory(value, other)))
        for name, value in arrays.items()
    }


def _random() -> str:
    import random

    numpy = sys.modules.get("numpy")
    legacy = numpy.random.get_state() if numpy is not None else None
    return _digest((random.getstate(), legacy))
