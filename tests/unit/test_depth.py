"""JSON that nests deeper than the interpreter goes is no JSON, and stops nobody."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from core import World, call, enveloped

from mcpagg_runtime.messages.jsontext import Malformed
from mcpagg_runtime.messages.message import read_message
from mcpagg_runtime.messages.protocol import MODERN_VERSION
from mcpagg_runtime.remote.login import LoginNeeded, _login_record
from mcpagg_runtime.tool.printing import print_json

ERAS = ("legacy", "modern")
DEEP = "[" * 200_000 + "]" * 200_000
SHAPES = {
    "arrays": DEEP,
    "objects": '{"a":' * 200_000 + "1" + "}" * 200_000,
    "without an end": "[" * 400_000,
    "both": '[{"a":' * 100_000,
}


def is_read(depth: int) -> bool:
    """Whether a message with a value of so many levels is read."""
    try:
        read_message(f'{{"id":1,"result":{"[" * depth}{"]" * depth}}}')
    except Malformed:
        return False
    return True


def deepest() -> int:
    """Return how many levels a value may have."""
    least, most = 1, 200_000
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if is_read(middle) else (least, middle - 1)
    return least


def scene(server: str, client: str) -> tuple[World, Any, Any]:
    """Return a world, its client and its server, with variables that are masked."""
    facts = {"a": {"protocol": MODERN_VERSION}} if server == "modern" else {}
    world = World({"a": ["t"]}, facts=facts)
    world.masks = {"a": {"X": "secret"}}
    return world, world.client({"elicitation": {}}), world.up("a")


def ask(world: World, peer: Any, a: Any, era: str, name: str, more: str = "") -> int:
    """Make a call with a text for its arguments; return the id that the server knows it by."""
    asked = call(name, "a:t")
    text = json.dumps(asked if era == "legacy" else enveloped(asked, {"elicitation": {}}))
    world.say(peer, text.replace('"a:t"', f'"a:t", "arguments": {{"x": {more or 1}}}'))
    return next((request["id"] for request in world.received(a)), 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_nests_too_deep_is_refused_at_once(shape: str) -> None:
    began = time.process_time()
    for text in (SHAPES[shape], f'{{"id":1,"method":"m","params":{SHAPES[shape]}}}'):
        with pytest.raises(Malformed):
            read_message(text)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server", ERAS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("member", ["result", "error"])
def test_an_answer_that_nests_too_deep_ends_its_call_and_no_other(
    member: str, shape: str, server: str, client: str
) -> None:
    world, peer, a = scene(server, client)
    one, two = (ask(world, peer, a, client, name) for name in ("one", "two"))
    world.say(a, f'{{"jsonrpc":"2.0","id":{one},"{member}":{{"x":{SHAPES[shape]}}}}}')
    [answer] = world.received(peer)
    assert (answer["id"], "error" in answer) == ("one", True)
    world.say(a, {"jsonrpc": "2.0", "id": two, "result": {"content": []}})
    [answer] = world.received(peer)
    assert (answer["id"], "result" in answer) == ("two", True)


@pytest.mark.parametrize("era", ERAS)
def test_a_request_that_nests_too_deep_gets_one_error_and_the_session_goes_on(era: str) -> None:
    world, peer, a = scene("legacy", era)
    assert ask(world, peer, a, era, "one", DEEP) == 0
    [answer] = world.received(peer)
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    two = ask(world, peer, a, era, "two")
    world.say(a, {"jsonrpc": "2.0", "id": two, "result": {"content": []}})
    assert [answer["id"] for answer in world.received(peer)] == ["two"]


def test_a_notification_that_nests_too_deep_reaches_nobody() -> None:
    world, peer, a = scene("legacy", "legacy")
    world.say(a, f'{{"jsonrpc":"2.0","method":"notifications/x","params":{{"x":{DEEP}}}}}')
    assert (world.lines(peer), world.lines(a)) == ([], [])


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server", ERAS)
def test_what_is_just_read_can_be_looked_into_everywhere(server: str, client: str) -> None:
    world, peer, a = scene(server, client)
    limit = deepest()
    passed = 0
    for depth in range(limit - 40, limit + 5):
        value = "[" * depth + "]" * depth
        number = ask(world, peer, a, client, str(depth), value)
        if not number:
            assert "error" in world.received(peer)[0]
            continue
        meta = f'{{"x":{value},"io.modelcontextprotocol/serverInfo":{value}}}'
        said = f'{{"content":[],"structuredContent":{value},"_meta":{meta}}}'
        world.say(a, f'{{"jsonrpc":"2.0","id":{number},"result":{said}}}')
        [line] = world.lines(peer)
        passed += value in line
        assert f'"id":"{depth}"' in line
    assert passed


def test_a_value_is_printed_however_deep_it_nests(capsys: pytest.CaptureFixture[str]) -> None:
    value: list[Any] = []
    depth = deepest() - 100
    for _ in range(depth):
        value = [value]
    print_json(value)
    assert "".join(capsys.readouterr().out.split()) == "[" * depth + "[]" + "]" * depth


def test_the_record_of_a_login_that_nests_too_deep_cannot_be_read() -> None:
    with pytest.raises(LoginNeeded):
        _login_record(DEEP.encode())
