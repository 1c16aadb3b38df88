"""JSON pointers (RFC 6901): the places within a JSON value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def escaped(name: str) -> str:
    """Return the name of a member as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def at_pointer(value: Any, pointer: str) -> Any:
    """Return what stands in a value at a JSON pointer.

    Raises:
        LookupError, ValueError, TypeError: nothing does.
    """
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def strings(value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string in a value, names of members too, with its JSON pointer; no pictures."""
    if isinstance(value, str):
        if not value.startswith("data:"):
            yield pointer, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from strings(item, f"{pointer}/{index}")
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = f"{pointer}/{escaped(name)}"
            yield inner, name
            yield from strings(item, inner)
