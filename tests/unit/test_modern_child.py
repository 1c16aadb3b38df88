"""A child without a handshake: discovery, envelopes, rounds of input, streams, errors and eras."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from core import (
    ASKABLE,
    TOOLS_CHANGED,
    Json,
    Message,
    World,
    by,
    call,
    enveloped,
    failure,
    introduction,
    notification,
    request,
    result,
    retried,
    tool,
)

from mcpagg_runtime.base.client import Client
from mcpagg_runtime.base.protocol import (
    CAPABILITIES_KEY,
    INFO_KEY,
    LEGACY,
    LEVEL_KEY,
    MODERN,
    MODERN_VERSION,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
)
from mcpagg_runtime.modern.child import MAXIMUM_ROUNDS
from mcpagg_runtime.serve.child import Child
from mcpagg_runtime.serve.lifecycle import DOWN, READY

FACTS: Json = {"m": {"protocol": MODERN_VERSION}}
FORM: Json = {"message": "m", "requestedSchema": {"type": "object"}}
ACCEPTED: Json = {"action": "accept", "content": {"n": 1}}
TEST_INFO: Json = {"name": "test", "version": "1"}
SIGNED: Json = {"_meta": {SERVER_KEY: TEST_INFO}}
STREAM = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def envelope(capabilities: Json | None = None, **more: Any) -> Json:
    """Return the envelope of who can do `capabilities`."""
    return {
        VERSION_KEY: MODERN_VERSION,
        CAPABILITIES_KEY: capabilities or {},
        INFO_KEY: TEST_INFO,
        **more,
    }


def cancelled(identifier: Any, **more: Any) -> Json:
    """Return a cancellation."""
    return notification("notifications/cancelled", {"requestId": identifier, **more})


def required(state: Any = None, **asked: Json) -> Json:
    """Return a result that requires input, `asked` by key."""
    members: Json = {"resultType": "input_required"}
    if asked:
        members["inputRequests"] = asked
    return members if state is None else {**members, "requestState": state}


def elicitation(**more: Any) -> Json:
    """Return what stands for a form in a result that requires input."""
    return {"method": "elicitation/create", "params": {**FORM, **more}}


ROOTS_LIST: Json = {"method": "roots/list"}


class Scene:
    """A child without a handshake that is up, and a client that has called it."""

    def __init__(self, client: Client | None = None, **choices: Any) -> None:
        """The client is a legacy one that can be asked everything."""
        self.world = World({"m": ["t", "u"]}, facts=FACTS, **choices)
        self.client: Client = self.world.client(ASKABLE)
        self.m: Child = self.world.up("m")
        self.sent = self.call(1)

    def call(self, identifier: Any, **more: Any) -> Json:
        """Let the client make a call; return what reaches the child."""
        self.world.say(self.client, call(identifier, "m:t", **more))
        [sent] = self.got()
        return sent

    def got(self) -> list[Json]:
        """Return what the child was sent."""
        return self.world.received(self.m)

    def received(self) -> list[Json]:
        """Return what the client was sent."""
        return self.world.received(self.client)

    def say(self, value: Any) -> None:
        """Let the child answer the latest round of the call."""
        self.world.say(self.m, result(self.sent["id"], value))

    def asked(self, state: Any = None, **asked: Json) -> list[Json]:
        """Let the child require input; return what the client is asked."""
        self.say(required(state, **asked))
        assert self.got() == []
        return self.received()

    def answer(self, *messages: Message) -> Json:
        """Let the client answer; return the round that is made then."""
        self.world.say(self.client, *messages)
        [self.sent] = self.got()
        return self.sent

    def end(self) -> None:
        """Let the child end the call; its client gets the result, and all is over."""
        self.say({"resultType": "complete", "content": []})
        assert self.received() == [result(1, {"content": []})]
        assert self.world.idle()


# --- Discovery --------------------------------------------------------------------------------


def test_a_discovery_stands_for_the_handshake() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    world.client({"roots": {}})
    world.do(world.core.child_up(world["m"]))
    [hello] = world.received(world["m"])
    assert hello == request(hello["id"], "server/discover", {"_meta": envelope({"roots": {}})})
    introduced = {"resultType": "complete", **introduction(MODERN, {"tools": {}})}
    world.answer(world["m"], introduced, "server/discover")
    assert world["m"].state == READY
    assert world["m"].lifecycle.capabilities == {"tools": {}}
    assert [line["method"] for line in world.received(world["m"])] == ["tools/list"]


def test_the_proxys_own_requests_say_who_asks() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    world.client({"roots": {}})
    [listing] = world.received(world.ready("m"))
    assert listing["params"] == {"_meta": envelope({"roots": {}})}


@pytest.mark.parametrize(
    ("row", "listed"),
    [
        ({"url": "https://m.example/"}, ["u"]),
        ({"url": "https://m.example/", "transport": "sse"}, ["t", "u"]),
        ({}, ["t", "u"]),
    ],
)
def test_a_tool_whose_headers_cannot_be_made_is_left_out(row: Json, listed: list[str]) -> None:
    world = World({"m": ["t", "u"]}, facts=FACTS, rows={"m": row})
    client = world.client()
    bad = {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
    tools = [{"name": "t", "inputSchema": bad}, tool("u")]
    child = world.up("m", tools)
    world.wait(1)  # it is read once more when it has come to rest
    world.give_list(child, tools)
    assert world.names(client) == [f"m:{name}" for name in listed]


def test_nothing_is_sent_to_a_child_that_is_not_discovered() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    world.say(world.client(), call(1, "m:t"))
    world.born("m")
    assert world.received(world["m"]) == []


def test_a_child_that_dies_during_discovery_is_tried_in_the_other_era() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    client = world.client()
    world.say(client, call(1, "m:t"))
    world.born("m")
    world.down("m")
    assert (world.asleep, world.started) == (["m"], ["m", "m"])
    assert world["m"].era == LEGACY
    assert world.received(client) == []
    m = world.up("m")
    [sent] = world.received(m)
    assert sent["params"] == {"name": "t"}
    world.say(m, result(sent["id"], {"content": []}))
    assert world.received(client) == [result(1, {"content": []})]
    assert world.idle()


def test_a_child_that_cannot_be_started_is_started_once() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    world.say(world.client(), call(1, "m:t"))
    world.down("m", "could not be started: no such file")
    assert (world.started, world["m"].state, world["m"].era) == (["m"], DOWN, MODERN)


def test_a_child_that_dies_in_both_eras_is_down() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    client = world.client()
    world.say(client, call(1, "m:t"))
    world.born("m")
    world.down("m", "died")
    world.born("m")
    world.down("m", "died again")
    assert (world["m"].state, world["m"].era) == (DOWN, MODERN)
    assert world.received(client) == [
        failure(1, -32603, "Server 'm' died again", server="m"),
        TOOLS_CHANGED,
    ]


@pytest.mark.parametrize("code", [-32601, -32602, -32022, 0])
def test_a_child_that_refuses_a_discovery_is_tried_in_the_other_era(code: int) -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    world.client()
    world.say(world["m"], failure(world.born("m"), code, "no"))
    assert world["m"].era == LEGACY
    world.up("m")
    assert world["m"].state == READY


@pytest.mark.parametrize(
    "error",
    [
        {"code": -32022, "message": "no"},
        {"code": -32601, "message": "no"},
        {"code": 1, "message": f"I speak {MODERN_VERSION}"},
        {"code": 1, "message": "Begin with server/discover"},
        {"code": -32020, "message": "Header mismatch"},
    ],
)
def test_a_child_that_refuses_a_handshake_may_be_of_this_era(error: Json) -> None:
    world = World({"a": ["t"]})
    client = world.client()
    world.say(client, call(1, "a:t"))
    world.say(world["a"], {"id": world.born("a"), "error": error})
    assert world["a"].era == MODERN
    [sent] = world.received(world.up("a"))
    assert sent["params"]["_meta"] == envelope()


def test_a_child_that_refuses_both_is_ended() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    world.client()
    world.say(world["m"], failure(world.born("m"), -32601, "no"))
    world.say(world["m"], failure(world.born("m"), -32601, "no"))
    [(name, why)] = world.stopped
    assert (name, why[:22]) == ("m", "refused the handshake:")


# --- Envelopes --------------------------------------------------------------------------------


def test_a_call_says_for_whom_it_is_made() -> None:
    scene = Scene()
    assert scene.sent["params"] == {"name": "t", "_meta": envelope(ASKABLE)}
    other = scene.world.client({"roots": {}}, clientInfo={"name": "other"})
    scene.world.say(other, call(1, "m:t"))
    [sent] = scene.got()
    assert sent["params"]["_meta"] == {
        VERSION_KEY: MODERN_VERSION,
        CAPABILITIES_KEY: {"roots": {}},
        INFO_KEY: {"name": "other"},
    }


def test_other_members_of_meta_stay() -> None:
    scene = Scene()
    message = call(2, "m:t")
    message["params"]["_meta"] = {"traceparent": "00"}
    scene.world.say(scene.client, message)
    [sent] = scene.got()
    assert sent["params"]["_meta"] == envelope(ASKABLE, traceparent="00")


@pytest.mark.parametrize("meta", [None, 5, [], {}])
def test_a_meta_that_holds_nothing_is_replaced(meta: Any) -> None:
    scene = Scene()
    message = call(2, "m:t")
    message["params"]["_meta"] = meta
    scene.world.say(scene.client, message)
    [sent] = scene.got()
    assert sent["params"]["_meta"] == envelope(ASKABLE)


def test_the_log_level_of_the_client_is_stamped() -> None:
    scene = Scene(capabilities={"logging": {}})
    message = request(2, "logging/setLevel", {"level": "error"})
    assert scene.world.ask(scene.client, message) == result(2, {})
    assert scene.got() == []
    assert scene.call(3)["params"]["_meta"] == envelope(ASKABLE, **{LEVEL_KEY: "error"})


def test_the_envelope_of_a_client_of_this_revision_passes_whole() -> None:
    scene = Scene()
    client = scene.world.modern()
    able = {"elicitation": {}, "x": {"y": 1}}
    scene.world.say(client, enveloped(call(1, "m:t"), able, {LEVEL_KEY: "info", "v": 1}))
    [sent] = scene.got()
    assert sent["params"]["_meta"] == envelope(able, **{LEVEL_KEY: "info", "v": 1})


def test_progress_comes_back_in_every_round() -> None:
    scene = Scene()
    scene.end()
    scene.sent = scene.call(1, token="p")  # noqa: S106
    token = scene.sent["params"]["_meta"]["progressToken"]
    [asked] = scene.asked(k=ROOTS_LIST)
    again = scene.answer(result(asked["id"], {"roots": []}))
    assert again["params"]["_meta"]["progressToken"] == token
    params = {"progressToken": token, "progress": 1}
    scene.world.say(scene.m, notification("notifications/progress", params))
    assert scene.received() == [
        notification("notifications/progress", {"progressToken": "p", "progress": 1})
    ]


# --- Results ----------------------------------------------------------------------------------


def test_a_result_loses_what_older_revisions_do_not_know() -> None:
    scene = Scene()
    members = {"content": [], "x": 1, "_meta": {"v": 1}}
    scene.say({"resultType": "complete", **members, "ttlMs": 0, "cacheScope": "private"})
    assert scene.received() == [result(1, members)]


def test_a_result_without_a_type_is_complete_and_keeps_its_text() -> None:
    scene = Scene()
    scene.world.say(scene.m, f'{{"id":{scene.sent["id"]},"result":{{"b":1.0,"a":1e999}}}}')
    [line] = scene.world.lines(scene.client)
    assert line == '{"jsonrpc":"2.0","id":1,"result":{"b":1.0,"a":1e999}}'


def test_a_result_of_another_type_cannot_be_passed_on() -> None:
    scene = Scene()
    scene.say({"resultType": "task", "taskId": "x"})
    [answer] = scene.received()
    assert answer["error"]["code"] == -32603
    assert "task" in answer["error"]["message"]
    assert scene.world.idle()


@pytest.mark.parametrize("value", [5, "s", None, [1], True])
def test_structured_content_that_is_no_object_is_wrapped(value: Any) -> None:
    scene = Scene()
    scene.say({"structuredContent": value})
    assert scene.received() == [result(1, {"structuredContent": {"result": value}})]


def test_structured_content_is_wrapped_like_its_schema() -> None:
    tools = [{"name": "t", "inputSchema": {}, "outputSchema": {"anyOf": [{"type": "object"}]}}]
    world = World({"m": tools}, facts=FACTS)
    client, m = world.client(), world.up("m")
    for wrong, content in ((False, {"result": {"n": 1}}), (True, {"n": 1})):
        world.say(client, call(1, "m:t"))
        [sent] = world.received(m)
        error = {"isError": True} if wrong else {}
        world.say(m, result(sent["id"], {"structuredContent": {"n": 1}, **error}))
        assert world.received(client) == [result(1, {"structuredContent": content, **error})]


def test_a_client_of_this_revision_gets_all_as_it_is() -> None:
    scene = Scene()
    client = scene.world.modern()
    given: list[Json] = [
        {"resultType": "complete", "content": [], "structuredContent": 5, "ttlMs": 1},
        {"resultType": "task", "taskId": "x"},
        required("s", k=elicitation(mode="url")),
    ]
    for value in given:
        scene.world.say(client, enveloped(call(1, "m:t"), ASKABLE))
        [sent] = scene.got()
        scene.world.say(scene.m, result(sent["id"], value))
        for entry in value.get("inputRequests", {}).values():
            entry["params"] |= by("m")
        assert scene.world.received(client) == [result(1, {**value, **SIGNED})]


@pytest.mark.parametrize("state", ["s", "mcpagg:h1", "mcpagg:0123:4567"])
def test_a_client_of_this_revision_answers_the_child_itself(state: str) -> None:
    scene = Scene()
    client, message = scene.world.modern(), enveloped(call(1, "m:t"), ASKABLE)
    scene.world.say(client, message)
    [sent] = scene.got()
    scene.world.say(scene.m, result(sent["id"], required(state, k=elicitation())))
    [asked] = scene.world.received(client)
    scene.world.say(client, retried(2, message, asked, {"k": ACCEPTED}))
    [again] = scene.got()
    assert again["params"] == {
        "name": "t",
        "requestState": state,
        "inputResponses": {"k": ACCEPTED},
        "_meta": envelope(ASKABLE),
    }
    scene.world.say(scene.m, result(again["id"], {"content": []}))
    assert scene.world.received(client)[0]["id"] == 2


@pytest.mark.parametrize("member", ["", ',"result":null', ',"result":5', ',"result":[]'])
@pytest.mark.parametrize("modern", [False, True])
def test_what_is_no_result_fails_the_call(member: str, modern: bool) -> None:
    scene = Scene()
    client = scene.world.modern() if modern else scene.client
    message = call(2, "m:t")
    scene.world.say(client, enveloped(message) if modern else message)
    [sent] = scene.got()
    scene.world.say(scene.m, f'{{"id":{sent["id"]}{member}}}')
    why = "Server 'm' answered with what is no result"
    assert scene.world.received(client) == [failure(2, -32603, why)]
    scene.end()


@pytest.mark.parametrize("answer", [{}, {"result": None}, {"result": {}}, {"result": 5}])
def test_a_discovery_that_finds_nothing_is_refused(answer: Json) -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    world.client()
    world.say(world["m"], {"id": world.born("m"), **answer})
    assert world["m"].era == LEGACY
    world.say(world["m"], {"id": world.born("m"), **answer})
    assert [server for server, _ in world.stopped] == ["m"]


def test_a_list_that_is_none_leaves_the_snapshot() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    client = world.client()
    m = world.ready("m")
    [listing] = world.received(m)
    world.say(m, {"id": listing["id"]})
    assert world.names(client) == ["m:t"]
    assert world.said[0].startswith("server 'm' gave no list of tools")


DEEP = "[" * 500 + "]" * 500


@pytest.mark.parametrize(
    "answer",
    [
        '"result":{"resultType":DEEP}',
        '"result":{"resultType":"input_required","inputRequests":DEEP}',
        '"result":{"structuredContent":DEEP}',
        '"error":{"code":-32020,"message":DEEP}',
        '"error":{"code":-32021,"message":"m","data":{"requiredCapabilities":{"x":DEEP}}}',
    ],
)
def test_what_nests_too_deep_to_be_shown_is_no_fault(answer: str) -> None:
    scene = Scene()
    scene.world.say(scene.m, f'{{"id":{scene.sent["id"]},{answer.replace("DEEP", DEEP)}}}')
    assert [line[:24] for line in scene.world.lines(scene.client)] == ['{"jsonrpc":"2.0","id":1,']
    assert scene.world.idle()


# --- Rounds -----------------------------------------------------------------------------------


def test_required_input_is_asked_of_the_client_and_brought_back() -> None:
    scene = Scene()
    [asked] = scene.asked("state", key=elicitation())
    assert (asked["method"], asked["params"]) == ("elicitation/create", {**FORM, **by("m")})
    again = scene.answer(result(asked["id"], ACCEPTED))
    assert again["method"] == "tools/call"
    assert again["params"] == {
        "name": "t",
        "inputResponses": {"key": ACCEPTED},
        "requestState": "state",
        "_meta": envelope(ASKABLE),
    }
    scene.end()


def test_state_and_answers_keep_their_text() -> None:
    scene = Scene()
    scene.world.say(
        scene.m,
        f'{{"id":{scene.sent["id"]},"result":{{"resultType":"input_required",'
        '"requestState":"\\ud800\\u0041","inputRequests":{"\\ud800":{"method":"roots/list"}}}}',
    )
    [asked] = scene.received()
    scene.world.say(scene.client, f'{{"id":{asked["id"]},"result":{{"b":1.0,"a":1e999}}}}')
    [line] = scene.world.lines(scene.m)
    assert '"requestState":"\\ud800\\u0041"' in line
    assert '"inputResponses":{"\\ud800":{"b":1.0,"a":1e999}}' in line


def test_several_questions_are_asked_at_once_and_answered_in_any_order() -> None:
    scene = Scene()
    one, two = scene.asked(x=elicitation(), y=ROOTS_LIST)
    scene.world.say(scene.client, result(two["id"], {"roots": []}))
    assert scene.got() == []
    again = scene.answer(result(one["id"], ACCEPTED))
    assert again["params"]["inputResponses"] == {"x": ACCEPTED, "y": {"roots": []}}
    assert "requestState" not in again["params"]
    scene.end()


def test_answers_are_of_one_round() -> None:
    scene = Scene()
    for key in ("x", "y"):
        [asked] = scene.asked(**{key: elicitation()})
        again = scene.answer(result(asked["id"], ACCEPTED))
        assert again["params"]["inputResponses"] == {key: ACCEPTED}
    scene.end()


def test_what_a_server_answers_to_a_notification_ends_no_call() -> None:
    scene = Scene()
    scene.call(2)
    error = {"code": -32601, "message": "Method not found: notifications/cancelled"}
    scene.world.say(scene.m, {"jsonrpc": "2.0", "id": None, "error": error})
    assert scene.got() == []


def test_an_answer_counts_once() -> None:
    scene = Scene()
    [asked] = scene.asked(k=elicitation())
    scene.answer(result(asked["id"], ACCEPTED))
    scene.world.say(scene.client, result(asked["id"], {"action": "cancel"}))
    assert scene.got() == []
    scene.end()


def test_rounds_are_bounded() -> None:
    scene = Scene()
    for _ in range(MAXIMUM_ROUNDS - 1):
        [asked] = scene.asked(k=elicitation())
        scene.answer(result(asked["id"], ACCEPTED))
    [answer] = scene.asked(k=elicitation())
    why = f"Server 'm' asked for more than {MAXIMUM_ROUNDS} rounds of input"
    assert answer == failure(1, -32603, why)
    assert scene.world.idle()


def test_only_so_much_input_is_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpagg_runtime.serve.server_requests.MAXIMUM_OPEN_REQUESTS", 2)
    scene = Scene()
    asked = scene.asked(j=elicitation(), k=elicitation(), m=elicitation())
    assert [one["method"] for one in asked] == ["elicitation/create"] * 2
    retry = scene.answer(*[result(one["id"], ACCEPTED) for one in asked])
    assert retry["params"]["inputResponses"] == {
        "j": ACCEPTED,
        "k": ACCEPTED,
        "m": {"action": "cancel"},
    }
    scene.end()


def test_a_state_alone_means_try_again_later() -> None:
    scene = Scene()
    for number, wait in enumerate((0.05, 0.1, 0.2, 0.25)):
        assert scene.asked(number) == []
        scene.world.wait(wait - 0.01)
        assert scene.got() == []
        scene.world.wait(0.01)
        [scene.sent] = scene.got()
        assert scene.sent["params"]["requestState"] == number
        assert "inputResponses" not in scene.sent["params"]
    scene.end()


@pytest.mark.parametrize(
    "asked",
    [
        {"k": {"method": "tools/call", "params": {}}},
        {"k": {"method": ["x"], "params": {}}},
        {"k": {"method": {}, "params": {}}},
        {"k": {"method": "elicitation/create", "params": []}},
        {"k": {"params": {}}},
        {"k": 5},
        {"k": ROOTS_LIST, "l": {"method": "future/kind"}},
        ["k"],
        "k",
    ],
)
def test_input_of_an_unknown_kind_fails_the_call(asked: Any) -> None:
    scene = Scene()
    scene.say({"resultType": "input_required", "inputRequests": asked})
    why = "Server 'm' requires input of a kind that cannot be asked for"
    assert scene.received() == [failure(1, -32603, why)]
    assert scene.world.idle()


def test_a_visit_gets_the_id_that_older_revisions_want() -> None:
    scene = Scene()
    [one, two] = scene.asked(x=elicitation(mode="url"), y=elicitation(mode="url"))
    assert type(one["params"]["elicitationId"]) is str
    assert one["params"]["elicitationId"] != two["params"]["elicitationId"]


def test_a_client_that_cannot_be_asked_is_not() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    client, m = world.client({"roots": {}}), world.up("m")
    world.say(client, call(1, "m:t"))
    [sent] = world.received(m)
    world.say(m, result(sent["id"], required(k=elicitation())))
    [again] = world.received(m)
    assert again["params"]["inputResponses"] == {"k": {"action": "cancel"}}
    assert world.received(client) == []


def test_an_elicitation_that_fails_is_cancelled() -> None:
    scene = Scene()
    [asked] = scene.asked(k=elicitation())
    again = scene.answer(failure(asked["id"], -1, "no"))
    assert again["params"]["inputResponses"] == {"k": {"action": "cancel"}}
    scene.end()


@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage"])
def test_another_question_that_fails_fails_the_call(method: str) -> None:
    scene = Scene()
    one, two = scene.asked(x={"method": method, "params": {}}, y=elicitation())
    scene.world.say(scene.client, failure(one["id"], -1, "no"))
    why = f"Server 'm' asked the client for {method} and was refused"
    assert scene.received() == [cancelled(two["id"]), failure(1, -32603, why)]
    scene.world.say(scene.client, result(two["id"], ACCEPTED))
    assert scene.got() == []
    assert scene.world.idle()


def test_a_question_that_cannot_be_asked_fails_the_call_before_the_next_is() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    client, m = world.client({"elicitation": {}}), world.up("m")
    world.say(client, call(1, "m:t"))
    [sent] = world.received(m)
    world.say(m, result(sent["id"], required(x=ROOTS_LIST, y=elicitation())))
    [answer] = world.received(client)
    assert answer["error"]["code"] == -32603
    assert world.idle()


def test_two_calls_of_one_client_are_asked_each_its_own() -> None:
    scene = Scene()
    first, second = scene.sent, scene.call(2)
    scene.world.say(scene.m, result(first["id"], required(1, k=elicitation())))
    scene.world.say(scene.m, result(second["id"], required(2, k=elicitation())))
    one, two = scene.received()
    scene.world.say(scene.client, result(two["id"], {"n": 2}), result(one["id"], {"n": 1}))
    params = {line["params"]["requestState"]: line["params"] for line in scene.got()}
    assert params[1]["inputResponses"] == {"k": {"n": 1}}
    assert params[2]["inputResponses"] == {"k": {"n": 2}}


def test_a_question_in_a_round_holds_up_no_other_client() -> None:
    scene = Scene()
    scene.asked(k=elicitation())
    other = scene.world.client()
    scene.world.say(other, call(1, "m:t"))
    assert len(scene.got()) == 1


def test_a_child_of_this_revision_takes_no_turns() -> None:
    world = World({"m": ["t"]}, facts=FACTS, conditional={"m": ["t"]})
    one, two, m = world.client(ASKABLE), world.client(ASKABLE), world.up("m")
    world.say(one, call(1, "m:t"))
    world.say(two, call(1, "m:t"))
    assert len(world.received(m)) == 2


# --- Cancelling and dying ---------------------------------------------------------------------


def test_a_call_is_cancelled_under_the_id_of_its_latest_round() -> None:
    scene = Scene()
    [asked] = scene.asked(k=elicitation())
    again = scene.answer(result(asked["id"], ACCEPTED))
    scene.world.say(scene.client, cancelled(1, reason="enough"))
    assert scene.got() == [cancelled(again["id"], reason="enough")]
    scene.say({"content": []})
    assert scene.received() == []
    assert scene.world.idle()


def test_a_call_that_is_cancelled_while_its_client_is_asked_takes_the_question_back() -> None:
    scene = Scene()
    [asked] = scene.asked(k=elicitation())
    scene.world.say(scene.client, cancelled(1))
    assert scene.received() == [cancelled(asked["id"])]
    scene.world.say(scene.client, result(asked["id"], ACCEPTED))
    assert scene.got() == []
    assert scene.world.idle()


def test_a_call_that_is_cancelled_while_it_waits_is_not_made_again() -> None:
    scene = Scene()
    scene.asked("state")
    scene.world.say(scene.client, cancelled(1))
    scene.world.wait(1)
    assert scene.got() == []
    assert scene.world.idle()


def test_a_client_that_leaves_while_it_is_asked_is_forgotten() -> None:
    scene = Scene()
    scene.asked(k=elicitation(), l=ROOTS_LIST)
    scene.world.leave(scene.client)
    assert scene.got() == []
    assert scene.world.idle()


def test_a_child_that_dies_while_the_client_is_asked_takes_the_question_back() -> None:
    scene = Scene()
    [asked] = scene.asked(k=elicitation())
    scene.world.down("m", "died")
    assert scene.received() == [
        failure(1, -32603, "Server 'm' died", server="m"),
        cancelled(asked["id"]),
        TOOLS_CHANGED,
    ]
    assert scene.world.idle()


def test_a_late_or_doubled_answer_of_the_child_counts_for_nothing() -> None:
    scene = Scene()
    first = scene.sent
    [asked] = scene.asked(k=elicitation())
    scene.world.say(scene.m, result(first["id"], {"content": ["late"]}))
    scene.answer(result(asked["id"], ACCEPTED))
    scene.world.say(scene.m, result(first["id"], {"content": ["late"]}))
    assert scene.received() == []
    scene.end()


@pytest.mark.parametrize("identifier", ["null", "0", '"0"', '""', '"x"'])
@pytest.mark.parametrize("member", ["result", "error"])
def test_an_answer_to_nothing_is_none_to_a_call_whose_client_is_asked(
    identifier: str, member: str
) -> None:
    scene = Scene()
    [asked] = scene.asked(k=elicitation())
    scene.world.say(scene.m, f'{{"id":{identifier},"{member}":{{"code":1}}}}')
    assert scene.received() == []
    scene.answer(result(asked["id"], ACCEPTED))
    scene.end()


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":ID,"result":{"resultType":',
        '{"jsonrpc":"2.0","id":null,"error":{"code":5,"message":"m"}}',
        '{"jsonrpc":"2.0","resu',
    ],
)
def test_an_answer_that_cannot_be_read_ends_the_request_in_flight(line: str) -> None:
    scene = Scene()
    scene.world.say(scene.m, line.replace("ID", str(scene.sent["id"])))
    [answer] = scene.received()
    assert (answer["id"], answer["error"]["code"] in (5, -32603)) == (1, True)
    assert scene.world.idle()


def test_a_discovery_whose_answer_cannot_be_read_fails() -> None:
    world = World({"m": ["t"]}, facts={"m": {"protocol": MODERN_VERSION}})
    world.client()
    identifier = world.born("m")
    world.say(world["m"], f'{{"jsonrpc":"2.0","id":{identifier},"result":{{')
    assert world.started == ["m", "m"]  # it may be of the other era


def test_a_call_may_time_out_in_the_middle_of_a_round() -> None:
    scene = Scene(timeout=5.0)
    [asked] = scene.asked(k=elicitation())
    scene.world.wait(5)
    assert scene.received() == [
        cancelled(asked["id"]),
        failure(1, -32001, "Server 'm' did not answer in time"),
    ]
    assert scene.world.idle()


@pytest.mark.parametrize("method", ["ping", "roots/list", "elicitation/create"])
def test_a_child_of_this_revision_asks_nothing_by_itself(method: str) -> None:
    scene = Scene()
    scene.world.say(scene.m, request("q", method, {}))
    assert (scene.got(), scene.received()) == ([], [])
    scene.end()


# --- Errors -----------------------------------------------------------------------------------


def test_what_is_said_of_the_envelope_is_not_the_clients_business() -> None:
    for code in (-32020, -32022):
        scene = Scene()
        scene.world.say(scene.m, failure(scene.sent["id"], code, "bad", supported=["x"]))
        why = "Server 'm' refused the request: bad"
        assert scene.received() == [failure(1, -32603, why)]
        assert scene.world.idle()


def test_a_capability_that_is_missing_is_named() -> None:
    scene = Scene()
    needed: Json = {"requiredCapabilities": {"elicitation": {}, "roots": {}}}
    scene.world.say(scene.m, failure(scene.sent["id"], -32021, "missing", **needed))
    why = "Server 'm' refused the request: missing: elicitation, roots"
    assert scene.received() == [failure(1, -32603, why)]


def test_a_client_of_this_revision_hears_itself_what_it_lacks() -> None:
    scene = Scene()
    client = scene.world.modern()
    needed: Json = {"requiredCapabilities": {"elicitation": {}}}
    for code, told in (
        (-32021, failure(1, -32021, "no", **needed)),
        (-32020, failure(1, -32603, "Server 'm' refused the request: no")),
        (-32022, failure(1, -32603, "Server 'm' refused the request: no")),
    ):
        scene.world.say(client, enveloped(call(1, "m:t")))
        [sent] = scene.got()
        scene.world.say(scene.m, failure(sent["id"], code, "no", **needed))
        assert scene.world.received(client) == [told]


@pytest.mark.parametrize("error", ['{"code":1,"message":"m","x":1.0}', '"text"', "0"])
def test_other_errors_stay_as_they_are(error: str) -> None:
    scene = Scene()
    scene.world.say(scene.m, f'{{"id":{scene.sent["id"]},"error":{error}}}')
    assert scene.world.lines(scene.client) == [f'{{"jsonrpc":"2.0","id":1,"error":{error}}}']


# --- Streams ----------------------------------------------------------------------------------

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
