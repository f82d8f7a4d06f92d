"""Settings of the process, step by step: what a step had changed comes back, and what it showed depends on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from resumable_nb import codec
from resumable_nb.errors import NoContent, NotSaved
from resumable_nb.fingerprint import fingerprint
from resumable_nb.journal import Journal
from resumable_nb.model import StepKey, StepRecord
from resumable_nb.preview import is_secret
from resumable_nb.settings import SEEN, Changes, Settings, seen_in

PART: Final = "settings of "
"""What the name of a key part begins with that is no variable, but how a library is set."""


class Configured:
    """The settings of this process, as the steps of one journal change and need them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._settings = Settings()

    def key(self, key: StepKey, recorded: StepRecord) -> StepKey:
        """``key`` with those settings, as they are now, that what the recorded step showed depended on."""
        names = [name for name in SEEN if PART + name in recorded.key.inputs]
        return _with(key, {name: self._settings.now(name) for name in names})

    def key_at_start(
        self, key: StepKey, step: str, outputs: Collection[Mapping[str, Any]], inputs: Mapping[str, str]
    ) -> StepKey:
        """``key`` with the settings that ``outputs`` depended on, as they were when the body began."""
        names = seen_in(outputs, inputs.values())
        return _with(key, {name: self._settings.at_start(step, name) for name in names})

    def begin(self, step: str) -> None:
        """A body starts."""
        self._settings.begin(step)

    def commit(self, step: str, earlier: str) -> tuple[str, str, dict[str, bytes]]:
        """A body has ended: the blob with what it changed, why some of that is not in there, and its row.

        ``earlier`` is the blob of the version before.
        """
        changes = self._settings.end(step, self._decode(earlier))
        why = _without_secrets(changes) or _without_the_unsaveable(changes)
        if not changes:
            return "", why, {}
        blob, rows = self._journal.blob_row(codec.dumps_value(changes))
        return blob, why, rows

    def restore(self, record: StepRecord) -> None:
        """A step is skipped: what it had changed is set again, now or before the next body runs."""
        self._settings.restore(self._decode(record.settings))

    def settle(self) -> None:
        """Code is about to run."""
        self._settings.settle()

    def _decode(self, blob: str) -> Changes:
        return codec.loads_value(self._journal.blob(blob)) if blob else {}


def _with(key: StepKey, values: dict[str, dict[str, Any]]) -> StepKey:
    parts = {PART + name: _digest(each) for name, each in values.items()}
    return msgspec.structs.replace(key, inputs=key.inputs | parts) if parts else key


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


def _without_the_unsaveable(changes: Changes) -> str:
    why = ""
    for name, change in [*changes.items()]:
        try:
            codec.dumps_value(change)
        except NotSaved as error:
            del changes[name]
            why = f"it changes a setting of {name} that cannot be saved: {error}"
    return why
