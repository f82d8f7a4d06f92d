"""What an error of a tool says about its effect, and how long to wait before the next try."""

from __future__ import annotations

import asyncio
import concurrent.futures
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import tenacity

Errors = tuple[type[BaseException], ...]

Verdict = Literal["doubt", "retry", "failed"]
"""The effect may have happened · it has not, or may be repeated · it counts as not happened, and the error stands."""

_LOST: Final[tuple[tuple[str, str], ...]] = (
    ("aiohttp", "ClientConnectionError"),
    ("aiohttp", "ClientPayloadError"),
    ("http.client", "HTTPException"),
    ("httpx", "TransportError"),
    ("requests", "RequestException"),
    ("subprocess", "TimeoutExpired"),
    ("urllib3.exceptions", "HTTPError"),
)
"""Errors, by module and name, after which the receiver may have acted. Looked up only where the module is loaded."""

_chance: Final = random.SystemRandom()
"""Not the generator that everybody shares: what the notebook draws must not depend on how often a call was tried."""


@dataclass(frozen=True, kw_only=True)
class Retry:
    """When a tool is tried again. ``retries`` counts the tries after the first one."""

    retries: int = 0
    retry_on: Errors = ()
    first_s: float = 0.5
    longest_s: float = 60.0

    def pause_s(self, tries: int, error: BaseException) -> float | None:
        """Seconds before the next try, after ``tries`` of them have failed; ``None``: no more tries."""
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.retries + 1),
            wait=tenacity.wait_exponential(self.first_s, max=self.longest_s),
        )
        state = tenacity.RetryCallState(retrying, fn=None, args=(), kwargs={})
        state.attempt_number = tries
        state.set_exception((type(error), error, error.__traceback__))
        return None if retrying.stop(state) else float(retrying.wait(state)) + _chance.uniform(0, self.first_s)


def judge(
    error: BaseException, *, timed_out: bool, repeatable: bool, retry_on: Errors, unsure: Errors, terminal: Errors
) -> Verdict:
    """``timed_out``: we gave up waiting, so the function may still be at work."""
    if not isinstance(error, Exception):
        return "doubt"
    if timed_out and not repeatable:
        return "doubt"
    if isinstance(error, retry_on):
        return "failed" if isinstance(error, terminal) else "retry"
    if not repeatable and may_have_happened(error, unsure):
        return "doubt"
    return "failed"


def may_have_happened(error: BaseException, unsure: Errors = ()) -> bool:
    """Whether the error, or one that it was raised from, is of a lost connection, a time-out or a cancellation."""
    lost: Errors = (ConnectionError, TimeoutError, asyncio.CancelledError, concurrent.futures.CancelledError)
    lost = (*lost, *_loaded(), *unsure)
    return isinstance(error, OSError) or any(isinstance(each, lost) for each in _causes(error))


def _loaded() -> Iterator[type[BaseException]]:
    for module, name in _LOST:
        found = getattr(sys.modules.get(module), name, None)
        if isinstance(found, type) and issubclass(found, BaseException):
            yield found


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from, and the members of groups."""
    seen: set[int] = set()
    todo: list[BaseException] = [error]
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        todo.extend(cause for cause in (each.__cause__, each.__context__) if cause is not None)
        if isinstance(each, BaseExceptionGroup):
            todo.extend(each.exceptions)
