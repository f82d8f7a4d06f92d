"""What to do with a step or a call, decided from records alone."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from resumable_nb.change import Change
from resumable_nb.errors import InDoubt
from resumable_nb.model import MISSING, CallRecord, Missing, StepKey, StepOptions, StepRecord

ERROR_CHARS: Final = 100
ASKED: Final = "asked to run again"
"""How much of an error a reason tells: what to do about it has been done when the step goes on."""


@dataclass(frozen=True, slots=True)
class Skip:
    """The step is done and nothing that it depends on has changed."""

    record: StepRecord


@dataclass(frozen=True, slots=True)
class Run:
    """The body has to run, as a new version."""

    version: int
    why: str
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Continue:
    """The body has to run to go on with what a crash, a stop or an error left. ``same_key``: from the same state."""

    record: StepRecord
    same_key: bool
    why: str
    changes: tuple[Change, ...] = ()


StepDecision = Skip | Run | Continue


@dataclass(frozen=True, slots=True)
class Replay:
    """The call is done: answer from the record."""

    record: CallRecord


@dataclass(frozen=True, slots=True)
class ReplayError:
    """The call failed, and the step handled that: raise the recorded error again."""

    record: CallRecord


@dataclass(frozen=True, slots=True)
class Call:
    """Make the call; ``record`` is what an earlier try left, for its idempotency key and attempts."""

    record: CallRecord | Missing = MISSING


@dataclass(frozen=True, slots=True)
class Reconcile:
    """In doubt: ask the receiver."""

    record: CallRecord


@dataclass(frozen=True, slots=True)
class Ask:
    """In doubt, and nobody to ask but the user."""

    record: CallRecord


CallDecision = Replay | ReplayError | Call | Reconcile | Ask


def differences(old: StepKey, new: StepKey) -> tuple[Change, ...]:
    """The parts of two keys that differ."""
    changes: list[Change] = []
    if old.source != new.source:
        changes.append(Change("source", "", old.source, new.source))
    parts: tuple[tuple[Literal["function", "input", "file"], Mapping[str, str], Mapping[str, str]], ...] = (
        ("function", old.functions, new.functions),
        ("input", old.inputs, new.inputs),
        ("file", old.files, new.files),
    )
    for part, before, now in parts:
        changes.extend(
            Change(part, name, before.get(name, ""), now.get(name, ""))
            for name in sorted(before.keys() | now.keys())
            if before.get(name, "") != now.get(name, "")
        )
    if old.options != new.options:
        changes.append(Change("options", "", old.options, new.options))
    return tuple(changes)


def up_to(target: StepRecord, versions: Collection[StepRecord]) -> list[StepRecord]:
    """What made the variables what they were after ``target``: the cells that first ran before it, as they were then.

    In the order in which they first ran, which is the notebook's; the target comes last.
    """
    began: dict[str, float] = {}
    newest = {target.id: target}
    for each in sorted(versions, key=lambda record: record.version):
        began.setdefault(each.id, each.started_at)
        if each.kind == "cell" and each.id != target.id and _ended(each) <= _ended(target):
            newest[each.id] = each
    first = began.get(target.id, target.started_at)
    above = [each for each in newest.values() if each.id != target.id and began[each.id] <= first]
    return [*sorted(above, key=lambda record: began[record.id]), target]


def _ended(record: StepRecord) -> float:
    return record.started_at if record.ended_at is None else record.ended_at


def stale(record: StepRecord, key: StepKey, foreign: Collection[str] = frozenset()) -> tuple[Change, ...]:
    """What has changed since ``record``. A part that the step itself changed may be as before, or as the step left it.

    ``foreign``: parts that are not what the step left, whatever they are equal to.
    """
    return tuple(
        change
        for change in differences(record.key, key)
        if (part := f"{change.part} {change.name}") in foreign or record.after.get(part) != change.new
    )


def own_changes(key: StepKey, after: StepKey) -> dict[str, str]:
    """The parts of a key that the step changed itself, with their digests after it."""
    parts = ("input", "function", "file")
    return {f"{each.part} {each.name}": each.new for each in differences(key, after) if each.part in parts}


def decide_step(
    record: StepRecord | Missing,
    key: StepKey,
    options: StepOptions,
    missing_files: Collection[str] = (),
    *,
    foreign: Collection[str] = frozenset(),
    may_wait: bool = False,
    is_set_up: bool = False,
) -> StepDecision:
    """``missing_files``: artefacts of ``--makes`` that are not there any more.

    ``foreign``: key parts that somebody has set since the step did; see ``stale``.

    ``may_wait``: what could not be saved is there still, or can be brought back when it is used. ``is_set_up``: this
    process has run it, and has what only a replay could bring.
    """
    if record is MISSING:
        return Run(1, "first run")
    changes = stale(record, key, foreign)
    match record.status:
        case "running":
            return Continue(record, not changes, "continued after a crash", changes)
        case "stopped":
            return Continue(record, not changes, "continued after it was stopped", changes)
        case "compensated":
            return Run(record.version + 1, "its calls were undone")
        case "failed":
            error = textwrap.shorten(record.error, ERROR_CHARS, placeholder=" …") or "an error"
            if error.startswith(f"{InDoubt.__name__}: "):  # long, and not so any more when the step goes on
                error = "a tool call in doubt"
            return Continue(record, not changes, f"continued after {error}", changes)
        case "done":
            if (why := _why_again(options, changes, missing_files)) is not None:
                return Run(record.version + 1, why, changes if not (options.rerun or options.always) else ())
            if record.replay and not is_set_up:
                return Continue(record, True, f"replayed: {record.replay}")
            if record.unsaved and not may_wait:
                names = ", ".join(sorted(record.unsaved))
                return Continue(record, True, f"replayed: {names} could not be saved")
            return Skip(record)


def _why_again(options: StepOptions, changes: Collection[Change], missing_files: Collection[str]) -> str | None:
    """Why a step that is done has to be done anew."""
    if options.rerun:
        return ASKED
    if options.always:
        return "always runs"
    if changes:
        return "; ".join(dict.fromkeys(map(str, changes)))
    return f"missing: {', '.join(sorted(missing_files))}" if missing_files else None


def decide_call(
    record: CallRecord | Missing, *, repeatable: bool, reconcile: bool, terminal: bool, handled: bool
) -> CallDecision:
    """``terminal``: the tool memoises the recorded error. ``handled``: the unfinished step went on after it."""
    if record is MISSING:
        return Call()
    match record.status:
        case "done":
            return Replay(record)
        case "failed":
            return ReplayError(record) if terminal or handled else Call(record)
        case "intent":
            if repeatable:
                return Call(record)
            return Reconcile(record) if reconcile else Ask(record)
