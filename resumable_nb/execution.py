"""A step as it was written, and one execution of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resumable_nb import plan
from resumable_nb.memory import Mark
from resumable_nb.model import StepKey, StepKind, StepOptions, StepRecord
from resumable_nb.scope import Entry, StepScope
from resumable_nb.snapshot import Before, Restored
from resumable_nb.source import Body


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A step as the user wrote it, before anything is decided."""

    id: str
    name: str
    kind: StepKind
    body: Body
    text: str
    options: StepOptions
    base: Path
    """Folder that ``--files`` and ``--makes`` are relative to."""


@dataclass(slots=True, eq=False)
class Execution:
    """One execution of a step, from ``Runner.enter`` to ``Runner.leave``."""

    spec: StepSpec
    decision: plan.StepDecision
    record: StepRecord
    key: StepKey
    scope: StepScope
    restored: Restored | None = None
    result: Any = None
    """What the skipped body of a block had returned."""
    outputs: list[dict[str, Any]] = field(default_factory=list)
    """What a skipped step had shown."""
    before: Before | None = None
    entry: Entry | None = None
    mark: Mark | None = None
    """The task's memory when it began."""
    stops: int = 0
    """How often anything had been stopped when it began."""

    @property
    def pending(self) -> bool:
        """Whether the body has to run."""
        return not isinstance(self.decision, plan.Skip)


def missing_files(spec: StepSpec) -> list[str]:
    """Artefacts of ``--makes`` that are not there."""
    return [path for path in spec.options.makes if not (spec.base / path).exists()]
