"""Looks at the variables of a namespace: what they hold, whether that changed, how it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from resumable_nb.codec import Codec, Shared, changing
from resumable_nb.errors import NotSaved
from resumable_nb.groups import Holding, Joints, Survey, Written
from resumable_nb.snapshot import compare, writer
from resumable_nb.snapshot.joined import joined
from resumable_nb.snapshot.presence import NOTHING_BESIDE
from resumable_nb.snapshot.reach import reach
from resumable_nb.snapshot.space import Namespace
from resumable_nb.source import Body


class Surveyor:
    """``make`` makes the codec for a live namespace; there is one for each."""

    def __init__(self, make: Callable[[dict[str, Any]], Codec]) -> None:
        self._make = make
        self._codecs: dict[int, Codec] = {}

    def codec(self, space: Namespace) -> Codec:
        found = self._codecs.get(id(space.live))
        if found is None:
            found = self._codecs[id(space.live)] = self._make(space.live)
        return found

    def survey(self, space: Namespace, values: Mapping[str, Any]) -> Survey:
        definitions = self.codec(space).definitions

        def written(thing: object) -> Written:
            if definitions.importable(thing):
                return "imported"
            return "held" if definitions.reference(thing) is None else "named"

        return Survey(values, written, space.live)

    def digest(self, space: Namespace) -> compare.Digest:
        """For one look at the variables: what is large is read once, and nothing is written twice."""
        codec, read = self.codec(space), writer.Read()
        known: dict[tuple[object, ...], tuple[Mapping[str, Any], str]] = {}

        def digest(survey: Survey, values: Mapping[str, Any], *, untouched: bool = False) -> str:
            unseen = any(changing(found.nodes.values()) for name in values if (found := survey.holding(name)))
            key = (frozenset((name, id(value)) for name, value in values.items()), untouched or not unseen)
            if key not in known:  # with the values, so that none of them goes and another comes to lie at its address
                known[key] = values, writer.digest(codec, survey, values, read, untouched=untouched)
            return known[key][1]

        return digest

    def joined(
        self, space: Namespace, survey: Survey, names: frozenset[str], values: Mapping[str, Any]
    ) -> Mapping[str, Joints]:
        """How the variables of a sharing group share."""
        return joined(survey, names, values, self.codec(space).definitions.own_name)

    def mark(self, space: Namespace, name: str, value: Any, beside: Mapping[str, int] = NOTHING_BESIDE) -> str:
        """What tells whether a value is as it was, within this process; what is used up counts as untouched.

        ``beside``: ``id()`` of what it led to under other names; empty where it does so no more.
        """
        values = {name: value}
        if beside:
            found = self.survey(space, values).holding(name)
            values |= {each: found.nodes[at] for each, at in beside.items() if found is not None and at in found.nodes}
            if len(values) <= len(beside):
                return ""
        return self.digest(space)(self.survey(space, values), values, untouched=True)

    def reach(
        self,
        space: Namespace,
        body: Body,
        holding: Callable[[str], Holding | None],
        pending: frozenset[str] = frozenset(),
        owed: frozenset[str] = frozenset(),
    ) -> frozenset[str]:
        definitions = self.codec(space).definitions

        def own_name(thing: object) -> str:
            if not isinstance(thing, type):
                return ""
            # A later step has changed the class, and its name is still to be loaded.
            name = thing.__qualname__.partition(".")[0]
            return name if name in pending else definitions.own_name(thing)

        return reach(body, space.variables, holding, own_name, pending, owed)

    def copy(self, space: Namespace, values: Mapping[str, Any]) -> dict[str, Any]:
        """Copies of variables, those that share together. What cannot be copied stays the living object."""
        survey = self.survey(space, values)
        found = dict(values)
        for group in {survey.group_of(name) for name in survey.holdings}:
            members = {name: values[name] for name in group}
            own = writer.own_definitions(members.values())
            if own or all(callable(each) for each in members.values()):
                continue  # functions and classes: there is one of each
            try:
                found |= self.codec(space).copy(members, shared=Shared(*survey.shared_memory(sorted(group))))
            except NotSaved:
                continue
        return found
