"""``Replays``: bring back what could not be saved, by running the body of its step again, beside the notebook.

The body runs in the namespace as it was when the step was skipped, with copies of what it reads; every tool call
answers from the record, and one that is not recorded is refused. Only what the step owes is taken over.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import types
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from resumable_nb import databases, plan, scope, settings
from resumable_nb.canonical import is_enrolled, leads_to_enrolled
from resumable_nb.change import ASSIGNED, SHARING
from resumable_nb.codec import data_of
from resumable_nb.configured import PART, RANDOM
from resumable_nb.errors import NoContent, NotSaved
from resumable_nb.events import Bus
from resumable_nb.fingerprint import fingerprint
from resumable_nb.givenup import GivenUp, impossible
from resumable_nb.journal import Journal
from resumable_nb.model import Group, StepKey, StepRecord
from resumable_nb.randomness import random_state, set_random_state
from resumable_nb.snapshot import Namespace, Owed, Past, Snapshots, canonical
from resumable_nb.source import Body
from resumable_nb.wording import few

Execute = Callable[[str], None]
"""Runs the text of a cell, and shows nothing. Raises what the code raises."""


_MANY: Final = 200_000


@dataclass(frozen=True, slots=True)
class Made:
    """The variables after a body has run again, and digests of the saved ones.

    Where it has written to database ``files``, which was taken back, without what depends on that.
    """

    variables: dict[str, object]
    digests: Mapping[str, str]
    files: frozenset[str] = frozenset()


World = dict[str, Made]
"""What one replay has made so far, by step."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """What is needed to run the body of a skipped step again."""

    record: StepRecord
    body: Body
    key: Callable[[], StepKey]
    space: Namespace


class Replays:
    """Of one session. ``execute`` comes from the shell; without it nothing can be replayed."""

    def __init__(self, snapshots: Snapshots, journal: Journal, bus: Bus) -> None:
        self._snapshots = snapshots
        self._journal = journal
        self._bus = bus
        self._skipped: dict[str, Skipped] = {}
        self.given_up = GivenUp(journal)
        self.execute: Execute | None = None
        self.can_execute: Callable[[str], bool] = lambda _text: False
        self._busy: set[tuple[str, str]] = set()
        self._through: dict[str, frozenset[str]] = {}
        """What the bodies of steps look up in functions of objects that other steps make again."""
        snapshots.reader.again = self._compute

    def may_wait(self, space: Namespace, record: StepRecord) -> bool:
        """Whether what the step could not save needs no run now: it is there, or its body can run when it is used."""
        if not record.unsaved or not space.lazy or record.memory:
            return False
        later = record.kind == "cell" and self.can_execute(record.text)
        return later or self._snapshots.holds(space, record.manifest)

    def expect(self, record: StepRecord, body: Body, key: Callable[[], StepKey], space: Namespace) -> None:
        """The step is about to be skipped, and may have to be replayed. ``key()`` is what it depends on, now."""
        self._skipped.pop(record.id, None)  # the last in order
        self._skipped[record.id] = Skipped(record, body, key, space)

    def bring(self, space: Namespace, body: Body) -> None:
        """Bring back all that the code can reach, replayed where it has to be. Raises ``NotSaved``, ``Corrupt``."""
        tried: set[str] = set()
        while True:
            names = self._snapshots.reach(space, body)
            self._snapshots.materialise(space, names)
            due = self._snapshots.owing.due(space, names)
            if not due:
                self._snapshots.presence.touch(names)
                return
            if tried.issuperset(each.step for each in due):
                raise impossible(due[0], "it writes to a database file", effect=True)
            tried |= {each.step for each in due}
            self._replay(space, due, names)

    def load(self, space: Namespace, name: str) -> None:
        """One name, if it is owed."""
        for owed in self._snapshots.owing.due(space, [name]):
            if name in owed.names:
                self._replay(space, [owed], [name])

    def _compute(self, group: Group, name: str) -> Any:
        """A variable of a skipped step's group anew, for a gradient through it: the namespace stays as it is."""
        maker = self._snapshots.owing.maker(group, name)
        why = "the graph behind it cannot be saved"
        if maker is None or maker.step not in self._skipped or (maker.step, name) in self._busy:
            raise NotSaved(f"{name}: {why}; run the cell that made it with `%%resumable NAME --rerun`", names=(name,))
        owed = dataclasses.replace(maker, names={name: why})
        self._busy.add((owed.step, name))
        try:
            with self._snapshots.open.aside(), self.given_up.noted():
                made = self._make_again(self._skipped[owed.step].space, owed, {}, {}).variables
        finally:
            self._busy.discard((owed.step, name))
        self._bus.emit("step.replayed", owed.step, names=[name], other=[])
        return made.get(name)

    def _replay(self, space: Namespace, due: Collection[Owed], wanted: Collection[str]) -> None:
        """Make again what is due, and what that was made with: each body once, in order, so that all of it is one."""
        with self.given_up.noted():
            self._replay_all(space, due, wanted)

    def _replay_all(self, space: Namespace, due: Collection[Owed], wanted: Collection[str]) -> None:
        world: World = {}
        for each in self._in_order(due):
            self._bring_about(space, each, world)
        for step, made in world.items():
            if (owed := self._snapshots.owing.of(step)) is None:
                continue
            lost = [name for name in sorted(owed.names) if name not in made.variables]
            if lost and not made.files:
                raise _impossible(owed, f"its body did not make {lost[0]} again")
            if needed := [name for name in lost if name in wanted]:
                files = few(sorted(made.files))
                raise impossible(owed, f"to make {few(needed)} again, it would write to {files}", effect=True)
            if lost:
                rest = {name: why for name, why in owed.names.items() if name not in lost}
                owed = dataclasses.replace(owed, names=rest, along=frozenset())
            if owed.names:
                try:
                    other = self._snapshots.take(space, owed, made.variables, made.digests)
                except NotSaved as error:
                    raise _impossible(owed, error) from error
                self._bus.emit("step.replayed", step, names=sorted(owed.names), other=other)

    def _in_order(self, many: Collection[Owed]) -> list[Owed]:
        """As their steps were skipped."""
        place = {step: i for i, step in enumerate(self._skipped)}
        return sorted(many, key=lambda owed: place.get(owed.step, -1))

    def _bring_about(
        self, space: Namespace, owed: Owed, world: World, given: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        if owed.step not in world:
            found = self._make_again(space, owed, world, given)
            world[owed.step] = found  # after those that it needed
        return world[owed.step].variables

    def _make_again(
        self, space: Namespace, owed: Owed, world: World, given: Mapping[str, object] | None = None
    ) -> Made:
        """The variables after the body has run again, apart from the namespace's own.

        ``given``: what the body of a later step is to find, where this one is a part of that.
        """
        skipped = self._skipped.get(owed.step)
        if skipped is None or self.execute is None or not self.can_execute(skipped.record.text):
            raise _impossible(owed, "there is nothing to run it with")
        record = skipped.record
        if record.memory:
            raise _impossible(owed, "it uses the task's memory")
        try:
            before = self._before(space, owed, skipped, world, given)
        except NotSaved as error:
            raise _impossible(owed, error) from error
        inner = scope.StepScope(
            record.id, version=record.version, key=record.key, continuing=True, replayed_for=", ".join(owed.names)
        )
        with self._snapshots.owing.aside(space, before), _kept(before, owed.past), scope.entered(inner):
            if changes := _changes(record.key, skipped.key(), before, owed.past.owed):
                raise _impossible(owed, "; ".join(map(str, changes)))
            if record.random:
                set_random_state(self._journal.blob(record.random))
            raised = None
            with databases.untouched() as written:
                try:
                    self.execute(record.text)
                    self._snapshots.materialise(space, None)
                except Exception as error:
                    raised = error
            made = space.visible()
            digests = canonical({name: made[name] for name in owed.manifest.digests if name in made})
            if inner.refused:  # whatever the body has made of that
                raise impossible(owed, inner.refused[0], effect=True) from raised
            if raised is not None and not written:
                raise _impossible(owed, f"its body raised {type(raised).__name__}: {raised}") from raised
            if written:
                made, digests = self._without_rows(owed, before, made if raised is None else {}, digests), {}
            return Made(made, digests, frozenset(written))

    @staticmethod
    def _without_rows(
        owed: Owed, before: Mapping[str, object], made: dict[str, object], digests: Mapping[str, str]
    ) -> dict[str, object]:
        """Of what a body has made that writes to a file: what is not of the rows that were taken back.

        Where the file led to other values than before, nothing but what it had found.
        """
        as_recorded = all(owed.manifest.digests[name] == mark for name, mark in digests.items())
        bound = {name for name in made if name not in before or made[name] is not before[name]}
        kept = {name: value for name, value in made.items() if as_recorded and not _is_of_rows(value)}
        return {name: value for name, value in before.items() if name not in bound} | kept

    def _before(
        self, space: Namespace, owed: Owed, skipped: Skipped, world: World, given: Mapping[str, object] | None
    ) -> dict[str, object]:
        """What the body had found, each time anew: it may change it in place."""
        past, key, body = owed.past, skipped.record.key, skipped.body
        seen = {name.removeprefix(ASSIGNED): mark for name, mark in key.inputs.items()}
        names = {*seen, *(name.partition(".")[0] for name in key.functions)}
        names |= body.reads | body.deletes | body.writes | owed.names.keys() | owed.along
        names |= {name for name, value in past.variables.items() if callable(value) or type(value).__name__ == "module"}
        if body.dynamic:
            names |= past.names()
        while True:
            names |= self._through.get(owed.step, frozenset())
            found = self._found(space, owed, names, seen, world, given)
            with self._snapshots.owing.aside(space, found):
                more = (self._snapshots.reach(space, body) & past.names()) - names
            if not more:
                return found
            self._through[owed.step] = self._through.get(owed.step, frozenset()) | more

    def _found(
        self,
        space: Namespace,
        owed: Owed,
        names: Collection[str],
        seen: Mapping[str, str],
        world: World,
        given: Mapping[str, object] | None,
    ) -> dict[str, object]:
        past, names = owed.past, {*names}
        earlier = {past.owed[name].step: past.owed[name] for name in names if name in past.owed}
        leads = any(leads_to_enrolled(past.variables.get(name)) for name in names)
        if leads or any(each.enrolled for each in (owed, *earlier.values())):  # the library may lead to all of them
            names |= {name for name, each in past.owed.items() if name in each.enrolled}
            earlier |= {each.step: each for each in past.owed.values() if each.enrolled}
        living = self._living(space, owed, given) | self._brought(space, past, names)
        earlier = {step: each for step, each in earlier.items() if not {*each.names} & names <= living.keys()}
        owing, own = self._snapshots.owing, names - past.owed.keys() - living.keys()
        own |= owing.tied(space, past, own, living)
        found = owing.join(space, owing.private(space, past, own, seen), living)
        for each in self._in_order(earlier.values()):
            made = self._bring_about(space, each, world, found)
            # A generator calls functions that this body does not mention.
            found = {name: value for name, value in made.items() if callable(value)} | found
            again = {name: made[name] for name in (*each.names, *each.along) if name in made}
            found = owing.join(space, found, again)
        return found

    def _brought(self, space: Namespace, past: Past, names: Collection[str]) -> dict[str, object]:
        """What the body had found, and an earlier replay has brought: all others hold that by now."""
        owing, there = self._snapshots.owing, space.variables
        return {
            name: there[name]
            for name in names & past.owed.keys() & there.keys()
            if owing.get(name) is None and owing.is_brought(space, name, past.owed[name])
        }

    def _living(self, space: Namespace, owed: Owed, given: Mapping[str, object] | None) -> dict[str, object]:
        """What the body left as it was and shares with what it made: the very objects that all others hold by now."""
        if given is None:
            names = self._snapshots.binding.still(space, owed)
            self._snapshots.materialise(space, names)
            return {name: space.variables[name] for name in names}
        found = {name: given[name] for name in owed.shared() if name in given}
        return found if owed.is_as_left(canonical(found)) else {}


def _changes(then: StepKey, now: StepKey, before: dict[str, object], made_again: Container[str]) -> list[object]:
    """What the body would find otherwise than it did.

    Where a value has no content, who made it is not asked again; nor what is in one that another replay has just made
    of the same: its numbers may be those of this kernel.
    """
    inputs = {change: change.name.removeprefix(ASSIGNED) for change in plan.differences(then, now)}
    return [
        change
        for change, name in inputs.items()
        if not (change.part == "input" and name in made_again)
        and not _is_made_again(change.part, before.get(name))
        and not change.name.startswith((PART, RANDOM, SHARING))  # what it shows; what it is put back with
    ]


def _is_of_rows(value: object) -> bool:
    """Whether it holds objects of a class that a library keeps books about: each may stand for a row."""
    todo: list[Any] = [value]
    seen: set[int] = set()
    while todo and len(seen) < _MANY:
        here = todo.pop()
        if id(here) in seen or isinstance(here, type | types.ModuleType | types.FunctionType):
            continue
        seen.add(id(here))
        if is_enrolled(type(here)):
            return True
        todo += gc.get_referents(here)
    return bool(todo)


def _is_made_again(part: str, value: object) -> bool:
    """Whether a value counts by what made it."""
    if isinstance(value, type) and is_enrolled(value):
        return True
    if part != "input":
        return False
    try:
        fingerprint(value)
    except NoContent:
        return True
    return False


@contextlib.contextmanager
def _kept(before: Mapping[str, object], past: Past) -> Iterator[None]:
    """What is not copied is afterwards as it was: random state, settings, the attributes of the notebook's classes.

    The classes are within as they were in that past.
    """
    random, configured = random_state(), settings.state()
    classes = [each for each in before.values() if isinstance(each, type) and each.__module__ == "__main__"]
    classes = [each for each in classes if not is_enrolled(each)]  # what a replay enters, the library has to keep
    attributes = [(kind, dict(vars(kind))) for kind in classes]
    for kind in past.classes.keys() & set(classes):
        _set(kind, data_of(kind), past.classes[kind])
    try:
        yield
    finally:
        set_random_state(random)
        back = settings.Settings()
        back.restore(settings.changed(settings.state(), configured))
        back.settle()
        for kind, then in attributes:
            _set(kind, vars(kind), then)


def _set(kind: type, now: Mapping[str, Any], then: Mapping[str, Any]) -> None:
    for name in now.keys() - then.keys():
        delattr(kind, name)
    for name, value in then.items():
        if vars(kind).get(name) is not value:
            setattr(kind, name, value)


def _impossible(owed: Owed, why: str | NotSaved) -> NotSaved:
    """Where a library keeps books of classes, objects may stand for rows, which the body would write once more."""
    past = owed.past
    keeps_books = any(each.enrolled for each in (owed, *past.owed.values()))
    return impossible(owed, why, effect=keeps_books or any(map(leads_to_enrolled, past.variables.values())))
