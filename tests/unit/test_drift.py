"""What follows from a child that does not list what its snapshot says."""

from __future__ import annotations

import json

import pytest
from core import ROOTS, TOOLS_CHANGED, Json, World, call, failure, request, result, tool
from drifting import drifted, pages

from mcpagg_runtime.servers.lists import CALM_SECONDS, PATIENCE_SECONDS, SETTLE_SECONDS

READONLY = {"annotations": {"destructiveHint": False}}


# --- The policies ---------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["live", "warn", "refuse"])
@pytest.mark.parametrize("listed", [["x", "y"], ["y", "x"]])
def test_where_nothing_differs_nothing_happens(policy: str, listed: list[str]) -> None:
    world, client, a = drifted(listed, on_drift=policy)
    assert (world.lines(client), world.lines(a), world.said) == ([], [], [])
    assert world.names(client) == ["a:x", "a:y", "b:z"]
    assert world.idle()


@pytest.mark.parametrize(
    ("policy", "does", "served"),
    [
        ("live", "its live list is served", ["a:x", "a:y", "b:z"]),
        ("warn", "the snapshot is served", ["a:x", "a:y", "b:z"]),
        ("refuse", "what differs is withheld", ["a:y", "b:z"]),
    ],
)
def test_a_tool_that_turns_malicious_is_told_with_its_classes(
    policy: str, does: str, served: list[str]
) -> None:
    turned = tool("x", description="Reads.\U000e0068\U000e0069", **READONLY)
    turned["inputSchema"] = {**turned["inputSchema"], "required": ["notes"]}
    world, client, _ = drifted([turned, "y"], on_drift=policy)
    assert world.said == [
        f"server 'a' differs from its snapshot: ~x(hidden,schema-breaking,text,hint); {does}, "
        "recompile to review it"
    ]
    assert world.names(client) == served


def test_live_serves_what_the_child_says_now_and_tells_the_client_once() -> None:
    new = {"x_future": 1, "name": "new", "inputSchema": {"type": "object"}}
    world, client, a = drifted([tool("x", title="X"), new])
    assert world.received(client) == [TOOLS_CHANGED]
    assert world.said == [
        "server 'a' differs from its snapshot: +new -y ~x(text); its live list is served, "
        "recompile to review it"
    ]
    answer = world.ask(client, request(1, "tools/list"))
    assert answer["result"]["tools"] == [
        tool("a:x", title="X"),
        {**new, "name": "a:new"},
        tool("b:z"),
    ]
    world.say(client, call(1, "a:new"), call(2, "a_new"), call(3, "a:x"))
    assert [message["params"]["name"] for message in world.received(a)] == ["new", "new", "x"]
    assert world.lines(client) == []


def test_live_asks_the_child_about_a_tool_that_it_dropped() -> None:
    world, client, a = drifted(["x"])
    world.lines(client)
    world.say(client, call(1, "a:y"))
    world.give_list(a, ["x"])
    assert world.received(client) == [failure(1, -32601, "Tool not found: a:y")]


def test_live_keeps_what_the_child_says_byte_for_byte() -> None:
    world = World({"a": ["x"]})
    client, a = world.client(), world.ready("a")
    text = (
        '{ "n":1E5,"name" : "w\\u0061x" ,"x":{"d":1.0,"d":2},"s":"\\u00e9\u2028"'
        ',"inputSchema" :{ "type":"object"} }'
    )
    for _ in range(2):
        [asked] = [m for m in world.received(a) if m["method"] == "tools/list"]
        world.say(a, f'{{"id":{asked["id"]},"result":{{"tools":[ {text} ],"x":1}}}}')
        world.wait(SETTLE_SECONDS)
    world.lines(client)
    world.say(client, request(1, "tools/list"))
    [line] = world.lines(client)
    expected = text.replace('"w\\u0061x"', '"a:wax"')
    assert line == f'{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{expected}]}}}}'


def test_warn_keeps_the_snapshot_and_says_so() -> None:
    world, client, a = drifted(["x", "new"], on_drift="warn")
    assert world.lines(client) == []
    assert world.said == [
        "server 'a' differs from its snapshot: +new -y; the snapshot is served, "
        "recompile to review it"
    ]
    assert world.names(client) == ["a:x", "a:y", "b:z"]
    world.lines(client)
    world.say(client, call(1, "a:y"), call(2, "a:new"))
    assert [message["params"]["name"] for message in world.received(a)] == ["y"]
    assert world.received(client) == [failure(2, -32601, "Tool not found: a:new")]


def test_refuse_keeps_what_is_unchanged_and_withdraws_the_rest() -> None:
    world, client, a = drifted([tool("x", **READONLY), "y", "new"], on_drift="refuse")
    assert world.received(client) == [TOOLS_CHANGED]
    assert world.said == [
        "server 'a' differs from its snapshot: +new ~x(hint); what differs is withheld, "
        "recompile to review it"
    ]
    assert world.names(client) == ["a:y", "b:z"]
    world.lines(client)
    world.say(client, call(1, "a:x"), call(2, "a_x"), call(3, "a:new"), call(4, "a:y"))
    changed = "Server 'a' has a tool 'x' that changed since this proxy was compiled"
    new = "Server 'a' has a tool 'new' that is new since this proxy was compiled"
    assert world.received(client) == [
        failure(1, -32603, changed, server="a"),
        failure(2, -32603, changed, server="a"),
        failure(3, -32603, new, server="a"),
    ]
    assert [message["params"]["name"] for message in world.received(a)] == ["y"]


def test_refuse_forwards_nothing_before_the_comparison() -> None:
    world = World({"a": ["x", "y"]}, on_drift="refuse")
    client, a = world.client(), world.ready("a")
    world.say(client, call(1, "a:x"), call(2, "a:y"))
    world.give_list(a, [tool("x", **READONLY), "y"])
    assert (world.lines(a), world.lines(client)) == ([], [])
    world.wait(SETTLE_SECONDS)
    world.give_list(a, [tool("x", **READONLY), "y"])
    assert [message["params"]["name"] for message in world.received(a)] == ["y"]
    told, refused = world.received(client)
    assert (told, refused["id"], refused["error"]["code"]) == (TOOLS_CHANGED, 1, -32603)


def test_refuse_takes_no_list_for_compared_that_a_change_overtook() -> None:
    world, client, a = drifted(["x", "y"], on_drift="refuse")
    world.say(a, TOOLS_CHANGED)
    world.wait(0)
    [asked] = world.received(a)
    world.say(a, TOOLS_CHANGED, result(asked["id"], {"tools": [tool("x"), tool("y")]}))
    world.say(client, call(1, "a:x"), call(2, "a:y"))
    assert (world.lines(a), world.lines(client)) == ([], [])
    world.wait(1)
    world.give_list(a, [tool("x", **READONLY), "y"])
    assert [message["params"]["name"] for message in world.received(a)] == ["y"]
    told, refused = world.received(client)
    assert (told, refused["id"], refused["error"]["code"]) == (TOOLS_CHANGED, 1, -32603)


def test_refuse_takes_no_pages_for_compared_between_which_a_change_came() -> None:
    world = World({"a": ["x", "y"]}, on_drift="refuse")
    client, a = world.client(), world.ready("a")
    world.say(client, call(1, "a:x"))
    pages(world, a, [(["x"], "1")])
    world.say(a, TOOLS_CHANGED)
    pages(world, a, [(["y"], None)])
    assert world.lines(a) == []
    world.wait(1)
    pages(world, a, [(["x"], "1"), (["y"], None)])
    assert [message["params"]["name"] for message in world.received(a)] == ["x"]
    assert world.lines(client) == []


def test_refuse_does_not_wait_for_ever_for_a_list_that_changes_at_every_reading() -> None:
    world, client, a = drifted(["x", "y"], on_drift="refuse")
    world.say(a, TOOLS_CHANGED)
    world.say(client, call(1, "a:x"))
    list_of_a: Json = {"tools": [tool("x"), tool("y")]}
    answered_at = 0.0
    while not answered_at:
        world.wait(0.01)
        for asked in world.received(a):
            assert asked["method"] == "tools/list"
            world.say(a, TOOLS_CHANGED, result(asked["id"], list_of_a))
        [client] = world.router.clients
        answered_at = 0.0 if world.core.owes(client) else world.now
    assert PATIENCE_SECONDS <= answered_at <= PATIENCE_SECONDS + 2
    reason = "changes its list of tools too often to compare it with the snapshot"
    error = failure(1, -32603, f"Server 'a' {reason}", server="a")
    assert world.received(client) == [error]
    # Nor does the next one; but as soon as a list can be compared, calls pass.
    assert world.ask(client, call(1, "a:x")) == error
    world.wait(1)
    world.give_list(a)
    world.say(client, call(2, "a:x"))
    assert [message["params"]["name"] for message in world.received(a)] == ["x"]


def test_what_is_withheld_stays_so_while_a_list_cannot_be_compared() -> None:
    world, client, a = drifted([tool("x", **READONLY), "y"], on_drift="refuse")
    world.lines(client)
    world.say(a, TOOLS_CHANGED)
    world.say(client, call(1, "a:x"), call(2, "a:y"))
    assert [answer["id"] for answer in world.received(client)] == [1]
    world.say(client, {"method": "notifications/cancelled", "params": {"requestId": 2}})
    world.wait(1)
    world.give_list(a, [tool("x", **READONLY), "y"])
    assert (world.lines(a), world.lines(client)) == ([], [])
    assert world.idle()


@pytest.mark.parametrize("answer", ['"error":{"code":-32603,"message":"m"}', '"result":{}'])
def test_refuse_withholds_a_list_that_cannot_be_compared_and_nothing_else(answer: str) -> None:
    world = World({"a": ["x"]}, prompts={"a": ["p"]}, resources={"a": ["r:1"]}, on_drift="refuse")
    client, a = world.client(), world.ready("a", {"tools": {}, "prompts": {}, "resources": {}})
    world.say(client, call(1, "a:x"))
    asked = {message["method"]: message.get("id") for message in world.received(a)}
    world.say(a, f'{{"id":{asked["tools/list"]},{answer}}}')
    world.say(a, result(asked["prompts/list"], {"prompts": [{"name": "p"}]}))
    world.say(a, f'{{"id":{asked["resources/list"]},{answer}}}')
    world.say(a, result(asked["resources/templates/list"], {"resourceTemplates": []}))
    assert world.stopped == []
    first, *_ = [message for message in world.received(client) if "id" in message]
    assert first["error"]["message"].startswith("Server 'a' gave no list of tools to compare (")
    assert world.names(client) == []
    assert [said.rpartition("; ")[2] for said in world.said] == ["its snapshot is withheld"] * 2
    world.say(client, request(2, "resources/read", {"uri": "r:1"}))
    [refused] = world.received(client)
    assert "gave no list of resources to compare (" in refused["error"]["message"]
    world.say(client, request(3, "prompts/get", {"name": "a:p"}))
    [forwarded] = world.received(a)
    assert forwarded["params"]["name"] == "p"


def test_refuse_trusts_a_tool_again_that_is_as_it_was() -> None:
    world, client, a = drifted([tool("x", **READONLY), "y"], on_drift="refuse")
    world.say(a, TOOLS_CHANGED)
    world.wait(1)
    world.give_list(a)
    assert world.names(client) == ["a:x", "a:y", "b:z"]
    world.say(client, call(1, "a:x"))
    assert len(world.lines(a)) == 1


def test_a_change_while_the_child_runs_is_served_and_reported() -> None:
    world, client, a = drifted(["x", "y"])
    for listed, summary in ((["x"], "-y"), (["x", "new"], "+new -y")):
        world.say(a, TOOLS_CHANGED)
        world.wait(CALM_SECONDS)
        world.give_list(a, listed)
        assert world.received(client) == [TOOLS_CHANGED]
        assert world.names(client) == [f"a:{name}" for name in listed] + ["b:z"]
        assert world.said.pop().startswith(f"server 'a' differs from its snapshot: {summary};")
    world.say(a, TOOLS_CHANGED)
    world.wait(CALM_SECONDS)
    world.give_list(a)
    assert world.received(client)[-1] == TOOLS_CHANGED
    assert world.names(client) == ["a:x", "a:y", "b:z"]
    assert world.said == []


@pytest.mark.parametrize("policy", ["live", "warn", "refuse"])
def test_only_what_a_fresh_start_shows_is_to_be_recompiled(policy: str) -> None:
    world, _, a = drifted(["x"], on_drift=policy)
    for listed, summary, advised in (
        (["x"], "-y", True),
        (["x", "new"], "+new -y", False),
        (["x"], "-y", True),
    ):
        world.say(a, TOOLS_CHANGED)
        world.wait(CALM_SECONDS)
        world.give_list(a, listed)
        assert f"differs from its snapshot: {summary};" in world.said[-1]
        assert ("recompile" in world.said[-1]) == advised
    assert len(world.said) == 3
    world, _, a = drifted(["x", "y"], on_drift=policy)
    world.say(a, TOOLS_CHANGED)
    world.wait(CALM_SECONDS)
    world.give_list(a, ["x"])
    [line] = world.said
    assert "differs from its snapshot: -y" in line
    assert "recompile" not in line


def lives(world: World, lists: list[list[str | Json] | None]) -> list[str]:
    """Let child "a" wake for a call, list this and fall asleep, again and again.

    None is a list that it does not give. Returns what was said, life by life.
    """
    client, said = world.client(), []
    for listed in lists:
        world.say(client, call(1, "a:x"))
        a = world.ready("a")
        while asked := [
            m for m in world.received(a) if m["method"] in ("tools/list", "tools/call")
        ]:
            for message in asked:
                if message["method"] == "tools/list" and listed is None:
                    world.say(a, failure(message["id"], -32603, "m"))
                else:
                    tools = [tool(t) if isinstance(t, str) else t for t in listed or []]
                    world.say(a, result(message["id"], {"tools": tools}))
            world.wait(SETTLE_SECONDS)
        world.wait(100)
        assert world.asleep.pop() == "a"
        said.append(" ".join(world.said))
        world.said.clear()
    return said


@pytest.mark.parametrize("policy", ["live", "warn", "refuse"])
def test_a_difference_is_reported_once_over_all_lives_of_a_child(policy: str) -> None:
    world = World({"a": ["x", "y"]}, start="lazy", idle_stop=5, on_drift=policy)
    said = lives(world, [["x"], ["x"], ["x"], ["x", "y"], ["x", "new"], ["x", "new"], ["x"]])
    assert ["differs" in words for words in said] == [True, False, False, False, True, False, True]


def test_a_list_that_is_not_given_is_reported_once_over_all_lives_of_a_child() -> None:
    world = World({"a": ["x"]}, start="lazy", idle_stop=5)
    said = lives(world, [None, None, ["x"], None])
    assert ["gave no list" in words for words in said] == [True, False, False, True]


def test_a_live_list_that_the_next_life_does_not_declare_is_withdrawn() -> None:
    world = World({"a": ["x"]}, capabilities={"prompts": {}}, start="lazy", idle_stop=5)
    client, shown = world.client(), []
    given = {"tools/list": {"tools": [tool("x")]}, "prompts/list": {"prompts": [{"name": "p"}]}}
    lives: list[Json] = [{"tools": {}, "prompts": {}}, {"tools": {}}]
    for declared in lives:
        world.say(client, call(1, "a:x"))
        a = world.ready("a", declared)
        for seconds in (SETTLE_SECONDS, 0):
            for asked in world.received(a):
                if "id" in asked:
                    world.say(a, result(asked["id"], given.get(asked["method"], {})))
            world.wait(seconds)
        shown.append(world.ask(client, request(2, "prompts/list"))["result"]["prompts"])
        world.wait(60)
    assert shown == [[{"name": "a:p"}], []]


def test_a_call_in_flight_outlives_a_change_of_the_list() -> None:
    world = World({"a": ["x", "y"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:y"))
    [sent] = world.received(a)
    world.say(a, TOOLS_CHANGED)
    world.wait(SETTLE_SECONDS)
    world.give_list(a, ["x"])
    world.say(a, result(sent["id"], {}))
    assert world.received(client) == [TOOLS_CHANGED, result(1, {})]


# --- Names and filters of a live list -------------------------------------------------------


def test_a_live_tool_that_is_listed_twice_is_served_once() -> None:
    world, client, _ = drifted(["new", tool("new", title="second"), "x"])
    assert world.names(client) == ["a:new", "a:x", "b:z"]
    assert "server 'a' lists the tool 'new' more than once; the first one counts" in world.said


@pytest.mark.parametrize(
    "odd",
    [
        '{"title":"?"}',
        '{"name":"t","inputSchema":{"type":"object","default":NaN}}',
        '{"name":"t","name":"bad:u"}',
    ],
)
def test_an_entry_that_cannot_be_listed_is_left_out_and_said_once(odd: str) -> None:
    world = World({"a": ["x"]})
    client, a = world.client(), world.ready("a")
    for _ in range(2):
        [asked] = [m for m in world.received(a) if m["method"] == "tools/list"]
        listed = f'{json.dumps(tool("x"))},{odd},{odd}'
        world.say(a, f'{{"id":{asked["id"]},"result":{{"tools":[{listed}]}}}}', TOOLS_CHANGED)
        world.wait(SETTLE_SECONDS)
    assert world.names(client) == ["a:x"]
    [said] = world.said
    assert said.endswith("; it is left out (the first of 2 faults of this list)")


@pytest.mark.parametrize("policy", ["live", "refuse"])
def test_a_mended_list_is_what_is_compared_and_served(policy: str) -> None:
    """Compiled from a list with the same faults, the snapshot has what they are mended to."""
    world = World({"a": ["x"]}, on_drift=policy)
    client, a = world.client(), world.ready("a")
    given = {**tool("x"), "title": None, "inputSchema": {}}
    unfit = tool("y", annotations={"readOnlyHint": "true"})
    for _ in range(2):
        world.give_list(a, [given, unfit])
        world.say(a, TOOLS_CHANGED)
        world.wait(SETTLE_SECONDS)
    assert world.ask(client, request(1, "tools/list"))["result"]["tools"] == [tool("a:x")]
    assert world.lines(client) == []
    assert world.said == [
        "server 'a' lists the tool 'y' with a wrong value at /annotations/readOnlyHint, which "
        "strict clients refuse; it is left out (the first of 3 faults of this list)"
    ]


def test_filters_and_names_of_the_config_hold_for_a_live_list() -> None:
    rows = {"a": {"hide": ["secret*"], "rename": {"new": "short"}}}
    world, client, a = drifted(["secret2", "x", "new"], rows=rows)
    assert world.names(client) == ["a:x", "short", "b:z"]
    assert "secret" not in "".join(world.said)
    world.lines(client)
    world.say(client, call(1, "short"))
    assert world.received(a)[-1]["params"]["name"] == "new"


def test_a_hidden_tool_cannot_be_called_by_asking_for_it() -> None:
    world = World({"a": ["x"]}, rows={"a": {"hide": ["secret"]}})
    client, a = world.client(), world.up("a", ["x", "secret"])
    world.say(client, call(1, "a:secret"))
    world.give_list(a, ["x", "secret"])
    assert world.received(client) == [failure(1, -32601, "Tool not found: a:secret")]


@pytest.mark.parametrize("first", ["a", "a:b"])
def test_a_live_tool_never_takes_the_name_of_another_servers(first: str) -> None:
    servers = {"a": ["x"], "a:b": ["c"]}
    world = World({first: servers[first], **servers})
    client = world.client()
    a, ab = world.up("a", ["x", "b:c", "y"]), world.up("a:b")
    world.wait(SETTLE_SECONDS)
    world.give_list(a, ["x", "b:c"])
    assert sorted(world.names(client)) == ["a:b:c", "a:x"]
    world.say(client, call(1, "a:b:c"))
    assert (len(world.lines(a)), len(world.lines(ab))) == (0, 1)


def test_live_tools_of_two_servers_get_different_portable_names() -> None:
    world = World({"a.b": ["x"], "a_b": ["y"]}, names="portable")
    client = world.client()
    one, two = world.up("a.b", ["x", "t"]), world.up("a_b", ["y", "t"])
    world.wait(SETTLE_SECONDS)
    world.give_list(one, ["x", "t"])
    first = world.names(client)
    world.give_list(two, ["y", "t"])
    names = world.names(client)
    assert len(set(names)) == 4
    assert set(first) <= set(names)
    for name, child in ((names[1], one), (names[3], two)):
        world.say(client, call(1, name))
        assert len(world.lines(child)) == 1


def test_a_live_tool_keeps_its_names_while_it_lives() -> None:
    world = World({"a": ["x"]}, names="portable")
    client, a = world.client(), world.up("a", ["x", "t.t"])
    world.wait(SETTLE_SECONDS)
    world.give_list(a, ["x", "t.t"])
    assert world.names(client) == ["a_x", "a_t_t"]
    world.say(a, TOOLS_CHANGED)
    world.wait(1)
    world.give_list(a, ["x", "t_t", "t.t"])
    names = world.names(client)
    assert (names[0], names[2], len(set(names))) == ("a_x", "a_t_t", 3)


def test_a_live_tool_in_bare_mode_is_called_by_its_own_name() -> None:
    world = World({"a": ["x"], "b": ["z"]}, names="bare")
    client, a, b = world.client(), world.up("a", ["x", "new", "z"]), world.up("b")
    world.wait(SETTLE_SECONDS)
    world.give_list(a, ["x", "new", "z"])
    assert world.names(client) == ["x", "new", "z"]
    world.say(client, call(1, "new"), call(2, "z"))
    assert (len(world.lines(a)), len(world.lines(b))) == (1, 1)


# --- Tools that the snapshot lacks ----------------------------------------------------------


def test_an_unknown_tool_of_a_known_child_is_asked_for_once() -> None:
    world = World({"a": ["x"]})
    client, a = world.client(), world.up("a")
    world.say(client, call(1, "a:new", {"n": 1.0}, "p"), call(2, "a_new"), call(3, "a:none"))
    world.give_list(a, ["x", "new"])
    first, second = world.received(a)
    assert first["params"]["name"] == second["params"]["name"] == "new"
    assert world.received(client) == [TOOLS_CHANGED, failure(3, -32601, "Tool not found: a:none")]
    world.say(a, result(second["id"], 2), result(first["id"], 1))
    assert world.received(client) == [result(2, 2), result(1, 1)]
    assert world.idle()


def test_an_unknown_tool_of_a_child_that_is_down_is_refused() -> None:
    world = World({"a": ["x"]})
    client = world.client()
    world.up("a")
    world.say(client, call(1, "a:new"))
    world.down("a")
    world.say(client, call(2, "a:new"))
    died = failure(1, -32603, "Server 'a' exited with status 1", server="a")
    answers = world.received(client)
    assert answers == [died, TOOLS_CHANGED, failure(2, -32601, "Tool not found: a:new")]


# --- Conditional tools ----------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["live", "warn", "refuse"])
def test_a_conditional_tool_may_be_missing_without_a_word(policy: str) -> None:
    world, client, _ = drifted(["x"], conditional={"a": ["y"]}, on_drift=policy)
    assert (world.lines(client), world.said) == ([], [])
    assert world.names(client) == ["a:x", "b:z"]


def test_a_conditional_tool_that_is_there_is_no_drift() -> None:
    world, client, _ = drifted(["x", "y"], conditional={"a": ["y"]}, capabilities=ROOTS)
    assert (world.lines(client), world.said) == ([], [])
    assert world.names(client) == ["a:x", "a:y", "b:z"]


def test_a_conditional_tool_that_a_capable_client_lacks_leaves_its_list() -> None:
    world, client, _ = drifted(["x"], conditional={"a": ["y"]}, capabilities=ROOTS)
    assert (world.received(client), world.said) == ([TOOLS_CHANGED], [])
    assert world.names(client) == ["a:x", "b:z"]


def test_a_conditional_tool_that_changed_is_drift() -> None:
    listed: list[str | Json] = ["x", tool("y", **READONLY)]
    world, _, _ = drifted(listed, conditional={"a": ["y"]}, capabilities=ROOTS)
    assert "~y" in world.said[0]


def test_only_clients_whose_own_list_changed_are_told() -> None:
    world = World({"a": ["x", "y"]}, conditional={"a": ["y"]})
    capable, plain = world.client(ROOTS), world.client()
    a = world.up("a")
    world.say(a, TOOLS_CHANGED)
    world.wait(SETTLE_SECONDS)
    world.give_list(a, ["x"])
    assert (world.received(capable), world.received(plain)) == ([TOOLS_CHANGED], [])


def test_a_child_that_declares_no_tools_is_not_asked_for_them() -> None:
    world = World({"a": [], "b": ["z"]})
    client = world.client()
    a, b = world.ready("a", {}), world.ready("b", {"completions": {}})
    assert [message["method"] for message in world.received(a)] == ["notifications/initialized"]
    world.lines(b)
    world.wait(SETTLE_SECONDS)
    assert world.received(client) == [TOOLS_CHANGED]
    assert world.said == [
        "server 'b' differs from its snapshot: -z; its live list is served, recompile to review it"
    ]
    world.say(a, TOOLS_CHANGED)
    world.wait(1)
    assert (world.lines(a), world.lines(b)) == ([], [])
    assert world.idle()


def test_what_is_told_of_a_difference_is_one_line_that_no_terminal_acts_upon() -> None:
    world = World({"a": ["t"]})
    world.client()
    a = world.up("a", ["t"])
    world.say(a, TOOLS_CHANGED)
    world.wait(1)
    world.give_list(a, ["t", "x\nb: \x1b[31mFAKE"])
    assert any("+x b: FAKE" in line and "\n" not in line for line in world.said)


@pytest.mark.parametrize("method", ["resources/read", "completion/complete"])
def test_what_fits_a_template_that_changed_is_withheld(method: str) -> None:
    lists = World({"a": ["t"]})["a"].lists
    lists["templates"].withheld.reasons["a://{x}"] = "changed"
    name = "a://1" if method == "resources/read" else "a://{x}"
    assert lists.withheld(method, name) == "changed"
    assert lists.withheld(method, "b://1") is None
