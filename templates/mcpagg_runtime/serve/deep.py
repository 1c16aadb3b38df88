"""Reads JSON beyond what the C scanner does: too deep, too large, integers too long.

The scanner goes some 1,000 levels deep before Python 3.12, and while it works no other thread of
the interpreter does: a large text would hold up every server. Such messages must get through all
the same, or their calls would never be answered; they may take their time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import Malformed, read_members, scanned, skip, value_at
from mcpagg_runtime.start.values import ScannerOptions, new_scanner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


MAXIMUM_DEPTH = 100_000
# How much is searched in one go.
WINDOW = 1 << 20
# How long a string in a large text is read.
LONG_STRING = 1 << 24
# A whole string, if it is short and plain; or what else opens or closes something.
_MARK = re.compile(r'"[^"\\]{0,1000}"|[\[\]{}"]')


def deep_value(text: str, index: int) -> tuple[Any, int]:
    """Read the JSON value that starts at text[index]; return it and the index behind it.

    Raises:
        Malformed: there is no JSON value there, or it nests deeper than MAXIMUM_DEPTH.
    """
    try:
        return _value(text, index)
    except IndexError:
        raise Malformed("it ends too early") from None


def _value(text: str, index: int) -> tuple[Any, int]:
    open_values: list[tuple[Any, str]] = []  # those that the place read is in, each with its key
    while True:
        value: Any
        if text[index] in "[{":
            value, end = ({}, "}") if text[index] == "{" else ([], "]")
            index = skip(text, index + 1)
            if text[index] != end:
                if len(open_values) == MAXIMUM_DEPTH:
                    raise Malformed("nested too deep")
                key, index = _key(text, index) if end == "}" else ("", index)
                open_values.append((value, key))
                continue
            index += 1
        else:
            value, index = scanned(text, index)
        while open_values:
            outer, key = open_values.pop()
            if type(outer) is dict:
                outer[key] = value
            else:
                outer.append(value)
            index = skip(text, index)
            if text[index] == ",":
                index = skip(text, index + 1)
                key, index = _key(text, index) if type(outer) is dict else ("", index)
                open_values.append((outer, key))
                break
            if text[index] != ("}" if type(outer) is dict else "]"):
                raise Malformed(f"no comma at character {index}")
            value, index = outer, index + 1
        else:
            return value, index


def _key(text: str, index: int) -> tuple[str, int]:
    """Read a member's name; return it and the index of its value."""
    if text[index] != '"':
        raise Malformed(f"no member name at character {index}")
    key, index = scanned(text, index)
    index = skip(text, index)
    if text[index] != ":":
        raise Malformed(f"no colon at character {index}")
    return key, skip(text, index + 1)


def extents(text: str, index: int) -> Iterator[tuple[int, int, int]]:
    """Yield where each element of the JSON array at text[index] is, and its depth; see `extent`.

    Raises:
        Malformed: there is no JSON array there.
    """
    if text[index : index + 1] != "[":
        raise Malformed("not a JSON array")
    index = skip(text, index + 1)
    while text[index : index + 1] != "]":
        end, depth = extent(text, index)
        yield index, end, depth
        index = skip(text, end)
        if text[index : index + 1] == ",":
            index = skip(text, index + 1)
        elif text[index : index + 1] != "]":
            raise Malformed(f"no comma at character {index}")


def extent(text: str, index: int) -> tuple[int, int]:
    """Return the index behind the JSON value at text[index], and how many levels it has.

    Of what is in an object or an array only brackets and strings are looked at.

    Raises:
        Malformed: it has no end, or nests deeper than MAXIMUM_DEPTH.
    """
    if text[index : index + 1] not in ("{", "["):
        is_string = text[index : index + 1] == '"'
        return (_string_end(text, index) if is_string else scanned(text, index)[1]), 0
    awaited: list[str] = []
    deepest = 0
    while index < len(text):
        limit = index + WINDOW
        for found in _MARK.finditer(text, index, limit):
            mark, index = found[0], found.end()
            if mark in "{[":
                awaited.append("}" if mark == "{" else "]")
                deepest = max(deepest, len(awaited))
                if deepest > MAXIMUM_DEPTH:
                    raise Malformed("nested too deep")
            elif mark in "}]":
                if awaited.pop() != mark:
                    raise Malformed(f"no comma at character {index - 1}")
                if not awaited:
                    return index, deepest
            elif mark == '"':
                index = _string_end(text, index - 1)
                break
        else:
            index = max(index, limit)
    raise Malformed("it ends too early")


def _string_end(text: str, index: int) -> int:
    """Return the index behind the string at text[index]."""
    while True:
        index = text.find('"', index + 1)
        if index < 0:
            raise Malformed("it ends too early")
        behind = index
        while text[behind - 1] == "\\":
            behind -= 1
        if (index - behind) % 2 == 0:
            return index + 1


def outline(text: str, index: int, levels: int = 3) -> tuple[Any, int]:
    """Read the JSON value at text[index] of a large text; return it and the index behind it.

    Objects are read `levels` deep. What is below, an array or a very long string is only skipped,
    and stands as an empty value of its type.

    Raises:
        Malformed: there is no JSON value there, as far as it was read.
    """
    kind = text[index : index + 1]
    if kind == "{" and levels:
        found: dict[str, tuple[Any, int, int]] = {}
        end = read_members(text, index, found, levels=levels - 1)
        return {name: value for name, (value, _, _) in found.items()}, end
    if kind not in ("{", "[", '"'):
        return value_at(text, index)
    end, _ = extent(text, index)
    if kind == '"' and end - index <= LONG_STRING:
        return value_at(text, index)
    return {"{": {}, "[": [], '"': ""}[kind], end


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


class _Pairs(_LongIntegers):
    object_pairs_hook = list


_scan_long = new_scanner(_LongIntegers())
_scan_pairs = new_scanner(_Pairs())


def scanned_again(text: str, index: int) -> tuple[Any, int]:
    """Read a JSON value that the scanner has refused: it may hold an integer that is too long.

    Raises:
        ValueError: there is no JSON value there, and why.
        StopIteration: the same, at its value.
    """
    # Before 3.12 the scanner can only name its error once json.decoder is there.
    import json.decoder  # noqa: F401

    return _scan_long(text, index)


def member_stands_twice(text: str, start: int) -> bool:
    """Whether a member of the JSON object at text[start], which has been read, stands twice."""
    pairs = _scan_pairs(text, start)[0]
    return len({name for name, _ in pairs}) < len(pairs)
