"""Arguments from a command line, typed by a tool's schema."""

from __future__ import annotations

from typing import Any

import pytest

from mcpagg_runtime.tool.calling import BadArgument, arguments_of, suggestion

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "tags": {"type": "array"},
        "either": {"type": ["integer", "string"]},
        "perhaps": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "open": {"$ref": "#/$defs/x"},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=1", "1"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ('text={"a": 1}', '{"a": 1}'),
        ("count=-3", -3),
        ("ratio=3", 3),
        ("ratio=0.5", 0.5),
        ("flag=true", True),
        ('tags=["a", 1]', ["a", 1]),
        ("either=3", 3),
        ("either=x", "x"),
        ("perhaps=null", None),
        ("open=3", 3),
        ("open=NaN", "NaN"),
        ("open=x y", "x y"),
    ],
)
def test_a_value_is_of_the_type_that_the_schema_names(word: str, value: Any) -> None:
    (found,) = arguments_of([word], SCHEMA).values()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["count=x"], "count: 'x' is no integer"),
        (["count=1.5"], "count: '1.5' is no integer"),
        (["count=true"], "count: 'true' is no integer"),
        (["perhaps=x"], "perhaps: 'x' is no integer or null"),
        (["tag=x"], "there is no argument tag; did you mean tags?"),
        (["zzz=x"], "there is no argument zzz"),
        (["text=a", "text=b"], "text is given twice"),
        (["[1]"], "neither a JSON object nor key=value: [1]"),
        (['{"a": NaN}'], 'neither a JSON object nor key=value: {"a": NaN}'),
        (["{}", "text=a"], "neither a JSON object nor key=value: {}"),
        (["=a"], "neither a JSON object nor key=value: =a"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], problem: str) -> None:
    with pytest.raises(BadArgument) as caught:
        arguments_of(words, SCHEMA)
    assert str(caught.value) == problem


def test_an_object_is_taken_as_it_is_and_nothing_is_an_empty_one() -> None:
    assert arguments_of(['{"count": "=x", "more": null}'], SCHEMA) == {"count": "=x", "more": None}
    assert arguments_of([], SCHEMA) == {}


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {"a": True}}])
def test_a_schema_that_says_nothing_leaves_json_or_text(schema: dict[str, Any]) -> None:
    assert arguments_of(["a=1", "b=x"], schema) == {"a": 1, "b": "x"}


def test_near_names_are_suggested() -> None:
    assert suggestion("get_curent_time", ["get_current_time", "x"]) == (
        "; did you mean get_current_time?"
    )
    assert suggestion("zzz", ["a"]) == ""
