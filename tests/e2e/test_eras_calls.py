"""Calls from one era of the protocol to the other, one pipe that speaks both, and odd turns."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled
from validity import check, passed
from wire import (
    MODERN,
    TAP,
    Json,
    Wire,
    call,
    enveloped,
    events,
    initialize,
    legacy_entry,
    modern_entry,
    tapped,
    text,
)

ELICITS: Json = {"elicitation": {}}
FORM: Json = {"type": "object", "properties": {"answer": {"type": "string"}}}
ASKS_AND_SLEEPS: Json = {
    "do": "steps",
    "steps": [
        {"ask": "elicitation/create", "params": {"message": "m", "requestedSchema": FORM}},
        {"sleep": 3600},
    ],
}
CHOOSERS = ["echo", "choose", "sleep", "die"]


class Site:
    """A folder with an emitted file and taps on both of its sides."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client_log = folder / "client.tap"
        self.known = False
        """Whether the child is known to ask, for tests where that matters."""

    def compile(self, *flags: str, **entries: Json) -> Site:
        """Compile these servers, each behind a tap and with a log, and forget what was said."""
        servers = {name: self.watched(name, entry) for name, entry in entries.items()}
        compiled(self.folder, servers, *flags)
        for log in [*self.folder.glob("*.tap"), *self.folder.glob("*.log")]:
            log.unlink()
        return self

    def watched(self, name: str, entry: Json) -> Json:
        """Return the entry of a stub behind a tap; the stub notes faults as well."""
        options = {**json.loads(entry["args"][-1]), "log": str(self.folder / f"{name}.log")}
        logged = {**entry, "args": [*entry["args"][:-1], json.dumps(options)]}
        return tapped(logged, self.log(name))

    def log(self, name: str) -> Path:
        """Return the log of the tap before a child."""
        return self.folder / f"child-{name}.tap"

    @contextmanager
    def running(self) -> Iterator[Wire]:
        """Run the emitted file; at the end, all that it said must have been right."""
        with Wire([*TAP, self.client_log, *TAP[:-1], self.folder / "server.py"]) as wire:
            yield wire
        check(self.client_log, "server")
        for log in self.folder.glob("child-*.tap"):
            check(log, "client")

        assert not [fault for log in self.folder.glob("*.log") for fault in events(log, "fault")]

    def said_to(self, name: str) -> list[Json]:
        """Return the messages that the proxy sent to a child."""
        said = [line for _, sender, line in passed(self.log(name)) if sender == "client"]
        return [json.loads(line) for line in said]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture(scope="module", params=["known to ask", "not known to ask"])
def asking(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return a proxy of one legacy child that asks in the middle of calls."""
    known = request.param == "known to ask"
    options: Json = {"needs": {"choose": "elicitation"}} if known else {}
    site = Site(tmp_path_factory.mktemp("asking"))
    site.known = known
    return site.compile(one=legacy_entry(tools=CHOOSERS, **options))


def modern_call(wire: Wire, tool: str, /, **arguments: Any) -> Any:
    """Start a call of a modern client that can be asked; return its id."""
    return wire.start_request(
        "tools/call", enveloped({"name": tool, "arguments": arguments}, ELICITS)
    )


def retry(wire: Wire, question: Json, answer: str, tool: str, /, **arguments: Any) -> Any:
    """Start the call again with an answer to what was asked; return its id."""
    result = question["result"]
    given = {
        key: {"action": "accept", "content": {"answer": answer}} for key in result["inputRequests"]
    }
    params = {"name": tool, "arguments": arguments, "inputResponses": given}
    params["requestState"] = result["requestState"]
    return wire.start_request("tools/call", enveloped(params, ELICITS))


def asked(response: Json) -> str:
    """Return the text of the one question that a call was answered with."""
    assert response["result"]["resultType"] == "input_required", response
    (question,) = response["result"]["inputRequests"].values()
    return str(question["params"]["message"])


def first_response(wire: Wire, numbers: list[Any]) -> Json:
    """Return the first response that comes to any of these requests."""
    return wire.take(lambda line: line.message.get("id") in numbers).message


def refusal(response: Json) -> int:
    return int(response["error"]["code"])


# One pipe, both eras


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_one_pipe_speaks_both_eras(site: Site, era: str) -> None:
    entry = legacy_entry() if era == "legacy" else modern_entry()
    site.compile(one=entry)
    with site.running() as wire:
        found = wire.request("server/discover", enveloped())["result"]
        assert found["supportedVersions"] == [MODERN]
        assert initialize(wire)["protocolVersion"] == "2025-11-25"
        bare = wire.request("tools/list")["result"]
        listed = wire.request("tools/list", enveloped())["result"]
        assert "resultType" not in bare
        assert listed["resultType"] == "complete"
        assert listed["tools"] == bare["tools"]
        params = enveloped({"name": "one:echo", "arguments": {"a": 1}})
        answer = wire.request("tools/call", params)
        assert text(answer) == '{"a":1}'
        assert answer["result"]["resultType"] == "complete"
        own = call(wire, "one:echo", a=2)
        assert text(own) == '{"a":2}'
        assert "resultType" not in own["result"]


# Calls that a legacy child asks in the middle of, for a client that can only be asked by results


def test_three_calls_at_once_get_the_answers_to_what_they_asked(asking: Site) -> None:
    """A question may be carried by another call of its client; its answer reaches its own."""
    with asking.running() as wire:
        open_calls = {modern_call(wire, "one:choose", message=text): text for text in "abc"}
        served = {}
        while open_calls:
            response = first_response(wire, [*open_calls])
            said = open_calls.pop(response["id"])
            if response["result"]["resultType"] == "input_required":
                answer = asked(response) * 3
                open_calls[retry(wire, response, answer, "one:choose", message=said)] = said
            else:
                served[said] = json.loads(text(response))
        for said, outcome in served.items():
            accepted = {"action": "accept", "content": {"answer": said * 3}}
            assert outcome == {**outcome, "asked": said, "answer": accepted}
        wire.end_input()
        assert wire.wait() == 0


def test_what_is_suspended_for_ever_is_in_nobodys_way(asking: Site) -> None:
    with asking.running() as wire:
        suspended = [wire.response(modern_call(wire, "one:choose", message="x")) for _ in range(3)]
        assert [asked(one) for one in suspended] == ["x", "x", "x"]
        assert text(wire.response(modern_call(wire, "one:echo", a=1))) == '{"a":1}'
        question = wire.response(modern_call(wire, "one:choose", message="y"))
        assert asked(question) == "y"
        answer = wire.response(retry(wire, question, "yes", "one:choose", message="y"))
        assert json.loads(text(answer))["answer"]["content"] == {"answer": "yes"}
        wire.end_input()
        assert wire.wait() == 0


def test_a_call_is_taken_up_once_and_only_by_itself(asking: Site) -> None:
    with asking.running() as wire:
        question = wire.response(modern_call(wire, "one:choose", message="x"))
        state = question["result"]["requestState"]
        for wrong in (state + "0", state[:-1], state.upper(), "mcpagg:", "other"):
            forged = {"result": {**question["result"], "requestState": wrong}}
            answer = wire.response(retry(wire, forged, "no", "one:choose", message="x"))
            assert refusal(answer) == -32602
        assert (
            refusal(wire.response(retry(wire, question, "no", "one:echo", message="x"))) == -32602
        )
        assert refusal(wire.response(retry(wire, question, "no", "one:choose"))) == -32602
        answer = wire.response(retry(wire, question, "yes", "one:choose", message="x"))
        assert json.loads(text(answer))["answer"]["content"] == {"answer": "yes"}
        again = wire.response(retry(wire, question, "yes", "one:choose", message="x"))
        assert refusal(again) == -32602


def test_a_question_that_is_not_answered_is_asked_again(asking: Site) -> None:
    with asking.running() as wire:
        question = wire.response(modern_call(wire, "one:choose", message="x"))
        state = {"requestState": question["result"]["requestState"], "inputResponses": {"no": {}}}
        params = {"name": "one:choose", "arguments": {"message": "x"}, **state}
        again = wire.request("tools/call", enveloped(params, ELICITS))
        assert asked(again) == "x"
        answer = wire.response(retry(wire, again, "yes", "one:choose", message="x"))
        assert json.loads(text(answer))["answer"]["content"] == {"answer": "yes"}


def test_a_client_that_cannot_be_asked_is_not(asking: Site) -> None:
    """A child asks, and hears that there is no such method; or has no such tool for the client."""
    with asking.running() as wire:
        params = enveloped({"name": "one:choose", "arguments": {"message": "x"}})
        answer = wire.request("tools/call", params)
        if asking.known:
            assert refusal(answer) == -32602
        else:
            assert json.loads(text(answer))["answer"]["code"] == -32601


def test_a_call_that_was_suspended_can_be_cancelled_once_resumed(site: Site) -> None:
    """The second question of a call is withdrawn with it; the child hears of it."""
    site.compile(one=legacy_entry(tools=["echo", "long"], does={"long": ASKS_AND_SLEEPS}))
    with site.running() as wire:
        question = wire.response(modern_call(wire, "one:long"))
        number = retry(wire, question, "yes", "one:long")
        wire.notify("notifications/cancelled", {"requestId": number})
        assert text(wire.response(modern_call(wire, "one:echo", a=1))) == '{"a":1}'
        assert not [m for m in wire.messages() if m.get("id") == number]
    said = site.said_to("one")
    call_id = next(m["id"] for m in said if m.get("method") == "tools/call")
    cancelled = [m["params"] for m in said if m.get("method") == "notifications/cancelled"]
    assert cancelled == [{"requestId": call_id}]


def test_a_child_that_dies_while_a_call_is_suspended_is_told_on_the_retry(site: Site) -> None:
    site.compile(one=legacy_entry(tools=CHOOSERS), other=legacy_entry())
    with site.running() as wire:
        question = wire.response(modern_call(wire, "one:choose", message="x"))
        death = wire.response(modern_call(wire, "one:die"))
        assert "SIGKILL" in death["error"]["message"] or "exit" in death["error"]["message"]
        answer = wire.response(retry(wire, question, "yes", "one:choose", message="x"))
        assert answer["error"]["code"] == -32603
        assert "'one'" in answer["error"]["message"]
        assert text(wire.response(modern_call(wire, "other:echo", a=1))) == '{"a":1}'


# Children that are of another era than when they were compiled


def turned(site: Site, before: Json, after: Json) -> Path:
    """Compile against one server, and let another one be there when it runs; return its tap."""
    script = site.folder / "server.sh"
    log = site.log("one")

    def write(entry: Json) -> None:
        watched = site.watched("one", entry)
        command = shlex.join([watched["command"], *watched["args"]])
        script.write_text(f"exec {command}\n")

    write(before)
    compiled(site.folder, {"one": {"command": "sh", "args": [str(script)]}})
    write(after)
    for written in (log, *site.folder.glob("*.log")):  # what compiling has said
        written.unlink()
    return log


@pytest.mark.parametrize("client", ["legacy", "modern"])
@pytest.mark.parametrize("how", ["error", "unknown", "exit"])
def test_a_legacy_child_that_became_modern_is_opened_anew(
    site: Site, client: str, how: str
) -> None:
    log = turned(site, legacy_entry(), modern_entry(initialize=how))
    with site.running() as wire:
        if client == "legacy":
            initialize(wire)
        if how == "exit":  # as any server that does not come up
            answer = outcome(wire, client)
            assert answer["error"]["code"] == -32603
            return
        assert text(outcome(wire, client)) == '{"a":1}'
    lives = {pid: line for pid, sender, line in reversed(passed(log)) if sender == "client"}
    first = [json.loads(line)["method"] for line in lives.values()]
    assert sorted(first) == ["initialize", "server/discover"]


@pytest.mark.parametrize("client", ["legacy", "modern"])
@pytest.mark.parametrize("how", ["answers", "exits"])
def test_a_modern_child_that_became_legacy_is_opened_anew(
    site: Site, client: str, how: str
) -> None:
    strict: Json = {"strict": "exit"} if how == "exits" else {}
    log = turned(site, modern_entry(), legacy_entry(**strict))
    with site.running() as wire:
        if client == "legacy":
            initialize(wire)
        assert text(outcome(wire, client)) == '{"a":1}'
    lives = {pid: line for pid, sender, line in reversed(passed(log)) if sender == "client"}
    first = [json.loads(line)["method"] for line in lives.values()]
    assert sorted(first) == ["initialize", "server/discover"]


def outcome(wire: Wire, client: str) -> Json:
    """Return the answer to a call, from a client of an era."""
    if client == "legacy":
        return call(wire, "one:echo", a=1)
    return wire.response(modern_call(wire, "one:echo", a=1))


@pytest.mark.parametrize("client", ["legacy", "modern"])
def test_a_modern_child_that_always_exits_at_its_discovery_is_down(site: Site, client: str) -> None:
    """It is tried in the other era as well, and then said to be down."""
    exits: Json = {"at": {"server/discover": [{"exit": 3}], "initialize": [{"exit": 4}]}}
    log = turned(site, modern_entry(), modern_entry(**exits))
    with site.running() as wire:
        if client == "legacy":
            initialize(wire)
        answer = outcome(wire, client)
        assert answer["error"]["code"] == -32603
        assert "exited with status" in answer["error"]["message"]
    assert len({pid for pid, _, _ in passed(log)}) == 2
