"""Which instance of a server a client's calls are for, and whom a legacy server's requests are for.

No client waits for a stranger's call, and no question reaches another client than the one it is
for.
"""

from __future__ import annotations

from typing import Any

import pytest
from core import World, call, cancelled, enveloped, failure, notification, request, result

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.message import request as composed
from mcpagg_runtime.servers import instances as module
from mcpagg_runtime.servers.attribution import ALONE_SECONDS, LATE_SECONDS
from mcpagg_runtime.servers.calls import Call
from mcpagg_runtime.servers.child import LOST_LOG, NOT_KNOWN, Child
from mcpagg_runtime.servers.instances import NOT_SHARED, SPARE_SECONDS
from mcpagg_runtime.servers.lifecycle import STARTING
from mcpagg_runtime.servers.open_requests import ANSWER_SECONDS
from mcpagg_runtime.servers.server_requests import ServerRequests

ASK = {"mode": "form", "message": "Which?"}
ABLE: dict[str, Any] = {"elicitation": {}}
CANCEL = notification("notifications/cancelled", {"requestId": 1})
UNKNOWN = failure("q", -32603, "It is not known whom this is for")
OUTSIDE = failure("q", -32603, "No client's call is under way")


def audience() -> Client:
    """Return on whose behalf shared servers are started: it can do whatever can be passed on."""
    everybody = Client("auto")
    able = obj(sampling="{}", elicitation='{"form":{},"url":{}}')
    everybody.introduce(composed(0, "initialize", obj(capabilities=able)))
    return everybody


class Shared:
    """A world whose clients come over HTTP, and its one server, which is up."""

    def __init__(self, **choices: Any) -> None:
        self.world = World({"a": ["t", "u"]}, **choices)
        self.everybody = audience()
        self.first = self.client()
        self.main = self.world.up("a")
        self.world.lines(self.main)

    def client(self, capabilities: Any = None) -> Client:
        """Return a client that can be asked, or one that can do just this."""
        able = ABLE if capabilities is None else capabilities
        return self.world.client(able, audience=self.everybody)

    def sent(self, client: Client, name: str = "t", child: Child | None = None) -> list[Any]:
        """Let a client call a tool under the id 1; return the ids that a child gets then."""
        self.world.say(client, call(1, f"a:{name}"))
        return self.got(child or self.main)

    def got(self, child: Child) -> list[Any]:
        """Return the ids of the calls that a child has got."""
        got = self.world.received(child)
        return [one["id"] for one in got if one.get("method") == "tools/call"]

    def asks(self, child: Child | None = None, identifier: Any = "q") -> None:
        """Let a child ask something."""
        self.world.say(child or self.main, request(identifier, "elicitation/create", ASK))

    def questions(self, client: Client) -> list[Any]:
        """Return the ids of the questions that a client got."""
        got = self.world.received(client)
        return [one["id"] for one in got if one.get("method") == "elicitation/create"]

    def answer(self, child: Child, identifier: int) -> None:
        """Let a child answer a call."""
        self.world.say(child, result(identifier, {}))

    def asked(self) -> int:
        """Let the first client be asked something; return the id of its call, now under way."""
        [number] = self.sent(self.first)
        self.asks()
        [question] = self.questions(self.first)
        self.world.say(self.first, result(question, {"action": "accept"}))
        assert self.world.received(self.main) == [result("q", {"action": "accept"})]
        return int(number)

    def own(self, client: Client) -> Child:
        """Let the instance that a client has come up."""
        return self.world.up(self.world.own("a", client))

    def own_of(self, child: Child) -> Child:
        """Let an instance come up."""
        return self.world.up(child)


# --- Nobody waits for a stranger's call -------------------------------------------------------


def test_a_server_that_asks_nothing_is_shared() -> None:
    shared = Shared()
    clients = [shared.client() for _ in range(3)]
    shared.answer(shared.main, *shared.sent(shared.first))
    assert [len(shared.sent(client)) for client in (shared.first, *clients)] == [1, 1, 1, 1]
    assert shared.world.started == ["a"]


@pytest.mark.parametrize("way", ["slow", "abandoned", "suspended"])
def test_once_a_server_has_asked_a_call_of_one_client_holds_up_nobody(way: str) -> None:
    shared = Shared()
    if way == "suspended":
        shared.sent(shared.first)
        shared.asks()
    else:
        shared.asked()
    if way == "abandoned":
        shared.world.do(shared.world.core.unattend(shared.first, ["1"]))
    other, dumb = shared.client(), shared.client({})
    shared.sent(other)
    assert len(shared.got(shared.own(other))) == 1
    shared.sent(dumb)
    assert len(shared.got(shared.own(dumb))) == 1
    assert len(shared.sent(shared.first)) == 1  # nor do its own calls wait for one another
    assert [NOT_SHARED in said for said in shared.world.said] == [True]


def test_clients_that_can_be_asked_nothing_share_an_instance_that_is_told_so() -> None:
    shared = Shared()
    shared.answer(shared.main, shared.asked())
    dumb = [shared.client({}) for _ in range(3)]
    for client in dumb:
        shared.sent(client)
    [child] = {shared.world.own("a", client) for client in dumb}
    shared.world.do(shared.world.core.child_up(child))
    [hello] = shared.world.received(child)
    assert hello["params"]["capabilities"] == {}
    for client in dumb:
        shared.world.leave(client)
    assert shared.world.asleep == []
    shared.world.wait(60)
    assert shared.world.stopped == [("a", "did not finish its handshake within 60 s")]


def test_the_instance_that_has_asked_is_its_clients_and_each_other_one_anothers() -> None:
    shared = Shared()
    shared.answer(shared.main, shared.asked())
    others = [shared.client() for _ in range(2)]
    for client in others:
        shared.sent(client)
    assert len({shared.main, *[shared.world.own("a", client) for client in others]}) == 3
    for client in others:
        child = shared.own(client)
        [number] = shared.got(child)
        shared.asks(child)
        assert len(shared.questions(client)) == 1
        shared.answer(child, number)
    assert len(shared.sent(shared.first)) == 1


def test_a_call_that_waited_when_the_server_first_asked_gets_its_own_instance() -> None:
    shared = Shared()
    other = shared.client()
    shared.sent(shared.first)
    assert shared.sent(other) == []
    shared.asks()
    assert len(shared.questions(shared.first)) == 1
    assert len(shared.got(shared.own(other))) == 1


def test_an_instance_ends_with_its_session_and_the_first_one_is_given_to_no_other() -> None:
    shared = Shared()
    shared.answer(shared.main, shared.asked())
    other = shared.client()
    shared.sent(other)
    shared.own(other)
    shared.world.leave(other)
    assert shared.world.asleep == ["a"]
    shared.world.leave(shared.first)
    assert shared.world.asleep == ["a"]
    third = shared.client()
    assert shared.sent(third) == []
    assert len(shared.got(shared.own(third))) == 1


def test_an_instance_whose_session_ends_while_it_starts_never_lives() -> None:
    shared = Shared()
    shared.answer(shared.main, shared.asked())
    other = shared.client()
    shared.sent(other)
    own = shared.world.own("a", other)
    shared.world.leave(other)
    shared.world.do(shared.world.core.child_up(own))
    assert shared.world.lines(own) == []
    assert shared.world.idle()


def test_an_instance_that_dies_is_missed_by_its_client_alone() -> None:
    shared = Shared()
    shared.answer(shared.main, shared.asked())
    other = shared.client()
    shared.sent(other)
    shared.world.down(shared.own(other))
    gone = failure(1, -32603, "Server 'a' exited with status 1", server="a")
    assert shared.world.received(other) == [gone]
    assert shared.world.names(shared.first) == ["a:t", "a:u"]
    assert len(shared.sent(shared.first)) == 1


def test_a_server_that_cannot_be_started_is_not_started_anew_by_each_client() -> None:
    shared = Shared()
    shared.answer(shared.main, shared.asked())

    def started() -> int:
        """Return how many starts the calls of some clients cause."""
        before = len(shared.world.started)
        for _ in range(5):
            client = shared.client()
            shared.sent(client)
            for child in shared.world.router.servers["a"]:
                if child.state == STARTING:
                    shared.world.down(child)
            [answer] = shared.world.received(client)
            assert answer["error"]["message"] == "Server 'a' exited with status 1"
            shared.world.leave(client)
        return len(shared.world.started) - before

    for pause in (1, 2, 4):
        assert started() == 1
        shared.world.wait(pause)
    client = shared.client()
    shared.sent(client)
    assert len(shared.got(shared.own(client))) == 1


def test_few_requests_without_a_session_share_few_instances() -> None:
    shared = Shared()
    shared.answer(shared.main, shared.asked())
    used: list[Child] = []
    for _ in range(3):
        client = shared.world.modern()
        client.audience = shared.everybody
        shared.world.say(client, enveloped(call(1, "a:t"), ABLE))
        [child] = [c for c in shared.world.router.servers["a"] if c is not shared.main]
        if not used:
            shared.world.up(child)
        used.append(child)
        shared.answer(child, *shared.got(child))
        assert len(shared.world.received(client)) == 1
    assert len(set(used)) == 1
    shared.world.wait(SPARE_SECONDS)
    assert shared.world.asleep == ["a"]
    assert [*shared.world.router.servers["a"]] == [shared.main]


def crowded(monkeypatch: pytest.MonkeyPatch) -> tuple[Shared, Client, Client, Child]:
    """Return a world with one instance for two clients, of which the first has called it."""
    monkeypatch.setattr(module, "MAXIMUM_INSTANCES", 1)
    shared = Shared()
    shared.answer(shared.main, shared.asked())
    one, two = shared.client(), shared.client()
    shared.sent(one)
    return shared, one, two, shared.own(one)


def test_clients_beyond_the_limit_take_turns_while_a_question_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared, one, two, child = crowded(monkeypatch)
    [number] = shared.got(child)
    shared.asks(child)
    [question] = shared.questions(one)
    assert shared.sent(two, child=child) == []
    shared.world.wait(ANSWER_SECONDS + 1)
    late = failure("q", -32001, "The client did not answer while others waited")
    got = shared.world.received(child)
    assert got[0] == late
    assert got[1]["method"] == "tools/call"
    gone = notification("notifications/cancelled", {"requestId": question})
    assert shared.world.received(one) == [gone]
    shared.answer(child, number)
    shared.asks(child, "r")
    assert len(shared.questions(two)) == 1


def test_clients_beyond_the_limit_that_call_at_once_are_asked_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared, one, two, child = crowded(monkeypatch)
    shared.answer(child, *shared.got(child))
    for _ in range(2):
        [number] = shared.sent(one, child=child)
        assert shared.sent(two, child=child) == []
        shared.asks(child)
        [question] = shared.questions(one)
        shared.world.say(one, result(question, {"action": "accept"}))
        [_, following] = shared.world.received(child)
        shared.answer(child, number)
        shared.asks(child)
        [question] = shared.questions(two)
        shared.world.say(two, result(question, {"action": "accept"}))
        shared.answer(child, following["id"])


@pytest.mark.parametrize("way", ["answered", "withdrawn", "gone"])
def test_a_call_that_waits_for_a_question_goes_as_soon_as_that_is_closed(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, one, two, child = crowded(monkeypatch)
    shared.got(child)
    shared.asks(child)
    [question] = shared.questions(one)
    assert shared.sent(two, child=child) == []
    if way == "answered":
        shared.world.say(one, result(question, {"action": "accept"}))
    elif way == "withdrawn":
        shared.world.say(child, notification("notifications/cancelled", {"requestId": "q"}))
    else:
        shared.world.leave(one)
    got = [line.get("method") for line in shared.world.received(child)]
    assert got[-1] == "tools/call"


# --- No question goes astray ------------------------------------------------------------------


def test_the_first_question_of_a_server_has_one_client_that_it_is_for() -> None:
    shared = Shared()
    others = [shared.client() for _ in range(4)]
    assert len(shared.sent(shared.first)) == 1
    assert [shared.sent(client) for client in others] == [[], [], [], []]
    shared.asks()
    assert len(shared.questions(shared.first)) == 1
    assert [shared.questions(client) for client in others] == [[], [], [], []]


def test_a_first_call_keeps_others_waiting_for_a_moment_and_once() -> None:
    shared = Shared()
    other = shared.client()
    shared.sent(shared.first)
    assert shared.sent(other) == []
    shared.world.wait(ALONE_SECONDS)
    assert len(shared.got(shared.main)) == 1
    assert len(shared.sent(shared.client())) == 1
    assert len(shared.sent(shared.client({}), "u")) == 1
    assert len(shared.sent(shared.client(), "u")) == 1


def test_a_first_call_behind_another_one_keeps_others_waiting_for_a_moment() -> None:
    shared = Shared()
    second, third = shared.client(), shared.client()
    [number] = shared.sent(shared.first)
    assert shared.sent(second, "u") == shared.sent(third, "u") == []
    shared.world.wait(ALONE_SECONDS / 2)
    shared.answer(shared.main, number)
    assert len(shared.got(shared.main)) == 1
    shared.world.wait(ALONE_SECONDS)
    assert len(shared.got(shared.main)) == 1


def both_at_work() -> tuple[Shared, Client, int, int]:
    """Return two clients whose calls a server works at, of which one may ask."""
    shared = Shared()
    other = shared.client()
    [number] = shared.sent(shared.first)
    shared.world.wait(ALONE_SECONDS)
    [second] = shared.sent(other)
    return shared, other, number, second


def test_a_question_that_may_be_for_two_waits_until_one_is_left() -> None:
    shared, other, number, _ = both_at_work()
    shared.asks()
    third = shared.client()
    assert shared.sent(third) == []
    shared.answer(shared.main, number)
    assert shared.questions(shared.first) == []
    assert len(shared.questions(other)) == 1
    assert len(shared.got(shared.own(third))) == 1


def test_a_question_that_stays_for_two_ends_both_calls_by_name() -> None:
    shared, other, number, second = both_at_work()
    shared.asks()
    shared.world.wait(ANSWER_SECONDS)
    assert shared.world.received(shared.main) == [
        UNKNOWN,
        notification("notifications/cancelled", {"requestId": number}),
        notification("notifications/cancelled", {"requestId": second}),
    ]
    ended = failure(1, -32603, f"Server 'a' {NOT_KNOWN}", server="a")
    assert shared.world.received(shared.first) == shared.world.received(other) == [ended]
    assert shared.world.idle()


def test_what_is_asked_in_the_call_of_a_client_that_can_be_asked_nothing_is_refused() -> None:
    shared = Shared()
    dumb = shared.client({})
    [number] = shared.sent(shared.first)
    shared.world.wait(ALONE_SECONDS)
    shared.sent(dumb)
    shared.asks()
    assert shared.questions(shared.first) == []
    shared.answer(shared.main, number)
    refused = failure("q", -32601, "Method not found: elicitation/create")
    assert shared.world.received(shared.main) == [refused]


def test_what_a_call_asks_that_nobody_attends_is_asked_of_nobody_else() -> None:
    shared, other, number, second = both_at_work()
    shared.world.do(shared.world.core.unattend(shared.first, ["1"]))
    shared.asks()
    assert shared.questions(other) == []
    shared.answer(shared.main, second)
    assert shared.world.received(shared.main) == [failure("q", -32603, "The client is gone")]
    shared.world.do(shared.world.core.attend(shared.first, ["1"]))
    shared.asks()
    assert len(shared.questions(shared.first)) == 1
    shared.answer(shared.main, number)


def test_what_a_call_asks_that_was_taken_back_is_asked_of_nobody_else() -> None:
    shared, other, _, second = both_at_work()
    shared.world.say(shared.first, CANCEL)
    shared.world.wait(LATE_SECONDS - 1)
    shared.world.lines(shared.main)
    shared.asks()
    shared.world.wait(1)
    assert shared.questions(other) == []
    shared.answer(shared.main, second)
    assert shared.world.received(shared.main) == [OUTSIDE]
    assert shared.world.idle()


@pytest.mark.parametrize("way", ["answered late", "long ago"])
def test_a_call_that_was_taken_back_and_has_ended_asks_nothing(way: str) -> None:
    shared, other, number, second = both_at_work()
    shared.world.say(shared.first, CANCEL)
    if way == "answered late":
        shared.answer(shared.main, number)
    else:
        shared.world.wait(LATE_SECONDS)
    shared.asks()
    assert len(shared.questions(other)) == 1
    shared.answer(shared.main, second)


@pytest.mark.parametrize("method", ["elicitation/create", "roots/list", "com.example/other"])
def test_what_no_client_at_work_can_be_asked_is_refused_at_once(method: str) -> None:
    shared = Shared()
    for client in (shared.client({}), shared.client({})):
        shared.sent(client)
    shared.world.say(shared.main, request("q", method, ASK))
    assert shared.world.received(shared.main) == [
        failure("q", -32601, f"Method not found: {method}")
    ]
    assert not shared.world.router.servers["a"].main.requests.are_open


def test_a_request_that_is_about_no_call_waits_for_nobody() -> None:
    shared = Shared()
    for client in (shared.client({"roots": {}}), shared.client({"roots": {}})):
        shared.sent(client)
    shared.world.say(shared.main, request("q", "roots/list"))
    assert shared.world.received(shared.main) == [UNKNOWN]


def test_a_flood_of_questions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpagg_runtime.servers.server_requests.MAXIMUM_OPEN_REQUESTS", 3)
    monkeypatch.setattr("mcpagg_runtime.servers.server_requests.MAXIMUM_HELD_REQUESTS", 2)
    shared, _, number, second = both_at_work()
    for identifier in range(4):
        shared.asks(identifier=identifier)
    refused = shared.world.received(shared.main)
    assert refused == [{**UNKNOWN, "id": 2}, {**UNKNOWN, "id": 3}]
    shared.answer(shared.main, second)
    assert len(shared.questions(shared.first)) == 2
    for identifier in range(4, 6):
        shared.asks(identifier=identifier)
    too_many = failure(5, -32603, "Too many requests are open")
    assert shared.world.received(shared.main) == [too_many]
    shared.answer(shared.main, number)


def test_calls_that_were_taken_back_are_forgotten_each_in_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Shared()
    for number in range(100):
        shared.world.say(shared.first, call(number, "a:t"), cancelled(number))
    late, armed = shared.main.requests.late, list[float]()
    monkeypatch.setattr(shared.world.core.effects, "arm", armed.append)
    late.expire(shared.world.now)
    assert armed == [shared.world.now + LATE_SECONDS]  # of 100, the soonest alone is looked at
    late.expire(shared.world.now + LATE_SECONDS)
    assert (len(armed), late.parties()) == (1, set())


def test_a_call_that_comes_has_not_all_that_wait_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Shared()
    shared.sent(shared.first)  # for a moment it is alone
    tried: list[object] = []
    holds_back = ServerRequests.holds_back

    def noted(requests: ServerRequests, call: Call) -> bool:
        tried.append(call)
        return holds_back(requests, call)

    monkeypatch.setattr(ServerRequests, "holds_back", noted)
    other = shared.client()
    for number in range(100):
        shared.world.say(other, call(number, "a:t"))
    assert shared.got(shared.main) == []
    assert len(tried) == 100
    shared.world.wait(ALONE_SECONDS)
    assert len(shared.got(shared.main)) == 100


def test_of_what_clients_make_up_no_first_call_is_remembered() -> None:
    shared = Shared(resources={"a": ["res:/x"]}, capabilities={"resources": {}})
    other = shared.client()
    for client in (shared.first, other):
        shared.world.say(client, request(1, "resources/read", {"uri": "res:/x"}))
    got = [one["method"] for one in shared.world.received(shared.main)]
    assert got == ["resources/read", "resources/read"]
    shared.sent(shared.first)
    shared.world.say(other, request(2, "resources/read", {"uri": "res:/x"}))
    assert len(shared.world.received(shared.main)) == 1


def test_what_an_instance_that_others_have_used_asks_outside_of_calls_is_for_nobody() -> None:
    shared = Shared()
    shared.answer(shared.main, *shared.sent(shared.client()))
    shared.answer(shared.main, shared.asked())
    shared.world.lines(shared.first)
    shared.asks()
    assert shared.questions(shared.first) == []
    assert shared.world.received(shared.main) == [OUTSIDE]


@pytest.mark.parametrize("on_drift", ["live", "refuse"])
def test_what_one_clients_instance_lists_changes_no_other_ones_list(on_drift: str) -> None:
    shared = Shared(on_drift=on_drift)
    shared.answer(shared.main, shared.asked())
    other = shared.client()
    shared.sent(other)
    shared.world.lines(shared.first)
    shared.world.wait(1)
    child = shared.world.up(shared.world.own("a", other), ["t", "x"])
    shared.world.wait(1)
    shared.world.give_list(child, ["t", "x"])
    assert shared.world.received(shared.first) == []
    listed = shared.world.ask(other, request(2, "tools/list"))["result"]["tools"]
    assert [one["name"] for one in listed] == ["a:t", "a:u"]


def test_a_spare_instance_that_ended_or_is_at_a_strangers_call_is_given_to_nobody() -> None:
    shared = Shared()
    shared.answer(shared.main, shared.asked())

    def instance() -> tuple[Client, Child, int]:
        client = shared.world.modern()
        client.audience = shared.everybody
        shared.world.say(client, enveloped(call(1, "a:t"), ABLE))
        [child] = [one for one in shared.world.router.servers["a"] if one.calls.any_waits]
        [number] = shared.got(shared.own_of(child))
        return client, child, number

    client, first, number = instance()
    shared.world.say(first, result(number, {}))
    shared.world.leave(client)
    shared.world.down(first)
    client, second, number = instance()
    assert second is not first
    shared.world.leave(client)
    assert instance()[1] is not second


def test_what_the_instance_of_one_client_asks_outside_of_calls_is_for_it() -> None:
    shared = Shared()
    shared.answer(shared.main, shared.asked())
    shared.world.lines(shared.first)
    shared.asks()
    assert len(shared.questions(shared.first)) == 1


def test_a_log_that_may_be_of_two_reaches_none_and_that_is_said_once() -> None:
    shared = Shared(capabilities={"logging": {}})
    other = shared.client()
    shared.answer(shared.main, *shared.sent(shared.first))
    shared.sent(shared.first), shared.sent(other)
    shared.world.lines(shared.first), shared.world.lines(other)
    for _ in range(2):
        log = notification("notifications/message", {"level": "error", "data": "d"})
        shared.world.say(shared.main, log)
    assert shared.world.lines(shared.first) == shared.world.lines(other) == []
    assert shared.world.said == [f"server 'a' {LOST_LOG}"]


def test_what_an_instance_says_reaches_its_own_client_alone() -> None:
    shared = Shared(capabilities={"logging": {}})
    shared.answer(shared.main, shared.asked())
    other = shared.client()
    shared.sent(other)
    child = shared.own(other)
    shared.answer(child, *shared.got(child))
    shared.world.lines(shared.first), shared.world.lines(other)
    shared.world.say(child, notification("notifications/message", {"level": "error", "data": 1}))
    assert shared.world.lines(shared.first) == []
    assert len(shared.world.lines(other)) == 1


# --- Servers of both eras ---------------------------------------------------------------------

SHAKEN = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
BOTH = {"a": {"protocol": "2026-07-28", "handshake": SHAKEN}}


def test_a_server_of_both_eras_is_spoken_to_in_the_era_of_the_client() -> None:
    world = World({"a": ["t"]}, facts=BOTH, start="lazy")
    legacy, modern = world.client(), world.modern()
    world.say(legacy, call(1, "a:t"))
    old = world.own("a", legacy)
    world.do(world.core.child_up(old))
    [hello] = world.received(old)
    assert (hello["method"], hello["params"]["protocolVersion"]) == ("initialize", "2025-06-18")
    assert world["a"].state == "created"
    world.say(modern, enveloped(call(1, "a:t")))
    world.do(world.core.child_up(world["a"]))
    assert [one["method"] for one in world.received(world["a"])] == ["server/discover"]
    assert world.router.servers["a"].state == "starting"


def test_a_server_of_both_eras_has_no_process_for_an_era_that_nobody_speaks() -> None:
    world = World({"a": ["t"]}, facts=BOTH)
    world.client()
    assert world.started == ["a"]
    assert world["a"].state == "created"
