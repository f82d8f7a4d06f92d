"""Whether a step that goes on asks for the calls that it asked for before."""

from __future__ import annotations

import shlex
import warnings

from resumable_nb.claim import Claim
from resumable_nb.doubt import spelled
from resumable_nb.drive import inside_a_tool
from resumable_nb.errors import Diverged
from resumable_nb.frame import user_level
from resumable_nb.journal import Journal
from resumable_nb.model import MISSING, CallRecord, Missing, place, step_path
from resumable_nb.scope import STEP, StepScope
from resumable_nb.tooldef import Tool

SHOWN = 5
"""Calls that one report spells out."""


class DivergenceWarning(UserWarning):
    """A step that went on unchanged has asked for other calls than the recorded ones."""


def judge(journal: Journal, scope: StepScope, tool: Tool, claim: Claim) -> CallRecord | Missing:
    """Judge a call that was never made, before it is made.

    Returns the recorded call that it is, where only what identifies the tool's calls (``ignore=``, ``key=``) was
    changed since. Raises ``Diverged`` where the step has an order of its own, and this is not what comes next in it;
    a tool that may be repeated warns.
    """
    if not scope.id or not scope.continuing:
        return MISSING
    left = [
        record for record in _unclaimed(journal, scope) if record.tool == tool.name and record.version == tool.version
    ]
    for record in left:
        if record.rule != tool.rule and record.marks and tool.identifying(record.marks) == claim.marks:
            journal.adopt(record, claim.identity, claim.k)
            scope.claimed.add(place(record.identity, record.k))
            return record
    if inside_a_tool() or not scope.strand.is_here():
        return MISSING
    left = [record for record in left if not record.beside and not record.inside and _counts(record, scope, tool)]
    if not left:
        return MISSING
    nearest = min(left, key=lambda record: len(_differing(record, claim)))
    error = _diverged(scope, nearest, claim, tool)
    if not tool.repeatable:
        raise error
    if tool.name not in scope.warned:
        scope.warned.add(tool.name)
        warnings.warn(error.message, DivergenceWarning, stacklevel=user_level())
    return MISSING


def report(journal: Journal, scope: StepScope) -> None:
    """At the end of a step that went on unchanged: warn of recorded effects that nobody has asked for."""
    if not scope.id or not scope.unchanged:
        return
    left = [
        record
        for record in _unclaimed(journal, scope)
        if record.n >= scope.first_call and not record.repeatable and record.inside not in scope.claimed
    ]
    left += _passed_over(journal, scope)
    if not left:
        return
    shown = [
        f"{spelled(record)} {f'in step {record.step!r} ' if record.step != scope.id else ''}{_happened(record)} "
        f"(call {record.id})"
        for record in left[:SHOWN]
    ]
    more = [f"and {len(left) - SHOWN} more"] if len(left) > SHOWN else []
    warnings.warn(
        f"step {scope.id!r} went on unchanged, and has not asked again for {'; '.join([*shown, *more])}. If it made "
        "other calls in their place, those effects are there twice: compare `%resumable history`, and keep what "
        "differs in each run (a time, a random id) out of the arguments with ignore=, key= or task().once",
        DivergenceWarning,
        stacklevel=2,
    )


def _passed_over(journal: Journal, scope: StepScope) -> list[CallRecord]:
    """Recorded effects of nested steps that were not entered: a name may hold what differs in each run."""
    found = [each for each in _asked_for(journal.calls_inside(scope.id)) if not each.repeatable]
    if not found:
        return []
    names = [(key.removeprefix(STEP), count) for key, count in scope.ordinals.items() if key.startswith(STEP)]
    entered = {step_path(scope.id, name, k) for name, count in names for k in range(count)}
    # What an earlier version left was made by other code, or from another state.
    earlier = [each.ended_at or 0.0 for each in journal.versions(scope.id) if each.version < scope.version]
    finished = max(earlier, default=0.0)
    inside = len(scope.id) + 1
    return [
        each
        for each in found
        if each.status != "failed"
        and each.started_at > finished
        and scope.claimed.isdisjoint((place(each.identity, each.k), each.inside))
        and f"{scope.id}/{each.step[inside:].partition('/')[0]}" not in entered
    ]


def _unclaimed(journal: Journal, scope: StepScope) -> list[CallRecord]:
    """Recorded effects of the step that this execution has not asked for, and should."""
    with scope.lock:
        records = _asked_for(journal.calls(scope.id)) if scope.unclaimed is None else scope.unclaimed
        claimed, excused = scope.claimed, scope.excused
        scope.unclaimed = [
            each
            for each in records
            if place(each.identity, each.k) not in claimed
            and each.n >= excused
            and each.status != "failed"
            and not (each.compensated or each.undoes)
        ]
        return scope.unclaimed


def _asked_for(records: list[CallRecord]) -> list[CallRecord]:
    """Without undone calls and what has undone them: the step is not going to ask for those."""
    undos = {each.id for each in records if each.undoes}
    return [each for each in records if not (each.compensated or each.undoes or each.inside in undos)]


def _counts(record: CallRecord, scope: StepScope, tool: Tool) -> bool:
    """Whether unchanged code would have asked for it, or other arguments may hide that it is the same call."""
    return (scope.unchanged and record.n >= scope.first_call) or record.rule != tool.rule


def _differing(record: CallRecord, claim: Claim) -> list[str]:
    """The arguments that differ, by digest where there are digests, else by what they look like."""
    mine, its = (claim.marks, record.marks) if record.marks and claim.marks else (claim.previews, record.arguments)
    return [name for name in {**its, **mine} if its.get(name) != mine.get(name)]


def _diverged(scope: StepScope, record: CallRecord, claim: Claim, tool: Tool) -> Diverged:
    changes = {
        name: (record.arguments.get(name, "nothing"), claim.previews.get(name, "nothing"))
        for name in _differing(record, claim)
    }
    if record.rule != tool.rule:
        why = f"what identifies its calls was changed ({record.rule or 'nothing'} → {tool.rule or 'nothing'})"
    else:
        why = ", ".join(f"{name}: {old} → {new}" for name, (old, new) in changes.items())
    went_on = "went on unchanged" if scope.unchanged else "went on"
    return Diverged(
        f"step {scope.id!r} {went_on}, and asks for {claim.text}, which was never made; recorded is {spelled(record)}, "
        f"which {_happened(record)} (call {record.id}), and which it has not asked for. The difference: {why}. An "
        "argument that differs in each run (a time, a random id) is left out with ignore= or key=, or decided once "
        f"with task().once. Where another call is meant: `%resumable rerun {shlex.quote(scope.id)}`, and run the cell "
        "again",
        tool=tool.name,
        step=scope.id,
        recorded=record.id,
        arguments=dict(claim.previews),
        recorded_arguments=dict(record.arguments),
        changes=changes,
    )


def _happened(record: CallRecord) -> str:
    return "happened" if record.status == "done" else "may have happened"
