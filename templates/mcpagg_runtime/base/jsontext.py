"""Takes JSON apart by its text, and writes it: values are cut out where they stand.

What passes through unread keeps its numbers, the order of its members, names that stand twice, lone
surrogates and members that nobody knows, as whoever wrote it did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.values import quote, scan, string_at

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    Span = tuple[int, int]
    Members = dict[str, tuple[Any, int, int]]

BLANK = " \t\r\n"
# Of a value in a longer text, in characters, nothing is read that is not needed.
LARGE = 1 << 20


class Malformed(ValueError):
    """Raised for a text that is not the JSON that is looked for in it; says why."""


class NotAnObject(Malformed):
    """Raised for a text that is JSON, but no object."""


def scanned(text: str, index: int) -> tuple[Any, int]:
    """Read the JSON value that starts at text[index]; return it and the index behind it.

    Raises:
        Malformed: there is no JSON value there.
        RecursionError: it nests deeper than the scanner goes.
    """
    try:
        try:
            return scan(text, index)
        except (ValueError, SystemError):
            from mcpagg_runtime.serve.deep import scanned_again

            return scanned_again(text, index)
    except StopIteration as problem:
        raise Malformed(f"no JSON value at character {problem.value}") from None
    except ValueError as problem:
        raise Malformed(str(problem)) from None


def skip(text: str, index: int) -> int:
    """Return the index of the first character at or behind `index` that is no white space."""
    end = len(text)
    while index < end and text[index] in BLANK:
        index += 1
    return index


def value_at(text: str, index: int) -> tuple[Any, int]:
    """Read the JSON value that starts at text[index]; return it and the index behind it.

    Raises:
        Malformed: there is no JSON value there, or it nests too deep.
    """
    try:
        return scanned(text, index)
    except RecursionError:
        from mcpagg_runtime.serve.deep import deep_value

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


def members(text: str, start: int = 0) -> tuple[Members, int]:
    """Take the JSON object at text[start] apart: {key: (value, start, end)}, and the index behind.

    The indices cut out the value's own text. A key that stands twice keeps its last value.

    Raises:
        Malformed: there is no JSON object there.
    """
    found: Members = {}
    return found, read_members(text, start, found)


def read_members(
    text: str,
    start: int,
    found: Members,
    names: list[str] | None = None,
    levels: int = 3,
    inner: Mapping[str, Members] | None = None,
) -> int:
    """Put the members of the JSON object at text[start] into `found`; return the index behind it.

    `names` gets the name of each, twice where it stands twice. Of a large text, objects are read
    no more than so many levels deep; see `outline`. `inner` {name: members} has the names of those
    whose own members are wanted too, where they are objects; it gets them.

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
            key, begin = _value_of(text, index)
            within = inner.get(key) if inner is not None else None
            value, index = _member_value(text, begin, levels, within)
            found[key] = value, begin, index
            if names is not None:
                names.append(key)
            # Most texts have no white space there: it is looked for, not skipped.
            index = skip(text, index) if text[index] in BLANK else index
            if text[index] == "}":
                return index + 1
            if text[index] != ",":
                raise Malformed(f"no comma at character {index}")
            index = skip(text, index + 1) if text[index + 1] in BLANK else index + 1
    except IndexError:
        raise Malformed("it ends too early") from None
    except (ValueError, SystemError) as problem:
        if isinstance(problem, Malformed):
            raise
        raise Malformed("a member name is no JSON string") from None


def _value_of(text: str, index: int) -> tuple[str, int]:
    """Read the name of a member; return it and the index of its value."""
    key, index = string_at(text, index)
    index = skip(text, index) if text[index] in BLANK else index
    if text[index] != ":":
        raise Malformed(f"no colon at character {index}")
    return key, skip(text, index + 1) if text[index + 1] in BLANK else index + 1


def _member_value(text: str, index: int, levels: int, found: Members | None) -> tuple[Any, int]:
    """Read the value of a member; the members of an object go into `found`."""
    if found is not None and text[index] == "{":
        found.clear()  # the last member of a name counts
        end = read_members(text, index, found, levels=levels - 1)
        return {name: value for name, (value, _, _) in found.items()}, end
    if len(text) - index <= LARGE:
        return value_at(text, index)
    from mcpagg_runtime.serve.deep import outline

    return outline(text, index, levels)


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
