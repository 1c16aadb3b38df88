"""Faults of a tool's schemas: what validators refuse, and nothing that they accept."""

from __future__ import annotations

from typing import Any

import pytest

from mcpagg.review.lint.schemas import QUOTED, schema_faults


def faults(schema: Any) -> list[tuple[str, str]]:
    """Return what is wrong with a schema, as (pointer, what)."""
    return [(fault.pointer, fault.what) for fault in schema_faults(schema, "/s")]


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": ["string", "null"], "enum": [None, "a"], "const": {"type": "strng"}},
        {
            "title": 5,
            "default": {"$ref": "#/gone"},
            "examples": [{"type": 1}],
            "x-own": {"type": 1},
        },
        {"minLength": 2.0, "maximum": -1.5, "multipleOf": 0.1, "uniqueItems": False, "format": "x"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}, True]},
        {"properties": {"type": {"type": "string"}, "$ref": {"type": "string"}, "required": True}},
        {"patternProperties": {"^x-": True}, "additionalProperties": False, "required": []},
        {"dependencies": {"a": ["b"], "c": {"type": "object"}}, "dependentRequired": {"a": ["b"]}},
        {"type": "string", "nullable": True},
        {"properties": {"a": {"$ref": "#"}}},
        {"$ref": "http://json-schema.org/draft-07/schema#"},
        {"definitions": {"a/b~c d": {}}, "$ref": "#/definitions/a~1b~0c%20d"},
        {
            "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {}]}},
            "$ref": "#/$defs/A/anyOf/1",
        },
        {"$defs": {"A": {"$anchor": "a"}, "B": {"$dynamicAnchor": "b"}}, "$ref": "#a"},
        {"$defs": {"B": {"$dynamicAnchor": "b"}}, "$dynamicRef": "#b"},
        {"definitions": {"A": {"$id": "#a"}}, "$ref": "#a"},
        {"$id": "http://x.example/s#", "$defs": {"A": {}}, "$ref": "http://x.example/s#/$defs/A"},
        {"$id": "http://x.example/s", "$defs": {"A": {"$id": "t"}}, "$ref": "t"},
        {"$defs": {"A": {"$id": "t", "$defs": {"B": {}}, "items": {"$ref": "#/$defs/B"}}}},
        {"components": {"schemas": {"A": {"type": "string"}}}, "$ref": "#/components/schemas/A"},
    ],
)
def test_a_schema_that_validators_accept_has_no_fault(schema: Any) -> None:
    assert faults(schema) == []


@pytest.mark.parametrize(
    ("keyword", "value", "what"),
    [
        ("type", "strng", "'strng' is no type"),
        ("type", ["string", "any"], "'any' is no type"),
        ("type", None, "None is no type"),
        ("type", [], "is no set of types"),
        ("type", ["null", "null"], "is no set of types"),
        ("required", True, "is no list of names"),
        ("required", ["a", 1], "is no list of names"),
        ("dependentRequired", {"a": "b"}, "is no object of lists of names"),
        ("dependencies", {"a": [1]}, "is no object of schemas or lists of names"),
        ("enum", [], "is no list with something in it"),
        ("enum", "a", "is no list with something in it"),
        ("pattern", 5, "is no regular expression"),
        ("format", None, "is no text"),
        ("$id", 5, "is no text"),
        ("$anchor", "#a", "is no name of an anchor"),
        ("uniqueItems", "true", "is neither true nor false"),
        ("nullable", True, "stands without a type"),
        ("minimum", "1", "is no number"),
        ("exclusiveMinimum", True, "is no number"),
        ("multipleOf", 0, "is no number above zero"),
        ("minLength", -1, "is no count"),
        ("maxItems", 1.5, "is no count"),
        ("additionalProperties", "false", "is no schema"),
        ("items", "string", "is no schema"),
        ("items", ["string"], "is no schema"),
        ("anyOf", [], "is no list of schemas with something in it"),
        ("allOf", {}, "is no list of schemas with something in it"),
        ("properties", [], "is no object of schemas"),
        ("properties", {"a": "string"}, "is no object of schemas"),
        ("patternProperties", None, "is no object of schemas"),
        ("$defs", {"A": None}, "is no object of schemas"),
    ],
)
def test_a_keyword_with_a_value_that_validators_refuse_is_named(
    keyword: str, value: Any, what: str
) -> None:
    schema = {"properties": {"a/b": {"oneOf": [{}, {keyword: value}]}}}
    assert faults(schema) == [(f"/s/properties/a~1b/oneOf/1/{keyword}", what)]


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/Gone", "#/$defs/A/items/0", "#gone", "Other", "#/$defs/A/type/x", "#/$defs/L/x"],
)
def test_a_reference_that_leads_nowhere_is_named(reference: str) -> None:
    schema = {
        "$defs": {"A": {"type": "string"}, "L": {"allOf": [{}]}},
        "items": {"$ref": reference},
    }
    assert faults(schema) == [("/s/items/$ref", f"{reference!r} leads nowhere")]


@pytest.mark.parametrize(
    ("reference", "what"),
    [
        ("#/$defs/A/type", "'#/$defs/A/type' leads to what is no schema"),
        ("https://x.example/s", "'https://x.example/s' is another document"),
        ("#/items", "'#/items' leads back to itself"),
        (5, "is no text"),
    ],
)
def test_a_reference_that_cannot_be_followed_is_named(reference: Any, what: str) -> None:
    schema = {"$defs": {"A": {"type": "string"}}, "items": {"$ref": reference}}
    assert faults(schema) == [("/s/items/$ref", what)]


def test_what_is_only_referred_to_is_looked_at_too_and_once() -> None:
    schema = {
        "components": {"A": {"type": "strng", "items": {"$ref": "#/components/A"}}},
        "allOf": [{"$ref": "#/components/A"}, {"$ref": "#/components/A"}],
    }
    assert faults(schema) == [("/s/components/A/type", "'strng' is no type")]


@pytest.mark.parametrize("where", ["pattern", "patternProperties"])
def test_a_pattern_that_javascript_refuses_is_named(where: str) -> None:
    schema = {where: r"^\A" if where == "pattern" else {r"^\A": {}}}
    why = r"'^\\A' is no regular expression (ECMA 262, flag u): JavaScript knows no '\A'"
    assert faults(schema) == [(f"/s/{where}", why)]


def test_a_long_value_is_cut_where_it_is_quoted() -> None:
    [(_, what)] = faults({"type": "x" * 1000})
    assert what == f"'{'x' * (QUOTED - 1)}… is no type"
