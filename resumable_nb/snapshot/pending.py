"""Variables that are restored but not loaded yet."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from resumable_nb.model import MISSING, Group


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Where a pending variable's value is."""

    group: Group
    digest: str
    """Canonical digest, or empty."""
    former: Any = MISSING
    """The class or function that the name was bound to: a restored class continues it."""
    outline: str = ""
    """Digest of a value without canonical content, its parts counted by their types."""
    made: bool = False
    """The step made this class."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Classes that the step made, and left with these digests."""
    saved_as: str = ""
    """The name in the group, where the pending name is no variable: a result."""


class Pending:
    """Name to entry; the later one wins. Compared by identity: the same group twice is two loads."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __bool__(self) -> bool:
        return bool(self._entries)

    def get(self, name: str) -> Entry | None:
        return self._entries.get(name)

    def names(self) -> frozenset[str]:
        return frozenset(self._entries)

    def variables(self) -> frozenset[str]:
        return frozenset(name for name, entry in self._entries.items() if not entry.saved_as)

    def put(self, name: str, entry: Entry) -> None:
        self._entries[name] = entry

    def forget(self, names: Collection[str]) -> None:
        for name in names:
            self._entries.pop(name, None)

    def current_entries(self) -> dict[str, Entry]:
        """The variables that are pending, each with where its value is."""
        return {name: entry for name, entry in self._entries.items() if not entry.saved_as}

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Nothing is pending within the block."""
        kept, self._entries = self._entries, {}
        try:
            yield
        finally:
            self._entries = kept

    def groups(self, names: Collection[str] | None) -> Iterator[Group]:
        """The groups that have one of the names still pending (None: any), each once."""
        seen: set[int] = set()
        for name, entry in list(self._entries.items()):
            if (names is None or name in names) and id(entry.group) not in seen:
                seen.add(id(entry.group))
                yield entry.group

    def tied(self, classes: Collection[str]) -> frozenset[str]:
        """Names whose groups have one of these classes, or objects of it."""
        return frozenset(
            name
            for name, entry in self._entries.items()
            if not entry.saved_as
            and not {*entry.group.names, *(key.split("@")[0].split(".")[0] for key in entry.group.refs)}.isdisjoint(
                classes
            )
        )

    def beside(self, group: Group) -> dict[str, str]:
        """The classes that the group's step made, and that are not to be bound, with their digests."""
        current = self.current(group)
        return {name: mark for each in current.values() for name, mark in each.beside.items() if name not in current}

    def is_in(self, name: str, group: Group) -> bool:
        """Whether the name's value is to come from this group."""
        entry = self._entries.get(name)
        return entry is not None and entry.group is group

    def is_result(self, group: Group) -> bool:
        """Whether a result alone is to come from this group: its classes go on as later steps have left them."""
        return all(entry.saved_as for entry in self.current(group).values())

    def current(self, group: Group) -> dict[str, Entry]:
        """The names whose value is to come from this group."""
        return {name: entry for name, entry in self._entries.items() if entry.group is group}
