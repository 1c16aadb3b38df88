"""Edits JSON in its text, and takes it apart: all else of it stays as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import (
    BLANK,
    LARGE,
    obj,
    place_of,
    read_members,
    skip,
)
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcpagg_runtime.base.jsontext import Span
    from mcpagg_runtime.base.message import Json


def edited_object(json: Json, drop: Collection[str] = (), add: Mapping[str, str] = {}) -> str:
    """Return the text of an object without some members, and with others {name: JSON text}.

    All else of it stays as it was written.
    """
    text, known = json.text, json.value
    changed = [name for name in (*drop, *add) if name in known]
    if not changed:
        return extended(text, add)
    segments, done = [], 1
    for start, end, name in sorted((*json.place((name,)), name) for name in known):
        if name in add:
            segments.append(text[done:start] + add[name])
        elif name not in drop:
            segments.append(text[done:end])
        done = end
        comma = skip(text, end)
        if text[comma : comma + 1] == ",":
            done = skip(text, comma + 1)
    new = [f"{quote(name)}:{value}" for name, value in add.items() if name not in known]
    return "{" + ",".join([*segments, *new]) + "}"


def extended(text: str, add: Mapping[str, str]) -> str:
    """Return the JSON text of an object with members that it lacks; it is not read for that."""
    if not add:
        return text
    end = text.rstrip(BLANK)[:-1]
    comma = "" if end.rstrip(BLANK).endswith("{") else ","
    return end + comma + obj(add)[1:]


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


def repeated(text: str, start: int, wanted: tuple[str, ...]) -> str:
    """Say which of the wanted members the object at text[start] has twice, in whatever case."""
    whole = text.casefold() if len(text) <= LARGE else ""
    if whole and "\\" not in text and all(whole.count(f'"{name}"') < 2 for name in wanted):
        return ""  # nearly always, and without reading the text once more
    names: list[str] = []
    read_members(text, start, {}, names)
    folded = [name.casefold() for name in names]
    twice = [name for name in wanted if folded.count(name) > 1]
    return f"{twice[0]} stands more than once in params" if twice else ""
