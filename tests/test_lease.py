"""One owner at a time, known by more than its process number."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from resumable_nb.errors import LeaseLost, StoreUnavailable, TaskBusy
from resumable_nb.events import Bus
from resumable_nb.lease import ROW, Lease, Place, process_started
from resumable_nb.model import MISSING, Missing, Owner
from resumable_nb.store.disk import DiskStore
from resumable_nb.store.memory import MemoryStore

HERE = Place.here()
ELSEWHERE = Place(host="elsewhere", machine="another machine", boot="another boot/1")


class FakeClock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def make(store: MemoryStore) -> Iterator[Callable[..., Lease]]:
    """Makes leases without a heartbeat of their own, and stops them."""
    made: list[Lease] = []

    def make(**options: object) -> Lease:
        made.append(Lease(store, run="run", **{"beat_s": 10_000.0, **options}))
        return made[-1]

    yield make
    for each in made:
        each.release()


Make = Callable[..., Lease]


def owner_of(lease: Lease) -> Owner:
    owner = lease.owner()
    assert isinstance(owner, Owner)
    return owner


def put_owner(store: MemoryStore, owner: Owner, **changes: object) -> Owner:
    changed = msgspec.structs.replace(owner, token="theirs", **changes)
    store.commit({ROW: msgspec.json.encode(changed)})
    return changed


def template() -> Owner:
    """An owner that is this process, under another token."""
    lease = Lease(MemoryStore(), run="theirs", beat_s=10_000)
    lease.ensure()
    owner = owner_of(lease)
    lease.release()
    return owner


# -- taking and letting go


def test_lease_is_taken_at_the_first_need(store: MemoryStore, make: Make) -> None:
    bus, wall = Bus(), FakeClock(1_700_000_000.0)
    events: list[str] = []
    bus.listen(lambda event: events.append(event.kind))
    lease = make(bus=bus, wall_clock=wall)
    assert not lease.held
    assert lease.owner() is MISSING
    assert not store.exists()
    lease.ensure()
    lease.ensure()
    assert lease.held
    assert events == ["lease.acquired"]
    owner = owner_of(lease)
    assert (owner.pid, owner.host, owner.run, owner.since) == (os.getpid(), HERE.host, "run", wall.now)
    assert owner.pid_started == process_started(os.getpid())


def test_each_acquisition_has_its_own_token_and_a_higher_epoch(make: Make) -> None:
    lease, seen = make(), []
    for _ in range(3):
        lease.ensure()
        seen.append(owner_of(lease))
        lease.release()
        assert not lease.held
        assert lease.owner() is MISSING
    assert [each.epoch for each in seen] == [1, 2, 3]
    assert len({each.token for each in seen}) == 3


def test_only_the_holder_writes(store: MemoryStore, make: Make) -> None:
    lease = make()
    with pytest.raises(LeaseLost):
        store.commit({"a": b"1"}, guard=lease.guard)
    lease.ensure()
    store.commit({"a": b"2"}, guard=lease.guard)
    lease.release()
    with pytest.raises(LeaseLost):
        store.commit({"a": b"3"}, guard=lease.guard)
    assert store.get("a") == b"2"


def test_second_lease_in_the_same_process_is_refused(make: Make) -> None:
    make().ensure()
    with pytest.raises(TaskBusy, match=f"pid {os.getpid()} on this machine"):
        make().ensure()


def test_late_kernel_cannot_commit(store: MemoryStore, make: Make) -> None:
    """Taken over while it slept: nothing of its write happens, and it does not come back by itself."""
    late, heir = make(place=ELSEWHERE), make(clock=(clock := FakeClock()))
    late.ensure()
    with pytest.raises(TaskBusy):
        heir.ensure()
    clock.now += 30
    heir.ensure()
    with pytest.raises(LeaseLost, match=f"pid {os.getpid()} on {HERE.host}.*restart") as error:
        store.commit({"a": b"late", "b": b"late"}, guard=late.guard)
    assert error.value.owner == owner_of(heir)
    assert list(store.keys("")) == [ROW]
    assert not late.held
    with pytest.raises(LeaseLost):
        late.ensure()
    with pytest.raises(LeaseLost):
        late.beat()
    late.release()
    assert heir.held
    store.commit({"a": b"heir"}, guard=heir.guard)


def test_interrupt_while_taking_is_no_second_owner() -> None:
    """The stop button just when the row was written: the same lease takes it up, instead of finding itself busy."""

    class Interrupted(MemoryStore):
        def update(self, key: str, change: Callable[[bytes | Missing], bytes], *, durable: bool = True) -> bytes:
            row = super().update(key, change, durable=durable)
            if first:
                raise first.pop()
            return row

    first = [KeyboardInterrupt()]
    store = Interrupted()
    lease = Lease(store, run="run", beat_s=10_000)
    with pytest.raises(KeyboardInterrupt):
        lease.ensure()
    assert not lease.held
    lease.ensure()
    assert owner_of(lease).epoch == 1
    store.commit({"a": b"1"}, guard=lease.guard)
    lease.release()


def test_vanished_row_is_a_loss(store: MemoryStore, make: Make) -> None:
    lease = make()
    lease.ensure()
    store.commit({}, [ROW])
    with pytest.raises(LeaseLost, match="nobody"):
        store.commit({"a": b"1"}, guard=lease.guard)
    assert not lease.held


# -- who is alive


def test_process_number_that_came_again_is_not_the_owner(store: MemoryStore, make: Make) -> None:
    """This process has the recorded number, but started at another time: the recorded one is dead."""
    put_owner(store, template(), pid_started="1")
    lease = make()
    lease.ensure()
    assert lease.held


def test_dead_process_is_dead_before_its_parent_looks(make: Make) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert process_started(child.pid) is not MISSING
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_started(child.pid) is MISSING, "a zombie holds nothing"
    child.communicate()
    assert process_started(child.pid) is MISSING


def test_owner_from_before_a_reboot_is_dead(store: MemoryStore, make: Make) -> None:
    place = Place(host="here", machine="this one", boot="second/1")
    put_owner(store, template(), host="here", machine="this one", boot_id="first/1")
    make(place=place).ensure()


@pytest.mark.parametrize(
    ("machine", "boot"),
    [
        ("", "first/1"),  # two machines of one name, neither of which says which it is
        ("this one", "second/2"),  # a container: the same boot, other process numbers
        ("other one", "first/1"),
    ],
)
def test_owner_that_cannot_be_seen_is_watched(store: MemoryStore, make: Make, machine: str, boot: str) -> None:
    put_owner(store, template(), host="here", machine=machine, boot_id=boot)
    clock = FakeClock()
    lease = make(place=Place(host="here", machine=machine and "this one", boot="second/1"), clock=clock)
    with pytest.raises(TaskBusy):
        lease.ensure()
    clock.now += 30
    lease.ensure()


def test_other_host_is_timed_by_the_observers_clock(store: MemoryStore, make: Make) -> None:
    """The owner's own times count for nothing: here they lie in the far future."""
    owner = put_owner(store, template(), host="elsewhere", boot_id="b/1", since=9e9, beat_at=9e9)
    clock = FakeClock()
    lease = make(clock=clock)

    def refused(age_s: float, advice: str) -> None:
        with pytest.raises(TaskBusy, match="on elsewhere since") as error:
            lease.ensure()
        assert (error.value.pid, error.value.host, error.value.since) == (owner.pid, "elsewhere", 9e9)
        assert error.value.heartbeat_age_s == age_s
        assert advice in str(error.value)
        assert "\n" not in str(error.value)

    refused(0, "run the cell again in 30 s")
    clock.now += 29
    refused(29, "run the cell again in 1 s")
    put_owner(store, owner, beat=1)
    clock.now += 29
    refused(0, "run the cell again in 30 s")
    clock.now += 29.75
    refused(29.75, "shut that kernel down")
    clock.now += 0.25
    lease.ensure()
    assert owner_of(lease).epoch == owner.epoch + 1


def test_life_of_an_owner(make: Make) -> None:
    lease, owner = make(), template()
    assert lease.life(owner) == "alive"
    assert lease.life(msgspec.structs.replace(owner, pid_started="1")) == "dead"
    assert lease.life(msgspec.structs.replace(owner, boot_id="b/1", host="elsewhere")) == "unknown"


# -- heartbeats


def test_heartbeat_changes_the_row(make: Make) -> None:
    wall = FakeClock(50.0)
    lease = make(wall_clock=wall)
    lease.ensure()
    first = owner_of(lease)
    wall.now = 55.0
    lease.beat()
    assert owner_of(lease) == msgspec.structs.replace(first, beat=1, beat_at=55.0)


class Beats(MemoryStore):
    """Waits for heartbeats instead of for time; the n-th may fail."""

    def __init__(self, *, fail: int = -1) -> None:
        super().__init__()
        self.fail = fail
        self.durable: list[bool] = []
        self.enough = threading.Event()

    def update(self, key: str, change: Callable[[bytes | Missing], bytes], *, durable: bool = True) -> bytes:
        self.durable.append(durable)
        if len(self.durable) == self.fail:
            raise StoreUnavailable("the disk is full")
        try:
            return super().update(key, change, durable=durable)
        finally:
            if len(self.durable) > 4:
                self.enough.set()


def hearts() -> set[threading.Thread]:
    """The heartbeats of this process; other tests' leases may have left some."""
    return {each for each in threading.enumerate() if each.name == "resumable_nb heartbeat"}


@pytest.mark.parametrize("fail", [-1, 3])
def test_heart_beats_until_release(fail: int) -> None:
    """Also when the disk is full for a while. No heartbeat costs a sync."""
    store = Beats(fail=fail)
    before = hearts()
    lease = Lease(store, run="run", beat_s=0.001)
    lease.ensure()
    assert store.enough.wait(10)
    lease.release()
    assert store.durable[:5] == [True, False, False, False, False]
    assert hearts() <= before
    assert not lease.held


def test_heart_stops_when_the_lease_is_lost() -> None:
    store = Beats()
    before = hearts()
    lease = Lease(store, run="run", beat_s=0.001)
    lease.ensure()
    (heart,) = hearts() - before
    put_owner(store, template())
    heart.join(10)
    assert not heart.is_alive()
    assert not lease.held
    with pytest.raises(LeaseLost):
        lease.ensure()


# -- real processes


HOLDER = """
    import os, sys
    from resumable_nb.errors import TaskBusy
    from resumable_nb.lease import Lease
    from resumable_nb.store.disk import DiskStore

    store = DiskStore(sys.argv[1])
    lease = Lease(store, run="theirs")
    sys.stdin.readline()
    try:
        lease.ensure()
    except TaskBusy as error:
        print("busy", error.pid, flush=True)
        raise SystemExit
    store.commit({"who": str(os.getpid()).encode()}, guard=lease.guard)
    print("held", os.getpid(), flush=True)
    sys.stdin.read()
"""


def start_holder(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_killed_holder_frees_the_task_at_once(tmp_path: Path) -> None:
    with start_holder(tmp_path / "task") as holder:
        go(holder)
        assert answer(holder) == ["held", str(holder.pid)]
        store = DiskStore(tmp_path / "task")
        lease = Lease(store, run="mine")
        with pytest.raises(TaskBusy, match=f"held by pid {holder.pid} on this machine since .*end process") as error:
            lease.ensure()
        assert error.value.pid == holder.pid
        assert store.get("who") == str(holder.pid).encode()
        end(holder)
    lease.ensure()
    assert owner_of(lease).epoch == 2
    store.commit({"who": b"me"}, guard=lease.guard)
    lease.release()
    store.close()


@pytest.mark.sweep
def test_of_many_at_once_one_gets_it(tmp_path: Path) -> None:
    for turn in range(2):
        holders = [start_holder(tmp_path / "task") for _ in range(4)]
        for each in holders:
            go(each)
        answers = [answer(each) for each in holders]
        held = [pid for what, pid in answers if what == "held"]
        assert len(held) == 1, turn
        assert sorted(answers) == sorted([["busy", held[0]]] * 3 + [["held", held[0]]])
        for each in holders:
            end(each)


def test_forked_child_is_not_the_owner(tmp_path: Path) -> None:
    script = """
        import os, sys, warnings
        from resumable_nb.errors import LeaseLost, TaskBusy
        from resumable_nb.lease import Lease
        from resumable_nb.store.disk import DiskStore

        warnings.simplefilter("ignore", DeprecationWarning)
        store = DiskStore(sys.argv[1])
        lease = Lease(store, run="parent")
        lease.ensure()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                assert not lease.held
                for attempt, error in ((lambda: store.commit({"a": b"1"}, guard=lease.guard), LeaseLost),
                                       (lease.ensure, TaskBusy)):
                    try:
                        attempt()
                    except error as refused:
                        assert str(os.getppid()) in str(refused) or str(os.getpid()) in str(refused)
                    else:
                        os._exit(3)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        store.commit({"a": b"2"}, guard=lease.guard)
        lease.release()
        store.close()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "task")], check=True, timeout=60)
