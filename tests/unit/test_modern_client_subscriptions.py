"""What clients of 2026-07-28 subscribe to."""

from __future__ import annotations

from typing import Any

import pytest
from core import Json, World, cancelled, enveloped, failure, notification, request, result
from modern_clients import listen, log

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.protocol import SUBSCRIPTION_KEY
from mcpagg_runtime.modern.subscriptions import ACKNOWLEDGE_SECONDS
from mcpagg_runtime.servers.child import Child
from mcpagg_runtime.servers.lifecycle import QUEUED, STARTING

WATCHED: Json = {"resources": {"subscribe": True, "listChanged": True}}
UPDATED = "notifications/resources/updated"


def tagged(identifier: Any, method: str, **params: Any) -> Json:
    """Return a notification of a subscription."""
    return notification(method, {**params, "_meta": {SUBSCRIPTION_KEY: identifier}})


def acknowledged(identifier: Any, **honoured: Any) -> Json:
    """Return the first notification of a subscription."""
    method = "notifications/subscriptions/acknowledged"
    return tagged(identifier, method, notifications=honoured)


def listening(*messages: Json) -> tuple[World, Client]:
    """Return a world whose child has the resource x:y, and a client that has said `messages`."""
    resources = {"a": ["x:y", "x:z"]}
    choices: Json = {"resources": resources, "declares": {"a": WATCHED}}
    world = World({"a": ["t"], "b": ["t"]}, capabilities=WATCHED, **choices)
    client = world.modern()
    world.say(client, *messages)
    return world, client


def subscribed(world: World) -> tuple[Child, list[Json]]:
    """Let the child come up; return it and what it was asked to tell about."""
    a = world.ready("a", {"tools": {}, "resources": {"subscribe": True}})
    lines = asked_to_watch(world, a)
    for line in lines:
        world.say(a, result(line["id"], {}))
    return a, lines


def asked_to_watch(world: World, child: Child) -> list[Json]:
    """Return the requests by which a child was asked to tell about resources."""
    return [line for line in world.received(child) if line["method"] == "resources/subscribe"]


def test_what_is_honoured_of_a_subscription_is_said_first() -> None:
    wanted = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": False,
        "resourceSubscriptions": ["x:y", "x:unknown", 5, "x:y"],
        "taskIds": ["t"],
    }
    world, client = listening(listen("s", **wanted))
    a = world.ready("a", {"tools": {"listChanged": True}, "resources": {"subscribe": True}})
    asked = {line["params"]["uri"]: line["id"] for line in asked_to_watch(world, a)}
    assert [*asked] == ["x:y", "x:unknown"]
    assert world.received(client) == []
    world.say(a, result(asked["x:y"], {}), notification(UPDATED, {"uri": "x:y/z"}))
    world.down("b")
    assert world.received(client) == []
    world.say(a, failure(asked["x:unknown"], -32602, "unknown"))
    honoured = {"toolsListChanged": True, "resourceSubscriptions": ["x:y"]}
    assert world.received(client) == [
        acknowledged("s", **honoured),
        tagged("s", UPDATED, uri="x:y/z"),
        tagged("s", "notifications/tools/list_changed"),
    ]


def test_a_subscription_does_not_wait_for_ever_for_what_is_honoured_of_it() -> None:
    world, client = listening(listen(1, toolsListChanged=True, resourceSubscriptions=["x:y"]))
    a = world.ready("a", {"tools": {}, "resources": {"subscribe": True}})
    [asked] = asked_to_watch(world, a)
    world.wait(ACKNOWLEDGE_SECONDS)
    assert world.received(client) == [acknowledged(1, toolsListChanged=True)]
    assert world.received(a)[-1]["method"] == "notifications/cancelled"
    world.say(a, result(asked["id"], {}), notification(UPDATED, {"uri": "x:y"}))
    assert world.received(client) == []


def test_a_subscription_goes_on_without_a_server_that_is_gone() -> None:
    world, client = listening(listen(1, toolsListChanged=True, resourceSubscriptions=["x:y"]))
    world.down("a")
    assert world.received(client) == [
        acknowledged(1, toolsListChanged=True),
        tagged(1, "notifications/tools/list_changed"),
    ]


def test_an_empty_subscription_is_one_too() -> None:
    world, client = listening(listen(1))
    assert world.received(client) == [acknowledged(1)]
    world.down("a")
    assert world.received(client) == []


@pytest.mark.parametrize("wanted", [None, [], "all"])
def test_a_subscription_to_nothing_is_refused(wanted: Any) -> None:
    world = World({"a": ["t"]})
    params = {"notifications": wanted}
    answer = world.ask(world.modern(), enveloped(request(1, "subscriptions/listen", params)))
    assert answer["error"]["code"] == -32602
    assert world.idle()


def test_resources_that_no_server_tells_about_are_not_honoured() -> None:
    world = World({"a": ["t"]}, resources={"a": ["x:y"]})
    answer = world.ask(world.modern(), listen(1, resourceSubscriptions=["x:y"]))
    assert answer == acknowledged(1)


def test_news_are_marked_with_the_subscription() -> None:
    world, client = listening(listen(7, resourceSubscriptions=["x:y"]))
    a, _ = subscribed(world)
    world.lines(client)
    world.say(a, notification(UPDATED, {"uri": "x:y"}), notification(UPDATED, {"uri": "x:z"}))
    assert world.received(client) == [tagged(7, UPDATED, uri="x:y")]


def test_a_subscription_hears_only_what_it_asked_for() -> None:
    world, client = listening(
        listen(1, toolsListChanged=True), listen(2, resourcesListChanged=True)
    )
    world.up("a")
    world.lines(client)
    world.down("a")
    assert world.received(client) == [
        tagged(1, "notifications/tools/list_changed"),
        tagged(2, "notifications/resources/list_changed"),
    ]


def test_neither_progress_nor_logs_travel_on_a_subscription() -> None:
    world, client = listening(listen(1, toolsListChanged=True))
    a = world.up("a")
    world.lines(client)
    world.say(a, log("error"), notification("notifications/unknown"))
    assert world.received(client) == []


def test_a_subscription_that_is_cancelled_hears_nothing_more() -> None:
    world, client = listening(listen(1, resourceSubscriptions=["x:y"]))
    a, _ = subscribed(world)
    world.lines(client)
    world.say(client, cancelled(1))
    [line] = world.received(a)
    assert (line["method"], line["params"]) == ("resources/unsubscribe", {"uri": "x:y"})
    world.say(a, result(line["id"], {}), notification(UPDATED, {"uri": "x:y"}))
    world.down("a")
    assert world.received(client) == []
    assert world.idle()


def test_the_last_subscriber_of_a_resource_ends_it() -> None:
    one, two = (listen(number, resourceSubscriptions=["x:y"]) for number in (1, 2))
    world, client = listening(one, two)
    a, _ = subscribed(world)
    world.lines(client)
    world.say(a, notification(UPDATED, {"uri": "x:y"}))
    assert world.received(client) == [
        tagged(1, UPDATED, uri="x:y"),
        tagged(2, UPDATED, uri="x:y"),
    ]
    world.say(client, cancelled(1))
    assert world.received(a) == []
    world.say(client, cancelled(2))
    assert [line["method"] for line in world.received(a)] == ["resources/unsubscribe"]


def test_subscribers_of_both_eras_share_a_resource() -> None:
    world, client = listening(listen(1, resourceSubscriptions=["x:y"]))
    other = world.client()
    a, _ = subscribed(world)
    world.say(other, request(1, "resources/subscribe", {"uri": "x:y"}))
    [asked] = world.received(a)
    world.say(a, result(asked["id"], {}))
    world.lines(client), world.lines(other)
    world.say(a, notification(UPDATED, {"uri": "x:y"}))
    assert world.received(client) == [tagged(1, UPDATED, uri="x:y")]
    assert world.received(other) == [notification(UPDATED, {"uri": "x:y"})]
    world.say(client, cancelled(1))
    assert world.received(a) == []


def test_a_child_that_starts_anew_is_asked_for_its_news_again() -> None:
    world, _ = listening(listen(1, resourceSubscriptions=["x:y"]))
    subscribed(world)
    world.down("a")
    world["a"].lifecycle.enter(QUEUED)
    world["a"].lifecycle.enter(STARTING)
    _, asked = subscribed(world)
    assert [line["params"] for line in asked] == [{"uri": "x:y"}]


def test_subscriptions_end_with_the_proxy() -> None:
    world, client = listening(listen("s", toolsListChanged=True))
    world.lines(client)
    world.do(world.core.end_subscriptions())
    assert world.received(client) == [
        result("s", {"resultType": "complete", "_meta": {SUBSCRIPTION_KEY: "s"}})
    ]


def test_a_subscription_is_not_owed() -> None:
    world, client = listening(listen(1))
    assert not world.core.owes(client)
