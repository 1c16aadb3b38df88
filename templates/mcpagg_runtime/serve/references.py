"""References to environment variables inside config strings.

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

_DIGITS = "0123456789"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"  # pragma: allowlist secret


class MissingVariable(Exception):
    """Raised by `resolve` for a variable that is not set and has no default; `name` is its name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def references(text: str) -> list[tuple[str, str | None]]:
    """Return the variables that `text` refers to, in order, each with its default or None."""
    return [(name, default) for _, name, default in _pieces(text) if name and name != CONFIG_FOLDER]


def resolve(text: str, lookup: Callable[[str], str | None]) -> str:
    """Return `text` with every reference replaced by what `lookup` gives for its name.

    A variable that is set but empty counts as set, except for `:-`, whose default then applies
    as in a shell. A default is taken literally.

    Raises:
        MissingVariable: `lookup` gave None for a name without a default.
    """
    parts = []
    for literal, name, default in _pieces(text):
        parts.append(literal)
        if not name:
            continue
        value = lookup(name)
        if default is not None:
            value = value or default
        elif value is None:
            raise MissingVariable(name)
        parts.append(value)
    return "".join(parts)


def _pieces(text: str) -> Iterator[tuple[str, str, str | None]]:
    """Cut `text` into (literal, variable name or "", default or None) pieces."""
    start = index = 0
    while True:
        index = text.find("$", index)
        if index < 0:
            yield text[start:], "", None
            return
        if text.startswith("$$", index):
            yield text[start : index + 1], "", None
            start = index = index + 2
            continue
        reference = reference_at(text, index)
        if reference is None:
            index += 1
            continue
        name, default, end = reference
        yield text[start:index], name, default
        start = index = end


def reference_at(text: str, index: int) -> tuple[str, str | None, int] | None:
    """Read the reference at text[index] == "$": (name, default, end), or None if it is none.

    Of two dollars, neither begins one: whoever scans a text steps over both.
    """
    braced = text.startswith("${", index)
    start = index + 1 + braced
    if text.startswith("env:", start) and braced:
        start += 4
    end = start
    while end < len(text) and (text[end] in _LETTERS or (end > start and text[end] in _DIGITS)):
        end += 1
    name = text[start:end]
    if not name:
        return None
    if not braced:
        return name, None, end
    close = text.find("}", end)
    if close < 0:
        return None
    if close == end:
        return name, None, end + 1
    if text.startswith(":-", end):
        return name, text[end + 2 : close], close + 1
    return None
