"""Characters that a model reads and nobody sees."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from mcpagg_runtime.lists.values import ABSENT, strings

if TYPE_CHECKING:
    from typing import Any

# What cannot be seen, or is taken for something else: the categories Cc, Cf, Co, Cs, Zl, Zp and Zs
# but for the space, what Unicode lets a font ignore, characters that are no characters, and those
# whose picture is blank. A fixed list, because that of the interpreter grows with its version.
_CONTROLS = r"\x00-\x1f\x7f-\x9f\xad\u034f\u061c\ufeff\ufff0-\ufffc"
_FORMATS = (
    r"\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U00013442"
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

# Seen, if only as a space or a line end.
_SEEN = frozenset("\t\n\r\u2028\u2029\u202f\u205f\u3000\xa0\u1680") | {
    chr(code) for code in range(0x2000, 0x200B)
}
_JOINERS = "\u200c\u200d"
_DIRECTIONS = "\u200e\u200f\u061c"
_OF_IDEOGRAPHS = range(0xE0100, 0xE01F0)
# The flag of England, Scotland, Wales, …: a black flag and the code of a region.
_FLAG = re.compile(r"\U0001f3f4[\U000e0061-\U000e007a\U000e0030-\U000e0039]{3,6}\U000e007f")


def hidden_characters(text: str) -> list[str]:
    """Return what a reader of a text cannot see, and neither a language nor an emoji needs."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return []
    text = _FLAG.sub("", text)
    hidden = []
    for match in HIDDEN.finditer(text):
        char, before, after = match[0], text[: match.start()][-1:], text[match.end() :][:1]
        if char in _SEEN:
            continue
        if char in _JOINERS and before > "\x7f" and after > "\x7f" and after not in _JOINERS:
            continue
        if char in _DIRECTIONS and any(map(_is_right_to_left, text)):
            continue
        if ord(char) in _OF_IDEOGRAPHS and unicodedata.name(before or "?", "").startswith("CJK"):
            continue
        hidden.append(char)
    return hidden


def newly_hidden(before: Any, after: Any, place: str = "") -> list[str]:
    """Return the characters in the strings of a value that nobody sees, and that it had not.

    `place` is where it stands, as a JSON pointer, whose names are new where the value is.
    """
    old = {*_hidden_in(before)}
    names = hidden_characters(place) if before is ABSENT else []
    return [*names, *(char for char in _hidden_in(after) if char not in old)]


def _hidden_in(value: Any) -> list[str]:
    if value is ABSENT:
        return []
    return [char for _, text in strings(value) for char in hidden_characters(text)]


def _is_right_to_left(char: str) -> bool:
    return unicodedata.bidirectional(char) in ("R", "AL")
