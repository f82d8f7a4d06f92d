"""What did a step's body do to the variables? Nothing that it did may be missed; a false alarm only costs a write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from resumable_nb.codec import Codec, changing, parts_of
from resumable_nb.groups import Survey
from resumable_nb.model import RESULT
from resumable_nb.snapshot.clusters import clusters
from resumable_nb.snapshot.space import Before


class Digest(Protocol):
    """``untouched``: the code cannot have used a generator or the like among the values."""

    def __call__(self, survey: Survey, values: Mapping[str, Any], *, untouched: bool = False) -> str: ...


Reference = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class Difference:
    """``changed`` and ``deleted`` are certain. ``perhaps`` may have been assigned to, and still are the object they
    were; ``rebound`` surely were, and still are."""

    changed: frozenset[str]
    deleted: frozenset[str]
    perhaps: frozenset[str]
    rebound: frozenset[str]


def watch(before: Before, survey: Survey, digest: Digest) -> set[frozenset[str]]:
    """Take the digests of all that the body can reach, with all that shares with it. Returns the sharing groups."""
    watched = survey.groups_of(survey.extended(before.reached & before.references.keys()))
    for group in watched:
        watch_group(before, survey, group, digest)
    return watched


def watch_group(before: Before, survey: Survey, group: frozenset[str], digest: Digest) -> None:
    values = {name: before.references[name] for name in group}
    mark = digest(survey, values)
    before.groups |= dict.fromkeys(group, (group, mark))
    if len(group) > 1 and any(changing(survey.holdings[name].nodes.values()) for name in group):
        before.untouched[group] = digest(survey, values, untouched=True)
    if len(group) > 1:
        bound = before.body.writes | before.body.deletes  # and perhaps let go with that: they count apart
        for cluster in clusters(survey, values, lambda name: name in bound):
            untouched = len(cluster) == 1 and all(_untouched(before, survey, name) for name in cluster)
            mark = digest(survey, {name: values[name] for name in cluster}, untouched=untouched)
            before.alone |= dict.fromkeys(cluster, (cluster, mark))


def _untouched(before: Before, survey: Survey, name: str) -> bool:
    """Whether the body cannot get at what is used up in a variable: not by its name, and not through another one."""
    if name in before.reached:
        return False
    own = set(map(id, changing(survey.holdings[name].nodes.values())))
    if not own:
        return True
    reached = (survey.holdings[each] for each in before.reached if each in survey.holdings)
    return all(own.isdisjoint(holding.nodes) for holding in reached)


def references(survey: Survey, names: Iterable[str], reference: Reference) -> dict[int, tuple[Any, Any]]:
    """The functions and classes that variables hold, by ``id()``, each with how streams name it."""
    found = {key: each for name in names for key, each in _definitions(survey, name)}
    return {key: (each, reference(each)) for key, each in found.items()}


def parted(
    before: Before, variables: Mapping[str, Any], changed: frozenset[str], survey: Survey, codec: Codec
) -> tuple[frozenset[str], set[str]]:
    """``changed`` with the other variables that hold a function or class which streams name otherwise now, for what was
    saved of them leads to it as it was; and those of them that are left as they were.

    What was patched is another thing, and so is what holds it. Where its name was taken, those that hold it are what
    they were, and depend on what made them.
    """
    definitions = codec.definitions
    altered = [each for each in before.definitions.values() if definitions.reference(each[0]) != each[1]]
    patched = _built_on(survey, [each for each, earlier in altered if not definitions.lost_name(each, earlier)])
    held = _built_on(survey, [each for each, _ in altered]) - changed - patched
    kept = before.unmoved({name: variables[name] for name in held})
    return changed | patched | (held - kept), kept


def _built_on(survey: Survey, altered: list[Any]) -> frozenset[str]:
    if not altered:
        return frozenset()
    return frozenset(
        name
        for name in survey.holdings
        if name != RESULT and any(_builds_on(each, altered) for _, each in _definitions(survey, name))
    )


def made(before: Before, variables: Mapping[str, Any], changed: Iterable[str]) -> frozenset[str]:
    """Classes that the body defined."""
    return frozenset(
        name
        for name in changed
        if isinstance(kind := variables.get(name), type) and before.references.get(name) is not kind
        if (kind.__module__, kind.__qualname__) == ("__main__", name)
    )


def _definitions(survey: Survey, name: str) -> Iterable[tuple[int, Any]]:
    holding = survey.holding(name)
    return () if holding is None else holding.definitions.items()


def _builds_on(thing: Any, altered: list[Any]) -> bool:
    if isinstance(thing, type):
        family = (*thing.__mro__, type(thing))
        return any(each is kind for each in altered for kind in family)
    todo, seen = [thing], {id(thing)}
    while todo:  # what else a function says of others is in its closure, its defaults, attributes, or under its cache
        here = todo.pop()
        if any(each is here for each in altered):
            return True
        inner = [each for each in parts_of(here) if id(each) not in seen]
        seen.update(map(id, inner))
        todo += inner
    return False


def difference(
    before: Before, variables: Mapping[str, Any], survey: Survey, digest: Digest, pending: Collection[str]
) -> Difference:
    old = before.references
    bound = {name for name, value in variables.items() if name not in old or old[name] is not value}
    deleted = old.keys() - variables.keys() - set(pending)
    changed = bound | _mutated(before, variables, survey, digest, bound)
    perhaps = (before.body.writes & variables.keys()) - changed
    rebound = perhaps & before.body.bound
    return Difference(frozenset(changed), frozenset(deleted), frozenset(perhaps - rebound), frozenset(rebound))


def _mutated(
    before: Before, variables: Mapping[str, Any], survey: Survey, digest: Digest, bound: Collection[str]
) -> set[str]:
    found: set[str] = set()
    known = {name for name in before.groups if name in variables and name not in bound}
    watched = {name for name in known if survey.holding(name) is not None}
    for group in {each - {RESULT} for each in survey.groups_of(watched)}:
        values = {name: variables[name] for name in group}
        members = sorted(group & watched)
        if all(name in watched and before.groups[name][0] == group for name in group):
            if before.groups[members[0]][1] == digest(survey, values):
                continue
            if len(group) == 1:
                found.add(members[0])
                continue
        if len(group) == 1 and before.groups[members[0]][0] & known == group:
            # Those that it shared with are bound to something else: for what it is itself that is no change.
            found |= {name for name in members if not _is_alone_as_it_was(before, name, values, survey, digest)}
            continue
        found |= _members(before, members, values, survey, digest, bound)
    return found


def _is_alone_as_it_was(before: Before, name: str, values: Mapping[str, Any], survey: Survey, digest: Digest) -> bool:
    cluster, mark = before.alone.get(name) or (frozenset((name,)), before.groups[name][1])
    if any(each not in values or values[each] is not before.references[each] for each in cluster - {name}):
        return False
    untouched = len(cluster) == 1 and _untouched(before, survey, name)
    return mark == digest(survey, {each: values[each] for each in cluster}, untouched=untouched)


def _members(
    before: Before,
    watched: list[str],
    values: Mapping[str, Any],
    survey: Survey,
    digest: Digest,
    bound: Collection[str],
) -> set[str]:
    """Which members of a group that is not as it was have changed themselves?"""
    found = {name for name in watched if not _is_alone_as_it_was(before, name, values, survey, digest)}
    if found or any(name in bound for name in values):
        return found
    if any(changing(survey.holdings[name].nodes.values()) for name in values):
        together = before.untouched.get(frozenset(values))
        if together is not None and together == digest(survey, values, untouched=True):
            return found
    # Each is what it was, and together they are not: they share otherwise than before.
    return {name for name in watched if name in before.reached} or set(watched)
