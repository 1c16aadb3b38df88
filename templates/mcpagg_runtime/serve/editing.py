"""Edits JSON in its text, and takes it apart: all else of it stays as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import (
    place_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcpagg_runtime.base.jsontext import Span
    from mcpagg_runtime.base.message import Json


def edited_object(json: Json, drop: Collection[str] = (), add: Mapping[str, str] = {}) -> str:
    """Return the text of an object without some members, and with others {name: JSON text}."""
    return json.edited(drop, add).text


def spliced(text: str, changes: list[tuple[Span, str]]) -> str:
    """Return a text with some places of it replaced."""
    for (start, end), replacement in sorted(changes, reverse=True):
        text = f"{text[:start]}{replacement}{text[end:]}"
    return text


def replaced(text: str, member: str, value: str) -> str:
    """Return the JSON text of an object with the value of a member that it has replaced."""
    return spliced(text, [(place_of(text, (member,)), value)])
