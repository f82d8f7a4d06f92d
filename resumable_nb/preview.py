"""Short, redacted text for values that are shown: never an error, never a secret, never a long text built."""

from __future__ import annotations

import json
import pickletools
import re
import reprlib
from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

from resumable_nb.attributes import own_dict

LIMIT: Final = 200
"""Characters of a preview."""

HIDDEN: Final = "•••"

SCANNED: Final = 100_000
"""Characters of a text in which secrets are looked for."""

SHORTEST: Final = 4
"""A shorter secret would be hidden in half of all words."""

_WORDS = (
    "token|password|passwd|passphrase|secret|authorization|auth|credentials?|cookies?"
    "|api[_-]?key|private[_-]?key|access[_-]?key"
)
_NAME = re.compile(rf"(?:^|[_-])(?:{_WORDS})(?:$|[_-])", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# What the repr of a foreign class, a URL or a header may hold: `token='…'`, `"api_key": "…"`, `?token=…`, `u:p@host`.
_SPOKEN = re.compile(
    rf"""(?P<name>(?<![a-z0-9])(?:[a-z0-9]+[_-])*(?:{_WORDS})(?:[_-][a-z0-9]+)*["']?\s*[=:]\s*)"""
    r"""(?P<value>(?:[brfu]{0,2})"(?:[^"\\]|\\.)*(?:"|$)|(?:[brfu]{0,2})'(?:[^'\\]|\\.)*(?:'|$)|[^\s,;&)}\]]+)""",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{4,}", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/\s:@'\"]*:[^@/\s'\"]+@")

_SHAPED = frozenset({"numpy", "pandas", "polars", "pyarrow", "scipy", "torch", "xarray"})


def is_secret(name: str) -> bool:
    """Whether a parameter, key or attribute of that name holds a secret: ``api_key``, ``dbPassword``."""
    return _NAME.search(_CAMEL.sub("_", name)) is not None


_KNOWN: Final[dict[str, None]] = {}
"""Secrets that calls of this process were given, the newest last: they are hidden wherever a text is written down."""
_MOST: Final = 256


def learn(secrets: Collection[str]) -> None:
    """Hide these from now on, in whatever text they turn up."""
    for secret in secrets:
        _KNOWN.pop(secret, None)
        _KNOWN[secret] = None
    while len(_KNOWN) > _MOST:
        _KNOWN.pop(next(iter(_KNOWN)), None)


def scrub(text: str, secrets: Collection[str] = ()) -> str:
    """``text`` without the given secrets, those that are known, and what is spelled like one."""
    for secret in sorted({*secrets, *list(_KNOWN)}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    if "://" in text:
        text = _USERINFO.sub(f"{HIDDEN}@", text)
    text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
    return _SPOKEN.sub(lambda match: match["name"] + HIDDEN, text) if ":" in text or "=" in text else text


def cut(text: str, limit: int = LIMIT) -> str:
    """At most ``limit`` characters, the last one ``…`` where something is missing."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def preview(value: object, secrets: Collection[str] = ()) -> str:
    """One line, at most ``LIMIT`` characters."""
    try:
        text = _Short(secrets).repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return cut(scrub(" ".join(text.split()), secrets))


def secrets_in(value: object, *, secret: bool = False) -> frozenset[str]:
    """The texts that would give a secret away where they turn up in a message.

    ``secret``: all of ``value`` is one; else what lies in it under a secret's name, as key or as attribute.
    """
    found: set[str] = set()
    todo: list[tuple[object, bool]] = [(value, secret)]
    for _ in range(1000):  # an argument may be large, and cyclic
        if not todo:
            break
        each, hide = todo.pop()
        if isinstance(each, (str, bytes, int, float)):
            text = each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each)
            if hide:
                # Also without a scheme: "Bearer x" may be cited as "x".
                found |= {text, text.rpartition(" ")[2]}
            elif isinstance(each, str):
                found |= _spoken(text[:SCANNED])
        elif isinstance(each, Mapping):
            todo.extend((inner, hide or (isinstance(key, str) and is_secret(key))) for key, inner in each.items())
        elif isinstance(each, (list, tuple, set, frozenset)):
            todo.extend((inner, hide) for inner in each)
        else:
            own = own_dict(each)
            todo.extend((inner, True) for name, inner in own.items() if hide or is_secret(name))
    return frozenset(spelled for text in found if len(text) >= SHORTEST for spelled in _spellings(text))


def gives_away(pickled: bytes, secrets: Collection[str] = ()) -> bool:
    """Whether a pickle, or one inside it, holds a known secret, or anything under a name that secrets have.

    That is on the safe side: it finds parameters of pickled functions, too.
    """
    if any(secret.encode() in pickled for secret in (*secrets, *list(_KNOWN))):
        return True
    for _, text, _ in pickletools.genops(pickled):
        if isinstance(text, str):
            if (len(text) <= LIMIT and is_secret(text)) or _spoken(text[:SCANNED]):
                return True
        elif isinstance(text, bytes) and text.startswith(b"\x80"):
            try:
                if gives_away(text):
                    return True
            except ValueError:  # no pickle after all
                continue
    return False


def _spoken(text: str) -> set[str]:
    """The secrets in a URL, a header or a setting: ``?token=…``, ``u:p@host``."""
    values = {match["value"].strip("brfuBRFU\"'") for match in _SPOKEN.finditer(text)}
    users = {match[0].partition(":")[2].removesuffix("@") for match in _USERINFO.finditer(text)}
    return values | users | {match[0].split(None, 1)[1] for match in _SCHEME.finditer(text)}


def _spellings(secret: str) -> set[str]:
    """How it may be cited: as it is, in a URL, in a literal, in JSON."""
    return {secret, quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1], json.dumps(secret)[1:-1]}


class _Short(reprlib.Repr):
    """``repr`` that stops early: what is not shown is not built."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        super().__init__()
        self._secrets = secrets
        self.maxlevel = 4
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxarray = 8
        self.maxstring = self.maxother = LIMIT
        self.maxlong = 40

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        if not x:
            return "{}"
        if level <= 0:
            return "{…}"
        shown = []
        for index, (key, value) in enumerate(x.items()):
            if index == self.maxdict:
                shown.append("…")
                break
            hide = isinstance(key, str) and is_secret(key)
            shown.append(f"{self.repr1(key, level - 1)}: {HIDDEN if hide else self.repr1(value, level - 1)}")
        return "{" + ", ".join(shown) + "}"

    def repr_str(self, x: str, level: int) -> str:
        # Before it is cut: half a secret would not be known for one.
        return super().repr_str(scrub(x[:SCANNED], self._secrets) if len(x) > self.maxstring else x, level)

    def repr_bytes(self, x: bytes, _level: int) -> str:
        for secret in (*self._secrets, *_KNOWN):
            x = x.replace(secret.encode(), b"...")
        return repr(x[: self.maxstring]) + ("…" if len(x) > self.maxstring else "")

    repr_bytearray = repr_bytes

    def repr_int(self, x: int, _level: int) -> str:
        return repr(x) if x.bit_length() < 4096 else f"<int of {x.bit_length()} bits>"

    def repr_instance(self, x: object, _level: int) -> str:
        kind = type(x)
        if str(kind.__module__).partition(".")[0] in _SHAPED and (shape := getattr(x, "shape", None)):
            return f"<{kind.__name__} {' × '.join(map(str, shape))}>"
        try:
            return cut(scrub(repr(x)[:SCANNED], self._secrets), self.maxother)
        except Exception:
            return f"<{kind.__name__}>"
