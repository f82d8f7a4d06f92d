"""A secret that tools are given is in no file of the store, no output, no view, no error and no warning of ours."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from resumable_nb.preview import preview, scrub, secrets_in
from tests.kernels import Died, Kernels

SECRET = "hu~nter2/Tr0ub&dor+3"
"""Looks different in a URL."""

PRELUDE = """
import asyncio, os, signal, threading, traceback, uuid, warnings
from urllib.parse import quote
from resumable_nb import step, task, tool
warnings.simplefilter("always")
TOKEN = open("secret").read()
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Accept": "json"}
class Boom(Exception):
    def __init__(self, *args):
        super().__init__(*args)
        self.token = TOKEN
class Client:
    def __init__(self, key): self.api_key = key
    def __repr__(self): return f"Client({self.api_key!r})"

@tool
def login(user, password, *, fail=False):
    if fail:
        raise Boom(f"no user {user} with {password} at https://shop/?q={quote(password, safe='')}")
    return {"user": user, "length": len(password)}

@tool(secret="pin", terminal=Boom)
def post(url, pin, headers, box=None):
    if box is not None:
        box.append(1)
    raise Boom(f"401 for {url}: {pin!r} {headers}")

@tool
def cut_off(api_key):
    raise ConnectionError(f"sent {api_key}")

@tool
def get(url, at=None, client=None):
    return len(url)

@tool(repeatable=True)
def ask(question, token):
    return question

@tool(reconcile=lambda credential: f"do not know {credential}")
def doubtful(credential):
    raise KeyboardInterrupt(credential)
def quietly(call):
    try:
        call()
    except BaseException as error:
        return f"{error!r}" if type(error).__module__.startswith("resumable_nb") else ""
    return ""
"""

STEPS = [
    "%%resumable first\nlogin('ann', TOKEN)\nlogin('ann', TOKEN)\n"
    "said = quietly(lambda: login('eve', TOKEN, fail=True))",
    "%%resumable second\nbox = []\nfor _ in range(2):\n    quietly(lambda: post('u', TOKEN, HEADERS))\n"
    "    quietly(lambda: post('u', TOKEN, HEADERS, box))",
    "%%resumable third\nget(f'https://ann:{TOKEN}@shop/?token={quote(TOKEN)}')\nget('u', client=Client(TOKEN))\n"
    "n = sum(ask(uuid.uuid4().hex, TOKEN) != '' for _ in range(2))\n"
    "if not os.path.exists('died'):\n    open('died', 'w').close(); os.kill(os.getpid(), signal.SIGKILL)",
]
SHOWING = """
first = [quietly(lambda: cut_off(TOKEN)) for _ in range(2)]
second = [quietly(lambda: doubtful(TOKEN)) for _ in range(2)]
print(first, second, task().history().to_csv(), task().steps().to_csv(), task().summary(), repr(task()))
print(task().why("first"), [repr(call) for call in task().history().itertuples()])
assert "InDoubt" in first[1] and "InDoubt" in second[1]
"""
FAILING = "%%resumable failing\nlogin('ann', TOKEN)\nraise ValueError(f'refused {TOKEN}')"
DIVERGING = (
    "%%resumable diverging\nget(f'https://shop/?token={TOKEN}', uuid.uuid4().hex)\n"
    "if not os.path.exists('again'):\n    open('again', 'w').close(); os.kill(os.getpid(), signal.SIGKILL)"
)


def stored(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file below the folder, and every value of its databases, as it is and decompressed."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        yield str(path), path.read_bytes()
        if path.suffix == ".db":
            with sqlite3.connect(path) as database:
                for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    for row in database.execute(f"SELECT * FROM {table}"):
                        for value in row:
                            data = value if isinstance(value, bytes) else str(value).encode()
                            yield f"{path} {table}", data
                            try:
                                yield f"{path} {table} decompressed", zlib.decompress(data)
                            except zlib.error:
                                continue
            database.close()


def cited(secret: str) -> list[str]:
    from urllib.parse import quote

    return [secret, quote(secret), quote(secret, safe="")]


@pytest.mark.sweep
def test_a_secret_is_nowhere(kernels: Kernels, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    shown = []
    with pytest.raises(Died):
        kernels.again(PRELUDE, *STEPS)
    kernel = kernels.again(PRELUDE)
    for cell in [*STEPS, SHOWING]:
        shown.append(kernel.attempt(cell))
        assert shown[-1].error == "", shown[-1].text
    assert "DivergenceWarning" in shown[2].text
    assert kernel.attempt(FAILING).error == "ValueError"  # shows the user's own error; what we write of it is below
    shown.append(kernel("print(task().steps().to_csv(), task().summary())"))
    with pytest.raises(Died):
        kernel.attempt(DIVERGING)
    shown.append(kernels.again(PRELUDE).attempt(DIVERGING))
    assert shown[-1].error == "Diverged"
    kernels.close()
    texts = [("shown", each.text + each.said) for each in shown]
    for command in ("history", "steps", "status", "history --json", "steps --json", "why first"):
        done = subprocess.run(
            [sys.executable, "-m", "resumable_nb.cli", *command.split()],
            cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "300"},
        )  # fmt: skip
        texts.append((command, done.stdout + done.stderr))
    found = [where for where, text in texts for each in cited(SECRET) if each in text]
    found += [
        where for where, data in stored(tmp_path / ".resumable") for each in cited(SECRET) if each.encode() in data
    ]
    assert found == []
    calls = [text for where, text in texts if where == "history --json"]
    assert "•••" in calls[0] or "\\u2022" in calls[0]


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ({"password": "12345678"}, {"12345678"}),
        ({"pin_token": 12345678}, {"12345678"}),
        ({"a": [{"Authorization": "Bearer abcdefgh"}]}, {"Bearer abcdefgh", "abcdefgh"}),
        ("https://ann:abcdefgh@shop/", {"abcdefgh"}),
        ("https://shop/?api_key=abcdefgh&x=1", {"abcdefgh"}),
        ("an ordinary text", set()),
        ({"token": "abc"}, set()),
    ],
    ids=lambda case: ", ".join(sorted(case)) or "none" if isinstance(case, set) else str(case),
)
def test_secrets_in_arguments_are_found(value: object, hidden: set[str]) -> None:
    assert {each for each in secrets_in(value) if "%" not in each and "+" not in each} == hidden


@pytest.mark.parametrize(
    "wrap", [str, lambda s: [s], lambda s: {"x": s}, str.encode], ids=["text", "list", "dict", "bytes"]
)
def test_half_a_secret_is_not_shown_either(wrap: object) -> None:
    """A long one is cut for the preview, and has to be hidden before."""
    token = "".join(f"{n:04d}" for n in range(300))
    shown = preview(wrap(f"got {token} back"), [token])  # type: ignore[operator]  # any way to wrap a text
    assert not any(token[i : i + 8] in shown for i in range(len(token) - 8))


def test_a_secret_is_hidden_as_urls_and_literals_cite_it() -> None:
    secrets = secrets_in("a b/'c\\d", secret=True)
    for text in ("a b/'c\\d", "a%20b%2F%27c%5Cd", "a+b%2F%27c%5Cd", repr("a b/'c\\d")):
        assert "c" not in scrub(text, secrets)
