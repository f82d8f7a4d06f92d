"""``resumable``: parse, one call, render. Errors are one line; exit 2 for a wrong use, 1 for a failure."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from resumable_nb.cli import transfer, upkeep
from resumable_nb.errors import ResumableError, UsageError
from resumable_nb.model import MISSING
from resumable_nb.wording import plain

if TYPE_CHECKING:
    from resumable_nb.session import Session
    from resumable_nb.task import Task

PATH = click.argument("path", type=click.Path(path_type=Path, exists=True), default=Path())
AT = click.option(
    "--at", "path", type=click.Path(path_type=Path, exists=True), default=Path(), help="Notebook, folder or store [.]."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Records as JSON instead of a table.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, and exit."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    try:
        return int(resumable.main(arguments, prog_name="resumable", standalone_mode=False) or 0)
    except click.ClickException as error:
        context = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "resumable"
        status, message = error.exit_code, f"{context}: {error.format_message()}"
    except UsageError as error:
        status, message = 2, f"resumable: {error.message}"
    except ResumableError as error:
        status, message = 1, f"resumable: {type(error).__name__}: {error.message}"
    except (KeyboardInterrupt, click.Abort):
        status, message = 130, "resumable: interrupted"
    except BrokenPipeError:  # `resumable history | head`
        sys.stderr.close()
        return 1
    click.echo(plain(message, 2000), err=True)
    return status


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version("resumable-nb"), prog_name="resumable")
def resumable() -> None:
    """Notebooks that survive: run them headless, and look at what they did.

    PATH is a notebook, its folder, a store, or a task's folder in a store; the default is this folder.
    """


@resumable.command("run", short_help="Run NOTEBOOK headless; when its kernel dies, go on.")
@click.argument("notebook", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--restarts", default=10, show_default=True, type=click.IntRange(min=0), help="Kernel deaths to survive.")
@click.option("--output", type=click.Path(path_type=Path), help="Where the executed notebook goes [NOTEBOOK itself].")
@click.option(
    "--cwd", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Where it runs [its folder]."
)
def run_command(notebook: Path, restarts: int, output: Path | None, cwd: Path | None) -> int:
    """Run NOTEBOOK headless; when the kernel dies, start another and go on.

    Exit status: 0 when all cells ran, 1 when one raised or the kernel died too often.
    """
    from resumable_nb import supervisor
    from resumable_nb.cli import tables

    pids: list[int] = []

    def on_kernel(pid: int) -> None:
        click.echo(f"kernel {pid} started{'; the one before it died' if pids else ''}", err=True)
        pids.append(pid)

    with _sigterm_stops():
        report = supervisor.run_notebook(
            notebook, cwd=cwd, on_kernel=on_kernel, max_restarts=restarts, output=output or notebook
        )
    click.echo(tables.run_report(report), err=report.status != "completed")
    return 0 if report.status == "completed" else 1


@resumable.command(short_help="Kill a notebook's kernel again and again.")
@click.option("--seed", type=int, help="Chooses the instants of the kills [a new one each time, printed].")
@click.option("--kills", default=5, show_default=True, type=click.IntRange(min=0, max=20), help="Kernels to kill.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Work in this new folder and leave it.")
def demo(seed: int | None, kills: int, keep: Path | None) -> int:
    """Kill a notebook's kernel again and again, and count what the shop saw.

    A real notebook fetches 60 pages from a shop, cleans the data, takes money, sends parcels and letters. Its kernel is
    killed at random instants, at least once inside a payment. The shop's own ledger is the judge: exit status 1
    when any effect is missing or happened twice.
    """
    from resumable_nb.cli import demo as play

    with _sigterm_stops():
        return play.play(seed=seed, kills=kills, keep=keep)


@resumable.command(short_help="The tasks at PATH: how far they are.")
@PATH
@JSON
def status(path: Path, as_json: bool) -> None:
    """The tasks at PATH: how far they are, and whether a kernel works on them."""
    from resumable_nb.cli import tables
    from resumable_nb.cli.place import tasks_at

    rows = []
    for place in tasks_at(path):
        with _open(place.path) as (session, task):
            rows.append(tables.status_row(place.path, session, task))
    _show(rows if as_json else tables.status(rows))


@resumable.command()
@PATH
@JSON
def steps(path: Path, as_json: bool) -> None:
    """The steps of the task at PATH."""
    from resumable_nb.cli import tables

    with _open(path) as (session, _):
        records = sorted(session.journal.steps(), key=lambda record: record.started_at)
        _show(tables.plain(records) if as_json else tables.steps(records, session.journal.calls()))


@resumable.command(short_help="The tool calls of the task at PATH.")
@PATH
@JSON
@click.option("--step", help="Only the calls of this step.")
def history(path: Path, as_json: bool, step: str | None) -> None:
    """The tool calls of the task at PATH, in the order in which they started."""
    from resumable_nb.cli import tables

    with _open(path) as (session, task):
        records = sorted(session.journal.calls(step), key=lambda record: record.started_at)
        _show(tables.plain(records) if as_json else tables.history(records, task.in_doubt))


@resumable.command(short_help="Why STEP ran the last time.")
@click.argument("step")
@AT
def why(step: str, path: Path) -> None:
    """Why STEP ran the last time: which part of what it depends on had changed."""
    with _open(path) as (_, task):
        click.echo("\n".join(plain(line, 1000) for line in task.why(step).lines()))


@resumable.command(short_help="Say whether CALL, which is in doubt, happened.")
@click.argument("call")
@click.argument("outcome", type=click.Choice(["happened", "not-happened"]))
@click.argument("json_value", metavar="[JSON]", required=False)
@click.option("--value", help="The call's result, as JSON [null]; the same as JSON alone.")
@AT
def resolve(call: str, outcome: str, json_value: str | None, value: str | None, path: Path) -> None:
    """Settle CALL, which is in doubt: it happened (with a value), or it did not and may be made again."""
    if value is not None and json_value is not None:
        raise UsageError("resolve: one value, please: JSON, or --value JSON")
    value = json_value if value is None else value
    if value is not None and outcome == "not-happened":
        raise UsageError("resolve: a call that did not happen has no --value")
    try:
        result = None if value is None else json.loads(value)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"resolve: --value {value!r} is not JSON: {error}; a text has quotes inside the quotes"
        ) from None
    with _open(path) as (_, task):
        record = task.resolve(call, outcome == "happened", result)
        click.echo(f"{plain(record.tool)} {record.id}: {'happened' if outcome == 'happened' else 'did not happen'}")


@resumable.command()
@PATH
def pause(path: Path) -> None:
    """Let the task at PATH wait at its next safe point: between tool calls, turns of loops, and steps."""
    _steer(path, "pause", "pauses at its next safe point; `resumable resume` lets it go on")


@resumable.command()
@PATH
def resume(path: Path) -> None:
    """Let the paused task at PATH go on."""
    _steer(path, "resume", "goes on")


@resumable.command()
@PATH
def stop(path: Path) -> None:
    """End what the task at PATH executes at its next safe point. The next Run All goes on from there."""
    _steer(path, "stop", "stops at its next safe point, if something is running")


def _steer(path: Path, verb: Literal["pause", "resume", "stop"], told: str) -> None:
    """Ask the kernel that has the task; only it can do it."""
    with _open(path) as (_, task):
        owner = task.owner
        if owner is MISSING:
            raise UsageError(
                f"{verb}: no kernel works on task {task.name!r}; Run All starts it, and goes on where it was"
            )
        getattr(task, verb)(f"`resumable {verb}`")
        click.echo(f"{plain(task.name)}: pid {owner.pid} {told}")


@resumable.command()
@PATH
def trust(path: Path) -> None:
    """Accept a store that was written under another key. Its pickles can run any code: know where it comes from."""
    from resumable_nb.cli.place import task_at
    from resumable_nb.store.disk import DiskStore

    place = task_at(path)
    store = DiskStore(place.path)
    try:
        store.trust()
    finally:
        store.close()
    click.echo(f"task {plain(place.name)}: trusted; it is signed with your key now")


for each in (*upkeep.COMMANDS, *transfer.COMMANDS):
    resumable.add_command(each)


@contextlib.contextmanager
def _open(path: Path) -> Iterator[tuple[Session, Task]]:
    """The one task at a path, for reading. What writes takes the lease: ``TaskBusy`` while a kernel lives."""
    from resumable_nb import session
    from resumable_nb.cli.place import task_at
    from resumable_nb.task import Task

    place = task_at(path)
    with session.opened(place.name, place.store, live={}) as found:
        yield found, Task(found)


def _show(content: Any) -> None:
    """A table, or JSON."""
    from resumable_nb.cli import tables

    if isinstance(content, list):
        click.echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        tables.show(content)


@contextlib.contextmanager
def _sigterm_stops() -> Iterator[None]:
    """A preemption ends the kernel and the shop in good order, as Ctrl-C does."""

    def stop(signum: int, _: object) -> None:
        raise SystemExit(128 + signum)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
