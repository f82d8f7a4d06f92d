"""The judgement of a demonstration: the shop's ledger against what was to happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from resumable_nb.cli import tables
from resumable_nb.model import CallRecord, StepRecord

Expected = dict[str, list[str]]
"""Kind of effect to the keys that have to be in the ledger."""
Ledger = list[dict[str, Any]]

KINDS: Final = {"page": "pages read", "charge": "charges", "parcel": "parcels", "confirmation": "letters"}
RESTORED: Final = "✓"
CONTINUED: Final = "↻"
MAY_REPEAT: Final = frozenset({"page"})
"""Reading a page again changes nothing: such a call is simply made again when it was cut off."""


def differences(expected: Expected, ledger: Ledger) -> list[str]:
    """Where the ledger differs from what has to be in it."""
    wrong = []
    for kind, keys in expected.items():
        counts = _counts(ledger, kind)
        missing = [key for key in keys if key not in counts]
        repeated = [key for key, count in counts.items() if count > 1 and kind not in MAY_REPEAT]
        strange = [key for key in counts if key not in keys]
        for keys_of, what in ((missing, "missing"), (repeated, "more than once"), (strange, "not asked for")):
            if keys_of:
                wrong.append(f"{KINDS[kind]} {what}: {', '.join(keys_of[:5])}")
    return wrong


def show_ledger(expected: Expected, ledger: Ledger) -> None:
    """The table of effects."""
    effects = tables.table("What the shop's ledger says")
    for name in ("effect", "asked for", "made", "exactly once", "repeated", "missing"):
        effects.add_column(name, justify="left" if name == "effect" else "right")
    for kind, keys in expected.items():
        counts = _counts(ledger, kind)
        repeated = sum(count > 1 for count in counts.values())
        cells = (
            len(keys),
            counts.total(),
            sum(counts[key] == 1 for key in keys),
            f"{repeated} (harmless)" if repeated and kind in MAY_REPEAT else repeated,
            sum(key not in counts for key in keys),
        )
        effects.add_row(KINDS[kind], *map(str, cells))
    tables.show(effects)


def show_steps(steps: Iterable[StepRecord], calls: list[CallRecord]) -> None:
    """The table of steps."""
    records = sorted(steps, key=lambda step: step.started_at)
    tables.show(tables.steps(records, calls, title="What the notebook's journal says"))


def balance(steps: Iterable[StepRecord], calls: Iterable[CallRecord], notebooks: Iterable[Any], *, settled: int) -> str:
    """What was saved, and how doubtful calls were settled. ``settled``: by a person, whom the demonstration plays."""
    messages = [message for notebook in notebooks for message in _messages(notebook)]
    duration_s = {step.id: step.duration_s for step in steps}
    restored = [message.split(":")[0][1:].strip() for message in messages if message[0] == RESTORED]
    continued = sum(message[0] == CONTINUED for message in messages)
    saved_s = sum(duration_s.get(name, 0.0) for name in restored)
    asked = sum(call.resolved == "reconcile" for call in calls)
    return (
        f"Steps restored instead of run: {len(restored)}, which saved {tables.seconds(saved_s)}. "
        f"Steps continued: {continued}.\n"
        f"Calls in doubt: {asked} settled by asking the shop, {settled} by a look into its books."
    )


def _messages(notebook: Any) -> list[str]:
    """The lines that steps showed about themselves."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [each.data["text/plain"] for each in outputs if each.get("metadata", {}).get("resumable_nb") == "message"]


def _counts(ledger: Ledger, kind: str) -> Counter[str]:
    return Counter(record["key"] for record in ledger if record["kind"] == kind)
