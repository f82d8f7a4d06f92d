"""What a replay has made takes the place of the equal objects that others hold: they stay one object.

A generator cannot be led to another list: whatever holds the one that was restored gets the one that it goes through.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from resumable_nb.codec import Shared, pair
from resumable_nb.groups import Survey
from resumable_nb.snapshot.pending import Pending
from resumable_nb.snapshot.space import Namespace
from resumable_nb.snapshot.surveyor import Surveyor


def beside(pending: Pending, names: Collection[str], own: Collection[str]) -> frozenset[str]:
    """The names among those that are to be loaded, as others, that are not the step's ``own``, come with them."""
    found = ((name, entry) for name in names if (entry := pending.get(name)) is not None)
    return frozenset(name for name, entry in found if not {*pending.current(entry.group)} <= {*own})


def graft(
    surveyor: Surveyor, space: Namespace, values: Mapping[str, Any], made: Mapping[str, Any], *, living: bool
) -> dict[str, Any]:
    """Those of the ``values`` that hold objects of what the ``made`` ones replace, with the made ones in their place.

    A class of the notebook is not made again: it gets them itself, where all this is ``living``.
    Raises ``NotSaved``.
    """
    old = {name: values[name] for name in made if name in values and values[name] is not made[name]}
    survey = surveyor.survey(space, values)
    others = frozenset[str]().union(*survey.groups_of(old)) - made.keys()
    if not others:
        return {}
    codec = surveyor.codec(space)
    among = {key for name in old for key, node in _nodes(survey, name).items() if not isinstance(node, type)}
    pairs = pair(codec.definitions, old, {name: made[name] for name in old}, among)
    nodes = {key: node for name in others for key, node in _nodes(survey, name).items()}
    kinds = [each for each in nodes.values() if isinstance(each, type) and codec.definitions.reference(each)]
    attributes = [(kind, name) for kind in kinds if living for name in _holding(surveyor, space, kind, pairs)]
    members = {name: values[name] for name in sorted(others) if not any(values[name] is kind for kind in kinds)}
    parts = [vars(kind)[name] for kind, name in attributes]
    found, again = codec.graft((members, parts), pairs, shared=Shared(*survey.shared_memory(sorted(others))))
    for (kind, name), part in zip(attributes, again, strict=True):
        setattr(kind, name, part)
    return dict(found)


def _nodes(survey: Survey, name: str) -> Mapping[int, object]:
    held = survey.holding(name)
    return {} if held is None else held.nodes


def _holding(surveyor: Surveyor, space: Namespace, kind: type, pairs: Collection[int]) -> list[str]:
    """The attributes of a class that lead to what is replaced."""
    survey = surveyor.survey(space, vars(kind))
    return [name for name in vars(kind) if name != "__dict__" and not _nodes(survey, name).keys().isdisjoint(pairs)]
