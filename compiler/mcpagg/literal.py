"""Prints values for the emitted file: Python literals for tables, JSON text for snapshots.

Every value that reaches the emitted file goes through here, so that no name, path or description
of a config or a child can end a string and become code.
"""

from __future__ import annotations

import json
import math
from typing import Any


def literal(value: Any) -> str:
    """Return the Python literal of a JSON-like value, one entry a line once black has seen it.

    Dicts and lists end in a comma, which makes black print one entry a line: one changed value is
    one changed line. Tuples are rows and stay together.
    """
    if isinstance(value, dict):
        return "{" + "".join(f"{literal(k)}: {literal(v)}, " for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + "".join(f"{literal(item)}, " for item in value) + "]"
    if isinstance(value, tuple):
        return (
            "("
            + ", ".join(literal(item) for item in value)
            + ("," if len(value) == 1 else "")
            + ")"
        )
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value)


def json_text(value: Any) -> str:
    """Return JSON text for a raw string in triple double quotes, one member a line.

    Characters that cannot be seen (controls, bidirectional marks, lone surrogates) are escaped: a
    reviewer must see what a model would read. JSON text never holds three quotes in a row, since a
    quote within a string is escaped and two strings never touch.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in text)


def comment(text: str) -> str:
    """Return text that is safe within one comment line."""
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    # Outside the basic plane, JSON wants a surrogate pair.
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
