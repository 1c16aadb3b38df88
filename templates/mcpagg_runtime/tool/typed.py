"""Arguments of a tool as a shell gives them: one JSON object, or key=value typed by a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_TYPES = {str: "string", bool: "boolean", float: "number", list: "array", dict: "object"}


class BadArgument(Exception):
    """Raised for an argument that cannot be meant; says why."""


def arguments_of(words: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that the words of a command line stand for.

    Raises:
        BadArgument: a word is neither, or its value is not of the type that the schema asks for.
    """
    if len(words) == 1 and ("=" not in words[0] or words[0].lstrip().startswith("{")):
        given = _parsed(words[0])
        if type(given) is not dict:
            raise BadArgument(f"neither a JSON object nor key=value: {words[0]}")
        return given
    arguments: dict[str, Any] = {}
    for word in words:
        key, sign, text = word.partition("=")
        if not key or not sign:
            raise BadArgument(f"neither a JSON object nor key=value: {word}")
        if key in arguments:
            raise BadArgument(f"{key} is given twice")
        arguments[key] = _typed(key, text, schema)
    return arguments


def _typed(key: str, text: str, schema: dict[str, Any]) -> Any:
    """Return the value that a text stands for: of the schema's type, else JSON, else the text."""
    properties = schema.get("properties")
    known = properties if type(properties) is dict else {}
    if key not in known and schema.get("additionalProperties") is False:
        raise BadArgument(f"there is no argument {key}{suggestion(key, list(known))}")
    types = _types_of(known.get(key))
    value = _parsed(text)
    if types != {"string"} and value is not _NOTHING:
        found = _TYPES.get(type(value), "null" if value is None else "integer")
        if not types or found in types or (found == "integer" and "number" in types):
            return value
    if types and "string" not in types:
        raise BadArgument(f"{key}: {text!r} is no {' or '.join(sorted(types))}")
    return text


def _types_of(schema: Any) -> set[str]:
    """Return the JSON types that a schema allows by name; none if it says nothing of them."""
    if type(schema) is not dict:
        return set()
    named = schema.get("type", [])
    types = {name for name in (named if type(named) is list else [named]) if type(name) is str}
    for branch in [*_list(schema, "anyOf"), *_list(schema, "oneOf")]:
        types |= _types_of(branch)
    return types


def _list(schema: dict[str, Any], member: str) -> list[Any]:
    value = schema.get(member)
    return value if type(value) is list else []


_NOTHING = object()


def _parsed(text: str) -> Any:
    """Return the value of a JSON text, `_NOTHING` if it is none."""
    import json

    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return _NOTHING


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def suggestion(name: str, known: list[str]) -> str:
    """Return what to add to a message about an unknown name: those that are near, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 3)
    return f"; did you mean {' or '.join(near)}?" if near else ""
