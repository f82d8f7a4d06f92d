"""``Snapshots``: what a step changed goes into the store, and comes back."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from resumable_nb import randomness
from resumable_nb.codec import Codec, keep_endings
from resumable_nb.collector import collector_off
from resumable_nb.errors import NotSaved
from resumable_nb.events import Bus
from resumable_nb.groups import Holding
from resumable_nb.model import MISSING, RESULT, Group, Manifest, Missing
from resumable_nb.snapshot import compare, imports
from resumable_nb.snapshot.binding import Binding
from resumable_nb.snapshot.left import Left
from resumable_nb.snapshot.owing import Owed, Owing
from resumable_nb.snapshot.pending import Entry, Pending
from resumable_nb.snapshot.presence import Presence, certain, former_class
from resumable_nb.snapshot.reach import may_change
from resumable_nb.snapshot.reader import Reader, misses_a_name
from resumable_nb.snapshot.saver import Saver
from resumable_nb.snapshot.space import Before, Capture, Namespace, Open, Restored
from resumable_nb.snapshot.surveyor import Surveyor
from resumable_nb.source import ANY_NAME, Body
from resumable_nb.store.base import Store


class Snapshots:
    """One task's snapshots. ``live`` is the notebook's namespace; only there may variables be pending.

    ``verify`` checks mapped buffers against their digests when they are loaded, which reads all of them.
    """

    def __init__(self, store: Store, bus: Bus, live: dict[str, Any], *, verify: bool = False) -> None:
        self._store = store
        self._bus = bus
        self.reader = Reader(store, verify=verify)
        self._pending = Pending()
        self._loading: list[Group] = []
        self._definitions: dict[str, str] = {}
        """Where the definitions are that known manifests name: key to blob."""
        self.presence = Presence()
        self.left = Left(live)
        self._results: dict[str, Any] = {}
        self._numbers = itertools.count(1)
        self.open = Open()
        self._lock = threading.RLock()
        self._surveyor = Surveyor(self._new_codec)
        self.owing = Owing(self._pending, self.presence, self._surveyor, self._read_apart)
        self._live = Namespace(live, live, lambda _: False)
        self.binding = Binding(self._pending, self.presence, self.left, self._surveyor, self.reader, self.owing)
        self._saver = Saver(store, bus, self._surveyor, self.owing, self.presence, self._definitions)

    def _new_codec(self, live: dict[str, Any]) -> Codec:
        return Codec(live, fetch=self._fetch, load=self._load_named, former=self._former)

    # --- saving

    @collector_off()
    def begin(self, space: Namespace, body: Body) -> Before:
        """Take note of the variables before a body runs."""
        variables = space.visible()
        survey = self._surveyor.survey(space, variables)
        before = Before(
            body,
            variables,
            self._surveyor.reach(space, body, survey.holding),
            random=randomness.random_state(),
            modules=frozenset(sys.modules),
        )
        watched = compare.watch(before, survey, self._surveyor.digest(space))
        for group in watched:
            before.joints |= self._surveyor.joined(space, survey, group, variables)
        named = before.reached | body.writes
        before.definitions = compare.references(survey, named, self._surveyor.codec(space).definitions.reference)
        before.let_go()
        self.open.add(before)
        return before

    @collector_off()
    def capture(
        self,
        space: Namespace,
        before: Before,
        *,
        keep: Collection[str] | None = None,
        drop: Collection[str] = (),
        result: Any | Missing = MISSING,
    ) -> Capture:
        """Save what the body did. The pack, if one is needed, is durable when this returns; the rows are not yet."""
        with self._lock:
            self.open.discard(before)
            variables = space.visible()
            if space.lazy:
                self._pending.forget(variables.keys())
                self.owing.forget(variables.keys())
            values = variables if result is MISSING else {**variables, RESULT: result}
            survey = self._surveyor.survey(space, values)
            absent = self._pending.names() | self.owing.names()
            look = self._surveyor.digest(space)
            found = compare.difference(before, variables, survey, look, absent)
            codec = self._surveyor.codec(space)
            changed, kept = compare.parted(before, variables, found.changed, survey, codec)
            mutated = before.unmoved({name: variables[name] for name in changed & variables.keys()}) | kept
            rebound, perhaps = found.rebound - changed, (found.perhaps | kept) - changed
            wanted = (changed | rebound | perhaps) - set(drop)
            if keep is not None:
                wanted &= set(keep)
            seeds = wanted if result is MISSING else wanted | {RESULT}
            made = compare.made(before, variables, changed)
            saved = self._saver.save(
                space,
                values,
                survey,
                seeds,
                changed=changed | rebound,
                mutated=mutated,
                made=made,
                perhaps=perhaps,
                deleted=found.deleted,
                random=randomness.changed(before.random, randomness.random_state()),
                body=before.body,
                modules=imports.submodules(before.body, variables, before.modules),
                allowed=None if keep is None else {*keep, RESULT},
                drop=drop,
                look=look,
            )
            for name in made & saved.digests.keys():
                self.presence.note_made(variables[name], saved.digests[name])
            unchanged = frozenset(before.groups.keys() & variables.keys()) - changed
            return replace(
                saved,
                changed=saved.changed - rebound,
                unchanged=unchanged,
                perhaps=perhaps,
                joints=before.joints_of(saved.saved, variables),
                set=saved.changed | saved.unsaved.keys() | (before.body.sets - {ANY_NAME}),
            )

    def save_names(self, space: Namespace, names: Collection[str]) -> Capture:
        """Save these variables, as they are now, with all that share objects with them, and the random state."""
        with self._lock:
            self.materialise(space, names)
            values = space.visible() | {name: space.variables[name] for name in names}
            survey = self._surveyor.survey(space, values)
            chosen = frozenset(names).union(*survey.groups_of(names))
            saved = self._saver.save(
                space, values, survey, chosen, changed=chosen, random=randomness.random_state(), allowed=chosen
            )
            chosen_values = {name: values[name] for name in chosen}
            return replace(saved, same=frozenset().union(*(each.unmoved(chosen_values) for each in self.open)))

    def given(self, space: Namespace, names: Collection[str]) -> dict[str, str]:
        """Of these variables, and all that share objects with them, those that were there before the running body.

        Each with its digest; empty for what has none.
        """
        with self._lock:
            values = space.visible()
            bound = values.keys() & names
            chosen = bound.union(*self._surveyor.survey(space, values).groups_of(bound))
            values = {name: values[name] for name in chosen}
            found = {name for each in self.open for name in each.unmoved(values)}
            return {name: self.binding.digest_of(space, name, values[name]) for name in found}

    # --- restoring

    def restore(
        self, space: Namespace, manifest_digest: str, *, step: str = "", block: str = "", held: Collection[str] = ()
    ) -> Restored:
        """Bring a step's state back; in a lazy namespace the values stay in the store until they are needed.

        Of the ``held``, which hold what it changed, only what is still there: the step did not make them.

        What could not be saved stays where it is, if it is; else the ``step``, if one is given, owes it from now on. A
        ``block`` owes nothing.

        Raises ``Corrupt``; ``NotSaved`` where a module or an object does not come back any more.
        """
        with self._lock:
            manifest = self.reader.manifest(manifest_digest)
            bound = imports.again(manifest)
            result = f"{RESULT} {next(self._numbers)}" if manifest.result or RESULT in bound else ""
            if RESULT in bound:
                self._results[result] = bound.pop(RESULT)
            taken = [(group, self.binding.taken(space, manifest, group, step or block)) for group in manifest.groups]
            gone = {*held} - {*manifest.perhaps} - space.variables.keys() - self.pending() | bound.keys()
            taken = [(group, [name for name in names if name not in gone]) for group, names in taken]
            names: list[str] = [*bound]
            chosen = {name for _, names in taken for name in names}
            missing = self.owing.missing(space, manifest_digest, manifest, chosen)
            past = self.owing.past(space, manifest, missing) if step and space.lazy else None
            for name in (*manifest.deleted, *missing):
                keep_endings(space.variables.pop(name, None))
                self._pending.forget([name])
            self.owing.replace(manifest, bound.keys())
            space.variables.update(bound)
            self._pending.forget(bound.keys())
            for group, own in taken:
                self._definitions.update(group.refs)
                self._surveyor.codec(space).meet(group.refs)
                self.owing.keep_place(group, manifest.digests)
                names += own
                self._put_off(space, manifest, group, own, result)
            if past is not None:
                self.owing.put(step, manifest_digest, manifest, missing, past)
            for before in self.open:
                before.restored.update(names)
            if not space.lazy:
                self.materialise(space, names)
            if manifest.random:
                randomness.set_random_state(self.reader.blob(manifest.random))
            had = {each for group in manifest.groups for each in certain(manifest, group.names)} | bound.keys()
            had |= {*manifest.deleted, *manifest.unsaved}
            return Restored(tuple(sorted(set(names) - {RESULT})), manifest.deleted, frozenset(had - {RESULT}), result)

    def restore_now(
        self, space: Namespace, manifest_digest: str, *, block: str = "", same: Collection[str] = ()
    ) -> Restored:
        """As ``restore``, with all values loaded.

        ``same``: for a body that is running these are no other objects, where they still are what it began with.
        """
        with self._lock:
            former = {name: space.variables[name] for name in same if name in space.variables}
            unmoved = [(each, each.unmoved(former)) for each in self.open]
            self.materialise(space, (restored := self.restore(space, manifest_digest, block=block)).names)
            for before, names in unmoved:
                before.stand_in({name: space.variables[name] for name in names.intersection(restored.names)})
            return restored

    def holds(self, space: Namespace, manifest_digest: str) -> bool:
        """Whether all that a step could not save is still there."""
        known = self.reader.manifest(manifest_digest)
        taken = {name for group in known.groups for name in self.binding.taken(space, known, group)}
        return not self.owing.missing(space, manifest_digest, known, taken)

    def _put_off(self, space: Namespace, manifest: Manifest, group: Group, names: Collection[str], result: str) -> None:
        beside = {each: manifest.digests.get(each, "") for each in manifest.made if each in group.names}
        for name in names:
            if name == RESULT:
                self._pending.put(result, Entry(group, "", saved_as=RESULT))
                continue
            earlier = self._pending.get(name)
            self.left.put_off(name, space.variables.get(name, MISSING))
            former = space.variables.pop(name, MISSING if earlier is None else earlier.former)
            marks = manifest.digests.get(name, ""), manifest.outlines.get(name, "")
            keep_endings(former)
            made = name in manifest.made and marks[0] != ""
            if made and not self.presence.is_made(former, marks[0]):
                former = MISSING
                self._surveyor.codec(space).forget(name)
            self._pending.put(name, Entry(group, marks[0], former_class(former), marks[1], made, beside))

    def pending(self) -> frozenset[str]:
        """Names that are restored and not loaded yet."""
        return self._pending.variables() | self.owing.names()

    def forget_pending(self, names: Collection[str]) -> None:
        """These were bound to something else before they were needed."""
        self._pending.forget(names)
        self.owing.forget(names)

    def take(self, space: Namespace, owed: Owed, made: Mapping[str, Any], again: Mapping[str, str]) -> list[str]:
        """Bind what a replay has made. Returns the saved names whose value came out otherwise than recorded."""
        with self._lock:
            self.materialise(space, self.owing.beside(owed, made))
            bound, other = self.owing.take(space, owed, made, again)
            for value in made.values():
                keep_endings(value)
            self._tell_open(space, bound)
            return other

    def _read_apart(self, space: Namespace, group: Group) -> Mapping[str, Any]:
        self._definitions.update(group.refs)
        return self.reader.values(self._surveyor.codec(space), group, apart=True)

    def materialise(self, space: Namespace, names: Collection[str] | None = None) -> None:
        """Load pending variables (None: all), each with all that it shares with. Raises ``Corrupt``, ``NotSaved``."""
        with self._lock:
            self._pending.forget([name for name in self._pending.names() if name in space.variables])
            for group in self._pending.groups(names):
                if not any(each is group for each in self._loading):
                    self._load(space, group)

    def result(self, space: Namespace, name: str) -> Any | Missing:
        """The value that ``Restored.result`` names, once; ``MISSING`` afterwards."""
        with self._lock:
            self.materialise(space, [name])
            return self._results.pop(name, MISSING)

    def result_of(self, manifest: str) -> Any | Missing:
        """A copy of a step's result, without its variables."""
        known = self.reader.manifest(manifest)
        if where := known.imports.get(RESULT):
            return imports.load(where)
        groups = [each for each in known.groups if RESULT in each.names]
        return self._read_apart(self._live, groups[0])[RESULT] if groups else MISSING

    def _load(self, space: Namespace, group: Group) -> None:
        self.materialise(space, (made := self._pending.beside(group)).keys())
        self._loading.append(group)
        met: dict[int, Any] = {}
        try:
            apart, beside = self._pending.is_result(group), self.presence.beside(space.variables, made)
            values = self._read(space, group, met=met, beside=beside, apart=apart)
        except NotSaved as error:
            self.owing.fall_back(space, group, error)
            return
        finally:
            self._loading.remove(group)
        current = self._pending.current(group)
        for name, entry in current.items():
            if entry.saved_as:
                self._results[name] = values[entry.saved_as]
            elif name not in space.variables:
                space.variables[name] = values[name]
                self._saver.note(space, name, values[name], entry.digest, group, met.values())
                if entry.made:
                    self.presence.note_made(values[name], entry.digest)
        self._pending.forget(current)
        self._tell_open(space, [name for name in current if name in space.variables])

    def _read(self, space: Namespace, group: Group, **how: Any) -> Mapping[str, Any]:
        """Objects may look up a name that is pending, and that nothing of what they hold has said."""
        try:
            return self.reader.values(self._surveyor.codec(space), group, **how)
        except NotSaved as error:
            if not misses_a_name(error):
                raise
            self.materialise(space)
            return self.reader.values(self._surveyor.codec(space), group, **how)

    def _tell_open(self, space: Namespace, names: Collection[str]) -> None:
        """For a body that is running, what is loaded now was there before."""
        self.left.loaded(names)
        for before in list(self.open):
            known = {name: space.variables[name] for name in names if name not in before.restored}
            before.references |= known
            values = {name: value for name, value in before.references.items() if name in known}
            survey = self._surveyor.survey(space, values)
            for group in survey.groups_of(known):
                compare.watch_group(before, survey, group, self._surveyor.digest(space))
                before.joints |= self._surveyor.joined(space, survey, group, values)

    def _load_named(self, name: str) -> bool:
        """A stream that is being read names a function or class that is pending."""
        entry = self._pending.get(name)
        if entry is None or any(each is entry.group for each in self._loading):
            return False
        self.materialise(self._live, [name])
        return True

    def _former(self, name: str) -> object:
        return MISSING if (entry := self._pending.get(name)) is None else entry.former

    def _fetch(self, key: str) -> bytes | Missing:
        return self.reader.blob(self._definitions[key]) if key in self._definitions else MISSING

    def reach(self, space: Namespace, body: Body) -> frozenset[str]:
        """Names that the code can reach. Loads pending functions on the way: they may reach more."""
        values: dict[str, Any] = {}
        survey = self._surveyor.survey(space, values)

        def holding(name: str) -> Holding | None:
            if name not in values:
                if space.lazy and name in self._pending:
                    self.materialise(space, [name])
                values[name] = None if space.hidden(name) else space.variables.get(name)
            return survey.holding(name)

        found = self._surveyor.reach(space, body, holding, self._pending.variables(), self.owing.names())
        # Objects of a class that is about to be defined anew belong to the one before; other names of a function to it.
        old = self._pending.tied(names) if (names := may_change(body, found, space.variables)) else frozenset()
        return found | old

    def known(self, name: str, space: Namespace) -> str | Missing:
        """The canonical digest of a variable, where it is known without looking into the value."""
        entry = self._pending.get(name) if space.lazy and name not in space.variables else None
        if entry is not None:
            return entry.digest or MISSING
        return MISSING if (owed := self._owed(name, space)) is None else owed.manifest.digests.get(name, MISSING)

    def _owed(self, name: str, space: Namespace) -> Owed | None:
        return self.owing.get(name) if space.lazy and name not in space.variables else None

    def outline(self, name: str, space: Namespace) -> str:
        """The digest of a pending variable without canonical content; empty for any other."""
        entry = self._pending.get(name) if space.lazy and name not in space.variables else None
        if entry is not None:
            return entry.outline
        return "" if (owed := self._owed(name, space)) is None else owed.manifest.outlines.get(name, "")
