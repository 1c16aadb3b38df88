"""Validates a value by a model; each fault is reported where it stands."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from mcpagg.jsontext import loads
from mcpagg.passes.config.document import HALF_CHARACTER
from mcpagg.passes.config.formats import Number
from mcpagg.passes.config.places import COMMENTS, Place, kind
from mcpagg.problems import nearest, suggest

Json = dict[str, Any]

_WORDS = {
    "string": "a string",
    "number": "a number",
    "integer": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "",
}


def validated(
    shape: str | type,
    value: Any,
    at: Place,
    servers: Collection[str] = (),
) -> Any:
    """Return a value as a model, or that of a name in `models`; None after errors at their places.

    `servers` are the names of all servers of the config. A key that is not known is an error.
    """
    from pydantic import TypeAdapter, ValidationError  # 0.1 s that most configs need not wait for

    model: Any = shape
    read = value
    if isinstance(shape, str):
        from mcpagg.passes.config import models

        model, read = getattr(models, shape), plain(value)
    before = len(at.errors)
    adapter = TypeAdapter(model)
    while True:
        try:
            return adapter.validate_python(read, context=servers)
        except ValidationError as problem:
            faults = problem.errors(include_url=False)
        from mcpagg.passes.config.models import schema_of

        schema = schema_of(model)
        meant = set()  # members that are there under a misspelt key, and so not missing
        for fault in sorted(faults, key=lambda fault: fault["type"] == "missing"):
            way = fault["loc"]
            if fault["type"] == "missing" and way in meant:
                continue
            if fault["type"] == "extra_forbidden":
                parent = _reach(read, way[:-1])
                known = [*_Schema(schema, way[:-1]).properties]
                meant.add((*way[:-1], nearest(str(way[-1]), known)))
                _refuse_unknown(str(way[-1]), place_of(at, value, way), known)
                del parent[way[-1]]
                continue
            way = way[:-1] if way[-1:] == ("[key]",) else way
            place_of(at, value, way).error(*_said(fault, _Schema(schema, way)))
        if len(at.errors) > before:
            return None


def _refuse_unknown(key: str, at: Place, known: Collection[str]) -> None:
    """Report a key that is not known, unless it is a comment: what is ours has no others."""
    if not key.startswith(COMMENTS):
        at.error("is not understood", suggest(key, known) or f"known: {', '.join(known)}")


def plain(value: Any) -> Any:
    """Return a value of the config as a JSON value."""
    if isinstance(value, Number):
        return loads(value.text)
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list) else value


def place_of(at: Place, value: Any, way: Sequence[str | int]) -> Place:
    """Return the place of what stands at a way below a value, as the value is written.

    A model may have more on the way to it: a list where one string is written without.
    """
    for step in way:
        if isinstance(value, list if isinstance(step, int) else dict):
            at = at.at(step)
            value = _reach(value, [step])
    return at


def _reach(value: Any, way: Sequence[str | int]) -> Any:
    """Return what stands at a way below a value, passing over what the value does not have."""
    for step in way:
        if isinstance(value, list) and isinstance(step, int):
            value = value[step]
        elif isinstance(value, dict):
            value = value.get(step)
    return value


class _Schema:
    """The JSON Schema of a model at one place."""

    def __init__(self, schema: Json, way: Sequence[str | int]) -> None:
        self._types: Json = schema.get("$defs", {})
        self._found = [*self._alternatives(schema)]
        for step in way:
            members = (_member(part, step) for part in self._found)
            self._found = [
                other
                for member in members
                if isinstance(member, dict)
                for other in self._alternatives(member)
            ]

    def _alternatives(self, schema: Json) -> Iterator[Json]:
        yield schema
        if "$ref" in schema:
            yield from self._alternatives(self._types[schema["$ref"].rpartition("/")[2]])
        for other in schema.get("anyOf", ()):
            yield from self._alternatives(other)

    def _first(self, keyword: str) -> Any:
        return next((schema[keyword] for schema in self._found if keyword in schema), None)

    @property
    def properties(self) -> Mapping[str, Any]:
        """The members that it may have."""
        return self._first("properties") or {}

    @property
    def choices(self) -> list[str]:
        """The strings that it may be."""
        return self._first("enum") or [self._first("const")]

    @property
    def remedy(self) -> str:
        """What to write, by its example."""
        examples = self._first("examples")
        return f"write {json.dumps(examples[0], ensure_ascii=False)}" if examples else ""

    @property
    def expected(self) -> str:
        """What may stand there, in words."""
        types = [word for schema in self._found for word in self._words(schema)]
        words = " or ".join(word for word in dict.fromkeys(types) if word)
        return words + (", or null to leave it out" if "" in types else "")

    def _words(self, schema: Json) -> list[str]:
        types = schema.get("type", ())
        items = [item.get("type") for item in self._alternatives(schema.get("items", {}))]
        if items == ["string"]:
            return ["a list of strings"]
        return [_WORDS[name] for name in ([types] if isinstance(types, str) else types)]


def _member(schema: Json, step: str | int) -> Any:
    if isinstance(step, int):
        return schema.get("items")
    return schema.get("properties", {}).get(step, schema.get("additionalProperties"))


def _said(fault: Mapping[str, Any], schema: _Schema) -> tuple[str, str]:
    """Return what is wrong, and what to do about it."""
    own = fault.get("ctx", {}).get("error")
    if own is not None:
        return own.what, own.remedy
    if fault["type"] == "string_unicode":
        return HALF_CHARACTER, ""
    if fault["type"] == "missing":
        return "is missing", schema.remedy
    if fault["type"] == "literal_error":
        *others, last = schema.choices
        near = suggest(fault["input"], schema.choices) if isinstance(fault["input"], str) else ""
        return f"expected {' or '.join([', '.join(others), last] if others else [last])}", near
    return f"expected {schema.expected}, found {kind(fault['input'])}", schema.remedy
