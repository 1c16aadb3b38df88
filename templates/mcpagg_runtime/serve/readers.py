"""Reads JSON that no start reads: arrays by element, long integers, members that stand twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.jsontext import value_at
from mcpagg_runtime.start.scanner import Malformed, ScannerOptions, new_scanner, skip

if TYPE_CHECKING:
    from typing import Any


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


def elements(text: str, start: int) -> list[tuple[Any, int, int]]:
    """Take the JSON array at text[start] apart: a (value, start, end) for each element.

    Raises:
        Malformed: there is no JSON array there.
    """
    found: list[tuple[Any, int, int]] = []
    try:
        if text[start] != "[":
            raise Malformed("not a JSON array")
        index = skip(text, start + 1)
        if text[index] == "]":
            return found
        while True:
            value, end = value_at(text, index)
            found.append((value, index, end))
            index = skip(text, end)
            if text[index] == "]":
                return found
            if text[index] != ",":
                raise Malformed(f"no comma at character {index}")
            index = skip(text, index + 1)
    except IndexError:
        raise Malformed("it ends too early") from None
