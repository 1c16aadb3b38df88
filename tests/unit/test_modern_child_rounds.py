"""The rounds of a call to a server of 2026-07-28 that asks its client something."""

from __future__ import annotations

from typing import Any

import pytest
from core import ASKABLE, World, by, call, cancelled, failure, result
from modern_children import (
    ACCEPTED,
    FACTS,
    FORM,
    ROOTS_LIST,
    Scene,
    elicitation,
    envelope,
    required,
)

from mcpagg_runtime.modern.rounds import MAXIMUM_ROUNDS


def test_required_input_is_asked_of_the_client_and_brought_back() -> None:
    scene = Scene()
    [asked] = scene.asked("state", key=elicitation())
    assert (asked["method"], asked["params"]) == ("elicitation/create", {**FORM, **by("m")})
    again = scene.answer(result(asked["id"], ACCEPTED))
    assert again["method"] == "tools/call"
    assert again["params"] == {
        "name": "t",
        "inputResponses": {"key": ACCEPTED},
        "requestState": "state",
        "_meta": envelope(ASKABLE),
    }
    scene.end()


def test_state_and_answers_keep_their_text() -> None:
    scene = Scene()
    scene.world.say(
        scene.m,
        f'{{"id":{scene.sent["id"]},"result":{{"resultType":"input_required",'
        '"requestState":"\\ud800\\u0041","inputRequests":{"\\ud800":{"method":"roots/list"}}}}',
    )
    [asked] = scene.received()
    scene.world.say(scene.client, f'{{"id":{asked["id"]},"result":{{"b":1.0,"a":1e999}}}}')
    [line] = scene.world.lines(scene.m)
    assert '"requestState":"\\ud800\\u0041"' in line
    assert '"inputResponses":{"\\ud800":{"b":1.0,"a":1e999}}' in line


def test_several_questions_are_asked_at_once_and_answered_in_any_order() -> None:
    scene = Scene()
    one, two = scene.asked(x=elicitation(), y=ROOTS_LIST)
    scene.world.say(scene.client, result(two["id"], {"roots": []}))
    assert scene.got() == []
    again = scene.answer(result(one["id"], ACCEPTED))
    assert again["params"]["inputResponses"] == {"x": ACCEPTED, "y": {"roots": []}}
    assert "requestState" not in again["params"]
    scene.end()


def test_answers_are_of_one_round() -> None:
    scene = Scene()
    for key in ("x", "y"):
        [asked] = scene.asked(**{key: elicitation()})
        again = scene.answer(result(asked["id"], ACCEPTED))
        assert again["params"]["inputResponses"] == {key: ACCEPTED}
    scene.end()


def test_what_a_server_answers_to_a_notification_ends_no_call() -> None:
    scene = Scene()
    scene.call(2)
    error = {"code": -32601, "message": "Method not found: notifications/cancelled"}
    scene.world.say(scene.m, {"jsonrpc": "2.0", "id": None, "error": error})
    assert scene.got() == []


def test_an_answer_counts_once() -> None:
    scene = Scene()
    [asked] = scene.asked(k=elicitation())
    scene.answer(result(asked["id"], ACCEPTED))
    scene.world.say(scene.client, result(asked["id"], {"action": "cancel"}))
    assert scene.got() == []
    scene.end()


def test_rounds_are_bounded() -> None:
    scene = Scene()
    for _ in range(MAXIMUM_ROUNDS - 1):
        [asked] = scene.asked(k=elicitation())
        scene.answer(result(asked["id"], ACCEPTED))
    [answer] = scene.asked(k=elicitation())
    why = f"Server 'm' asked for more than {MAXIMUM_ROUNDS} rounds of input"
    assert answer == failure(1, -32603, why)
    assert scene.world.idle()


def test_only_so_much_input_is_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpagg_runtime.servers.server_requests.MAXIMUM_OPEN_REQUESTS", 2)
    scene = Scene()
    asked = scene.asked(j=elicitation(), k=elicitation(), m=elicitation())
    assert [one["method"] for one in asked] == ["elicitation/create"] * 2
    retry = scene.answer(*[result(one["id"], ACCEPTED) for one in asked])
    assert retry["params"]["inputResponses"] == {
        "j": ACCEPTED,
        "k": ACCEPTED,
        "m": {"action": "cancel"},
    }
    scene.end()


def test_a_state_alone_means_try_again_later() -> None:
    scene = Scene()
    for number, wait in enumerate((0.05, 0.1, 0.2, 0.25)):
        assert scene.asked(number) == []
        scene.world.wait(wait - 0.01)
        assert scene.got() == []
        scene.world.wait(0.01)
        [scene.sent] = scene.got()
        assert scene.sent["params"]["requestState"] == number
        assert "inputResponses" not in scene.sent["params"]
    scene.end()


@pytest.mark.parametrize(
    "asked",
    [
        {"k": {"method": "tools/call", "params": {}}},
        {"k": {"method": ["x"], "params": {}}},
        {"k": {"method": {}, "params": {}}},
        {"k": {"method": "elicitation/create", "params": []}},
        {"k": {"params": {}}},
        {"k": 5},
        {"k": ROOTS_LIST, "l": {"method": "future/kind"}},
        ["k"],
        "k",
    ],
)
def test_input_of_an_unknown_kind_fails_the_call(asked: Any) -> None:
    scene = Scene()
    scene.say({"resultType": "input_required", "inputRequests": asked})
    why = "Server 'm' requires input of a kind that cannot be asked for"
    assert scene.received() == [failure(1, -32603, why)]
    assert scene.world.idle()


def test_a_visit_gets_the_id_that_older_revisions_want() -> None:
    scene = Scene()
    [one, two] = scene.asked(x=elicitation(mode="url"), y=elicitation(mode="url"))
    assert type(one["params"]["elicitationId"]) is str
    assert one["params"]["elicitationId"] != two["params"]["elicitationId"]


def test_a_client_that_cannot_be_asked_is_not() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    client, m = world.client({"roots": {}}), world.up("m")
    world.say(client, call(1, "m:t"))
    [sent] = world.received(m)
    world.say(m, result(sent["id"], required(k=elicitation())))
    [again] = world.received(m)
    assert again["params"]["inputResponses"] == {"k": {"action": "cancel"}}
    assert world.received(client) == []


def test_an_elicitation_that_fails_is_cancelled() -> None:
    scene = Scene()
    [asked] = scene.asked(k=elicitation())
    again = scene.answer(failure(asked["id"], -1, "no"))
    assert again["params"]["inputResponses"] == {"k": {"action": "cancel"}}
    scene.end()


@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage"])
def test_another_question_that_fails_fails_the_call(method: str) -> None:
    scene = Scene()
    one, two = scene.asked(x={"method": method, "params": {}}, y=elicitation())
    scene.world.say(scene.client, failure(one["id"], -1, "no"))
    why = f"Server 'm' asked the client for {method} and was refused"
    assert scene.received() == [cancelled(two["id"]), failure(1, -32603, why)]
    scene.world.say(scene.client, result(two["id"], ACCEPTED))
    assert scene.got() == []
    assert scene.world.idle()


def test_a_question_that_cannot_be_asked_fails_the_call_before_the_next_is() -> None:
    world = World({"m": ["t"]}, facts=FACTS)
    client, m = world.client({"elicitation": {}}), world.up("m")
    world.say(client, call(1, "m:t"))
    [sent] = world.received(m)
    world.say(m, result(sent["id"], required(x=ROOTS_LIST, y=elicitation())))
    [answer] = world.received(client)
    assert answer["error"]["code"] == -32603
    assert world.idle()


def test_two_calls_of_one_client_are_asked_each_its_own() -> None:
    scene = Scene()
    first, second = scene.sent, scene.call(2)
    scene.world.say(scene.m, result(first["id"], required(1, k=elicitation())))
    scene.world.say(scene.m, result(second["id"], required(2, k=elicitation())))
    one, two = scene.received()
    scene.world.say(scene.client, result(two["id"], {"n": 2}), result(one["id"], {"n": 1}))
    params = {line["params"]["requestState"]: line["params"] for line in scene.got()}
    assert params[1]["inputResponses"] == {"k": {"n": 1}}
    assert params[2]["inputResponses"] == {"k": {"n": 2}}


def test_a_question_in_a_round_holds_up_no_other_client() -> None:
    scene = Scene()
    scene.asked(k=elicitation())
    other = scene.world.client()
    scene.world.say(other, call(1, "m:t"))
    assert len(scene.got()) == 1


def test_a_child_of_this_revision_takes_no_turns() -> None:
    world = World({"m": ["t"]}, facts=FACTS, conditional={"m": ["t"]})
    one, two, m = world.client(ASKABLE), world.client(ASKABLE), world.up("m")
    world.say(one, call(1, "m:t"))
    world.say(two, call(1, "m:t"))
    assert len(world.received(m)) == 2
