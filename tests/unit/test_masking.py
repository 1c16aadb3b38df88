"""Masking works on JSON text: strings that hold nothing to replace stay as they were written."""

from __future__ import annotations

import json
from typing import Any

from core import ASKABLE, World, by, call, request
from core import failure as error
from core import result as answer
from hypothesis import given
from hypothesis import strategies as st

from mcpagg_runtime.messages.protocol import MODERN_VERSION
from mcpagg_runtime.servers.masking import swapped

JSON = st.recursive(
    st.none() | st.integers() | st.booleans() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
TABLE = [("secret", "${LONG}"), ("ecr", "${SHORT}"), ('"', "${QUOTE}")]


def replaced(value: Any, *, names: bool = True) -> Any:
    """Return what `swapped` should make of a value."""
    if isinstance(value, str):
        parts = value.split("secret")
        return "${LONG}".join(
            "${SHORT}".join(piece.replace('"', "${QUOTE}") for piece in part.split("ecr"))
            for part in parts
        )
    if isinstance(value, list):
        return [replaced(item, names=names) for item in value]
    if isinstance(value, dict):
        pairs = value.items()
        return {replaced(k) if names else k: replaced(v, names=names) for k, v in pairs}
    return value


@given(JSON, st.booleans(), st.booleans())
def test_every_string_is_replaced_by_what_it_says(value: Any, ascii_: bool, names: bool) -> None:
    text = json.dumps({"a": value, "secret": 'a secret "ecr"'}, ensure_ascii=ascii_)
    expected = replaced(json.loads(text), names=names)
    assert json.loads(swapped(text, TABLE, names=names)) == expected


def test_what_holds_nothing_stays_as_it_was_written() -> None:
    text = '{"\\u0041" : [1.0, 1e999,"\\/", "secret" ], "k":NaN}'
    assert swapped(text, TABLE, names=True) == text.replace("secret", "${LONG}")
    assert swapped(text, [("x", "y")], names=True) == text


def test_what_was_put_in_is_not_looked_at_again() -> None:
    table = [("${A}", "${B}"), ("${B}", "b")]
    assert swapped('["${A}${B}"]', table, names=False) == '["${B}b"]'


def masked_world() -> World:
    """Return a world with one child that masks the variable KEY, whose value is `sesame`."""
    mask = {"KEY": {"value": "${KEY}", "expand": True, "unexpand": True}}
    world = World({"one": ["t"], "two": ["t"]}, rows={"one": {"masks": mask}})
    world.masks["one"] = {"KEY": "sesame"}
    return world


def test_a_child_sees_the_value_and_the_client_the_reference() -> None:
    world = masked_world()
    client, one = world.client({"sampling": {}}), world.up("one")
    world.say(client, call(1, "one:t", {"k": "open ${KEY}"}, "${KEY}"))
    [sent] = world.received(one)
    assert sent["params"]["arguments"] == {"k": "open sesame"}
    progress = {"progressToken": sent["id"], "progress": 1, "message": "sesame"}
    world.say(one, {"method": "notifications/progress", "params": progress})
    world.say(one, request("sesame", "sampling/createMessage", {"text": "sesame"}))
    world.say(one, answer(sent["id"], {"text": "a sesame"}))
    said, asked, result = world.received(client)
    assert said["params"] == {"progressToken": "${KEY}", "progress": 1, "message": "${KEY}"}
    assert asked["params"] == {"text": "${KEY}", **by("one")}
    assert result["result"] == {"text": "a ${KEY}"}
    world.say(client, answer(asked["id"], {}))
    assert world.received(one) == [answer("sesame", {})]


def test_what_a_child_of_either_era_asks_is_masked() -> None:
    mask = {"KEY": {"value": "${KEY}", "expand": True, "unexpand": True}}
    facts = {"one": {"protocol": MODERN_VERSION}}
    world = World({"one": ["t"]}, rows={"one": {"masks": mask}}, facts=facts)
    world.masks["one"] = {"KEY": "sesame"}
    client, one = world.client(ASKABLE), world.up("one")
    world.say(client, call(1, "one:t"))
    [sent] = world.received(one)
    asked = {"k": {"method": "elicitation/create", "params": {"message": "sesame?"}}}
    world.say(one, answer(sent["id"], {"resultType": "input_required", "inputRequests": asked}))
    [question] = world.received(client)
    assert question["params"] == {"message": "${KEY}?", **by("one")}


def test_an_error_is_masked_too_and_another_child_is_not() -> None:
    world = masked_world()
    client, one, two = world.client(), world.up("one"), world.up("two")
    world.say(client, call(1, "one:t"), call(2, "two:t", {"k": "${KEY}"}))
    [sent], [other] = world.received(one), world.received(two)
    assert other["params"]["arguments"] == {"k": "${KEY}"}
    world.say(one, error(sent["id"], -1, "no sesame", at="sesame"))
    world.say(two, answer(other["id"], {"k": "sesame"}))
    assert world.received(client) == [
        error(1, -1, "no ${KEY}", at="${KEY}"),
        answer(2, {"k": "sesame"}),
    ]
