"""Many clients that share one set of servers: nothing of one reaches or limits another."""

from __future__ import annotations

from typing import Any

import pytest
from core import World, call, failure, notification, request, result

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.message import request as composed

ASK = {"mode": "form", "message": "Which?"}


def audience() -> Client:
    """Return on whose behalf shared servers are started: it can do whatever can be passed on."""
    everybody = Client("auto")
    able = obj(sampling="{}", elicitation='{"form":{},"url":{}}')
    everybody.introduce(composed(0, "initialize", obj(capabilities=able)))
    return everybody


def test_a_server_started_for_a_client_that_cannot_be_asked_asks_one_that_can() -> None:
    world, everybody = World({"a": ["t"]}), audience()
    dumb = world.client(audience=everybody)
    world.do(world.core.child_up(world["a"]))
    [hello] = world.received(world["a"])
    assert hello["params"]["capabilities"] == {
        "sampling": {},
        "elicitation": {"form": {}, "url": {}},
    }
    introduction = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
    world.say(world["a"], result(hello["id"], introduction))
    able = world.client({"elicitation": {}}, audience=everybody)
    for client, answer in ((able, True), (dumb, False)):
        world.received(world["a"])
        world.say(client, call(1, "a:t"))
        child = world.own("a", client)
        if child is not world["a"]:
            world.up(child)
        [asked] = world.received(child)
        world.say(child, request("q", "elicitation/create", ASK))
        assert (world.received(client) != []) is answer
        assert (world.received(child) == []) is answer
        world.say(child, result(asked["id"], {}))


def test_what_a_shared_server_asks_outside_of_calls_is_asked_of_nobody() -> None:
    world, everybody = World({"a": ["t"]}), audience()
    client = world.client({"elicitation": {}}, audience=everybody)
    a = world.up("a")
    world.say(a, request("q", "elicitation/create", ASK))
    assert world.received(client) == []
    assert world.received(a) == [failure("q", -32603, "No client's call is under way")]


@pytest.mark.parametrize(
    ("able", "method", "params", "code"),
    [
        ({"elicitation": {}}, "elicitation/create", {"message": "m"}, 0),
        ({"elicitation": {"form": {}}}, "elicitation/create", {"mode": "form"}, 0),
        ({"elicitation": {"applyDefaults": True}}, "elicitation/create", {"mode": "form"}, 0),
        ({"elicitation": {"url": {}}}, "elicitation/create", {"mode": "url"}, 0),
        ({"elicitation": {}}, "elicitation/create", {"mode": "url"}, -32602),
        ({"elicitation": {"url": {}}}, "elicitation/create", {"mode": "form"}, -32602),
        ({"sampling": {}}, "sampling/createMessage", {"messages": []}, 0),
        ({"sampling": {}}, "sampling/createMessage", {"tools": []}, -32602),
        ({"sampling": {"tools": {}}}, "sampling/createMessage", {"tools": []}, 0),
        ({"sampling": {}}, "elicitation/create", {}, -32601),
    ],
)
def test_a_client_is_asked_what_it_declared_and_nothing_else(
    able: Any, method: str, params: Any, code: int
) -> None:
    world = World({"a": ["t"]})
    client = world.client(able, audience=audience())
    world.say(client, call(1, "a:t"))
    a = world.up("a")
    world.received(a)
    world.say(a, request("q", method, params))
    if code:
        [refused] = world.received(a)
        assert refused["error"]["code"] == code
        assert world.received(client) == []
    else:
        assert [asked["method"] for asked in world.received(client)] == [method]


def test_what_a_server_says_in_the_middle_of_a_call_is_heard_by_its_client_alone() -> None:
    world = World({"a": ["t"]}, capabilities={"logging": {}})
    first, second = world.client(), world.client()
    a = world.up("a")
    for told in (
        notification("notifications/message", {"level": "info", "data": 1, "logger": "a"}),
        notification("notifications/unknown", {"n": 1}),
    ):
        world.say(a, told)
        assert len(world.received(first)) == len(world.received(second)) == 1
        world.say(first, call(1, "a:t"))
        world.say(a, told)
        assert len(world.received(first)) == 1
        assert world.received(second) == []
        world.say(second, call(1, "a:t"))
        world.say(a, told)
        assert world.received(first) == world.received(second) == []
        for asked in world.received(a):
            world.say(a, result(asked["id"], {}))
        world.received(first), world.received(second)


def test_the_log_level_of_a_client_ends_with_it() -> None:
    world = World({"a": ["t"]}, capabilities={"logging": {}})
    first, second = world.client(), world.client()
    a = world.ready("a", {"tools": {}, "logging": {}})
    world.give_list(a)
    levels = []
    for client, level in ((first, "warning"), (second, "debug")):
        world.say(client, request(1, "logging/setLevel", {"level": level}))
        levels += [one["params"]["level"] for one in world.received(a)]
    world.leave(second)
    levels += [one["params"]["level"] for one in world.received(a)]
    assert levels == ["warning", "debug", "warning"]
