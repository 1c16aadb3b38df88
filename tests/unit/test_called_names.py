"""By which names a tool or a prompt may be asked for, and what says so twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import Json, World, call, enveloped, failure, request, result, tool

# --- Names ----------------------------------------------------------------------------------


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


# --- Requests that say more than once what they are for -------------------------------------


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
