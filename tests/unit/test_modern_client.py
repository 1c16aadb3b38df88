"""Clients without a handshake: calls, questions in the middle of them, cancels, subscriptions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import (
    ASKABLE,
    PREFIX,
    Json,
    World,
    call,
    cancelled,
    enveloped,
    failure,
    notification,
    request,
    result,
    retried,
)
from modern_clients import ACCEPTED, SIGNED, Scene, complete, log, modern_call

from mcpagg_runtime.clients.client import ModernRequest
from mcpagg_runtime.messages.protocol import LEVEL_KEY

# --- Calls ----------------------------------------------------------------------------------


def test_a_call_reaches_a_legacy_child_without_its_envelope() -> None:
    scene = Scene(modern_call("x", arguments={"n": 1}, token=1))
    assert scene.sent["params"] == {
        "name": "t",
        "arguments": {"n": 1},
        "_meta": {"progressToken": scene.sent["id"]},
    }
    scene.end("x")


def test_an_envelope_that_holds_nothing_else_goes_as_a_whole() -> None:
    assert Scene().sent["params"] == {"name": "t"}


def test_other_members_of_meta_stay() -> None:
    scene = Scene(enveloped(call(1, "a:t"), ASKABLE, {"traceparent": "00"}))
    assert scene.sent["params"] == {"name": "t", "_meta": {"traceparent": "00"}}


def test_arguments_keep_their_text() -> None:
    text = json.dumps(modern_call(1, arguments="HERE")).replace(
        '"HERE"', '{"b":1.0,"a":1e999,"s":"\\ud800"}'
    )
    world = World({"a": ["t"]})
    world.say(world.modern(), text)
    [line] = world.lines(world.up("a"))
    assert '{"b":1.0,"a":1e999,"s":"\\ud800"}' in line


def test_a_result_is_one_of_this_revision() -> None:
    scene = Scene()
    scene.world.say(scene.a, result(scene.sent["id"], {"isError": True, "_meta": {"v": 1}}))
    assert scene.received() == [
        result(
            1,
            {
                "isError": True,
                "resultType": "complete",
                "content": [],
                "_meta": {"v": 1, **SIGNED["_meta"]},
            },
        )
    ]


@pytest.mark.parametrize("identifier", [0, "", "1", -1, 2**70, "\ud800"])
def test_an_id_comes_back_as_it_was(identifier: Any) -> None:
    Scene(modern_call(identifier)).end(identifier)


def test_calls_of_one_id_are_both_answered() -> None:
    scene = Scene()
    scene.world.say(scene.client, modern_call(1, "a:u"))
    [other] = scene.got()
    scene.world.say(scene.a, result(other["id"], {"content": ["u"]}))
    assert scene.received() == [complete(1, content=["u"])]
    scene.end(1)


def test_one_connection_speaks_both_eras_with_equal_ids() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t"), modern_call(1))
    legacy, modern = world.received(a)
    world.say(a, result(modern["id"], {"content": ["m"]}), result(legacy["id"], {"content": ["l"]}))
    assert world.received(client) == [
        complete(1, content=["m"]),
        result(1, {"content": ["l"]}),
    ]
    assert world.idle()


def test_a_client_may_shake_hands_after_a_discovery() -> None:
    world = World({"a": ["t"]})
    client = world.modern()
    assert "result" in world.ask(client, enveloped(request(1, "server/discover")))
    assert "result" in world.ask(client, request(2, "initialize", {}))
    assert "result" in world.ask(client, request(3, "tools/list"))
    assert "result" in world.ask(client, enveloped(request(4, "tools/list")))


def test_an_enveloped_handshake_is_a_handshake() -> None:
    world = World({"a": ["t"]})
    answer = world.ask(world.modern(), enveloped(request(1, "initialize")))
    assert answer["result"]["protocolVersion"] == "2025-11-25"


def test_a_client_may_leave_in_the_middle_of_calls() -> None:
    scene = Scene()
    scene.world.say(scene.client, modern_call(2, "a:u"))
    [other] = scene.got()
    scene.asked("r", "roots/list")
    scene.world.leave(scene.client)
    assert scene.got() == [cancelled(scene.sent["id"])]
    scene.world.wait(600)  # the other one waits for whoever has its state
    assert scene.got() == [
        cancelled(other["id"]),
        failure("r", -32603, "The client is gone"),
    ]
    assert scene.received() == []
    assert scene.world.idle()


def test_an_ended_call_keeps_no_memory_although_it_started_a_server() -> None:
    scene = Scene()
    starter = scene.client.starter
    assert isinstance(starter, ModernRequest)
    assert starter.message.params["name"] == "a:t"
    scene.end(1)
    assert starter.message.params == {}


def test_a_call_is_owed_until_it_is_answered_or_suspended() -> None:
    scene = Scene()
    assert scene.world.core.owes(scene.client)
    asked = scene.asked()
    assert not scene.world.core.owes(scene.client)
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.world.core.owes(scene.client)
    scene.end(2)
    assert not scene.world.core.owes(scene.client)


# --- Errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a:none", "none"])
def test_an_unknown_tool_is_called_so(name: str) -> None:
    scene = Scene()
    scene.world.say(scene.client, modern_call(2, name))
    for listing in [one for one in scene.got() if one["method"] == "tools/list"]:
        scene.world.say(scene.a, result(listing["id"], {"tools": []}))
    assert scene.received()[-1] == failure(2, -32602, f"Unknown tool: {name}")


def test_a_tool_without_a_name_is_refused() -> None:
    world = World({"a": ["t"]})
    answer = world.ask(world.modern(), enveloped(request(1, "tools/call", {"name": 5})))
    assert (answer["id"], answer["error"]["code"]) == (1, -32602)
    assert world.idle()


def test_an_unknown_resource_is_invalid_params_that_name_it() -> None:
    world = World({"a": ["t"]}, resources={"a": ["x:y"]})
    client = world.modern()
    world.say(client, enveloped(request(0, "tools/list")))
    world.ready("a", {"tools": {}})
    answer = world.ask(client, enveloped(request(1, "resources/read", {"uri": "x:z"})))
    assert answer == failure(1, -32602, "Resource not found: x:z", uri="x:z")


def test_a_resource_that_a_child_lacks_is_invalid_params_too() -> None:
    world = World({"a": ["t"]}, resources={"a": ["x:y"]})
    client = world.modern()
    world.say(client, enveloped(request(1, "resources/read", {"uri": "x:y"})))
    a = world.ready("a")
    [sent] = [line for line in world.received(a) if line["method"] == "resources/read"]
    world.say(a, failure(sent["id"], -32002, "gone", other=1))
    assert world.received(client) == [failure(1, -32602, "gone", uri="x:y")]


@pytest.mark.parametrize("error", ['{"code":1.0,"x":1e999}', '"text"', "0", '{"message":"m"}'])
def test_other_errors_of_a_child_stay_as_they_are(error: str) -> None:
    scene = Scene()
    scene.world.say(scene.a, f'{{"id":{scene.sent["id"]},"error":{error}}}')
    assert scene.world.lines(scene.client) == [PREFIX + f'"id":1,"error":{error}}}']
    assert scene.world.idle()


def test_what_no_server_declared_is_not_found() -> None:
    world = World({"a": ["t"]})
    for method in ("completion/complete", "prompts/get", "prompts/list", "ping", "tasks/get"):
        answer = world.ask(world.modern(), enveloped(request(1, method, {"name": "a:t"})))
        assert answer == failure(1, -32601, f"Method not found: {method}")


def test_a_call_fails_with_its_child() -> None:
    scene = Scene()
    scene.world.down("a", "died")
    assert scene.received() == [failure(1, -32603, "Server 'a' died", server="a")]
    assert scene.world.idle()


@pytest.mark.parametrize("value", [None, 5, "text", [], True])
def test_what_is_no_result_is_an_error(value: Any) -> None:
    scene = Scene()
    scene.world.say(scene.a, result(scene.sent["id"], value))
    assert scene.received() == [failure(1, -32603, "The server answered with what is no result")]
    assert scene.world.idle()


DEEP = "[" * 500 + "]" * 500


@pytest.mark.parametrize("params", ['"name":DEEP', '"name":"a:none","uri":DEEP'])
def test_what_nests_too_deep_to_be_shown_is_no_fault(params: str) -> None:
    world = World({"a": ["t"]}, on_drift="warn")
    text = json.dumps(enveloped(request(1, "tools/call", {"HERE": 1})))
    answer = world.ask(world.modern(), text.replace('"HERE": 1', params.replace("DEEP", DEEP)))
    assert (answer["id"], answer["error"]["code"]) == (1, -32602)


def test_a_tool_may_say_in_its_own_way_that_it_found_nothing() -> None:
    scene = Scene()
    scene.world.say(scene.a, failure(scene.sent["id"], -32002, "gone", own=1))
    assert scene.received() == [failure(1, -32602, "gone", own=1)]


# --- Progress and logs ----------------------------------------------------------------------


@pytest.mark.parametrize("token", ["p", "", 0, 7, 2**70])
def test_progress_comes_back_under_the_clients_own_token(token: Any) -> None:
    scene = Scene(modern_call(1, token=token))
    params = {"progressToken": scene.sent["id"], "progress": 1, "message": "m"}
    scene.world.say(scene.a, notification("notifications/progress", params))
    params = {**params, "progressToken": token}
    assert scene.received() == [notification("notifications/progress", params)]


def test_no_progress_is_told_while_it_is_the_clients_turn() -> None:
    scene = Scene(modern_call(1, token=1))
    asked = scene.asked()
    progress = {"progressToken": scene.sent["id"], "progress": 1}
    scene.world.say(scene.a, notification("notifications/progress", progress))
    assert scene.received() == []
    again = {**scene.message, "params": modern_call(1, token=2)["params"]}
    scene.world.say(scene.client, retried(2, again, asked, {"1": ACCEPTED}))
    scene.world.say(scene.a, notification("notifications/progress", progress))
    progress["progressToken"] = 2
    assert scene.received() == [notification("notifications/progress", progress)]


def test_no_progress_is_told_to_who_took_a_call_up_and_wants_none() -> None:
    scene = Scene(modern_call(1, token=1))
    again = {**scene.message, "params": modern_call(1)["params"]}
    scene.world.say(scene.client, retried(2, again, scene.asked(), {"1": ACCEPTED}))
    progress = {"progressToken": scene.sent["id"], "progress": 1}
    scene.world.say(scene.a, notification("notifications/progress", progress))
    assert scene.received() == []
    scene.end(2)


LOGGING: Json = {"capabilities": {"logging": {}}}


def logging_scene(level: str | None) -> Scene:
    """Return a scene whose client wants logs from `level` on."""
    return Scene(enveloped(call(1, "a:t"), ASKABLE, {LEVEL_KEY: level}), **LOGGING)


def test_logs_reach_a_call_that_wants_them_from_its_level_on() -> None:
    scene = logging_scene("warning")
    scene.world.say(scene.a, log("info"), log("error"))
    assert scene.received() == [log("error", logger="a")]


def test_no_log_reaches_a_call_that_wants_none() -> None:
    scene = logging_scene(None)
    scene.world.say(scene.a, log("emergency"))
    assert scene.received() == []


def test_a_log_that_could_be_of_two_calls_is_of_none() -> None:
    scene = logging_scene("debug")
    scene.world.say(scene.client, enveloped(call(2, "a:u"), ASKABLE, {LEVEL_KEY: "debug"}))
    scene.world.say(scene.a, log("error"))
    assert scene.received() == []


def test_a_child_that_logs_is_asked_for_the_level_of_a_call() -> None:
    world = World({"a": ["t"]}, **LOGGING)
    client, a = world.client(), world.ready("a", {"tools": {}, "logging": {}})
    world.lines(a)
    world.say(client, enveloped(call(1, "a:t"), {}, {LEVEL_KEY: "debug"}))
    asked = [line for line in world.received(a) if line["method"] == "logging/setLevel"]
    assert [line["params"] for line in asked] == [{"level": "debug"}]
    world.say(a, result(asked[0]["id"], {}))
    assert world.received(client) == []
    world.say(client, enveloped(call(2, "a:t"), {}, {LEVEL_KEY: "debug"}))
    assert [line["method"] for line in world.received(a)] == ["tools/call"]


# --- Cancelling -----------------------------------------------------------------------------


def test_a_cancelled_call_is_answered_by_nobody() -> None:
    scene = Scene()
    scene.world.say(scene.client, cancelled(1, reason="enough"))
    assert scene.got() == [cancelled(scene.sent["id"], reason="enough")]
    scene.world.say(scene.a, result(scene.sent["id"], {}))
    assert scene.received() == []
    assert scene.world.idle()


def test_a_cancellation_reaches_a_legacy_child_without_its_envelope() -> None:
    for more in ({}, {"vendor": 1}):
        scene = Scene()
        message = enveloped(cancelled(1))
        message["params"]["_meta"].update(more)
        scene.world.say(scene.client, message)
        assert scene.got() == [cancelled(scene.sent["id"], **({"_meta": more} if more else {}))]


@pytest.mark.parametrize("identifier", ["1", 1.0, True, None, 2, [1]])
def test_a_cancellation_of_another_id_cancels_nothing(identifier: Any) -> None:
    scene = Scene()
    scene.world.say(scene.client, cancelled(identifier))
    assert scene.got() == []
    scene.end(1)


def test_a_call_that_was_taken_up_can_be_cancelled() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.say(scene.client, cancelled(1))
    assert scene.got() == []
    scene.take_up(2, asked, {})
    scene.received()
    scene.take_up(3, {"result": {"requestState": "mcpagg:h1:h3"}}, {"1": ACCEPTED})
    scene.got()
    scene.world.say(scene.client, cancelled(3))
    assert scene.got() == [cancelled(scene.sent["id"])]
    assert scene.world.idle()


def test_a_call_that_waits_for_its_child_can_be_cancelled() -> None:
    world = World({"a": ["t"]})
    client = world.modern()
    world.say(client, modern_call(1), cancelled(1))
    assert world.lines(world.up("a")) == []
    assert world.lines(client) == []
    assert world.idle()
