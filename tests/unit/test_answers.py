"""What is answered from the file alone, and what is left to the router."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import INITIALIZED, ROOTS, Json, call, notification, plan, request, tool

from mcpagg_runtime.clients.answers import Answers, answer_line
from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.message import Message
from mcpagg_runtime.plan.plan import Plan
from mcpagg_runtime.start.greeting import LEGACY_VERSIONS, REFUSE_COLON


def served(answers: Answers, client: Client, message: Any) -> Any:
    """Return the file's answer as a value; "" and None stay."""
    line = message if isinstance(message, bytes) else json.dumps(message).encode()
    answer = answer_line(answers, client, line)
    return json.loads(answer.line()) if isinstance(answer, Message) else answer


def introduced(given: Plan, **params: Any) -> tuple[Answers, Client, Json]:
    """Let a client say `initialize`; return the file, the client and the result."""
    answers, client = Answers(given), Client(given.options.names)
    answer = served(answers, client, request(0, "initialize", params))
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 0)
    return answers, client, answer["result"]


def listed(given: Plan, **params: Any) -> list[str]:
    """Return the names that a client is listed."""
    answers, client, _ = introduced(given, **params)
    answer = served(answers, client, request(1, "tools/list", {}))
    return [entry["name"] for entry in answer["result"]["tools"]]


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
def test_a_known_version_is_spoken_as_asked(version: str) -> None:
    assert introduced(plan({}), protocolVersion=version)[2]["protocolVersion"] == version


@pytest.mark.parametrize(
    "version", ["1900-01-01", "2099-01-01", "2026-07-28", "", None, 5, ["2025-11-25"]]
)
def test_any_other_version_is_answered_with_the_newest(version: Any) -> None:
    _, _, answer = introduced(plan({}), protocolVersion=version)
    assert answer["protocolVersion"] == LEGACY_VERSIONS[0]


def test_the_introduction_declares_tools_whose_list_may_change() -> None:
    _, _, answer = introduced(plan({"s": ["t"]}))
    assert answer["capabilities"] == {"tools": {"listChanged": True}}
    assert answer["serverInfo"] == {"name": "test", "version": "1"}
    assert "instructions" not in answer


def test_instructions_are_passed_on() -> None:
    _, _, answer = introduced(plan({"s": ["t"]}, instructions={"s": 'Say "é".'}))
    assert answer["instructions"].endswith('\n\n# s\nSay "é".')


@pytest.mark.parametrize("params", ["", ',"params":null', ',"params":{}'])
def test_a_client_that_says_nothing_about_itself_is_served(params: str) -> None:
    line = f'{{"id":1,"method":"initialize"{params}}}'.encode()
    answer = served(Answers(plan({})), Client("auto"), line)
    assert answer["result"]["protocolVersion"] == LEGACY_VERSIONS[0]


@pytest.mark.parametrize("method", ["initialize", "ping", "tools/list"])
def test_params_that_are_no_object_are_refused(method: str) -> None:
    answer = served(Answers(plan({})), Client("auto"), request(1, method, [1]))
    assert answer["error"]["code"] == -32602


def test_what_the_client_declares_is_kept_as_its_own_text() -> None:
    line = (
        b'{"id":1,"method":"initialize","params":{"capabilities":{"sampling":{ "x":1e999 },'
        b'"roots":null,"experimental":{},"elicitation":{"form":{}}},"clientInfo":'
        b'{"name":"n", "version":1.0,"title":"\\ud800"}}}'
    )
    client = Client("auto")
    served(Answers(plan({})), client, line)
    assert client.capabilities == {"sampling": '{ "x":1e999 }', "elicitation": '{"form":{}}'}
    assert client.info == '{"name":"n", "version":1.0,"title":"\\ud800"}'
    assert client.name == "n"


def test_a_second_introduction_replaces_the_first() -> None:
    info = {"name": "claude-ai", "version": "1"}
    answers, client, _ = introduced(plan({}), capabilities=ROOTS, clientInfo=info)
    assert (client.spelling, list(client.capabilities)) == ("portable", ["roots"])
    served(answers, client, request(1, "initialize", {}))
    assert (client.spelling, client.capabilities, client.name) == ("exposed", {}, "")


@pytest.mark.parametrize("name", [*REFUSE_COLON, "Claude-AI", "cursor-vscode", "Cursor"])
def test_a_client_that_refuses_a_colon_is_listed_portable_names(name: str) -> None:
    info = {"name": name, "version": "1"}
    assert listed(plan({"a.b": ["t"]}), clientInfo=info) == ["a_b_t"]
    assert listed(plan({"a.b": ["t"]}, names="spec"), clientInfo=info) == ["a.b:t"]


@pytest.mark.parametrize("info", [None, 5, {}, {"name": None}, {"name": 5}, {"name": "claude"}])
def test_any_other_client_is_listed_exposed_names(info: Any) -> None:
    assert listed(plan({"a.b": ["t"]}), clientInfo=info) == ["a.b:t"]
    assert listed(plan({"a.b": ["t"]}, names="portable"), clientInfo=info) == ["a_b_t"]
    assert listed(plan({"a.b": ["t"]}, names="bare"), clientInfo=info) == ["t"]


def test_conditional_tools_are_listed_to_a_client_with_capabilities() -> None:
    given = plan({"s": ["a", "b"]}, conditional={"s": ["b"]})
    assert listed(given) == ["s:a"]
    assert listed(given, capabilities={"roots": None}) == ["s:a"]
    assert listed(given, capabilities={"experimental": {}}) == ["s:a"]
    assert listed(given, capabilities=ROOTS) == ["s:a", "s:b"]


def test_the_list_is_one_page() -> None:
    answers, client = Answers(plan({"s": [f"t{n}" for n in range(500)]})), Client("auto")
    for params in (None, {}, {"cursor": None}):
        answer = served(answers, client, request(1, "tools/list", params))
        assert len(answer["result"]["tools"]) == 500
        assert "nextCursor" not in answer["result"]
    for cursor in ("", "8", 0):
        answer = served(answers, client, request(1, "tools/list", {"cursor": cursor}))
        assert answer["error"]["code"] == -32602


@pytest.mark.parametrize("raw", ["0", '""', '"0"', "9223372036854775808", '"\\u00e9"', "-0"])
def test_an_id_is_echoed_as_it_was_written(raw: str) -> None:
    line = f'{{"jsonrpc":"2.0","id":{raw},"method":"ping"}}'.encode()
    expected = f'{{"jsonrpc":"2.0","id":{raw},"result":{{}}}}\n'
    answer = answer_line(Answers(plan({})), Client("auto"), line)
    assert isinstance(answer, Message)
    assert answer.line().decode() == expected


def test_requests_before_the_handshake_are_answered() -> None:
    answers, client = Answers(plan({"s": [tool("t")]})), Client("auto")
    assert served(answers, client, request(1, "ping"))["result"] == {}
    assert len(served(answers, client, request(2, "tools/list"))["result"]["tools"]) == 1


def test_initialized_is_noted_and_gets_no_answer() -> None:
    answers, client = Answers(plan({})), Client("auto")
    assert served(answers, client, INITIALIZED) == ""
    assert client.initialized


@pytest.mark.parametrize("line", [b"", b"  \r", b"\xef\xbb\xbf"])
def test_a_blank_line_gets_no_answer(line: bytes) -> None:
    assert answer_line(Answers(plan({})), Client("auto"), line) == ""


@pytest.mark.parametrize(
    "message",
    [
        call(1, "s:t"),
        request(1, "notifications/initialized"),
        request(None, "ping"),
        request(True, "ping"),
        notification("notifications/cancelled", {"requestId": 1}),
        {"id": 1, "result": {}},
        {"id": 3},
        [request(1, "ping")],
        b"no JSON",
        b"\xff",
    ],
)
def test_everything_else_is_left_to_the_router(message: Any) -> None:
    client = Client("auto")
    assert served(Answers(plan({"s": ["t"]})), client, message) is None
    assert not client.initialized
