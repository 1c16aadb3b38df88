"""Clients without a handshake: calls, questions in the middle of them, cancels, subscriptions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import (
    ASKABLE,
    ROOTS,
    Json,
    Message,
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

from mcpagg_runtime.base.client import Client, ModernRequest
from mcpagg_runtime.base.protocol import (
    CAPABILITIES_KEY,
    LEVEL_KEY,
    MODERN_VERSION,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
)
from mcpagg_runtime.modern import client as modern_client
from mcpagg_runtime.modern.client import SUSPENDED_SECONDS
from mcpagg_runtime.modern.subscriptions import ACKNOWLEDGE_SECONDS
from mcpagg_runtime.serve.child import Child
from mcpagg_runtime.serve.lifecycle import QUEUED, STARTING

PREFIX = '{"jsonrpc":"2.0",'
SIGNED: Json = {"_meta": {SERVER_KEY: {"name": "test", "version": "1"}}}
DENIED = failure(
    2, -32602, "Unknown or expired requestState, or of another call: make the request anew without"
)
FORM: Json = {"message": "m", "requestedSchema": {"type": "object"}}
ASKED: Json = {**FORM, "message": "[a] m", **by("a")}
ACCEPTED: Json = {"action": "accept", "content": {"n": 1}}


def modern_call(identifier: Any, name: str = "a:t", **more: Any) -> Json:
    """Return an enveloped call of a client that can be asked everything."""
    return enveloped(call(identifier, name, **more), ASKABLE)


def complete(identifier: Any, **members: Any) -> Json:
    """Return the response that ends a call of a tool."""
    return result(identifier, {**members, "resultType": "complete", **SIGNED})


def cancelled(identifier: Any, **more: Any) -> Json:
    """Return a cancellation."""
    return notification("notifications/cancelled", {"requestId": identifier, **more})


class Scene:
    """One child that is up, and one client that has called it."""

    def __init__(self, message: Message | None = None, **choices: Any) -> None:
        """`message` is what the client says, by default a call with the id 1."""
        self.world = World({"a": ["t", "u"], "b": ["t"]}, **choices)
        self.client: Client = self.world.modern()
        self.message: Any = modern_call(1) if message is None else message
        self.world.say(self.client, self.message)
        self.a: Child = self.world.up("a")
        self.sent: Json = self.got()[-1]

    def got(self) -> list[Json]:
        """Return what the child was sent."""
        return self.world.received(self.a)

    def received(self) -> list[Json]:
        """Return what the client was sent."""
        return self.world.received(self.client)

    def asked(self, identifier: Any = "q", method: str = "elicitation/create") -> Json:
        """Let the child ask something; return the response that the client gets."""
        self.world.say(self.a, request(identifier, method, FORM))
        [response] = self.received()
        return response

    def take_up(self, identifier: Any, asked: Json, responses: Any) -> None:
        """Let the client take its call up again."""
        self.world.say(self.client, retried(identifier, self.message, asked, responses))

    def end(self, identifier: Any) -> None:
        """Let the child end the call; its client gets the result under that id, and all is over."""
        self.world.say(self.a, result(self.sent["id"], {"content": []}))
        assert self.received() == [complete(identifier, content=[])]
        assert self.world.idle()


# --- Calls ------------------------------------------------------------------------------------


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


# --- Errors -----------------------------------------------------------------------------------


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


# --- Progress and logs ------------------------------------------------------------------------


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


def log(level: str, **more: Any) -> Json:
    """Return a log message."""
    return notification("notifications/message", {"level": level, "data": "d", **more})


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


# --- A child asks -----------------------------------------------------------------------------


def test_a_question_parks_the_call_until_it_is_answered() -> None:
    scene = Scene()
    asked = scene.asked()
    assert asked == result(
        1,
        {
            "resultType": "input_required",
            "requestState": "mcpagg:h1:h2",
            "inputRequests": {"1": {"method": "elicitation/create", "params": ASKED}},
            **SIGNED,
        },
    )
    scene.take_up("2", asked, {"1": ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED)]
    assert scene.received() == []
    scene.end("2")


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage", "roots/list"])
def test_every_kind_of_question_can_be_asked(method: str) -> None:
    scene = Scene()
    asked = scene.asked(7, method)
    assert asked["result"]["inputRequests"]["1"]["method"] == method
    scene.take_up(2, asked, {"1": {"any": 1.0}})
    assert scene.got() == [result(7, {"any": 1.0})]
    scene.end(2)


def test_an_answer_reaches_the_child_as_the_same_text() -> None:
    scene = Scene()
    text = json.dumps(retried(2, scene.message, scene.asked(), {"1": {}}))
    scene.world.say(scene.client, text.replace('{"1": {}}', '{"1":{"b":1.0,"a":"\\ud800"}}'))
    assert scene.world.lines(scene.a) == [PREFIX + '"id":"q","result":{"b":1.0,"a":"\\ud800"}}']


def test_a_question_loses_what_this_revision_does_not_know() -> None:
    scene = Scene()
    more = {"_meta": {"progressToken": 1}, "task": {}, "elicitationId": "e", "mode": "url"}
    scene.world.say(scene.a, request("q", "elicitation/create", {**FORM, **more}))
    [asked] = scene.received()
    assert asked["result"]["inputRequests"]["1"]["params"] == {**ASKED, "mode": "url"}


def test_a_question_without_params_gets_some() -> None:
    scene = Scene()
    scene.world.say(scene.a, request("q", "roots/list"))
    [asked] = scene.received()
    assert asked["result"]["inputRequests"] == {"1": {"method": "roots/list", "params": by("a")}}


def test_several_rounds_ask_one_after_the_other() -> None:
    scene = Scene()
    first = scene.asked("q")
    scene.take_up(2, first, {"1": ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED)]
    second = scene.asked("q")
    assert (second["id"], list(second["result"]["inputRequests"])) == (2, ["2"])
    scene.take_up(3, second, {"2": {"action": "decline"}})
    assert scene.got() == [result("q", {"action": "decline"})]
    scene.end(3)


def test_a_second_question_waits_for_the_next_round() -> None:
    scene = Scene()
    asked = scene.asked("q")
    scene.world.say(scene.a, request("r", "roots/list"))
    assert scene.received() == []
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED)]
    [again] = scene.received()
    assert list(again["result"]["inputRequests"]) == ["2"]
    scene.take_up(3, again, {"2": {"roots": []}})
    assert scene.got() == [result("r", {"roots": []})]
    scene.end(3)


def test_several_questions_may_be_answered_at_once() -> None:
    scene = Scene()
    asked = scene.asked("q")
    scene.world.say(scene.a, request("r", "roots/list"))
    scene.take_up(2, asked, {"2": {"roots": []}, "1": ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED), result("r", {"roots": []})]
    scene.end(2)


@pytest.mark.parametrize("responses", [{}, None, [], {"2": ACCEPTED}, {"1": None}, {"1": "yes"}])
def test_a_missing_answer_is_asked_for_again(responses: Any) -> None:
    scene = Scene()
    asked = scene.asked()
    scene.take_up(2, asked, responses)
    assert scene.got() == []
    [again] = scene.received()
    assert again["id"] == 2
    assert again["result"]["inputRequests"] == asked["result"]["inputRequests"]
    assert again["result"]["requestState"] != asked["result"]["requestState"]
    scene.take_up(3, again, {"1": ACCEPTED, "9": ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED)]
    scene.end(3)


def test_a_call_is_taken_up_once() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.take_up(5, asked, {"1": ACCEPTED})
    scene.take_up(2, asked, {"1": {"action": "cancel"}})
    assert scene.received() == [DENIED]
    assert scene.got() == [result("q", ACCEPTED)]
    scene.end(5)


@pytest.mark.parametrize(
    "other",
    [
        modern_call(2, "a:u"),
        modern_call(2, "a_t"),
        modern_call(2, arguments={}),
        modern_call(2, arguments={"n": True}),
        enveloped(request(2, "prompts/get", {"name": "a:t"}), ASKABLE),
    ],
)
def test_the_input_for_one_call_is_none_for_another(other: Json) -> None:
    scene = Scene(prompts={"a": ["t"]})
    asked = scene.asked()
    scene.world.say(scene.client, retried(2, other, asked, {"1": ACCEPTED}))
    assert scene.received() == [DENIED]
    assert scene.got() == []
    scene.take_up(3, asked, {"1": ACCEPTED})
    scene.end(3)


@pytest.mark.parametrize("state", ["mcpagg:h1:h9", "mcpagg:", "of somebody else"])
def test_a_state_that_nobody_gave_is_refused(state: str) -> None:
    scene = Scene()
    scene.take_up(2, {"result": {"requestState": state}}, {})
    assert scene.received() == [DENIED]
    scene.end(1)


@pytest.mark.parametrize("state", ["mcpagg:h1:h9", "of somebody else"])
def test_a_state_that_nobody_gave_for_a_resource_is_refused(state: str) -> None:
    world = World({"a": ["t"]}, resources={"a": ["x:y"]})
    params = {"uri": "x:y", "requestState": state}
    assert world.ask(world.modern(), enveloped(request(2, "resources/read", params))) == DENIED


def test_who_takes_a_call_up_may_be_able_to_do_something_else() -> None:
    scene = Scene()
    asked = scene.asked()
    again = retried(2, scene.message, asked, {"1": ACCEPTED})
    again["params"]["_meta"][CAPABILITIES_KEY] = {}
    scene.world.say(scene.client, again)
    scene.got()
    scene.world.say(scene.a, request("r", "roots/list"))
    assert scene.got() == [failure("r", -32601, "Method not found: roots/list")]
    scene.end(2)


def test_a_client_is_not_asked_what_it_cannot_do() -> None:
    scene = Scene(enveloped(call(1, "a:t"), ROOTS))
    scene.world.say(scene.a, request("q", "elicitation/create", FORM))
    assert scene.got() == [failure("q", -32601, "Method not found: elicitation/create")]
    scene.end(1)


def test_only_what_may_ask_asks() -> None:
    world = World({"a": ["t"]}, prompts={"a": ["p"]}, capabilities={"completions": {}})
    client = world.modern()
    reference = {"ref": {"type": "ref/prompt", "name": "a:p"}, "argument": {}}
    world.say(client, enveloped(request(1, "completion/complete", reference), ASKABLE))
    a = world.ready("a")
    [sent] = [line for line in world.received(a) if line["method"] == "completion/complete"]
    world.say(a, request("q", "roots/list"))
    assert world.received(a) == [failure("q", -32601, "Method not found: roots/list")]
    world.say(a, result(sent["id"], {"completion": {"values": []}}))
    [answer] = world.received(client)
    assert answer == result(1, {"completion": {"values": []}, "resultType": "complete", **SIGNED})


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage"])
def test_a_question_outside_calls_is_refused(method: str) -> None:
    scene = Scene()
    scene.end(1)
    scene.world.say(scene.a, request("q", method))
    assert scene.got() == [failure("q", -32603, "No client's call is under way")]


def test_roots_that_are_wanted_outside_calls_are_asked_for_at_the_next_one() -> None:
    scene = Scene()
    scene.end(1)
    scene.got(), scene.received()
    scene.world.say(scene.a, request("old", "roots/list"), request("q", "roots/list"))
    scene.world.say(scene.a, cancelled("old"))
    assert scene.got() == []
    scene.world.say(scene.client, enveloped(call(2, "a:t"), ASKABLE))
    [suspended] = scene.received()
    assert [r["method"] for r in suspended["result"]["inputRequests"].values()] == ["roots/list"]
    [sent] = scene.got()
    again = enveloped(call(3, "a:t"), ASKABLE)
    again["params"]["requestState"] = suspended["result"]["requestState"]
    again["params"]["inputResponses"] = {"1": {"roots": []}}
    scene.world.say(scene.client, again)
    assert scene.got() == [result("q", {"roots": []})]
    scene.world.say(scene.a, result(sent["id"], {"content": []}))
    assert scene.received() == [complete(3, content=[])]


def test_a_question_that_the_child_takes_back_needs_no_answer() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.say(scene.a, cancelled("q"))
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.got() == []
    assert scene.received() == []
    scene.end(2)


def test_the_end_of_a_suspended_call_waits_for_its_client() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.say(scene.a, result(scene.sent["id"], {"content": ["late"]}))
    assert scene.received() == []
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.received() == [complete(2, content=["late"])]
    assert scene.world.idle()


def test_a_call_fails_with_its_child_although_it_is_suspended() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.down("a", "died")
    assert scene.received() == []
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.received() == [failure(2, -32603, "Server 'a' died", server="a")]
    assert scene.world.idle()


def test_a_client_that_never_comes_back_is_forgotten() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.wait(SUSPENDED_SECONDS - 1)
    assert scene.got() == []
    scene.world.wait(1)
    assert scene.got() == [
        cancelled(scene.sent["id"]),
        failure("q", -32603, "The client is gone"),
    ]
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.received() == [DENIED]
    assert scene.world.idle()


def test_only_so_many_calls_are_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modern_client, "MAXIMUM_SUSPENDED", 1)
    scene = Scene()
    asked = scene.asked()
    scene.world.say(scene.client, modern_call(9, "a:u"))
    [other] = scene.got()
    scene.asked("r")
    assert scene.got() == [
        cancelled(scene.sent["id"]),
        failure("q", -32603, "The client is gone"),
    ]
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.received() == [DENIED]
    assert other["id"] in scene.a.connection.calls


# --- Whose turn it is -------------------------------------------------------------------------


def asking_scene() -> Scene:
    """Return a scene whose child has asked something, and waits for the answer."""
    scene = Scene()
    scene.asked()
    return scene


def test_a_suspended_call_holds_up_no_other_of_its_client() -> None:
    scene = asking_scene()
    scene.world.say(scene.client, modern_call(8, "a:u"))
    assert [line["params"] for line in scene.got()] == [{"name": "u"}]


def test_a_child_that_asks_is_given_all_calls_of_its_client_at_once() -> None:
    scene = asking_scene()
    scene.world.say(scene.client, modern_call(8, "a:u"), modern_call(9, "a:t"))
    assert [line["params"] for line in scene.got()] == [{"name": "u"}, {"name": "t"}]


def test_an_answer_waits_for_no_other_call() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.say(scene.client, modern_call(8, "a:u"))
    scene.got()
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED)]


def test_two_calls_are_asked_each_its_own() -> None:
    scene = Scene()
    first = scene.asked("q")
    other = modern_call(8, "a:u")
    scene.world.say(scene.client, other)
    [sent] = scene.got()
    second = scene.asked("r")
    assert (first["id"], second["id"]) == (1, 8)
    scene.world.say(scene.client, retried(9, other, second, {"1": {"n": 2}}))
    assert scene.got() == [result("r", {"n": 2})]
    scene.world.say(scene.a, result(sent["id"], {"content": [2]}))
    assert scene.received() == [complete(9, content=[2])]
    scene.take_up(2, first, {"1": {"n": 1}})
    assert scene.got() == [result("q", {"n": 1})]
    scene.end(2)


def test_a_question_of_one_of_two_calls_of_a_client_is_asked_by_the_younger_one() -> None:
    scene = Scene()
    scene.world.say(scene.client, modern_call(2, "a:u"))
    scene.got()
    assert scene.asked()["id"] == 2
    assert scene.got() == []


def test_a_question_is_asked_by_the_other_call_when_the_one_that_carried_it_ends() -> None:
    scene = Scene()
    other = modern_call(2, "a:u")
    scene.world.say(scene.client, other)
    [sent] = scene.got()
    first = scene.asked()
    scene.world.say(scene.a, result(sent["id"], {"content": ["done"]}))
    scene.world.say(scene.client, retried(3, other, first, {}))
    ended, again = scene.received()
    assert ended == complete(3, content=["done"])
    assert again["id"] == 1
    [number] = again["result"]["inputRequests"]
    scene.take_up(4, again, {number: ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED)]
    scene.end(4)


def test_roots_are_those_of_any_call() -> None:
    scene = Scene()
    scene.world.say(scene.client, modern_call(2, "a:u"))
    scene.got()
    assert scene.asked("q", "roots/list")["result"]["resultType"] == "input_required"


def test_a_suspended_call_holds_up_no_other_connection() -> None:
    scene = asking_scene()
    other = scene.world.modern()
    scene.world.say(other, modern_call(1, "a:u"))
    assert scene.got() == []
    own = scene.world.up(scene.world.own("a", other))
    assert own is not scene.a
    assert [line["params"] for line in scene.world.received(own)] == [{"name": "u"}]


# --- Cancelling -------------------------------------------------------------------------------


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


# --- Visits -----------------------------------------------------------------------------------

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


# --- Subscriptions ----------------------------------------------------------------------------

WATCHED: Json = {"resources": {"subscribe": True, "listChanged": True}}
UPDATED = "notifications/resources/updated"


def listen(identifier: Any, **wanted: Any) -> Json:
    """Return a request that opens a subscription."""
    return enveloped(request(identifier, "subscriptions/listen", {"notifications": wanted}))


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


# --- Who wakes the children -------------------------------------------------------------------


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
