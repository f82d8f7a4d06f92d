"""The stop button (SIGINT) and preemption (SIGTERM) while a cell runs: it ends at once, in one line."""

from __future__ import annotations

import asyncio
import os
import signal
from types import FrameType
from typing import Any, Final

from resumable_nb import session
from resumable_nb.control import TERMINATED, current_task
from resumable_nb.errors import Stopped, StoppedTask

STOP_BUTTON: Final = "an interrupt (the stop button, or SIGINT)"


class Signals:
    """Handlers for the time of a cell, where those of Python, the system or ipykernel stand: no other is replaced.

    ipykernel's cancels an async cell too, but only when something else wakes its event loop.
    A second SIGINT goes to the handler that stood before. After SIGTERM the process ends once the cell has been left.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._cell: asyncio.Task[Any] | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._custom: tuple[Any, ...] = ()
        self._terminated = False

    def install(self) -> None:
        """A cell begins. In the main thread."""
        self._cell = current_task()
        interrupt, terminate = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        if interrupt is signal.default_int_handler or getattr(interrupt, "__module__", "").startswith("ipykernel."):
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._on_interrupt)
        if terminate is signal.SIG_DFL:
            self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._on_terminate)
        if not self._shell.custom_exceptions:  # how a cancelled cell is shown can only be said beforehand
            self._custom = (self._shell.custom_exceptions, self._shell.CustomTB)
            self._shell.set_custom_exc((asyncio.CancelledError,), self._show_cancelled)

    def restore(self) -> None:
        """The cell has ended."""
        for number, own in ((signal.SIGINT, self._on_interrupt), (signal.SIGTERM, self._on_terminate)):
            if signal.getsignal(number) == own:
                self._put_back(number)
        self._before.clear()
        if self._custom:
            self._shell.custom_exceptions, self._shell.CustomTB = self._custom
            self._custom = ()
        self._cell = None
        if self._terminated:
            self._end()

    def translated(self, error: BaseException | None) -> BaseException | None:
        """The cell's error, as ``Stopped`` where a stop has reached it as a cancellation of its task."""
        if isinstance(error, StoppedTask):
            return Stopped(str(error))
        if isinstance(error, asyncio.CancelledError) and self._cell is not None and self._cell.cancelling():
            return session.current().control.interrupted(STOP_BUTTON)
        return error

    def _put_back(self, number: signal.Signals) -> None:
        signal.signal(number, self._before.pop(number))

    def _on_interrupt(self, _signum: int, _frame: FrameType | None) -> None:
        self._put_back(signal.SIGINT)
        self._stop(STOP_BUTTON)

    def _on_terminate(self, _signum: int, _frame: FrameType | None) -> None:
        self._put_back(signal.SIGTERM)
        self._terminated = True
        self._stop(TERMINATED)

    def _stop(self, by: str) -> None:
        stopped = session.current().control.interrupted(by)
        cell = self._cell
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise stopped from None
        if cell is None or cell is asyncio.current_task():
            raise stopped
        # The loop is waiting, or runs another task, neither of which would survive an exception from here.
        loop.call_soon_threadsafe(cell.cancel)

    def _show_cancelled(self, shell: Any, kind: Any, error: BaseException, trace: Any, tb_offset: Any = None) -> None:
        stopped = self.translated(error)
        if isinstance(stopped, Stopped):
            shell._showtraceback(type(stopped), stopped, stopped._render_traceback_())
        else:
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)

    def _end(self) -> None:
        session.close()
        if getattr(self._shell, "kernel", None) is not None:
            self._shell.exit_now = True  # after the reply, so that the front end sees why
        else:
            os.kill(os.getpid(), signal.SIGTERM)
