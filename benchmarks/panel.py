"""A run with the panel open against the same run without: the processor's time of 1,000 calls in a real kernel."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any

from jupyter_client.manager import KernelManager

from benchmarks.race import Race, Seconds, main

SETUP = """
%load_ext resumable_nb
import time
from resumable_nb import session, task, tool, track

@tool(repeatable=True)
def fetch(n):
    return {"page": n, "rows": [n] * 5}

def busy(first, count):
    "Seconds of the processor's time that this thread and all others of the process took."
    began = time.process_time()
    for n in track(range(first, first + count), "pages"):
        fetch(n)
    return time.process_time() - began
"""


def races(small: bool) -> Iterator[Race]:
    count, rounds = (50, 1) if small else (1000, 5)
    with kernel() as ask:
        ask(SETUP)
        firsts = iter(range(0, 1 << 40, count))

        def run(panel: str) -> Seconds:
            def seconds() -> float:
                before, after = ("", "")
                if panel:
                    before, after = (
                        f"panel = task().panel()\nif {panel!r} != 'Steps': panel._show({panel!r})\npanel",
                        "panel.freeze()",
                    )
                ask(before)
                first = next(firsts)
                took = float(ask(f"%%resumable 'run {first}'\nprint('took', busy({first}, {count}))"))
                ask(after)
                return took

            return seconds

        ask(f"busy({next(firsts)}, {count})")
        for name in ("Steps", "History", "Timeline"):
            yield Race(f"1,000 calls, {name} open", run(name), "no panel", run(""), 1.02, rounds)


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
