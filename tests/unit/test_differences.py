"""What counts as a difference between two lists."""

from __future__ import annotations

import json

import pytest
from core import Json, tool

from mcpagg_runtime.lists.catalogue import Item
from mcpagg_runtime.lists.differences import Difference, drift_text


def difference(old: list[Json], new: list[Json]) -> str:
    """Return how one list differs from another."""
    one, other = (
        [Item("s", entry["name"], entry["name"], *_parts(entry)) for entry in part]
        for part in (old, new)
    )
    return drift_text(Difference(one, other))


def _parts(entry: Json) -> tuple[str, str]:
    head, _, tail = json.dumps(entry).partition(json.dumps(entry["name"]))
    return head, tail


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ({"a": 1, "b": [1, {"c": None}]}, {"b": [1, {"c": None}], "a": 1.0}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, True),
        ({"a": [1]}, {"a": [1, 1]}, True),
        ({"a": 1}, {"a": True}, True),
        ({"a": 0}, {"a": False}, True),
        ({"a": True}, {"a": True}, False),
        ({"a": None}, {}, True),
        ({"a": "1"}, {"a": 1}, True),
        ({"a": {}}, {"a": []}, True),
        ({"a": float("nan")}, {"a": float("nan")}, False),
        ({"a": float("nan")}, {"a": 1.5}, True),
        ({"a": float("inf")}, {"a": float("inf")}, False),
        ({"a": 12345678901234567890}, {"a": 12345678901234567891}, True),
        ({"a": "\ud800"}, {"a": "\ud800"}, False),
        ({"required": ["a", "b"]}, {"required": ["b", "a"]}, False),
        ({"a": {"type": ["string", "null"]}}, {"a": {"type": ["null", "string"]}}, False),
        ({"required": ["a", "b"]}, {"required": ["a", "b", "b"]}, True),
        ({"type": [1, 2]}, {"type": [2, 1]}, True),
        ({"enum": ["a", "b"]}, {"enum": ["b", "a"]}, True),
    ],
)
def test_tools_are_compared_by_value(old: Json, new: Json, changed: bool) -> None:
    found = difference([{"name": "t", **old}], [{**new, "name": "t"}])
    assert found == ("~t(other)" if changed else "")


def test_deeply_nested_tools_are_compared() -> None:
    deep, other = ('{"d":' + "[" * 90 + value + "]" * 90 + ',"name":' for value in "12")
    same = Difference([Item("s", "t", "t", deep, "}")], [Item("s", "t", "t", deep, "}")])
    assert not same
    changed = Difference([Item("s", "t", "t", deep, "}")], [Item("s", "t", "t", other, "}")])
    assert drift_text(changed) == "~t(other)"


def test_the_order_of_tools_does_not_count() -> None:
    assert difference([tool("a"), tool("b")], [tool("b"), tool("a")]) == ""


def test_a_difference_names_every_tool_with_its_sign() -> None:
    old = [tool("same"), tool("gone"), tool("other", title="A")]
    new = [tool("new"), tool("other", title="B"), tool("same")]
    assert difference(old, new) == "+new -gone ~other(text)"


SCHEMA = {"type": "object", "properties": {"title": {"type": "string", "description": "a"}}}


@pytest.mark.parametrize(
    ("old", "new", "classes"),
    [
        ({"description": "a"}, {"description": "b"}, "text"),
        ({}, {"icons": []}, "text"),
        ({"annotations": {"title": "a"}}, {"annotations": {"title": "b"}}, "text"),
        ({"annotations": {"readOnlyHint": True}}, {"annotations": {"readOnlyHint": False}}, "hint"),
        ({"annotations": {"readOnlyHint": True}}, {}, "hint"),
        ({"inputSchema": SCHEMA}, {"inputSchema": {**SCHEMA, "title": "T"}}, "text"),
        ({"inputSchema": SCHEMA}, {"inputSchema": {**SCHEMA, "properties": {}}}, "schema-breaking"),
        ({}, {"outputSchema": SCHEMA}, "schema-compatible"),
        (
            {"arguments": [{"name": "a", "description": "b"}]},
            {"arguments": [{"name": "a"}]},
            "text",
        ),
        (
            {"arguments": [{"name": "a", "required": True}]},
            {"arguments": [{"name": "a"}]},
            "schema-compatible",
        ),
        ({"_meta": {"a": 1}}, {"_meta": {"a": 2}}, "other"),
        ({"description": "a", "x": 1}, {"x": 2, "annotations": {"a": 1}}, "text,other,hint"),
    ],
)
def test_what_changes_has_classes(old: Json, new: Json, classes: str) -> None:
    assert difference([{"name": "t", **old}], [{"name": "t", **new}]) == f"~t({classes})"
