"""The text that is left on a terminal when progress bars have rewritten their lines."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\x1b\[([0-9;?]*)[ -/]*([@-~])|([\r\n\b])|([^\x1b\r\n\b]+|\x1b)")


def settle(text: str) -> str:
    """``text`` with its rewritten lines as they were last.

    Knows carriage return, backspace, line feed, cursor up and erase in line; colours stay with their characters. Text
    without a carriage return or backspace is returned as it is.
    """
    if "\r" not in text and "\b" not in text:
        return text
    screen = _Screen()
    for match in _TOKEN.finditer(text):
        parameter, command, control, plain = match.groups()
        if plain:
            screen.write(plain)
        elif control:
            screen.control(control)
        else:
            screen.command(command, parameter, match[0])
    return screen.text(cursor_first=text.startswith("\r"))


class _Screen:
    """Lines of cells, and a cursor. A cell is a character with the escape sequences that stand before it."""

    def __init__(self) -> None:
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0
        self._prefix = ""

    def write(self, plain: str) -> None:
        line = self._lines[self._row]
        if len(line) < self._column:
            line.extend(" " * (self._column - len(line)))
        line[self._column : self._column + len(plain)] = plain
        if self._prefix:
            line[self._column] = self._prefix + line[self._column]
            self._prefix = ""
        self._column += len(plain)

    def control(self, control: str) -> None:
        self._close()
        match control:
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
            case _:
                self._row, self._column = self._row + 1, 0
                if self._row == len(self._lines):
                    self._lines.append([])

    def command(self, command: str, parameter: str, sequence: str) -> None:
        line = self._lines[self._row]
        match command:
            case "A":
                self._close()
                self._row = max(0, self._row - int(parameter or 1))
            case "K":
                self._close()
                if parameter == "2":
                    line[:] = " " * self._column
                elif parameter in ("", "0"):
                    del line[self._column :]
            case _:
                self._prefix += sequence

    def text(self, *, cursor_first: bool) -> str:
        """``cursor_first``: the text began with a carriage return, which may have rewritten what came before it."""
        self._close()
        text = "\n".join("".join(line) for line in self._lines)
        at_start = self._column == 0 and bool(self._lines[-1]) and self._row == len(self._lines) - 1
        return ("\r" if cursor_first else "") + text + ("\r" if at_start else "")

    def _close(self) -> None:
        """Escape sequences at the end of what was written (a colour's reset) belong to its last character."""
        if self._prefix:
            line = self._lines[self._row]
            if 0 < self._column <= len(line):
                line[self._column - 1] += self._prefix
            else:
                line.insert(self._column, self._prefix)
            self._prefix = ""
