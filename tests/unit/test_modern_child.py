"""A child without a handshake: discovery, envelopes, rounds of input, streams, errors and eras."""

from __future__ import annotations

from typing import Any

import pytest
from core import (
    ASKABLE,
    TOOLS_CHANGED,
    Json,
    World,
    by,
    call,
    cancelled,
    enveloped,
    failure,
    introduction,
    notification,
    request,
    result,
    retried,
    tool,
)
from modern_children import (
    ACCEPTED,
    FACTS,
    ROOTS_LIST,
    TEST_INFO,
    Scene,
    elicitation,
    envelope,
    required,
)

from mcpagg_runtime.messages.protocol import (
    CAPABILITIES_KEY,
    INFO_KEY,
    LEGACY,
    LEVEL_KEY,
    MODERN,
    MODERN_VERSION,
    SERVER_KEY,
    VERSION_KEY,
)
from mcpagg_runtime.servers.lifecycle import DOWN, READY

SIGNED: Json = {"_meta": {SERVER_KEY: TEST_INFO}}


# --- Discovery ------------------------------------------------------------------------------


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


# --- Envelopes ------------------------------------------------------------------------------


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


# --- Results --------------------------------------------------------------------------------


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


# --- Cancelling and dying -------------------------------------------------------------------


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


# --- Errors ---------------------------------------------------------------------------------


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
