"""Reads JSON that nests deeper than the C scanner goes: some 1,000 levels before Python 3.12.

Such a message must get through, or its call would never be answered; it may take its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.wire import Malformed, skip, value_at

if TYPE_CHECKING:
    from typing import Any

MAXIMUM_DEPTH = 100_000


def deep_value(text: str, index: int) -> tuple[Any, int]:
    """Read the JSON value that starts at text[index]; return it and the index behind it.

    Raises:
        Malformed: there is no JSON value there, or it nests deeper than MAXIMUM_DEPTH.
    """
    try:
        return _value(text, index)
    except IndexError:
        raise Malformed("it ends too early") from None


def _value(text: str, index: int) -> tuple[Any, int]:
    open_values: list[tuple[Any, str]] = []  # those that the place read is in, each with its key
    while True:
        value: Any
        if text[index] in "[{":
            value, end = ({}, "}") if text[index] == "{" else ([], "]")
            index = skip(text, index + 1)
            if text[index] != end:
                if len(open_values) == MAXIMUM_DEPTH:
                    raise Malformed("nested too deep")
                key, index = _key(text, index) if end == "}" else ("", index)
                open_values.append((value, key))
                continue
            index += 1
        else:
            value, index = value_at(text, index)
        while open_values:
            outer, key = open_values.pop()
            if type(outer) is dict:
                outer[key] = value
            else:
                outer.append(value)
            index = skip(text, index)
            if text[index] == ",":
                index = skip(text, index + 1)
                key, index = _key(text, index) if type(outer) is dict else ("", index)
                open_values.append((outer, key))
                break
            if text[index] != ("}" if type(outer) is dict else "]"):
                raise Malformed(f"no comma at character {index}")
            value, index = outer, index + 1
        else:
            return value, index


def _key(text: str, index: int) -> tuple[str, int]:
    """Read a member's name; return it and the index of its value."""
    if text[index] != '"':
        raise Malformed(f"no member name at character {index}")
    key, index = value_at(text, index)
    index = skip(text, index)
    if text[index] != ":":
        raise Malformed(f"no colon at character {index}")
    return key, skip(text, index + 1)
