"""``Change``: one part of a step's key that differs, and how people are told."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

NAMED: Final = "named"
"""Of what a variable shares with a function or class: it holds that very one. Alone, or behind what else they share."""


SHARING: Final = "sharing of "
"""What the name of a key part begins with that says how a variable shares objects with others, and within."""


ASSIGNED: Final = "assigned "
"""What the name of a key part begins with that is the value of a variable that no code of the step need mention."""


SCRIPT: Final = "script "
"""What the name of a key part begins with that is a file of code which the step's code names."""


class Change(msgspec.Struct, frozen=True):
    """One part of a step key that differs: ``old`` or ``new`` is empty where the part came or went."""

    part: Literal["source", "function", "input", "file", "options"]
    name: str
    old: str
    new: str

    def __str__(self) -> str:
        if self.part in ("source", "options"):
            return f"its {self.part} changed"
        if self.part == "input" and self.name.startswith(SHARING):
            return self._shared()
        verb = "is new" if not self.old else "is gone" if not self.new else "changed"
        if self.part == "file" and self.name.startswith(SCRIPT):
            return f"{self.name} {verb}"
        return f"{self.part} {self.name.removeprefix(ASSIGNED)} {verb}"

    def _shared(self) -> str:
        own = self.name.removeprefix(SHARING)
        then, now = (dict(each.split("=") for each in text.split() if "=" in each) for text in (self.old, self.new))
        other = next((name for name in sorted(then.keys() | now.keys()) if then.get(name) != now.get(name)), "")
        if not other:
            return f"other objects in {own} are one"
        if (then.get(other, "").endswith(NAMED), now.get(other, "").endswith(NAMED)) in ((True, False), (False, True)):
            return f"{other} is another one than {own} has"
        pair = " and ".join(sorted((own, other)))
        if "is" in (then.get(other), now.get(other)):
            return f"{pair} are {'one object now' if other in now else 'no longer one object'}"
        if other not in now:
            return f"{pair} no longer share an object"
        return f"{pair} share {'other objects' if other in then else 'an object now'}"
