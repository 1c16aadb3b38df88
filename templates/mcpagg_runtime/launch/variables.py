"""Variables: references to them in strings of the config, and the files that set them.

`$VAR`, `${VAR}`, `${VAR:-default}` and `${env:VAR}` stand for a variable; `$$` is a dollar; a `$`
before anything else stays. `${workspaceFolder}` is no variable but the folder of the config. The
compiler checks references, and the emitted file resolves them at every start, both by this module.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


CONFIG_FOLDER = "workspaceFolder"
_NAME = "([A-Za-z_][A-Za-z0-9_]*)"
_UNBRACED = re.compile(rf"\$(?:\$|{_NAME})")
_VARIABLE = re.compile(rf"\$(?:\$|{_NAME}|\{{(?:env:|(?!env:)){_NAME}(?::-([^}}]*))?\}})")
_DOTENV_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_DOTENV_ESCAPE = re.compile(r"\\([nrt\"\\])")
_DOTENV_QUOTED = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\[nrt\"\\]|\\(?![nrt\"\\]))*)\"")


class MissingVariable(Exception):
    """Raised by `resolve` for a variable that is not set and has no default; `name` is its name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class BadUrl(ValueError):
    """Raised for what is no URL, or for a value that does not fit, by the name of its variable."""


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
        # Of `$$` the first dollar stays.
        yield text[start : index if name else index + 1], name, default
        start = end
    yield text[start:], "", None


def dollars(text: str) -> Iterator[tuple[int, int, str, str | None]]:
    """Yield (start, end, name, default or None) of each reference, of each `$$` the name ""."""
    # Behind the last closing brace, none is in braces: looking for their ends would take long.
    closed = text.rfind("}") + 1
    found = chain(_VARIABLE.finditer(text, 0, closed), _UNBRACED.finditer(text, closed))
    for match in found:
        plain, *braced = match.groups()
        name, default = (plain, None) if plain or not braced else braced
        yield match.start(), match.end(), name or "", default


def parse_env_file(text: str) -> dict[str, str]:
    """Return the variables that `text` sets: `NAME=value` lines, comments, quotes, `export`.

    Nothing is expanded. Double quotes know the escapes of JSON for newline, return, tab, quote and
    backslash; single quotes keep everything; both may span lines. Without quotes a value ends at
    ` #` or at the end of its line. The last value of a name counts; other lines are ignored.

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
            quoted = _DOTENV_QUOTED.match(whole := f"{value}\n{rest}")
            if quoted is not None:
                single, double = quoted.groups()
                found[name] = single if double is None else _unescaped(double)
                rest = whole[quoted.end() :].partition("\n")[2]
                continue
        found[name] = (" " + value).partition(" #")[0].strip()
    return found


def _unescaped(text: str) -> str:
    return _DOTENV_ESCAPE.sub(lambda match: _DOTENV_ESCAPES[match[1]], text)
