"""How schemas differ, property by property, and what that breaks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from mcpagg_runtime.lists.schemas import BREAKING, COMPATIBLE, EFFECTS, SchemaChange, schema_changes

Json = dict[str, Any]

A = {"type": "string"}
B = {"type": "integer"}


def of(**properties: Any) -> Json:
    return {"type": "object", "properties": properties}


KIND_A, KIND_B = ({**of(kind={"const": kind}), "required": ["kind"]} for kind in "ab")
DEFS = {"$defs": {"B": B}}


def said(before: Any, after: Any) -> list[str]:
    return [
        f"{change.pointer} {change.what} {change.class_for(output=False)}"
        for change in schema_changes(before, after)
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (of(a=A), of(a=A, b=A), "/properties/b was added, optional schema-compatible"),
        (of(a=A), {**of(a=A, b=A), "required": ["b"]}, "/properties/b was added, required BREAKS"),
        (of(a=A, b=A), of(a=A), "/properties/b was removed BREAKS"),
        ({**of(a=A), "required": ["a"]}, of(), "/properties/a was removed BREAKS"),
        (of(a=A), {**of(a=A), "required": ["a"]}, "/properties/a is required now BREAKS"),
        (
            {**of(a=A), "required": ["a"]},
            of(a=A),
            "/properties/a is optional now schema-compatible",
        ),
        (of(a={"type": ["string", "null"]}), of(a=A), "/properties/a/type changed BREAKS"),
        (of(a=A), of(a={}), "/properties/a/type was removed schema-compatible"),
        (of(a=B), of(a={"type": "number"}), "/properties/a/type changed schema-compatible"),
        (of(a=A), of(a=B), "/properties/a/type changed BREAKS"),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, "/enum lost a value BREAKS"),
        ({"enum": ["a"]}, {"enum": ["a", 1]}, "/enum has a new value schema-compatible"),
        ({"const": 1}, {"enum": [1, 2]}, "/enum has a new value schema-compatible"),
        ({"enum": ["a", "b"]}, {"enum": ["b", "a"]}, "/enum has another order schema-compatible"),
        ({}, {"enum": ["a"]}, "/enum was added BREAKS"),
        ({"minimum": 1}, {"minimum": 2}, "/minimum changed BREAKS"),
        ({"maxLength": 1}, {"maxLength": 2}, "/maxLength changed schema-compatible"),
        ({}, {"maxItems": 2}, "/maxItems was added BREAKS"),
        ({}, {"additionalProperties": False}, "/additionalProperties was added BREAKS"),
        (
            {"additionalProperties": False},
            {},
            "/additionalProperties was removed schema-compatible",
        ),
        ({"items": A}, {"items": {**A, "minLength": 1}}, "/items/minLength was added BREAKS"),
        ({"pattern": "a"}, {"pattern": "b"}, "/pattern changed BREAKS"),
        ({"default": 1}, {"default": 2}, "/default changed schema-compatible"),
        ({"x-odd": 1}, {}, "/x-odd was removed schema-compatible"),
        (of(a=A), of(a={**A, "description": "d"}), "/properties/a/description was added text"),
        (A, {"anyOf": [A, B]}, " has a new alternative schema-compatible"),
        ({"anyOf": [A, {"type": "null"}], "title": "A"}, A, ""),
        ({"anyOf": [A, B]}, {"anyOf": [A, {"type": "number"}]}, "/anyOf/1/type changed schema-c…"),
        ({"allOf": [A]}, {"allOf": [A, B]}, "/allOf has a new alternative BREAKS"),
        (A, {**A, "anyOf": [A]}, "/anyOf was added BREAKS"),
        ({**A, "oneOf": [A]}, A, "/oneOf was removed schema-compatible"),
        ({"oneOf": [A, B]}, {"oneOf": [A, B, {}]}, "/oneOf changed BREAKS"),
        (
            {"oneOf": [A, B]},
            {"oneOf": [A, B, of()]},
            "/oneOf has a new alternative schema-compatible",
        ),
        (
            {"oneOf": [KIND_A]},
            {"oneOf": [KIND_A, KIND_B]},
            "/oneOf has a new alternative schema-c…",
        ),
        (A, {**A, "contains": {}}, "/contains was added BREAKS"),
        ({"patternProperties": {"a": A}}, {}, "/patternProperties was removed BREAKS"),
        (A | DEFS, {**A, "$ref": "#/$defs/B"} | DEFS, "/$ref refers to something else, which is "),
        (
            {"$ref": "#one", "$anchor": "one"},
            {"$ref": "#one", "$anchor": "two"},
            "/$anchor changed",
        ),
        (True, False, "/not was added BREAKS"),
        ("odd", A, "/type was added BREAKS"),
    ],
)
def test_a_change_is_said_with_its_place_and_its_class(
    before: Any, after: Any, expected: str
) -> None:
    found = said(before, after)
    if expected:
        start = expected.replace("BREAKS", BREAKING).removesuffix("…")
        assert len(found) == 1
        assert found[0].startswith(start)
    else:
        assert found == [" lost an alternative schema-breaking", "/title was removed text"]


def test_references_are_followed_and_definitions_compared_once() -> None:
    old = {"$defs": {"A": of(a=A)}, **of(x={"$ref": "#/$defs/A"}, y={"$ref": "#/$defs/A"})}
    new = {"$defs": {"A": of(a=B)}, **of(x={"$ref": "#/$defs/A"}, y={"$ref": "#/$defs/A"})}
    assert said(old, new) == ["/$defs/A/properties/a/type changed schema-breaking"]
    inline = of(x=of(a=A), y={"$ref": "#/$defs/A"}) | {"$defs": {"A": of(a=A)}}
    assert said(old, inline) == ["/properties/x is written in another way schema-compatible"]
    loop = {"$defs": {"A": of(next={"$ref": "#/$defs/A"})}, "$ref": "#/$defs/A"}
    other = {"$defs": {"B": of(next={"$ref": "#/$defs/B"}, b=B)}, "$ref": "#/$defs/B"}
    assert "/properties/b was added, optional schema-compatible" in said(loop, other)


def nested(levels: int, leaf: Any) -> Any:
    for _ in range(levels):
        leaf = of(a=leaf)
    return leaf


def looping(name: str, period: int) -> Any:
    """Return a schema that refers to itself by way of others."""
    names = [f"{name}{number}" for number in range(period)]
    following = [*names[1:], names[0]]
    definitions = {
        one: {"title": one, **of(a={"$ref": f"#/$defs/{other}"})}
        for one, other in zip(names, following, strict=True)
    }
    return {"$ref": f"#/$defs/{names[0]}", "$defs": definitions}


def doubling(name: str, first: int) -> Any:
    """Return a schema of 40 levels, each with the next one twice; every other level is inline."""

    def following(number: int) -> Any:
        return {"$ref": f"#/$defs/{name}{number + 2}"}

    definitions = {
        f"{name}{number}": of(
            a=of(a=following(number), b=following(number)),
            b=of(a=following(number), b=following(number)),
        )
        for number in range(first, 40, 2)
    }
    begin = {"$ref": f"#/$defs/{name}{first}"}
    return {**(of(a=begin, b=dict(begin)) if first else begin), "$defs": definitions}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (nested(300, A), nested(300, B)),
        (looping("x", 97), looping("y", 101)),
        (doubling("x", 0), {**doubling("y", 1), "type": "object"}),
        (
            {"anyOf": [{"const": n} for n in range(300)]},
            {"anyOf": [{"const": -n} for n in range(300)]},
        ),
    ],
    ids=["deep", "loops of other periods", "doubles at each level", "many alternatives"],
)
def test_a_comparison_ends(old: Any, new: Any) -> None:
    found = [*schema_changes(old, new)]
    assert 0 < len(found) < 1000
    assert any(change.class_for(output=False) == BREAKING for change in found)


@pytest.mark.parametrize("effect", EFFECTS)
def test_what_breaks_readers_of_a_result_is_the_reverse(effect: str) -> None:
    change = SchemaChange(effect, "", "")
    classes = [change.class_for(output=output) for output in (False, True)]
    reversed_ = {"narrower": [BREAKING, COMPATIBLE], "wider": [COMPATIBLE, BREAKING]}
    assert classes == reversed_.get(effect, classes)


NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", ["string", "null"]]),
        "enum": st.lists(st.sampled_from(["x", "y", 1]), unique=True),
        "minimum": st.integers(0, 3),
        "maxLength": st.integers(0, 3),
        "description": st.sampled_from(["d", "e"]),
        "default": st.sampled_from([1, "x"]),
        "pattern": st.sampled_from(["x", "y"]),
    },
)
