"""Resources that no list has: who is asked for them, and what is said of those that are watched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import (
    Json,
    World,
    call,
    enveloped,
    failure,
    notification,
    request,
    result,
    tool,
)

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.lists import uris
from mcpagg_runtime.lists.uris import UriOwners
from mcpagg_runtime.messages.message import read_message
from mcpagg_runtime.plan.addresses import Addresses
from mcpagg_runtime.servers.child import Child

HAS: Json = {"tools": {}, "resources": {"subscribe": True}, "completions": {}}
DECLARED: Json = {"resources": {"subscribe": True}, "completions": {}}
URI = "job://result/42"
NOT_FOUND = failure(1, -32002, f"Resource not found: {URI}", uri=URI)
UPDATED = "notifications/resources/updated"


def world_of(*servers: str, kind: type[World] = World, **choices: Any) -> World:
    """Return a world whose servers all have resources, and list none."""
    choices.setdefault("capabilities", DECLARED)
    declares = dict.fromkeys(servers, HAS)
    return kind({server: ["mk"] for server in servers}, declares=declares, **choices)


def up(world: World, server: str) -> Child:
    """Let a child come up; it has not said yet what it lists."""
    return world.ready(server, HAS)


def requests(world: World, child: Child) -> list[Json]:
    """Return what a child was sent for clients."""
    lines = [line for line in world.received(child) if "id" in line]
    return [line for line in lines if not line["method"].endswith("/list")]


def asked(world: World, child: Child) -> Json:
    """Return the one request for a client that a child was sent."""
    [line] = requests(world, child)
    return line


def about(identifier: Any, method: str, uri: str = URI) -> Json:
    """Return a request about a resource."""
    return request(identifier, f"resources/{method}", {"uri": uri})


def refuse(world: World, child: Child, code: int = -32002, message: str = "no") -> None:
    """Let a child answer its one request with an error."""
    world.say(child, failure(asked(world, child)["id"], code, message))


# --- Who is asked -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["read", "subscribe", "unsubscribe"])
def test_every_server_with_resources_is_asked_in_turn_until_one_knows_it(method: str) -> None:
    world = world_of("a", "b", "c")
    client, a, b, c = world.client(), up(world, "a"), up(world, "b"), up(world, "c")
    world.say(client, about(1, method))
    refuse(world, a, -32602)
    sent = asked(world, b)
    assert (sent["method"], sent["params"]) == (f"resources/{method}", {"uri": URI})
    world.say(b, result(sent["id"], {"n": 1}))
    assert world.received(client) == [result(1, {"n": 1})]
    assert requests(world, c) == []
    assert not world.core.owes(client)


def test_who_has_no_resources_is_not_asked() -> None:
    world = World({"a": ["t"], "b": ["t"]}, declares={"a": {}, "b": HAS}, capabilities=DECLARED)
    client = world.client()
    world.say(client, about(1, "read"))
    assert requests(world, world["a"]) == []
    asked(world, up(world, "b"))


def test_whose_template_fits_is_asked_first_and_the_others_after_it() -> None:
    world = world_of("a", "b", templates={"b": ["job://result/{n}"]})
    client, a, b = world.client(), up(world, "a"), up(world, "b")
    world.say(client, about(1, "read"))
    assert requests(world, a) == []
    refuse(world, b)
    world.say(a, result(asked(world, a)["id"], {"contents": []}))
    assert world.received(client) == [result(1, {"contents": []})]


@pytest.mark.parametrize(
    "given",
    [
        {"content": [{"type": "text"}, {"type": "resource_link", "uri": URI}]},
        {"content": [{"type": "resource", "resource": {"uri": URI, "text": ""}}]},
        {"messages": [{"role": "user", "content": {"type": "resource_link", "uri": URI}}]},
        {"messages": [{"content": {"type": "resource", "resource": {"uri": URI}}}]},
        {"contents": [{"uri": URI, "text": ""}]},
    ],
)
def test_who_handed_a_uri_out_is_asked_first(given: Json) -> None:
    world = world_of("a", "b")
    client, a, b = world.client(), up(world, "a"), up(world, "b")
    world.say(client, call(1, "b:mk"))
    world.say(b, result(asked(world, b)["id"], given))
    assert world.received(client) == [result(1, given)]
    world.say(client, about(2, "subscribe"))
    world.say(b, result(asked(world, b)["id"], {}))
    assert world.received(client) == [result(2, {})]
    assert requests(world, a) == []


def test_a_page_is_read_at_the_server_whose_tool_names_it() -> None:
    page = tool("show", _meta={"ui": {"resourceUri": "ui://b/page"}})
    world = World({"a": ["t"], "b": [page]}, declares={"a": HAS, "b": HAS}, capabilities=DECLARED)
    client, a, b = world.client(), up(world, "a"), up(world, "b")
    world.say(client, about(1, "read", "ui://b/page"))
    assert asked(world, b)["params"] == {"uri": "ui://b/page"}
    assert requests(world, a) == []


def test_a_resource_that_is_listed_is_its_servers_alone() -> None:
    world = world_of("a", "b", resources={"b": [URI]})
    client, _, b = world.client(), up(world, "a"), up(world, "b")
    world.say(client, about(1, "read"))
    refuse(world, b)
    assert world.received(client) == [failure(1, -32002, "no")]


def test_without_anybody_to_ask_there_is_no_such_resource() -> None:
    world = World({"a": ["t"]}, capabilities=DECLARED)
    client = world.client()
    world.ready("a", {"tools": {}})
    assert world.ask(client, about(1, "read")) == NOT_FOUND


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((-32002, "unknown"), (-32602, "no"), (-32002, "unknown")),
        ((-32603, "database is down"), (-32002, "no"), (-32603, "database is down")),
        ((-32002, "no"), (-32603, "database is down"), (-32603, "database is down")),
        ((0, "Unknown resource"), (-32601, "no"), (0, "Unknown resource")),
    ],
)
def test_the_error_that_says_most_is_the_answer(first: Any, second: Any, expected: Any) -> None:
    world = world_of("a", "b")
    client, a, b = world.client(), up(world, "a"), up(world, "b")
    world.say(client, about(1, "read"))
    refuse(world, a, *first)
    refuse(world, b, *second)
    assert world.received(client) == [failure(1, *expected)]
    assert not world.core.owes(client)


def test_a_server_that_dies_over_it_is_passed_over() -> None:
    world = world_of("a", "b")
    client, _, b = world.client(), up(world, "a"), up(world, "b")
    world.say(client, about(1, "read"))
    world.down("a")
    world.lines(client)
    world.say(b, result(asked(world, b)["id"], {"contents": []}))
    assert world.received(client) == [result(1, {"contents": []})]


def test_who_is_down_is_asked_last_and_named() -> None:
    world = world_of("a", "b")
    client, _, b = world.client(), up(world, "a"), up(world, "b")
    world.down("a", "was lost")
    world.lines(client)
    world.say(client, about(1, "read"))
    refuse(world, b)
    assert world.received(client) == [failure(1, -32603, "Server 'a' was lost", server="a")]


@pytest.mark.parametrize("uri", [URI, "job://result/{n}"])
def test_completion_for_a_resource_that_is_not_listed_is_asked_of_who_may_have_it(uri: str) -> None:
    world = world_of("a", "b", templates={"b": ["job://result/{n}"]})
    client, _, b = world.client(), up(world, "a"), up(world, "b")
    params = {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "n", "value": ""}}
    world.say(client, request(1, "completion/complete", params))
    assert asked(world, b)["params"] == params


def test_a_client_without_a_handshake_reads_what_is_not_listed_too() -> None:
    world = world_of("a", "b", kind=World)
    assert isinstance(world, World)
    client = world.modern()
    world.say(client, enveloped(about(1, "read")))
    a, b = up(world, "a"), up(world, "b")
    refuse(world, a)
    world.say(b, result(asked(world, b)["id"], {"contents": []}))
    [answer] = world.received(client)
    assert answer["result"]["contents"] == []


def test_only_so_many_uris_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uris, "MAXIMUM_URIS", 2)
    known = UriOwners(True, lambda: Addresses({}))
    for uri in ("x:1", "x:2", "x:1", "x:3", "x:" + "4" * 10_000):
        known.add(uri, "a")
    assert [known.of(f"x:{number}") for number in "123"] == ["a", None, "a"]
    assert known.of("x:" + "4" * 10_000) is None


@pytest.mark.parametrize("odd", [None, 5, [], {"content": 5}, {"content": [5, {"uri": 5}]}, "x"])
def test_a_result_of_any_shape_names_nothing(odd: Any) -> None:
    known = UriOwners(True, lambda: Addresses({}))
    for said in (odd, {"messages": [{"content": odd}, odd], "contents": odd, "uri": 1}):
        known.note_result(read_message(json.dumps(result(1, said))), "a")
    assert known.of("x") is None


# --- What is watched --------------------------------------------------------------------------


def watching(*uris: str) -> tuple[World, Client, Child]:
    """Return a world whose client watches these resources of its child."""
    world = world_of("a")
    client, a = world.client(), up(world, "a")
    for uri in uris:
        world.say(client, about(uri, "subscribe", uri))
        world.say(a, result(asked(world, a)["id"], {}))
    world.lines(client)
    return world, client, a


@pytest.mark.parametrize(
    ("watched", "updated", "expected"),
    [
        ("dir://p/", "dir://p/a.txt", True),
        ("dir://p/", "dir://p/", True),
        ("dir://p", "dir://p/a.txt", True),
        ("dir://p", "dir://p?page=2", True),
        ("dir://p", "dir://p#part", True),
        ("dir://p", "dir://pq", False),
        ("dir://p/", "dir://p", False),
        ("dir://p", "dir://q", False),
    ],
)
def test_news_of_what_lies_in_a_watched_resource_pass(
    watched: str, updated: str, expected: bool
) -> None:
    world, client, a = watching(watched)
    news = notification(UPDATED, {"uri": updated})
    world.say(a, news)
    assert world.received(client) == [news] * expected


def test_what_its_server_refuses_to_watch_is_not_watched() -> None:
    world = world_of("a", "b")
    client, a, b = world.client(), up(world, "a"), up(world, "b")
    world.say(client, about(1, "subscribe"))
    refuse(world, a, -32601, "Method not found")
    refuse(world, b, -32601, "Method not found")
    assert world.received(client) == [failure(1, -32601, "Method not found")]
    world.say(a, notification(UPDATED, {"uri": URI}))
    assert world.lines(client) == []
    world.do(world.core.disconnect(client))
    assert requests(world, a) + requests(world, b) == []


def test_who_does_not_tell_of_resources_is_not_asked_to() -> None:
    declares: Json = {"a": {"resources": {}}, "b": HAS}
    world = World({"a": ["t"], "b": ["t"]}, declares=declares, capabilities=DECLARED)
    client, a = world.client(), world.ready("a", {"resources": {}})
    b = up(world, "b")
    world.say(client, about(1, "subscribe"))
    assert requests(world, a) == []
    assert asked(world, b)["method"] == "resources/subscribe"


def test_a_server_that_starts_anew_is_asked_for_what_it_told_of_before() -> None:
    world = world_of("a", "b", restart="on-call")
    client, _, b = world.client(), up(world, "a"), up(world, "b")
    world.say(client, call(1, "b:mk"))
    given = {"content": [{"type": "resource_link", "uri": URI}]}
    world.say(b, result(asked(world, b)["id"], given))
    world.say(client, about(2, "subscribe"))
    world.say(b, result(asked(world, b)["id"], {}))
    world.down("b")
    world.started.clear()
    world.wait(60)
    world.say(client, call(3, "b:mk"))
    b = world.ready("b", HAS)
    sent = [line["params"] for line in world.received(b) if line["method"].endswith("subscribe")]
    assert sent == [{"uri": URI}]


def test_a_subscription_of_a_server_that_is_gone_can_be_ended() -> None:
    world, client, a = watching(URI)
    world.down("a")
    world.lines(client)
    assert world.ask(client, about(1, "unsubscribe")) == result(1, {})
    assert requests(world, a) == []


def test_only_who_tells_of_a_resource_is_kept_awake() -> None:
    world = world_of("a", "b", idle_stop=30)
    client, a, b = world.client(), world.ready("a", HAS), world.ready("b", HAS)
    for child in (a, b):
        for line in world.received(child):
            if line["method"].endswith("/list"):
                members = {"tools": [tool("mk")], "resources": [], "resourceTemplates": []}
                world.say(child, result(line["id"], members))
    world.say(client, about(1, "subscribe"))
    world.say(a, result(asked(world, a)["id"], {}))
    world.wait(100)
    assert world.asleep == ["b"]


def test_under_refuse_nobody_is_asked_for_what_may_be_withheld_under_another_name() -> None:
    world = world_of("a", "b", on_drift="refuse")
    client = world.client()
    up(world, "a"), up(world, "b")
    assert world.router.resources.owners("FILE:///a.txt") == []
    assert world.ask(client, about(1, "read"))["error"]["code"] == -32002


# --- Skills under refuse ----------------------------------------------------------------------

SKILLS: Json = {"io.modelcontextprotocol/skills": {"directoryRead": True}}
KEPT, CHANGED, INNER = (f"skill://{name}/SKILL.md" for name in ("kept", "new", "new/inner"))


def guarded() -> tuple[World, Client, Child]:
    """Return a world under `refuse`, where one of the skills of a server has changed."""
    able = {"resources": {}, "extensions": SKILLS}
    world = World(
        {"a": [], "b": ["t"]},
        skills={"a": [KEPT, CHANGED, INNER]},
        declares={"a": able, "b": {}},
        capabilities=able,
        on_drift="refuse",
    )
    client, a = world.client(), world.ready("a", able)
    skills = [{"uri": KEPT}, {"uri": CHANGED, "x": 1}, {"uri": INNER}]
    lists = {"resources": [], "resourceTemplates": [], "skills": skills}
    members = {"resources/list": "resources", "skills/list": "skills"}
    for _ in range(2):
        for line in world.received(a):
            if "id" in line:
                member = members.get(line["method"], "resourceTemplates")
                world.say(a, result(line["id"], {member: lists[member]}))
        world.wait(1)
    world.lines(a)
    world.lines(client)
    return world, client, a


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("skills/get", KEPT),
        ("resources/read", KEPT),
        ("resources/read", "skill://kept/lib/a.md"),
        ("resources/directory/read", "skill://kept"),
        ("resources/read", "skill://new/inner/a.md"),
    ],
)
def test_a_skill_that_is_unchanged_is_read_under_refuse(method: str, uri: str) -> None:
    world, client, a = guarded()
    world.say(client, request(1, method, {"uri": uri}))
    assert asked(world, a)["params"] == {"uri": uri}


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("skills/get", CHANGED),
        ("resources/read", CHANGED),
        ("resources/read", "skill://new/lib/a.md"),
        ("resources/subscribe", "skill://new/a.md"),
        ("resources/directory/read", "skill://new"),
        ("resources/directory/read", "skill://new/lib"),
    ],
)
def test_a_skill_that_is_withheld_is_withheld_with_its_folder(method: str, uri: str) -> None:
    world, client, a = guarded()
    answer = world.ask(client, request(1, method, {"uri": uri}))
    assert "that changed since this proxy was compiled" in answer["error"]["message"]
    assert requests(world, a) == []


@pytest.mark.parametrize("method", ["skills/get", "resources/read", "resources/directory/read"])
def test_a_skill_that_is_withheld_is_asked_for_by_no_other_spelling(method: str) -> None:
    world, client, a = guarded()
    for uri in ("skill://%6eew/SKILL.md", "SKILL://new/SKILL.md", "skill://", "skill://a/new/x"):
        assert "error" in world.ask(client, request(1, method, {"uri": uri}))
    assert requests(world, a) == []
