"""Reads and writes JSON by its text: values are cut out where they stand, and edited in place.

What passes through unread keeps its numbers, the order of its members, names that stand twice, lone
surrogates and members that nobody knows, as whoever wrote it did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    # The C scanner behind the json module; importing json itself costs a start 14 ms (it needs re).
    from _json import encode_basestring_ascii, make_scanner, scanstring
except ImportError:  # an interpreter without the accelerator: slower, the same
    from json.decoder import scanstring  # type: ignore[attr-defined,no-redef]
    from json.encoder import encode_basestring_ascii
    from json.scanner import make_scanner

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    Scanner = Callable[[str, int], tuple[Any, int]]
    Span = tuple[int, int]

# Of a value in a longer text, in characters, nothing is read that is not needed.
LARGE = 1 << 20

BLANK = " \t\r\n"


class Malformed(ValueError):
    """Raised for a text that is not the JSON that is looked for in it; says why."""


class NotAnObject(Malformed):
    """Raised for a text that is JSON, but no object."""


class _Number(str):
    """An integer too long for Python's conversion limit, kept as its digits."""

    __slots__ = ()


def _integer(digits: str) -> int | _Number:
    # CPython refuses long conversions, of more than 4,300 digits by default (CVE-2020-10735).
    try:
        return int(digits)
    except ValueError:
        return _Number(digits)


class _Options:
    """What the C scanner asks of its owner, as json.JSONDecoder would set it."""

    strict = True
    object_hook = None
    object_pairs_hook: type | None = None
    parse_float = float
    parse_int: Callable[[str], Any] = int
    parse_constant = float


class _LongIntegers(_Options):
    parse_int = staticmethod(_integer)


class _Pairs(_LongIntegers):
    object_pairs_hook = list


_scan: Scanner = make_scanner(_Options())  # type: ignore[arg-type]
_scan_long: Scanner = make_scanner(_LongIntegers())  # type: ignore[arg-type]
_scan_pairs: Scanner = make_scanner(_Pairs())  # type: ignore[arg-type]


def value_at(text: str, index: int) -> tuple[Any, int]:
    """Read the JSON value that starts at text[index]; return it and the index behind it.

    Raises:
        Malformed: there is no JSON value there, or it nests too deep.
    """
    try:
        try:
            return _scan(text, index)
        except (ValueError, SystemError):
            # Before 3.12 the scanner can only name its error once json.decoder is there.
            import json.decoder  # noqa: F401

            return _scan_long(text, index)
    except StopIteration as problem:
        raise Malformed(f"no JSON value at character {problem.value}") from None
    except ValueError as problem:
        raise Malformed(str(problem)) from None
    except RecursionError:
        from mcpagg_runtime.deep import deep_value

        return deep_value(text, index)


def parse(text: str) -> Any:
    """Read a whole text as one JSON value.

    Raises:
        Malformed: it is none, or something follows it.
    """
    value, end = value_at(text, skip(text, 0))
    if skip(text, end) != len(text):
        raise Malformed(f"unexpected text at character {end}")
    return value


def members(text: str, start: int = 0) -> tuple[dict[str, tuple[Any, int, int]], int]:
    """Take the JSON object at text[start] apart: {key: (value, start, end)}, and the index behind.

    The indices cut out the value's own text. A key that stands twice keeps its last value.

    Raises:
        Malformed: there is no JSON object there.
    """
    found: dict[str, tuple[Any, int, int]] = {}
    return found, read_members(text, start, found)


def read_members(
    text: str,
    start: int,
    found: dict[str, tuple[Any, int, int]],
    names: list[str] | None = None,
    levels: int = 3,
) -> int:
    """Put the members of the JSON object at text[start] into `found`; return the index behind it.

    `names` gets the name of each, twice where it stands twice. Of a large text, objects are read
    no more than so many levels deep; see `outline`.

    Raises:
        Malformed: there is no JSON object there; `found` has the members before the fault.
    """
    try:
        if text[start] != "{":
            raise NotAnObject("not a JSON object")
        index = skip(text, start + 1)
        if text[index] == "}":
            return index + 1
        while True:
            if text[index] != '"':
                raise Malformed(f"no member name at character {index}")
            key, index = scanstring(text, index + 1, True)
            index = skip(text, index)
            if text[index] != ":":
                raise Malformed(f"no colon at character {index}")
            begin = skip(text, index + 1)
            value, index = _member_value(text, begin, levels)
            found[key] = value, begin, index
            if names is not None:
                names.append(key)
            index = skip(text, index)
            if text[index] == "}":
                return index + 1
            if text[index] != ",":
                raise Malformed(f"no comma at character {index}")
            index = skip(text, index + 1)
    except IndexError:
        raise Malformed("it ends too early") from None
    except (ValueError, SystemError) as problem:
        if isinstance(problem, Malformed):
            raise
        raise Malformed("a member name is no JSON string") from None


def _member_value(text: str, index: int, levels: int) -> tuple[Any, int]:
    if len(text) - index <= LARGE:
        return value_at(text, index)
    from mcpagg_runtime.deep import outline

    return outline(text, index, levels)


def member_stands_twice(text: str, start: int) -> bool:
    """Whether a member of the JSON object at text[start], which has been read, stands twice."""
    pairs, _ = _scan_pairs(text, start)
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


def skip(text: str, index: int) -> int:
    """Return the index of the first character at or behind `index` that is no white space."""
    end = len(text)
    while index < end and text[index] in BLANK:
        index += 1
    return index


def quote(text: str) -> str:
    """Return a string as JSON text, in ASCII."""
    return encode_basestring_ascii(text)


def obj(members_: Mapping[str, str] = {}, /, **more: str) -> str:
    """Return the JSON text of an object with these members, whose values are JSON texts."""
    pairs = [f"{quote(name)}:{text}" for name, text in {**members_, **more}.items()]
    return "{" + ",".join(pairs) + "}"


def edited(text: str, drop: Collection[str] = (), add: Mapping[str, str] = {}) -> str:
    """Return the JSON text of an object without some members, and with others {name: JSON text}."""
    if not drop and not add:
        return text
    found, _ = members(text)
    kept = {n: text[start:end] for n, (_, start, end) in found.items() if n not in drop}
    return obj({**kept, **add})


def extended(text: str, add: Mapping[str, str]) -> str:
    """Return the JSON text of an object with members that it lacks; it is not read for that."""
    if not add:
        return text
    end = text.rstrip(BLANK)[:-1]
    comma = "" if end.rstrip(BLANK).endswith("{") else ","
    return end + comma + obj(add)[1:]


def place_of(text: str, path: tuple[str, ...]) -> Span:
    """Return where the value that `path` leads to stands in the JSON text of an object.

    (0, 0) if there is none.
    """
    start = end = 0
    for name in path:
        if text[start : start + 1] != "{":
            return 0, 0
        found, _ = members(text, start)
        if name not in found:
            return 0, 0
        _, start, end = found[name]
    return start, end


def spliced(text: str, changes: list[tuple[Span, str]]) -> str:
    """Return a text with some places of it replaced."""
    parts, done = [], 0
    for (start, end), replacement in sorted(changes):
        parts += [text[done:start], replacement]
        done = end
    return "".join([*parts, text[done:]])


def replaced(text: str, member: str, value: str) -> str:
    """Return the JSON text of an object with the value of a member that it has replaced."""
    return spliced(text, [(place_of(text, (member,)), value)])
