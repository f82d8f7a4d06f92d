"""``Shell``: what a session asks of the program that shows output and executes cells."""

from __future__ import annotations

from typing import Any, Protocol

from resumable_nb.execution import Execution
from resumable_nb.output import Recorder


class Shell(Protocol):
    """Where output is shown: the IPython hooks."""

    def record(self) -> Recorder: ...
    def replay(self, outputs: list[dict[str, Any]]) -> None: ...
    def announce(self, execution: Execution) -> None: ...
    def execute(self, text: str) -> None: ...
    def can_execute(self, text: str) -> bool: ...
