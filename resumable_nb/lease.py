"""The right to write to a task: one owner, a fresh token for each acquisition, and a heartbeat."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec
import psutil

from resumable_nb.errors import LeaseLost, StoreUnavailable, TaskBusy
from resumable_nb.events import Bus
from resumable_nb.model import MISSING, Missing, Owner
from resumable_nb.store.base import Read, Store

ROW: Final = "lease"
BEAT_S: Final = 5.0
TTL_S: Final = 30.0

Life = Literal["alive", "dead", "unknown"]


def process_started(pid: int) -> str | Missing:
    """When the process started, in the kernel's own unit: what tells it from a later one with its number.

    ``MISSING`` where it has ended, also where its parent did not collect it yet.
    """
    try:
        # The name in parentheses may hold anything; the fields follow the last one.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return MISSING if fields[0] in "ZX" else fields[19]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return MISSING
    except ProcessLookupError:
        return MISSING
    try:
        process = psutil.Process(pid)
        return MISSING if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.NoSuchProcess:
        return MISSING


def boot_id() -> str:
    """This boot of this machine, and the space in which its process numbers count (containers have their own)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"  # noqa: PTH116  # the link's target, in one call
    except OSError:
        return str(int(psutil.boot_time()))


def machine_id() -> str:
    """This machine over all its boots, or empty where it does not say."""
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process runs."""

    host: str
    machine: str
    boot: str

    @classmethod
    def here(cls) -> Place:
        return cls(host=socket.gethostname(), machine=machine_id(), boot=boot_id())


class Lease:
    """Held from the first write until ``release``, loss or death."""

    def __init__(
        self,
        store: Store,
        *,
        run: str,
        bus: Bus | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        place: Place | None = None,
        beat_s: float = BEAT_S,
        ttl_s: float = TTL_S,
    ) -> None:
        self._store = store
        self._run = run
        self._bus = bus or Bus()
        self._clock = clock
        self._wall_clock = wall_clock
        self._place = place or Place.here()
        self._beat_s = beat_s
        self._ttl_s = ttl_s
        self._lock = threading.RLock()
        self._taken: Owner | None = None
        self._mine: Owner | None = None
        self._lost: Owner | Missing | None = None
        self._seen: tuple[str, int, float] | None = None
        """Another host's token and heartbeat, and when this one first saw them, on its own clock."""
        self._stop = threading.Event()
        self._heart: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<Lease {self._store.uri} {'held' if self.held else 'not held'}>"

    @property
    def held(self) -> bool:
        """Whether this process owned the task when it last looked."""
        return self._mine is not None and self._lost is None and self._mine.pid == os.getpid()

    def owner(self) -> Owner | Missing:
        """Who holds the lease, dead or alive."""
        return _decode(self._store.get(ROW))

    def life(self, owner: Owner) -> Life:
        """What can be known at once about an owner: ``unknown`` for one on another machine."""
        if owner.boot_id == self._place.boot:
            return "alive" if process_started(owner.pid) == owner.pid_started else "dead"
        rebooted = bool(owner.machine) and (owner.machine, owner.host) == (self._place.machine, self._place.host)
        # A container shares the machine's boot, but not its process numbers.
        same_boot = owner.boot_id.partition("/")[0] == self._place.boot.partition("/")[0]
        return "dead" if rebooted and not same_boot else "unknown"

    def ensure(self) -> None:
        """Own the task. Raises ``TaskBusy`` where another owner lives, ``LeaseLost`` where this one was replaced."""
        with self._lock:
            if self._lost is not None:
                raise self._loss(self._lost)
            if self.held:
                return

            def take(row: bytes | Missing) -> bytes:
                last = _decode(row, released=True)
                # Where an interrupt came between the commit and its return, the owner is this lease already.
                if not self._is_own(last):
                    self._refuse_living(last)
                    self._taken = self._new_owner(1 if last is MISSING else last.epoch + 1)
                return msgspec.json.encode(self._taken)

            self._store.update(ROW, take)
            self._mine = self._taken
            self._start_heart()
        self._bus.emit("lease.acquired")

    def guard(self, read: Read) -> None:
        """For ``Store.commit``: refuse the write of a process that does not own the task."""
        mine = self._mine
        if mine is None or mine.pid != os.getpid():
            raise LeaseLost(
                f"this process (pid {os.getpid()}) does not own the task in {self._store.uri}; nothing was written. "
                "Write from the kernel itself, not from a process that it forked",
                uri=self._store.uri,
            )
        owner = _decode(read(ROW))
        if owner is MISSING or owner.token != mine.token:
            self._lost = owner
            raise self._loss(owner)

    def beat(self) -> None:
        """One heartbeat: says to other hosts that this process lives. Raises ``LeaseLost``."""

        def bump(row: bytes | Missing) -> bytes:
            self.guard(lambda _: row)
            assert self._mine is not None
            self._mine = msgspec.structs.replace(self._mine, beat=self._mine.beat + 1, beat_at=self._wall_clock())
            return msgspec.json.encode(self._mine)

        self._store.update(ROW, bump, durable=False)

    def release(self) -> None:
        """Let go of the task, if it is held; stops the heartbeat."""
        with self._lock:
            self._stop.set()
            if self._heart is not None and self._heart is not threading.current_thread():
                self._heart.join()
            self._heart = None
            if self.held:
                assert self._mine is not None
                # The row stays, for its epoch.
                free = msgspec.structs.replace(self._mine, token="")
                with contextlib.suppress(LeaseLost):
                    self._store.commit({ROW: msgspec.json.encode(free)}, guard=self.guard, durable=False)
            self._mine = None

    def _is_own(self, owner: Owner | Missing) -> bool:
        mine = self._taken
        return mine is not None and owner is not MISSING and owner.token == mine.token and mine.pid == os.getpid()

    def _new_owner(self, epoch: int) -> Owner:
        now, started = self._wall_clock(), process_started(os.getpid())
        assert started is not MISSING, "this process runs"
        return Owner(
            token=secrets.token_hex(16),
            epoch=epoch,
            pid=os.getpid(),
            pid_started=started,
            boot_id=self._place.boot,
            host=self._place.host,
            machine=self._place.machine,
            run=self._run,
            since=now,
            beat_at=now,
        )

    def _refuse_living(self, last: Owner | Missing) -> None:
        if last is MISSING or not last.token:
            return
        match self.life(last):
            case "dead":
                return
            case "alive":
                where, age_s = "this machine", max(0.0, self._wall_clock() - last.beat_at)
                advice = f"shut that kernel down, or end process {last.pid}, and run the cell again"
            case "unknown":
                # Two machines' clocks can't be compared; how long the counter stands still can be timed here.
                where, age_s = last.host, self._unchanged_s(last)
                if age_s >= self._ttl_s:
                    return
                rest_s = math.ceil(self._ttl_s - age_s)
                advice = (
                    f"shut that kernel down; if it is dead already, run the cell again in {rest_s} s: a heartbeat that "
                    "stands still that long frees the task"
                )
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(last.since))
        raise TaskBusy(
            f"the task in {self._store.uri} is held by pid {last.pid} on {where} since {since} "
            f"(heartbeat {last.beat}, {age_s:.0f} s ago); {advice}",
            pid=last.pid,
            host=last.host,
            since=last.since,
            heartbeat_age_s=age_s,
            owner=last,
        )

    def _unchanged_s(self, owner: Owner) -> float:
        now = self._clock()
        if self._seen is None or self._seen[:2] != (owner.token, owner.beat):
            self._seen = (owner.token, owner.beat, now)
        return now - self._seen[2]

    def _loss(self, owner: Owner | Missing) -> LeaseLost:
        who = "nobody" if owner is MISSING else f"pid {owner.pid} on {owner.host}"
        return LeaseLost(
            f"this kernel lost the task in {self._store.uri}, which {who} holds now; nothing was written. "
            "Go on in that kernel, or end it, restart this one and run all cells: finished steps are skipped",
            uri=self._store.uri,
            owner=None if owner is MISSING else owner,
        )

    def _start_heart(self) -> None:
        self._stop = threading.Event()
        self._heart = threading.Thread(
            target=self._beat_on, args=(self._stop,), name="resumable_nb heartbeat", daemon=True
        )
        self._heart.start()

    def _beat_on(self, stop: threading.Event) -> None:
        while not stop.wait(self._beat_s):
            try:
                self.beat()
            except LeaseLost:
                return
            except StoreUnavailable:
                continue  # a full disk may be freed before other hosts give this one up


def _decode(row: bytes | Missing, *, released: bool = False) -> Owner | Missing:
    if row is MISSING:
        return MISSING
    owner = msgspec.json.decode(row, type=Owner)
    return owner if owner.token or released else MISSING
