"""A plan narrowed to servers that are asked for: one as itself, or several."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import ASKABLE, Json, World, call, plan, request, tool

from mcpagg_runtime.clients.profiles import narrowed
from mcpagg_runtime.plan.face import UnknownServer, served
from mcpagg_runtime.start.digest import data_digest, is_digest

PAGE = "ui://x/main"
OF_TWO: dict[str, Any] = {
    "resources": {"a": ["file:///r", PAGE], "b": ["file:///q", "file:///r", PAGE]},
    "instructions": {"a": "Of a.", "b": "Of b."},
}


def test_names_and_uris_are_its_own_also_those_that_another_server_is_asked_for() -> None:
    whole = plan({"a": ["t"], "b": ["t", "x.y"]}, **OF_TWO)
    face = served(whole, ["b"])
    assert face.routes["tools"] == {"t": ("b", "t", "t"), "x.y": ("b", "x.y", "x_y")}
    assert [*face.routes["resources"]] == ["file:///q", "file:///r", PAGE]
    assert {route[0] for route in face.routes["resources"].values()} == {"b"}
    assert (face.instructions, [*face.servers], face.name) == ("Of b.", ["b"], "b")
    assert face.whole is whole
    again = served(face, ["b"])
    assert again.routes == face.routes


def test_what_the_config_renames_and_hides_holds() -> None:
    rows = {"a": {"rename": {"t": "ours"}, "hide": ["secret"]}}
    face = served(plan({"a": ["t", "secret"]}, rows=rows), ["a"])
    assert face.routes["tools"] == {"ours": ("a", "t", "ours")}


def test_a_portable_name_is_made_only_where_one_is_refused() -> None:
    names = ["a__b", "-x", "a.b", "n" * 64, "n" * 65]
    routes = served(plan({"a": names}), ["a"]).routes["tools"]
    portable = {own: short for _, own, short in routes.values()}
    assert [portable[name] for name in names if name not in ("a.b", "n" * 65)] == [
        "a__b",
        "-x",
        "n" * 64,
    ]
    assert portable["a.b"].startswith("a_b")
    assert len(portable["n" * 65]) <= 64
    assert len(set(portable.values())) == len(names)


def test_tasks_are_not_declared_and_all_else_is() -> None:
    declared = {
        "tools": {},
        "tasks": {"list": {}},
        "experimental": {"x": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}, "com.example/x": {"y": [1.5, None]}},
    }
    face = served(plan({"a": ["t"], "b": ["t"]}, declares={"a": declared}), ["a"])
    assert json.loads(face.capabilities) == {
        "tools": {},
        "experimental": {"x": {}},
        "extensions": {"com.example/x": {"y": [1.5, None]}},
    }


def test_several_declare_what_one_of_them_does() -> None:
    declares: dict[str, Json] = {
        "a": {"tools": {}, "prompts": {}},
        "b": {"tools": {}, "resources": {"subscribe": True}},
        "c": {"tools": {}, "resources": {}, "extensions": {"com.example/x": {}}},
    }
    whole = plan({"a": ["t"], "b": ["t"], "c": ["t"]}, declares=declares, **OF_TWO)
    part = served(whole, ["c", "a", "a"])
    assert part.face == ""
    assert [*part.servers] == ["a", "c"]
    assert json.loads(part.capabilities) == {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True},
        "extensions": {"com.example/x": {}},
    }
    assert "Of a." in part.instructions
    assert "Of b." not in part.instructions
    assert [*part.routes["tools"]] == ["a:t", "c:t"]


def test_a_profile_holds_for_a_server_as_itself() -> None:
    profiles = {"few": {"a": ["t"]}, "others": {"b": ["t"]}}
    whole = plan({"a": ["t", "u"], "b": ["t"]}, profiles=profiles)
    face = served(whole, ["a"])
    assert [*narrowed(face, "few").routes["tools"]] == ["t"]
    assert narrowed(face, "few").face == "a"
    absent = narrowed(face, "others")
    assert (absent.servers, absent.capabilities) == ({}, "{}")
    assert absent.routes["tools"] == {}


def test_a_server_that_is_not_there_is_named_with_what_may_be_meant() -> None:
    whole = plan({"github": ["t"], "db": ["t"]})
    with pytest.raises(UnknownServer, match="no server 'gihub'; did you mean 'github'"):
        served(whole, ["gihub"])
    with pytest.raises(UnknownServer, match="it has github, db"):
        served(whole, ["db", "zzz"])
    whole.failed = ["gone"]
    with pytest.raises(UnknownServer, match="was left out when this was compiled"):
        served(whole, ["gone"])


@pytest.mark.parametrize("policy", ["live", "warn", "refuse"])
def test_what_it_does_not_list_it_is_asked_for_only_where_live_lists_are_served(
    policy: str,
) -> None:
    rows = {"a": {"hide": ["secret"]}}
    world = World({"a": ["t", "secret"], "b": ["t"]}, rows=rows, on_drift=policy, asked=["a"])
    client = world.client()
    a = world.up("a", ["t", "secret"])
    world.received(a)
    for number, (method, name) in enumerate(
        [("tools/call", "none"), ("tools/call", "secret"), ("prompts/list", "")], 10
    ):
        params = {"name": name} if name else None
        world.say(client, request(number, method, params))
        sent = [one for one in world.received(a) if one.get("method") == method]
        assert len(sent) == (policy == "live" and name != "secret"), (method, name)
        assert all(one.get("params") == params for one in sent)
    world.say(client, request(20, "com.example/do", {"x": 1}))
    [asked] = world.received(a)
    assert (asked["method"], asked["params"]) == ("com.example/do", {"x": 1})


def test_a_question_comes_as_the_server_wrote_it() -> None:
    world = World({"a": ["t"], "b": ["t"]}, asked=["a"])
    client = world.client(ASKABLE)
    a = world.up("a", ["t"])
    world.say(client, call(1, "t"))
    world.received(client)
    world.say(a, '{"jsonrpc":"2.0","id":7,"method":"roots/list"}')
    world.say(a, request(8, "elicitation/create", {"message": "Who?", "requestedSchema": {}}))
    roots, form = world.received(client)
    assert "params" not in roots
    assert form["params"] == {"message": "Who?", "requestedSchema": {}}


def test_a_new_tool_has_its_own_name() -> None:
    world = World({"a": ["t"], "b": ["t"]}, asked=["a"])
    client = world.client()
    a = world.up("a", ["t", "b:t", "x.y"])
    world.wait(1)
    if world.lines(a):
        world.answer(a, {"tools": [tool(n) for n in ("t", "b:t", "x.y")]}, "tools/list")
    world.received(client)
    world.say(client, request(2, "tools/list"))
    [answer] = world.received(client)
    assert [one["name"] for one in answer["result"]["tools"]] == ["t", "b:t", "x.y"]


def test_a_server_that_is_down_is_named_in_errors_as_it_is() -> None:
    world = World({"a": ["t"], "b": ["t"]}, asked=["a"])
    client = world.client()
    world.up("a", ["t"])
    world.down("a", "exited with status 1")
    world.received(client)
    world.say(client, call(2, "t"))
    [answer] = world.received(client)
    assert "exited with status 1" in answer["error"]["message"]


def test_each_table_that_is_edited_gives_another_digest() -> None:
    whole = plan({"a": ["t"], "b": ["t"]}, profiles={"p": {"a": ["t"]}}, **OF_TWO)
    tables = {**whole.tables, "config": "mcp.json"}
    digest = data_digest(tables)
    assert is_digest(digest)
    assert is_digest(digest[:23])
    for word in (digest[:22], digest.upper(), f"{digest}g", "sha256:", "0" * 32):
        assert not is_digest(word), word
    seen = {digest}
    for name, table in tables.items():
        edits: list[Any] = [f"{table} "]
        if isinstance(table, dict):
            edits = [
                {**table, server: {**lists, kind: f"{lists[kind]} "}}
                for server, lists in table.items()
                for kind in lists
            ]
        for edit in edits:
            other = data_digest({**tables, name: edit})
            if name in ("compiler", "approval"):  # a new runtime needs no review of the data
                assert other == digest
                continue
            assert other not in seen, name
            seen.add(other)
    assert len(seen) > 12
