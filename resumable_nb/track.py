"""``track``: progress of a loop, and the checkpoint inside a step."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sized
from dataclasses import dataclass
from types import FrameType
from typing import Any, Generic, TypeVar, cast

import msgspec

from resumable_nb import assigned, callers, scope, sharing
from resumable_nb import frame as frames
from resumable_nb.callers import Callers
from resumable_nb.change import SHARING
from resumable_nb.control import Control
from resumable_nb.errors import UsageError
from resumable_nb.events import Bus
from resumable_nb.journal import Journal
from resumable_nb.model import MISSING, Position, digest
from resumable_nb.snapshot import Namespace, Snapshots

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Keeper:
    """What a loop needs of the session: where positions and kept variables go."""

    journal: Journal
    snapshots: Snapshots
    bus: Bus
    space: Callable[[FrameType, Collection[str]], Namespace]
    control: Control
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


_provider: list[Callable[[], Keeper]] = []


def use(provider: Callable[[], Keeper]) -> None:
    """Say where loops find their keeper (the session does, when it is imported)."""
    _provider[:] = [provider]


def track(
    iterable: Iterable[T],
    label: str = "",
    *,
    keep: str | Collection[str] | None = None,
    every: int | None = None,
    every_s: float | None = None,
    total: int | None = None,
) -> Track[T]:
    """Iterate with progress; with ``keep=``, go on after a crash at the last kept turn.

    ``keep`` names the variables that turns change (``[]``: none); whoever shares objects with them, also in functions
    that called this one, gets them back with them. Their values, the state of the random generators and the position
    are committed after every ``every`` turns, or when ``every_s`` seconds have gone since the last time (default: every
    turn), and after the last turn. When the step is continued, as many items of ``iterable`` as turns are kept are
    passed over, and the variables are as they were then. Without ``keep`` all turns run again, and recorded tool calls
    answer from the journal.

    Works with ``async for`` too. Raises ``UsageError`` for ``keep`` outside a step, for a name that is not bound, and
    where what is kept, or shares objects with it, cannot be saved.
    """
    if isinstance(keep, str):
        keep = [keep]
    for name, value in (("every", every), ("every_s", every_s)):
        if value is not None and (keep is None or value <= 0):
            raise UsageError(f"track({name}={value!r}): needs keep= (the variables to keep), and a number above 0")
    if total is None and isinstance(iterable, Sized):
        total = len(iterable)
    return Track(iterable, label, None if keep is None else tuple(keep), every, every_s, total)


class Track(Generic[T]):
    """One loop; made by ``track``. Each iteration over it is a loop of its own."""

    def __init__(
        self,
        iterable: Iterable[T],
        label: str,
        keep: tuple[str, ...] | None,
        every: int | None,
        every_s: float | None,
        total: int | None,
    ) -> None:
        self._iterable = iterable
        self.label = label
        self.keep = keep
        self.every = every if every or every_s else 1
        self.every_s = every_s
        self.total = total

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError(f"track({self.label!r}): the iterable has no length")
        return self.total

    def __repr__(self) -> str:
        return f"<Track {self.label or 'loop'} of {'?' if self.total is None else self.total}>"

    def __iter__(self) -> Iterator[T]:
        loop: Loop | None = None
        items = iter(self._iterable)
        while True:
            if loop is None:
                loop = Loop(self, sys._getframe(1))
                for _ in range(loop.done):
                    if next(items, MISSING) is MISSING:
                        break
            item = next(items, MISSING)
            if item is MISSING:
                break
            yield item
            loop.turn(sys._getframe(1))
            loop.control.checkpoint(loop.where)
        loop.finish(sys._getframe(1))

    async def __aiter__(self) -> AsyncIterator[T]:
        items = cast("AsyncIterator[T]", self._iterable.__aiter__())  # type: ignore[attr-defined]  # async iterables only
        loop = Loop(self, sys._getframe(1))
        for _ in range(loop.done):
            if await anext(items, MISSING) is MISSING:
                break
        while (item := await anext(items, MISSING)) is not MISSING:
            yield item
            loop.turn(sys._getframe(1))
            await loop.control.checkpoint_async(loop.where)
        loop.finish(sys._getframe(1))


class Loop:
    """The running state of one iteration: how far it is, and what is kept."""

    def __init__(self, owner: Track[Any], frame: FrameType) -> None:
        self._owner = owner
        self._names = owner.keep or ()
        self._keeper = _provider[0]()
        self.control = self._keeper.control
        self._scope = scope.current()
        self._id = f"{owner.label or 'loop'}#{self._scope.next_ordinal(f'track {owner.label}') + 1}"
        self.where = f"the next turn of {owner.label or 'a loop'}"
        self.done = self._kept = self._resumed_at = 0
        self._given: dict[str, str] = {}
        self._kept_s = self._keeper.monotonic()
        self._started_s = self._worked_s()
        if owner.keep is not None:
            if not self._scope.id:
                raise UsageError("track(keep=…) keeps a place inside a step: begin the cell with %%resumable NAME")
            self._resume(frame)
        self._tell()

    def turn(self, frame: FrameType) -> None:
        """One more turn is finished."""
        self.done += 1
        self._tell()
        if self._owner.keep is not None and self._due():
            self._keep(frame)

    def finish(self, frame: FrameType) -> None:
        if self._owner.keep is not None and self._kept != self.done:
            self._keep(frame)
        self._tell(ended=True)

    def _due(self) -> bool:
        if self.control.wanted != "run":  # whoever pauses may shut the kernel down
            return True
        every, every_s = self._owner.every, self._owner.every_s
        if every and self.done - self._kept >= every:
            return True
        return every_s is not None and self._keeper.monotonic() - self._kept_s >= every_s

    def _resume(self, frame: FrameType) -> None:
        snapshots, calling = self._keeper.snapshots, Callers(frame)
        space = self._space(frame, calling)
        known = self._scope.key.inputs.keys() & self._names
        self._given = {name: mark for name, mark in snapshots.given(space, self._names).items() if name not in known}
        position = self._keeper.journal.position(self._scope.id, self._id)
        if position is MISSING or not self._scope.continuing or position.key != self._key():
            return
        edited = any(self._is_edited(space, name, position) for name in self._names)
        if edited or self._is_edited_beside(space, position) or self._scope.reseeded:
            return
        restored = snapshots.restore_now(space, position.manifest, same=position.same)
        self._given = position.given
        values = {name: space.variables[name] for name in restored.names}
        calling.assign(values)
        values = {name: value for name, value in values.items() if not callers.is_theirs(name)}
        frames.assign(frame, values, restored.deleted)
        own = frames.own_names(frame)
        frame.f_globals.update({name: value for name, value in values.items() if name not in own})
        self.done = self._kept = self._resumed_at = position.done
        with self._scope.lock:
            self._scope.claims = Counter(position.claims)
            self._scope.ordinals |= Counter(position.ordinals)
            self._scope.excused = max(self._scope.excused, position.calls)
            # An interrupted loop has changed its variables: what the step will leave comes from those at its beginning.
            inputs = {
                name: mark
                for name, mark in self._scope.key.inputs.items()
                if name.removeprefix(SHARING) not in self._names
            }
            self._scope.key = msgspec.structs.replace(self._scope.key, inputs=inputs | position.inputs)

    def _is_edited(self, space: Namespace, name: str, position: Position) -> bool:
        """Whether a kept variable began otherwise, above the step, than when the kept turns were run.

        In the kernel that was interrupted, it is what those turns have made of it.
        """
        now, then = self._scope.key.inputs, position.inputs
        if all(now.get(part) == then.get(part) for part in (name, SHARING + name)):
            return False
        return not self._keeper.snapshots.left.is_unfinished(space, name, self._scope.id)

    def _is_edited_beside(self, space: Namespace, position: Position) -> bool:
        """Whether what comes back with the loop, and is no input, began otherwise than when the kept turns were run."""
        now, then = self._given, position.given
        return any(
            now.get(name) != then.get(name)
            and not self._keeper.snapshots.left.is_unfinished(space, name, self._scope.id)
            for name in now.keys() | then.keys()
        )

    def _space(self, frame: FrameType, calling: Callers, needed: Collection[str] = ()) -> Namespace:
        """What code in ``frame`` sees, and what the functions hold that called it."""
        space = self._keeper.space(frame, needed)
        theirs = calling.variables(space.hidden)
        return dataclasses.replace(space, variables=space.variables | theirs) if theirs else space

    def _key(self) -> str:
        """Digest of all that the step depends on, the kept variables left out."""
        key = assigned.left_out(sharing.left_out(self._scope.key))
        inputs = {name: mark for name, mark in key.inputs.items() if name not in self._names}
        return digest(msgspec.json.encode(msgspec.structs.replace(key, inputs=inputs), order="sorted"))

    def _keep(self, frame: FrameType) -> None:
        names = self._names
        space = self._space(frame, Callers(frame), names)
        self._keeper.snapshots.materialise(space, names)
        for name in names:
            if name not in space.variables:
                raise UsageError(f"track(keep=…): there is no variable {name!r} at the end of turn {self.done}")
        capture = self._keeper.snapshots.save_names(space, names)
        for name, why in sorted(capture.unsaved.items(), key=lambda each: each[0] not in names):
            if name in names:
                raise UsageError(f"track(keep=…): {name!r} cannot be kept: {why}")
            raise UsageError(
                f"track(keep=…): {callers.told(name)} shares objects with what is kept, and cannot be saved: {why}; "
                f"make it after the loop, or give it a copy"
            )
        position = Position(
            step=self._scope.id,
            loop=self._id,
            version=self._scope.version,
            done=self.done,
            total=self._owner.total,
            at=self._keeper.clock(),
            key=self._key(),
            inputs={name: mark for name, mark in self._scope.key.inputs.items() if name.removeprefix(SHARING) in names},
            given=self._given,
            same=tuple(sorted(capture.same)),
            manifest=capture.manifest_digest,
            claims=dict(self._scope.claims),
            ordinals=dict(self._scope.ordinals),
            calls=self._keeper.journal.count(self._scope.id),
        )
        self._keeper.bus.emit("track.keep", self._scope.id, loop=self._id, done=self.done)
        self._keeper.journal.keep_position(position, capture.rows)
        self._keeper.bus.emit("track.kept", self._scope.id, loop=self._id, done=self.done)
        self._kept, self._kept_s = self.done, self._keeper.monotonic()

    def _worked_s(self) -> float:
        """A clock that stands still in pauses."""
        return self._keeper.monotonic() - self.control.waited_s

    def _tell(self, *, ended: bool = False) -> None:
        self._keeper.bus.emit(
            "track.turn",
            self._scope.id,
            loop=self._id,
            label=self._owner.label,
            done=self.done,
            total=self._owner.total,
            resumed_at=self._resumed_at,
            elapsed_s=self._worked_s() - self._started_s,
            ended=ended,
        )
