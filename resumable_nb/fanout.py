"""``task().map``: one tool over many items at once, each call durable by itself."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from queue import SimpleQueue
from typing import Any, Final, Literal

from resumable_nb import calls, codec, scope
from resumable_nb.desk import Desk
from resumable_nb.drive import Course, Invoke, Outcome, Raised, Returned, drive, drive_async
from resumable_nb.errors import CallError, Diverged, ResumableError, Stopped, StoppedTask, UsageError, ValueUnavailable
from resumable_nb.pool import Pool
from resumable_nb.tooldef import Tool

Errors = Literal["raise", "collect"]
Landing = tuple[int, Outcome]
UNFINISHED: Final = Raised(RuntimeError("not started"))


class FanOut:
    """One ``map``: what is asked for, in order, and what has come of it."""

    def __init__(
        self,
        call: Callable[..., Any],
        items: Iterable[Any],
        desk: Desk,
        *,
        concurrency: int,
        errors: Errors,
        label: str | None,
        star: bool,
    ) -> None:
        definition = getattr(getattr(call, "__tool__", call), "tool", None)
        if not isinstance(definition, Tool):
            raise UsageError(f"map takes a function marked with @tool, not {call!r}")
        if errors not in ("raise", "collect"):
            raise UsageError(f'map(errors={errors!r}): there are "raise" and "collect"')
        if not isinstance(concurrency, int) or concurrency < 1:
            raise UsageError(f"map(concurrency={concurrency!r}) is not a number of calls at a time")
        self.tool, self.desk, self.concurrency = definition, desk, concurrency
        self.label = label or definition.name
        self._first = (call.__self__,) if inspect.ismethod(call) else ()
        self._items, self._star, self._collect = items, star, errors == "collect"
        self._total = len(items) if isinstance(items, Sized) else None
        self._scope = scope.current()
        self._loop = f"{self.label}#{self._scope.next_ordinal(f'track {self.label}') + 1}"
        self._started_s = time.monotonic()
        self._outcomes: list[Outcome] = []
        self._done = self._recorded = 0
        self._fatal: BaseException | None = None
        self._failed = False
        self._tell()

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.tool.function)

    @property
    def over(self) -> bool:
        """Whether no further call is to be begun."""
        return self._fatal is not None or (self._failed and not self._collect)

    def indexed(self) -> Iterator[tuple[int, Any]]:
        """The items; a place for the outcome of each."""
        for i, item in enumerate(self._items):
            self._outcomes.append(UNFINISHED)
            yield i, item

    def course(self, item: Any) -> Course | Raised:
        """The call of one item, its identity claimed; or what is wrong with its arguments."""
        args, kwargs = self._arguments(item)
        try:
            return calls.course(self.tool, self.desk, (*self._first, *args), kwargs)
        except Exception as error:
            return Raised(error)

    def _arguments(self, item: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        if not self._star:
            return (item,), {}
        return ((), item) if isinstance(item, Mapping) else (tuple(item), {})

    def land(self, i: int, outcome: Outcome) -> None:
        """The call of item ``i`` is over."""
        if isinstance(outcome, Returned) and isinstance(outcome.value, codec.Unsent):
            outcome = Raised(ValueUnavailable(f"{self.tool.name} is done for item {i}: {outcome.value.why}"))
        self._outcomes[i] = outcome
        self._done += 1
        self._recorded += isinstance(outcome, Returned) and outcome.recorded
        if isinstance(outcome, Raised):
            self._failed = True
            if self._fatal is None and _is_fatal(outcome.error):
                self._fatal = outcome.error
        self._tell()

    def results(self) -> list[Any]:
        """In the order of the items; raises what has to be raised."""
        self._tell(ended=True)
        if self._fatal is not None:
            raise self._fatal
        errors = [outcome.error for outcome in self._outcomes if isinstance(outcome, Raised)]
        if self._failed and not self._collect:
            failed = [error for error in errors if error is not UNFINISHED.error]
            rest = "" if self._total is None else f" of {self._total}"
            failed[0].add_note(
                f"(map over {self.label}: {self._done} items{rest} were begun, {len(failed)} failed; finished ones are "
                "not made again)"
            )
            raise failed[0]
        return [outcome.error if isinstance(outcome, Raised) else outcome.value for outcome in self._outcomes]

    def interrupted(self, error: BaseException, running: int) -> None:
        if running and not isinstance(error, Stopped):
            error.add_note(
                f"(map over {self.label}: {running} calls are still under way in threads; what they return is "
                "recorded, and running this again waits for them)"
            )
        self._tell(ended=True)

    def _tell(self, *, ended: bool = False) -> None:
        self.desk.bus.emit(
            "track.turn",
            self._scope.id,
            loop=self._loop,
            label=self.label,
            done=self._done,
            total=self._total,
            resumed_at=self._recorded,  # they say nothing about speed
            elapsed_s=time.monotonic() - self._started_s,
            ended=ended,
        )


def _is_fatal(error: BaseException) -> bool:
    """Whether it is not about one item: an interrupt, a lost lease, a store that cannot be written."""
    if isinstance(error, ResumableError):
        return isinstance(error, Diverged) or not isinstance(error, CallError)
    return not isinstance(error, Exception)


def fan_out(fan: FanOut, executor: Any = None) -> list[Any]:
    """In threads of this process, which wait for ``executor`` where one is given."""
    if fan.is_async:
        raise UsageError(f"{fan.tool.name} is async: `await task().amap({fan.tool.name}, …)`")
    place = _place(executor, fan.tool)
    limit = fan.concurrency if place is None or place.workers is None else min(fan.concurrency, place.workers)
    landed: SimpleQueue[Landing] = SimpleQueue()
    running = 0
    try:
        for i, item in fan.indexed():
            while running >= limit:
                fan.land(*landed.get())
                running -= 1
            fan.desk.checkpoint(fan.label)
            if fan.over:
                break
            course = fan.course(item)
            if isinstance(course, Raised):
                fan.land(i, course)
                continue
            _start(i, course, fan.desk, None if place is None else place.invoke, landed)
            running += 1
        while running:
            fan.land(*landed.get())
            running -= 1
    except BaseException as error:
        while running and isinstance(error, (Exception, Stopped)):  # nothing presses: let them end
            fan.land(*landed.get())
            running -= 1
        fan.interrupted(error, running)
        raise
    return fan.results()


def _start(
    i: int, course: Course, desk: Desk, invoke: Callable[[Invoke], Outcome] | None, landed: SimpleQueue[Landing]
) -> None:
    context = contextvars.copy_context()

    def fly() -> None:
        try:
            outcome = context.run(drive, course, desk.sleep, invoke)
        except BaseException as error:
            outcome = Raised(error)
        landed.put((i, outcome))

    # A daemon, so that a call which hangs does not keep the kernel from ending.
    threading.Thread(target=fly, name=f"resumable_nb map {i}", daemon=True).start()


def _place(executor: Any, tool: Tool) -> Any:
    if executor is None:
        return None
    if isinstance(executor, _classes("distributed", "Client")):
        from resumable_nb.cluster import Cluster

        return Cluster(executor, tool)
    if isinstance(executor, _classes("distributed.cfexecutor", "ClientExecutor")):
        raise UsageError("map(executor=client.get_executor()) could call twice; give the Dask client itself")
    if isinstance(executor, concurrent.futures.Executor):
        return Pool(executor, tool)
    raise UsageError(f"map(executor={executor!r}): give a concurrent.futures executor, or a Dask client")


def _classes(module: str, name: str) -> tuple[type, ...]:
    """The class, if its library is loaded: else nothing is an object of it."""
    return (getattr(sys.modules[module], name),) if module in sys.modules else ()


async def fan_out_async(fan: FanOut) -> list[Any]:
    """In tasks of the running loop."""
    if not fan.is_async:
        raise UsageError(f"{fan.tool.name} is not async: `task().map({fan.tool.name}, …)`")
    running: dict[asyncio.Task[Outcome], int] = {}

    async def land() -> None:
        ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for each in ended:
            fan.land(running.pop(each), each.result())

    async def begin() -> None:
        for i, item in fan.indexed():
            while len(running) >= fan.concurrency:
                await land()
            await fan.desk.checkpoint_async(fan.label)
            if fan.over:
                break
            course = fan.course(item)
            if isinstance(course, Raised):
                fan.land(i, course)
            else:
                running[asyncio.create_task(_fly_async(course, fan.desk))] = i

    try:
        try:
            await begin()
        except (Exception, Stopped, StoppedTask):  # nothing presses: let them end
            while running:
                await land()
            raise
        while running:
            await land()
    except BaseException as error:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)  # each says that it is in doubt
        fan.interrupted(error, 0)
        raise
    return fan.results()


async def _fly_async(course: Course, desk: Desk) -> Outcome:
    try:
        return await drive_async(course, desk.sleep_async)
    except (Exception, asyncio.CancelledError) as error:
        return Raised(error)
