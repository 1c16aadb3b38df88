"""Profiles and overlays while the proxy runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import Json, World, call, enveloped, plan, request, tool

from mcpagg.passes.linking.overlays import merged
from mcpagg_runtime.clients.answers import Answers
from mcpagg_runtime.clients.profiles import DEFAULT_PROFILE, choose, narrowed, profile_names
from mcpagg_runtime.lists.entries import overlaid
from mcpagg_runtime.plan.plan import Plan
from mcpagg_runtime.servers.lists import SETTLE_SECONDS

SERVERS = {"db": ["query", "drop"], "web": ["fetch"], "docs": []}
SALES = {"db": ["query"], "docs": []}


def hello(name: str | None) -> Json:
    about = {"clientInfo": {"name": name, "version": "1"}} if name is not None else {}
    return request(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, **about})


def tools_of(found: Plan) -> list[str]:
    return [name for name, route in found.routes["tools"].items() if route]


def chosen(given: Plan, message: Json | bytes) -> tuple[list[str], bool]:
    """Return the tools that a client is offered that says this first, and whether it may change."""
    line = message if isinstance(message, bytes) else json.dumps(message).encode()
    answers, again = choose(given, Answers(given), line)
    return tools_of(answers.plan), again


def listed(world: World, client: Any) -> list[Json]:
    world.say(client, request(9, "tools/list"))
    [answer] = world.received(client)
    return list(answer["result"]["tools"])


def test_what_is_outside_of_a_profile_is_neither_listed_nor_called_nor_started() -> None:
    world = World(SERVERS, profiles={"sales": SALES}, profile="sales")
    client, db, _ = world.client(), world.up("db"), world.up("docs")
    assert world.started == ["db", "docs"]
    assert [one["name"] for one in listed(world, client)] == ["db:query"]
    for name in ("web:fetch", "drop", "fetch", "db:drop", "db_drop"):
        world.say(client, call(2, name))
        if name.startswith("db"):  # which is asked whether it has one by now
            world.give_list(db)
        [answer] = world.received(client)
        assert answer["error"]["code"] in (-32601, -32602), name
    world.say(client, call(3, "db:query"))
    assert [sent["params"]["name"] for sent in world.received(db)] == ["query"]


def test_prompts_and_resources_of_other_servers_are_outside_too() -> None:
    world = World(
        SERVERS,
        profiles={"sales": SALES},
        profile="sales",
        prompts={"web": ["p"], "docs": ["q"]},
        resources={"web": ["x:1"], "docs": ["x:2"]},
    )
    client = world.client()
    world.say(client, request(1, "prompts/list"), request(2, "resources/list"))
    prompts, resources = (answer["result"] for answer in world.received(client))
    assert [one["name"] for one in prompts["prompts"]] == ["docs:q"]
    assert [one["uri"] for one in resources["resources"]] == ["x:2"]


def test_a_tool_that_is_new_is_in_no_profile() -> None:
    world = World(SERVERS, profiles={"sales": SALES}, profile="sales")
    client = world.client()
    world.up("db", ["query", "drop", "grant"])
    world.wait(SETTLE_SECONDS)
    assert [one["name"] for one in listed(world, client)] == ["db:query"]
    assert world.said == []


def test_a_variable_of_a_server_outside_is_kept_from_those_within() -> None:
    given = plan(
        SERVERS,
        rows={"web": {"env": {"K": "${TOKEN}"}}},
        profiles={"sales": SALES},
    )
    assert given.needs == ["TOKEN"]
    found = narrowed(given, "sales")
    assert found.needs == []
    assert [*found.servers] == ["db", "docs"]
    assert [*found.whole.servers] == [*SERVERS]
    assert found.profiles == ""


def test_a_name_with_the_marks_of_globs_means_itself() -> None:
    servers = {"a": ["[x]*", "x1", "[x]2"]}
    found = World(servers, profiles={"p": {"a": ["[x]*"]}}, profile="p")
    client = found.client()
    found.up("a")
    found.wait(SETTLE_SECONDS)
    assert [one["name"] for one in listed(found, client)] == ["a:[x]*"]


def test_a_client_gets_the_first_profile_for_its_name() -> None:
    given = plan(SERVERS, profiles={"cursor": SALES, "curs": {"web": ["fetch"]}})
    everything = ["db:query", "db:drop", "web:fetch"]
    assert profile_names(given) == ["cursor", "curs"]
    assert chosen(given, hello("Cursor-VSCode")) == (["db:query"], False)
    assert chosen(given, hello("cursed")) == (["web:fetch"], False)
    assert chosen(given, hello("other")) == (everything, False)
    assert chosen(given, enveloped(request(1, "server/discover"))) == (everything, False)
    for unnamed in (
        request(1, "ping"),
        request(1, "server/discover"),
        hello(None),
        b"no JSON",
        b"",
    ):
        assert chosen(given, unnamed) == (everything, True)


def test_what_nobody_chose_for_gets_the_default_profile() -> None:
    given = plan(SERVERS, profiles={DEFAULT_PROFILE: {"web": ["fetch"]}, "cursor": SALES})
    assert chosen(given, hello("cursor")) == (["db:query"], False)
    assert chosen(given, hello("other")) == (["web:fetch"], False)
    assert chosen(given, request(1, "ping")) == (["web:fetch"], True)
    assert tools_of(narrowed(given, None)) == ["web:fetch"]


def test_a_profile_has_its_own_instructions_and_the_outages_of_before() -> None:
    given = plan(SERVERS, profiles={"cursor": SALES}, instructions={"db": "D.", "web": "W."})
    before = Answers(given)
    before.outages.add("db")
    answers, _ = choose(given, before, json.dumps(hello("cursor")).encode())
    assert "# web" in given.instructions
    assert answers.plan.instructions.partition("\n\n")[2] == "# db\nD."
    assert "db" in answers.outages
    assert json.loads(answers.plan.capabilities)["tools"] == {"listChanged": True}


OVERLAY: Json = {"title": None, "description": "Ours.", "_meta": {"anthropic/alwaysLoad": True}}
OWN = tool("x", description="Theirs.", title="X", _meta={"k": 1})


def test_an_overlay_is_listed_and_what_the_server_says_is_compared() -> None:
    world = World({"a": [OWN, "y"]}, overlays={"a": {"x": OVERLAY}})
    client = world.client()
    ours = {
        "name": "a:x",
        "inputSchema": {"type": "object"},
        "description": "Ours.",
        "_meta": {"k": 1, "anthropic/alwaysLoad": True},
    }
    assert listed(world, client)[0] == ours
    world.up("a", [OWN, "y"])
    assert world.said == []
    world.say(client, request(3, "tools/list"))
    assert world.received(client)[0]["result"]["tools"][0] == ours


def test_an_overlay_stands_on_a_list_that_changed() -> None:
    world = World({"a": [OWN]}, overlays={"a": {"x": OVERLAY}})
    client, a = world.client(), world.up("a", [{**OWN, "description": "New."}, "z"])
    world.wait(SETTLE_SECONDS)
    world.answer(a, {"tools": [{**OWN, "description": "New."}, tool("z")]}, "tools/list")
    [said] = world.said
    assert "+z" in said
    assert "~x" in said
    world.received(client)
    assert [one.get("description") for one in listed(world, client)] == ["Ours.", None]


@pytest.mark.parametrize(
    ("value", "patch"),
    [
        ({"a": "b"}, {"a": "c"}),
        ({"a": "b", "c": [1, {"x": None}]}, {"b": {"x": {"y": None, "z": [1]}}, "a": None}),
        ({"a": {"b": "c", "d": 1}}, {"a": {"b": "ü", "c": None}}),
        ({"a": [1]}, {"a": {"b": 1e3}}),
        ({}, {"a": {"b": {}}}),
        ({"a": 1}, {}),
    ],
)
def test_a_patch_of_a_text_is_the_patch_of_its_value(value: Json, patch: Json) -> None:
    text = overlaid(json.dumps(value), json.dumps(patch))
    assert json.loads(text) == merged(value, patch)
    assert "\n" not in text
