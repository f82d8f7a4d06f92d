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
