"""Settings and patches of the process, step by step: what a step had changed comes back, and others depend on it."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from resumable_nb import codec, randomness, registered, setups
from resumable_nb.canonical import user_module
from resumable_nb.errors import NoContent, NotSaved
from resumable_nb.fingerprint import fingerprint
from resumable_nb.journal import Journal
from resumable_nb.model import MISSING, Missing, StepKey, StepRecord
from resumable_nb.patches import Patches
from resumable_nb.preview import is_secret
from resumable_nb.seeding import Seeding
from resumable_nb.settings import COUNTED, SEEN, Changed, Changes, Settings, counted_in, seen_in
from resumable_nb.source import Body, Import, names_of
from resumable_nb.wording import few

PART: Final = "settings of "
"""What the name of a key part begins with that is no variable, but how a library is set."""
RANDOM: Final = "random state of "
"""The same for where a random generator stood that the step draws from."""
_ALIKE: Final = (types.FunctionType, type, types.ModuleType, str, bytes, int, float, type(None))
"""Whether two places have one such object, or two equal ones, makes no difference."""
_PATCHES: Final = "attributes"
"""Under which name patches stand among the changes of settings."""


class Configured:
    """The settings of this process, as the steps of one journal change and need them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._settings = Settings()
        self._patches = Patches()
        self._seeding = Seeding()
        self._modules: dict[str, frozenset[str]] = {}
        """What was loaded when a step's body began."""

    def key(self, key: StepKey, body: Body, recorded: StepRecord | Missing, variables: Mapping[str, Any]) -> StepKey:
        """``key`` with those settings, as they are now, that what the recorded step made and showed depended on.

        And with those attributes of libraries that steps have set and that the code mentions; and with where the random
        generators stand that it drew from.
        """
        self._patches.watch(body)
        self._seeding.look(variables)
        used = self._patches.used_by(body)
        key = _with(key, {anchor.replace(":", "."): {"value": value} for anchor, value in used.items()})
        key = _with(key, {f"magic {name}": {"value": thing} for name, thing in _magics(body)})
        names = (
            [] if recorded is MISSING else [name for name in (*SEEN, *COUNTED) if PART + name in recorded.key.inputs]
        )
        key = _with(key, {name: self._settings.now(name) for name in names})
        drawn = {} if recorded is MISSING else _drawn(recorded.key)
        return _with_drawn(key, {name: self._seeding.now(name, mark) for name, mark in drawn.items()})

    @staticmethod
    def with_magics(body: Body) -> Body:
        """``body``, which looks up what those of the user's magics look up that it calls."""
        called = [thing for _, thing in _magics(body)]
        if not called:
            return body
        own = [each for each in called if each.__module__ == "__main__"]
        names = frozenset(name for each in own for name in names_of(each.__code__).globals)
        others = frozenset(
            Import(each.__module__, (each.__qualname__.partition(".")[0],)) for each in called if each not in own
        )
        return dataclasses.replace(
            body, reads=body.reads | names, bare=body.bare | names, imports=body.imports | others
        )

    def key_at_start(
        self,
        key: StepKey,
        record: StepRecord,
        outputs: Collection[Mapping[str, Any]],
        body: Body,
        variables: Mapping[str, Any],
    ) -> StepKey:
        """``key`` with the settings that values and ``outputs`` depended on, as they were when the body began."""
        inputs = record.previews.values()
        names = [*seen_in(outputs, inputs), *counted_in([*inputs, *(each.module for each in body.imports)])]
        key = _with(key, {name: self._settings.at_start(record.id, name) for name in names})
        drawn = self._seeding.end(record.id, body, lambda: self._journal.blob(record.random), variables)
        return _with_drawn(key, drawn)

    def random(self, step: str, earlier: StepRecord | Missing) -> tuple[str, dict[str, bytes], bool]:
        """The random state that a body begins with, as a blob: that of the time before, where it goes on.

        Also whether a generator stands elsewhere than it did then.
        """
        if earlier is MISSING or not earlier.random:
            return *self._journal.blob_row(randomness.random_state()), False
        state = self._journal.blob(earlier.random)
        back = self._seeding.back(step, state)
        randomness.set_random_state(back)
        if back == state:
            return earlier.random, {}, False
        return *self._journal.blob_row(randomness.random_state()), True

    def begin(self, step: str, body: Body, variables: Mapping[str, Any]) -> None:
        """A body starts."""
        self._modules[step] = frozenset(sys.modules)
        self._seeding.begin(step, body)
        self._settings.begin(step)
        self._patches.begin(step, variables)

    def commit(
        self, step: str, earlier: str, body: Body, variables: Mapping[str, Any]
    ) -> tuple[str, str, dict[str, bytes]]:
        """A body has ended: the blob with what it changed, why some of that is not in there, and its row.

        ``earlier`` is the blob of the version before.
        """
        old = self._decode(earlier)
        patched = old.pop(_PATCHES, Changed({}))
        changes = self._settings.end(step, old)
        values = self._patches.end(step, body, variables, {*patched.put, *patched.gone})
        why = setups.why_replayed(body, variables) or _without_secrets(changes) or _without_shared(values, variables)
        if values:
            put = {anchor: value for anchor, value in values.items() if value is not MISSING}
            changes[_PATCHES] = Changed(put, tuple(sorted(values.keys() - put.keys())))
        loaded = sys.modules.keys() - self._modules.pop(step, frozenset(sys.modules))
        _without_the_imported(changes, loaded, body, variables)
        why = _without_the_unsaveable(changes) or why
        if not changes:
            return "", why, {}
        blob, rows = self._journal.blob_row(codec.dumps_value(changes))
        return blob, why, rows

    def restore(self, record: StepRecord) -> None:
        """A step is skipped: what it had changed is set again, now or before the next body runs.

        ``patch`` has to follow, once there is what ``code`` may use.
        """
        changes = self._decode(record.settings)
        patched = changes.pop(_PATCHES, Changed({}))
        self._settings.restore(changes)
        self._patches.restore(patched.put | dict.fromkeys(patched.gone, MISSING))

    def code(self) -> Body:
        """What libraries and the shell may call of the notebook's."""
        code = self._patches.code()
        called = registered.functions(registered.read() | self._settings.due("the shell"))
        names = {name for each in called for name in (each.__name__, *names_of(each.__code__).globals)}
        return dataclasses.replace(code, reads=code.reads | names)

    def patch(self) -> None:
        """Set again what a skipped step had set in libraries that are loaded."""
        self._settings.arrived()
        self._patches.patch()

    def skipped(self, record: StepRecord, variables: Mapping[str, Any]) -> None:
        """What a skipped step had left is there, the random state included."""
        self._seeding.skipped(_drawn(record.key), variables)

    def run(self, body: Body, variables: Mapping[str, Any]) -> None:
        """Code outside any step is about to run."""
        self._seeding.run(body, variables)
        self.settle()

    def settle(self) -> None:
        """Code is about to run."""
        self._settings.settle()
        self._patches.settle()

    def _decode(self, blob: str) -> Changes:
        return codec.loads_value(self._journal.blob(blob)) if blob else {}


def _magics(body: Body) -> list[tuple[str, types.FunctionType]]:
    """The magics that the code calls and the user has written, here or in a module."""
    found = [(name, getattr(thing, "__func__", thing)) for name, thing in registered.magics(body.magics)]
    return [
        (name, thing)
        for name, thing in found
        if isinstance(thing, types.FunctionType) and user_module(thing.__module__)
    ]


def _with(key: StepKey, values: dict[str, dict[str, Any]]) -> StepKey:
    parts = {PART + name: _digest(each) for name, each in values.items()}
    return msgspec.structs.replace(key, inputs=key.inputs | parts) if parts else key


def _with_drawn(key: StepKey, marks: dict[str, str]) -> StepKey:
    parts = {RANDOM + name: mark for name, mark in marks.items()}
    return msgspec.structs.replace(key, inputs=key.inputs | parts) if parts else key


def _drawn(key: StepKey) -> dict[str, str]:
    return {name.removeprefix(RANDOM): mark for name, mark in key.inputs.items() if name.startswith(RANDOM)}


def _digest(values: dict[str, Any]) -> str:
    try:
        return fingerprint(values)
    except NoContent as error:
        return f"no content: {error}"


def _without_secrets(changes: Changes) -> str:
    """Take secrets out of the environment's changes. Returns why that matters."""
    environment = changes.get("environment")
    secrets = sorted(name for name in environment.put if is_secret(name)) if environment is not None else []
    for name in secrets:
        del changes["environment"].put[name]
    return f"it sets {', '.join(secrets)} in the environment, and secrets are not stored" if secrets else ""


def _without_shared(values: dict[str, Any], variables: Mapping[str, Any]) -> str:
    """Take out what a variable is, too, and secrets. Returns why that matters."""
    things = {id(value): name for name, value in variables.items() if not isinstance(value, _ALIKE)}
    why = ""
    for anchor, value in [*values.items()]:
        name = things.get(id(value), "")
        if name or is_secret(anchor.rpartition(".")[2].rpartition(":")[2]):
            del values[anchor]
            what = f"the object that {name} is" if name else "a secret, and secrets are not stored"
            why = f"it sets {anchor.replace(':', '.')} to {what}"
    return why


def _without_the_imported(changes: Changes, loaded: Collection[str], body: Body, variables: Mapping[str, Any]) -> None:
    """Take out what packages have registered with the shell when the body imported them: a skip imports them again."""
    if body.dynamic or any(name in variables for name, _ in body.touched.calls):
        return  # what it called may have registered them
    change = changes.get("the shell", Changed({}))
    packages = {each.partition(".")[0] for each in loaded}
    for key, value in [*change.put.items()]:
        if isinstance(value, registered.Foreign) and registered.package(value.thing) in packages:
            del change.put[key]
    if not change.put and not change.gone:
        changes.pop("the shell", None)


def _without_the_unsaveable(changes: Changes) -> str:
    why = ""
    for name, change in [*changes.items()]:
        if foreign := sorted(key for key, value in change.put.items() if isinstance(value, registered.Foreign)):
            del changes[name]
            why = f"it registers {few(foreign)} with the shell"
            continue
        try:
            codec.dumps_value(change)
        except NotSaved as error:
            del changes[name]
            why = f"it changes a setting of {name} that cannot be saved: {error}"
    return why
