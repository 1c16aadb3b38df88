"""Numbers keep their text, and no depth is too deep."""

from __future__ import annotations

import json

import pytest

from mcpagg.jsontext import dumps, loads
from mcpagg.literal import json_line


@pytest.mark.parametrize(
    "text",
    ["1e400", "0.1000000000000000055511151231257827", "1E5", "-0", "-0.0", "1.0", "7", "9" * 5000],
)
def test_a_number_keeps_its_text(text: str) -> None:
    assert dumps(loads(text)) == text
    assert "".join(json_line(loads(f"[{text}]")).split()) == f"[{text}]"


def test_what_is_written_is_what_json_writes() -> None:
    value = {"b": [1, {}, [], {"c": None}], "a": "é\n", "t": [True, 1.5]}
    assert dumps(value, sort=True) == json.dumps(value, sort_keys=True)
    assert json_line(value) == json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("depth", [500, 20_000])
def test_depth_is_no_limit(depth: int) -> None:
    text = "[" * depth + "]" * depth
    assert dumps(loads(text)) == text
