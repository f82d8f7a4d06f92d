"""``Keys``: what the steps of one session depend on, before and after their bodies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from resumable_nb import assigned, plan, sharing
from resumable_nb.change import ASSIGNED, SHARING
from resumable_nb.configured import PART, RANDOM, Configured
from resumable_nb.execution import Execution, StepSpec
from resumable_nb.fingerprint import Known, Lookup, describe, step_key
from resumable_nb.groups import partners
from resumable_nb.model import MISSING, Missing, StepKey, StepRecord
from resumable_nb.passes import Passes
from resumable_nb.scripts import Scripts, unchanged
from resumable_nb.snapshot import Before, Capture, Namespace, Snapshots


class Keys:
    """``lookup`` gives the variables of a namespace to ``step_key``."""

    def __init__(
        self,
        configured: Configured,
        snapshots: Snapshots,
        lookup: Callable[[Namespace], Lookup],
        scripts: Scripts,
        passes: Passes,
    ) -> None:
        self._configured = configured
        self._snapshots = snapshots
        self._lookup = lookup
        self._scripts = scripts
        self._passes = passes

    def now(self, spec: StepSpec, space: Namespace, recorded: StepRecord | Missing = MISSING) -> StepKey:
        """What the step's result depends on, now; with what else the recorded one turned out to depend on."""
        key = self._all(spec, space, recorded, {})
        return key if recorded is MISSING else self._scripts.now(key, recorded)

    def _all(
        self, spec: StepSpec, space: Namespace, recorded: StepRecord | Missing, known: Mapping[str, str]
    ) -> StepKey:
        names = space.visible().keys() | (self._snapshots.pending() if space.lazy else frozenset())
        body = self._configured.with_magics(spec.body)
        key = step_key(body, Known(self._lookup(space), known), spec.options, spec.base, names=names)
        key = assigned.now(
            self._configured.key(key, spec.body, recorded, space.variables), recorded, self._lookup(space)
        )
        return sharing.now(key, recorded, space, self._snapshots, self._passes.above(spec.id))

    def foreign(self, record: StepRecord, space: Namespace) -> frozenset[str]:
        """Parts of the key that the step had changed itself, and that somebody else has set since."""
        found = set()
        for part in record.after:
            kind, _, name = part.partition(" ")
            name = name.removeprefix(ASSIGNED)
            # What is no variable of the notebook (a file, a setting, a module's function) says not who set it.
            variable = kind in ("input", "function") and name.isidentifier() and not space.hidden(name)
            if variable and not self._snapshots.left.is_left(space, name, record.id):
                found.add(part)
        return frozenset(found)

    def previews(self, key: StepKey, space: Namespace) -> dict[str, str]:
        """The step's inputs in a few words each, for people."""
        lookup = self._lookup(space)
        return {
            name: describe(name, lookup)
            for name in key.inputs
            if not name.startswith((PART, RANDOM, ASSIGNED, SHARING))
        }

    def at_begin(self, key: StepKey, space: Namespace, before: Before) -> StepKey:
        """``key`` with what the body can change without a mention, and with who shares what."""
        sharing_ = {name for name, shared in before.joints.items() if partners(shared)}
        return sharing.found(
            assigned.found_in(key, sharing_, self._lookup(space), earlier=before.references), before.joints
        )

    def at_end(
        self, execution: Execution, space: Namespace, capture: Capture, outputs: Collection[Mapping[str, Any]]
    ) -> StepKey:
        """What the step has turned out to depend on, as that was when its body began."""
        key = unchanged(execution.scope.key, execution.spec.base)
        key = self._configured.key_at_start(key, execution.record, outputs, execution.spec.body, space.variables)
        through = capture.joints.keys() & capture.changed
        key = assigned.found_in(key, capture.perhaps, self._lookup(space), earlier=through)
        return sharing.found(key, capture.joints)

    def own_changes(
        self, execution: Execution, space: Namespace, key: StepKey, unchanged: Collection[str]
    ) -> dict[str, str]:
        """The parts of the key that the body itself changed: after it, they are no reason to run again."""
        # What the capture has just found unchanged may be large, and need not be read once more.
        key = sharing.left_out(key)
        known = {name: mark for name, mark in execution.key.inputs.items() if name in unchanged}
        now = self._all(execution.spec, space, msgspec.structs.replace(execution.record, key=key), known)
        return plan.own_changes(key, now)
