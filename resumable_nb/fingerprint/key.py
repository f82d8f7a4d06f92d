"""``step_key``: everything that a step's result depends on, in named parts."""

from __future__ import annotations

import glob
import types
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from blake3 import blake3

from resumable_nb.canonical import user_module
from resumable_nb.errors import UsageError
from resumable_nb.fingerprint.reach import Lookup, Reach
from resumable_nb.fingerprint.scripts import contents
from resumable_nb.model import StepKey, StepOptions, digest
from resumable_nb.source import Body

_READ_BYTES: Final = 1 << 20
ABSENT: Final = "absent"


def step_key(
    body: Body,
    lookup: Lookup,
    options: StepOptions,
    base: Path,
    *,
    is_user_module: Callable[[types.ModuleType | str], bool] = user_module,
    names: Collection[str] = (),
) -> StepKey:
    """What the step depends on now. ``base`` is the folder that files are relative to.

    ``names`` are the visible variables, for code that may look up any name (``globals()``, ``eval``). A value is not
    loaded where its digest is known, unless it holds functions or objects of the user's, whose code is followed.
    Modules of the user's that the code imports are imported. Raises ``UsageError`` for a declared file that is there
    and cannot be read.
    """
    reach = Reach(lookup, is_user_module, body, names)
    reach.follow_body()
    return StepKey(
        source=digest(body.normal.encode("utf-8", "surrogatepass")),
        functions=dict(sorted(reach.functions.items())),
        inputs=dict(sorted(reach.inputs.items())),
        files=files(options.files, base) | contents(reach.scripts, base),
        options=options.in_key(),
    )


def files(patterns: Collection[str], base: Path) -> dict[str, str]:
    """Path to content, for every declared file, every file that a pattern matches, and every folder as a whole."""
    found: dict[str, str] = {}
    for pattern in patterns:
        paths = list(_matches(pattern, base))
        if not paths:
            found[pattern] = ABSENT
        for path in paths:
            found[_shown(path, base)] = _content(path)
    return dict(sorted(found.items()))


def _matches(pattern: str, base: Path) -> Iterator[Path]:
    path = base / Path(pattern).expanduser()
    if path.exists():  # before it is taken for a pattern: a name may have brackets
        yield path
    elif glob.has_magic(pattern):
        folder = Path(path.anchor) if path.is_absolute() else Path()
        yield from sorted(folder.glob(path.relative_to(folder).as_posix()))


def _shown(path: Path, base: Path) -> str:
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()


def _content(path: Path) -> str:
    try:
        if path.is_dir():
            lines = [
                f"{each.relative_to(path).as_posix()}\0{'' if each.is_dir() else _file(each)}"
                for each in sorted(path.rglob("*"))
            ]
            return digest("\n".join(lines).encode("utf-8", "surrogateescape"))
        return _file(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}, which --files declares: {error.strerror or error}", path=path) from error


def _file(path: Path) -> str:
    if not path.is_file():
        return "special"  # a pipe or a device has no content to compare
    hasher = blake3()
    with path.open("rb", buffering=0) as file:
        while data := file.read(_READ_BYTES):
            hasher.update(data)
    return hasher.hexdigest(length=16)
