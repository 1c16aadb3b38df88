"""URIs of pages and skills that two servers hand out: each is told apart by its server's name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from core import Json, World, call, enveloped, failure, notification, request, result, tool
from hypothesis import given
from hypothesis import strategies as st

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.plan.addresses import Addresses, rewritten_item, rewritten_result
from mcpagg_runtime.servers.child import Child

PAGE = "ui://w/main.html"
HAS: Json = {"tools": {}, "resources": {"subscribe": True}, "completions": {}}
DECLARED: Json = {"resources": {"subscribe": True}, "completions": {}}


def shows(uri: str) -> Json:
    """Return a tool that names a page, in both spellings."""
    return tool("show", _meta={"ui": {"resourceUri": uri, "csp": {}}, "ui/resourceUri": uri})


def apart(server: str, uri: str = PAGE) -> str:
    """Return what clients are told of in place of a server's URI."""
    scheme, _, path = uri.partition("://")
    return f"{scheme}://{server}/{path}"


def world_of(**servers: str) -> World:
    """Return a world of servers {name: the page that each lists and its tool names}."""
    return World(
        {server: [shows(uri)] for server, uri in servers.items()},
        resources={server: [uri] for server, uri in servers.items()},
        declares=dict.fromkeys(servers, HAS),
        capabilities=DECLARED,
    )


def up(world: World, *servers: str) -> list[Child]:
    """Let children come up; they have not said yet what they list."""
    return [world.ready(server, HAS) for server in servers]


def asked(world: World, child: Child) -> Json:
    """Return the one request for a client that a child was sent."""
    lines = [line for line in world.received(child) if "id" in line]
    [line] = [line for line in lines if not line["method"].endswith("/list")]
    return line


def listed(world: World, client: Client, kind: str = "resources") -> list[Json]:
    """Return what a client is listed."""
    found: list[Json] = world.ask(client, request("l", f"{kind}/list"))["result"][kind]
    return found


def pages(tools: list[Json]) -> list[str]:
    """Return the pages that tools name; both spellings name the same."""
    found = [one["_meta"]["ui"]["resourceUri"] for one in tools]
    assert found == [one["_meta"]["ui/resourceUri"] for one in tools]
    return found


def test_equal_pages_are_listed_and_named_with_their_servers() -> None:
    world = world_of(a=PAGE, b=PAGE, c="ui://c/own")
    client = world.client()
    expected = [apart("a"), apart("b"), "ui://c/own"]
    assert [one["uri"] for one in listed(world, client)] == expected
    tools = listed(world, client, "tools")
    assert pages(tools) == expected
    assert tools[0]["_meta"]["ui"]["csp"] == {}


def test_pages_of_one_server_keep_their_uris_and_their_text() -> None:
    world = world_of(a=PAGE, b="ui://b/other")
    client = world.client()
    assert pages(listed(world, client, "tools")) == [PAGE, "ui://b/other"]
    world.say(client, call(1, "b:show"))
    (b,) = up(world, "b")
    text = '{"content": [ ], "_meta":{"ui":{"resourceUri":"ui://b/other"}}}'
    world.say(b, f'{{"jsonrpc":"2.0","id":{asked(world, b)["id"]},"result":{text}}}')
    assert text in world.lines(client)[-1]


@pytest.mark.parametrize("server", ["a", "b"])
def test_a_page_is_read_at_its_own_server_by_its_own_uri(server: str) -> None:
    world = world_of(a=PAGE, b=PAGE)
    client, child = world.client(), up(world, "a", "b")["ab".index(server)]
    world.say(client, request(1, "resources/read", {"uri": apart(server)}))
    sent = asked(world, child)
    assert sent["params"] == {"uri": PAGE}
    world.say(child, result(sent["id"], {"contents": [{"uri": PAGE, "text": server}]}))
    content = {"uri": apart(server), "text": server}
    assert world.received(client) == [result(1, {"contents": [content]})]


def test_nobody_is_guessed_for_the_uri_that_both_have() -> None:
    world = world_of(a=PAGE, b=PAGE)
    client = world.client()
    say = f"Resource not found: {PAGE}; say {apart('a')} or {apart('b')}"
    answer = world.ask(client, request(1, "resources/read", {"uri": PAGE}))
    assert answer == failure(1, -32002, say, uri=PAGE)


RESULT: Json = {
    "content": [
        {"type": "resource_link", "uri": PAGE, "name": "r"},
        {"type": "resource", "resource": {"uri": PAGE, "text": "t"}},
        {"type": "text", "text": PAGE},
    ],
    "structuredContent": {"uri": PAGE},
    "_meta": {"ui": {"resourceUri": PAGE}, "ui/resourceUri": PAGE},
}


def moved(value: Any, server: str) -> Any:
    """Return RESULT as clients are told it."""
    expected, uri = json.loads(json.dumps(value)), apart(server)
    expected["content"][0]["uri"] = expected["content"][1]["resource"]["uri"] = uri
    expected["_meta"] = {"ui": {"resourceUri": uri}, "ui/resourceUri": uri}
    return expected


@pytest.mark.parametrize("escaped", [False, True])
def test_results_name_pages_as_lists_do_and_nothing_else_changes(escaped: bool) -> None:
    world = world_of(a=PAGE, b=PAGE)
    client = world.client()
    world.say(client, call(1, "b:show"))
    (b,) = up(world, "b")
    answer = json.dumps(result(asked(world, b)["id"], RESULT))
    world.say(b, answer.replace("ui://", "\\u0075i:\\/\\/") if escaped else answer)
    assert world.received(client) == [result(1, moved(RESULT, "b"))]


def test_a_server_that_names_the_page_of_another_names_its_own() -> None:
    world = world_of(a=PAGE, b="ui://b/own")
    client = world.client()
    world.say(client, call(1, "b:show"))
    a, b = up(world, "a", "b")
    world.say(b, result(asked(world, b)["id"], RESULT))
    assert world.received(client) == [result(1, moved(RESULT, "b"))]
    world.say(client, request(2, "resources/read", {"uri": apart("b")}))
    assert asked(world, b)["params"] == {"uri": PAGE}
    world.say(client, request(3, "resources/read", {"uri": PAGE}))
    assert asked(world, a)["params"] == {"uri": PAGE}


def test_of_pages_that_no_list_has_the_first_keeps_its_uri() -> None:
    world = World({"a": ["t"], "b": ["t"]}, declares={"a": HAS, "b": HAS}, capabilities=DECLARED)
    client, results = world.client(), {}
    children = dict(zip("ab", up(world, "a", "b"), strict=True))
    for name, child in children.items():
        world.say(client, call(1, f"{name}:t"))
        world.say(child, result(asked(world, child)["id"], RESULT))
        [answer] = world.received(client)
        results[name] = answer["result"]
    assert results == {"a": RESULT, "b": moved(RESULT, "b")}
    for uri, child in ((PAGE, children["a"]), (apart("b"), children["b"])):
        world.say(client, request(2, "resources/read", {"uri": uri}))
        assert asked(world, child)["params"] == {"uri": PAGE}


def test_lists_that_change_follow_the_same_rule() -> None:
    world = world_of(a=PAGE, b="ui://b/own")
    client, (_, b) = world.client(), up(world, "a", "b")
    answers = {
        "resources/list": {"resources": [{"uri": PAGE, "name": "p"}]},
        "tools/list": {"tools": [shows(PAGE)]},
        "resources/templates/list": {"resourceTemplates": []},
    }
    for _ in range(2):  # at once, and when it has settled
        for line in world.received(b):
            if line.get("method") in answers:
                world.say(b, result(line["id"], answers[line["method"]]))
        world.wait(5)
    world.lines(client)
    assert [one["uri"] for one in listed(world, client)] == [apart("a"), apart("b")]
    assert pages(listed(world, client, "tools")) == [apart("a"), apart("b")]
    world.say(client, request(1, "resources/read", {"uri": apart("b")}))
    assert asked(world, b)["params"] == {"uri": PAGE}


@pytest.mark.parametrize("modern", [False, True])
def test_who_watches_a_page_is_told_of_it_by_the_uri_that_it_knows(modern: bool) -> None:
    world = world_of(a=PAGE, b=PAGE)
    legacy, (a,) = world.client(), up(world, "a")
    client = world.modern() if modern else legacy
    if modern:
        wanted = {"notifications": {"resourceSubscriptions": [apart("a")]}}
        world.say(client, enveloped(request(1, "subscriptions/listen", wanted)))
    else:
        world.say(client, request(1, "resources/subscribe", {"uri": apart("a")}))
    sent = asked(world, a)
    assert (sent["method"], sent["params"]) == ("resources/subscribe", {"uri": PAGE})
    world.say(a, result(sent["id"], {}))
    world.lines(client)
    world.say(a, notification("notifications/resources/updated", {"uri": PAGE}))
    [exposed_uri] = world.received(client)
    assert exposed_uri["params"]["uri"] == apart("a")
    if not modern:
        world.say(client, request(2, "resources/unsubscribe", {"uri": apart("a")}))
        assert asked(world, a)["params"] == {"uri": PAGE}


def test_who_leaves_watches_no_page_any_more() -> None:
    world = world_of(a=PAGE, b=PAGE)
    client, (a,) = world.client(), up(world, "a")
    world.say(client, request(1, "resources/subscribe", {"uri": apart("a")}))
    world.say(a, result(asked(world, a)["id"], {}))
    world.leave(client)
    sent = asked(world, a)
    assert (sent["method"], sent["params"]) == ("resources/unsubscribe", {"uri": PAGE})


def test_equal_templates_are_told_apart_too() -> None:
    world = World(
        {"a": ["t"], "b": ["t"]},
        templates={"a": ["ui://{x}"], "b": ["ui://{x}"]},
        declares={"a": HAS, "b": HAS},
        capabilities=DECLARED,
    )
    client, (_, b) = world.client(), up(world, "a", "b")
    answer = world.ask(client, request("l", "resources/templates/list"))["result"]
    uris = [one["uriTemplate"] for one in answer["resourceTemplates"]]
    assert uris == ["ui://a/{x}", "ui://b/{x}"]
    world.say(client, request(1, "resources/read", {"uri": "ui://b/foo"}))
    assert asked(world, b)["params"] == {"uri": "ui://foo"}
    reference = {"ref": {"type": "ref/resource", "uri": "ui://b/{x}"}, "argument": {}}
    world.say(client, request(2, "completion/complete", reference))
    assert asked(world, b)["params"]["ref"]["uri"] == "ui://{x}"
    assert "error" in world.ask(client, request(3, "resources/read", {"uri": "ui://foo"}))


# --- Without a router -------------------------------------------------------------------------


def told_of(**handed: list[str]) -> dict[str, list[str]]:
    """Return what clients are told of in place of what servers hand out."""
    addresses = Addresses(handed)
    return {
        name: [addresses.exposed_uri(uri, name) for uri in uris] for name, uris in handed.items()
    }


def test_no_server_hands_out_what_another_ones_uri_is_told_as() -> None:
    exposed_uri = told_of(a=[PAGE], b=[PAGE], c=[apart("a"), apart("c", apart("a"))])
    assert len({uri for uris in exposed_uri.values() for uri in uris}) == 4
    assert exposed_uri["a"] == [apart("a")]
    assert exposed_uri["c"] == [apart("c", apart("a")), apart("c", apart("c", apart("a")))]
    addresses = Addresses({"a": [PAGE], "b": [PAGE], "c": [apart("a")]})
    assert addresses.own_uri(apart("a"), lambda uri: None) == ("a", PAGE)
    assert addresses.own_uri(apart("c", apart("a")), lambda uri: None) == ("c", apart("a"))


def test_a_uri_that_looks_like_another_servers_is_its_own() -> None:
    addresses = Addresses({"a": ["ui://x"], "b": ["ui://a/x"]})
    assert addresses.own_uri("ui://a/x", lambda uri: None) is None
    addresses = Addresses({"a": ["skill://s/SKILL.md"], "b": ["skill://a/s/SKILL.md"], "c": []})
    assert addresses.own_uri("skill://a/s/SKILL.md", lambda uri: None) is None


@pytest.mark.parametrize(
    ("uri", "theirs"),
    [
        ("ui://x", "ui://a/x"),
        ("ui://{x}", "ui://a/foo"),
        ("skill://s/SKILL.md", "skill://a/s/SKILL.md"),
        ("skill://s/SKILL.md", "skill://a/s/lib/SKILL.md"),
    ],
)
def test_nobody_hands_out_what_stands_for_the_page_or_skill_of_another(
    uri: str, theirs: str
) -> None:
    exposed_uri = told_of(a=[uri], b=[uri], c=[theirs])
    assert (exposed_uri["a"], exposed_uri["c"]) == ([apart("a", uri)], [apart("c", theirs)])
    exposed_uri = told_of(a=[], b=["ui://x"], c=["ui://a/x"])  # a may name it in a result
    assert exposed_uri == {"a": [], "b": ["ui://x"], "c": ["ui://c/a/x"]}


@pytest.mark.parametrize("uri", ["ui://" + "x" * 2_000, "skill://" + "/".join("x" * 40)])
def test_a_uri_beyond_all_bounds_is_one_like_any_other(uri: str) -> None:
    assert told_of(a=[uri], b=[uri]) == {"a": [uri], "b": [uri]}


def test_a_skill_goes_with_its_folder() -> None:
    skills = ["skill://s/SKILL.md"]
    addresses = Addresses({"a b": skills, "b": [*skills, "skill://t/SKILL.md"], "c": []})
    exposed_uri = addresses.exposed_uri("skill://s/lib/x.md", "a b")
    assert exposed_uri == "skill://a%20b/s/lib/x.md"
    assert addresses.exposed_uri("skill://t/x.md", "b") == "skill://t/x.md"
    for uri in ("skill://s", "skill://s/lib/x.md"):
        exposed_uri = addresses.exposed_uri(uri, "a b")
        assert addresses.own_uri(exposed_uri, lambda uri: None) == ("a b", uri)


@pytest.mark.parametrize(
    "uri", ["file:///x", "https://a/x", "UI", "ui:", "", "skill:/x", "x://ui://y"]
)
def test_other_uris_stay(uri: str) -> None:
    handed: Mapping[str, list[str]] = {"a": [uri], "b": [uri]}
    assert Addresses(handed).exposed_uri(uri, "a") == uri
    assert Addresses(handed).own_uri(uri, lambda one: None) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"content":{"uri":"ui://x"},"messages":[1],"_meta":[],"skill":1,"contents":null}',
        '{"content":[1,"ui://x",{"uri":5},{"resource":"ui://x"}],"_meta":{"ui":"ui://x"}}',
    ],
)
def test_what_has_another_shape_stays_as_it_is_written(text: str) -> None:
    assert rewritten_result(text, lambda uri: "told") == text
    assert rewritten_item("tools", text, lambda uri: "told") == text


NAMES = st.sampled_from(["a", "b", "c"])
URIS = st.builds(
    lambda scheme, path: f"{scheme}://{'/'.join(path)}",
    st.sampled_from(["ui", "skill"]),
    st.lists(st.sampled_from(["a", "b", "x", "SKILL.md"]), min_size=1, max_size=4),
)


@given(st.dictionaries(NAMES, st.sets(URIS, max_size=5), min_size=2))
def test_whatever_is_told_is_of_one_server_and_leads_back_to_it(
    handed: dict[str, set[str]],
) -> None:
    addresses = Addresses(handed)
    found: dict[str, tuple[str, str]] = {}
    for server, uris in handed.items():
        for uri in uris:
            exposed_uri = addresses.exposed_uri(uri, server)
            assert found.setdefault(exposed_uri, (server, uri)) == (server, uri)
            own_uri = addresses.own_uri(exposed_uri, lambda one: None)
            assert own_uri == ((server, uri) if exposed_uri != uri else None), exposed_uri
