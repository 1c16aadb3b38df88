"""The table of methods, and those that are neither calls nor lists."""

from __future__ import annotations

from typing import Any

import pytest
from core import INITIALIZED, Json, World, call, cancelled, enveloped, failure, request, result

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.lists.catalogue import KINDS
from mcpagg_runtime.messages.message import read_message
from mcpagg_runtime.messages.protocol import METHODS, Method
from mcpagg_runtime.servers.child import Child
from mcpagg_runtime.servers.unmatched import AnsweredNotifications

# --- Neither calls nor lists ----------------------------------------------------------------


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


# --- The table of methods -------------------------------------------------------------------


def test_each_row_of_the_table_of_methods_is_consistent() -> None:
    kinds = {kind.name for kind in KINDS}
    for method, row in METHODS.items():
        assert row.member in ("name", "uri", "ref", ""), method
        assert (row.member == "name") == (row.kind in kinds) == bool(row.kind), method
        assert not (row.asks or row.cached or row.repeated) or row.modern, method
        assert not row.repeated or row.member in ("name", "uri"), method
        assert not row.member or {*row.lists} <= kinds, method


def test_a_row_by_uri_is_refused_for_what_is_withheld_of_any_list() -> None:
    assert Method("resources", "uri").lists == ("resources", "templates", "skills")


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
