"""Mutates JSON-RPC lines, as bytes and as JSON: the inputs of the fuzz."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

Edit = Callable[[Random, bytes], bytes]

BYTES = [b"\0", b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xef\xbb\xbf", b"\r", b"\t", b"\\", b'"']
BYTES += [b"{", b"}", b"[", b"]", b",", b":", b"\\u", b"\\ud800", b"\xe2\x80\xa8", b"\xf0\x9f\x92"]
BYTES += [b"-", b"1e999", b"NaN", b"null", b"true", b"0", b"\x0b", b"\x85", b"//", b"9" * 20]
MARKS = {  # strings that become JSON which the json module cannot write
    '"a number"': ["9" * 5000, "-" + "1" * 4300, "1e999", "NaN", "1" + "0" * 400 + ".5"],
    '"a nest"': ["[" * depth + "]" * depth for depth in (20, 500, 995, 3000)]
    + ['{"name":' * depth + "1" + "}" * depth for depth in (20, 500, 995, 3000)],
}
ODD: list[Any] = [None, True, False, 0, -1, 1.5, 1e308, 2**53, 2**64, 10**40, "", "0", "1", "x"]
ODD += [
    "\ud800",
    "\0",
    "\u2028",
    "é" * 50,
    [],
    {},
    [[]],
    [{}],
    {"": {}},
    "a:x",
    "a_x",
    "tools/call",
]
ODD += ["2025-03-26", "notifications/cancelled", {"name": "echo"}, {"requestId": 1}, "tools/call"]


def mutated(rng: Random, line: bytes, other: bytes) -> bytes:
    """Return a line with one to four mutations; `other` is a line to take parts from."""
    for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 4])):
        [edit] = rng.choices(list(EDITS), list(EDITS.values()))
        line = edit(rng, line)
    if rng.random() < 0.1:
        line = line[: rng.randint(0, len(line))] + other[rng.randint(0, len(other)) :]
    return line.replace(b"\n", b"\r")


def _place(rng: Random, line: bytes) -> tuple[int, int]:
    start = rng.randint(0, len(line))
    return start, min(len(line), start + rng.choice([1, 1, 2, 5, 20, 100]))


def _flip(rng: Random, line: bytes) -> bytes:
    changed = bytearray(line or b"x")
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncate(rng: Random, line: bytes) -> bytes:
    return line[: rng.randint(0, len(line))] if rng.random() < 0.7 else line[_place(rng, line)[0] :]


def _delete(rng: Random, line: bytes) -> bytes:
    start, end = _place(rng, line)
    return line[:start] + line[end:]


def _duplicate(rng: Random, line: bytes) -> bytes:
    start, end = _place(rng, line)
    return line[:end] + line[start:end] * rng.choice([1, 1, 1, 2, 50]) + line[end:]


def _insert(rng: Random, line: bytes) -> bytes:
    start, _ = _place(rng, line)
    return line[:start] + rng.choice(BYTES) + line[start:]


def _batch(rng: Random, line: bytes) -> bytes:
    return b"[" + b",".join([line] * rng.choice([1, 1, 2, 3])) + b"]" * rng.choice([1, 1, 1, 0, 2])


def _surround(rng: Random, line: bytes) -> bytes:
    return rng.choice(BYTES) + line + rng.choice(BYTES)


def _lengthen(rng: Random, line: bytes) -> bytes:
    start, _ = _place(rng, line)
    return line[:start] + rng.choice([b" ", b"x", b"[", b"\xff", b"9"]) * 70_000 + line[start:]


def _structure(rng: Random, line: bytes) -> bytes:
    """Change one value, or one member, of the JSON."""
    try:
        whole = [json.loads(line)]
    except (ValueError, RecursionError):
        return _flip(rng, line)
    places: list[tuple[Any, Any]] = [(whole, 0)]
    for outer, key in places:
        inner = outer[key]
        if isinstance(inner, dict | list):
            places += [
                (inner, each) for each in (inner if isinstance(inner, dict) else range(len(inner)))
            ]
    _change(rng, *rng.choice(places[1:] or places))
    try:
        changed = json.dumps(whole[0], ensure_ascii=rng.random() < 0.8)
    except RecursionError:
        return _flip(rng, line)
    for mark, texts in MARKS.items():
        changed = changed.replace(mark, rng.choice(texts))
    return changed.encode("utf-8", "surrogatepass")


def _change(rng: Random, outer: Any, key: Any) -> None:
    how = rng.random()
    if how < 0.6:
        outer[key] = rng.choice(ODD)
    elif how < 0.7:
        outer[key] = rng.choice(["a number", "a nest"])
    elif how < 0.83 and isinstance(outer, dict):
        del outer[key]
    elif how < 0.92 and isinstance(outer, dict):
        outer[rng.choice(["", "id", "method", "params", "result", "error", "x"])] = outer.pop(key)
    else:
        outer[key] = [outer[key], outer[key]]


EDITS: dict[Edit, float] = {
    _structure: 40,
    _flip: 10,
    _truncate: 10,
    _delete: 10,
    _duplicate: 10,
    _insert: 15,
    _batch: 5,
    _surround: 3,
    _lengthen: 0.3,
}
