"""What the panel shows, as values: decided from the book alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from resumable_nb.model import MISSING, CallRecord, Missing, Owner, StepRecord
from resumable_nb.panel.book import Book, Loop

Word = Literal["running", "paused", "stopping", "done", "restored", "failed", "in doubt", "cut off", "pending"]
SHAPES: Final[dict[str, str]] = {
    "running": "▶", "paused": "‖", "stopping": "◼", "done": "✓", "restored": "↺", "failed": "✗", "in doubt": "?",
    "cut off": "⚡", "pausing": "‖",
    "compensated": "↶", "idle": "○", "pending": "○", "completed": "✓", "stopped": "◼", "dead": "⚡", "closed": "○",
}  # fmt: skip
"""A state is told by its word and by a shape, never by a colour alone. Text forms, no emoji."""

UNDER_WAY: Final = ("running", "pausing", "paused", "stopping")
UNSETTLED: Final = ("failed", "stopped", "idle", "closed")
"""What a task is called only where no call is in doubt: somebody has to say what became of it first."""

AGAIN: Final = "runs again when its cell is executed"

Doubtful = Callable[[CallRecord], bool]


@dataclass(frozen=True, slots=True)
class Hold:
    """Who works on the task, and what is wanted of it."""

    owner: Owner | Missing
    """Not a dead one."""
    mine: bool
    wanted: str = "run"
    waiting: bool = False
    """The pause has been reached."""
    by: str = ""
    at: str = ""
    """Where it waits."""
    status: str = "idle"


@dataclass(frozen=True, slots=True)
class Head:
    """The first lines of the panel."""

    task: str
    store: str
    word: str
    shape: str
    hold: Hold
    done: int
    total: int
    fraction: float | None
    """Of the steps that are known."""
    elapsed_s: float
    left_s: float | None
    saved_s: float
    not_repeated: int
    calls: int
    failed: int
    doubts: int


@dataclass(frozen=True, slots=True)
class Going:
    """A running loop, and how long it will go on."""

    loop: Loop
    left_s: float | None


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step in the list."""

    id: str
    name: str
    depth: int
    word: str
    shape: str
    why: str
    loops: tuple[Going, ...]
    now_s: float | None
    last_s: float | None
    size_bytes: int
    calls: int
    failed: int
    doubts: int
    started_at: float
    earlier_s: float = 0.0
    """What it took before it was cut off and went on; part of ``now_s``."""


Order = Literal["newest", "oldest", "slowest", "fastest", "tool", "step", "status", "tries"]


@dataclass(frozen=True, slots=True)
class Query:
    """What the history is asked for; an empty field asks for all."""

    text: str = ""
    tool: str = ""
    step: str = ""
    status: str = ""
    since_s: float = 0.0
    """Only calls that started in the last so many seconds."""
    order: Order = "newest"
    page: int = 0


PAGE: Final = 20


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the history."""

    calls: tuple[CallRecord, ...]
    doubtful: frozenset[str]
    number: int
    pages: int
    total: int
    query: Query = field(default_factory=Query)
    drifted: frozenset[str] = frozenset()
    """Calls whose tool has other code now."""


def step_word(record: StepRecord, book: Book, hold: Hold, doubts: int) -> str:
    """What has become of a step, in a word."""
    if record.id in book.again:
        return "pending"
    if record.status == "running":
        if hold.owner is MISSING or hold.owner.run != record.run:
            return "cut off"
        if hold.wanted == "pause":
            return "paused" if hold.waiting else "running"
        return "stopping" if hold.wanted == "stop" else "running"
    if doubts and record.status == "failed":
        return "in doubt"
    if record.status == "done" and book.restored(record.id):
        return "restored"
    return record.status


def step_row(record: StepRecord, book: Book, hold: Hold, now: float, doubts: int) -> StepRow:
    word = step_word(record, book, hold, doubts)
    active = word in ("running", "paused", "stopping")
    counts = book.counts[record.id]
    took_s = book.gone_s(record, now) if active else None if word in ("cut off", "pending") else record.duration_s
    return StepRow(
        id=record.id,
        name=record.name,
        depth=record.id.count("/"),
        word=word,
        shape=SHAPES[word],
        why=AGAIN if word == "pending" else _why(record, book.restored(record.id), doubts),
        loops=_loops(record.id, book) if active else (),
        now_s=took_s,
        last_s=record.duration_s if word == "pending" else book.last_s(record),
        size_bytes=record.size_bytes,
        calls=sum(counts.values()),
        failed=counts["failed"],
        doubts=doubts,
        started_at=record.started_at,
        earlier_s=record.earlier_s,
    )


def _loops(step: str, book: Book) -> tuple[Going, ...]:
    """The running loops of a step, outermost first. None ends before those inside it do."""
    inside = [loop.left_s for of, loops in book.loops.items() if of.startswith(f"{step}/") for loop in loops.values()]
    least_s = max((left_s for left_s in inside if left_s is not None), default=0.0)
    found: list[Going] = []
    for loop in [*book.loops.get(step, {}).values()][::-1]:
        left_s = None if loop.left_s is None else max(least_s, loop.left_s)
        least_s = left_s or least_s
        found.insert(0, Going(loop, left_s))
    return tuple(found)


def _why(record: StepRecord, by: str, doubts: int) -> str:
    """``by``: the skipped step by which it came back."""
    if doubts and record.status == "failed":
        what = "a tool call" if doubts == 1 else f"{doubts} tool calls"
        return f"nobody knows whether {what} happened: say so above, then run the cell again"
    if record.error:
        return record.error.removeprefix("Stopped: ") if record.status == "stopped" else record.error
    if record.status == "compensated":
        return "its calls were undone"
    if by and by != record.id:
        return "restored with the step around it"
    return "nothing that it depends on has changed" if by else record.why


def doubtful(book: Book, in_doubt: Doubtful) -> list[CallRecord]:
    """The calls that nobody knows the outcome of, oldest first."""
    return sorted((record for record in book.open.values() if in_doubt(record)), key=lambda record: record.started_at)


def ordered(book: Book) -> list[StepRecord]:
    """Steps as they last began, each behind the one that encloses it."""
    return sorted(book.steps.values(), key=lambda record: _rank(record, book))


def around(records: list[StepRecord], book: Book) -> list[StepRecord]:
    """The same behind those that enclose the first one and are not among them: what runs stays in sight."""
    parts = records[0].id.split("/")[:-1] if records else []
    paths = ["/".join(parts[: length + 1]) for length in range(len(parts))]
    return [*(book.steps[path] for path in paths if path in book.steps), *records]


def _rank(record: StepRecord, book: Book) -> list[tuple[float, str]]:
    parts = record.id.split("/")
    paths = ["/".join(parts[: length + 1]) for length in range(len(parts))]
    return [(book.steps[path].started_at if path in book.steps else record.started_at, path) for path in paths]


def head(book: Book, hold: Hold, *, name: str, store: str, now: float, doubts: int) -> Head:
    steps = [record for record in book.steps.values() if "/" not in record.id]
    top = [record for record in steps if record.id not in book.again]
    done = sum(record.status == "done" for record in top)
    at_work = hold.owner.run if hold.owner is not MISSING else None
    running = [record for record in top if record.status == "running" and record.run == at_work]
    fraction, left_s = _progress(book, running, done, len(steps), now)
    word = hold.status
    if running and hold.wanted == "pause":
        word = "paused" if hold.waiting else "pausing"
    elif running and hold.wanted == "stop":
        word = "stopping"
    elif doubts and word in UNSETTLED:
        word = "in doubt"
    elapsed_s = sum(book.gone_s(record, now) if record in running else record.duration_s for record in top)
    if left_s is not None:
        left_s += sum(book.steps[step].duration_s for step in book.again if "/" not in step)
    return Head(
        task=name,
        store=store,
        word=word,
        shape=SHAPES.get(word, SHAPES["running"]),
        hold=hold,
        done=done,
        total=len(steps),
        fraction=fraction,
        elapsed_s=elapsed_s,
        left_s=left_s,
        saved_s=book.saved_s(),
        not_repeated=book.not_repeated(),
        calls=len(book.calls),
        failed=book.total("failed"),
        doubts=doubts,
    )


def _progress(
    book: Book, running: Iterable[StepRecord], done: int, total: int, now: float
) -> tuple[float | None, float | None]:
    """The part that is done, and the seconds that are left, where either is known."""
    part, left_s = float(done), None
    for record in running:
        loops = [each for each in _loops(record.id, book) if each.loop.total]
        last_s, gone_s = book.last_s(record), book.gone_s(record, now)
        if loops:  # the first one is the outermost
            part += min(1.0, loops[0].loop.done / (loops[0].loop.total or 1))
            left_s = loops[0].left_s
        elif last_s:
            part += min(0.99, gone_s / last_s)
        if left_s is None and last_s and last_s > gone_s:
            left_s = last_s - gone_s
    return (part / total if total else None), left_s


def status_of(call: CallRecord, doubts: Collection[str]) -> str:
    """The word for a call: an intent without an end is running, or in doubt."""
    if call.compensated:
        return "compensated"
    return call.status if call.status != "intent" else "in doubt" if call.id in doubts else "running"


def select(calls: list[CallRecord], query: Query, doubts: Collection[str], now: float) -> Page:
    """The page of the history that the query asks for."""
    known = frozenset(doubts)
    found = calls if query == Query(order=query.order, page=query.page) else _filtered(calls, query, known, now)
    total = len(found)
    pages = max(1, -(-total // PAGE))
    number = min(max(0, query.page), pages - 1)
    start, end = number * PAGE, min(total, (number + 1) * PAGE)
    match query.order:
        case "newest":
            shown = found[total - end : total - start][::-1]
        case "oldest":
            shown = found[start:end]
        case _:
            shown = sorted(found, key=_sorter(query.order, known))[start:end]
    return Page(tuple(shown), known, number, pages, total, query)


def _sorter(order: Order, doubts: frozenset[str]) -> Callable[[CallRecord], Any]:
    match order:
        case "slowest":
            return lambda call: -(-1.0 if call.duration_s is None else call.duration_s)
        case "fastest":
            return lambda call: math.inf if call.duration_s is None else call.duration_s
        case "step":
            return lambda call: (call.step, call.started_at)
        case "status":
            return lambda call: (status_of(call, doubts), call.started_at)
        case "tries":
            return lambda call: -len(call.attempts)
        case _:
            return lambda call: (call.tool, call.started_at)


def _filtered(calls: list[CallRecord], query: Query, doubts: frozenset[str], now: float) -> list[CallRecord]:
    text, since = query.text.casefold(), now - query.since_s if query.since_s else 0.0
    return [
        call
        for call in calls
        if call.started_at >= since
        and (not query.tool or call.tool == query.tool)
        and (not query.step or call.step == query.step or call.step.startswith(f"{query.step}/"))
        and (not query.status or status_of(call, doubts) == query.status)
        and (not text or text in _words(call))
    ]


def _words(call: CallRecord) -> str:
    """Everything of a call that is searched."""
    shown = " ".join(f"{name}={value}" for name, value in call.arguments.items())
    return f"{call.tool} {call.step} {call.id} {shown} {call.preview} {call.error} {call.doubt}".casefold()


_SEARCHED: Final = (
    """f"{c.tool} {c.step} {c.Index} {' '.join(f'{k}={v}' for k, v in c.arguments.items())} {c.value!r} {c.error}\""""
    ".casefold()"
)


def code(query: Query) -> str:
    """The same question to ``task().history()``, as pandas code."""
    conditions = []
    if query.tool:
        conditions.append(f"(calls.tool == {query.tool!r})")
    if query.step:
        conditions.append(f"((calls.step + '/').str.startswith({query.step + '/'!r}))")
    if query.status:
        conditions.append(f"(calls.status == {query.status!r})")
    if query.since_s:
        conditions.append(f"(calls.started >= pd.Timestamp.now('UTC') - pd.Timedelta(seconds={query.since_s:g}))")
    lines = ["import pandas as pd"] if query.since_s else []
    lines += ["from resumable_nb import task", "calls = task().history()"]
    if conditions:
        lines.append(f"calls = calls[{' & '.join(conditions)}]")
    if query.text:
        lines.append(f"calls = calls.loc[[{query.text.casefold()!r} in {_SEARCHED} for c in calls.itertuples()]]")
    if query.order in _SORTED:
        lines.append(f"calls = calls.sort_values({_SORTED[query.order]})")
    return "\n".join([*lines, "calls"])


_SORTED: Final[dict[str, str]] = {
    "newest": "'started', ascending=False",
    "slowest": "'duration_s', ascending=False, kind='stable'",
    "fastest": "'duration_s', kind='stable'",
    "tool": "['tool', 'started']",
    "step": "['step', 'started']",
    "status": "['status', 'started']",
    "tries": "'attempts', ascending=False, kind='stable'",
}
"""``history()`` itself has the oldest first."""
