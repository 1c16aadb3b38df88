"""Letters that a reader takes for others: of another script, or variants for compatibility.

What a person reads and what a model or a program compares are two texts then. A small table has the
letters that fonts draw as a Latin one (https://www.unicode.org/reports/tr39/ has all of them);
variants are those that Unicode itself maps to a Latin letter (NFKC).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# Cyrillic, Greek, Armenian, and of the phonetic alphabet.
_LETTERS = (
    "\u0430\u0410\u0435\u0415\u043e\u041e\u0440\u0420\u0441\u0421\u0443\u0423\u0445\u0425\u0456"
    "\u0406\u0458\u0408\u0455\u0405\u0501\u04bb\u04cf\u0475\u043a\u041a\u0412\u041c\u041d\u0422"
    "\u051b\u051a\u051d\u051c"
    "\u03bf\u039f\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u03a1\u03a4\u03a5\u03a7"
    "\u03b1\u03bd\u03b9\u03c1"
    "\u0585\u057d\u0578\u0570\u0581\u0555"
    "\u0251\u0261"
)
_LOOKS = "aAeEoOpPcCyYxXiIjJsSdhlvkKBMHTqQwW" "oOABEZHIKMNPTYXavip" "ounhgO" "ag"
_LATIN = str.maketrans(_LETTERS, _LOOKS)

_STROKES = re.compile("[\u0334-\u0338]")
_STRUCK = re.compile("(?:[A-Za-z][\u0334-\u0338])+")
_WORD = re.compile(r"[^\W\d_]{3,}")
# With the ending of another language: `URL` and a letter.
_ACRONYM = re.compile(
    rf"[A-Z]{{2,}}[{''.join(letter for letter in _LETTERS if letter.islower())}]+"
)
_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_WIDE = re.compile("[\uff21-\uff3a\uff41-\uff5a]+")


def skeleton(text: str) -> str:
    """Return a text as a reader takes it: with Latin letters for all that look like them."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _STROKES.sub("", text)).translate(_LATIN)


def disguised(text: str) -> Iterator[str]:
    """Yield the words that read as Latin ones, and are written otherwise.

    None is a word of one other script, an acronym with an ending, a unit or a formula, or wide
    letters beside ideographs.
    """
    if text.isascii():
        return
    yield from (match[0] for match in _STRUCK.finditer(text))
    is_wide = _ASIAN.search(text)
    for word in _WORD.findall(text):
        if not word.isascii() and not (is_wide and _WIDE.fullmatch(word)) and _is_disguised(word):
            yield word


def _is_disguised(word: str) -> bool:
    others = [char for char in word if not unicodedata.normalize("NFD", char)[0].isascii()]
    alike = [char for char in others if ord(char) in _LATIN]
    variants = [char for char in others if _is_variant(char)]
    if not others or len(alike) + len(variants) < len(others) or _ACRONYM.fullmatch(word):
        return False
    return bool(variants) or len(alike) < len(word)


def _is_variant(char: str) -> bool:
    """Whether Unicode maps a letter to one of ASCII."""
    plain = unicodedata.normalize("NFKC", char)
    return unicodedata.category(char) in ("Lu", "Ll") and len(plain) == 1 and plain.isascii()


def odd_letters(text: str) -> str:
    """Name the letters of a text that only look like Latin ones."""
    odd = [char for char in dict.fromkeys(text) if skeleton(char) != char]
    return ", ".join(f"U+{ord(char):04X} {unicodedata.name(char, '?')}" for char in odd[:3])
