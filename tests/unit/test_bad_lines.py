"""Lines of clients and servers that are no good messages, and answers without an id of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import (
    ASKABLE,
    INITIALIZED,
    PREFIX,
    Json,
    World,
    call,
    cancelled,
    failure,
    notification,
    progress,
    request,
    result,
)

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.protocol import MODERN_VERSION
from mcpagg_runtime.servers.child import Child

# --- Errors and junk ------------------------------------------------------------------------


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


# --- Answers that cannot be read as they should be ------------------------------------------


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


def test_a_client_that_writes_headers_gets_one_error_for_each_and_goes_on() -> None:
    world = World({"a": ["t"]})
    client = world.client()
    world.say(client, "Content-Length: 40", "\r", request(7, "ping"))
    refusal, answer = world.received(client)
    assert (refusal["id"], refusal["error"]["code"], answer) == (None, -32700, result(7, {}))


def test_a_request_that_a_server_will_not_answer_fails_alone_and_by_name() -> None:
    world, client, a = lost_scene(2)
    first, second = world.asked(a)
    world.do(world.core.request_failed(a, first, "closed the connection"))
    why = "Server 'a' closed the connection"
    assert world.received(client) == [failure(1, -32603, why, server="a")]
    world.say(a, result(second, {"n": 2}))
    assert world.received(client) == [result(2, {"n": 2})]
