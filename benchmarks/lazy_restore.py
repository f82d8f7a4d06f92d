"""Run All in a new kernel over finished steps that hold much, against as many that hold nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from jupyter_client.manager import start_new_kernel

from benchmarks.race import Race, Seconds, main

STEPS = 20


def races(small: bool) -> Iterator[Race]:
    total_bytes = (1 << 20) if small else 10 << 30
    yield Race(
        f"{STEPS} finished steps, {'1 MB' if small else '10 GB'} held",
        run_all("much", total_bytes // STEPS // 8),
        "hold nothing",
        run_all("nothing", 0),
        rounds=1 if small else 7,
    )


def run_all(name: str, numbers: int) -> Seconds:
    """Seconds of Run All in a new kernel, without the kernel's own start. Each step holds so many numbers."""
    cells = ["%load_ext resumable_nb", "%%resumable start\nimport numpy as np"]
    cells += [f"%%resumable 'step {k}'\nx{k} = np.zeros({numbers})" for k in range(STEPS)]
    folder = Path(name).resolve()

    def seconds() -> float:
        first = not folder.exists()
        folder.mkdir(exist_ok=True)
        manager, client = start_new_kernel(cwd=str(folder), env={**os.environ, "JPY_SESSION_NAME": ""})
        try:
            began = time.perf_counter()
            for cell in cells:
                reply = client.execute_interactive(cell, output_hook=lambda _message: None, timeout=600)
                if reply["content"]["status"] != "ok":
                    raise RuntimeError("\n".join(reply["content"]["traceback"]))
            took = time.perf_counter() - began
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
        return seconds() if first else took

    return seconds


if __name__ == "__main__":
    main([races], __doc__)
