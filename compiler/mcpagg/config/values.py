"""The values that every format of config is read into, and the fault of a text that is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written; `float(text)` is its value."""

    text: str


class Object(dict[str, object]):
    """An object that knows which of its keys were written more than once."""

    def __init__(self, pairs: Sequence[tuple[str, object]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs) if len(self) < len(pairs) else {}
        self.repeated = [key for key, count in counts.items() if count > 1]


class SyntaxFault(Exception):
    """Raised by a reader of a format; its text holds nothing of the config's values."""

    def __init__(self, what: str, line: int | None = None, column: int | None = None) -> None:
        """`line` and `column` count from 1, None where the format's reader does not know them."""
        super().__init__(what)
        self.what = what
        self.line = line
        self.column = column

    @property
    def place(self) -> str:
        """Say where in the text it is: `line 3, column 7: `, or nothing."""
        if self.line is None:
            return ""
        return f"line {self.line}, column {self.column}: "
