"""What is shown can do nothing: it is text, on one line, and not long."""

from __future__ import annotations

import pytest

from resumable_nb.wording import few, plain, plural


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("charge", "charge"),
        ("größer → 中文", "größer → 中文"),
        ("a\nb\r\n\tc", "a b c"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("invoice\u202efdp.exe", "invoice\\u202efdp.exe"),
        ("pay\u200bpal", "pay\\u200bpal"),
        ("lone \ud800", "lone \\ud800"),
        ("<b>bold</b>", "<b>bold</b>"),
    ],
)
def test_what_is_unseen_is_escaped(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_a_long_text_is_cut() -> None:
    assert plain("x" * 10_000_000, 10) == "x" * 9 + "…"


def test_of_many_names_a_few_are_said() -> None:
    assert few(["a", "b", "c"]) == "a, b, c"
    assert few(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert few([]) == ""


def test_numbers_are_set_in_thousands() -> None:
    assert [plural(1, "call"), plural(0, "call"), plural(20_000, "call")] == ["1 call", "0 calls", "20,000 calls"]
