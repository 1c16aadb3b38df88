"""Words of servers on a terminal: it prints them and does not act upon them."""

from __future__ import annotations

# Sequences that move the cursor, set colours, and set the window's title.
_SEQUENCES = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"


def printable(text: str) -> str:
    """Return text as one line: no escape sequence, a blank for white space, `?` for the rest."""
    if text.isprintable():
        return text
    import re

    text = re.sub(_SEQUENCES, "", text)
    blanks = (" " if char.isspace() else char for char in text)
    return "".join([char if char.isprintable() else "?" for char in blanks])
