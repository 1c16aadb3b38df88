"""Reads JSON beyond what the C scanner does: too deep, or with integers that are too long.

The scanner goes some 1,000 levels deep before Python 3.12. Such messages must get through all the
same, or their calls would never be answered; they may take their time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcpagg_runtime.start.values import ScannerOptions, new_scanner

if TYPE_CHECKING:
    from typing import Any


MAXIMUM_DEPTH = 100_000
_BLANKS = re.compile(r"[ \t\r\n]*")


class _Number(str):
    """An integer too long for Python's conversion limit, kept as its digits."""

    __slots__ = ()


def _integer(digits: str) -> int | _Number:
    # CPython refuses long conversions, of more than 4,300 digits by default (CVE-2020-10735).
    try:
        return int(digits)
    except ValueError:
        return _Number(digits)


class _LongIntegers(ScannerOptions):
    parse_int = staticmethod(_integer)


_scan_long = new_scanner(_LongIntegers())


def read_again(text: str, index: int) -> tuple[Any, int]:
    """Read the JSON value at text[index], at which the scanner has failed.

    Returns it and the index behind it.

    Raises:
        ValueError: there is no JSON value there, or it nests deeper than MAXIMUM_DEPTH.
    """
    # Before 3.12 the scanner can only name its error once json.decoder is there.
    import json.decoder  # noqa: F401

    try:
        return _scan_long(text, index)
    except StopIteration as problem:
        raise ValueError(f"no JSON value at character {problem.value}") from None
    except RecursionError:
        pass
    try:
        return deep_value(text, index)
    except IndexError:
        raise ValueError("it ends too early") from None


def deep_value(text: str, index: int) -> tuple[Any, int]:
    """Read a JSON value as `read_again` does, however deep it nests.

    Raises:
        ValueError: there is no JSON value there.
        IndexError: it has no end.
    """
    open_values: list[tuple[Any, str]] = []  # those that the place read is in, each with its key
    while True:
        value: Any
        if text[index] in "[{":
            value, end = ({}, "}") if text[index] == "{" else ([], "]")
            index = _skip(text, index + 1)
            if text[index] != end:
                if len(open_values) == MAXIMUM_DEPTH:
                    raise ValueError("nested too deep")
                key, index = _key(text, index) if end == "}" else ("", index)
                open_values.append((value, key))
                continue
            index += 1
        else:
            value, index = read_again(text, index)
        while open_values:
            outer, key = open_values.pop()
            if type(outer) is dict:
                outer[key] = value
            else:
                outer.append(value)
            index = _skip(text, index)
            if text[index] == ",":
                index = _skip(text, index + 1)
                key, index = _key(text, index) if type(outer) is dict else ("", index)
                open_values.append((outer, key))
                break
            if text[index] != ("}" if type(outer) is dict else "]"):
                raise ValueError(f"no comma at character {index}")
            value, index = outer, index + 1
        else:
            return value, index


def _key(text: str, index: int) -> tuple[str, int]:
    """Read a member's name; return it and the index of its value."""
    if text[index] != '"':
        raise ValueError(f"no member name at character {index}")
    key, index = read_again(text, index)
    index = _skip(text, index)
    if text[index] != ":":
        raise ValueError(f"no colon at character {index}")
    return key, _skip(text, index + 1)


def _skip(text: str, index: int) -> int:
    """Return the index of the first character at or behind `index` that is no white space."""
    found = _BLANKS.match(text, index)
    return found.end() if found else index
