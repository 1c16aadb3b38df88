"""The streams by which servers of 2026-07-28 tell of changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from core import (
    TOOLS_CHANGED,
    Json,
    World,
    cancelled,
    enveloped,
    failure,
    notification,
    request,
    result,
    tool,
)
from modern_children import FACTS, Scene, envelope

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.protocol import SUBSCRIPTION_KEY
from mcpagg_runtime.servers.child import Child

STREAM = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
URIS: Json = {"m": ["x:y", "x:z"]}


def watched(**capabilities: Json) -> tuple[World, Client, Child]:
    """Return a world whose child tells of resources, its client and the child, which is up."""
    world = World({"m": ["t"]}, facts=FACTS, resources=URIS)
    client = world.client()
    declared = {"tools": {}, "resources": {"subscribe": True}, **capabilities}
    m = world.ready("m", declared)
    if not capabilities:
        world.lines(m)
    return world, client, m


def subscribe(identifier: Any, uri: str = "x:y") -> Json:
    """Return a subscription of a client that shakes hands."""
    return request(identifier, "resources/subscribe", {"uri": uri})


def unsubscribe(identifier: Any, uri: str = "x:y") -> Json:
    """Return its end."""
    return request(identifier, "resources/unsubscribe", {"uri": uri})


def acknowledged(stream: Any, **honoured: Any) -> Json:
    """Return the first word of a stream."""
    meta = {SUBSCRIPTION_KEY: stream}
    return notification(ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})


def updated(stream: Any, uri: str = "x:y") -> Json:
    """Return what a stream says of a resource."""
    meta = {SUBSCRIPTION_KEY: stream}
    return notification("notifications/resources/updated", {"uri": uri, "_meta": meta})


def test_a_stream_is_opened_for_the_lists_that_may_change() -> None:
    world, _, m = watched(tools={"listChanged": True}, prompts={"listChanged": False})
    [stream] = [line for line in world.received(m) if line["method"] == STREAM]
    assert stream["params"] == {
        "notifications": {"toolsListChanged": True},
        "_meta": envelope(),
    }


def test_no_stream_is_opened_where_nothing_changes() -> None:
    world, _, m = watched(tools={})
    assert STREAM not in [line["method"] for line in world.received(m)]


def test_a_list_that_changes_is_read_again() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    client = world.client()
    m = world.ready("m", {"tools": {"listChanged": True}})
    lines = {line["method"]: line["id"] for line in world.received(m)}
    world.say(m, result(lines["tools/list"], {"tools": [tool("t")]}))
    meta = {"_meta": {SUBSCRIPTION_KEY: lines[STREAM]}}
    world.wait(1)
    world.say(m, acknowledged(lines[STREAM], toolsListChanged=True))
    world.say(m, notification("notifications/tools/list_changed", meta))
    world.wait(1)
    world.give_list(m, ["t", "new"])
    assert world.received(client) == [TOOLS_CHANGED]
    assert world.names(client) == ["m:t", "m:new"]


def test_a_subscription_is_answered_when_the_child_acknowledges_it() -> None:
    world, client, m = watched()
    world.say(client, subscribe(1))
    [stream] = world.received(m)
    assert (stream["method"], stream["params"]["notifications"]) == (
        STREAM,
        {"resourceSubscriptions": ["x:y"]},
    )
    assert world.received(client) == []
    world.say(m, acknowledged(stream["id"], resourceSubscriptions=["x:y"]))
    assert world.received(client) == [result(1, {})]
    world.say(m, updated(stream["id"]))
    assert world.received(client) == [
        notification("notifications/resources/updated", {"uri": "x:y"})
    ]


def test_a_second_subscriber_needs_no_second_stream() -> None:
    world, client, m = watched()
    other = world.client()
    world.say(client, subscribe(1))
    [stream] = world.received(m)
    world.say(m, acknowledged(stream["id"], resourceSubscriptions=["x:y"]))
    world.say(other, subscribe(2))
    assert world.received(m) == []
    assert world.received(other) == [result(2, {})]


def test_the_last_unsubscription_ends_the_stream() -> None:
    world, client, m = watched()
    world.say(client, subscribe(1))
    [stream] = world.received(m)
    world.say(m, acknowledged(stream["id"], resourceSubscriptions=["x:y"]))
    world.lines(client)
    world.say(client, unsubscribe(2))
    assert world.received(m) == [cancelled(stream["id"])]
    assert world.received(client) == [result(2, {})]
    world.say(m, updated(stream["id"]), result(stream["id"], {}))
    assert world.received(client) == []


def test_a_subscription_that_is_not_honoured_has_failed() -> None:
    world, client, m = watched()
    world.say(client, subscribe(1))
    [stream] = world.received(m)
    world.say(m, acknowledged(stream["id"]))
    assert world.received(client) == [failure(1, -32603, "Server 'm' does not watch x:y")]


def test_what_is_not_honoured_may_be_asked_for_again() -> None:
    world, client, m = watched()
    world.say(client, subscribe(1))
    [stream] = world.received(m)
    world.say(m, acknowledged(stream["id"], resourceSubscriptions=["x:z"]))
    [end] = world.received(m)
    assert end == cancelled(stream["id"])
    world.say(client, subscribe(2))
    assert [line["method"] for line in world.received(m)] == [STREAM]


def test_a_subscription_that_ends_before_it_is_acknowledged_has_failed() -> None:
    unwatched = failure(1, -32603, "Server 'm' does not watch x:y")
    for ends in (lambda stream: result(stream, {}), cancelled):
        world, client, m = watched()
        world.say(client, subscribe(1))
        [stream] = world.received(m)
        world.say(m, ends(stream["id"]))
        assert world.received(client) == [unwatched]


def test_an_unsubscription_may_overtake_the_acknowledgement() -> None:
    world, client, m = watched()
    world.say(client, subscribe(1))
    [stream] = world.received(m)
    world.say(client, unsubscribe(2))
    assert world.received(m) == [cancelled(stream["id"])]
    assert [line["id"] for line in world.received(client)] == [1, 2]
    world.say(m, acknowledged(stream["id"], resourceSubscriptions=["x:y"]))
    assert world.received(client) == []


@pytest.mark.parametrize("meta", [None, [], 5, {}, {SUBSCRIPTION_KEY: None}])
def test_an_acknowledgement_of_nothing_counts_for_nothing(meta: Any) -> None:
    world, client, m = watched()
    world.say(client, subscribe(1))
    world.lines(m)
    world.say(m, notification(ACKNOWLEDGED, {"_meta": meta}), notification(ACKNOWLEDGED))
    assert world.received(client) == []


def test_a_stream_that_is_refused_is_a_subscription_that_failed() -> None:
    world, client, m = watched()
    world.say(client, subscribe(1))
    [stream] = world.received(m)
    world.say(m, failure(stream["id"], -32601, "no"))
    assert world.received(client) == [failure(1, -32601, "no")]
    world.say(client, subscribe(2))
    assert [line["method"] for line in world.received(m)] == [STREAM]


@pytest.mark.parametrize("end", [lambda stream: result(stream, {}), cancelled])
def test_a_stream_that_ends_may_be_opened_again(end: Callable[[int], Json]) -> None:
    world, client, m = watched()
    world.say(client, subscribe(1))
    [stream] = world.received(m)
    world.say(m, acknowledged(stream["id"], resourceSubscriptions=["x:y"]))
    world.say(m, end(stream["id"]))
    world.lines(client)
    world.say(client, subscribe(2))
    assert [line["method"] for line in world.received(m)] == [STREAM]


def test_a_listening_client_of_this_revision_hears_a_child_of_this_revision() -> None:
    tells = {"resources": {"subscribe": True}}
    world = World({"m": ["t"]}, facts=FACTS, resources=URIS, capabilities=tells)
    client = world.modern()
    wanted = {"notifications": {"resourceSubscriptions": ["x:y"]}}
    world.say(client, enveloped(request("s", STREAM, wanted)))
    m = world.ready("m", {"tools": {}, "resources": {"subscribe": True}})
    [stream] = [line for line in world.received(m) if line["method"] == STREAM]
    world.lines(client)
    world.say(m, acknowledged(stream["id"], resourceSubscriptions=["x:y"]), updated(stream["id"]))
    assert world.received(client) == [
        acknowledged("s", resourceSubscriptions=["x:y"]),
        updated("s"),
    ]
    world.say(client, cancelled("s"))
    assert world.received(m) == [cancelled(stream["id"])]
    world.say(client, enveloped(request("t", STREAM, wanted)))
    [again] = world.received(m)
    assert again["method"] == STREAM


def test_other_news_of_the_child_reach_clients_without_their_mark() -> None:
    scene = Scene()
    meta = {"_meta": {SUBSCRIPTION_KEY: 1}}
    scene.world.say(scene.m, notification("notifications/unknown", {"n": 1, **meta}))
    assert scene.received() == [notification("notifications/unknown", {"n": 1})]
    scene.world.say(scene.m, notification("notifications/unknown"))
    assert scene.received() == [notification("notifications/unknown")]
    kept = notification("notifications/unknown", {"_meta": {"vendor/k": 1}})
    scene.world.say(scene.m, kept)
    assert scene.received() == [kept]


def test_what_is_no_message_is_passed_over_with_one_warning() -> None:
    scene = Scene()
    for line in ("banner", "5", "[]", json.dumps([5])):
        scene.world.say(scene.m, line)
    assert len(scene.world.said) == 1
    scene.end()
