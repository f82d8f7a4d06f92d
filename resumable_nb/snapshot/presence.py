"""Which variables still are the objects that were saved? A skip leaves those alone."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from resumable_nb.canonical import content
from resumable_nb.errors import NoContent
from resumable_nb.fingerprint import fingerprint
from resumable_nb.model import MISSING, RESULT, Group, Manifest, Missing
from resumable_nb.snapshot.pending import Pending

Mark = Callable[[str, Any, Mapping[str, int]], str]
"""A text that changes whenever what would be saved of a variable does; good within one process only.

It is told which other variables the mark is of as well, each by its ``id()``.
"""
NOTHING_BESIDE: Final[Mapping[str, int]] = {}


def canonical(values: Mapping[str, Any]) -> dict[str, str]:
    """The digests of those that have canonical content."""
    found = {}
    for name, value in sorted(values.items()):
        try:
            found[name] = fingerprint(value)
        except NoContent:
            continue
    return found


def outlines(values: Mapping[str, Any]) -> dict[str, str]:
    """Digests in which what has no content counts by its type."""
    return {name: content(value, lenient=True).digest for name, value in sorted(values.items())}


class Presence:
    """Variables as they were saved or loaded last.

    The object itself is not kept, only its ``id()``: a deleted frame has to give its memory back.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, str]] = {}
        self._beside: dict[str, Mapping[str, int]] = {}
        """Those whose mark is one of several variables: the others, by ``id()``."""
        self._loaded: dict[str, tuple[int, str, str]] = {}
        """Values that may have another content since they were loaded than when they were saved: with their marks and
        the digests that they were saved with."""
        self._unsaved: dict[str, dict[str, tuple[dict[str, Callable[[], object]], str]]] = {}
        """Each by the manifests from which it is missing, with the variables whose objects it holds, and its mark."""
        self._touched: set[str] = set()
        self._made: dict[int, tuple[weakref.ref[type], str]] = {}

    def note_made(self, kind: type, digest: str) -> None:
        """``kind`` is the class that a step made, and left with that digest."""
        self._made[id(kind)] = weakref.ref(kind), digest

    def is_made(self, kind: object, digest: str) -> bool:
        found, known = self._made.get(id(kind), (_nothing, ""))
        return found() is kind and known == digest

    def beside(self, variables: Mapping[str, Any], made: Mapping[str, str]) -> dict[str, Any]:
        """What lives under the names of classes that a step made, and left with these digests.

        ``MISSING`` where that is another one, and not what later steps have made of it.
        """
        found = {}
        for name, digest in made.items():
            kind = variables.get(name, MISSING)
            known, mark = self._made.get(id(kind), (_nothing, ""))
            found[name] = kind if isinstance(kind, type) and (known() is not kind or mark == digest) else MISSING
        return found

    def note(
        self,
        name: str,
        value: Any,
        digest: str,
        group: Group,
        mark: Callable[[], str],
        beside: Mapping[str, int] = NOTHING_BESIDE,
    ) -> None:
        """``value`` is what ``group`` holds. Without a canonical ``digest``, its mark says whether it is unchanged;
        that is one of it and those ``beside`` it, which it leads to, and they to it."""
        self._known[name] = (id(value), digest or f"{_place(group)} {mark()}")
        self._beside[name] = beside
        self._loaded.pop(name, None)

    def note_loaded(self, name: str, value: Any, digest: str, mark: str) -> None:
        """What loaded ``value`` may have changed its content: ``digest`` is that of what was saved."""
        self._loaded[name] = id(value), mark, digest

    def as_saved(self, name: str, value: Any, mark: Mark) -> str | Missing:
        """The digest that a value, unchanged since, was saved with; empty where it had no canonical content.

        ``MISSING`` where it was changed, or its content says as much as that digest.
        """
        at, known_mark, digest = self._loaded.get(name, (0, "", ""))
        beside = NOTHING_BESIDE
        if not digest:
            beside = self._beside.get(name, beside)
            at, place_and_mark = self._known.get(name, (0, ""))
            place, _, known_mark = place_and_mark.rpartition(" ")
            known_mark = known_mark if place else ""
        return digest if known_mark and at == id(value) and known_mark == mark(name, value, beside) else MISSING

    def digest_of(self, name: str, value: Any, mark: Mark) -> str:
        """The digest of a value, as it was saved where it has not been changed since; empty without content."""
        saved = self.as_saved(name, value, mark)
        return canonical({name: value}).get(name, "") if saved is MISSING else saved

    def note_unsaved(
        self, name: str, value: Any, beside: Mapping[str, Any], manifest_digest: str, mark: str, *, same: bool = False
    ) -> None:
        """``value`` could not be saved with that manifest, and holds what is in the variables ``beside`` it.

        ``same``: it still is what it was for other manifests, too.
        """
        there = {each: _reference(other) for each, other in {**beside, name: value}.items()}
        self._unsaved[name] = {**(self._unsaved.get(name, {}) if same else {}), manifest_digest: (there, mark)}
        if not same:
            self._touched.discard(name)

    def is_of(self, name: str, value: Any, manifest_digest: str) -> bool:
        """Whether ``value`` is the object that could not be saved with that manifest, whatever was done to it since."""
        there, _ = self._unsaved.get(name, {}).get(manifest_digest, ({}, ""))
        return name in there and there[name]() is value

    @property
    def watching(self) -> bool:
        """Whether it matters which names code reaches."""
        return bool(self._unsaved)

    def touch(self, names: Collection[str]) -> None:
        """Code that reaches these names runs: what each use changes is not what it was."""
        self._touched.update(names & self._unsaved.keys())

    def is_left(
        self, variables: Mapping[str, Any], name: str, manifest_digest: str, mark: str, *, used_up: bool
    ) -> bool:
        """Whether the object that could not be saved is there, and nothing shows that it was changed.

        Nor is one left that holds what another variable was, and that variable is another object now.
        """
        there, known_mark = self._unsaved.get(name, {}).get(manifest_digest, ({}, ""))
        same = bool(there) and all(variables.get(each, MISSING) is other() for each, other in there.items())
        return same and known_mark == mark and not (used_up and name in self._touched)

    def is_there(
        self, variables: Mapping[str, Any], manifest: Manifest, group: Group, part: Collection[str], mark: Mark
    ) -> bool:
        """Whether variables of a group are the saved objects, unchanged: a step run again in a live kernel."""
        return all(
            name in variables and self._is_same(name, variables[name], manifest.digests.get(name, ""), group, mark)
            for name in part
            if name != RESULT
        )

    def _is_same(self, name: str, value: Any, digest: str, group: Group, mark: Mark) -> bool:
        known = self._known.get(name)
        if known is None or known[0] != id(value):
            return False
        if digest:
            return known[1] == digest and self.digest_of(name, value, mark) == digest
        return (
            known[1].startswith(_place(group))
            and known[1] == f"{_place(group)} {mark(name, value, self._beside[name])}"
        )


def _place(group: Group) -> str:
    """What tells one saved group from another."""
    return group.stream or " ".join(each.digest for each in group.stream_extents)


def may_bind(
    variables: Mapping[str, Any],
    pending: Pending,
    manifest: Manifest,
    name: str,
    *,
    shares: bool,
    digest_of: Callable[[str, Any], str],
) -> bool:
    """Whether a name that the step perhaps left alone is to be bound to what was saved of it."""
    digest = manifest.digests.get(name, "")
    if (entry := pending.get(name)) is not None:
        return bool(entry.digest or entry.outline) and (entry.digest, entry.outline) == (
            digest,
            manifest.outlines.get(name, ""),
        )
    if name not in variables:
        return name in manifest.perhaps
    return shares and digest != "" and digest_of(name, variables[name]) == digest


def certain(manifest: Manifest, names: Iterable[str]) -> list[str]:
    """The names that the step surely made or changed."""
    loose: Collection[str] = {*manifest.companions, *manifest.perhaps}
    return [name for name in names if name not in loose]


def _reference(value: Any) -> Callable[[], object]:
    """An address may come again: the object itself is kept, weakly where it can be."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _nothing() -> object:
    return MISSING


def former_class(found: Any) -> Any:
    """A class that a restored one continues, else ``MISSING``."""
    return found if isinstance(found, type) else MISSING
