"""JSON as the compiler reads and prints it: a child's numbers keep the text that they came in."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from json.encoder import encode_basestring_ascii
from typing import Any

from mcpagg_runtime.base.jsontext import BEYOND_DEPTH, Malformed


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

    def text_of(item: Any) -> str:
        if isinstance(item, dict):
            members = sorted(item.items()) if sort else item.items()
            pairs = [f"{quote(name)}{colon}{text_of(member)}" for name, member in members]
            return "{" + comma.join(pairs) + "}"
        if isinstance(item, list | tuple):
            return "[" + comma.join(map(text_of, item)) + "]"
        if isinstance(item, str):
            return quote(item)
        if isinstance(item, ExactNumber):
            return item.text
        if isinstance(item, float) and math.isinf(item):
            return "1e999" if item > 0 else "-1e999"
        return _ENCODER.encode(item)

    return text_of(value)


def _float(text: str) -> float:
    value = float(text)
    return value if repr(value) == text else ExactNumber(text)


def _int(text: str) -> int | float:
    try:
        value = int(text)
    except ValueError:  # more digits than CPython converts (CVE-2020-10735)
        return ExactNumber(text)
    return value if text != "-0" else ExactNumber(text)
