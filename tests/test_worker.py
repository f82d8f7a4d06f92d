"""The thread that finishes what it has begun, whatever signals the main thread gets."""

from __future__ import annotations

import contextlib
import signal
import threading

import pytest

from resumable_nb.store.disk.worker import Worker


@pytest.mark.timeout(60)
def test_an_interrupt_that_comes_with_the_outcome_loses_neither() -> None:
    worker, main, done = Worker("test"), threading.main_thread().ident, []
    assert main is not None

    def action() -> None:
        done.append(len(done))
        signal.pthread_kill(main, signal.SIGINT)

    for turn in range(300):
        with contextlib.suppress(KeyboardInterrupt):
            worker.run(action)
            while True:  # the signal is on its way
                pass
        assert len(done) == turn + 1
    worker.stop(lambda: None)


@pytest.mark.timeout(60)
def test_whoever_waits_is_answered_when_what_is_done_together_breaks() -> None:
    """Also by what is no ``Exception``; the thread lives on."""
    worker = Worker("test")

    def together(parts: list[int]) -> list[tuple[int, None] | tuple[None, BaseException]]:
        if 0 in parts:
            raise SystemExit("broken")
        return [(part, None) for part in parts]

    for part in (0, 0):
        with pytest.raises(SystemExit, match="broken"):
            worker.share(together, part).wait()
    assert worker.share(together, 1).wait() == 1
    worker.stop(lambda: None)
