"""What servers ask clients, on its way through the router."""

from __future__ import annotations

from typing import Any

import pytest
from core import (
    PREFIX,
    ROOTS,
    TOOLS_CHANGED,
    Json,
    World,
    by,
    call,
    cancelled,
    failure,
    notification,
    request,
    result,
)

from mcpagg_runtime.messages.protocol import CANCELLED, PROGRESS

SAMPLING: Json = {"sampling": {}}


def test_a_question_reaches_the_client_and_its_answer_the_child() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(SAMPLING), world.up("a")
    world.say(a, '{"id":"q","method":"sampling/createMessage","params":{ "x":1e999 }}')
    assert world.lines(client) == [
        PREFIX
        + '"id":1,"method":"sampling/createMessage",'
        + '"params":{ "x":1e999 ,"_meta":{"mcpagg/server":"a"}}}'
    ]
    world.say(client, '{"id":1,"result":{"b":1.0,"a":"\\ud800"}}', result(1, "again"))
    assert world.lines(a) == [PREFIX + '"id":"q","result":{"b":1.0,"a":"\\ud800"}}']
    assert world.idle()


@pytest.mark.parametrize("servers", [["a"], ["a", "b"]])
def test_a_person_is_told_which_server_asks_where_there_are_several(servers: list[str]) -> None:
    world = World({server: ["t"] for server in servers})
    client, a = world.client({"elicitation": {}}), world.up("a")
    params = {"message": "Delete?", "_meta": {"progressToken": 1}}
    world.say(a, request("q", "elicitation/create", params))
    message = "[a] Delete?" if len(servers) > 1 else "Delete?"
    meta = {"progressToken": 1, **by("a")["_meta"]}
    [asked] = world.received(client)
    assert asked["params"] == {"message": message, "_meta": meta}


@pytest.mark.parametrize(
    ("logger", "told"), [(None, "a"), ("", "a"), ("db", "a/db"), (5, "a"), ("a", "a/a")]
)
def test_a_log_says_which_server_logs(logger: Any, told: str) -> None:
    world = World({"a": ["t"], "b": ["t"]}, capabilities={"logging": {}})
    client, a = world.client(), world.up("a")
    given = {"level": "info", "data": [1], **({} if logger is None else {"logger": logger})}
    world.say(a, notification("notifications/message", given))
    assert world.received(client) == [
        notification("notifications/message", {**given, "logger": told})
    ]


def test_who_speaks_is_not_said_otherwise_to_parsers_that_ignore_case() -> None:
    world = World({"a": ["t"], "b": ["t"]}, capabilities={"logging": {}})
    client, a = world.client({"elicitation": {}}), world.up("a")
    meta = {"MCPAGG/Server": "b", "k": 1}
    params = {"message": "x", "Message": "y", "Mode": "url", "_Meta": meta, "_meta": meta}
    world.say(a, request("q", "elicitation/create", params))
    log = {"level": "info", "data": 1, "Logger": "b"}
    world.say(a, notification("notifications/message", log))
    asked, logged = world.received(client)
    assert asked["params"] == {"message": "[a] x", "_meta": {"k": 1, **by("a")["_meta"]}}
    assert logged["params"] == {"level": "info", "data": 1, "logger": "a"}


@pytest.mark.parametrize(
    "more",
    [
        {"_Meta": {"progressToken": 1}},
        {"_meta": {"ProgressToken": 1}},
        {"_meta": {"IO.modelcontextprotocol/clientInfo": {}}},
    ],
)
def test_no_call_is_another_ones_to_servers_that_ignore_case(more: Json) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    asked = call(1, "a:t")
    answer = world.ask(client, {**asked, "params": {**asked["params"], **more}})
    assert answer["error"]["code"] == -32602
    assert world.received(a) == []


def test_what_is_cancelled_and_progresses_is_the_same_to_parsers_that_ignore_case() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(ROOTS), world.up("a")
    world.say(client, call("c", "a:t", token=4))
    [sent] = world.received(a)
    token = sent["params"]["_meta"]["progressToken"]
    world.say(a, notification(PROGRESS, {"progressToken": token, "ProgressToken": "q", "n": 1}))
    assert world.received(client) == [notification(PROGRESS, {"progressToken": 4, "n": 1})]
    world.say(a, request("q", "roots/list"))
    [asked] = world.received(client)
    world.say(a, notification(CANCELLED, {"requestId": "q", "RequestId": "x"}))
    assert world.received(client) == [notification(CANCELLED, {"requestId": asked["id"]})]
    world.say(client, notification(CANCELLED, {"requestId": "c", "requestID": 7}))
    assert world.received(a) == [notification(CANCELLED, {"requestId": sent["id"]})]


def test_colliding_ids_of_questions_and_calls_do_not_meet() -> None:
    world = World({"a": ["t"], "b": ["t"]})
    client, a, b = world.client(ROOTS), world.up("a"), world.up("b")
    world.say(client, call(0, "a:t"))
    world.lines(a)
    world.say(a, request(0, "roots/list"), request("0", "roots/list"))
    world.say(b, request(0, "roots/list"))
    first, second, third = (message["id"] for message in world.received(client))
    world.say(client, result(third, 3), failure(first, -1, "no"), result(str(second), 2))
    assert world.received(b) == [result(0, 3)]
    assert world.received(a) == [failure(0, -1, "no"), result("0", 2)]
    world.answer(a, {})
    assert world.received(client) == [result(0, {})]
    assert world.idle()


def test_a_question_id_in_use_may_be_used_again() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(ROOTS), world.up("a")
    world.say(a, request(1, "roots/list"), request(1, "roots/list"), request(1, "roots/list"))
    world.lines(client)
    world.say(client, result(1, "one"))
    world.say(a, cancelled(1))
    assert world.received(client) == [cancelled(3)]
    world.down("a")
    assert world.received(client) == [cancelled(2), TOOLS_CHANGED]
    assert world.received(a) == [result(1, "one")]
    assert world.idle()


@pytest.mark.parametrize(
    ("method", "capabilities"),
    [
        ("sampling/createMessage", {"roots": {}}),
        ("elicitation/create", {}),
        ("roots/list", {"roots": None}),
        ("unknown/method", {"roots": {}, "sampling": {}, "elicitation": {}}),
    ],
)
def test_a_question_that_the_client_cannot_take_is_refused(method: str, capabilities: Json) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(capabilities), world.up("a")
    world.say(a, request("q", method, {}))
    assert world.received(a) == [failure("q", -32601, f"Method not found: {method}")]
    assert world.lines(client) == []


def test_a_ping_of_a_child_is_answered_at_once() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(a, '{"id":"p","method":"ping"}')
    assert world.lines(a) == [PREFIX + '"id":"p","result":{}}']
    assert world.lines(client) == []


def test_a_question_with_an_illegal_id_is_refused() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(ROOTS), world.up("a")
    world.say(a, request(None, "roots/list"))
    why = "Invalid request: an id is a string or an integer"
    assert world.received(a) == [failure(None, -32600, why)]
    assert world.lines(client) == []


def test_a_question_goes_to_the_client_that_called_last() -> None:
    world = World({"a": ["t"]})
    one, two = world.client(ROOTS), world.client(ROOTS)
    a = world.up("a")
    world.say(a, request(1, "roots/list"))
    assert len(world.lines(one)) == 1
    world.say(two, call(1, "a:t"))
    world.say(a, request(2, "roots/list"))
    assert (len(world.lines(one)), len(world.lines(two))) == (0, 1)


def test_a_question_may_be_taken_back_by_the_child() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(ROOTS), world.up("a")
    world.say(a, request("q", "roots/list"), cancelled("q", reason="enough"))
    [asked, word] = world.received(client)
    assert word == cancelled(asked["id"], reason="enough")
    world.say(client, result(asked["id"], {}))
    assert world.lines(a) == []
    assert world.idle()


def test_the_questions_of_a_child_that_dies_are_taken_back() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(ROOTS), world.up("a")
    world.say(a, request("q", "roots/list"))
    [asked] = world.received(client)
    world.down("a")
    assert world.received(client) == [cancelled(asked["id"]), TOOLS_CHANGED]
    world.say(client, result(asked["id"], {}))
    assert world.lines(a) == []
    assert world.idle()


def test_a_client_that_leaves_takes_back_its_calls_and_refuses_its_questions() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(ROOTS), world.up("a")
    world.say(client, call(1, "a:t"), call(1, "a:t"), call(2, "a:new"))
    world.say(a, request("q", "roots/list"))
    world.lines(a), world.lines(client)
    world.do(world.core.disconnect(client))
    first, second = world.asked(a)
    assert world.received(a) == [
        cancelled(second),
        cancelled(first),
        failure("q", -32603, "The client is gone"),
    ]
    world.say(a, result(first, {}), result(second, {}), request("r", "roots/list"))
    assert world.received(a) == [failure("r", -32603, "No client's call is under way")]
    world.down("a")
    assert world.lines(client) == []
    assert world.idle()


def test_roots_changes_reach_the_children_that_the_client_started() -> None:
    world = World({"a": ["t"], "b": ["t"]})
    client, a = world.client(ROOTS), world.up("a")
    other = world.client(ROOTS)
    changed = notification("notifications/roots/list_changed")
    world.say(client, changed)
    world.say(other, changed)
    assert world.received(a) == [changed]
    assert world.lines(world["b"]) == []
