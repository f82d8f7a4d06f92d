"""``Binding``: which names a skip has to bind, and which are what the step has left, with all that they share."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

from resumable_nb.change import NAMED
from resumable_nb.groups import ITSELF, Joints, partners
from resumable_nb.model import MISSING, RESULT, Group, Manifest, Missing
from resumable_nb.snapshot.joined import among
from resumable_nb.snapshot.left import Left
from resumable_nb.snapshot.owing import Owed, Owing
from resumable_nb.snapshot.pending import Pending
from resumable_nb.snapshot.presence import Mark, Presence, certain, may_bind
from resumable_nb.snapshot.reader import Reader
from resumable_nb.snapshot.space import Namespace
from resumable_nb.snapshot.surveyor import Surveyor


class Binding:
    """Of one task. Looks at names, pending ones too, and loads none."""

    def __init__(
        self, pending: Pending, presence: Presence, left: Left, surveyor: Surveyor, reader: Reader, owing: Owing
    ) -> None:
        self._pending = pending
        self._presence = presence
        self._left = left
        self._surveyor = surveyor
        self._reader = reader
        self._owing = owing

    def taken(self, space: Namespace, manifest: Manifest, group: Group, step: str = "") -> list[str]:
        """The names of a group that are to be bound."""
        parts = group.parts or (group.names,)
        return [name for part in parts for name in self._taken(space, manifest, group, part, step)]

    def is_there(self, space: Namespace, manifest_digest: str, name: str, step: str) -> bool:
        """Whether the variable, and all that it was saved with, is what the step left: a skip leaves them alone."""
        manifest = self._reader.manifest(manifest_digest)
        found = [(group, part) for group in manifest.groups for part in group.parts or (group.names,) if name in part]
        sure = {each for _, part in found for each in certain(manifest, part)} - {RESULT}
        return all(self._left.is_left(space, each, step) for each in sure) and all(
            {*self._taken(space, manifest, *each, step)} <= {RESULT} for each in found
        )

    def torn(self, space: Namespace, manifest_digest: str, step: str, steps: Collection[str] | None) -> list[str]:
        """Variables that share with one which a skip would bind anew, and which would not be bound with it.

        Only those that one of the ``steps`` has left, where they are given.
        """
        manifest, found = self._reader.manifest(manifest_digest), set[str]()
        for group in manifest.groups:
            if {*group.names}.isdisjoint(manifest.companions):
                continue
            own = {*self.taken(space, manifest, group, step)}
            shared = self.joints(space, own & {*manifest.companions})
            beside = {other for each in shared.values() for other in partners(each)} - own
            # What has no content cannot be told to be another: a figure and its axes.
            found |= {name for name in beside if self._has_content(space, name)}
            saved = {other for name in own for other in partners(group.joints.get(name, {}))} - own
            # What it was saved with is there, and nothing says that it is the same: an iterator that was made again.
            found |= {name for name in saved & space.variables.keys() if not manifest.digests.get(name)}
        found -= manifest.unsaved.keys()  # which are made again with what they share
        return sorted(
            name for name in found if steps is None or any(self._left.is_left(space, name, each) for each in steps)
        )

    def _has_content(self, space: Namespace, name: str) -> bool:
        return bool(self._digest_now(space, name))

    def as_saved(self, space: Namespace, name: str) -> str | Missing:
        """The digest that a variable was saved with, where nobody has changed it since; see ``Presence.as_saved``.

        What loads it may make a tuple of a list, read up an iterator, or leave a cache behind.
        """
        there = space.variables
        return self._presence.as_saved(name, there[name], self._mark(space)) if name in there else MISSING

    def digest_of(self, space: Namespace, name: str, value: Any) -> str:
        """The digest of a variable's value; as it was saved, where nobody has changed it since."""
        return self._presence.digest_of(name, value, self._mark(space))

    def joints(self, space: Namespace, names: Collection[str]) -> dict[str, Joints]:
        """How variables share objects, with others and within."""
        found: dict[str, Joints] = {}
        living: list[str] = []
        for name in names:
            entry = self._pending.get(name) if space.lazy and name not in space.variables else None
            if entry is not None:
                found[name] = self._to_come(space, name, entry.group)
            elif name in space.variables:
                living.append(name)
        if living:
            variables = space.visible()
            survey = self._surveyor.survey(space, variables)
            for group in survey.groups_of(living):
                found |= self._surveyor.joined(space, survey, group, variables)
        return {name: {**found.get(name, {}), **self._owed(space, name)} for name in names}

    def _to_come(self, space: Namespace, name: str, group: Group) -> Joints:
        """How a variable that is not loaded yet will share."""
        found: dict[str, str] = {}
        for other, mark in group.joints.get(name, {}).items():
            if other == ITSELF or (other not in space.variables and self._pending.is_in(other, group)):
                found[other] = mark
            elif mark.endswith(NAMED) and self._is_found(space, other, group):
                found[other] = NAMED
        return found

    def _is_found(self, space: Namespace, name: str, group: Group) -> bool:
        """Whether a stream's name of a function or class leads to the one that the variable is, or will be."""
        if name not in space.variables:
            return name in self._pending
        definitions = self._surveyor.codec(space).definitions
        known = [each.split("@") for each in group.refs if each.split("@")[0].split(".")[0] == name]
        found = {path: definitions.reference(definitions.find(path)) for path, _ in known}
        return bool(known) and all(found[path] == (path, mark) for path, mark in known)

    def _owed(self, space: Namespace, name: str) -> Joints:
        """What is to come from a body that runs again, and shares with the variable then."""
        there = self._owing.joined(name) if space.lazy else {}
        return {other: mark for other, mark in there.items() if other not in space.variables}

    def still(self, space: Namespace, owed: Owed) -> frozenset[str]:
        """The variables that share with what is owed, where its step left them as they were, and all are so now."""
        names = owed.shared()
        return names if owed.is_as_left({name: self._digest_now(space, name) for name in names}) else frozenset()

    def _digest_now(self, space: Namespace, name: str) -> str:
        if name in space.variables:
            return self.digest_of(space, name, space.variables[name])
        return "" if (entry := self._pending.get(name)) is None else entry.digest

    def _taken(self, space: Namespace, manifest: Manifest, group: Group, part: Collection[str], step: str) -> list[str]:
        sure, there = certain(manifest, part), space.variables
        names = {*part} - {RESULT}
        digest_of = functools.partial(self.digest_of, space)
        left = sure and (
            self._waits(space, manifest, names, sure, step) or self._is_there(space, manifest, group, part)
        )
        if left and self._is_joined(space, group, names) and self._is_own(space, names, {*sure} - {RESULT}, step):
            return [RESULT] if RESULT in sure else []
        return sure + [
            name
            for name in part
            if name not in sure
            and may_bind(there, self._pending, manifest, name, shares=bool(sure), digest_of=digest_of)
        ]

    def _is_there(self, space: Namespace, manifest: Manifest, group: Group, part: Collection[str]) -> bool:
        return self._presence.is_there(space.variables, manifest, group, part, self._mark(space))

    def _mark(self, space: Namespace) -> Mark:
        return functools.partial(self._surveyor.mark, space)

    def _waits(
        self, space: Namespace, manifest: Manifest, names: Collection[str], sure: Collection[str], step: str
    ) -> bool:
        """Whether it is pending already what the step left, be it that a later step has saved it again with its own."""
        if not step or not space.lazy or any(name in space.variables for name in names):
            return False
        entries = {name: self._pending.get(name) for name in names}
        return len({id(entry and entry.group) for entry in entries.values()}) == 1 and all(
            entry is not None
            and bool(entry.digest)
            and entry.digest == manifest.digests.get(name)
            and (name not in sure or self._left.is_left(space, name, step))
            for name, entry in entries.items()
        )

    def _is_own(self, space: Namespace, names: set[str], sure: Collection[str], step: str) -> bool:
        """Whether equal variables are the step's: it set them last, or nobody else holds them.

        Another step may have left another list with the same elements there, which is one with its own; or an object
        that is alike, of a class that had the same name; or a dictionary in another order.
        """
        if not step or all(self._left.is_left(space, each, step) for each in sure):
            return True
        if space.lazy:
            return False
        variables = space.visible()
        survey = self._surveyor.survey(space, variables)
        holdings = [survey.holding(name) for name in names & variables.keys()]
        if any(held is not None and held.definitions for held in holdings):
            return False
        return all(group <= names for group in survey.groups_of(names & variables.keys()))

    def _is_joined(self, space: Namespace, group: Group, names: set[str]) -> bool:
        """Whether variables share with each other as they did when they were saved, and hold what is named as then."""
        values = {name: space.variables[name] for name in names if name in space.variables}
        if values:
            found = self._surveyor.joined(space, self._surveyor.survey(space, values), frozenset(values), values)
        else:
            found = self.joints(space, names)
        return all(among(found.get(name, {}), names) == among(group.joints.get(name, {}), names) for name in names)
