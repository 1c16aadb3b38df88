"""Texts of others as they may be shown: one line, nothing that a terminal would act upon."""

from __future__ import annotations

import re

# Sequences that move the cursor, set colours, and set the window's title.
_SEQUENCES = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"


def printable(text: str) -> str:
    """Return text as one line: no escape sequence, a blank for white space, `?` for the rest."""
    if text.isprintable():
        return text
    text = re.sub(_SEQUENCES, "", text)
    blanks = (" " if char.isspace() else char for char in text)
    return "".join([char if char.isprintable() else "?" for char in blanks])


def where(fault: BaseException) -> str:
    """Return the kind of an exception, and the last function and line of ours that it came through.

    Not what it says: that may be of a message, and nobody else's to read.
    """
    place = ""
    trace = fault.__traceback__
    package = __name__.partition(".")[0]
    while trace is not None:
        frame = trace.tb_frame
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            place = f" in {frame.f_code.co_name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return type(fault).__name__ + place
