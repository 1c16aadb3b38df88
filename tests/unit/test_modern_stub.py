"""The modern stub holds its client to 2026-07-28, and misbehaves as asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wire import (
    ENVELOPE,
    LATEST,
    MODERN,
    ClosedError,
    Wire,
    enveloped,
    events,
    modern_entry,
    modern_stub,
    text,
)

Json = dict[str, Any]

FORM: Json = {"elicitation": {"form": {}}}
HINTS = {"ttlMs": 60_000, "cacheScope": "public"}
META = {"_meta": {ENVELOPE["serverInfo"]: {"name": "modern", "version": "1"}}}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Return where a stub may note what happens to it; no fault may be in it at the end."""
    path = tmp_path / "stub.log"
    yield path
    assert events(path, "fault") == []


def request(wire: Wire, method: str, params: Json | None = None, **meta: Any) -> Json:
    """Send an enveloped request and return the response."""
    return wire.request(method, enveloped(params, FORM, **meta))


def call(wire: Wire, tool: str, /, **arguments: Any) -> Json:
    """Call a tool and return the response."""
    return request(wire, "tools/call", {"name": tool, "arguments": arguments})


def test_without_options_it_is_a_plain_server(log: Path) -> None:
    with Wire(modern_stub(log=str(log))) as wire:
        assert request(wire, "server/discover")["result"] == {
            "resultType": "complete",
            "supportedVersions": [MODERN],
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            **HINTS,
            **META,
        }
        (tool,) = request(wire, "tools/list")["result"].pop("tools")
        assert tool["name"] == "echo"
        assert call(wire, "echo", a=[1, "ü"])["result"] == {
            "resultType": "complete",
            "content": [{"type": "text", "text": '{"a":[1,"\\u00fc"]}'}],
            **META,
        }
        assert call(wire, "no")["error"]["code"] == -32602
        assert request(wire, "prompts/list")["error"]["code"] == -32601
        assert wire.close() == 0


@pytest.mark.parametrize(
    ("params", "code"),
    [
        (None, -32602),
        ({"_meta": {}}, -32602),
        ({"_meta": {ENVELOPE["protocolVersion"]: MODERN}}, -32602),
        (enveloped(None, clientCapabilities=[]), -32602),
        (enveloped(None, logLevel="loud"), -32602),
        (enveloped(None, protocolVersion=LATEST), -32022),
    ],
)
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "subscriptions/listen"])
def test_each_request_needs_its_envelope(method: str, params: Json | None, code: int) -> None:
    with Wire(modern_stub()) as wire:
        error = wire.request(method, params)["error"]
        assert error["code"] == code
        if code == -32022:
            assert error["data"] == {"supported": [MODERN], "requested": LATEST}


def test_what_was_removed_is_unknown() -> None:
    removed = ["ping", "logging/setLevel", "resources/subscribe", "tasks/get", "no"]
    with Wire(modern_stub(initialize="unknown")) as wire:
        for method in [*removed, "initialize"]:
            assert request(wire, method)["error"]["code"] == -32601


@pytest.mark.parametrize("how", ["error", "exit", "silent"])
def test_a_handshake_is_refused(how: str, tmp_path: Path) -> None:
    with Wire(modern_stub(initialize=how)) as wire:
        shaking = wire.start_request("initialize", {"protocolVersion": LATEST})
        if how == "exit":
            with pytest.raises(ClosedError, match="exit status 1"):
                wire.response(shaking)
            return
        request(wire, "tools/list")
        (found,) = wire.messages() or [{}]
        assert bool(found) is (how == "error")
        assert found.get("error", {}).get("data") in (
            None,
            {"supported": [MODERN], "requested": LATEST},
        )


def test_lists_come_in_pages_and_with_the_hints_chosen() -> None:
    tool = '{"name":"n", "x_future":{"v":1.0},"inputSchema":{"type":"object"}}'
    options: Json = {"tools": [tool, *"abc"], "page": 2, "prompts": ["p"]}
    options |= {"resources": ["r://1"], "templates": ["r://{x}"], "instructions": "Do."}
    options |= {"hints": {}, "hints_of": {"tools/list": {"ttlMs": 0}}}
    with Wire(modern_stub(**options)) as wire:
        line = wire.response_line(wire.start_request("tools/list", enveloped()))
        assert tool.encode() in line.raw
        first = line.message["result"]
        second = request(wire, "tools/list", {"cursor": first["nextCursor"]})["result"]
        assert [one["name"] for one in first["tools"] + second["tools"]] == ["n", *"abc"]
        assert first["ttlMs"] == second["ttlMs"] == 0
        assert "nextCursor" not in second
        assert request(wire, "tools/list", {"cursor": "x"})["error"]["code"] == -32602
        assert request(wire, "prompts/list")["result"]["prompts"] == [{"name": "p"}]
        found = request(wire, "resources/list")["result"]
        assert found["resources"] == [{"uri": "r://1", "name": "r://1"}]
        assert "ttlMs" not in found
        found = request(wire, "resources/templates/list")["result"]
        assert found["resourceTemplates"] == [{"uriTemplate": "r://{x}", "name": "r://{x}"}]
        about = request(wire, "server/discover")["result"]
        assert about["instructions"] == "Do."
        assert set(about["capabilities"]) == {
            "tools",
            "prompts",
            "resources",
            "completions",
            "logging",
        }


def test_prompts_resources_and_completions() -> None:
    with Wire(modern_stub(prompts=["p"], resources=["r://1"], templates=["t://{x}"])) as wire:
        got = request(wire, "prompts/get", {"name": "p", "arguments": {"a": "1"}})["result"]
        said = json.loads(got["messages"][0]["content"]["text"])
        assert said == {"name": "p", "arguments": {"a": "1"}}
        assert request(wire, "prompts/get", {"name": "q"})["error"]["code"] == -32602
        read = request(wire, "resources/read", {"uri": "t://9"})["result"]
        assert json.loads(read["contents"][0]["text"]) == {"uri": "t://9"}
        assert read["ttlMs"] == 60_000
        unknown = request(wire, "resources/read", {"uri": "x://"})["error"]
        assert (unknown["code"], unknown["data"]) == (-32602, {"uri": "x://"})
        ref = {"type": "ref/prompt", "name": "p"}
        found = request(wire, "completion/complete", {"ref": ref, "argument": {"name": "a"}})
        assert json.loads(found["result"]["completion"]["values"][0]) == ref


def test_behaviours(log: Path) -> None:
    with Wire(modern_stub(tools="all", log=str(log))) as wire:
        seen = json.loads(text(call(wire, "meta")))
        assert seen == enveloped(None, FORM)["_meta"]
        assert json.loads(text(call(wire, "raw", a=1)))["params"]["arguments"] == {"a": 1}
        for value in ([1], "s", None, {"a": 1.5}):
            assert call(wire, "structured", value=value)["result"]["structuredContent"] == value
        problem = {"code": -32042, "message": "", "data": None, "extra": 1}
        assert call(wire, "error", **problem)["error"] == problem
        assert text(call(wire, "progress", count=2)) == "no token"
        params = {"name": "progress", "arguments": {"count": 2}}
        assert "result" in request(wire, "tools/call", params, progressToken="t")
        told = [wire.next_notification("notifications/progress")["params"] for _ in range(2)]
        assert [one["progressToken"] for one in told] == ["t", "t"]
        call(wire, "log")
        request(wire, "tools/call", {"name": "log"}, logLevel="critical")
        levels = [one["params"]["level"] for one in wire.messages("notifications/message")]
        assert levels == ["critical", "alert", "emergency"]
        wire.start_request("tools/call", enveloped({"name": "die", "arguments": {"exit": 3}}))
        assert wire.wait() == 3


def test_a_cancelled_call_gets_no_answer(log: Path) -> None:
    with Wire(modern_stub(tools=["sleep"], log=str(log))) as wire:
        slow = wire.start_request("tools/call", enveloped({"name": "sleep"}))
        wire.notify("notifications/cancelled", {"requestId": slow})
        request(wire, "tools/list")
        assert wire.messages() == []


def asked(response: Json) -> Json:
    """Return the result that asks for something."""
    result: Json = response["result"]
    assert result["resultType"] == "input_required"
    assert not {"ttlMs", "cacheScope"} & set(result)
    return result


def test_it_asks_in_rounds_and_checks_the_state() -> None:
    roots = {"a": {"method": "roots/list"}, "b": {"method": "roots/list"}}
    params = {"name": "ask", "arguments": {"rounds": 2, "state_only": True, "requests": roots}}
    with Wire(modern_stub(tools=["ask", "echo"])) as wire:
        state = asked(request(wire, "tools/call", params))
        assert "inputRequests" not in state
        for _ in range(2):
            retry = {**params, "requestState": state["requestState"]}
            state = asked(request(wire, "tools/call", retry))
            assert state["inputRequests"] == roots
            half = {**retry, "requestState": state["requestState"], "inputResponses": {"a": {}}}
            assert asked(request(wire, "tools/call", half)) == state
            params["inputResponses"] = {"a": {"roots": []}, "b": {}}
        last = {**params, "requestState": state["requestState"]}
        done = request(wire, "tools/call", last)
        assert json.loads(text(done)) == params["inputResponses"]
        wrong: list[Json] = [{"requestState": "x"}, {"arguments": {"rounds": 1}}]
        for change in wrong:
            assert request(wire, "tools/call", {**last, **change})["error"]["code"] == -32602
        assert request(wire, "tools/call", params)["error"]["code"] == -32602


def test_it_demands_a_capability() -> None:
    with Wire(modern_stub(tools=["ask"])) as wire:
        error = call(wire, "ask", demand="sampling")["error"]
        assert (error["code"], error["data"]) == (
            -32021,
            {"requiredCapabilities": {"sampling": {}}},
        )
        asked(call(wire, "ask", demand="elicitation"))


@pytest.mark.parametrize(
    ("method", "params"),
    [("prompts/get", {"name": "ask me"}), ("resources/read", {"uri": "ask://1"})],
)
def test_prompts_and_resources_ask_too(method: str, params: Json) -> None:
    with Wire(modern_stub(prompts=["ask me"], resources=["ask://1"])) as wire:
        result = asked(request(wire, method, params))
        assert result["inputRequests"]["q"]["method"] == "elicitation/create"
        answers = {"inputResponses": {"q": {"action": "cancel"}}}
        retry = {**params, **answers, "requestState": result["requestState"]}
        done = request(wire, method, retry)["result"]
        assert "ttlMs" not in done
        assert '\\"cancel\\"' in json.dumps(done)


def listen(wire: Wire, wanted: Json, id: object) -> Json:
    """Open a listen stream; return what is honoured."""
    wire.start_request("subscriptions/listen", enveloped({"notifications": wanted}), id=id)
    params = wire.next_notification("notifications/subscriptions/acknowledged")["params"]
    assert params["_meta"] == {ENVELOPE["subscriptionId"]: id}
    found: Json = params["notifications"]
    return found


def test_listeners_hear_what_they_asked_for_until_they_leave(log: Path) -> None:
    tools = ["grow", "shrink", "touch", "unlisten"]
    with Wire(modern_stub(tools=tools, resources=["r://1"], log=str(log))) as wire:
        everything = {"toolsListChanged": True, "resourceSubscriptions": ["r://1"]}
        assert listen(wire, {**everything, "promptsListChanged": True}, "one") == everything
        assert listen(wire, {"resourcesListChanged": True}, -2) == {"resourcesListChanged": True}
        call(wire, "grow", name="new")
        assert text(call(wire, "touch", uri="r://1")) == "1 told"
        for method in ("tools/list_changed", "resources/updated"):
            params = wire.next_notification(f"notifications/{method}")["params"]
            assert params["_meta"] == {ENVELOPE["subscriptionId"]: "one"}
        wire.notify("notifications/cancelled", {"requestId": "one"})
        assert text(call(wire, "touch", uri="r://1")) == "0 told"
        call(wire, "unlisten")
        assert wire.response(-2)["result"]["resultType"] == "complete"
        assert wire.messages() == []


@pytest.mark.parametrize("how", ["end", "error"])
def test_listening_ends_or_is_refused(how: str) -> None:
    with Wire(modern_stub(listen=how)) as wire:
        reply = request(wire, "subscriptions/listen", {"notifications": {}})
        assert ("result" in reply) is (how == "end")
        assert len(wire.messages()) == (how == "end")


def test_faults_of_the_client_are_noted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    entry = modern_entry(tools=["sleep"], log=str(log))
    with Wire([entry["command"], *entry["args"]]) as wire:
        wire.send({"jsonrpc": "2.0", "id": 1, "result": {}})
        wire.notify("notifications/initialized")
        wire.send("nonsense")
        for _ in range(2):
            wire.start_request("tools/call", enveloped({"name": "sleep"}), id="s")
        request(wire, "tools/list")
    assert [row["why"] for row in events(log, "fault")] == [
        "a response",
        "a notification that does not exist",
        "no JSON",
        "an id that is in flight",
    ]


def test_raw_answers_replace_its_own() -> None:
    answers: Json = {"server/discover": {"result": {"x": 1}}, "tools/list": None}
    with Wire(modern_stub(answers=answers)) as wire:
        assert request(wire, "server/discover")["result"] == {"x": 1}
        silent = wire.start_request("tools/list", enveloped())
        call(wire, "echo")
        assert silent not in [message.get("id") for message in wire.messages()]
