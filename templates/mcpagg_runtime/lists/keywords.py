"""What a JSON Schema says by its keywords: types, values, alternatives, references."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING

from mcpagg_runtime.lists.values import ABSENT, at_pointer, equal, items_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
TEXTS = ("title", "description")
CHOICES = ("anyOf", "oneOf")
OF_ONE_VALUE = ("const", "enum")
# What may stand beside alternatives without asserting anything.
BESIDE_CHOICES = frozenset({*TEXTS, "default"})

MOST_PAIRS = 40_000  # of alternatives, each of which is compared with each


def allowed_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types of the values that a schema allows; a number may be an integer."""
    types = schema.get("type", [*TYPES])
    names = frozenset(map(str, [types] if isinstance(types, str) else items_of(types)))
    return names | {"integer"} if "number" in names else names


def enumerated(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return {key of equality: value} of the values that a schema lists, None without a list."""
    if "const" in schema:
        return {_key(schema["const"]): schema["const"]}
    values = schema.get("enum")
    return {_key(value): value for value in values} if isinstance(values, list) else None


def _key(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def alternatives(schema: Mapping[str, Any], document: Any) -> list[Any] | None:
    """Return what a schema allows as a list of schemas, None where it says more than that.

    So that a type and that type or null are found to be alike, as {"type": "string"} and
    {"anyOf": [{"type": "string"}, {"type": "null"}]} are.
    """
    asserting = {name: value for name, value in schema.items() if name not in BESIDE_CHOICES}
    if not has_choices(schema):
        return [asserting]
    [choices, *more] = asserting.values()
    if more or not isinstance(choices, list):
        return None
    return choices if "oneOf" not in asserting or are_apart(choices, document) else None


def are_apart(choices: Sequence[Any], document: Any) -> bool:
    """Whether no value fits two of the schemas, so that `oneOf` is as `anyOf`.

    As far as types and constants tell, those of a property that all of them require included.
    """
    if len(choices) ** 2 > MOST_PAIRS:
        return False
    targets = [as_object(target_of(choice, document)) for choice in choices]
    return all(_exclude(one, other) for one, other in combinations(targets, 2))


def _exclude(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    types = allowed_types(one) & allowed_types(other)
    if not types or _values_are_disjoint(one, other):
        return True
    if types != {"object"}:
        return False
    mine, others = (as_object(schema.get("properties")) for schema in (one, other))
    required = names_in(one.get("required")).keys() & names_in(other.get("required"))
    return any(
        _values_are_disjoint(as_object(mine.get(name)), as_object(others.get(name)))
        for name in required
    )


def _values_are_disjoint(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    mine, others = enumerated(one), enumerated(other)
    return mine is not None and others is not None and not mine.keys() & others.keys()


def has_choices(schema: Mapping[str, Any]) -> bool:
    return any(name in schema for name in CHOICES)


def reference_of(schema: Any) -> str:
    """Return what a schema refers to, "" for nothing."""
    return str(schema.get("$ref", "")) if isinstance(schema, dict) else ""


def target_of(schema: Any, document: Any) -> Any:
    """Return the schema that one refers to within its document, with what stands beside.

    Itself, where that is not there, or asserts otherwise what is asserted beside: both hold then.
    """
    for _ in range(10):  # a reference may lead to a reference
        reference = reference_of(schema)
        target = _at(document, reference[1:]) if reference.startswith("#") else ABSENT
        if target is ABSENT:
            break
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        asserted = as_object(target)
        both = asserted.keys() & beside.keys() - BESIDE_CHOICES
        if any(not equal(asserted[name], beside[name]) for name in both):
            break
        schema = {**target, **beside} if isinstance(target, dict) else target
    return schema


def _at(document: Any, pointer: str) -> Any:
    if pointer and not pointer.startswith("/"):  # an anchor
        return ABSENT
    try:
        return at_pointer(document, pointer)
    except (LookupError, ValueError, TypeError):
        return ABSENT


def as_object(schema: Any) -> dict[str, Any]:
    """Return a schema that may be true or false, or no schema at all, as an object."""
    if isinstance(schema, dict):
        return schema
    return {"not": {}} if schema is False else {}


def allows_all(schema: Any) -> bool:
    return schema is True or schema == {}


def names_in(value: Any) -> dict[str, None]:
    """Return the names in a list, in their order."""
    return {name: None for name in items_of(value) if isinstance(name, str)}


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
