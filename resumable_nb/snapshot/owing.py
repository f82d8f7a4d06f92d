"""Names that a skipped step left behind and nobody could save: its body has to make them again when they are used."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from resumable_nb.canonical import ENROLLED, is_enrolled, leads_to_enrolled
from resumable_nb.codec import data_of, used_up
from resumable_nb.errors import NotSaved
from resumable_nb.groups import Joints, Survey
from resumable_nb.model import MISSING, Group, Manifest
from resumable_nb.snapshot.grafting import beside, graft
from resumable_nb.snapshot.pending import Entry, Pending
from resumable_nb.snapshot.presence import Presence, canonical
from resumable_nb.snapshot.space import Namespace
from resumable_nb.snapshot.surveyor import Surveyor


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """The namespace as it was when a step was skipped: objects, values that were not loaded, names that were owed."""

    variables: Mapping[str, Any]
    entries: Mapping[str, Entry]
    owed: Mapping[str, Owed]
    classes: Mapping[type, Mapping[str, Any]]
    """Classes of the notebook, which go on as later steps leave them, with what they held then."""

    def names(self) -> frozenset[str]:
        return frozenset(self.variables) | self.entries.keys() | self.owed.keys()


_NOT_KEPT: Final = Past({}, {}, {}, {})


@dataclass(frozen=True, slots=True, eq=False)
class Owed:
    """What one skipped step owes."""

    step: str
    manifest_digest: str
    manifest: Manifest
    names: Mapping[str, str]
    """To why they could not be saved."""
    along: frozenset[str]
    """Saved names that share objects with them: they come back together, or would be two objects instead of one."""
    joints: Mapping[str, Joints]
    """All that share objects with them by now, later steps' variables too, each with a digest of what is shared."""
    past: Past

    @property
    def enrolled(self) -> frozenset[str]:
        """The classes among it that a library has entered into a registry: all of those belong together."""
        return frozenset(name for name, why in self.names.items() if why.endswith(f"{name} is a class {ENROLLED}"))

    def shared(self) -> frozenset[str]:
        """The saved names that shared with them when the step had ended."""
        return frozenset(each for name in self.names for each in self.manifest.along.get(name, ()))

    def is_as_left(self, digests: Mapping[str, str]) -> bool:
        """Whether the step had left all that it shared as it was, and these digests say that it still is."""
        known = self.manifest.digests
        return self.shared() <= {*self.manifest.companions} and all(
            name in known and digests.get(name) == known[name] for name in self.shared()
        )


class Owing:
    """Name to what is owed; a name that is bound in the meantime is owed no more.

    ``read(space, group)`` decodes a group apart from what lives in the namespace.
    """

    def __init__(
        self,
        pending: Pending,
        presence: Presence,
        surveyor: Surveyor,
        read: Callable[[Namespace, Group], Mapping[str, Any]],
    ) -> None:
        self._pending = pending
        self._presence = presence
        self._surveyor = surveyor
        self._read = read
        self._owed: dict[str, Owed] = {}
        self._perhaps: dict[int, tuple[Group, Owed]] = {}
        self._places: dict[tuple[str, str], Group] = {}

    # --- what is owed

    def names(self) -> frozenset[str]:
        return frozenset(self._owed)

    def get(self, name: str) -> Owed | None:
        return self._owed.get(name)

    def of(self, step: str) -> Owed | None:
        """What a step owes, now."""
        return next((owed for owed in self._owed.values() if owed.step == step), None)

    def due(self, space: Namespace, names: Collection[str]) -> list[Owed]:
        """What has to be replayed before code that reaches these names runs, each once."""
        if not space.lazy:
            return []
        self.forget(self._owed.keys() & space.variables.keys())  # bound to something else by now
        return self._with(self._together(space, names))

    def _together(self, space: Namespace, names: Collection[str]) -> Collection[str]:
        """With one class that a library knows, all of them: it may lead to those."""
        enrolled = frozenset[str]().union(*(owed.enrolled for owed in self._owed.values()))
        there = (space.variables.get(name) for name in names) if enrolled else ()
        used = not enrolled.isdisjoint(names) or any(map(leads_to_enrolled, there))
        return {*names, *enrolled} if used else names

    def _with(self, names: Collection[str]) -> list[Owed]:
        found = {
            id(owed): owed
            for name, owed in self._owed.items()
            if name in names or not owed.along.isdisjoint(names) or not owed.joints.keys().isdisjoint(names)
        }
        return list(found.values())

    def forget(self, names: Iterable[str]) -> None:
        """These are something else now."""
        gone = set(names)
        for owed in self._with(gone):  # replaced, not changed: the past of another step may know it
            left = {name: why for name, why in owed.names.items() if name not in gone}
            joints = {name: shared for name, shared in owed.joints.items() if name not in gone}
            now = dataclasses.replace(owed, names=left, along=owed.along - gone, joints=joints)
            for name in owed.names:
                del self._owed[name]
            self._owed |= dict.fromkeys(left, now)

    def joined(self, name: str) -> Joints:
        """What is owed and shares objects with a variable, which is there or pending."""
        found: dict[str, str] = {}
        for owed in self._with([name]):
            found |= {other: mark for other, mark in owed.joints.get(name, {}).items() if other in owed.names}
        return found

    def replace(self, manifest: Manifest, bound: Collection[str]) -> None:
        """A step is skipped: what it left is owed no more, and what it saved shares with what is owed as it says."""
        shared = _joints(manifest, self._owed)
        self.forget({*manifest.deleted, *manifest.unsaved, *bound, *manifest.digests} - shared.keys())
        for owed in self._with({other for each in shared.values() for other in each}):
            mine = {name: each for name, each in shared.items() if not owed.names.keys().isdisjoint(each)}
            now = dataclasses.replace(owed, joints={**owed.joints, **mine})
            self._owed |= dict.fromkeys(owed.names, now)

    def past(self, space: Namespace, manifest: Manifest, missing: Collection[str]) -> Past:
        """What is to be kept of now, where it is likely that the step that is skipped has to be replayed."""
        if not missing and not any(group.handles or group.graphs for group in manifest.groups):
            return _NOT_KEPT
        return self._now(space)

    def _now(self, space: Namespace) -> Past:
        variables = space.visible()
        kinds = [each for each in variables.values() if isinstance(each, type) and each.__module__ == "__main__"]
        kinds = [each for each in kinds if not is_enrolled(each)]
        classes = {kind: self._surveyor.copy(space, data_of(kind)) for kind in kinds}
        return Past(variables, self._pending.current_entries(), dict(self._owed), classes)

    def put(self, step: str, manifest_digest: str, manifest: Manifest, missing: dict[str, str], past: Past) -> None:
        """The step, which was skipped in this ``past``, owes the ``missing`` names."""
        along = frozenset(each for name in missing for each in manifest.along.get(name, ()))
        owed = Owed(step, manifest_digest, manifest, missing, along, _joints(manifest, missing), past)
        self._owed |= dict.fromkeys(missing, owed)
        self._perhaps |= {id(group): (group, owed) for group in manifest.groups}

    def fall_back(self, space: Namespace, group: Group, error: NotSaved) -> None:
        """A group cannot be loaded: its step owes what was to come from it, or the error is raised."""
        _, owed = self._perhaps.pop(id(group), (group, None))
        entries = self._pending.current(group)
        if owed is None or not error.facts.get("replay") or any(entry.saved_as for entry in entries.values()):
            names = tuple(name for name, entry in entries.items() if not entry.saved_as) or ("the result",)
            raise NotSaved(
                f"{', '.join(names)}: {error.message}; run the cell that made it with `%%resumable NAME --rerun`",
                names=names,
            ) from error
        self._pending.forget(entries.keys())
        past = owed.past
        if past is _NOT_KEPT:  # what the body reads is known by its digest, or has not changed since
            past = self._now(space)
        late = dataclasses.replace(
            owed, names=dict.fromkeys(entries, error.message), along=frozenset(), joints={}, past=past
        )
        self._owed |= dict.fromkeys(late.names, late)

    def maker(self, group: Group, name: str) -> Owed | None:
        """The skipped step that has made a saved value; one that has only saved it along has not."""
        found = self._perhaps.get(id(group))
        while found is not None and name in found[1].manifest.companions:
            entry = found[1].past.entries.get(name)
            found = None if entry is None else self._perhaps.get(id(entry.group))
        return None if found is None else found[1]

    # --- what is still there

    def note(
        self,
        space: Namespace,
        names: Collection[str],
        manifest_digest: str,
        survey: Survey,
        given: Collection[str],
        same: Collection[str] = (),
    ) -> None:
        """These could not be saved with that manifest, and are as it would have them.

        ``given``: the variables that the body had found there; what it shares with them has to stay one. The ``same``
        it has left as they were.
        """
        for name in names:
            value = space.variables[name]
            shared = (survey.group_of(name) - {*names}) & {*given} & space.variables.keys()
            beside = {each: space.variables[each] for each in shared}
            mark = self._surveyor.mark(space, name, value)
            self._presence.note_unsaved(name, value, beside, manifest_digest, mark, same=name in same)

    def keep_place(self, group: Group, digests: Mapping[str, str]) -> None:
        """Remember where a value is that was saved or restored."""
        self._places |= {(name, digests[name]): group for name in group.names if name in digests}

    def missing(
        self, space: Namespace, manifest_digest: str, manifest: Manifest, taken: Collection[str]
    ) -> dict[str, str]:
        """Unsaved names that are not there as they were left, alone or with what they share with, and why.

        ``taken`` are the names that are to be bound to what was saved.
        """
        found = {}
        for name, why in manifest.unsaved.items():
            value = space.variables.get(name, MISSING)
            along = manifest.along.get(name, ())
            there = value is not MISSING and all(each in space.variables and each not in taken for each in along)
            if not there or not self._is_left(space, name, value, manifest_digest):
                found[name] = why
        return found

    def is_brought(self, space: Namespace, name: str, owed: Owed) -> bool:
        """Whether the variable is the object that a replay has made of what was owed."""
        return self._presence.is_of(name, space.variables[name], owed.manifest_digest)

    def _is_left(self, space: Namespace, name: str, value: Any, manifest_digest: str) -> bool:
        survey = self._surveyor.survey(space, {name: value})
        nodes = survey.holdings[name].nodes.values() if name in survey.holdings else [value]
        mark = self._surveyor.mark(space, name, value)
        return self._presence.is_left(space.variables, name, manifest_digest, mark, used_up=any(map(used_up, nodes)))

    # --- bringing it back

    def private(self, space: Namespace, past: Past, names: Collection[str], seen: Mapping[str, str]) -> dict[str, Any]:
        """Values of a past namespace that nobody else holds, as far as they can be read anew or copied.

        ``seen`` are the digests that the step had seen. Raises ``NotSaved``, ``Corrupt``.
        """
        found: dict[str, Any] = {}
        read: dict[int, Mapping[str, Any]] = {}
        for name in sorted(names):
            group = self._places.get((name, seen.get(name, "")))
            if group is None and name not in past.variables and name in past.entries:
                group = past.entries[name].group
            if group is not None:
                if id(group) not in read:
                    read[id(group)] = self._read(space, group)
                found[name] = read[id(group)][name]
        living = {name: past.variables[name] for name in names if name in past.variables}
        apart = self._surveyor.survey(space, living).extended(living.keys() - found.keys())
        copies = self._surveyor.copy(space, {name: living[name] for name in apart})
        # Those that share with what nobody has saved: they stay one. What cannot be copied is handed over only where a
        # skip has bound the name to something else.
        free = {name for name in apart & found.keys() if space.variables.get(name) is not copies[name]}
        same = {
            name for name, mark in canonical({name: living[name] for name in free}).items() if mark == seen.get(name)
        }
        return copies | {name: value for name, value in found.items() if name not in same}

    @contextlib.contextmanager
    def aside(self, space: Namespace, values: Mapping[str, Any]) -> Iterator[None]:
        """Within the block the namespace has ``values``, and nothing else of the user's; nothing is pending or owed."""
        variables, kept, owed = space.variables, space.visible(), self._owed
        with self._pending.aside():
            try:
                self._owed = {}
                for name in kept:
                    del variables[name]
                variables.update(values)
                yield
            finally:
                for name in space.visible():
                    del variables[name]
                variables.update(kept)
                self._owed = owed

    def join(self, space: Namespace, found: dict[str, Any], made: Mapping[str, Any]) -> dict[str, Any]:
        """What a body is to find, with what was ``made`` again or lives, also inside of what shares with its equal."""
        here = canonical({name: found[name] for name in made.keys() & found.keys()})
        there = canonical({name: made[name] for name in here})
        equal = {name: made[name] for name, mark in there.items() if here[name] == mark}
        return {**found, **graft(self._surveyor, space, found, equal, living=False), **made}

    def tied(self, space: Namespace, past: Past, names: Collection[str], others: Collection[str]) -> frozenset[str]:
        """Those of the ``others`` that shared with some of the ``names`` in that past."""
        then = {name: past.variables[name] for name in {*names, *others} if name in past.variables}
        return self._surveyor.survey(space, then).extended(then.keys() & names) & {*others}

    def beside(self, owed: Owed, made: Mapping[str, Any]) -> frozenset[str]:
        """What has to be loaded before a replay is taken: classes, and what is to hold what that has ``made``, too."""
        own = {*owed.names, *(name for name in owed.along if owed.manifest.digests.get(name))}
        shared = beside(self._pending, {*owed.along, *owed.joints}, own)
        return shared | {name for name, value in made.items() if isinstance(value, type)}

    def take(
        self, space: Namespace, owed: Owed, made: Mapping[str, Any], again: Mapping[str, str]
    ) -> tuple[list[str], list[str]]:
        """Bind what was owed, with what shares with it. ``again``: digests of what was ``made``.

        Returns the names that were bound, and the saved names whose value came out otherwise than it was recorded.
        """
        known = owed.manifest.digests
        other = [name for name in sorted(again) if again[name] != known[name]]
        near = self._near(space, owed, made)
        if not near and (lost := sorted(owed.along & again.keys())):
            raise NotSaved(f"what its body made is not one with {', '.join(lost)}", path="")
        bound = [*owed.names, *(name for name in near if self._is(space, name, made, again))]
        self._unify(space, made, bound)
        new = {name: made[name] for name in bound}
        space.variables.update(graft(self._surveyor, space, space.visible(), new, living=True) | new)
        self._pending.forget(bound)
        survey = self._surveyor.survey(space, space.visible())
        self.note(space, list(owed.names), owed.manifest_digest, survey, owed.past.names())
        for name in owed.names & known.keys() & {*other}:  # for later steps it is what was made then
            mark = self._surveyor.mark(space, name, space.variables[name])
            self._presence.note_loaded(name, space.variables[name], known[name], mark)
        self.forget(list(owed.names))
        return bound, other

    def _near(self, space: Namespace, owed: Owed, made: Mapping[str, Any]) -> list[str]:
        """The saved names that share with what is owed in what was made, too: of others the body had a copy."""
        survey = self._surveyor.survey(space, {name: made[name] for name in {*owed.names, *owed.along} & made.keys()})
        shared = frozenset[str]().union(*survey.groups_of(owed.names))
        return sorted(owed.along & shared)

    def _unify(self, space: Namespace, made: Mapping[str, Any], bound: Collection[str]) -> None:
        """The body has defined its classes anew: what is taken over belongs to those that live in the namespace."""
        twins = {
            id(value): living
            for name, value in made.items()
            if isinstance(value, type) and isinstance(living := space.variables.get(name), type) and living is not value
            if canonical({name: value}) == canonical({name: living})
        }
        if not twins:
            return
        survey = self._surveyor.survey(space, {name: made[name] for name in bound})
        for holding in survey.holdings.values():
            for node in holding.nodes.values():
                if (living := twins.get(id(type(node)))) is not None:
                    node.__class__ = living

    def _is(self, space: Namespace, name: str, made: Mapping[str, Any], again: Mapping[str, str]) -> bool:
        """Whether a variable has the very value that the replay has made again, be it loaded or not.

        What has no content (an iterator) has it where it is written the same way: later steps may have taken from it.
        """
        if not again.get(name):
            there, mark = space.variables, functools.partial(self._surveyor.mark, space, name)
            return name in there and mark(there[name]) == mark(made[name])
        entry = self._pending.get(name)
        if name in space.variables:
            return canonical({name: space.variables[name]}).get(name) == again.get(name)
        return entry is not None and (entry.digest or None) == again.get(name)


def _joints(manifest: Manifest, names: Collection[str]) -> dict[str, Joints]:
    """The saved variables that share with some of the ``names``, and what."""
    saved = {name: shared for group in manifest.groups for name, shared in group.joints.items()}
    found = {name: {other: mark for other, mark in shared.items() if other in names} for name, shared in saved.items()}
    return {name: shared for name, shared in found.items() if shared and name not in names}


def sharing(groups: Iterable[frozenset[str]], unsaved: Collection[str], saved: Collection[str]) -> dict[str, list[str]]:
    """Unsaved names, each with the saved ones of its sharing group."""
    return {
        name: sorted(group & set(saved))
        for group in groups
        for name in sorted(group & set(unsaved))
        if not group.isdisjoint(saved)
    }
