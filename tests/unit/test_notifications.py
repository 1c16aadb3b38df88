"""Notifications on their way through the router."""

from __future__ import annotations

from typing import Any

import pytest
from core import ASKABLE, World, call, notification, progress, request, result


def test_news_of_a_resource_reach_the_clients_that_asked_for_them() -> None:
    world = World({"a": ["t"]}, resources={"a": ["file:///x"]})
    one, two = world.client(), world.client()
    a = world.up("a")
    world.say(one, request(1, "resources/subscribe", {"uri": "file:///x"}))
    [asked] = world.received(a)
    world.say(a, result(asked["id"], {}))
    assert world.received(one) == [result(1, {})]
    news = notification("notifications/resources/updated", {"uri": "file:///x"})
    world.say(a, news, notification("notifications/resources/updated", {"uri": "file:///y"}))
    assert (world.received(one), world.received(two)) == ([news], [])


def test_a_client_that_leaves_watches_nothing_whatever_is_listed_now() -> None:
    world = World({"a": ["t"]}, resources={"a": ["file:///x"]})
    client, a = world.client(), world.ready("a", {"tools": {}, "resources": {}})
    world.say(client, request(1, "resources/subscribe", {"uri": "file:///x"}))
    for _ in "12":  # a difference counts when it is found twice
        for line in world.received(a):
            if line["method"] == "resources/list":
                world.say(a, result(line["id"], {"resources": []}))
        world.wait(1)
    world.do(world.core.disconnect(client))
    last = world.received(a)[-1]
    assert (last["method"], last["params"]) == ("resources/unsubscribe", {"uri": "file:///x"})


@pytest.mark.parametrize("params", [None, [], {}, {"uri": []}, {"uri": {}}, {"uri": 5}])
def test_news_of_no_resource_reach_nobody(params: Any) -> None:
    world = World({"a": ["t"]}, resources={"a": ["file:///x"]})
    client, a = world.client(), world.up("a")
    world.say(a, notification("notifications/resources/updated", params))
    assert world.lines(client) == []


@pytest.mark.parametrize("uri", [None, 5, [], {}])
@pytest.mark.parametrize("method", ["read", "subscribe", "unsubscribe"])
def test_a_request_for_no_resource_is_refused(uri: Any, method: str) -> None:
    world = World({"a": ["t"]}, resources={"a": ["file:///x"]})
    answer = world.ask(world.client(), request(1, f"resources/{method}", {"uri": uri}))
    assert (answer["id"], answer["error"]["code"]) == (1, -32602)


def test_progress_of_a_client_reaches_the_child_that_asked_under_its_own_token() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(ASKABLE), world.up("a")
    world.say(client, call(1, "a:t"))
    world.lines(a)
    asked = {"messages": [], "_meta": {"progressToken": "mine"}}
    world.say(a, request("q", "sampling/createMessage", asked))
    [question] = world.received(client)
    token = question["params"]["_meta"]["progressToken"]
    assert token == question["id"]
    world.say(client, progress(token), progress("mine"), progress(99))
    assert world.received(a) == [progress("mine")]
    world.say(client, result(question["id"], {}), progress(token))
    assert world.received(a) == [result("q", {})]


def test_a_notification_that_nobody_knows_reaches_every_server_that_is_up() -> None:
    world = World({"a": ["t"], "b": ["t"], "c": ["t"]})
    client, a, b = world.client(), world.up("a"), world.up("b")
    world.lines(a), world.lines(b)
    world.say(client, notification("notifications/x", {"n": 1}))
    assert world.received(a) == world.received(b) == [notification("notifications/x", {"n": 1})]


@pytest.mark.parametrize(
    "method",
    ["message", "tools/list_changed", "resources/updated", "elicitation/complete"],
)
def test_a_client_sends_no_notification_of_servers(method: str) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.lines(a)
    world.say(client, notification(f"notifications/{method}", {}))
    assert world.lines(a) == []


@pytest.mark.parametrize("method", ["initialized", "roots/list_changed"])
def test_a_child_sends_no_notification_of_clients(method: str) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(a, notification(f"notifications/{method}"))
    assert world.lines(client) == []


def test_a_child_says_nothing_of_the_resources_of_another_one() -> None:
    world = World({"a": ["t"], "b": ["t"]}, resources={"a": ["file:///x"]})
    client, a, b = world.client(), world.up("a"), world.up("b")
    client.watched["file:///x"] = "a", "file:///x"
    updated = notification("notifications/resources/updated", {"uri": "file:///x"})
    world.say(b, updated)
    assert world.lines(client) == []
    world.say(a, updated)
    assert world.received(client) == [updated]
