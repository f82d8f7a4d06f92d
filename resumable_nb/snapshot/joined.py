"""Where variables share objects, with the ways through the user's own classes told apart, and which of the notebook's
functions and classes they hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from resumable_nb.change import NAMED
from resumable_nb.fingerprint import user_module
from resumable_nb.groups import ITSELF, SAME, Joints, Survey, joints


def joined(
    survey: Survey, names: frozenset[str], values: Mapping[str, Any], own_name: Callable[[object], str]
) -> Mapping[str, Joints]:
    """See ``groups.joints``. ``own_name``: the variable that a function or class is bound to, or ""."""
    found = dict(joints(survey, names, values, _is_users))
    for name in names:
        held = survey.holding(name)
        named = {own_name(each) for each in held.definitions.values()} - {name, ""} if held is not None else set()
        if named:
            shared = found.get(name, {})
            also = {other: shared.get(other, "") + NAMED for other in sorted(named) if shared.get(other) != SAME}
            found[name] = {**shared, **also}
    return found


def among(shared: Joints, names: Collection[str]) -> Joints:
    """What a variable shares with some others, and within; and which functions and classes it holds."""
    found = {}
    for other, mark in shared.items():
        if other in names or other == ITSELF:
            found[other] = mark
        elif mark.endswith(NAMED):
            found[other] = NAMED
    return found


def _is_users(kind: type) -> bool:
    return user_module(kind.__module__)
