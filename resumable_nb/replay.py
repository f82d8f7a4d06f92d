"""``Replays``: bring back what could not be saved, by running the body of its step again, beside the notebook.

The body runs in the namespace as it was when the step was skipped, with copies of what it reads; every tool call
answers from the record, and one that is not recorded is refused. Only what the step owes is taken over.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from resumable_nb import plan, scope, settings
from resumable_nb.change import ASSIGNED, SHARING
from resumable_nb.codec import data_of
from resumable_nb.configured import PART, RANDOM
from resumable_nb.errors import NoContent, NotSaved
from resumable_nb.events import Bus
from resumable_nb.fingerprint import fingerprint
from resumable_nb.journal import Journal
from resumable_nb.model import Group, StepKey, StepRecord
from resumable_nb.randomness import random_state, set_random_state
from resumable_nb.snapshot import Namespace, Owed, Past, Snapshots, canonical
from resumable_nb.source import Body

Execute = Callable[[str], None]
"""Runs the text of a cell, and shows nothing. Raises what the code raises."""


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
        self._skipped[record.id] = Skipped(record, body, key, space)

    def bring(self, space: Namespace, body: Body) -> None:
        """Bring back all that the code can reach, replayed where it has to be. Raises ``NotSaved``, ``Corrupt``."""
        while True:
            names = self._snapshots.reach(space, body)
            self._snapshots.materialise(space, names)
            due = self._snapshots.owing.due(space, names)
            if not due:
                self._snapshots.presence.touch(names)
                return
            for owed in due:
                self._replay(space, owed)

    def load(self, space: Namespace, name: str) -> None:
        """One name, if it is owed."""
        for owed in self._snapshots.owing.due(space, [name]):
            if name in owed.names:
                self._replay(space, owed)

    def _compute(self, group: Group, name: str) -> Any:
        """A variable of a skipped step's group anew, for a gradient through it: the namespace stays as it is."""
        maker = self._snapshots.owing.maker(group, name)
        why = "the graph behind it cannot be saved"
        if maker is None or maker.step not in self._skipped or (maker.step, name) in self._busy:
            raise NotSaved(f"{name}: {why}; run the cell that made it with `%%resumable NAME --rerun`", names=(name,))
        owed = dataclasses.replace(maker, names={name: why})
        self._busy.add((owed.step, name))
        try:
            with self._snapshots.open.aside():
                made, _ = self._make_again(self._skipped[owed.step].space, owed, {})
        finally:
            self._busy.discard((owed.step, name))
        self._bus.emit("step.replayed", owed.step, names=[name], other=[])
        return made.get(name)

    def _replay(self, space: Namespace, owed: Owed) -> None:
        names = sorted(owed.names)
        made, again = self._make_again(space, owed)
        for name in names:
            if name not in made:
                raise _impossible(owed, f"its body did not make {name} again")
        try:
            other = self._snapshots.take(space, owed, made, again)
        except NotSaved as error:
            raise _impossible(owed, error.message) from error
        self._bus.emit("step.replayed", owed.step, names=names, other=other)

    def _make_again(
        self, space: Namespace, owed: Owed, given: Mapping[str, object] | None = None
    ) -> tuple[dict[str, object], dict[str, str]]:
        """The variables after the body has run again, apart from the namespace's own, and digests of the saved ones.

        ``given``: what the body of a later step is to find, where this one is a part of that.
        """
        skipped = self._skipped.get(owed.step)
        if skipped is None or self.execute is None or not self.can_execute(skipped.record.text):
            raise _impossible(owed, "there is nothing to run it with")
        record = skipped.record
        if record.memory:
            raise _impossible(owed, "it uses the task's memory")
        try:
            before = self._before(space, owed, skipped, given)
        except NotSaved as error:
            raise _impossible(owed, error.message) from error
        inner = scope.StepScope(
            record.id, version=record.version, key=record.key, continuing=True, replayed_for=", ".join(owed.names)
        )
        with self._snapshots.owing.aside(space, before), _kept(before, owed.past), scope.entered(inner):
            if changes := _changes(record.key, skipped.key(), before, owed.past.owed):
                raise _impossible(owed, "; ".join(map(str, changes)))
            if record.random:
                set_random_state(self._journal.blob(record.random))
            try:
                self.execute(record.text)
            except Exception as error:
                raise _impossible(owed, f"its body raised {type(error).__name__}: {error}") from error
            self._snapshots.materialise(space, None)
            made = space.visible()
            return made, canonical({name: made[name] for name in owed.manifest.digests if name in made})

    def _before(
        self, space: Namespace, owed: Owed, skipped: Skipped, given: Mapping[str, object] | None
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
            found = self._found(space, owed, names, seen, given)
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
        given: Mapping[str, object] | None,
    ) -> dict[str, object]:
        past = owed.past
        earlier: dict[int, Owed] = {id(past.owed[name]): past.owed[name] for name in names if name in past.owed}
        living = self._living(space, owed, given)
        owing, own = self._snapshots.owing, {*names} - past.owed.keys() - living.keys()
        own |= owing.tied(space, past, own, living)
        found = owing.join(space, owing.private(space, past, own, seen), living)
        for each in earlier.values():
            made, _ = self._make_again(space, each, found)
            # A generator calls functions that this body does not mention.
            found = {name: value for name, value in made.items() if callable(value)} | found
            again = {name: made[name] for name in (*each.names, *each.along) if name in made}
            found = owing.join(space, found, again)
        return found

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
        if not (change.part == "input" and (name in made_again or _has_no_content(before.get(name))))
        and not change.name.startswith((PART, RANDOM, SHARING))  # what it shows; what it is put back with
    ]


def _has_no_content(value: object) -> bool:
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


def _impossible(owed: Owed, why: str) -> NotSaved:
    name, reason = next(iter(owed.names.items()))
    reason = reason if reason.startswith(name) else f"{name}: {reason}"
    return NotSaved(
        f"{', '.join(owed.names)} of step {owed.step} was not saved ({reason}), and the step cannot be replayed: "
        f"{why}; `%resumable rerun {owed.step}`, and run its cell",
        step=owed.step,
        names=tuple(owed.names),
    )
