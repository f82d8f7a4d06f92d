"""``resumable demo``: a notebook's kernel is killed again and again, and the ledger of its shop is the judge."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from resumable_nb import session
from resumable_nb.cli import tables, verdict
from resumable_nb.errors import UsageError
from resumable_nb.supervisor import Report, run_notebook
from resumable_nb.task import Task

NOTEBOOK: Final = "orders.ipynb"
FILES: Final = (NOTEBOOK, "shop.py", "purchases.txt")
CHARGED_FROM_CENTS: Final = 100_00
PARCELS: Final = 20
LATENCY_S: Final = 0.02
SLOW_S: Final = 60.0
NEAR: Final = 4


def play(*, seed: int | None, kills: int, keep: Path | None) -> int:
    """Play the demonstration; 0 when the ledger shows every effect, and each of them once."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("demo: its notebook draws a figure: pip install 'resumable-nb[demo]'")
    seed = random.SystemRandom().randrange(1000) if seed is None else seed
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise UsageError(f"demo: {keep} is not empty; choose a new folder")
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resumable-demo-")))
        shop = set_up(folder.resolve())
        expected = expected_effects(shop)
        killer = Killer(shop, folder / shop.LEDGER, plan_kills(seed, kills, expected))
        click.echo(f"Shop and notebook in {folder} (seed {seed}); {kills} kernels will be killed.")
        stack.enter_context(_open_shop(folder, killer.slow))
        report, settled = _run(folder, killer)
        ledger = shop.read_ledger(folder / shop.LEDGER)
        with session.opened(Path(NOTEBOOK).stem, folder / session.STORE_FOLDER, live={}) as found:
            calls, steps = found.journal.calls(), found.journal.steps()
    click.echo(
        f"{len(report.pids)} kernels, {len(killer.done)} of them killed, in {tables.seconds(report.duration_s)}.\n"
    )
    verdict.show_ledger(expected, ledger)
    verdict.show_steps(steps, calls)
    click.echo(verdict.balance(steps, calls, report.notebooks, settled=settled))
    wrong = verdict.differences(expected, ledger)
    if report.status != "completed":
        click.echo(tables.run_report(report), err=True)
    elif wrong:
        click.echo(f"WRONG: {'; '.join(wrong)}", err=True)
    else:
        click.echo("Every effect is in the shop's ledger, and none of them twice.")
    return 0 if report.status == "completed" and not wrong else 1


def examples() -> Path:
    """Where the notebook and the shop lie: in the installed package, or beside it in a checkout."""
    packed = Path(__file__).parent / "examples"
    return packed if packed.is_dir() else Path(__file__).parent.parent.parent / "examples"


def set_up(folder: Path) -> Any:
    """Copy the notebook and the shop; returns the shop's module."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy(examples() / name, folder / name)
    spec = importlib.util.spec_from_file_location("resumable_demo_shop", folder / "shop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def expected_effects(shop: Any) -> verdict.Expected:
    """What the ledger has to hold in the end, worked out without the notebook."""
    cents: Counter[str] = Counter()
    for order in shop.read_purchases():
        cents[order["customer"]] += round(float(order["total"][1:]) * 100)
    bills = {customer: total for customer, total in cents.items() if total >= CHARGED_FROM_CENTS}
    best = sorted(bills, key=lambda customer: (-bills[customer], customer))[:PARCELS]
    return {
        "page": [str(page) for page in range(1, shop.PAGES + 1)],
        "charge": [f"bill {customer}" for customer in bills],
        "parcel": [f"gift {customer}" for customer in best],
        "confirmation": [f"bill {customer}" for customer in bills],
    }


@dataclass(frozen=True, slots=True)
class Kill:
    """When the ledger holds ``n`` effects of a kind, and ``delay_s`` later. No delay: certainly inside the call."""

    kind: str
    n: int
    delay_s: float

    @property
    def inside(self) -> bool:
        return not self.delay_s


def plan_kills(seed: int, kills: int, expected: verdict.Expected) -> list[Kill]:
    """The first kill is inside a charge, the second inside a parcel, the others anywhere."""
    chance = random.Random(seed)  # noqa: S311  # a game of chance
    inside = [Kill(kind, chance.randrange(5, len(expected[kind]) - 5), 0.0) for kind in ("charge", "parcel")][:kills]
    anywhere: list[Kill] = []
    while len(inside) + len(anywhere) < kills:
        kind = chance.choice(list(expected))
        kill = Kill(kind, chance.randrange(1, len(expected[kind])), chance.uniform(LATENCY_S / 10, 4 * LATENCY_S))
        # Apart from those inside: its delay could run into the late answer that another kill waits for.
        if all(each.kind != kind or abs(each.n - kill.n) > NEAR for each in inside):
            anywhere.append(kill)
    order = list(expected)
    return sorted(inside + anywhere, key=lambda kill: (order.index(kill.kind), kill.n, kill.delay_s))


@dataclass
class Killer:
    """Watches the ledger, and kills the kernel at the planned instants."""

    shop: Any
    ledger: Path
    plan: list[Kill]
    done: list[Kill] = field(default_factory=list)
    current: int = 0

    @property
    def slow(self) -> list[str]:
        """Effects that the shop answers so late that the kernel certainly dies inside the call."""
        return [f"{kill.kind}:{kill.n}" for kill in self.plan if kill.inside]

    def on_kernel(self, pid: int) -> None:
        click.echo(f"  kernel {pid} started: Run All")
        self.current = pid
        if self.plan:
            threading.Thread(target=self._watch, args=(pid, self.plan[0]), daemon=True).start()

    def _watch(self, pid: int, kill: Kill) -> None:
        """Wait for the planned effect, and for one at least of this kernel's own."""
        before = seen = self._size()
        while True:
            if self.current != pid:
                return
            if self._size() != seen:
                seen = self._size()
                counts = Counter(record["kind"] for record in self.shop.read_ledger(self.ledger))
                if counts[kill.kind] >= kill.n and seen > before:
                    break
            time.sleep(0.002)
        time.sleep(kill.delay_s)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.done.append(self.plan.pop(0))
            click.echo(f"  kernel {pid} killed {_place(kill, counts)}")

    def _size(self) -> int:
        return self.ledger.stat().st_size if self.ledger.exists() else 0


def _place(kill: Kill, counts: Counter[str]) -> str:
    what = {"page": "page", "charge": "charge", "parcel": "parcel", "confirmation": "letter"}[kill.kind]
    if kill.inside:
        return f"inside {what} {counts[kill.kind]}: the shop has done it, and has not answered"
    return f"{kill.delay_s * 1000:.0f} ms after {what} {counts[kill.kind]}"


@contextlib.contextmanager
def _open_shop(folder: Path, slow: list[str]) -> Iterator[None]:
    command = [sys.executable, "shop.py", "--latency-s", str(LATENCY_S), "--slow-s", str(SLOW_S), "--slow", *slow]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL) as process:  # noqa: S603  # our own file
        try:
            # A notebook that came before the shop would open one of its own.
            while not (folder / "shop.port").exists():
                if process.poll() is not None:
                    raise UsageError(f"demo: the shop did not open (exit status {process.returncode})")
                time.sleep(0.02)
            yield
        finally:
            process.terminate()


def _run(folder: Path, killer: Killer) -> tuple[Report, int]:
    """Run All until nothing is left to do. Calls that only a person can settle are looked up in the ledger."""
    settled = 0
    ended: list[Report] = []
    began_s = time.monotonic()
    while True:
        report = run_notebook(
            folder / NOTEBOOK, on_kernel=killer.on_kernel, max_restarts=len(killer.plan) + 3, output=folder / NOTEBOOK
        )
        killer.current = 0
        ended.append(report)
        if report.error is None or report.error.name != "InDoubt" or settled > len(killer.done):
            return _joined(ended, time.monotonic() - began_s), settled
        click.echo(f"  stopped: {report.error.value.partition('. Find out')[0]}")
        settled += _settle(folder, killer)


def _joined(reports: list[Report], duration_s: float) -> Report:
    """As one report, that ends as the last one."""
    pids = tuple(pid for report in reports for pid in report.pids)
    notebooks = tuple(notebook for report in reports for notebook in report.notebooks)
    return dataclasses.replace(reports[-1], pids=pids, notebooks=notebooks, duration_s=duration_s)


def _settle(folder: Path, killer: Killer) -> int:
    """Do what a person would: look whether the effect is in the shop's books, and say so."""
    records = killer.shop.read_ledger(killer.ledger)
    count = 0
    with session.opened(Path(NOTEBOOK).stem, folder / session.STORE_FOLDER, live={}) as found:
        task = Task(found)
        for call in filter(task.in_doubt, found.journal.calls()):
            reference = call.arguments["reference"].strip("'\"")
            made = [record for record in records if record["kind"] == "parcel" and record["key"] == reference]
            task.resolve(call.id, bool(made), made[0] if made else None)
            click.echo(f"  the books say it {'happened' if made else 'did not happen'}: resumable resolve {call.id} …")
            count += 1
    return count
