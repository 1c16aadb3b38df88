"""Clients of 2026-07-28 that come for one request, and which of them start servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import (
    ASKABLE,
    Json,
    World,
    by,
    call,
    enveloped,
    failure,
    notification,
    request,
    result,
    retried,
)
from modern_clients import ACCEPTED, DENIED, Scene, complete, listen, modern_call

from mcpagg_runtime.messages.protocol import CAPABILITIES_KEY, LEVEL_KEY, MODERN_VERSION
from mcpagg_runtime.modern.retries import SUSPENDED_SECONDS

# --- Visits ---------------------------------------------------------------------------------


VISIT: Json = {"mode": "url", "message": "m", "url": "https://x", "elicitationId": "e"}


def test_an_error_that_wants_visits_asks_for_them_and_the_call_is_made_again() -> None:
    scene = Scene()
    scene.world.say(scene.a, failure(scene.sent["id"], -32042, "visit", elicitations=[VISIT]))
    [asked] = scene.received()
    assert asked["result"]["inputRequests"] == {
        "-1": {
            "method": "elicitation/create",
            "params": {"mode": "url", "message": "[a] m", "url": "https://x", **by("a")},
        }
    }
    scene.take_up(2, asked, {"-1": {"action": "accept"}})
    [scene.sent] = scene.got()
    assert scene.sent["params"] == {"name": "t"}
    scene.end(2)


def test_visits_that_are_not_made_are_asked_for_again() -> None:
    scene = Scene()
    scene.world.say(
        scene.a, failure(scene.sent["id"], -32042, "visit", elicitations=[VISIT, VISIT])
    )
    [asked] = scene.received()
    scene.take_up(2, asked, {"-2": {"action": "accept"}})
    [again] = scene.received()
    assert list(again["result"]["inputRequests"]) == ["-1"]
    assert scene.got() == []


@pytest.mark.parametrize(
    ("capabilities", "data"),
    [
        ({"elicitation": {}}, {"elicitations": [VISIT]}),
        ({}, {"elicitations": [VISIT]}),
        (ASKABLE, {"elicitations": []}),
        (ASKABLE, {"elicitations": {}}),
        (ASKABLE, {"elicitations": [5]}),
        (ASKABLE, {"other": 1}),
    ],
)
def test_visits_that_cannot_be_asked_for_are_an_error(capabilities: Json, data: Json) -> None:
    scene = Scene(enveloped(call(1, "a:t"), capabilities))
    scene.world.say(scene.a, failure(scene.sent["id"], -32042, "visit", **data))
    assert scene.received() == [failure(1, -32603, "visit", **data)]
    assert scene.world.idle()


def test_visits_that_a_suspended_call_ends_with_are_asked_for_once() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.say(scene.a, failure(scene.sent["id"], -32042, "visit", elicitations=[VISIT]))
    scene.take_up(2, asked, {"1": ACCEPTED})
    scene.got()
    [visit] = scene.received()
    assert list(visit["result"]["inputRequests"]) == ["-1"]
    scene.take_up(3, visit, {"-1": {"action": "accept"}})
    [scene.sent] = scene.got()
    scene.end(3)


def test_visits_expire_like_questions() -> None:
    scene = Scene()
    scene.world.say(scene.a, failure(scene.sent["id"], -32042, "visit", elicitations=[VISIT]))
    [asked] = scene.received()
    scene.world.wait(SUSPENDED_SECONDS)
    assert scene.world.idle()
    scene.take_up(2, asked, {"-1": {"action": "accept"}})
    assert scene.received() == [DENIED]


# --- Who wakes the children -----------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        enveloped(request(1, "server/discover")),
        enveloped(request(1, "server/discover"), None, {CAPABILITIES_KEY: 5}),
        enveloped(request(1, "tools/list"), None, {CAPABILITIES_KEY: None}),
        enveloped(request(1, "nonsense")),
    ],
)
def test_a_probe_wakes_nobody(message: Json) -> None:
    world = World({"a": ["t"], "b": ["t"]})
    world.say(world.modern(), message)
    assert world.started == []


@pytest.mark.parametrize(
    "message", [enveloped(request(1, "tools/list")), modern_call(1), listen(1)]
)
def test_the_first_request_wakes_all_children_once(message: Json) -> None:
    world = World({"a": ["t"], "b": ["t"]})
    client = world.modern()
    world.say(client, message, message)
    assert sorted(world.started) == ["a", "b"]


def test_a_lazy_proxy_wakes_only_who_is_called() -> None:
    world = World({"a": ["t"], "b": ["t"]}, start="lazy")
    client = world.modern()
    world.say(client, enveloped(request(1, "tools/list")))
    assert world.started == []
    world.say(client, modern_call(2, "b:t"))
    assert world.started == ["b"]


def test_a_child_shakes_hands_with_what_the_first_request_can_do() -> None:
    world = World({"a": ["t"]})
    world.say(world.modern(), enveloped(request(1, "tools/list"), {"roots": {}, "other": {}}))
    world.do(world.core.child_up(world["a"]))
    [hello] = world.received(world["a"])
    assert hello["params"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "test", "version": "1"},
    }
    assert MODERN_VERSION not in json.dumps(hello)


def test_what_a_child_logs_is_told_once_over_a_pipe_of_both_eras() -> None:
    world = World({"a": ["t"]}, capabilities={"logging": {}})
    client = world.client()
    a = world.ready("a", {"tools": {}, "logging": {}})
    world.say(client, enveloped(call(1, "a:t"), {}, {LEVEL_KEY: "debug"}))
    world.lines(client)
    logged = notification("notifications/message", {"level": "info", "data": 1})
    world.say(a, logged)
    told = {"level": "info", "data": 1, "logger": "a"}
    assert world.received(client) == [notification("notifications/message", told)]


def test_hundreds_of_calls_may_wait_for_their_client_and_end_in_any_order() -> None:
    scene = Scene()
    scene.end(1)
    suspended = []
    for number in range(400):  # with work for each that grows with all of them, this takes minutes
        message = modern_call(number, arguments={"n": number})
        scene.world.say(scene.client, message)
        [sent] = scene.got()
        suspended.append((message, sent["id"], scene.asked(f"q{number}")))
    for message, sent, asked in reversed(suspended):
        [key] = asked["result"]["inputRequests"]
        scene.world.say(scene.client, retried("again", message, asked, {key: ACCEPTED}))
        scene.world.say(scene.a, result(sent, {"content": [message["id"]]}))
        assert scene.received() == [complete("again", content=[message["id"]])]
    assert scene.world.idle()


def test_a_call_that_has_ended_asks_nothing_more() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.say(scene.a, result(scene.sent["id"], {"content": ["early"]}))
    scene.take_up(2, asked, {})
    assert scene.received() == [complete(2, content=["early"])]
    assert scene.got() == [failure("q", -32603, "The client is gone")]
    assert scene.world.idle()


@pytest.mark.parametrize("state", ["", 5, [], {}, "junk"])
def test_a_state_that_is_none_of_ours_starts_no_call_anew(state: Any) -> None:
    scene = Scene()
    again = modern_call(2)
    again["params"]["requestState"] = state
    scene.world.say(scene.client, again)
    [refused] = scene.received()
    assert (refused["id"], refused["error"]["code"]) == (2, -32602)
    assert scene.got() == []


@pytest.mark.parametrize("name", ["resultType", "ResultType"])
def test_a_legacy_server_asks_nothing_by_a_result(name: str) -> None:
    world = World({"a": ["t"], "b": ["t"]})
    client, a = world.modern(), None
    world.say(client, enveloped(call(1, "a:t"), {"elicitation": {}}))
    a = world.up("a")
    [sent] = world.received(a)
    form = {"method": "elicitation/create", "params": {"message": "Password?"}}
    asking = {name: "input_required", "inputRequests": {"1": form}, "InputRequests": {}}
    world.say(a, result(sent["id"], {"content": [], **asking}))
    [answer] = world.received(client)
    said = answer["result"]
    assert said["resultType"] == "complete"
    assert {"ResultType", "InputRequests"}.isdisjoint(said)
    assert name == "ResultType" or "inputRequests" not in said
