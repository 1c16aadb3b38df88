"""Numbers keep their text."""

from __future__ import annotations

import json

import pytest

from mcpagg.jsontext import dumps, loads
from mcpagg.literal import json_line
from mcpagg_runtime.messages.jsontext import Malformed


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


def test_what_nests_too_deep_is_malformed() -> None:
    with pytest.raises(Malformed, match="it nests too deep"):
        loads("[" * 100_000 + "]" * 100_000)


def test_what_is_read_is_written_however_deep_it_nests() -> None:
    text = "[" * 700 + "]" * 700
    assert dumps(loads(text)) == text
