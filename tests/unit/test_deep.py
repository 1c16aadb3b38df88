"""What is read of large and deep JSON, and where it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagg_runtime.base import jsontext
from mcpagg_runtime.base.jsontext import Malformed, elements, extent, members, outline
from mcpagg_runtime.rare import deep

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\[]{},:é\n')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,  # drawing up to a hundred was most of the time of these tests
)


def depth(value: Any) -> int:
    """Return how many levels of arrays and objects a value has."""
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max([depth(item) for item in value], default=0) if isinstance(value, list) else 0


@given(VALUES, st.booleans(), st.integers(1, 40))
def test_a_value_ends_where_its_text_does(value: Any, ascii_only: bool, window: int) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deep, "WINDOW", window)
        assert extent(f"[ {text} ,1]", 2) == (depth(value), 2 + len(text))


@given(st.lists(VALUES))
def test_the_elements_of_a_large_array_have_their_places(value: list[Any]) -> None:
    text = json.dumps(value)
    assert [json.loads(text[start:end]) for _, start, end in elements(text, 0, extent)] == value


@pytest.mark.parametrize("text", ['{"a":[1}', "[1", '["a', '["a\\"]', "[" * 100_002, "[1 2]", ""])
def test_what_has_no_end_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        list(elements(text, 0, extent))
    if text != "[1 2]":  # of what is within, only brackets and strings are looked at
        with pytest.raises(Malformed):
            extent(text, 0)


def test_of_a_large_text_what_is_deep_is_only_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsontext, "LARGE", 0)
    text = '{"result":{"n":1,"a":[1],"o":{"o":{"o":{"n":1}},"s":"x"}},"id":7}'
    value = {name: found for name, (found, _, _) in members(text)[0].items()}
    assert value == {"result": {"n": 1, "a": [], "o": {"o": {"o": {}}, "s": "x"}}, "id": 7}
    assert outline('"x"', 0) == ("x", 3)
    monkeypatch.setattr(jsontext, "LONG_STRING", 2)
    assert outline('"x"', 0) == ("", 3)
