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

from mcpagg.review.lint.regexes import regex_fault
from mcpagg_runtime.lists.keywords import TYPES, is_number
from mcpagg_runtime.lists.values import at_pointer, escaped

QUOTED = 80  # characters

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


def schema_faults(schema: Any, pointer: str) -> list[SchemaFault]:
    """Return what is wrong with a schema that stands at `pointer`, in its own order."""
    document = _Document(pointer)
    document.add(pointer, schema, "")
    return [fault for place in document.places for fault in document.faults(*place)]


def every_schema(schema: Any, pointer: str) -> list[tuple[str, dict[str, Any]]]:
    """Return a schema that stands at `pointer`, and all in it, each with its JSON pointer."""
    document = _Document(pointer)
    document.add(pointer, schema, "")
    return [(where, schema) for where, schema, _ in document.places]


# Rules: what is wrong with the value of a keyword, "" for nothing.

Rule = Callable[[Any], str]


def _must(holds: Callable[[Any], object], what: str) -> Rule:
    """Return the rule that something holds of a value, which `what` denies."""
    return lambda value: "" if holds(value) else what


def _type(value: Any) -> str:
    names = value if isinstance(value, list) else [value]
    unknown = [name for name in names if not (isinstance(name, str) and name in TYPES)]
    if unknown:
        return f"{_short(unknown[0])} is no type"
    return "" if names and len(set(names)) == len(names) else "is no set of types"


def _regex(value: Any) -> str:
    if not isinstance(value, str):
        return "is no regular expression"
    why = regex_fault(value)
    return f"{_short(value)} is no regular expression (ECMA 262, flag u): {why}" if why else ""


def _regex_names(value: Any) -> str:
    return next(filter(None, map(_regex, value)), "") if isinstance(value, dict) else ""


def _is_count(value: Any) -> bool:
    return is_number(value) and value >= 0 and value % 1 == 0


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_schemas(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_schema, value))


def _is_dependency(value: Any) -> bool:
    return _is_schema(value) or _is_names(value)


def _is_anchor(value: Any) -> bool:
    return isinstance(value, str) and bool(_ANCHOR.fullmatch(value))


def _are_all(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return what tells an object of whose members something holds."""
    return lambda value: isinstance(value, dict) and all(map(holds, value.values()))


_SCHEMA = _must(_is_schema, "is no schema")
_SCHEMAS = _must(
    lambda value: value and _is_schemas(value), "is no list of schemas with something in it"
)
_SCHEMA_OR_SCHEMAS = _must(lambda value: _is_schemas(value) or _is_schema(value), "is no schema")
_NAMED_SCHEMAS = _must(_are_all(_is_schema), "is no object of schemas")
_TEXT = _must(lambda value: isinstance(value, str), "is no text")

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

_RULES: dict[str, tuple[Rule, ...]] = {
    "type": (_type,),
    "required": (_must(_is_names, "is no list of names"),),
    "dependentRequired": (_must(_are_all(_is_names), "is no object of lists of names"),),
    "dependencies": (_must(_are_all(_is_dependency), "is no object of schemas or lists of names"),),
    "enum": (
        _must(lambda value: isinstance(value, list) and value, "is no list with something in it"),
    ),
    "pattern": (_regex,),
    "patternProperties": (_NAMED_SCHEMAS, _regex_names),
    "items": (_SCHEMA_OR_SCHEMAS,),
    "multipleOf": (_must(lambda value: is_number(value) and value > 0, "is no number above zero"),),
    **dict.fromkeys(
        ("uniqueItems", "nullable"),
        (_must(lambda value: isinstance(value, bool), "is neither true nor false"),),
    ),
    **dict.fromkeys(("format", "$id"), (_TEXT,)),
    **dict.fromkeys(_ANCHORS, (_must(_is_anchor, "is no name of an anchor"),)),
    **dict.fromkeys(_NUMBERS, (_must(is_number, "is no number"),)),
    **dict.fromkeys(_COUNTS, (_must(_is_count, "is no count"),)),
    **dict.fromkeys(_ONE, (_SCHEMA,)),
    **dict.fromkeys(_LISTS, (_SCHEMAS,)),
    **dict.fromkeys(_MAPS, (_NAMED_SCHEMAS,)),
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
        if not _is_schema(referred):
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
