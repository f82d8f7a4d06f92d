"""``Memory``: a task's durable list of messages, which is part of what its steps do."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, MutableSequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, SupportsIndex, overload

import msgspec

from resumable_nb import scope
from resumable_nb.drive import inside_a_tool
from resumable_nb.errors import UsageError
from resumable_nb.frame import user_level
from resumable_nb.journal import Journal
from resumable_nb.message import Message, frozen, text_of
from resumable_nb.model import MISSING, Missing, StepRecord, digest
from resumable_nb.records import Fence
from resumable_nb.store.base import Store

HEAD: Final = "memory/head"


class Line(NamedTuple):
    """One message as text, and the step that it is from (``""``: code outside any step)."""

    step: str
    text: str


class Head(msgspec.Struct, frozen=True):
    """How many of the rows count, and the steps that use the memory, in the order in which they first did."""

    length: int = 0
    steps: tuple[str, ...] = ()


class Delta(msgspec.Struct, frozen=True):
    """What a step did: from ``before`` the first ``keep`` lines stayed, ``removed`` went and ``added`` came."""

    before: str
    after: str
    keep: int
    removed: tuple[Line, ...] = ()
    added: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """The memory at the start of a step's body: ``found``, and ``lines`` without what the step itself had added."""

    found: tuple[Line, ...]
    lines: tuple[Line, ...]
    uses: int
    blob: str
    """What is known of the step's earlier doing."""


class Memory(MutableSequence[Message]):
    """Messages, each a dict of JSON data. Changes outside a step are durable at once, those inside with the step's end.

    A step that runs again, or goes on, finds the memory as it was when it first began; one that is skipped leaves it as
    it was afterwards. A step that uses the memory depends on what the steps before it have put there.
    """

    def __init__(self, journal: Journal, store: Store, lease: Fence) -> None:
        self._journal, self._store, self._lease = journal, store, lease
        self._lock = threading.RLock()
        self._lines: list[Line] | None = None
        self._durable: list[Line] = []
        self._head = Head()
        self._uses = 0
        self._edges: dict[str, list[Delta]] | None = None

    # --- what users do

    def __len__(self) -> int:
        return len(self._open())

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Message: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[Message]: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> Message | list[Message]:
        lines = self._open()
        if isinstance(index, slice):
            return [frozen(line.text) for line in lines[index]]
        return frozen(lines[index].text)

    def __setitem__(self, index: Any, message: Any, /) -> None:
        with self._lock:
            if isinstance(index, slice):
                self._edit()[index] = [_line(each) for each in message]
            else:
                self._edit()[index] = _line(message)
            self._keep()

    def __delitem__(self, index: SupportsIndex | slice, /) -> None:
        with self._lock:
            del self._edit()[index]
            self._keep()

    def insert(self, index: SupportsIndex, message: Mapping[str, Any], /) -> None:
        with self._lock:
            self._edit().insert(index, _line(message))
            self._keep()

    def extend(self, messages: Iterable[Mapping[str, Any]], /) -> None:
        """In one commit."""
        new = [_line(each) for each in messages]
        with self._lock:
            self._edit().extend(new)
            self._keep()

    def clear(self) -> None:
        del self[:]

    def to_list(self) -> list[dict[str, Any]]:
        """Copies, plain dicts to pass on or to change."""
        return [json.loads(line.text) for line in self._open()]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, list | Memory) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as of every list

    def __repr__(self) -> str:
        return f"<Memory of {len(self)} messages>"

    def __reduce__(self) -> tuple[Any, ...]:
        return current, ()

    def said(self, blobs: Iterable[str]) -> dict[str, Any]:
        """Who has said what, as JSON data: the steps of the messages, and what each blob says that its step did."""
        lines = self._known()
        deltas = {blob: json.loads(self._journal.blob(blob)) for blob in blobs if blob}
        return {"by": [line.step for line in lines], "steps": list(self._head.steps), "deltas": deltas}

    @staticmethod
    def rows(data: Mapping[str, Any]) -> dict[str, bytes]:
        """The rows of a store for messages (``memory``), and for who has said what (``said``)."""
        said = data["said"]
        lines = [_line(message)._replace(step=by) for message, by in zip(data["memory"], said["by"], strict=True)]
        deltas = [msgspec.convert(each, type=Delta) for each in said["deltas"].values()]
        blobs = dict(zip(said["deltas"], deltas, strict=True))
        return {
            **{f"memory/{n:08d}": msgspec.json.encode(line) for n, line in enumerate(lines)},
            **{f"blob/{name}": msgspec.json.encode(delta) for name, delta in blobs.items()},
            HEAD: msgspec.json.encode(Head(len(lines), tuple(said["steps"]))),
        }

    # --- what the runner does

    def reload(self) -> None:
        """Another process may have written, or the task was begun anew."""
        self._lines = self._edges = None

    def changed(self, record: StepRecord) -> bool:
        """Whether a finished step would find other messages than it found."""
        if not record.memory:
            return False
        with self._lock:
            delta = self._delta(record.memory)
            return not self._has(delta, record.id) and _digest(self._known()) != delta.before

    def skip(self, record: StepRecord) -> None:
        """Have the messages that a skipped step has added, unless they are there."""
        if not record.memory:
            return
        with self._lock:
            delta = self._delta(record.memory)
            if not self._has(delta, record.id):
                lines = self._known()
                lines[delta.keep :] = delta.added
                self._keep()

    def begin(self, step: str, record: StepRecord | Missing) -> Mark:
        """A body is about to run. What the step had added when it ran before is taken out again."""
        with self._lock:
            found = tuple(self._known())
            blob = self._last(step, record) if found else ""
            if blob:
                self._lines = self._without(self._delta(blob), step)
            return Mark(found, tuple(self._known()), self._uses, blob)

    def commit(self, mark: Mark, step: str) -> tuple[str, dict[str, bytes]]:
        """The blob that says what the step did (``""``: it used no memory), and rows for the step's own commit."""
        with self._lock:
            lines = self._known()
            name, rows = "", dict[str, bytes]()
            if self._uses != mark.uses:
                keep = _common(mark.lines, lines)
                removed, added = mark.lines[keep:], tuple(lines[keep:])
                delta = Delta(_digest(mark.lines), _digest(lines), keep, removed, added)
                name, rows = self._journal.blob_row(msgspec.json.encode(delta))
                if step not in self._head.steps:
                    self._head = msgspec.structs.replace(self._head, steps=(*self._head.steps, step))
            if not scope.current().id:  # a step inside another one is durable with that
                rows = rows | self._rows()
            return name, rows

    def committed(self) -> None:
        """What ``commit`` has given is on disk."""
        with self._lock:
            self._edges = None
            if not scope.current().id:
                self._durable = list(self._known())

    def fail(self, mark: Mark) -> None:
        """The body raised: what it did to the memory did not happen."""
        with self._lock:
            self._lines = list(mark.found)

    # --- parts

    def _known(self) -> list[Line]:
        if self._lines is None:
            rows = dict(self._store.scan("memory/"))
            head = rows.pop(HEAD, None)
            self._head = Head() if head is None else msgspec.json.decode(head, type=Head)
            self._durable = [msgspec.json.decode(row, type=Line) for row in list(rows.values())[: self._head.length]]
            self._lines = list(self._durable)
        return self._lines

    def _open(self) -> list[Line]:
        """The lines, for code that depends on them from now on."""
        with self._lock:
            self._uses += 1
            return self._known()

    def _edit(self) -> list[Line]:
        """The lines, to be changed; ``_keep`` afterwards."""
        if scope.current().replayed_for:
            raise UsageError("the memory is not changed while a finished step is replayed")
        if inside_a_tool() and scope.current().id:
            _warn_of_tool()
        self._lease.ensure()  # first: who has just become the owner reads anew
        return self._open()

    def _keep(self) -> None:
        """Outside any step, make it durable."""
        if not scope.current().id and (rows := self._rows()):
            self._store.commit(rows, guard=self._lease.guard)
            self._durable = list(self._known())

    def _rows(self) -> dict[str, bytes]:
        """What differs from the rows on disk. Those behind the end are left, and do not count."""
        lines = self._known()
        same = _common(self._durable, lines)
        if same == len(lines) == len(self._durable):
            return {}
        self._head = msgspec.structs.replace(self._head, length=len(lines))
        rows = {f"memory/{n:08d}": msgspec.json.encode(lines[n]) for n in range(same, len(lines))}
        return {**rows, HEAD: msgspec.json.encode(self._head)}

    def _last(self, step: str, record: StepRecord | Missing) -> str:
        if record is not MISSING:
            return record.memory
        versions = self._journal.versions(step)  # the user asked for another run: only the finished versions are left
        return versions[-1].memory if versions else ""

    def _delta(self, blob: str) -> Delta:
        return msgspec.json.decode(self._journal.blob(blob), type=Delta)

    def _has(self, delta: Delta, step: str) -> bool:
        """Whether what the step did is in the memory, under what later steps have done."""
        return self._begins_with(delta, step) or self._since(delta) is not None

    def _without(self, delta: Delta, step: str) -> list[Line]:
        """The memory as the step found it, if what it did is there; else as it is."""
        lines = self._known()
        if self._begins_with(delta, step):
            return [*lines[: delta.keep], *delta.removed]
        since = self._since(delta)
        if since is None:
            return list(lines)
        length, deltas = since
        lines = lines[:length]
        for each in (*reversed(deltas), delta):
            lines = [*lines[: each.keep], *each.removed]
        return lines

    def _begins_with(self, delta: Delta, step: str) -> bool:
        """Whether it is as the step left it, but for what later steps have added."""
        lines = self._known()
        length = delta.keep + len(delta.added)
        if len(lines) < length or _digest(lines[:length]) != delta.after:
            return False
        order = {name: n for n, name in enumerate(self._head.steps)}
        own = order.get(step, -1)
        return all(not line.step or order.get(line.step, own + 1) > own for line in lines[length:])

    def _since(self, delta: Delta) -> tuple[int, list[Delta]] | None:
        """What finished steps did one after another, from that one's end up to the memory as it is (but for lines at
        its end from outside any step: with their place). ``None`` where no such way leads here."""
        lines = self._known()
        ends = {_digest(lines): len(lines)}
        for length in range(len(lines) - 1, -1, -1):
            if lines[length].step:
                break
            ends.setdefault(_digest(lines[:length]), length)
        todo: list[tuple[str, list[Delta]]] = [(delta.after, [])]
        seen = set()
        while todo:
            at, way = todo.pop()
            if at in ends:
                return ends[at], way
            if at not in seen:
                seen.add(at)
                todo += [(each.after, [*way, each]) for each in self._steps_from().get(at, ())]
        return None

    def _steps_from(self) -> dict[str, list[Delta]]:
        """What finished steps did, by what they found."""
        if self._edges is None:
            self._edges = {}
            for record in self._journal.steps():
                if record.status == "done" and record.memory:
                    delta = self._delta(record.memory)
                    self._edges.setdefault(delta.before, []).append(delta)
        return self._edges


def _common(one: Iterable[Line], two: Iterable[Line]) -> int:
    """How many lines two lists begin with alike."""
    count = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        count += 1
    return count


def _digest(lines: Iterable[Line]) -> str:
    return digest("\n".join(line.text for line in lines).encode())


def _line(message: Mapping[str, Any]) -> Line:
    return Line(scope.current().id, text_of(message))


class MemoryWarning(UserWarning):
    """A tool has changed the memory, which its recorded answer will not do."""


def _warn_of_tool() -> None:
    warnings.warn(
        "the memory is changed inside a tool: when its call is answered from the record, that is not done again, and "
        "the message is lost; let the step append what the tool returns",
        MemoryWarning,
        stacklevel=user_level(),
    )


_provider: list[Callable[[], Memory]] = []


def use(provider: Callable[[], Memory]) -> None:
    """Say which memory a variable stands for that was saved (the session does, when it is imported)."""
    _provider[:] = [provider]


def current() -> Memory:
    """The open task's."""
    return _provider[0]()
