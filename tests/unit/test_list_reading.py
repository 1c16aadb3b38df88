"""When the lists of a running server are read, and page by page."""

from __future__ import annotations

from typing import Any

import pytest
from core import TOOLS_CHANGED, Json, World, call, failure, notification, request, result, tool
from drifting import drifted, pages

from mcpagg_runtime.lists.listing import MAXIMUM_PAGES
from mcpagg_runtime.messages.protocol import MODERN_VERSION, PAGES
from mcpagg_runtime.servers.lists import CALM_SECONDS, LONGEST_PAUSE_SECONDS, SETTLE_SECONDS

# --- When the list is read ------------------------------------------------------------------


def test_a_difference_counts_only_once_the_child_has_settled() -> None:
    world = World({"a": ["x", "y"]})
    client, a = world.client(), world.up("a", [])
    world.wait(SETTLE_SECONDS / 2)
    assert (world.lines(a), world.lines(client)) == ([], [])
    world.wait(SETTLE_SECONDS)
    world.give_list(a)
    assert (world.lines(client), world.said) == ([], [])
    assert world.idle()


def test_an_announcement_before_the_child_has_settled_waits_with_it() -> None:
    world = World({"a": ["x"]})
    client, a = world.client(), world.up("a", [])
    for _ in range(100):
        world.say(a, TOOLS_CHANGED)
    world.wait(SETTLE_SECONDS - 0.01)
    assert world.lines(a) == []
    world.wait(0.01)
    world.give_list(a)
    assert (world.lines(client), world.said) == ([], [])


def test_a_storm_of_announcements_costs_few_readings() -> None:
    world, client, a = drifted(["x", "y"])
    readings = 0
    for _ in range(3 * 600):  # three a second, for ten minutes
        world.say(a, TOOLS_CHANGED)
        world.wait(1 / 3)
        for message in world.received(a):
            readings += 1
            world.say(a, result(message["id"], {"tools": [tool("x"), tool("y")]}))
    assert readings < 10 + 600 / LONGEST_PAUSE_SECONDS + 10
    assert (world.lines(client), world.said) == ([], [])


def test_a_thousand_announcements_at_once_cost_two_readings() -> None:
    world, client, a = drifted(["x", "y"])
    for _ in range(1000):
        world.say(a, TOOLS_CHANGED)
    world.wait(0)
    for _ in range(1000):
        world.say(a, TOOLS_CHANGED)
    world.give_list(a)
    world.wait(1)
    world.give_list(a)
    world.wait(100)
    assert (world.lines(a), world.lines(client)) == ([], [])


def test_a_list_that_changes_at_every_reading_floods_nobody() -> None:
    world, client, a = drifted(["x", "y"])
    readings = 0
    for _ in range(6000):  # a minute
        world.say(a, TOOLS_CHANGED)
        world.wait(0.01)
        for message in world.received(a):
            readings += 1
            listed = [tool("x"), tool(f"y{readings}")]
            world.say(a, result(message["id"], {"tools": listed}))
    assert readings < 60
    assert len(world.lines(client)) == readings


def test_a_change_now_and_then_is_read_at_once() -> None:
    world, client, a = drifted(["x", "y"])
    for number in range(50):
        world.wait(CALM_SECONDS)
        world.say(a, TOOLS_CHANGED)
        world.wait(0.1)
        world.give_list(a, ["x", f"y{number}"])
        assert world.received(client) == [TOOLS_CHANGED]


def test_an_announcement_during_a_reading_causes_another_without_polling() -> None:
    world, client, a = drifted(["x", "y"])
    world.say(a, TOOLS_CHANGED)
    world.wait(0.1)
    [asked] = world.received(a)
    world.say(a, TOOLS_CHANGED)
    ticks = 0
    while world.core.alarm < world.now + 30:
        world.now = world.core.alarm
        world.do(world.core.tick())
        ticks += 1
    assert ticks <= 2
    assert world.lines(a) == []
    world.say(a, result(asked["id"], {"tools": [tool("x"), tool("y")]}))
    world.wait(0.1)
    world.give_list(a, ["x"])
    assert world.received(client) == [TOOLS_CHANGED]


def test_a_child_that_does_not_list_its_tools_keeps_its_snapshot() -> None:
    world = World({"a": ["x"]})
    client, a = world.client(), world.ready("a")
    world.say(client, call(1, "a:new"))
    [_, asked] = world.received(a)
    world.wait(59)
    assert world.lines(client) == []
    world.wait(2)
    assert world.received(client) == [failure(1, -32601, "Tool not found: a:new")]
    assert world.said == [
        "server 'a' gave no list of tools (no answer within 60 s); its snapshot stays"
    ]
    world.say(a, result(asked["id"], {"tools": []}))
    world.wait(100)
    assert world.names(client) == ["a:x"]
    assert world.idle()


ORDER = ("tools/list", "resources/templates/list", "resources/list")
"""One list of three has an error for an answer, and another one is still to come."""


@pytest.mark.parametrize("policy", ["live", "refuse"])
@pytest.mark.parametrize("is_modern", [False, True])
@pytest.mark.parametrize("is_backward", [False, True])
def test_what_is_read_one_by_one_when_compiling_is_read_at_a_start(
    policy: str, is_modern: bool, is_backward: bool
) -> None:
    facts: dict[str, Json] = {"a": {"protocol": MODERN_VERSION}} if is_modern else {}
    world = World({"a": ["x"]}, resources={"a": ["file:///r"]}, facts=facts, on_drift=policy)
    client = world.client()
    a = world.ready("a", {"tools": {}, "resources": {}})
    lists: Json = {
        "tools/list": {"tools": [tool("x")]},
        "resources/list": {"resources": [{"name": "r", "uri": "file:///r"}]},
    }
    waiting: list[Json] = []
    asked = 0
    while waiting := [*waiting, *[one for one in world.received(a) if "/list" in one["method"]]]:
        waiting.sort(key=lambda one: ORDER.index(one["method"]), reverse=is_backward)
        one = waiting.pop(0)
        asked += 1
        if one["method"] in lists:
            world.say(a, result(one["id"], lists[one["method"]]))
        else:
            world.say(a, failure(None, -32601, "Method not found"))
    assert asked < 7
    assert world.said == []
    world.say(client, call(1, "a:x"))
    world.answer(a, {"content": []})
    assert world.received(client) == [result(1, {"content": []})]
    world.wait(100)
    assert (world.said, world.idle()) == ([], True)


def test_a_call_does_not_wait_for_a_child_that_announces_changes_and_lists_nothing() -> None:
    world = World({"a": ["x"]})
    client, a = world.client(), world.ready("a")
    world.say(client, call(1, "a:new"))
    world.say(a, {"method": TOOLS_CHANGED["method"]})
    world.lines(a)
    world.wait(61)
    assert world.received(client) == [failure(1, -32601, "Tool not found: a:new")]
    assert [message["method"] for message in world.received(a)] == ["tools/list"]


def test_a_call_that_was_taken_back_has_no_list_compared_before_its_time() -> None:
    world = World({"a": ["x"]})
    client, a = world.client(), world.ready("a")
    world.say(client, call(1, "a:new"))
    world.say(client, notification("notifications/cancelled", {"requestId": 1}))
    world.give_list(a, ["x", "new"])
    assert (world.lines(client), world.said) == ([], [])
    world.wait(SETTLE_SECONDS)
    world.give_list(a, ["x", "new"])
    assert world.received(client) == [TOOLS_CHANGED]


@pytest.mark.parametrize(
    "answer",
    [
        '"error":{"code":-32601,"message":"m"}',
        '"result":{}',
        '"result":{"tools":null}',
        '"result":{"tools":{}}',
        '"result":[]',
        '"result":null',
        '"x":1',
    ],
)
def test_a_list_that_cannot_be_read_leaves_the_snapshot(answer: str) -> None:
    world = World({"a": ["x"]})
    client, a = world.client(), world.ready("a")
    world.say(client, call(1, "a:new"))
    world.lines(a)
    [asked] = world.asked(a, "tools/list")
    world.say(a, f'{{"id":{asked},{answer}}}')
    assert world.received(client) == [failure(1, -32601, "Tool not found: a:new")]
    [said] = world.said
    assert said.startswith("server 'a' gave no list of tools (")
    assert world.names(client) == ["a:x"]


# --- Pages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cursor", ["8", "", "\ud800"])
def test_all_pages_are_read_and_an_empty_cursor_is_one(cursor: str) -> None:
    world = World({"a": ["x", "y"]})
    client, a = world.client(), world.ready("a")
    assert pages(world, a, [(["x"], cursor), (["y"], None)]) == [None, cursor]
    assert (world.lines(a), world.lines(client), world.said) == ([], [], [])
    assert world.idle()


@pytest.mark.parametrize("cursor", ["x", ""])
def test_a_cursor_that_does_not_advance_ends_the_list(cursor: str) -> None:
    world = World({"a": ["x", "y"]})
    client, a = world.client(), world.ready("a")
    pages(world, a, [(["x", "y"], cursor), (["x", "y"], cursor)])
    world.wait(10)
    assert (world.lines(a), world.lines(client)) == ([], [])
    assert world.said == [
        f"server 'a' repeats the cursor {cursor!r} in tools/list; the list ends there"
    ]
    assert world.idle()


@pytest.mark.parametrize("cursor", [None, 5, [], {}, False])
def test_a_cursor_that_is_no_string_is_none(cursor: Any) -> None:
    world = World({"a": ["x"]})
    world.client()
    a = world.ready("a")
    assert pages(world, a, [(["x"], cursor)]) == [None]
    assert world.idle()


def test_a_list_without_end_is_cut() -> None:
    world = World({"a": ["x"]})
    world.client()
    a = world.ready("a")
    pages(world, a, [(["x"], str(number)) for number in range(MAXIMUM_PAGES + 1)])
    assert world.idle()


def test_each_page_may_take_the_time_of_a_start() -> None:
    world = World({"a": ["x", "y"]})
    world.client()
    a = world.ready("a")
    for listed in ((["x"], "1"), (["y"], None)):
        world.wait(59)
        pages(world, a, [listed])
    assert (world.said, world.stopped) == ([], [])
    assert world.idle()


@pytest.mark.parametrize("policy", ["live", "warn", "refuse"])
def test_a_prompt_that_changed_leaves_the_tool_of_its_name_alone(policy: str) -> None:
    world = World({"a": ["x"]}, prompts={"a": ["x"]}, on_drift=policy)
    client, a = world.client(), world.ready("a", {"tools": {}, "prompts": {}})
    world.say(client, call(1, "a:x"), request(2, "prompts/get", {"name": "a:x"}))
    for _ in range(2):
        for asked in world.received(a):
            if asked["method"] == "tools/list":
                world.say(a, result(asked["id"], {"tools": [tool("x")]}))
            elif asked["method"] == "prompts/list":
                world.say(a, result(asked["id"], {"prompts": [{"name": "x", "arguments": []}]}))
            elif asked["method"] in ("tools/call", "prompts/get"):
                world.say(a, result(asked["id"], {"served": asked["method"]}))
        world.wait(SETTLE_SECONDS)
    for asked in world.received(a):
        world.say(a, result(asked["id"], {"served": asked["method"]}))
    answers = {m["id"]: m for m in world.received(client) if "id" in m}
    assert answers[1] == result(1, {"served": "tools/call"})
    reason = "Server 'a' has a prompt 'x' that changed since this proxy was compiled"
    if policy == "refuse":
        assert answers[2] == failure(2, -32603, reason, server="a")
    else:
        assert answers[2] == result(2, {"served": "prompts/get"})
    assert world.idle()


@pytest.mark.parametrize("policy", ["live", "warn", "refuse"])
def test_a_resource_that_another_server_is_asked_for_is_no_difference(policy: str) -> None:
    has: Json = {"tools": {}, "resources": {}}
    known: dict[str, Any] = {"resources": {"a": ["x://y"]}, "declares": {"a": has, "b": has}}
    world = World({"a": [], "b": []}, on_drift=policy, **known)
    client = world.client()
    resources = {"resources": [{"uri": "x://y", "name": "r"}]}
    lists: Json = {
        "tools/list": {"tools": []},
        "resources/templates/list": {"resourceTemplates": []},
    }
    a, b = world.ready("a", has), world.ready("b", has)
    for server in (a, b, a, b):
        for asked in [one for one in world.received(server) if "id" in one]:
            world.say(server, result(asked["id"], lists.get(asked["method"], resources)))
        world.wait(SETTLE_SECONDS)
    assert world.said == []
    listed = world.ask(client, request(1, "resources/list"))["result"]["resources"]
    assert [one["uri"] for one in listed] == ["x://y"]
    assert world.idle()


# --- Pages of tools -------------------------------------------------------------------------


SHOWS: Json = {"extensions": {PAGES: {"mimeTypes": ["text/html;profile=mcp-app"]}}}
WITH_PAGE = tool("show", _meta={"ui": {"resourceUri": "ui://a/page"}})
FOR_PAGES = tool("click", _meta={"ui": {"visibility": ["app"]}})


def listed_to(
    capabilities: Json | None, listed: list[Json], policy: str
) -> tuple[World, list[str]]:
    """Return the world of a client whose child lists these tools to it, and what it is listed."""
    world = World({"a": [WITH_PAGE, FOR_PAGES], "b": ["z"]}, on_drift=policy)
    client, a = world.client(capabilities), world.up("a", listed)
    world.wait(SETTLE_SECONDS)
    for line in world.received(a):
        world.say(a, result(line["id"], {"tools": listed}))
    return world, world.names(client)


@pytest.mark.parametrize("policy", ["live", "warn", "refuse"])
@pytest.mark.parametrize("capabilities", [None, {"elicitation": {}}, SHOWS])
def test_a_server_that_lists_pages_to_all_clients_does_not_drift(
    capabilities: Json | None, policy: str
) -> None:
    world, names = listed_to(capabilities, [WITH_PAGE, FOR_PAGES], policy)
    assert (world.said, names) == ([], ["a:show", "a:click", "b:z"])


@pytest.mark.parametrize("capabilities", [None, {"elicitation": {}}])
def test_a_server_that_lists_no_pages_to_who_shows_none_does_not_drift(
    capabilities: Json | None,
) -> None:
    for policy in ("live", "warn", "refuse"):
        world, names = listed_to(capabilities, [tool("show")], policy)
        clicks = [] if policy == "live" else ["a:click"]
        assert (world.said, names) == ([], ["a:show", *clicks, "b:z"])
        assert world["a"].lists["tools"].withheld.reasons == {}


def test_without_its_page_a_tool_may_differ_in_nothing_else() -> None:
    world, _ = listed_to(None, [tool("show", title="new")], "warn")
    assert ": ~show(" in world.said[0]


def test_a_client_that_shows_pages_is_to_get_them() -> None:
    world, _ = listed_to(SHOWS, [tool("show")], "warn")
    assert "-click ~show(other)" in world.said[0]


def test_a_tool_for_pages_is_listed_as_it_is_and_called() -> None:
    world = World({"a": [FOR_PAGES]})
    client, a = world.client(), world.up("a")
    [listed] = world.ask(client, request(1, "tools/list"))["result"]["tools"]
    assert listed == {**FOR_PAGES, "name": "a:click"}
    world.say(client, call(2, "a:click"))
    assert [line["params"] for line in world.received(a)] == [{"name": "click"}]


def test_a_new_tool_takes_no_name_that_looks_like_another_servers() -> None:
    world = World({"a": ["t"], "a_b": ["t"], "a:b": ["t"]})
    client, listed = world.client(), ["t", "b_hid", "b:evil", "mine"]
    a = world.up("a", listed)
    world.wait(SETTLE_SECONDS)
    world.give_list(a, listed)
    tools = world.router.answers.catalogues["tools"]
    names = {item.original: (item.exposed, item.portable) for item in tools.served("a")}
    assert names["mine"] == ("a:mine", "a_mine")
    assert names["b_hid"][0] == "a:b_hid"
    assert names["b_hid"][1].startswith("a_b_hid_")
    assert names["b:evil"][0] == names["b:evil"][1] != "a_b_evil"
    assert tools.find("a_b_hid") is None
    assert tools.find("a:b:evil") is None
    assert "a:b_hid" in world.names(client)


def test_the_line_about_a_difference_is_bounded() -> None:
    world = World({"a": ["t"]})
    world.client()
    listed = ["t", "x" * 1000, *[f"n{number}" for number in range(100)]]
    a = world.up("a", listed)
    world.wait(SETTLE_SECONDS)
    world.give_list(a, listed)
    [line] = world.said
    assert "+n18 and 81 more; its live list" in line
    assert len(line) < 500
