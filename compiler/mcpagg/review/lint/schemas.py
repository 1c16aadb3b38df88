"""Faults in the schemas of tools: what validators refuse to compile.

The rules are those of JSON Schema 2020-12, and of its older dialects where they allow more: arrays
in `items`, `definitions`, `dependencies`. One thing goes beyond the specification: what Ajv, the
validator of the official TypeScript SDK, refuses to compile (an empty `enum`, a `nullable` without
a `type`). Annotations such as `title`, and unknown keywords, are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from mcpagg.jsontext import at_pointer, escaped
from mcpagg.review.lint.regexes import regex_fault

QUOTED = 80  # characters

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_ANCHOR = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")
_METASCHEMAS = ("http://json-schema.org/", "https://json-schema.org/")


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """One fault: the JSON pointer to it, and what is wrong there.

    `is_remote` says whether it is a reference to another document.
    """

    pointer: str
    what: str
    is_remote: bool = False


def schema_faults(schema: Any, pointer: str = "") -> list[SchemaFault]:
    """Return what is wrong with a schema that stands at `pointer`, in its own order."""
    document = _Document(pointer)
    document.add(pointer, schema, "")
    return [fault for place in document.places for fault in document.faults(*place)]


def every_schema(schema: Any, pointer: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Return a schema that stands at `pointer`, and all in it, each with its JSON pointer."""
    document = _Document(pointer)
    document.add(pointer, schema, "")
    return [(where, schema) for where, schema, _ in document.places]


# Rules: what is wrong with the value of a keyword, "" for nothing.


def _type(value: Any) -> str:
    names = value if isinstance(value, list) else [value]
    unknown = [name for name in names if not (isinstance(name, str) and name in _TYPES)]
    if unknown:
        return f"{_short(unknown[0])} is no type"
    return "" if names and len(set(names)) == len(names) else "is no set of types"


def _names(value: Any) -> str:
    fine = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return "" if fine else "is no list of names"


def _lists_of_names(value: Any) -> str:
    fine = isinstance(value, dict) and not any(map(_names, value.values()))
    return "" if fine else "is no object of lists of names"


def _choices(value: Any) -> str:
    return "" if isinstance(value, list) and value else "is no list with something in it"


def _regex(value: Any) -> str:
    if not isinstance(value, str):
        return "is no regular expression"
    why = regex_fault(value)
    return f"{_short(value)} is no regular expression (ECMA 262, flag u): {why}" if why else ""


def _regex_names(value: Any) -> str:
    return next(filter(None, map(_regex, value)), "") if isinstance(value, dict) else ""


def _text(value: Any) -> str:
    return "" if isinstance(value, str) else "is no text"


def _anchor(value: Any) -> str:
    fine = isinstance(value, str) and _ANCHOR.fullmatch(value)
    return "" if fine else "is no name of an anchor"


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "is neither true nor false"


def _number(value: Any) -> str:
    return "" if _is_number(value) else "is no number"


def _factor(value: Any) -> str:
    return "" if _is_number(value) and value > 0 else "is no number above zero"


def _count(value: Any) -> str:
    fine = _is_number(value) and value >= 0 and value % 1 == 0
    return "" if fine else "is no count"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _schema(value: Any) -> str:
    return "" if isinstance(value, dict | bool) else "is no schema"


def _schemas(value: Any) -> str:
    fine = isinstance(value, list) and value and not any(map(_schema, value))
    return "" if fine else "is no list of schemas with something in it"


def _schema_or_schemas(value: Any) -> str:
    several = isinstance(value, list) and not any(map(_schema, value))
    return "" if several else _schema(value)


def _named_schemas(value: Any) -> str:
    fine = isinstance(value, dict) and not any(map(_schema, value.values()))
    return "" if fine else "is no object of schemas"


def _dependencies(value: Any) -> str:
    fine = isinstance(value, dict) and all(
        not _schema(item) or not _names(item) for item in value.values()
    )
    return "" if fine else "is no object of schemas or lists of names"


# Keywords that hold a schema, several in a list, and several by name.
_ONE = (
    *("not", "if", "then", "else", "contains", "propertyNames", "additionalProperties"),
    *("additionalItems", "unevaluatedProperties", "unevaluatedItems"),
)
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "$defs", "definitions", "dependentSchemas")
_COUNTS = (
    *("minLength", "maxLength", "minItems", "maxItems"),
    *("minProperties", "maxProperties", "minContains", "maxContains"),
)
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_ANCHORS = ("$anchor", "$dynamicAnchor")

_RULES: dict[str, tuple[Callable[[Any], str], ...]] = {
    "type": (_type,),
    "required": (_names,),
    "dependentRequired": (_lists_of_names,),
    "dependencies": (_dependencies,),
    "enum": (_choices,),
    "pattern": (_regex,),
    "patternProperties": (_named_schemas, _regex_names),
    "items": (_schema_or_schemas,),
    "multipleOf": (_factor,),
    **dict.fromkeys(("uniqueItems", "nullable"), (_flag,)),
    **dict.fromkeys(("format", "$id"), (_text,)),
    **dict.fromkeys(_ANCHORS, (_anchor,)),
    **dict.fromkeys(_NUMBERS, (_number,)),
    **dict.fromkeys(_COUNTS, (_count,)),
    **dict.fromkeys(_ONE, (_schema,)),
    **dict.fromkeys(_LISTS, (_schemas,)),
    **dict.fromkeys(_MAPS, (_named_schemas,)),
}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_REMOTE = "is another document"

_Place = tuple[str, dict[str, Any], str]
"""A schema within the document: its pointer, itself, and the URI that its references start from."""


@dataclass(slots=True)
class _Document:
    """A schema with all schemas in it, and what its references can lead to."""

    root: str
    places: list[_Place] = field(default_factory=list)
    _resources: dict[str, Any] = field(default_factory=dict)
    _anchors: set[tuple[str, str]] = field(default_factory=set)
    _seen: set[int] = field(default_factory=set)

    def add(self, pointer: str, schema: Any, base: str) -> None:
        """Take note of a schema, and of all schemas in it."""
        todo = [(pointer, schema, base)]
        while todo:
            pointer, schema, base = todo.pop()
            if not isinstance(schema, dict) or id(schema) in self._seen:
                continue
            self._seen.add(id(schema))
            identifier = schema.get("$id")
            if isinstance(identifier, str) and not identifier.startswith("#"):
                base = _joined(base, identifier).partition("#")[0]
            elif isinstance(identifier, str):  # an anchor, before 2019-09
                self._anchors.add((base, identifier[1:]))
            if pointer == self.root:
                self._resources[""] = schema
            if identifier or pointer == self.root:
                self._resources.setdefault(base, schema)
            for keyword in _ANCHORS:
                if isinstance(schema.get(keyword), str):
                    self._anchors.add((base, schema[keyword]))
            self.places.append((pointer, schema, base))
            inner = [
                (f"{pointer}/{path}", inner_schema, base)
                for path, inner_schema in _subschemas(schema)
            ]
            todo += reversed(inner)

    def faults(self, pointer: str, schema: dict[str, Any], base: str) -> Iterator[SchemaFault]:
        """Yield what is wrong with a schema itself."""
        for keyword, value in schema.items():
            place = f"{pointer}/{escaped(keyword)}"
            for rule in _RULES.get(keyword, ()):
                if what := rule(value):
                    yield SchemaFault(place, what)
            if keyword in _REFERENCES and (what := self._reference_fault(value, schema, base)):
                yield SchemaFault(place, what, is_remote=what.endswith(_REMOTE))
        if "nullable" in schema and "type" not in schema:
            yield SchemaFault(f"{pointer}/nullable", "stands without a type")

    def _reference_fault(self, reference: Any, schema: dict[str, Any], base: str) -> str:
        """Say why a reference cannot be followed, "" if it can."""
        if not isinstance(reference, str):
            return "is no text"
        if reference.startswith(_METASCHEMAS):
            return ""
        target = _joined(base, reference)
        uri, _, fragment = target.partition("#")
        if uri not in self._resources:
            if urlsplit(uri).scheme:
                return f"{_short(reference)} {_REMOTE}"
            return f"{_short(reference)} leads nowhere"
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return "" if (uri, fragment) in self._anchors else f"{_short(reference)} leads nowhere"
        try:
            referred = at_pointer(self._resources[uri], fragment)
        except (LookupError, ValueError, TypeError):
            return f"{_short(reference)} leads nowhere"
        if referred is schema and len(schema) == 1:
            return f"{_short(reference)} leads back to itself"
        if _schema(referred):
            return f"{_short(reference)} leads to what is no schema"
        # Not all that is referred to stands where schemas stand.
        self.add(self.root + fragment if uri == base else f"{self.root}#{target}", referred, uri)
        return ""


def _subschemas(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas right within a schema, each with its path from there."""
    for keyword, value in schema.items():
        if isinstance(value, list) and keyword in (*_LISTS, "items"):
            yield from ((f"{keyword}/{index}", item) for index, item in enumerate(value))
        elif keyword in (*_ONE, "items"):
            yield keyword, value
        elif isinstance(value, dict) and keyword in (*_MAPS, "patternProperties", "dependencies"):
            yield from ((f"{keyword}/{escaped(name)}", member) for name, member in value.items())


def _joined(base: str, reference: str) -> str:
    return base + reference if reference.startswith("#") else urljoin(base, reference)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"
