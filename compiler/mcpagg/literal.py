"""Prints values for the emitted file: Python literals for tables, JSON text for snapshots.

Every value that reaches the emitted file goes through here, so that no name, path or description
of a config or a child can end a string and become code.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from mcpagg.jsontext import dumps

# What cannot be seen, or is taken for something else: the categories Cc, Cf, Co, Cs, Zl, Zp and Zs
# but for the space, what Unicode lets a font ignore, characters that are no characters, and those
# whose picture is blank. A fixed list, because that of the interpreter grows with its version.
_CONTROLS = r"\x00-\x1f\x7f-\x9f\xad\u034f\u061c\ufeff\ufff0-\ufffb"
_FORMATS = (
    r"\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
_SPACES = r"\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
_FILLERS = (
    r"\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0d" r"\U00016fe4\U0001d159"
)
_NO_CHARACTERS = r"\ud800-\uf8ff\ufdd0-\ufdef\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
_LAST_OF_PLANES = "".join(rf"\U{plane:04x}fffe\U{plane:04x}ffff" for plane in range(15))
# The variation selectors 15 and 16 are seen behind a symbol, and where they make a keycap.
_SYMBOLS = (
    r"\xa9\xae\u203c\u2049\u2100-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_SELECTORS = rf"(?<![{_SYMBOLS}])[\ufe0e\ufe0f](?!\u20e3)"
HIDDEN = re.compile(
    f"[{_CONTROLS}{_FORMATS}{_SPACES}{_FILLERS}{_NO_CHARACTERS}{_LAST_OF_PLANES}]|{_SELECTORS}"
)

# A member that changed is one line that changed, down to this depth. What nests deeper is one line:
# the indentation of n levels takes n² characters.
_DEEPEST_LINES = 32

_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def literal(value: Any, indent: str = "") -> str:
    """Return the Python literal of a JSON-like value, one entry a line, as black would print it.

    `indent` is that of the line it starts on. Each entry of a dict or a list has a line, so one
    changed value is one changed line. Tuples are rows and stay on one, however long.
    """
    inner = indent + "    "
    if isinstance(value, dict):
        return _lines("{", [f"{literal(k)}: {literal(v, inner)}" for k, v in value.items()], indent)
    if isinstance(value, list):
        return _lines("[", [literal(item, inner) for item in value], indent)
    if isinstance(value, tuple):
        items = ", ".join(literal(item) for item in value)
        return f"({items},)" if len(value) == 1 else f"({items})"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value)


def _lines(bracket: str, entries: list[str], indent: str) -> str:
    end = {"{": "}", "[": "]"}[bracket]
    lines = "".join(f"{indent}    {entry},\n" for entry in entries)
    return f"{bracket}\n{lines}{indent}{end}" if entries else bracket + end


def json_text(value: Any) -> str:
    """Return JSON text for a raw string in triple double quotes, one member a line.

    What nests deeper than _DEEPEST_LINES stands on one line.

    Characters that cannot be seen (controls, bidirectional marks, lone surrogates) are escaped: a
    reviewer must see what a model would read. JSON text never holds three quotes in a row, since a
    quote within a string is escaped and two strings never touch.
    """
    return dumps(value, quote=_json_string, broken=_DEEPEST_LINES)


def comment(text: str) -> str:
    """Return text that is safe within one comment line."""
    return HIDDEN.sub(_escaped, text)


def is_visible(text: str) -> bool:
    """Whether a text is one line in which there is something to see."""
    return bool(HIDDEN.sub("", text).strip()) and not any(char < " " for char in text)


def _json_string(text: str) -> str:
    return HIDDEN.sub(_escaped, json.dumps(text, ensure_ascii=False))


def _escaped(found: re.Match[str]) -> str:
    # Outside the basic plane, JSON wants a surrogate pair.
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _quoted(text: str) -> str:
    """Return the literal of a string in the quotes that cost fewer escapes, as black does."""
    mark = "'" if text.count('"') > text.count("'") else '"'
    body = text.replace("\\", "\\\\").replace(mark, f"\\{mark}")
    return f"{mark}{HIDDEN.sub(_python_escape, body)}{mark}"


def _python_escape(found: re.Match[str]) -> str:
    char, code = found[0], ord(found[0])
    if char in _SHORT:
        return _SHORT[char]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
