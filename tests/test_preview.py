"""What is shown of a value: short, one line, and never a secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from resumable_nb.preview import HIDDEN, LIMIT, is_secret, preview, scrub, secrets_in

SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    "name",
    ["token", "auth_token", "TOKEN_2", "password", "db_password", "dbPassword", "api_key", "apikey", "X-Api-Key",
     "Authorization", "auth", "credential", "credentials", "private_key", "aws_access_key", "cookie", "client_secret"],
)  # fmt: skip
def test_secret_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["author", "tokens_used_", "tokenizer", "key", "monkey", "authority", "secretary", "order_id"]
)
def test_ordinary_names(name: str) -> None:
    assert not is_secret(name)


@dataclass
class Client:
    host: str
    token: str


class Loud:
    def __repr__(self) -> str:
        return "x" * 10_000_000


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError(SECRET)


@pytest.mark.parametrize(
    "value",
    [
        {"token": SECRET},
        {"headers": [{"Authorization": f"Bearer {SECRET}"}]},
        Client("here", SECRET),
        [Client("here", SECRET)],
        f"https://me:{SECRET}@example.org/x",
        f"https://example.org/x?a=1&api_key={SECRET}",
        f'{{"password": "{SECRET}"}}',
        f"Authorization: Bearer {SECRET}",
        b"token=" + SECRET.encode(),
    ],
    ids=lambda v: type(v).__name__,
)
def test_secrets_inside_values_are_hidden(value: object) -> None:
    shown = preview(value)
    assert "hunter2" not in shown
    assert HIDDEN in shown


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    ["a" * 10_000_000, b"b" * 10_000_000, list(range(1_000_000)), dict.fromkeys(range(1_000_000)), 10**20_000, Loud(),
     Broken(), [Broken()], nested(100_000), "line\nline", {1: {2: {3: {4: {5: {6: 7}}}}}}, object(), None],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_any_value_has_one_short_line(value: object) -> None:
    shown = preview(value)
    assert 0 < len(shown) <= LIMIT
    assert "\n" not in shown


def test_tables_and_arrays_are_shown_by_shape() -> None:
    assert preview(np.zeros((3, 4))) == "<ndarray 3 × 4>"
    assert preview({"df": pd.DataFrame({"a": [1, 2]})}) == "{'df': <DataFrame 2 × 1>}"
    assert "1.5" in preview(np.float64(1.5))


def test_plain_values_are_shown_as_they_are() -> None:
    assert preview({"a": [1, "b", None, 2.5], "n": (1,)}) == "{'a': [1, 'b', None, 2.5], 'n': (1,)}"


def test_given_secrets_are_hidden_wherever_they_are_spelled() -> None:
    secrets = secrets_in({"inner": [SECRET, b"bytes-secret", 3, "abc"]}, secret=True)
    assert secrets == {SECRET, "bytes-secret"}
    assert scrub(f"no {SECRET} and bytes-secret, abc stays", secrets) == f"no {HIDDEN} and {HIDDEN}, abc stays"


def test_secrets_are_found_by_key_and_by_attribute() -> None:
    headers = {"Authorization": "Bearer abcdef", "Accept": "text/html"}
    assert secrets_in([headers, Client("somewhere", SECRET)]) >= {"Bearer abcdef", "abcdef", SECRET}
    cyclic: list[object] = []
    cyclic.append(cyclic)
    assert secrets_in(cyclic) == frozenset()


@pytest.mark.parametrize("between", [" ", "\t", "\n"])
def test_a_scheme_and_its_secret_may_stand_apart_by_any_space(between: str) -> None:
    assert scrub(f"Bearer{between}{SECRET}") == f"Bearer {HIDDEN}"
