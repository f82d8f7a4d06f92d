"""What stands behind ``%%resumable`` and ``%resumable``, parsed; every mistake is one line."""

from __future__ import annotations

import argparse
import difflib
import shlex
from typing import Any, NoReturn, get_args

from resumable_nb.errors import UsageError
from resumable_nb.model import OnError, StepOptions

CELL_USAGE = (
    "%%resumable NAME [--files PATH…] [--makes PATH…] [--keep NAME…] [--drop NAME…] "
    "[--always] [--rerun] [--on-error keep|compensate] [--no-output] [--quiet]"
)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises ``UsageError`` in place of leaving the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}; usage: {self.usage}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise UsageError(message or f"{self.prog}: usage: {self.usage}", status=status)


def _cell_parser() -> Parser:
    parser = Parser(prog="%%resumable", usage=CELL_USAGE, add_help=False, allow_abbrev=False)
    parser.add_argument("name", nargs="?")
    for option in ("--files", "--makes", "--keep", "--drop"):
        parser.add_argument(option, nargs="+", action="extend", metavar="X")
    for option in ("--always", "--rerun", "--no-output", "--quiet"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--on-error", choices=get_args(OnError), default="keep")
    return parser


_CELL = _cell_parser()
CELL_OPTIONS = tuple(option for action in _CELL._actions for option in action.option_strings)


def words(line: str, prog: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{prog} {line}: {error} (unbalanced quotes?)") from None


def cell_options(line: str) -> tuple[str, StepOptions]:
    """The step's name and options. Raises ``UsageError``."""
    given = words(line, "%%resumable")
    for word in given:
        if word.startswith("--") and word not in CELL_OPTIONS:
            near = difflib.get_close_matches(word, CELL_OPTIONS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {' '.join(CELL_OPTIONS)}"
            raise UsageError(f"%%resumable: unknown option {word}; {hint}")
    # The name may stand before or behind the options; lists end at the next option, so a name goes first or alone.
    parsed, rest = _CELL.parse_known_args(given)
    if not parsed.name or not parsed.name.strip():
        raise UsageError(f"%%resumable needs a name for the step: {CELL_USAGE}")
    if rest:
        raise UsageError(f"%%resumable {parsed.name}: one name, please: {' '.join(rest)!r} is left over")
    for option in ("keep", "drop"):
        for name in getattr(parsed, option) or ():
            if not name.isidentifier():
                raise UsageError(f"%%resumable --{option} {name}: is no variable's name")
    return parsed.name, StepOptions(
        files=tuple(parsed.files or ()),
        makes=tuple(parsed.makes or ()),
        keep=None if parsed.keep is None else tuple(parsed.keep),
        drop=tuple(parsed.drop or ()),
        always=parsed.always,
        rerun=parsed.rerun,
        output=not parsed.no_output,
        quiet=parsed.quiet,
        on_error=parsed.on_error,
    )


def _shown(name: str, how: dict[str, Any]) -> str:
    """An argument in a usage line: ``STEP``, ``happened|not-happened``, ``[VALUE]``, ``[--version N]``."""
    if name.startswith("-"):
        return f"[{name}]" if how.get("action") == "store_true" else f"[{name} {name.lstrip('-').upper()}]"
    word = "|".join(how.get("choices", ())) or name.upper()
    return f"[{word}]" if how.get("nargs") in ("*", "?") else word


def line_parser(commands: dict[str, list[tuple[tuple[str, ...], dict[str, Any]]]]) -> Parser:
    """A parser with one subcommand for each entry, and its arguments as ``add_argument`` takes them."""
    usage = f"%resumable [{' | '.join(commands)}] …"
    parser = Parser(prog="%resumable", usage=usage, add_help=False)
    inner = parser.add_subparsers(dest="command")
    for command, arguments in commands.items():
        shape = " ".join(_shown(names[0], how) for names, how in arguments)
        sub = inner.add_parser(
            command, prog=f"%resumable {command}", usage=f"%resumable {command} {shape}", add_help=False
        )
        for names, how in arguments:
            sub.add_argument(*names, **how)
    return parser
