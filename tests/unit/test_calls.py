"""Calls on their way through the router: ids, texts, cancellation, time limits and progress."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import (
    PREFIX,
    ROOTS,
    TOOLS_CHANGED,
    World,
    call,
    cancelled,
    enveloped,
    failure,
    notification,
    progress,
    request,
    result,
)

from mcpagg_runtime.messages.jsontext import LARGE

# --- Calls ----------------------------------------------------------------------------------


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


# --- Cancellation ---------------------------------------------------------------------------


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


# --- Timeouts -------------------------------------------------------------------------------


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


# --- Progress -------------------------------------------------------------------------------


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


# --- Time limits and progress ---------------------------------------------------------------


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


# --- Large answers --------------------------------------------------------------------------


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
