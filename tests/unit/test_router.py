"""Calls, cancellations, progress, questions and errors on their way through the router."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import (
    ASKABLE,
    INITIALIZED,
    ROOTS,
    TOOLS_CHANGED,
    Json,
    World,
    by,
    call,
    enveloped,
    failure,
    notification,
    request,
    result,
    tool,
)

from mcpagg_runtime.base.catalogue import KINDS
from mcpagg_runtime.base.client import Client
from mcpagg_runtime.base.jsontext import LARGE
from mcpagg_runtime.base.message import read_message
from mcpagg_runtime.base.protocol import CANCELLED, METHODS, MODERN_VERSION, PROGRESS, Method
from mcpagg_runtime.serve.child import Child
from mcpagg_runtime.serve.unmatched import AnsweredNotifications

PREFIX = '{"jsonrpc":"2.0",'


def cancelled(identifier: Any, **more: Any) -> Json:
    """Return a cancellation."""
    return notification("notifications/cancelled", {"requestId": identifier, **more})


def progress(token: Any, value: float = 1, **more: Any) -> Json:
    """Return a progress notification."""
    params = {"progressToken": token, "progress": value, **more}
    return notification("notifications/progress", params)


# --- Calls ------------------------------------------------------------------------------------


def test_a_call_reaches_its_child_under_the_childs_own_name() -> None:
    world = World({"a": ["t"], "b": ["t"]})
    client, a, b = world.client(), world.up("a"), world.up("b")
    world.say(client, call("x", "b:t", {"n": 1}), call("y", "a_t"))
    [sent] = world.asked(b)
    rest = '"method":"tools/call","params":{"name": "t", "arguments": {"n": 1}}}'
    assert world.lines(b) == [f'{PREFIX}"id":{sent},{rest}']
    [to_a] = world.received(a)
    assert to_a["params"] == {"name": "t"}
    world.answer(a, {"from": "a"})
    world.answer(b, {"from": "b"})
    assert world.received(client) == [result("y", {"from": "a"}), result("x", {"from": "b"})]
    assert world.idle()


@pytest.mark.parametrize(
    "params",
    [
        '{"name":NAME}',
        '{"name":NAME,"arguments":null}',
        '{"name":NAME,"arguments":{}}',
        '{ "arguments" : { "b":1.0,"a":1e999,"b":-0.0 } , "name" : NAME , "task":{"t":1}, "x":[] }',
        '{"foo":"bar","name":NAME,"_meta":{"traceparent":"00-..","vendor/k":null}}',
        '{"name":NAME,"arguments":{"s":"\\ud800 \u2028\\u0041","i":%s}}' % ("7" * 5000),
        '{"name":NAME,"arguments":%s}' % ('{"a":' * 500 + "[]" + "}" * 500),
        '{"name":NAME,"_meta":null}',
        '{"name":NAME,"_meta":{"progressToken":null}}',
    ],
)
def test_params_reach_the_child_as_the_same_text_but_for_the_name(params: str) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    text = params.replace("NAME", '"a:t"')
    world.say(client, f'{{"id":1,"method":"tools/call","params":{text},"x":2}}')
    [sent] = world.asked(a)
    params = params.replace("NAME", '"t"')
    assert world.lines(a) == [f'{PREFIX}"id":{sent},"method":"tools/call","params":{params}}}']


@pytest.mark.parametrize(
    "raw",
    [
        '{"content":[{"type":"text","text":"ok"}],"structuredContent":{},"isError":false,"x":1.0}',
        '{"id":1234567890123456789,"f":1.0,"e":1e400,"d":0.10000000000000000555,"neg":-0.0}',
        '{"x":NaN,"y":-Infinity}',
        '{"text":"a\u2028b\u2029c\x85d\\u000be\\ud800"}',
        '{ "b" : 1 , "a":2, "b":3 }',
        '{"deep":%s}' % ("[" * 500 + "]" * 500),
        '{"i":%s}' % ("9" * 5000),
        "null",
        '"text"',
        "{}",
    ],
)
@pytest.mark.parametrize("member", ["result", "error"])
def test_an_answer_reaches_the_client_as_the_same_text(raw: str, member: str) -> None:
    if (raw, member) == ("null", "error"):
        return
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call("i", "a:t"))
    world.say(a, f'{{"vendor":1, "{member}" :{raw} ,"id":{world.asked(a)[0]}}}')
    assert world.lines(client) == [PREFIX + f'"id":"i","{member}":{raw}}}']


@pytest.mark.parametrize(
    ("members", "answer"),
    [
        ('"result":{"a":1},"error":null', '"result":{"a":1}'),
        ('"error":{"code":1,"message":"m"},"result":{"a":1}', '"error":{"code":1,"message":"m"}'),
        ('"error":{"code":1,"message":"m"},"result":null', '"error":{"code":1,"message":"m"}'),
        ('"x":1', '"result":{}'),
    ],
)
def test_a_response_of_doubtful_shape_is_read_as_the_sdks_do(members: str, answer: str) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t"))
    world.say(a, f'{{"id":{world.asked(a)[0]},{members}}}')
    assert world.lines(client) == [PREFIX + f'"id":1,{answer}}}']


def test_an_answer_whose_id_came_back_as_a_string_is_understood() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t"))
    world.say(a, result(str(world.asked(a)[0]), {}))
    assert world.received(client) == [result(1, {})]


@pytest.mark.parametrize(
    "raw", ["0", '""', '"0"', "-1", "9223372036854775808", "9" * 4000, '"\\ud800"', "-0"]
)
def test_an_id_comes_back_as_it_was_written(raw: str) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, f'{{"id":{raw},"method":"tools/call","params":{{"name":"a:t"}}}}')
    world.answer(a, {})
    assert world.lines(client) == [PREFIX + f'"id":{raw},"result":{{}}}}']


def test_ids_1_and_string_1_are_two_ids() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t"), call("1", "a:t"))
    number, string = world.asked(a)
    world.say(a, result(string, {"to": "string"}), result(number, {"to": "number"}))
    assert world.received(client) == [
        result("1", {"to": "string"}),
        result(1, {"to": "number"}),
    ]


def test_equal_ids_of_two_clients_are_kept_apart() -> None:
    world = World({"a": ["t"]})
    one, two, a = world.client(), world.client(), world.up("a")
    world.say(one, call(0, "a:t", {"from": "one"}))
    world.say(two, call(0, "a:t", {"from": "two"}))
    first, second = world.received(a)
    assert first["id"] != second["id"]
    world.say(a, result(second["id"], "two"), result(first["id"], "one"))
    assert world.received(one) == [result(0, "one")]
    assert world.received(two) == [result(0, "two")]


def test_an_id_in_use_may_be_used_again() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    for number in range(10):
        world.say(client, call(1, "a:t", number))
    ids = [message["id"] for message in world.received(a)]
    assert len(set(ids)) == 10
    for number, identifier in enumerate(ids):
        assert world.core.owes(client)
        world.say(a, result(identifier, number))
    assert world.received(client) == [result(1, number) for number in range(10)]
    assert not world.core.owes(client)


def test_late_double_and_unknown_answers_are_dropped() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t"))
    [sent], [hello] = world.asked(a), world.asked(a, "initialize")
    world.say(a, result(sent, "right"), result(sent, "again"), result(99999, {}), result(None, {}))
    world.say(a, result(hello, {}), result(float(sent), {}), failure(sent, 1, "late"))
    world.say(a, result(True, {}))
    assert world.received(client) == [result(1, "right")]
    assert len(world.lines(a)) == 1


def test_a_call_waits_for_its_child_to_come_up() -> None:
    world = World({"a": ["t"]})
    client = world.client()
    world.say(client, call(1, "a:t", "first"), call(2, "a:t", "second"))
    assert world.lines(client) == []
    a = world.up("a")
    assert [sent["params"]["arguments"] for sent in world.received(a)] == ["first", "second"]


def test_a_slow_child_holds_up_nobody() -> None:
    world = World({"a": ["t"], "b": ["t"]})
    client, a, b = world.client(), world.up("a"), world.up("b")
    world.say(client, call(1, "a:t"))
    assert world.ask(client, request(2, "ping")) == result(2, {})
    world.say(client, call(3, "b:t"))
    world.say(b, result(world.received(b)[0]["id"], {}))
    assert world.received(client) == [result(3, {})]
    assert len(world.received(a)) == 1


def test_what_a_child_that_is_gone_said_last_is_dropped() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(ROOTS), world.up("a")
    world.say(client, call(1, "a:t"))
    world.down("a")
    assert [message.get("id") for message in world.received(client)] == [1, None]
    world.lines(a)
    world.said.clear()
    [sent] = world.asked(a)
    world.say(a, result(sent, {}), request(1, "roots/list"), "junk", TOOLS_CHANGED, progress(sent))
    assert (world.lines(client), world.lines(a), world.said) == ([], [], [])
    assert world.idle()


# --- Names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("a:none", -32601, "Tool not found: a:none"),
        ("a_none", -32601, "Tool not found: a_none"),
        ("none", -32602, "Tool name must be prefixed with server key: none"),
        ("t", -32602, "Tool name must be prefixed with server key: t; say a:t or b:t"),
        ("c:t", -32601, "Tool not found: c:t"),
        (":", -32601, "Tool not found: :"),
        ("", -32602, "Tool name must be prefixed with server key: "),
        ("\ud800:t", -32601, "Tool not found: \ud800:t"),
    ],
)
@pytest.mark.parametrize("policy", ["live", "warn", "refuse"])
def test_an_unknown_name_is_refused(name: str, code: int, message: str, policy: str) -> None:
    world = World({"a": ["t"], "b": ["t"]}, on_drift=policy)
    client, a = world.client(), world.up("a")
    world.say(client, call(1, name))
    if name.startswith("a") and policy == "live":
        assert world.lines(client) == []
        world.give_list(a)
    assert world.received(client) == [failure(1, code, message)]
    assert world.idle()


def test_a_name_that_one_server_has_is_called_by_that_name_and_never_listed() -> None:
    world = World({"a": ["t", "only"], "b": ["t", "x:y"]}, prompts={"b": ["p"]})
    client, a, b = world.client(), world.up("a"), world.up("b")
    assert world.names(client) == ["a:t", "a:only", "b:t", "b:x:y"]
    world.say(client, call(1, "only", {"n": 1}), call(2, "x:y"))
    world.say(client, request(3, "prompts/get", {"name": "p"}))
    assert [line["params"] for line in world.received(a)] == [
        {"name": "only", "arguments": {"n": 1}}
    ]
    assert [line["params"] for line in world.received(b)] == [{"name": "x:y"}, {"name": "p"}]


def test_a_name_that_two_servers_have_is_refused_in_the_spelling_of_the_client() -> None:
    world = World({"a": ["t"], "b": ["t"]}, prompts={"a": ["p"], "b": ["p"]})
    client = world.client(clientInfo={"name": "claude-ai", "version": "1"})
    message = "Tool name must be prefixed with server key: t; say a_t or b_t"
    assert world.ask(client, call(1, "t")) == failure(1, -32602, message)
    answer = world.ask(client, request(2, "prompts/get", {"name": "p"}))
    assert answer == failure(2, -32602, "Prompt not found: p; say a_p or b_p")


def test_a_hidden_tool_has_no_name_at_all() -> None:
    world = World({"a": ["t"], "b": ["t"]}, rows={"a": {"hide": ["t"]}})
    client, b = world.client(), world.up("b")
    world.say(client, call(1, "t"))
    assert [line["params"] for line in world.received(b)] == [{"name": "t"}]
    hidden = World({"a": ["t"]}, rows={"a": {"hide": ["t"]}})
    message = "Tool name must be prefixed with server key: t"
    assert hidden.ask(hidden.client(), call(1, "t")) == failure(1, -32602, message)


def test_the_name_of_a_withheld_tool_leads_to_no_other_server() -> None:
    world = World({"a": ["t"], "b": ["t"]}, on_drift="refuse")
    client, a = world.client(), world.ready("a")
    changed = [tool("t", title="changed")]
    for _ in "12":  # a difference counts when it is found twice
        [listing] = [line for line in world.received(a) if line["method"] == "tools/list"]
        world.say(a, result(listing["id"], {"tools": changed}))
        world.wait(1)
    message = "Tool name must be prefixed with server key: t; say a:t or b:t"
    assert world.ask(client, call(1, "t")) == failure(1, -32602, message)


@pytest.mark.parametrize("params", [None, [], "x", {}, {"name": None}, {"name": 5}, {"name": []}])
def test_a_call_without_a_name_is_refused(params: Any) -> None:
    world = World({"a": ["t"]})
    answer = world.ask(world.client(), request(1, "tools/call", params))
    assert (answer["id"], answer["error"]["code"]) == (1, -32602)


def test_in_bare_mode_a_tool_has_its_own_name() -> None:
    world = World({"a": ["t"], "b": ["u"]}, names="bare")
    client, b = world.client(), world.up("b")
    assert world.names(client) == ["t", "u"]
    world.say(client, call(1, "u"))
    assert world.received(b)[0]["params"]["name"] == "u"
    answer = world.ask(client, call(2, "none"))
    assert answer == failure(2, -32601, "Tool not found: none")


# --- Cancellation -----------------------------------------------------------------------------


def test_a_cancellation_reaches_the_one_child_with_the_id_that_it_knows() -> None:
    world = World({"a": ["t"], "b": ["t"]})
    client, a, b = world.client(), world.up("a"), world.up("b")
    world.say(client, call(101, "a:t"))
    [sent] = world.received(a)
    world.say(client, '{"method":"notifications/cancelled","params":{"x":1e9,"requestId":101}}')
    assert world.lines(a) == [
        PREFIX
        + f'"method":"notifications/cancelled","params":{{"x":1e9,"requestId":{sent["id"]}}}}}'
    ]
    world.say(a, failure(sent["id"], 0, "Request cancelled"), progress(sent["id"]))
    world.say(a, result(sent["id"], {}))
    assert (world.lines(b), world.lines(client)) == ([], [])
    assert world.idle()


def test_a_call_that_still_waits_is_cancelled_without_a_word() -> None:
    world = World({"a": ["t"]})
    client = world.client()
    world.say(client, call(1, "a:t"), call(2, "a:new"), cancelled(1), cancelled(2))
    a = world.up("a")
    assert (world.lines(a), world.lines(client)) == ([], [])
    assert world.idle()


@pytest.mark.parametrize("identifier", [1, "2", 2.0, True, None, [2], {}, 3])
def test_a_cancellation_of_nothing_in_flight_does_nothing(identifier: Any) -> None:
    world = World({"a": ["t"]})
    client, other, a = world.client(), world.client(), world.up("a")
    world.say(client, call(2, "a:t"))
    world.lines(a)
    world.say(client, cancelled(identifier), notification("notifications/cancelled"))
    world.say(other, cancelled(2))
    world.say(a, cancelled(world.asked(a)[0]))
    assert (world.lines(a), world.lines(client)) == ([], [])
    world.answer(a, {})
    assert world.received(client) == [result(2, {})]


def test_of_calls_with_one_id_the_latest_is_cancelled() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t"), call(1, "a:t"), cancelled(1))
    first, second, word = world.received(a)
    assert word["params"] == {"requestId": second["id"]}
    world.say(a, result(second["id"], "second"), result(first["id"], "first"))
    assert world.received(client) == [result(1, "first")]
    assert world.idle()


def test_an_id_may_be_used_again_after_its_cancellation() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(5, "a:t"), cancelled(5), call(5, "a:t"))
    first, _, second = world.received(a)
    world.say(a, result(first["id"], "late"), result(second["id"], "right"))
    assert world.received(client) == [result(5, "right")]


def test_a_child_that_dies_of_a_cancellation_fails_only_its_own_calls() -> None:
    world = World({"a": ["t"], "b": ["t"]})
    client, _, b = world.client(), world.up("a"), world.up("b")
    world.say(client, call(1, "a:t"), call(2, "a:t"), call(3, "b:t"), cancelled(1))
    world.down("a")
    world.answer(b, {})
    reason = "Server 'a' exited with status 1"
    assert world.received(client) == [
        failure(2, -32603, reason, server="a"),
        TOOLS_CHANGED,
        result(3, {}),
    ]


# --- Timeouts ---------------------------------------------------------------------------------


def test_without_a_limit_a_call_may_take_for_ever() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t"))
    [sent] = world.received(a)
    world.wait(1e6)
    assert (world.lines(a), world.lines(client)) == ([], [])
    world.say(a, result(sent["id"], {}))
    assert world.received(client) == [result(1, {})]


def test_a_call_that_takes_too_long_is_failed_once_and_withdrawn() -> None:
    world = World({"a": ["t"], "b": ["t"]}, timeout=5, rows={"b": {"timeout": 2}})
    client, a, b = world.client(), world.up("a"), world.up("b")
    world.say(client, call(1, "a:t"), call(2, "b:t"), call(3, "a:t"))
    world.lines(a), world.lines(b)
    world.answer(a, {})
    world.wait(1.9)
    assert world.received(client) == [result(3, {})]
    world.wait(0.2)
    assert world.received(client) == [failure(2, -32001, "Server 'b' did not answer in time")]
    assert world.received(b) == [cancelled(world.asked(b)[0], reason="timed out")]
    world.wait(10)
    assert world.received(client) == [failure(1, -32001, "Server 'a' did not answer in time")]
    world.say(a, result(world.asked(a)[0], "late"))
    world.say(client, call(4, "a:t"))
    world.answer(a, "fine")
    assert world.received(client) == [result(4, "fine")]
    assert world.idle()


# --- Progress ---------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["tok-1", "", 7, 0, 2**70, "3"])
def test_progress_comes_back_under_the_clients_own_token(token: Any) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t", {"k": 1}, token))
    [sent] = world.received(a)
    minted = sent["params"]["_meta"]["progressToken"]
    assert type(minted) is int
    world.say(
        a, f'{{"method":"notifications/progress","params":{{"progressToken":{minted} ,"p":1.0}}}}'
    )
    [line] = world.lines(client)
    raw = json.dumps(token)
    assert line == (
        PREFIX + f'"method":"notifications/progress","params":{{"progressToken":{raw} ,"p":1.0}}}}'
    )


def test_equal_tokens_at_two_children_do_not_meet() -> None:
    world = World({"a": ["t"], "b": ["t"]})
    one, two, a, b = world.client(), world.client(), world.up("a"), world.up("b")
    world.say(one, call(1, "a:t", None, 1))
    world.say(two, call(1, "b:t", None, "1"))
    token = world.received(a)[0]["params"]["_meta"]["progressToken"]
    assert world.received(b)[0]["params"]["_meta"]["progressToken"] == token
    world.say(a, progress(token, 0.5, total=1, message="half"))
    assert world.received(one) == [progress(1, 0.5, total=1, message="half")]
    assert world.received(two) == []
    world.say(b, progress(token))
    assert world.received(one) == []
    assert world.received(two) == [progress("1")]


def test_progress_that_nobody_asked_for_is_dropped() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t"), call(2, "a:t", None, 9))
    plain, asked = (message["id"] for message in world.received(a))
    tokens: list[Any] = [plain, 9, str(asked), float(asked), True, None, [], 77]
    for token in tokens:
        world.say(a, progress(token))
    world.say(a, notification("notifications/progress"), notification("notifications/progress", []))
    assert world.lines(client) == []
    world.say(a, result(asked, {}))
    world.lines(client)
    world.say(a, progress(asked))
    assert world.lines(client) == []


# --- Questions --------------------------------------------------------------------------------

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


# --- Notifications ----------------------------------------------------------------------------


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


# --- Errors and junk --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "identifier", "code"),
    [
        (b"garbage", None, -32700),
        (b'{"jsonrpc":"2.0",', None, -32700),
        (b'{"id":1,"method":"ping"} x', None, -32700),
        (b"\xff\xfe", None, -32700),
        (b"5", None, -32600),
        (b'"s"', None, -32600),
        (b"null", None, -32600),
        (b"[]", None, -32600),
        (b'[{"id":1,"method":"ping"}]', None, -32600),
        (b"{}", None, -32600),
        (b'{"id":3}', 3, -32600),
        (b'{"id":3,"method":5}', 3, -32600),
        (b'{"method":5}', None, -32600),
        (b'{"id":null,"method":"ping"}', None, -32600),
        (b'{"id":true,"method":"ping"}', None, -32600),
        (b'{"id":1.5,"method":"tools/call"}', None, -32600),
        (b'{"id":[],"method":"tools/list"}', None, -32600),
        (b'{"id":{},"method":"nonsense"}', None, -32600),
        (b'{"id":%s,"method":"ping"}' % (b"9" * 5000), None, -32600),
        (b'{"id":4,"method":"nonsense"}', 4, -32601),
        (b'{"id":4,"method":"server/discover"}', 4, -32601),
        (b'{"id":4,"method":"notifications/initialized"}', 4, -32601),
        (b'{"id":4,"method":"resources/list","params":{}}', 4, -32601),
        (b'{"id":5,"method":"tools/call","params":null}', 5, -32602),
        (b'{"id":5,"method":"ping","params":[]}', 5, -32602),
    ],
)
def test_a_bad_line_of_a_client_gets_one_error_and_the_session_goes_on(
    line: bytes, identifier: Any, code: int
) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    answer = world.ask(client, line)
    assert (answer["id"], answer["error"]["code"]) == (identifier, code)
    world.say(client, call("next", "a:t"))
    world.answer(a, {})
    assert world.received(client) == [result("next", {})]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" \r",
        b'{"method":"tools/call","params":{"name":"a:t"}}',
        b'{"method":"ping"}',
        b'{"id":77,"result":{}}',
        b'{"id":null,"error":{}}',
        b'{"result":{}}',
    ],
)
def test_what_asks_for_no_answer_gets_none(line: bytes) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, line)
    assert (world.lines(client), world.lines(a)) == ([], [])


def test_a_batch_is_answered_in_the_one_version_that_has_them() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(protocolVersion="2025-03-26"), world.up("a")
    world.say(client, [request(1, "ping"), 5, call(2, "a:t"), INITIALIZED])
    assert [answer["id"] for answer in world.received(client)] == [1, None]
    assert len(world.lines(a)) == 1
    assert world.ask(client, [])["error"]["code"] == -32600
    assert world.ask(client, "[1")["error"]["code"] == -32700


def test_a_batch_of_a_child_is_taken_apart() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t", None, "p"))
    [sent] = world.asked(a)
    world.say(a, [progress(sent), notification("x"), result(sent, {"n": 1})])
    assert world.received(client) == [progress("p"), notification("x"), result(1, {"n": 1})]


def test_junk_of_a_child_is_passed_over_with_one_warning() -> None:
    world = World({"a": ["t"], "b": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t"))
    for line in ("🖥️ Server mode: STDIO", "", "  ", b"\xff\xfe bad", "5", "null", '"s"', "[]"):
        world.say(a, line)
    for message in ('{"jsonrpc":"2.0"}', '{"method":5}', "[[]]"):
        world.say(a, message)
    world.say(a, '{"method":"notifications/cancelled"}')
    assert world.said == [
        "server 'a' wrote something else than JSON-RPC: \"🖥️ Server mode: STDIO\""
    ]
    world.answer(a, {})
    assert world.received(client) == [result(1, {})]
    assert world.lines(a)[1:] == []


@pytest.mark.parametrize(
    "error",
    [
        '{"code":-32042,"message":"m","data":{"u":["x"]}}',
        '{"code":123456789012345678901,"message":""}',
        '{"code":1,"message":"m","data":null,"extra":{"a":1.0}}',
        '{"message":"no code"}',
        '"text"',
        "0",
    ],
)
def test_an_error_of_a_child_stays_as_it_is(error: str) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t"))
    world.say(a, f'{{"jsonrpc":"2.0","id":{world.asked(a)[0]},"error":{error}}}')
    assert world.lines(client) == [PREFIX + f'"id":1,"error":{error}}}']


def test_a_value_that_nests_too_deep_to_be_shown_is_no_fault() -> None:
    deep = "[" * 500 + "]" * 500
    world = World({"a": ["t"]})
    client = world.client()
    world.say(
        client, f'{{"id":1,"method":"initialize","params":{{"clientInfo":{{"name":{deep}}}}}}}'
    )
    assert "result" in world.received(client)[0]
    world.say(client, f'{{"id":2,"method":"logging/setLevel","params":{{"level":{deep}}}}}')
    assert "error" in world.received(client)[0]


# --- Answers that cannot be read as they should be -----------------------------------------------


def lost_scene(count: int) -> tuple[World, Client, Child]:
    """Return a child with calls 1 … `count` of a client in flight."""
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    for number in range(1, count + 1):
        world.say(client, call(number, "a:t"))
    return world, client, a


def unusable(identifier: int, how: str) -> Json:
    return failure(identifier, -32603, f"Server 'a' gave an answer {how}", server="a")


@pytest.mark.parametrize(
    ("line", "how"),
    [
        (
            '{"jsonrpc":"2.0","id":ID,"result":{"n":',
            "that cannot be read: no JSON value at character END",
        ),
        ('{"jsonrpc":"2.0","resu', "that cannot be read: a member name is no JSON string"),
        ('{"jsonrpc":"2.0","result":{}}', "without the id of a request"),
        ('{"jsonrpc":"2.0","id":null,"result":{}}', "without the id of a request"),
        ('{"jsonrpc":"2.0","id":[ID],"result":{}}', "without the id of a request"),
    ],
)
def test_an_answer_that_cannot_be_read_ends_its_call(line: str, how: str) -> None:
    world, client, a = lost_scene(1)
    line = line.replace("ID", str(world.asked(a)[0]))
    world.say(a, line)
    assert world.received(client) == [unusable(1, how.replace("END", str(len(line))))]
    assert world.idle()


def test_what_cannot_be_read_beside_an_answer_doubles_nothing() -> None:
    world, client, a = lost_scene(1)
    half = '{"jsonrpc":"2.0","method":"notifications/message","params":[xx]}'
    answer = json.dumps(result(world.asked(a)[0], {}))
    world.say(a, f"[{answer},{','.join([half] * 20)}]")
    assert world.received(client) == [result(1, {})]
    assert len(world.said) == 1
    assert world.idle()


@pytest.mark.parametrize("identifier", ['"id":null,', ""])
def test_an_error_without_an_id_is_the_one_call_s(identifier: str) -> None:
    world, client, a = lost_scene(1)
    world.say(a, f'{{"jsonrpc":"2.0",{identifier}"error":{{"code":-32700,"message":"m"}}}}')
    assert world.received(client) == [failure(1, -32700, "m")]


@pytest.mark.parametrize("identifier", ['"ID"', "ID.0", "ID0e-1"])
def test_an_id_may_come_back_in_another_type(identifier: str) -> None:
    world, client, a = lost_scene(1)
    identifier = identifier.replace("ID", str(world.asked(a)[0]))
    world.say(a, f'{{"jsonrpc":"2.0","id":{identifier},"result":{{}}}}')
    assert world.received(client) == [result(1, {})]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        *((raw, raw) for raw in ("0", "-3", '""', '"03x"', '"٣"')),
        (f'"{"x" * 90}"', f'"{"x" * 39}'),
    ],
)
def test_an_answer_with_an_id_that_no_request_has_had_is_the_one_call_s(
    raw: str, shown: str
) -> None:
    world, client, a = lost_scene(1)
    world.say(a, f'{{"jsonrpc":"2.0","id":{raw},"result":{{}}}}')
    how = f"with the id {shown}, which no request has had"
    assert world.received(client) == [unusable(1, how)]
    world, client, a = lost_scene(1)
    world.say(a, f'{{"jsonrpc":"2.0","id":{raw},"error":{{"code":5,"message":"m"}}}}')
    assert world.received(client) == [failure(1, 5, "m")]


NOT_FOUND = '"error":{"code":-32601,"message":"Method not found"}'
NAMED = '"error":{"code":1,"message":"unknown: notifications/roots/list_changed"}'


@pytest.mark.parametrize("identifier", ["", '"id":null,', '"id":0,'])
@pytest.mark.parametrize("body", [NOT_FOUND, NAMED, '"result":{}', '"result":null'])
def test_an_answer_to_the_end_of_the_handshake_is_to_no_request(identifier: str, body: str) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.ready("a")
    world.say(a, f"{PREFIX}{identifier}{body}}}")
    assert (len(a.connection.owed()), world.said) == (1, [])
    world.give_list(a)
    assert world.idle()
    world.say(client, call(1, "a:t"))
    world.lines(a)
    world.say(a, f"{PREFIX}{identifier}{body}}}")
    assert len(world.received(client)) == (0 if body == NAMED else 1)


def test_who_answers_the_end_of_the_handshake_answers_other_notifications_too() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.ready("a")
    world.say(a, f"{PREFIX}{NOT_FOUND}}}")
    world.give_list(a)
    for number in (1, 2, 3):
        world.say(client, call(number, "a:t"))
    world.say(client, cancelled(1))
    world.say(a, result(world.asked(a)[1], {}), f"{PREFIX}{NOT_FOUND}}}")
    assert world.received(client) == [result(2, {})]
    world.say(a, f"{PREFIX}{NOT_FOUND}}}")
    assert world.received(client) == [failure(3, -32601, "Method not found")]
    assert world.idle()


def test_a_second_answer_to_nothing_ends_a_request() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.ready("a")
    world.say(a, f"{PREFIX}{NOT_FOUND}}}", f"{PREFIX}{NOT_FOUND}}}")
    assert (world.names(client), len(world.said)) == (["a:t"], 1)
    assert world.idle()


def test_a_late_answer_ends_no_other_call() -> None:
    world, client, a = lost_scene(2)
    world.say(client, cancelled(1))
    first, second = world.asked(a)
    world.say(a, result(first, {}), result(first, {}), result(99, {}))
    assert world.received(client) == []
    world.say(a, result(second, {}))
    assert world.received(client) == [result(2, {})]


@pytest.mark.parametrize(
    ("line", "how"),
    [
        (
            '{"jsonrpc":"2.0","id":null,"error":{"code":5,"message":"m"}}',
            'without the id of a request: {"code":5,"message":"m"}',
        ),
        ('{"jsonrpc":"2.0","result":{}}', "without the id of a request"),
        ('{"jsonrpc":"2.0","id":0,"result":{}}', "with the id 0, which no request has had"),
        ('{"jsonrpc":"2.0","result":?}', "that cannot be read: no JSON value at character 26"),
    ],
)
@pytest.mark.parametrize("modern", [False, True])
def test_an_answer_that_may_be_to_several_requests_ends_them_all_by_name(
    line: str, how: str, modern: bool
) -> None:
    facts: Json = {"a": {"protocol": MODERN_VERSION}} if modern else {}
    world = World({"a": ["t"], "b": ["t"]}, facts=facts)
    client, a, b = world.client(), world.up("a"), world.up("b")
    for number in (1, 2, 3):
        world.say(client, call(number, "a:t"))
    world.say(client, call(4, "b:t"))
    world.say(a, line)
    assert world.received(client) == [unusable(number, how) for number in (1, 2, 3)]
    [*_, to_b] = world.received(b)
    world.say(b, result(to_b["id"], {}))
    assert world.received(client) == [result(4, {})]
    assert world.idle()


def test_what_cannot_be_read_ends_the_one_request_whose_id_can_be_read() -> None:
    world, client, a = lost_scene(2)
    first, second = world.asked(a)
    line = f'{{"jsonrpc":"2.0","id":{second},"result":{{"n":'
    world.say(a, line)
    how = f"that cannot be read: no JSON value at character {len(line)}"
    assert world.received(client) == [unusable(2, how)]
    world.say(a, result(first, {}))
    assert world.received(client) == [result(1, {})]


def test_no_server_waits_for_answers_of_a_client_whose_input_has_ended() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(ASKABLE), world.up("a")
    world.say(client, call(1, "a:t"))
    world.say(a, request("q", "sampling/createMessage", {}))
    world.lines(a)
    world.do(world.core.end_input(client))
    assert world.received(a) == [failure("q", -32603, "The client is gone")]
    world.lines(client)
    world.say(a, request("r", "roots/list"))
    assert world.received(a) == [failure("r", -32603, "The client is gone")]
    world.answer(a, {})
    assert world.received(client) == [result(1, {})]
    assert not world.core.owes(client)


def test_a_secret_in_an_odd_line_is_hidden_before_the_line_is_cut() -> None:
    world, _, a = lost_scene(0)
    world.secrets = {"correcthorse": "${K}"}
    world.say(a, "-" * 50 + "correcthorse and more")
    assert world.said == [
        f"""server 'a' wrote something else than JSON-RPC: "{"-" * 50}${{K}} and m\""""
    ]


def test_a_request_of_a_child_that_cannot_be_read_is_refused() -> None:
    world, client, a = lost_scene(1)
    world.lines(a)
    world.say(a, '{"jsonrpc":"2.0","id":"q","method":"roots/list","params":{')
    [refusal] = world.received(a)
    assert (refusal["id"], refusal["error"]["code"]) == ("q", -32700)
    assert world.lines(client) == []


@pytest.mark.parametrize("line", ["{'jsonrpc': '2.0', 'id': 3}", '{"level":"error","error":"x"}'])
def test_a_log_line_is_no_answer(line: str) -> None:
    world, client, a = lost_scene(1)
    world.say(a, line)
    assert world.lines(client) == []


def test_a_handshake_whose_answer_cannot_be_read_fails() -> None:
    world = World({"a": ["t"]})
    client = world.client()
    world.say(client, call(1, "a:t"))
    identifier = world.born("a")
    world.say(world["a"], f'{{"jsonrpc":"2.0","id":{identifier},"result":{{')
    [(server, reason)] = world.stopped
    assert (server, "gave an answer that cannot be read" in reason) == ("a", True)


def test_a_client_may_discover_and_shake_hands_as_often_as_it_likes() -> None:
    world = World({"a": ["t"]})
    client = world.modern()
    assert (
        "supportedVersions" in world.ask(client, enveloped(request(5, "server/discover")))["result"]
    )
    info = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    for number in (1, 0):
        assert "serverInfo" in world.ask(client, request(number, "initialize", params))["result"]
    world.say(client, INITIALIZED)
    assert world.names(client) == ["a:t"]
    world.say(client, call(2, "a:t"))
    a = world.up("a")
    [asked] = world.received(a)
    world.say(a, result(asked["id"], {}))
    assert world.received(client) == [result(2, {})]


def test_a_client_that_writes_headers_gets_one_error_for_each_and_goes_on() -> None:
    world = World({"a": ["t"]})
    client = world.client()
    world.say(client, "Content-Length: 40", "\r", request(7, "ping"))
    refusal, answer = world.received(client)
    assert (refusal["id"], refusal["error"]["code"], answer) == (None, -32700, result(7, {}))


FIELD: Json = {"argument": {"name": "x", "value": ""}}
OF_PROMPT: Json = {"ref": {"type": "ref/prompt", "name": "a:p"}, **FIELD}
OF_TEMPLATE: Json = {"ref": {"type": "ref/resource", "uri": "x:{n}"}, **FIELD}


def world_of_prompts() -> tuple[World, Client, Child]:
    """Return a server with a prompt and a template."""
    able: Json = {"prompts": {}, "resources": {}}
    made: Any = {"prompts": {"a": ["p"]}, "resources": {"a": []}, "templates": {"a": ["x:{n}"]}}
    world = World({"a": []}, **made, declares={"a": {**able, "completions": {}}})
    client, a = world.client(), world.ready("a", able)
    world.lines(a)
    return world, client, a


@pytest.mark.parametrize("params", [OF_PROMPT, OF_TEMPLATE])
def test_a_server_that_knows_no_completions_has_none(params: Json) -> None:
    world, client, a = world_of_prompts()
    for code, answer in (
        (-32601, result(1, {"completion": {"values": []}})),
        (-32602, failure(1, -32602, "m")),
    ):
        world.say(client, request(1, "completion/complete", params))
        [asked] = world.received(a)
        world.say(a, failure(asked["id"], code, "m"))
        assert world.received(client) == [answer]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "a:p"}),
        ("resources/read", {"uri": "x:1"}),
        ("completion/complete", OF_PROMPT),
        ("completion/complete", OF_TEMPLATE),
    ],
)
def test_not_only_calls_can_be_cancelled(method: str, params: Json) -> None:
    world, client, a = world_of_prompts()
    world.say(client, request(9, method, params))
    [asked] = world.received(a)
    world.say(client, cancelled(9))
    assert world.received(a) == [cancelled(asked["id"])]
    world.say(a, result(asked["id"], {}))
    assert world.received(client) == []


def test_only_servers_that_log_are_told_a_level_and_none_has_to_know_it() -> None:
    world = World({"a": ["t"], "b": ["t"]}, capabilities={"logging": {}})
    client = world.client()
    a, b = world.ready("a"), world.ready("b", {"tools": {}, "logging": {}})
    world.give_list(a)
    world.give_list(b)
    assert world.ask(client, request(1, "logging/setLevel", {"level": "info"})) == result(1, {})
    [level] = world.received(b)
    world.say(b, failure(level["id"], -32601, "no"))
    assert (world.received(a), world.received(client), world.idle()) == ([], [], True)


def test_an_own_request_that_is_never_answered_is_given_up() -> None:
    world = World({"a": ["t"]}, capabilities={"logging": {}})
    client = world.client()
    a = world.ready("a", {"tools": {}, "logging": {}})
    world.give_list(a)
    world.say(client, request(1, "logging/setLevel", {"level": "info"}))
    assert not world.idle()
    world.wait(60)
    assert world.idle()


def test_a_request_that_a_server_will_not_answer_fails_alone_and_by_name() -> None:
    world, client, a = lost_scene(2)
    first, second = world.asked(a)
    world.do(world.core.request_failed(a, first, "closed the connection"))
    why = "Server 'a' closed the connection"
    assert world.received(client) == [failure(1, -32603, why, server="a")]
    world.say(a, result(second, {"n": 2}))
    assert world.received(client) == [result(2, {"n": 2})]


def test_a_server_that_has_shaken_hands_again_is_told_everything_once_more() -> None:
    world = World({"a": ["t"]}, capabilities={"logging": {}})
    client = world.client()
    a = world.ready("a", {"tools": {}, "logging": {}})
    world.give_list(a)
    world.say(client, request(1, "logging/setLevel", {"level": "info"}))
    world.received(a)
    world.do(world.core.child_renewed(a))
    level, tools = world.received(a)
    assert (level["method"], level["params"]) == ("logging/setLevel", {"level": "info"})
    assert tools["method"] == "tools/list"


# --- Requests that say more than once what they are for -------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "member"),
    [
        ("tools/call", '{"name":"secret","name":"a:t"}', "name"),
        ("tools/call", '{"name":"a:t","Name":"secret"}', "name"),
        ("tools/call", '{"n\\u0061me":"a:t","name":"a:t"}', "name"),
        ("prompts/get", '{"name":"secret","name":"a:p"}', "name"),
        ("resources/read", '{"uri":"file:///secret","uri":"file:///x"}', "uri"),
        ("resources/subscribe", '{"uri":"file:///x","URI":"file:///secret"}', "uri"),
        ("resources/unsubscribe", '{"uri":"file:///x","uri":"file:///x"}', "uri"),
        ("completion/complete", '{"ref":{"type":"ref/prompt","name":"a:p"},"ref":{}}', "ref"),
        ("completion/complete", '{"ref":{"type":"ref/prompt","name":"s","name":"a:p"}}', "name"),
        ("completion/complete", '{"ref":{"type":"ref/prompt","Type":"","name":"a:p"}}', "type"),
    ],
)
@pytest.mark.parametrize("modern", [False, True])
def test_a_request_says_once_what_it_is_for(
    method: str, params: str, member: str, modern: bool
) -> None:
    if modern and "subscribe" in method:
        return  # that revision has no such requests
    lists: Json = {"prompts": {"a": ["p"]}, "resources": {"a": ["file:///x"]}}
    world = World({"a": ["t"]}, capabilities={"completions": {}}, **lists)
    client, a = world.client(), world.up("a")
    world.lines(a)
    if modern:
        envelope = json.dumps(enveloped(request(1, "ping"))["params"]["_meta"])
        params = f'{params[:-1]},"_meta":{envelope}}}'
    world.say(client, f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}')
    fault = f"{member} stands more than once in params"
    assert world.received(client) == [failure(1, -32602, fault)]
    assert world.lines(a) == []


# --- Notifications --------------------------------------------------------------------------------


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


# --- Time limits and progress ---------------------------------------------------------------------


def test_progress_gives_a_call_its_time_anew_but_not_for_ever() -> None:
    world = World({"a": ["t"]}, timeout=2.0)
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:t", None, "p"), call(2, "a:t", None, "q"))
    for _ in range(19):
        world.wait(1)
        world.say(a, progress(world.asked(a)[0]))
    answers = [answer for answer in world.received(client) if "id" in answer]
    assert [answer["id"] for answer in answers] == [2]
    world.wait(1)
    [answer] = world.received(client)
    assert (answer["id"], answer["error"]["code"]) == (1, -32001)


# --- Large answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", ["a", "é"])
@pytest.mark.parametrize("before", ["", " "])
@pytest.mark.parametrize("modern", [False, True])
def test_a_large_result_passes_as_it_is(letter: str, before: str, modern: bool) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    asked = call("x", "a:t")
    world.say(client, enveloped(asked) if modern else asked)
    [to_a] = world.received(a)
    value = {"content": [{"type": "text", "text": letter * LARGE}], "n": 1.0}
    world.say(a, before + json.dumps(result(to_a["id"], value), ensure_ascii=False))
    [answer] = world.received(client)
    assert answer["id"] == "x"
    assert {name: answer["result"][name] for name in value} == value


# --- The table of methods -----------------------------------------------------------------------


def test_each_row_of_the_table_of_methods_is_consistent() -> None:
    kinds = {kind.name for kind in KINDS}
    for method, row in METHODS.items():
        assert row.member in ("name", "uri", "ref", ""), method
        assert (row.member == "name") == (row.kind in kinds) == bool(row.kind), method
        assert not (row.asks or row.cached or row.repeated) or row.modern, method
        assert not row.repeated or row.member in ("name", "uri"), method


@pytest.mark.parametrize("policy", ["live", "warn", "refuse"])
@pytest.mark.parametrize("modern", [False, True])
def test_a_row_is_all_that_a_method_needs_to_be_routed_by_name(
    policy: str, modern: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Method("tools", "name", "tools", cached=True)
    monkeypatch.setitem(METHODS, "scratch/run", row)
    world = World({"a": ["t"], "b": ["t"]}, on_drift=policy)
    client, b = world.client(), world.up("b")
    asked = request("x", "scratch/run", {"name": "b:t", "n": 1})
    world.say(client, enveloped(asked) if modern else asked)
    [to_b] = [line for line in world.received(b) if line["method"] == "scratch/run"]
    assert {name: to_b["params"][name] for name in ("name", "n")} == {"name": "t", "n": 1}
    world.say(b, result(to_b["id"], {"ran": True}))
    [answer] = world.received(client)
    assert (answer["id"], answer["result"]["ran"]) == ("x", True)
    assert ("ttlMs" in answer["result"]) == modern
    missing = request("y", "scratch/run", {"name": "nowhere:t"})
    assert world.ask(world.client(), missing)["error"]["code"] == -32601


def test_a_row_is_all_that_a_method_needs_to_be_routed_by_uri(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(METHODS, "scratch/see", Method("resources", "uri"))
    world = World({"a": ["t"]}, resources={"a": ["file:///x"]})
    client, a = world.client(), world.up("a")
    world.say(client, request("x", "scratch/see", {"uri": "file:///x"}))
    [to_a] = world.received(a)
    assert (to_a["method"], to_a["params"]) == ("scratch/see", {"uri": "file:///x"})


@pytest.mark.parametrize(
    ("error", "is_to_one"),
    [
        ('{"code":-1,"message":"unknown: notifications\\/initialized"}', True),
        ('{"code":-1,"message":"no","data":{"method":"notifications/cancelled"}}', True),
        ('{"code":-1,"message":"no"}', False),
        *(("[" * depth + "]" * depth, False) for depth in (500, 700)),
    ],
)
def test_an_error_that_names_a_notification_is_to_it_however_deep_it_nests(
    error: str, is_to_one: bool
) -> None:
    answer = read_message(f'{{"jsonrpc":"2.0","id":0,"error":{error}}}')
    assert AnsweredNotifications().takes(answer) == is_to_one
