"""JSON as the compiler reads and prints it, and the places within a value.

A child's numbers keep the text that they came in. What nests deep is printed without recursion.
Places are JSON pointers (RFC 6901).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from json.encoder import encode_basestring_ascii
from typing import Any

from mcpagg_runtime.messages.jsontext import BEYOND_DEPTH, Malformed


class ExactNumber(float):
    """A number whose text Python would not print alike: 1E5, -0, 1e400, 5,000 digits."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> ExactNumber:
        """`text` is that of a JSON number, or NaN, Infinity, -Infinity."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __reduce__(self) -> tuple[type[ExactNumber], tuple[str]]:
        """Keep the text in copies."""
        return ExactNumber, (self.text,)


_ENCODER = json.JSONEncoder(allow_nan=False)


def loads(text: str) -> Any:
    """Read a text as one JSON value, in which numbers keep their text.

    Raises:
        Malformed: it is none, or nests deeper than the interpreter goes.
    """
    try:
        return json.loads(text, parse_float=_float, parse_int=_int, parse_constant=ExactNumber)
    except RecursionError:
        raise Malformed(BEYOND_DEPTH) from None
    except ValueError as problem:
        raise Malformed(str(problem)) from None


def dumps(
    value: Any,
    *,
    quote: Callable[[str], str] = encode_basestring_ascii,
    separators: tuple[str, str] = (", ", ": "),
    sort: bool = False,
) -> str:
    """Return JSON text on one line; `separators` and `sort` are those of json.dumps."""
    comma, colon = separators
    parts: list[str] = []
    todo: list[tuple[Any, bool]] = [(value, False)]  # and whether it is text to print as it is
    while todo:
        item, is_text = todo.pop()
        if is_text:
            parts.append(item)
        elif isinstance(item, dict | list | tuple) and item:
            begin, end = "{}" if isinstance(item, dict) else "[]"
            pieces: list[tuple[Any, bool]] = []
            if isinstance(item, dict):
                for key, member in sorted(item.items()) if sort else item.items():
                    pieces += [(f"{comma}{quote(key)}{colon}", True), (member, False)]
            else:
                for member in item:
                    pieces += [(comma, True), (member, False)]
            pieces[0] = begin + pieces[0][0][len(comma) :], True
            todo.append((end, True))
            todo.extend(reversed(pieces))
        else:
            parts.append(_scalar(item, quote))
    return "".join(parts)


def _scalar(value: Any, quote: Callable[[str], str]) -> str:
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, ExactNumber):
        return value.text
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return _ENCODER.encode(value)


def _float(text: str) -> float:
    value = float(text)
    return value if repr(value) == text else ExactNumber(text)


def _int(text: str) -> int | float:
    try:
        value = int(text)
    except ValueError:  # more digits than CPython converts (CVE-2020-10735)
        return ExactNumber(text)
    return value if text != "-0" else ExactNumber(text)


def members_of(value: object) -> dict[str, Any]:
    """Return a value that is to be an object, an empty one for any other."""
    return value if isinstance(value, dict) else {}
