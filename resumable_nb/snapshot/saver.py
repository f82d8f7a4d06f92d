"""``Saver``: variables and what they share go into rows and packs, with a manifest that says what is where."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from resumable_nb.canonical import is_enrolled
from resumable_nb.codec import may_come_back_otherwise
from resumable_nb.events import Bus
from resumable_nb.groups import Joints, Survey
from resumable_nb.model import RESULT, Group, Manifest
from resumable_nb.pack import PackBuilder
from resumable_nb.snapshot import compare, imports, writer
from resumable_nb.snapshot.clusters import clusters
from resumable_nb.snapshot.owing import Owing, sharing
from resumable_nb.snapshot.presence import Presence, canonical, outlines
from resumable_nb.snapshot.space import Capture, Namespace
from resumable_nb.snapshot.surveyor import Surveyor
from resumable_nb.source import Body
from resumable_nb.store.base import Store


class Saver:
    """Of one task. ``definitions`` is told where the definitions are that the manifests name: key to blob."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        surveyor: Surveyor,
        owing: Owing,
        presence: Presence,
        definitions: dict[str, str],
    ) -> None:
        self._store = store
        self._bus = bus
        self._surveyor = surveyor
        self._owing = owing
        self._presence = presence
        self._definitions = definitions

    def save(
        self,
        space: Namespace,
        values: Mapping[str, Any],
        survey: Survey,
        seeds: Collection[str],
        *,
        changed: frozenset[str],
        mutated: Collection[str] = (),
        made: frozenset[str] = frozenset(),
        perhaps: frozenset[str] = frozenset(),
        deleted: frozenset[str] = frozenset(),
        random: bytes = b"",
        body: Body | None = None,
        modules: Mapping[str, str] | None = None,
        allowed: Collection[str] | None = None,
        drop: Collection[str] = (),
        look: compare.Digest | None = None,
    ) -> Capture:
        """``look``: what the variables were looked at with a moment ago."""
        origins = {name: where for name in seeds if (where := imports.origin(name, values[name], body))}
        groups = [
            {name: values[name] for name in each if name not in drop and (allowed is None or name in allowed)}
            for each in {survey.group_of(name) for name in seeds if name not in origins}
        ]
        work, builder = self._write(space, values, survey, sorted(groups, key=sorted))
        mark = functools.partial(look or self._surveyor.digest(space), survey, untouched=True)
        names = frozenset(name for group in work.groups for name in group.names)
        # What cannot be saved, and holds what was changed in place, was changed too. What shares with what the step has
        # made, and cannot be saved either, is made again with it: else it would be two objects.
        own = (changed | perhaps) & work.failed.keys()
        unsaved = {
            name: why
            for name, why in work.failed.items()
            if name != RESULT and (name in own or _holds(survey, name, values[name], {*own, *mutated}))
        }
        alike = {
            name: found for name in {*names, *unsaved} - {RESULT} if (found := imports.alike(name, values[name], body))
        }
        origins |= {name: alike.pop(name)[0] for name in unsaved.keys() & alike.keys()}
        unsaved = {name: why for name, why in unsaved.items() if name not in origins}
        digests = canonical({name: values[name] for name in {*names, *unsaved}})
        for group in work.groups:
            self._owing.keep_place(group, digests)
            for cluster in clusters(survey, {name: values[name] for name in group.names}):
                together = functools.partial(mark, {name: values[name] for name in cluster})
                for name in cluster:
                    beside = {each: id(values[each]) for each in cluster - {name}}
                    self._presence.note(name, values[name], digests.get(name, ""), group, together, beside)
        manifest = Manifest(
            groups=tuple(work.groups),
            deleted=tuple(sorted(deleted)),
            imports=origins | dict(modules or {}),
            alike=alike,
            unsaved=unsaved,
            mark=uuid.uuid4().hex if unsaved else "",
            digests=digests,
            outlines=outlines({name: values[name] for name in {*names, *unsaved} - digests.keys() - {RESULT}}),
            along=sharing(set(survey.groups.values()), unsaved, names - {RESULT}) if unsaved else {},
            companions=tuple(sorted(names - changed - perhaps - {RESULT})),
            perhaps=tuple(sorted(names & perhaps)),
            made=tuple(sorted(names & made)),
            random=work.row(random) if random else "",
            result=RESULT in names,
        )
        manifest_digest = work.row(msgspec.json.encode(manifest))
        same = {name for name in unsaved.keys() - own if survey.group_of(name).isdisjoint(mutated)}
        reads = body.reads if body is not None else frozenset()
        self._owing.note(space, list(unsaved), manifest_digest, survey, reads, same)
        for group in work.groups:
            self._definitions.update(group.refs)
        return Capture(
            manifest_digest,
            work.rows | builder.rows,
            work.size_bytes + builder.size_bytes,
            tuple(sorted((names | origins.keys()) - {RESULT})),
            manifest.unsaved,
            changed | deleted,
            digests,
        )

    def _write(
        self, space: Namespace, values: Mapping[str, Any], survey: Survey, groups: list[dict[str, Any]]
    ) -> tuple[writer.Writer, PackBuilder]:
        """Write these sharing groups; what is large goes into a pack, which is durable then."""
        builder = PackBuilder(self._store, lambda kind: self._bus.emit(kind))
        try:
            shared: dict[str, Joints] = {}
            for each in groups:
                shared |= self._surveyor.joined(space, survey, frozenset(each), values)
            work = writer.Writer(self._surveyor.codec(space), survey, builder, shared)
            work.write(groups)
            builder.seal()
        except BaseException:
            builder.abort()
            raise
        return work, builder

    def note(self, space: Namespace, name: str, value: Any, digest: str, group: Group, met: Collection[Any]) -> None:
        """A variable was loaded; ``met`` are the classes and functions that made it."""
        mark = functools.partial(self._surveyor.mark, space, name, value)
        self._presence.note(name, value, digest, group, mark)
        if digest and may_come_back_otherwise(met):
            self._presence.note_loaded(name, value, digest, mark())


def _holds(survey: Survey, name: str, value: Any, mutated: Collection[str]) -> bool:
    """A class that a library knows leads to all that it knows, and is what it was all the same."""
    enrolled = isinstance(value, type) and is_enrolled(value)
    return not enrolled and not survey.group_of(name).isdisjoint(mutated)
