"""Variables: references to them inside config strings, and the files that set them.

`$VAR`, `${VAR}`, `${VAR:-default}` and `${env:VAR}` stand for a variable; `$$` is a dollar; a `$`
before anything else stays. `${workspaceFolder}` is no variable but the folder of the config. The
compiler checks references with this module and the emitted file resolves them with it at every
start, so the two cannot disagree.

Scanned by hand: `re` would cost the emitted file 9 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


CONFIG_FOLDER = "workspaceFolder"
_DIGITS = frozenset("0123456789")
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_UNRESERVED = _LETTERS | _DIGITS | frozenset(".~-")
_DOTENV_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


class MissingVariable(Exception):
    """Raised by `resolve` for a variable that is not set and has no default; `name` is its name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class BadUrl(ValueError):
    """Raised for what is no URL, or by the name of its variable for a value that does not fit."""


def references(text: str) -> list[tuple[str, str | None]]:
    """Return the variables that `text` refers to, in order, each with its default or None."""
    return [(name, default) for _, name, default in pieces(text) if name and name != CONFIG_FOLDER]


def resolve(text: str, lookup: Callable[[str], str | None]) -> str:
    """Return `text` with every reference replaced by what `lookup` gives for its name.

    Raises:
        MissingVariable: `lookup` gave None for a name without a default.
    """
    parts = []
    for literal, name, default in pieces(text):
        parts.append(literal)
        if name:
            parts.append(value_of(name, default, lookup))
    return "".join(parts)


def value_of(name: str, default: str | None, lookup: Callable[[str], str | None]) -> str:
    """Return what a reference stands for.

    A variable that is set but empty counts as set, except for `:-`, whose default then applies
    as in a shell. A default is taken literally.

    Raises:
        MissingVariable: `lookup` gave None for a name without a default.
    """
    value = lookup(name)
    if default is not None:
        return value or default
    if value is None:
        raise MissingVariable(name)
    return value


def pieces(text: str) -> Iterator[tuple[str, str, str | None]]:
    """Cut `text` into (literal, variable name or "", default or None) pieces."""
    start = 0
    for index, end, name, default in dollars(text):
        # Of two dollars the first one stays.
        yield text[start : index if name else index + 1], name, default
        start = end
    yield text[start:], "", None


def dollars(text: str) -> Iterator[tuple[int, int, str, str | None]]:
    """Yield (start, end, name, default or None) of each reference, of each `$$` the name ""."""
    closed = text.rfind("}")  # behind it nothing is in braces: looking for their ends takes long
    index = text.find("$")
    while index >= 0:
        if text.startswith("$$", index):
            yield index, index + 2, "", None
            end = index + 2
        else:
            name, default, end = _reference_at(text, index, closed)
            if name:
                yield index, end, name, default
        index = text.find("$", end)


def _reference_at(text: str, index: int, closed: int) -> tuple[str, str | None, int]:
    """Read the reference at text[index] == "$": (name, default, end), the name "" if it is none.

    `closed` is where the last brace of the text closes.
    """
    braced = text.startswith("${", index)
    none = "", None, index + 1
    start = index + 1 + braced
    if text.startswith("env:", start) and braced:
        start += 4
    end = start
    while end < len(text) and (text[end] in _LETTERS or (end > start and text[end] in _DIGITS)):
        end += 1
    name = text[start:end]
    if not name or not braced:
        return (name, None, end) if name else none
    if text.startswith("}", end):
        return name, None, end + 1
    if text.startswith(":-", end) and end < closed:
        close = text.find("}", end)
        return name, text[end + 2 : close], close + 1
    return none


def percent_encoded(text: str, kept: str = "") -> str:
    """Return text as it stands in a URL: all but what is unreserved there, and `kept`, encoded."""
    return "".join(
        [
            (
                char
                if char in _UNRESERVED or char in kept
                else "".join([f"%{byte:02X}" for byte in char.encode("utf-8", "surrogateescape")])
            )
            for char in text
        ]
    )


def parse_env_file(text: str) -> dict[str, str]:
    """Return the variables that `text` sets: `NAME=value` lines, comments, quotes, `export`.

    Nothing is expanded. Double quotes know the escapes of JSON for newline, return, tab, quote and
    backslash; single quotes keep everything; both may span lines. Without quotes a value ends at
    ` #` or at the end of its line. The last of a name wins, other lines are passed by.

    Raises:
        ValueError: `text` holds a NUL, which no environment can.
    """
    if "\0" in text:
        raise ValueError("holds a NUL character")
    found = {}
    rest = text.lstrip("\ufeff").replace("\r\n", "\n")
    while rest:
        line, _, rest = rest.partition("\n")
        name, equals, value = line.partition("=")
        name = name.strip().removeprefix("export ").strip()
        if not equals or not name or name.startswith("#"):
            continue
        value = value.lstrip()
        if value[:1] in ("'", '"'):
            quoted, after = _quoted_value(value + "\n" + rest)
            if quoted is not None:
                found[name], rest = quoted, after
                continue
        found[name] = (" " + value).partition(" #")[0].strip()
    return found


def _quoted_value(text: str) -> tuple[str | None, str]:
    """Read the quoted value that `text` begins with: (value, the lines after it)."""
    quote, index = text[0], 1
    parts: list[str] = []
    while index < len(text):
        character = text[index]
        if character == quote:
            return "".join(parts), text[index:].partition("\n")[2]
        if character == "\\" and quote == '"' and text[index + 1 : index + 2] in _DOTENV_ESCAPES:
            index += 1
            character = _DOTENV_ESCAPES[text[index]]
        parts.append(character)
        index += 1
    return None, ""
