"""Mends the entries of lists for which strict clients refuse the whole list.

If a member of one entry, such as a hint that is null, does not fit the types of a client, that
client has no tools at all, of any server. Such members are mended where that changes no meaning:

- an optional member that is null is left out, and so is a keyword in a schema, except `default` and
  `const`: the TypeScript SDK 1.x compiles the schemas of outputs;
- the schema of a tool's arguments is that of an object, whether it says so or not, and so is that
  of an output in the revisions with a handshake;
- the schemas `true`, `false` and null of a property are written as objects (JSON Schema, 4.3.2);
- an empty array in place of an object becomes an empty object, and the reverse: languages with one
  type for both cannot distinguish them.

An entry that is wrong in another way is not listed. Members that clients do not know, and `_meta`,
are not checked, since a null may have a meaning there. `SHAPES` is what the strictest of the
official libraries demands: Python 1.x and 2.x, TypeScript 1.x and 2.x.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcpagg_runtime.lists.catalogue import PROMPTS, RESOURCES, TEMPLATES, TOOLS
from mcpagg_runtime.lists.uris import is_absolute
from mcpagg_runtime.messages.jsontext import edited, elements, members, obj, spliced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcpagg_runtime.lists.catalogue import Kind

    Path = tuple[str | int, ...]
    Mends = dict[Path, str]
    """The JSON text that is to stand in each place, "" for none."""
    Shape = Callable[[Any], str | None] | dict[str, Any] | list[Any] | tuple[Any]
    """What a value must be. A dict: an object whose known members have these shapes. A list: an
    array whose elements have this shape. A tuple: an object whose members, whatever their names,
    have this shape. A function returns "" for a value that is right, the JSON text that is to
    replace it, or None if it cannot be mended."""

WRONG = "a wrong value"
_JSON_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
# Keywords of JSON Schema: those that hold schemas by name, those that hold one or several schemas,
# and all for which null has no meaning, which it has for `default` and `const`.
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_HOLDERS = (
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "allOf", "anyOf"),
    *("oneOf", "not", "if", "then", "else"),
)
_KEYWORDS = (
    *_BY_NAME,
    *_HOLDERS,
    *("$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$comment", "title"),
    *("description", "examples", "deprecated", "readOnly", "writeOnly", "nullable", "type"),
    *("enum", "required", "dependentRequired", "dependencies", "format", "pattern"),
    *("contentEncoding", "contentMediaType", "contentSchema", "multipleOf", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"),
    *("uniqueItems", "minProperties", "maxProperties", "minContains", "maxContains"),
)
_LARGEST_SIZE = float(1 << 63)


class Unmendable(ValueError):
    """Raised for an entry that cannot be mended; names the member by its JSON pointer."""


def find_mends(kind: Kind, entry: dict[str, Any], is_modern: bool) -> Mends:
    """Return the mends of an entry of a list, none if every client can read it.

    `is_modern`: its server speaks 2026-07-28, where outputs may be of any type.

    Raises:
        Unmendable: it cannot be mended.
    """
    shape = SHAPES.get(kind)
    if shape is None:
        return {}
    output = entry.get("outputSchema")
    if is_modern and type(output) is dict and output.get("type") != "object":
        types = {"type": _any_type_shape} if output.get("type") is not None else {}
        shape = {**shape, "outputSchema": {"$schema": _text_shape, **types}}
    mends: Mends = {}
    _check(entry, shape, (), mends)
    for member in ("inputSchema", "outputSchema") if kind is TOOLS else ():
        _drop_nulls(entry.get(member), (member,), mends)
    return mends


def described(entry: dict[str, Any], mends: Mends) -> list[tuple[str, str, str]]:
    """Return for each mend its JSON pointer, what is wrong there, and what is done."""
    return [
        (
            _as_pointer(path),
            _found_there(entry, path),
            f"{new} is written there" if new else "that is left out",
        )
        for path, new in mends.items()
    ]


# What values must be


def _text_shape(value: Any) -> str | None:
    return "" if type(value) is str else None


def _flag_shape(value: Any) -> str | None:
    return "" if type(value) is bool else None


def _choice_shape(*known: str) -> Callable[[Any], str | None]:
    return lambda value: "" if type(value) is str and value in known else None


def _size_shape(value: Any) -> str | None:
    is_whole = type(value) is float and abs(value) < _LARGEST_SIZE and value == int(value)
    return "" if type(value) is int or is_whole else None


def _share_shape(value: Any) -> str | None:
    return "" if type(value) in (int, float) and 0 <= value <= 1 else None


def _moment_shape(value: Any) -> str | None:
    """A date and a time of day with its zone (RFC 3339)."""
    from datetime import date

    if type(value) is not str:
        return None
    time = r"T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d" + time, value, re.ASCII):
        return None
    try:
        date.fromisoformat(value[:10])
    except ValueError:
        return None
    return ""


def _address_shape(value: Any) -> str | None:
    return "" if type(value) is str and is_absolute(value) else None


def _type_shape(value: Any) -> str | None:
    # Arguments are always an object: other types that are allowed besides have no meaning.
    if value == "object":
        return ""
    return '"object"' if type(value) is list and "object" in value else None


def _any_type_shape(value: Any) -> str | None:
    types = value if type(value) is list and value else [value]
    return "" if all(type(name) is str and name in _JSON_TYPES for name in types) else None


def _property_shape(value: Any) -> str | None:
    if value is None or value is True or value == []:
        return "{}"
    if value is False:
        return '{"not":{}}'
    return "" if type(value) is dict else None


_ICONS = [
    {
        "src": _text_shape,
        "mimeType": _text_shape,
        "sizes": [_text_shape],
        "theme": _choice_shape("light", "dark"),
    },
]
_ANY_ENTRY = {
    "name": _text_shape,
    "title": _text_shape,
    "description": _text_shape,
    "icons": _ICONS,
    "_meta": {},
}
_NOTES = {
    "audience": [_choice_shape("user", "assistant")],
    "priority": _share_shape,
    "lastModified": _moment_shape,
}
_SCHEMA = {
    "$schema": _text_shape,
    "type": _type_shape,
    "properties": (_property_shape,),
    "required": [_text_shape],
}
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_ARGUMENT = {
    "name": _text_shape,
    "title": _text_shape,
    "description": _text_shape,
    "required": _flag_shape,
}

SHAPES: Mapping[Kind, dict[str, Any]] = {
    TOOLS: {
        **_ANY_ENTRY,
        "inputSchema": _SCHEMA,
        "outputSchema": _SCHEMA,
        "annotations": {"title": _text_shape, **dict.fromkeys(_HINTS, _flag_shape)},
        "execution": {"taskSupport": _choice_shape("forbidden", "optional", "required")},
    },
    PROMPTS: {**_ANY_ENTRY, "arguments": [_ARGUMENT]},
    RESOURCES: {
        **_ANY_ENTRY,
        "uri": _address_shape,
        "mimeType": _text_shape,
        "size": _size_shape,
        "annotations": _NOTES,
    },
    TEMPLATES: {
        **_ANY_ENTRY,
        "uriTemplate": _text_shape,
        "mimeType": _text_shape,
        "annotations": _NOTES,
    },
}

_NEEDED: Mapping[str, str] = {
    **dict.fromkeys(("name", "uri", "uriTemplate", "src"), ""),
    "inputSchema": obj(type='"object"'),
    "type": '"object"',
}
"""Members that must be there wherever they are known, and what is written if they are missing; ""
if that is not known."""


def _check(value: Any, shape: Shape, path: Path, mends: Mends) -> None:
    """Check a value at `path` of an entry, and note its mends.

    Raises:
        Unmendable: it cannot be mended.
    """
    if isinstance(shape, dict):
        new = _check_members(value, shape, path, mends)
    elif isinstance(shape, (list, tuple)):
        new = _check_all(value, shape, path, mends)
    else:
        new = shape(value)
    if new is None:
        raise Unmendable(_as_pointer(path))
    if new:
        mends[path] = new


def _check_members(value: Any, shape: Mapping[str, Any], path: Path, mends: Mends) -> str | None:
    """Check the known members of an object; return what a function of a Shape returns."""
    missing = {name: new for name, new in _NEEDED.items() if name in shape}
    if value == [] and "" not in missing.values():
        return obj(missing)
    if type(value) is not dict:
        return None
    for name, inner in shape.items():
        place, new = (*path, name), missing.get(name)
        if value.get(name) is not None:
            _check(value[name], inner, place, mends)
        elif new == "":
            raise Unmendable(_as_pointer(place))
        elif new or name in value:
            mends[place] = new or ""
    return ""


def _check_all(value: Any, shape: list[Any] | tuple[Any], path: Path, mends: Mends) -> str | None:
    """Check all elements of an array, or members of an object; return the same."""
    is_array = isinstance(shape, list)
    if value == ({} if is_array else []):
        return "[]" if is_array else "{}"
    if type(value) is not (list if is_array else dict):
        return None
    for step in range(len(value)) if is_array else value:
        _check(value[step], shape[0], (*path, step), mends)
    return ""


def _drop_nulls(schema: Any, path: Path, mends: Mends) -> None:
    """Note each keyword that is null in a schema and in those within it."""
    for name, value in schema.items() if type(schema) is dict else ():
        place: Path = (*path, name)
        if value is None and name in _KEYWORDS:
            mends.setdefault(place, "")
        elif name in _BY_NAME and type(value) is dict:
            for key, inner in value.items():
                if inner is None:
                    mends[(*place, key)] = "{}"
                _drop_nulls(inner, (*place, key), mends)
        elif name in _HOLDERS:
            for step, inner in enumerate(value) if type(value) is list else [(None, value)]:
                _drop_nulls(inner, place if step is None else (*place, step), mends)


def _as_pointer(path: Path) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def _found_there(value: Any, path: Path) -> str:
    for step in path:
        if type(value) is dict and step not in value:
            return "nothing"
        value = value[step]
    return "null" if value is None else WRONG


def apply_mends(text: str, mends: Mends) -> str:
    """Return a JSON text, of an object or an array, with its mends applied."""
    by_step: dict[Any, Mends] = {}
    for (step, *rest), new in mends.items():
        by_step.setdefault(step, {})[tuple(rest)] = new
    if text[0] == "[":
        spans = [(begin, end) for _, begin, end in elements(text, 0)]
        changes = [(spans[i], _mended_part(text, spans[i], inner)) for i, inner in by_step.items()]
        return spliced(text, changes)
    found, _ = members(text)
    drop = [name for name, inner in by_step.items() if inner.get(()) == ""]
    add = {
        name: _mended_part(text, found[name][1:] if name in found else (0, 0), inner)
        for name, inner in by_step.items()
        if name not in drop
    }
    return edited(text, drop, add)


def _mended_part(text: str, place: tuple[int, int], mends: Mends) -> str:
    """Return a part of a text with its mends applied, or what replaces it."""
    return mends[()] if () in mends else apply_mends(text[place[0] : place[1]], mends)
