"""What an open panel adds to a run: the processor's time of its threads, beside that of the run in the same kernel.

Two runs of one kernel differ by more than the panel may cost. So both are taken from one run, by the system's count of
each thread: the panel's own thread, what the sending threads took beyond a run without a panel, and, in the thread that
calls, what each event and each look for clicks takes, measured by itself and multiplied.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from jupyter_client.manager import KernelManager

from benchmarks.race import Race, Seconds, main

SETUP = """
%load_ext resumable_nb
import contextlib, os, threading, time
from resumable_nb import session, task, tool, track
from resumable_nb.control import POLL_S
from resumable_nb.events import Bus
from resumable_nb.panel import comms
from resumable_nb.panel.live import Live

@tool(repeatable=True)
def fetch(n):
    return {"page": n, "rows": [n] * 5}

@tool(repeatable=True)
async def look(n):
    return {"page": n, "rows": [n] * 5}

def threads():
    "Seconds of the processor's time, by the thread's name."
    names = {each.native_id: each.name for each in threading.enumerate()}
    took = {}
    for each in map(int, os.listdir("/proc/self/task")):
        name = names.get(each, "the kernel's own")
        with open(f"/proc/self/task/{each}/schedstat") as file:
            took[name] = took.get(name, 0) + int(file.read().split()[0]) / 1e9
    return took

def calls(first, count):
    for n in track(range(first, first + count), "pages"):
        fetch(n)

def paced(count):
    "A thousand calls a second, and work for the processor in between."
    began = time.perf_counter()
    for n in track(range(count), "pages"):
        fetch(n)
        while time.perf_counter() < began + (n + 1) / 1000:
            pass

async def gathered(first, count):
    await task().amap(look, range(first, first + count), concurrency=32)

def listening(first, count=100):
    "Seconds in the calling thread: of one event, and of one look for clicks."
    events, spare = [], Live(Bus(), lambda: None)
    remove = session.current().bus.listen(events.append)
    calls(first, count)
    remove()
    began = time.thread_time()
    for each in events * 50:
        spare._listen(each)
    heard = time.thread_time()
    for _ in range(1000):
        comms.poll()
    return (heard - began) / len(events) / 50, (time.thread_time() - heard) / 1000

SENDING = ("IOPub", "the kernel's own")

@contextlib.contextmanager
def measured():
    "Prints seconds of the processor's time: of the run itself, of the sending threads, of the panel; and of the clock."
    counts = session.current().counts
    known, before, began = counts.total(), threads(), time.perf_counter()
    yield
    elapsed, after = time.perf_counter() - began, threads()
    took = {name: after[name] - before.get(name, 0) for name in after}
    drawing = sum(took.pop(name) for name in [*took] if "panel" in name)
    sending = sum(took.pop(name, 0) for name in SENDING)
    heard = (counts.total() - known) * an_event + elapsed / POLL_S * a_look if drawing else 0
    print("took", sum(took.values()) - heard, sending, drawing + heard, elapsed)
"""


WAYS = {
    "calls": ("%%resumable run\nwith measured():\n    calls({first}, {count})", 1),
    "gathered": ("%%resumable run\nwith measured():\n    await gathered({first}, {count})", 1),
    "answered": ("%%resumable again --rerun\nwith measured():\n    calls(0, {count})", 5),
    "paced": ("%%resumable again --rerun\nwith measured():\n    paced({count})", 2),
}
"""One after another; 32 at a time, whose commits go together; answered from the record, as fast as can be, and a
thousand a second. Each with how many times as many calls a run makes."""


def races(small: bool) -> Iterator[Race]:
    least, rounds = (50, 1) if small else (2000, 7)
    with kernel() as ask:
        ask(SETUP)
        firsts = iter(range(0, 1 << 40, least + 100))
        ask(f"calls({next(firsts)}, {least})")
        ask(f"an_event, a_look = listening({next(firsts)})")
        for way, (cell, times) in WAYS.items():
            count = times * least
            run = runs(ask, cell, firsts, count)
            run()
            yield Race(f"1,000 {way}", lambda run=run, of=count: run()[3] / of * 1000, "a second", lambda: 1.0)
            for name in ("Steps", "History", "Timeline"):
                yield Race(f"{way}, {name} open", *costs(ask, name, run), limit=1.02, rounds=rounds)


def runs(ask: Any, cell: str, firsts: Iterator[int], count: int) -> Callable[[], list[float]]:
    return lambda: [float(each) for each in ask(cell.format(first=next(firsts), count=count)).split()]


def costs(ask: Any, name: str, run: Callable[[], list[float]]) -> tuple[Seconds, str, Seconds]:
    """A run with the panel, and the same run without what the panel took."""
    alone = 0.0

    def together() -> float:
        nonlocal alone
        _, sent, *_ = run()
        ask(f"panel = task().panel()\npanel._show({name!r})\npanel")
        calling, sending, panel, _ = run()
        ask("panel.freeze()")
        alone = calling + sent
        return alone + panel + max(0.0, sending - sent)

    return together, "the run itself", lambda: alone


@contextlib.contextmanager
def kernel() -> Iterator[Any]:
    """A function that runs a cell in a kernel and returns what it printed behind ``took``."""
    manager = KernelManager(kernel_name="python3")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        manager.start_kernel(cwd=folder)
        client = manager.client()
        client.start_channels()
        try:
            yield from _asking(client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def _asking(client: Any) -> Iterator[Any]:
    client.wait_for_ready(timeout=60)

    def ask(text: str) -> str:
        printed: list[str] = []

        def see(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        answer = client.execute_interactive(text, timeout=300, output_hook=see)
        assert answer["content"]["status"] == "ok", answer["content"]
        return "".join(printed).rpartition("took ")[2].strip()

    yield ask


if __name__ == "__main__":
    main([races], __doc__ or "")
