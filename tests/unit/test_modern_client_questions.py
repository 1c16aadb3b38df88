"""What servers ask clients of 2026-07-28, in the results of their calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import (
    ASKABLE,
    PREFIX,
    ROOTS,
    Json,
    World,
    by,
    call,
    cancelled,
    enveloped,
    failure,
    request,
    result,
    retried,
)
from modern_clients import ACCEPTED, DENIED, FORM, SIGNED, Scene, complete, modern_call

from mcpagg_runtime.messages.protocol import CAPABILITIES_KEY
from mcpagg_runtime.modern import retries
from mcpagg_runtime.modern.retries import SUSPENDED_SECONDS

ASKED: Json = {**FORM, "message": "[a] m", **by("a")}


# --- A child asks ---------------------------------------------------------------------------


def test_a_question_parks_the_call_until_it_is_answered() -> None:
    scene = Scene()
    asked = scene.asked()
    assert asked == result(
        1,
        {
            "resultType": "input_required",
            "requestState": "mcpagg:h1:h2",
            "inputRequests": {"1": {"method": "elicitation/create", "params": ASKED}},
            **SIGNED,
        },
    )
    scene.take_up("2", asked, {"1": ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED)]
    assert scene.received() == []
    scene.end("2")


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage", "roots/list"])
def test_every_kind_of_question_can_be_asked(method: str) -> None:
    scene = Scene()
    asked = scene.asked(7, method)
    assert asked["result"]["inputRequests"]["1"]["method"] == method
    scene.take_up(2, asked, {"1": {"any": 1.0}})
    assert scene.got() == [result(7, {"any": 1.0})]
    scene.end(2)


def test_an_answer_reaches_the_child_as_the_same_text() -> None:
    scene = Scene()
    text = json.dumps(retried(2, scene.message, scene.asked(), {"1": {}}))
    scene.world.say(scene.client, text.replace('{"1": {}}', '{"1":{"b":1.0,"a":"\\ud800"}}'))
    assert scene.world.lines(scene.a) == [PREFIX + '"id":"q","result":{"b":1.0,"a":"\\ud800"}}']


def test_a_question_loses_what_this_revision_does_not_know() -> None:
    scene = Scene()
    more = {"_meta": {"progressToken": 1}, "task": {}, "elicitationId": "e", "mode": "url"}
    scene.world.say(scene.a, request("q", "elicitation/create", {**FORM, **more}))
    [asked] = scene.received()
    assert asked["result"]["inputRequests"]["1"]["params"] == {**ASKED, "mode": "url"}


def test_a_question_without_params_gets_some() -> None:
    scene = Scene()
    scene.world.say(scene.a, request("q", "roots/list"))
    [asked] = scene.received()
    assert asked["result"]["inputRequests"] == {"1": {"method": "roots/list", "params": by("a")}}


def test_several_rounds_ask_one_after_the_other() -> None:
    scene = Scene()
    first = scene.asked("q")
    scene.take_up(2, first, {"1": ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED)]
    second = scene.asked("q")
    assert (second["id"], list(second["result"]["inputRequests"])) == (2, ["2"])
    scene.take_up(3, second, {"2": {"action": "decline"}})
    assert scene.got() == [result("q", {"action": "decline"})]
    scene.end(3)


def test_a_second_question_waits_for_the_next_round() -> None:
    scene = Scene()
    asked = scene.asked("q")
    scene.world.say(scene.a, request("r", "roots/list"))
    assert scene.received() == []
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED)]
    [again] = scene.received()
    assert list(again["result"]["inputRequests"]) == ["2"]
    scene.take_up(3, again, {"2": {"roots": []}})
    assert scene.got() == [result("r", {"roots": []})]
    scene.end(3)


def test_several_questions_may_be_answered_at_once() -> None:
    scene = Scene()
    asked = scene.asked("q")
    scene.world.say(scene.a, request("r", "roots/list"))
    scene.take_up(2, asked, {"2": {"roots": []}, "1": ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED), result("r", {"roots": []})]
    scene.end(2)


@pytest.mark.parametrize("responses", [{}, None, [], {"2": ACCEPTED}, {"1": None}, {"1": "yes"}])
def test_a_missing_answer_is_asked_for_again(responses: Any) -> None:
    scene = Scene()
    asked = scene.asked()
    scene.take_up(2, asked, responses)
    assert scene.got() == []
    [again] = scene.received()
    assert again["id"] == 2
    assert again["result"]["inputRequests"] == asked["result"]["inputRequests"]
    assert again["result"]["requestState"] != asked["result"]["requestState"]
    scene.take_up(3, again, {"1": ACCEPTED, "9": ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED)]
    scene.end(3)


def test_a_call_is_taken_up_once() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.take_up(5, asked, {"1": ACCEPTED})
    scene.take_up(2, asked, {"1": {"action": "cancel"}})
    assert scene.received() == [DENIED]
    assert scene.got() == [result("q", ACCEPTED)]
    scene.end(5)


@pytest.mark.parametrize(
    "other",
    [
        modern_call(2, "a:u"),
        modern_call(2, "a_t"),
        modern_call(2, arguments={}),
        modern_call(2, arguments={"n": True}),
        enveloped(request(2, "prompts/get", {"name": "a:t"}), ASKABLE),
    ],
)
def test_the_input_for_one_call_is_none_for_another(other: Json) -> None:
    scene = Scene(prompts={"a": ["t"]})
    asked = scene.asked()
    scene.world.say(scene.client, retried(2, other, asked, {"1": ACCEPTED}))
    assert scene.received() == [DENIED]
    assert scene.got() == []
    scene.take_up(3, asked, {"1": ACCEPTED})
    scene.end(3)


@pytest.mark.parametrize("state", ["mcpagg:h1:h9", "mcpagg:", "of somebody else"])
def test_a_state_that_nobody_gave_is_refused(state: str) -> None:
    scene = Scene()
    scene.take_up(2, {"result": {"requestState": state}}, {})
    assert scene.received() == [DENIED]
    scene.end(1)


@pytest.mark.parametrize("state", ["mcpagg:h1:h9", "of somebody else"])
def test_a_state_that_nobody_gave_for_a_resource_is_refused(state: str) -> None:
    world = World({"a": ["t"]}, resources={"a": ["x:y"]})
    params = {"uri": "x:y", "requestState": state}
    assert world.ask(world.modern(), enveloped(request(2, "resources/read", params))) == DENIED


def test_who_takes_a_call_up_may_be_able_to_do_something_else() -> None:
    scene = Scene()
    asked = scene.asked()
    again = retried(2, scene.message, asked, {"1": ACCEPTED})
    again["params"]["_meta"][CAPABILITIES_KEY] = {}
    scene.world.say(scene.client, again)
    scene.got()
    scene.world.say(scene.a, request("r", "roots/list"))
    assert scene.got() == [failure("r", -32601, "Method not found: roots/list")]
    scene.end(2)


def test_who_resumes_a_call_is_asked_no_more_than_what_that_request_declares() -> None:
    scene = Scene()
    asked = scene.asked("q")
    scene.world.say(scene.a, request("r", "elicitation/create", FORM), request("s", "roots/list"))
    again = retried(2, scene.message, asked, {"1": ACCEPTED})
    again["params"]["_meta"][CAPABILITIES_KEY] = {"roots": {}}
    scene.world.say(scene.client, again)
    assert scene.got() == [
        result("q", ACCEPTED),
        failure("r", -32601, "Method not found: elicitation/create"),
    ]
    [rest] = scene.received()
    assert [r["method"] for r in rest["result"]["inputRequests"].values()] == ["roots/list"]
    scene.world.say(scene.client, retried(3, again, rest, {"3": {"roots": []}}))
    assert scene.got() == [result("s", {"roots": []})]
    scene.end(3)


def test_a_client_is_not_asked_what_it_cannot_do() -> None:
    scene = Scene(enveloped(call(1, "a:t"), ROOTS))
    scene.world.say(scene.a, request("q", "elicitation/create", FORM))
    assert scene.got() == [failure("q", -32601, "Method not found: elicitation/create")]
    scene.end(1)


def test_only_what_may_ask_asks() -> None:
    world = World({"a": ["t"]}, prompts={"a": ["p"]}, capabilities={"completions": {}})
    client = world.modern()
    reference = {"ref": {"type": "ref/prompt", "name": "a:p"}, "argument": {}}
    world.say(client, enveloped(request(1, "completion/complete", reference), ASKABLE))
    a = world.ready("a")
    [sent] = [line for line in world.received(a) if line["method"] == "completion/complete"]
    world.say(a, request("q", "roots/list"))
    assert world.received(a) == [failure("q", -32601, "Method not found: roots/list")]
    world.say(a, result(sent["id"], {"completion": {"values": []}}))
    [answer] = world.received(client)
    assert answer == result(1, {"completion": {"values": []}, "resultType": "complete", **SIGNED})


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage"])
def test_a_question_outside_calls_is_refused(method: str) -> None:
    scene = Scene()
    scene.end(1)
    scene.world.say(scene.a, request("q", method))
    assert scene.got() == [failure("q", -32603, "No client's call is under way")]


def test_roots_that_are_wanted_outside_calls_are_asked_for_at_the_next_one() -> None:
    scene = Scene()
    scene.end(1)
    scene.got(), scene.received()
    for number in ("old", "q", "r"):
        scene.world.say(scene.a, request(number, "roots/list"))
    scene.world.say(scene.a, cancelled("old"))
    assert scene.got() == []
    message = enveloped(call(2, "a:t"), ASKABLE)
    scene.world.say(scene.client, message)
    [suspended] = scene.received()
    asked = suspended["result"]["inputRequests"]
    assert [one["method"] for one in asked.values()] == ["roots/list", "roots/list"]
    [sent] = scene.got()
    roots: Json = {"roots": []}
    scene.world.say(scene.client, retried(3, message, suspended, dict.fromkeys(asked, roots)))
    assert scene.got() == [result("q", roots), result("r", roots)]
    scene.world.say(scene.a, result(sent["id"], {"content": []}))
    assert scene.received() == [complete(3, content=[])]


def test_a_question_that_the_child_takes_back_needs_no_answer() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.say(scene.a, cancelled("q"))
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.got() == []
    assert scene.received() == []
    scene.end(2)


def test_the_end_of_a_suspended_call_waits_for_its_client() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.say(scene.a, result(scene.sent["id"], {"content": ["late"]}))
    assert scene.received() == []
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.received() == [complete(2, content=["late"])]
    assert scene.world.idle()


def test_a_call_fails_with_its_child_although_it_is_suspended() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.down("a", "died")
    assert scene.received() == []
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.received() == [failure(2, -32603, "Server 'a' died", server="a")]
    assert scene.world.idle()


def test_a_client_that_never_comes_back_is_forgotten() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.wait(SUSPENDED_SECONDS - 1)
    assert scene.got() == []
    scene.world.wait(1)
    assert scene.got() == [
        cancelled(scene.sent["id"]),
        failure("q", -32603, "The client is gone"),
    ]
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.received() == [DENIED]
    assert scene.world.idle()


def test_only_so_many_calls_are_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "MAXIMUM_SUSPENDED", 1)
    scene = Scene()
    asked = scene.asked()
    scene.world.say(scene.client, modern_call(9, "a:u"))
    [other] = scene.got()
    scene.asked("r")
    assert scene.got() == [
        cancelled(scene.sent["id"]),
        failure("q", -32603, "The client is gone"),
    ]
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.received() == [DENIED]
    assert other["id"] in scene.a.connection.calls


# --- Whose turn it is -----------------------------------------------------------------------


def asking_scene() -> Scene:
    """Return a scene whose child has asked something, and waits for the answer."""
    scene = Scene()
    scene.asked()
    return scene


def test_a_suspended_call_holds_up_no_other_of_its_client() -> None:
    scene = asking_scene()
    scene.world.say(scene.client, modern_call(8, "a:u"))
    assert [line["params"] for line in scene.got()] == [{"name": "u"}]


def test_a_child_that_asks_is_given_all_calls_of_its_client_at_once() -> None:
    scene = asking_scene()
    scene.world.say(scene.client, modern_call(8, "a:u"), modern_call(9, "a:t"))
    assert [line["params"] for line in scene.got()] == [{"name": "u"}, {"name": "t"}]


def test_an_answer_waits_for_no_other_call() -> None:
    scene = Scene()
    asked = scene.asked()
    scene.world.say(scene.client, modern_call(8, "a:u"))
    scene.got()
    scene.take_up(2, asked, {"1": ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED)]


def test_two_calls_are_asked_each_its_own() -> None:
    scene = Scene()
    first = scene.asked("q")
    other = modern_call(8, "a:u")
    scene.world.say(scene.client, other)
    [sent] = scene.got()
    second = scene.asked("r")
    assert (first["id"], second["id"]) == (1, 8)
    scene.world.say(scene.client, retried(9, other, second, {"1": {"n": 2}}))
    assert scene.got() == [result("r", {"n": 2})]
    scene.world.say(scene.a, result(sent["id"], {"content": [2]}))
    assert scene.received() == [complete(9, content=[2])]
    scene.take_up(2, first, {"1": {"n": 1}})
    assert scene.got() == [result("q", {"n": 1})]
    scene.end(2)


def test_a_question_of_one_of_two_calls_of_a_client_is_asked_by_the_younger_one() -> None:
    scene = Scene()
    scene.world.say(scene.client, modern_call(2, "a:u"))
    scene.got()
    assert scene.asked()["id"] == 2
    assert scene.got() == []


def test_a_question_is_asked_by_the_other_call_when_the_one_that_carried_it_ends() -> None:
    scene = Scene()
    other = modern_call(2, "a:u")
    scene.world.say(scene.client, other)
    [sent] = scene.got()
    first = scene.asked()
    scene.world.say(scene.a, result(sent["id"], {"content": ["done"]}))
    scene.world.say(scene.client, retried(3, other, first, {}))
    ended, again = scene.received()
    assert ended == complete(3, content=["done"])
    assert again["id"] == 1
    [number] = again["result"]["inputRequests"]
    scene.take_up(4, again, {number: ACCEPTED})
    assert scene.got() == [result("q", ACCEPTED)]
    scene.end(4)


def test_what_one_event_asks_a_call_is_asked_at_once() -> None:
    scene = Scene()
    other = modern_call(2, "a:u")
    scene.world.say(scene.client, other)
    [sent] = scene.got()
    for question in ("q", "r", "s"):  # the younger one carries the first and the third
        scene.world.say(scene.a, request(question, "elicitation/create", FORM))
    younger, older = scene.received()
    scene.take_up(3, older, {"1": ACCEPTED})
    assert scene.got() == [result("r", ACCEPTED)]
    scene.world.say(scene.a, result(sent["id"], {"content": []}))
    scene.world.say(scene.client, retried(4, other, younger, {}))
    ended, again = scene.received()
    assert (ended["id"], again["id"]) == (4, 3)
    scene.take_up(5, again, dict.fromkeys(again["result"]["inputRequests"], ACCEPTED))
    assert scene.got() == [result("q", ACCEPTED), result("s", ACCEPTED)]
    scene.end(5)


def test_roots_are_those_of_any_call() -> None:
    scene = Scene()
    scene.world.say(scene.client, modern_call(2, "a:u"))
    scene.got()
    assert scene.asked("q", "roots/list")["result"]["resultType"] == "input_required"


def test_a_suspended_call_holds_up_no_other_connection() -> None:
    scene = asking_scene()
    other = scene.world.modern()
    scene.world.say(other, modern_call(1, "a:u"))
    assert scene.got() == []
    own = scene.world.up(scene.world.own("a", other))
    assert own is not scene.a
    assert [line["params"] for line in scene.world.received(own)] == [{"name": "u"}]
