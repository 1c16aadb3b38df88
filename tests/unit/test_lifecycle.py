"""When children are started, how they are greeted, and what follows when they are gone."""

from __future__ import annotations

import pytest
from core import (
    INITIALIZED,
    ROOTS,
    TOOLS_CHANGED,
    Json,
    World,
    call,
    failure,
    introduction,
    notification,
    request,
    result,
)

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.frozen.supervisor import installed, installing
from mcpagg_runtime.messages.protocol import LEGACY
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.servers.instances import MAXIMUM_IN_BACKGROUND, MAXIMUM_STARTING
from mcpagg_runtime.servers.lifecycle import (
    CREATED,
    DOWN,
    MAXIMUM_FAILURES,
    QUEUED,
    READY,
    STARTING,
    TRANSITIONS,
    IllegalTransition,
)
from mcpagg_runtime.start.greeting import TASKS

MANY = {f"s{number:02}": ["t"] for number in range(12)}


# --- Starting ---------------------------------------------------------------------------------


def test_nobody_is_started_for_a_client_that_only_shakes_hands() -> None:
    world = World({"a": ["t"]})
    client = Client("auto")
    world.do(world.core.connect(client))
    world.say(client, request(1, "initialize", {}), request(2, "tools/list"), request(3, "ping"))
    world.say(client, request(4, "nonsense"), "junk")
    assert (world.started, world["a"].state) == ([], CREATED)
    world.say(client, INITIALIZED)
    assert (world.started, world["a"].state) == (["a"], STARTING)


def test_a_client_that_has_initialized_before_starts_them_when_it_connects() -> None:
    world = World({"a": ["t"], "b": ["t"]})
    client = Client("auto")
    client.shake_hands()
    world.do(world.core.connect(client))
    assert world.started == ["a", "b"]


def test_a_call_starts_its_child_whatever_the_client_left_out() -> None:
    world = World({"a": ["t"], "b": ["t"]})
    client = Client("auto")
    world.do(world.core.connect(client))
    world.say(client, call(1, "b:t"))
    assert world.started == ["b"]
    assert world["b"].lifecycle.client is client


@pytest.mark.parametrize("name", ["b:t", "b:new"])
def test_lazy_children_are_started_by_a_call_that_needs_them(name: str) -> None:
    world = World({"a": ["t"], "b": ["t"]}, start="lazy")
    client = world.client()
    world.ask(client, request(1, "tools/list"))
    assert world.started == []
    world.say(client, call(2, name), call(3, name))
    assert world.started == ["b"]


def test_only_a_few_start_at_a_time_in_the_order_of_the_config() -> None:
    world = World(MANY)
    world.client()
    assert world.started == list(MANY)[:MAXIMUM_IN_BACKGROUND]
    world.up("s05")
    world.up("s00")
    assert world.started[MAXIMUM_IN_BACKGROUND:] == ["s07", "s08"]
    world.down("s01")
    assert world.started[-1] == "s09"
    world.client()
    assert len(world.started) == 10


@pytest.mark.parametrize("name", ["s11:t", "s11:new"])
def test_a_child_that_a_call_waits_for_starts_first(name: str) -> None:
    world = World(MANY)
    client = world.client()
    world.say(client, call(1, name))
    assert world.started[-1] == "s11"
    world.say(client, call(2, "s10:t"))
    assert world["s10"].state == QUEUED
    world.up("s00")
    assert world.started[-1] == "s10"
    world.up("s01")
    assert len(world.started) == MAXIMUM_STARTING + 1
    world.up("s02")
    assert world.started[-1] == "s07"


def test_every_child_gets_its_turn_when_all_of_them_fail() -> None:
    world = World(MANY)
    client = world.client()
    for name in MANY:
        world.down(name)
    assert world.started == list(MANY)
    assert world.names(client) == []


# --- The handshake ----------------------------------------------------------------------------


def test_a_child_is_greeted_as_the_client_that_it_is_started_for() -> None:
    world = World({"a": ["t"]})
    client = Client("auto")
    world.do(world.core.connect(client))
    world.say(
        client,
        '{"id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        '"clientInfo":{"name":"c","x":1.0},"capabilities":{"roots":{"x":1e999},"tasks":{}}}}',
        INITIALIZED,
    )
    world.do(world.core.child_up(world["a"]))
    [hello] = world.asked(world["a"], "initialize")
    assert world.lines(world["a"]) == [
        f'{{"jsonrpc":"2.0","id":{hello},"method":"initialize",'
        '"params":{"protocolVersion":"2025-06-18",'
        '"capabilities":{"roots":{"x":1e999}},"clientInfo":{"name":"c","x":1.0}}}'
    ]


@pytest.mark.parametrize(
    ("client", "child", "spoken"),
    [
        ("2025-11-25", "2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-11-25", "2025-03-26"),
        ("2025-06-18", "2025-06-18", "2025-06-18"),
    ],
)
def test_the_older_of_both_versions_is_spoken(client: str, child: str, spoken: str) -> None:
    world = World({"a": ["t"]}, facts={"a": {"protocol": child}})
    world.client(protocolVersion=client)
    world.do(world.core.child_up(world["a"]))
    [hello] = world.received(world["a"])
    assert hello["params"]["protocolVersion"] == spoken


def test_a_child_is_told_the_extensions_of_its_client_but_for_tasks() -> None:
    world = World({"a": ["t"]})
    world.client({"extensions": {"x/ui": {"n": 1}, TASKS: {}}, "experimental": {"x": {}}})
    world.do(world.core.child_up(world["a"]))
    [hello] = world.received(world["a"])
    assert hello["params"]["capabilities"] == {"extensions": {"x/ui": {"n": 1}}}


def test_a_client_that_says_nothing_of_itself_is_introduced_as_the_proxy() -> None:
    world = World({"a": ["t"]})
    client = Client("auto")
    world.do(world.core.connect(client))
    world.say(client, call(1, "a:t"))
    world.do(world.core.child_up(world["a"]))
    [hello] = world.received(world["a"])
    assert hello["params"]["clientInfo"] == {"name": "test", "version": "1"}
    assert hello["params"]["capabilities"] == {}


def test_initialized_is_sent_before_anything_else() -> None:
    world = World({"a": ["t"]})
    client = world.client()
    world.say(client, call(1, "a:t"))
    a = world.ready("a")
    assert [message["method"] for message in world.received(a)] == [
        "notifications/initialized",
        "tools/call",
        "tools/list",
    ]
    assert a.state == READY


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "answered initialize with a result that is no JSON object"),
        (',"result":null', "answered initialize with a result that is no JSON object"),
        (',"result":[]', "answered initialize with a result that is no JSON object"),
        (',"result":{}', "names no protocol version that it speaks"),
        (',"result":{"protocolVersion":5}', "names no protocol version that it speaks"),
    ],
)
def test_a_server_that_does_not_introduce_itself_is_down(answer: str, reason: str) -> None:
    world = World({"a": ["t"]})
    client = world.client()
    world.say(client, call(1, "a:t"))
    world.say(world["a"], f'{{"jsonrpc":"2.0","id":{world.born("a")}{answer}}}')
    assert world.stopped == [("a", reason)]
    assert world.lines(world["a"]) == []
    world.down("a", reason)
    assert world["a"].state == DOWN
    [refusal] = [line for line in world.received(client) if line.get("id") == 1]
    assert refusal == failure(1, -32603, f"Server 'a' {reason}", server="a")


def test_capabilities_that_are_no_object_are_none() -> None:
    world = World({"a": []})
    world.client()
    odd = {"protocolVersion": "2025-11-25", "capabilities": []}
    world.say(world["a"], result(world.born("a"), odd))
    assert world["a"].state == READY
    assert world["a"].lifecycle.capabilities == {}


@pytest.mark.parametrize("version", ["2024-11-05", "2099-01-01"])
def test_a_child_may_answer_with_any_version(version: str) -> None:
    world = World({"a": ["t"]})
    world.client()
    answer: Json = {"protocolVersion": version, "capabilities": {"tools": {}}}
    world.say(world["a"], result(world.born("a"), answer))
    assert world["a"].state == READY


def test_a_second_answer_to_the_handshake_is_dropped() -> None:
    world = World({"a": ["t"]})
    world.client()
    a = world.up("a")
    [hello] = world.asked(a, "initialize")
    world.say(a, result(hello, {}), failure(hello, -32600, "twice"))
    assert (world.lines(a), world.stopped, a.state) == ([], [], READY)


def test_a_refused_handshake_stops_the_child_with_its_error() -> None:
    world = World({"a": ["t"]})
    world.client()
    world.say(world["a"], failure(world.born("a"), -32602, "no"))
    assert world.stopped == [
        ("a", 'refused the handshake: {"code": -32602, "message": "no"}'),
    ]


def test_noise_before_the_handshake_does_no_harm() -> None:
    world = World({"a": ["t"]})
    client = world.client(ROOTS)
    identifier = world.born("a")
    world.say(world["a"], "Server version : 1.0", "", TOOLS_CHANGED, request("q", "roots/list"))
    world.say(world["a"], notification("notifications/message", {"data": 1}), request(0, "ping"))
    assert len(world.said) == 1
    assert world.received(world["a"]) == [result(0, {})]
    assert len(world.received(client)) == 1
    world.say(world["a"], result(identifier, introduction(LEGACY, {"tools": {}})))
    assert world["a"].state == READY


def test_a_handshake_that_takes_too_long_stops_the_child() -> None:
    world = World({"a": ["t"], "b": ["t"]}, connect_timeout=1.5)
    client = world.client()
    world.up("b")
    world.say(client, call(1, "a:t"))
    world.born("a")
    world.wait(1.4)
    assert world.stopped == []
    world.wait(100)
    assert world.stopped == [("a", "did not finish its handshake within 1.5 s")]
    world.down(*world.stopped[0])
    assert world.received(client)[0] == failure(
        1, -32603, "Server 'a' did not finish its handshake within 1.5 s", server="a"
    )
    assert world["b"].state == READY
    assert world.core.alarm == FOREVER


def test_a_child_that_is_being_installed_is_not_late_and_its_calls_are_told_why() -> None:
    world = World({"a": ["t"]}, connect_timeout=1.5)
    client = world.client()
    world.say(client, call(1, "a:t", token="p"), call(2, "a:t"))  # noqa: S106 - of progress
    for step in (1, 2):
        world.do(installing(world.core, world["a"], "is being installed", step))
        world.wait(500)
    told = [message["params"] for message in world.received(client)]
    assert [params["progressToken"] for params in told] == ["p", "p"]
    assert [params["message"] for params in told] == ["Server 'a' is being installed"] * 2
    assert 0 < told[0]["progress"] < told[1]["progress"] < 1
    assert [state for _, state, _ in world.states] == ["queued", "starting", "installing"]
    world.do(installed(world.core, world["a"]))
    world.wait(1.4)
    assert world.stopped == []
    world.wait(1)
    assert world.stopped == [("a", "did not finish its handshake within 1.5 s")]


def test_what_is_being_installed_holds_up_no_other_start() -> None:
    world = World(MANY)
    world.client()
    first = list(world.started)
    assert len(first) < len(MANY)
    for name in first:
        world.do(installing(world.core, world[name], "is being installed", 1))
    assert set(world.started) > set(first)


def test_one_that_nobody_wants_any_more_is_not_installed_into_life() -> None:
    world = World({"a": ["t"]})
    client = world.client()
    world.do(world.core.child_down(world["a"], "is gone"))
    world.received(client)
    world.do(installing(world.core, world["a"], "is being installed", 1))
    world.do(installed(world.core, world["a"]))
    world.wait(100)
    assert world["a"].state == DOWN
    assert world.stopped == []


def test_a_child_that_waits_for_its_turn_is_not_late() -> None:
    world = World(MANY, connect_timeout=10)
    world.client()
    world.wait(9)
    for name in list(MANY)[:MAXIMUM_STARTING]:
        world.up(name)
    world.wait(9)
    assert world.stopped == []
    world.wait(2)
    assert [name for name, _ in world.stopped] == list(MANY)[MAXIMUM_STARTING:]


# --- The end ----------------------------------------------------------------------------------


def test_a_child_that_dies_fails_its_calls_and_leaves_the_list() -> None:
    world = World({"a": ["t"], "b": ["t"]})
    one, two = world.client(), world.client()
    world.up("a")
    world.up("b")
    world.say(one, call(1, "a:t"), call(2, "b:t"), call("3", "a:t"))
    world.down("a", "was killed by SIGKILL", "  first\nlast \n")
    reason = "Server 'a' was killed by SIGKILL"
    assert world.received(one) == [
        failure(1, -32603, reason, server="a"),
        failure("3", -32603, reason, server="a"),
        TOOLS_CHANGED,
    ]
    assert world.received(two) == [TOOLS_CHANGED]
    assert world.said == ["server 'a' was killed by SIGKILL; the end of its stderr:\n  first\nlast"]
    assert world.names(one) == ["b:t"]
    answer = world.ask(one, call(4, "a:t"))
    assert answer == failure(4, -32603, reason, server="a")
    assert world.started == ["a", "b"]


def test_a_child_is_buried_once() -> None:
    world = World({"a": ["t"]})
    client = world.client()
    world.up("a")
    world.down("a", "exited with status 0")
    world.down("a", "closed its standard output")
    world.do(world.core.child_up(world["a"]))
    assert world.received(client) == [TOOLS_CHANGED]
    assert world.said == ["server 'a' exited with status 0"]
    assert world["a"].state == DOWN
    assert world["a"].lifecycle.reason == "exited with status 0"


def test_a_child_that_cannot_be_started_is_reported_the_same_way() -> None:
    world = World({"a": ["t"]})
    client = world.client()
    world.say(client, call(1, "a:t"), call(2, "a:new"))
    world.down("a", "could not be started: no such file")
    reason = "Server 'a' could not be started: no such file"
    assert world.received(client) == [
        failure(1, -32603, reason, server="a"),
        failure(2, -32603, reason, server="a"),
        TOOLS_CHANGED,
    ]
    assert world.idle()


def test_a_child_that_nobody_sees_dies_without_a_notification() -> None:
    world = World({"a": [], "b": ["t"]}, conditional={"b": ["t"]})
    client = world.client()
    world.up("a")
    world.up("b")
    world.down("a")
    world.down("b")
    assert world.lines(client) == []
    assert len(world.said) == 2


def test_a_client_that_has_not_shaken_hands_is_told_nothing() -> None:
    world = World({"a": ["t"]})
    client = Client("auto")
    world.do(world.core.connect(client))
    world.client()
    world.up("a")
    world.down("a")
    assert world.lines(client) == []


def test_a_name_with_quotes_is_named_as_it_is() -> None:
    world = World({'a"\n': ["t"]})
    client = world.client()
    world.down('a"\n', "exited")
    world.lines(client)
    answer = world.ask(client, call(1, 'a"\n:t'))
    assert answer == failure(1, -32603, "Server 'a\"\n' exited", server='a"\n')


def test_time_without_anything_due_needs_no_tick() -> None:
    world = World({"a": ["t"]})
    client = world.client()
    world.up("a")
    world.wait(1000)
    assert world.core.alarm == FOREVER
    world.say(client, call(1, "a:t"))
    assert world.core.alarm == FOREVER


# --- Another life -----------------------------------------------------------------------------


def idle(world: World, client: Client, seconds: float) -> None:
    """Let one call be made and answered, then time pass."""
    world.say(client, call("work", "a:t"))
    for asked in world.received(world["a"]):
        world.say(world["a"], result(asked["id"], {}))
    world.lines(client)
    world.wait(seconds)


def test_an_idle_child_is_ended_and_the_next_call_starts_it_again() -> None:
    world = World({"a": ["t"]}, idle_stop=5)
    client = world.client()
    world.up("a")
    idle(world, client, 4.9)
    idle(world, client, 4.9)
    assert world.asleep == []
    world.wait(0.2)
    assert (world.asleep, world.said, world.lines(client)) == (["a"], [], [])
    assert world.names(client) == ["a:t"]
    world.lines(client)
    world.say(client, call(1, "a:t"))
    assert world.started == ["a", "a"]
    a = world.up("a")
    [asked] = world.received(a)
    world.say(a, result(asked["id"], {}))
    assert world.received(client) == [result(1, {})]


def test_every_state_that_a_child_enters_is_told_with_its_reason() -> None:
    world = World({"a": ["t"]}, idle_stop=5, restart="on-call")
    client = world.client()
    world.up("a")
    world.wait(6)
    world.say(client, call(1, "a:t"))
    world.up("a")
    world.down("a", "exited with status 1")
    world.wait(2)
    world.say(client, call(2, "a:t"))
    world.down("a", "could not be started")
    states = [(state, reason) for _, state, reason in world.states]
    assert states == [
        ("queued", None),
        ("starting", None),
        ("ready", None),
        ("created", "had nothing to do for 5 s"),
        ("queued", None),
        ("starting", None),
        ("ready", None),
        ("down", "exited with status 1"),
        ("queued", None),
        ("starting", None),
        ("down", "could not be started"),
    ]


@pytest.mark.parametrize("state", [CREATED, QUEUED, STARTING, READY, DOWN])
@pytest.mark.parametrize("after", [CREATED, QUEUED, STARTING, READY, DOWN])
def test_a_state_is_entered_only_from_one_that_it_may_follow(state: str, after: str) -> None:
    child = World({"a": ["t"]})["a"].lifecycle
    child.state = state
    if after in TRANSITIONS[state]:
        child.enter(after, "why")
        assert (child.state, child.reason) == (after, "why")
    else:
        with pytest.raises(IllegalTransition, match=f"a: from {state} to {after}"):
            child.enter(after)
        assert child.state == state


def test_news_of_the_death_of_a_child_that_is_asleep_changes_nothing() -> None:
    world = World({"a": ["t"]}, idle_stop=5)
    client = world.client()
    world.up("a")
    world.wait(6)
    world.down("a")
    assert (world["a"].state, world.said, world.lines(client)) == (CREATED, [], [])


def test_a_child_that_never_gets_a_call_is_ended_in_time() -> None:
    world = World({"a": ["t"]}, idle_stop=5)
    world.client()
    world.up("a")
    world.wait(5.1)
    assert world.asleep == ["a"]


def test_a_child_with_work_in_flight_is_never_ended() -> None:
    world = World({"a": ["t"]}, idle_stop=5)
    client = world.client(ROOTS)
    a = world.up("a")
    world.say(client, call(1, "a:t"))
    world.wait(100)
    assert world.asleep == []
    [asked] = world.received(a)
    world.say(a, request("q", "roots/list"), result(asked["id"], {}))
    world.wait(100)
    assert world.asleep == []
    [question, _] = world.received(client)
    world.say(client, result(question["id"], {}))
    world.wait(100)
    assert world.asleep == ["a"]
    assert world.core.alarm == FOREVER


def test_a_child_is_started_again_by_a_call_with_growing_pauses_and_a_cap() -> None:
    world = World({"a": ["t"]}, restart="on-call")
    client = world.client()
    world.up("a")
    pauses = []
    for _ in range(MAXIMUM_FAILURES - 1):
        world.down("a", "died")
        died, starts = world.now, len(world.started)
        assert world.ask(client, call(1, "a:t"))["error"]["message"] == "Server 'a' died"
        while len(world.started) == starts:
            world.wait(0.5)
            world.say(client, call(2, "a:t"))
        pauses.append(world.now - died)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *[60.0] * (len(pauses) - 6)]
    world.down("a", "died")
    world.wait(10_000)
    world.lines(client)
    assert world.ask(client, call(3, "a:t"))["error"]["message"] == "Server 'a' died"


def test_a_child_that_is_up_again_is_back_in_the_list() -> None:
    world = World({"a": ["t"]}, restart="on-call")
    client = world.client()
    world.up("a")
    world.down("a")
    assert world.received(client) == [TOOLS_CHANGED]
    assert world.names(client) == []
    world.wait(2)
    world.lines(client)
    world.say(client, call(1, "a:t"))
    a = world.up("a")
    assert world.received(client) == [TOOLS_CHANGED]
    [asked] = world.received(a)
    world.say(a, result(asked["id"], {}))
    assert world.received(client) == [result(1, {})]
    assert world.names(client) == ["a:t"]


def test_an_answer_of_an_earlier_life_is_nobodys() -> None:
    world = World({"a": ["t"]}, restart="on-call")
    client = world.client()
    a = world.up("a")
    world.say(client, call(1, "a:t"))
    [first] = world.received(a)
    world.down("a")
    world.wait(2)
    world.say(client, call(2, "a:t"))
    world.up("a")
    [second] = world.received(a)
    assert second["id"] != first["id"]
    world.lines(client)
    world.say(a, result(first["id"], "old"), result(second["id"], "new"))
    assert world.received(client) == [result(2, "new")]
