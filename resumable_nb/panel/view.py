"""The view model as HTML. Everything foreign goes through ``text``; what is not foreign is written here."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

from resumable_nb.doubt import spelled
from resumable_nb.model import MISSING, CallRecord, StepRecord
from resumable_nb.panel import keyparts
from resumable_nb.panel.state import SHAPES, UNDER_WAY, Going, Head, Page, StepRow, code, status_of
from resumable_nb.panel.text import attribute, block, line, safe, size
from resumable_nb.wording import clock_time, duration, plural

NO_STEPS: Final = (
    '<p class="rnb-note">No step has run yet. <code>%%resumable NAME</code> as the first line makes a cell a step.</p>'
)
MOST: Final = 25
"""Rows of a list inside the details of a step."""


def word(text: str, shape: str) -> str:
    return f'<span class="rnb-word"><span class="rnb-shape" aria-hidden="true">{shape}\ufe0e</span>{text}</span>'


def bar(fraction: float, label: str) -> str:
    percent = f"{100 * min(1.0, max(0.0, fraction)):.1f}"
    return (
        f'<span class="rnb-track" role="progressbar" aria-label="{attribute(label)}" aria-valuemin="0" '
        f'aria-valuemax="100" aria-valuenow="{percent}"><span style="width:{percent}%"></span></span>'
    )


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values; the values are HTML."""
    items = "".join(f'<div role="listitem">{name} <b>{value}</b></div>' for name, value in pairs if value)
    return f'<div class="rnb-facts" role="list">{items}</div>'


def head(view: Head, now: float) -> str:
    steps = f"{view.done} of {view.total} done" if view.total else "none yet"
    calls = f"{view.calls:,}" + (f", {view.failed:,} failed" if view.failed else "")
    calls += f", {view.doubts} in doubt" if view.doubts else ""
    left = "" if view.left_s is None else duration(view.left_s)
    if view.left_s is not None and not view.hold.waiting:
        left += f", at {clock_time(now + view.left_s)}"
    where = f", waits before {safe(view.hold.at, 80)}" if view.hold.at and view.hold.waiting else ""
    return (
        '<div class="rnb-head"><div class="rnb-title">'
        f"<b>{safe(view.task, 120)}</b>{word(view.word, view.shape)}<span>{_holder(view, now)}{where}</span></div>"
        + (f'<div class="rnb-note">{_ask(view.doubts)}</div>' if view.word == "in doubt" else "")
        + (bar(view.fraction, f"progress of {view.task}") if view.fraction is not None else "")
        + facts(
            [
                ("Steps", steps),
                ("Elapsed", duration(view.elapsed_s) if view.elapsed_s else ""),
                ("Left", left),
                ("Tool calls", calls),
                ("Saved by skips", duration(view.saved_s) if view.saved_s else "nothing yet"),
                ("Effects not repeated", f"{view.not_repeated:,}"),
                ("Store", safe(view.store, 300)),
            ]
        )
        + "</div>"
    )


def _ask(doubts: int) -> str:
    """What to do about calls in doubt."""
    if doubts == 1:
        return "Nobody knows whether a tool call happened. Say so below, then run its cell again."
    return f"Nobody knows whether {doubts} tool calls happened. Say so below, then run their cells again."


def _holder(view: Head, now: float) -> str:
    owner = view.hold.owner
    if owner is MISSING:
        return "no kernel works on it"
    who = f"in this kernel (pid {owner.pid})" if view.hold.mine else f"in pid {owner.pid} on {safe(owner.host, 60)}"
    beat = f", heartbeat {max(0.0, now - owner.beat_at):.0f} s ago" if owner.beat_at else ""
    return f"{who} since {clock_time(owner.since)}{beat}"


def spent(seconds: float) -> str:
    """A duration: nothing takes 0 ms."""
    return duration(seconds) if seconds >= 0.0005 else "under 1 ms"


def loop(view: Going) -> str:
    """A running ``track`` loop."""
    done, total = view.loop.done, view.loop.total
    of = f"{done:,} of {total:,}" if total is not None else f"{done:,}"
    left = f", {duration(view.left_s)} left" if view.left_s else ""
    label = f"{view.loop.label}: {of}{left}"
    return (bar(done / total, label) if total else "") + f"<span>{safe(label)}</span>"


def step(view: StepRow) -> str:
    """The cells beside a step's button."""
    took = "" if view.now_s is None else spent(view.now_s)
    if view.last_s is not None:
        took += f" (last {duration(view.last_s)})"
    calls = plural(view.calls, "call") if view.calls else ""
    calls += f", {view.failed} failed" if view.failed else ""
    calls += f", {view.doubts} in doubt" if view.doubts else ""
    loops = "".join(f'<div class="rnb-wide">{loop(each)}</div>' for each in view.loops)
    return (
        f'<div class="rnb-cells">{word(view.word, view.shape)}<span>{safe(view.why, 160)}</span>'
        f'<span class="rnb-num">{took}</span>'
        f'<span class="rnb-num">{size(view.size_bytes) if view.size_bytes else ""}</span>'
        f"<span>{calls}</span>{loops}</div>"
    )


def table(
    headings: Iterable[str],
    rows: Iterable[Iterable[str]],
    label: str,
    numbers: frozenset[int] = frozenset(),
    optional: frozenset[int] = frozenset(),
    kinds: str = "",
) -> str:
    """Cells are HTML. ``numbers`` are the columns that stand right, ``optional`` those that narrow views leave out.

    ``kinds``: further classes.
    """

    def kind(index: int) -> str:
        return f' class="{"rnb-num " * (index in numbers)}{"rnb-opt" * (index in optional)}"'

    heads = "".join(f'<th scope="col"{kind(i)}>{each}</th>' for i, each in enumerate(headings))
    body = "".join(
        "<tr>" + "".join(f"<td{kind(i)}>{cell}</td>" for i, cell in enumerate(row)) + "</tr>" for row in rows
    )
    return (
        f'<div class="rnb-wrap"><table class="rnb-table rnb-fold {kinds}" aria-label="{attribute(label)}">'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


_CALL_HEADS: Final = ("Status", "Call", "Result", "Step", "Started", "Took", "Tries", "Id")
_RIGHT: Final = frozenset({5, 6})
_OPTIONAL: Final = frozenset({6, 7})


def call(record: CallRecord, doubts: frozenset[str], drifted: frozenset[str] = frozenset()) -> list[str]:
    status = status_of(record, doubts)
    said = record.error or record.doubt or record.preview or record.unavailable
    took = "" if record.duration_s is None else spent(record.duration_s)
    return [
        word(status, SHAPES[status]),
        f"<code>{safe(spelled(record), 240)}</code>",
        (f"<code>{safe(said, 240)}</code>" if said else "")
        + (" <span>(recorded with other code of the tool)</span>" if record.id in drifted else ""),
        safe(record.step, 80),
        _moment(record.started_at),
        took,
        str(max(1, len(record.attempts))),
        f"<code>{safe(record.id, 20)}</code>",
    ]


def call_table(rows: Iterable[Iterable[str]], label: str) -> str:
    return table(_CALL_HEADS, rows, label, _RIGHT, _OPTIONAL, "rnb-calls")


def _moment(at: float) -> str:
    return f"{clock_time(at).rpartition(' ')[0]} {time.strftime('%H:%M:%S', time.localtime(at))}".strip()


def history(page: Page) -> str:
    if not page.calls:
        return '<p class="rnb-note">No tool call fits.</p>'
    rows = [call(record, page.doubtful, page.drifted) for record in page.calls]
    return call_table(rows, "Tool calls")


def counted(page: Page) -> str:
    """Which page it is, in words."""
    return f"{plural(page.total, 'call')}, page {page.number + 1:,} of {page.pages:,}"


def pandas(page: Page) -> str:
    """The question as pandas code, to copy: a click into it selects it."""
    text = code(page.query)
    rows = text.count("\n") + 2  # one for the bar by which long lines are scrolled
    return (
        f'<textarea class="rnb-code" readonly wrap="off" rows="{rows}" aria-label="pandas code for this list" '
        f'onfocus="this.select()">{attribute_lines(text)}</textarea>{_COPY}'
    )


# The older way of copying: the newer one is refused where a hub is not served by https.
_COPY: Final = (
    '<button type="button" class="rnb-act" onclick="this.previousElementSibling.select();'
    "document.execCommand('copy');this.textContent='Copied'\">Copy</button>"
)


def attribute_lines(text: str) -> str:
    return "\n".join(attribute(each, 2000) for each in text.split("\n"))


def doubt(record: CallRecord, run: str) -> str:
    why = record.doubt or "it ended before the outcome was recorded"
    where = f" in step {safe(record.step, 80)}" if record.step else ""
    return (
        f"<div>{word('in doubt', SHAPES['in doubt'])} <code>{safe(spelled(record), 400)}</code></div>"
        f"<div>It was begun at {clock_time(record.started_at)} by {safe(run, 80)}{where}, and may have happened: "
        f"{safe(why, 300)}.</div>"
    )


def detail(
    record: StepRecord,
    view: StepRow,
    calls: list[CallRecord],
    outputs: list[Any],
    *,
    doubts: frozenset[str],
    drifted: frozenset[str],
    by: str,
) -> str:
    """What a click on a step opens: why it ran, what it depends on, its calls, what it showed."""
    parts = [
        facts(
            [
                ("Why it ran", safe(record.why, 400)),
                ("Began", _moment(record.started_at)),
                ("Ran in", safe(by, 80)),
                ("Before it went on", duration(view.earlier_s) if view.earlier_s else ""),
                ("Version", str(record.version)),
                ("Variables", safe(", ".join(record.saved_names) or "none", 400)),
            ]
        )
    ]
    if record.changes:
        parts.append("<ul>" + "".join(f"<li>{safe(str(each), 200)}</li>" for each in record.changes[:MOST]) + "</ul>")
    if record.error:
        parts += ["<h4>Error</h4>", block(record.error)]
    if record.unsaved:
        rows = [[f"<code>{safe(name, 80)}</code>", safe(why, 300)] for name, why in list(record.unsaved.items())[:MOST]]
        parts += ["<h4>Not saved</h4>", table(("Variable", "Why"), rows, "Not saved")]
    parts += ["<h4>Depends on</h4>", _key(record)]
    parts += [f"<h4>Tool calls ({view.calls:,})</h4>"]
    if last := newest(calls):
        rows = [call(each, doubts, drifted) for each in last]
        parts.append(call_table(rows, "Tool calls of the step"))
    if len(calls) > MOST:
        parts.append(f'<p class="rnb-note">The newest {MOST}; all are in the history.</p>')
    parts += ["<h4>What it showed</h4>", shown(outputs)]
    return f'<section class="rnb-detail" aria-label="{attribute(view.name)}">{"".join(parts)}</section>'


def newest(calls: list[CallRecord]) -> list[CallRecord]:
    """Those that the details show."""
    return calls[-MOST:][::-1]


def _key(record: StepRecord) -> str:
    rows = [
        [
            safe(kind, 120) + (f" <code>{safe(name, 120)}</code>" if name else ""),
            safe(value, 160) if value else "",
            f"<code>{safe(mark)}</code>" if mark else "",
        ]
        for kind, name, value, mark in keyparts.rows(record)
    ]
    return table(("What", "Value", "Fingerprint"), rows, "What it depends on")


def shown(outputs: list[Any]) -> str:
    """The record of a step's output as text: what is richer is named."""
    parts = []
    for output in outputs[:MOST]:
        data = output.get("data")
        if data is None:
            parts.append(block(output.get("text", "")))
            continue
        text = data.get("text/plain", "")
        rich = ", ".join(line(kind, 60) for kind in data if kind != "text/plain")
        parts.append(block(text, 1000) + (f'<p class="rnb-note rnb-quiet">also as {safe(rich)}</p>' if rich else ""))
    if len(outputs) > MOST:
        parts.append(f'<p class="rnb-note">{len(outputs) - MOST} more outputs</p>')
    return "".join(parts) or '<p class="rnb-note">Nothing.</p>'


def message(text: str) -> str:
    """What became of the last click; told to screen readers."""
    return f'<div role="status" aria-live="polite" class="rnb-note">{safe(text, 400)}</div>' if text else ""


def static(
    view: Head, rows: list[StepRow], doubts: list[CallRecord], page: Page, picture: str, now: float, total: int = 0
) -> str:
    """The same without widgets, for a saved notebook: nothing in it needs a kernel. ``total``: all steps."""
    steps = table(
        ("Step", "State", "Why", "Took", "Size", "Calls"),
        [
            [
                f"{chr(0x2003) * each.depth}<b>{safe(each.name, 80)}</b>",
                word(each.word, each.shape),
                safe(each.why, 160),
                "" if each.now_s is None else spent(each.now_s),
                size(each.size_bytes) if each.size_bytes else "",
                str(each.calls or ""),
            ]
            for each in rows
        ],
        "Steps",
        frozenset({3, 4, 5}),
    )
    parts = [head(view, now)]
    if doubts:
        parts.append(f"<h4>In doubt</h4><ul>{''.join(map(_doubtful, doubts[:MOST]))}</ul>")
        parts.append(f'<p class="rnb-note">{len(doubts) - MOST} more in doubt</p>' if len(doubts) > MOST else "")
    if rows:
        more = f"Newest {len(rows)} of {total:,} steps" if total > len(rows) else "Steps"
        parts += [f"<h4>{more}</h4>", steps]
    if page.calls:
        some = f"newest {len(page.calls)} of {page.total:,}" if page.total > len(page.calls) else f"{page.total:,}"
        parts += [f"<h4>Tool calls ({some})</h4>", history(page)]
    if picture:
        frame = '<div class="rnb-wrap" tabindex="0" role="group" aria-label="Timeline">'
        parts += ["<h4>Timeline</h4>", f"{frame}{picture}</div>"]
    then = ", in the middle of a run: what came later is not shown here" if view.word in UNDER_WAY else ""
    note = f"As of {_moment(now)}{then}. Run <code>%resumable</code> for the living panel."
    return f'<div class="rnb-static">{"".join(parts)}<p class="rnb-note rnb-quiet">{note}</p></div>'


def _doubtful(call: CallRecord) -> str:
    resolve = f"%resumable resolve {line(call.id, 20)}"
    return (
        f"<li><code>{safe(spelled(call), 240)}</code>, begun at {clock_time(call.started_at)}: "
        f"<code>{safe(resolve)} not-happened</code> or <code>{safe(resolve)} happened [JSON]</code></li>"
    )


def told(view: Head, rows: list[StepRow], doubts: list[CallRecord]) -> str:
    """The same as plain text."""
    steps = plural(view.total, "step")
    width = min(60, max((len(line(row.id, 60)) for row in rows), default=0))
    lines = [f"task {line(view.task)}: {view.word}, {view.done:,} of {steps} done, {plural(view.calls, 'tool call')}"]
    for row in rows:
        took = "" if row.now_s is None else duration(row.now_s)
        lines.append(f"  {line(row.id, 60):<{width}}  {row.word:<8}  {took:>9}  {line(row.why, 80)}".rstrip())
    lines += [
        f"  in doubt: {line(spelled(each), 100)} {each.id}: %resumable resolve {each.id} …" for each in doubts[:MOST]
    ]
    return "\n".join(lines)
