"""Requests of 2026-07-28 over HTTP: each stands for itself."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from asgi import Site, run
from core import TOOLS_CHANGED, call, notification, request, result, tool

SERVERS = {"db": ["query"], "web": ["fetch"]}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
LISTEN = request("s", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})


def test_a_call_needs_no_session_and_leaves_nothing_behind() -> None:
    async def scenario(site: Site) -> None:
        answer = site.stateless(call("7", "db:query"))
        await site.rest()
        db = site.up("db")
        [asked] = site.received(db)
        site.say(db, result(asked["id"], {"content": []}))
        said = await answer.json()
        assert said["id"] == "7"
        assert said["result"]["resultType"] == "complete"
        assert await answer.status() == 200
        assert "mcp-session-id" not in answer.headers
        assert site.clients == 0

    run(SERVERS, scenario)


def test_a_call_of_which_its_server_tells_is_a_stream() -> None:
    async def scenario(site: Site) -> None:
        answer = site.stateless(call(1, "db:query", token=5))
        await site.rest()
        db = site.up("db")
        [asked] = site.received(db)
        token = asked["params"]["_meta"]["progressToken"]
        told = {"progressToken": token, "progress": 1}
        site.say(db, notification("notifications/progress", told))
        site.say(db, result(asked["id"], {"content": []}))
        progress, last = await answer.events()
        assert progress["params"] == {"progressToken": 5, "progress": 1}
        assert last["id"] == 1

    run(SERVERS, scenario)


def test_who_closes_the_answer_cancels_the_call() -> None:
    async def scenario(site: Site) -> None:
        answer = site.stateless(call(1, "db:query"))
        await site.rest()
        db = site.up("db")
        [asked] = site.received(db)
        await answer.hang_up()
        cancelled = notification("notifications/cancelled", {"requestId": asked["id"]})
        assert site.received(db) == [cancelled]
        assert site.clients == 0

    run(SERVERS, scenario)


def test_a_call_that_requires_input_is_resumed_by_another_request() -> None:
    async def scenario(site: Site) -> None:
        able: dict[str, Any] = {"elicitation": {}}
        answer = site.stateless(call(1, "db:query"), able)
        await site.rest()
        db = site.up("db")
        [asked] = site.received(db)
        site.say(db, request("q", "elicitation/create", {"message": "Which?"}))
        said = (await answer.json())["result"]
        assert said["resultType"] == "input_required"
        [key] = said["inputRequests"]
        again = call(2, "db:query")
        again["params"]["requestState"] = said["requestState"]
        again["params"]["inputResponses"] = {key: {"action": "accept"}}
        resumed = site.stateless(again, able)
        await site.rest()
        assert site.received(db) == [result("q", {"action": "accept"})]
        site.say(db, result(asked["id"], {"content": []}))
        assert (await resumed.json())["id"] == 2
        assert site.clients == 0

    run(SERVERS, scenario)


def test_a_subscription_is_a_stream_until_its_client_leaves() -> None:
    async def scenario(site: Site) -> None:
        answer = site.stateless(LISTEN)
        honoured = await answer.event()
        assert honoured["params"]["notifications"] == {"toolsListChanged": True}
        assert honoured["params"]["_meta"] == {SUBSCRIPTION: "s"}
        site.up("db")
        site.down("db")
        changed = {**TOOLS_CHANGED, "params": {"_meta": {SUBSCRIPTION: "s"}}}
        assert await answer.event() == changed
        await answer.hang_up()
        assert site.clients == 0

    run(SERVERS, scenario)


def test_a_subscription_needs_who_takes_events() -> None:
    async def scenario(site: Site) -> None:
        answer = site.stateless(LISTEN, accept="application/json")
        assert await answer.status() == 406

    run(SERVERS, scenario)


ENVELOPED = call(1, "db:query")


@pytest.mark.parametrize(
    ("message", "headers", "status", "code"),
    [
        (ENVELOPED, {"mcp_protocol_version": ""}, 400, -32020),
        (ENVELOPED, {"mcp_protocol_version": "2027-01-01"}, 400, -32020),
        (ENVELOPED, {"mcp_method": ""}, 400, -32020),
        (ENVELOPED, {"mcp_method": "tools/list"}, 400, -32020),
        (ENVELOPED, {"mcp_method": ["tools/call", "tools/call"]}, 400, -32020),
        (ENVELOPED, {"mcp_name": ""}, 400, -32020),
        (ENVELOPED, {"mcp_name": "web:fetch"}, 400, -32020),
        (ENVELOPED, {"mcp_name": "=?base64?ZGI6cXVlcnk?="}, 400, -32020),
        (request(1, "initialize"), {}, 404, -32601),
        (request(1, "ping"), {}, 404, -32601),
        (request(1, "logging/setLevel", {"level": "info"}), {}, 404, -32601),
        (call(1, "db:nothing"), {}, 400, -32602),
        (request(1, "tools/list", {"cursor": "x"}), {}, 400, -32602),
    ],
)
def test_what_is_refused_and_how(
    message: Any, headers: dict[str, Any], status: int, code: int
) -> None:
    async def scenario(site: Site) -> None:
        answer = site.stateless(message, **headers)
        if code == -32602 and message["method"] == "tools/call":
            await site.rest()
            site.up("db")
        said = await answer.json()
        assert (await answer.status(), said["error"]["code"]) == (status, code)
        assert said["id"] == 1

    run(SERVERS, scenario)


def test_another_version_is_told_which_there_is() -> None:
    async def scenario(site: Site) -> None:
        key = "io.modelcontextprotocol/protocolVersion"
        message = request(1, "tools/list", {"_meta": {key: "2027-01-01"}})
        answer = site.stateless(message, mcp_protocol_version="2027-01-01")
        said = (await answer.json())["error"]
        assert (await answer.status(), said["code"]) == (400, -32022)
        assert said["data"] == {"supported": ["2026-07-28"], "requested": "2027-01-01"}

    run(SERVERS, scenario)


def test_a_request_without_its_envelope_is_told_what_is_missing() -> None:
    async def scenario(site: Site) -> None:
        answer = site.post(request(1, "tools/list"), mcp_protocol_version="2026-07-28")
        said = (await answer.json())["error"]
        assert (await answer.status(), said["code"]) == (400, -32602)
        assert "io.modelcontextprotocol/protocolVersion" in said["message"]

    run(SERVERS, scenario)


def test_there_is_neither_a_stream_nor_a_session_here() -> None:
    async def scenario(site: Site) -> None:
        for method in ("GET", "DELETE"):
            answer = site.fetch(method, headers={"mcp-protocol-version": "2026-07-28"})
            assert await answer.status() == 405
            assert answer.headers["allow"] == "POST"
        cancelled = notification("notifications/cancelled", {"requestId": 1})
        answer = site.post(cancelled, mcp_protocol_version="2026-07-28")
        assert await answer.status() == 202
        answer = site.post([cancelled], mcp_protocol_version="2026-07-28")
        assert await answer.status() == 400

    run(SERVERS, scenario)


SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "deep": {
            "type": "object",
            "properties": {"count": {"type": "integer", "x-mcp-header": "Count"}},
        },
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
    },
}
ENCODED = f"=?base64?{base64.b64encode('Köln'.encode()).decode()}?="


@pytest.mark.parametrize(
    ("arguments", "headers", "fits"),
    [
        ({}, {}, True),
        ({"region": "eu"}, {"mcp_param_region": "eu"}, True),
        ({"region": "Köln"}, {"mcp_param_region": ENCODED}, True),
        ({"deep": {"count": 42}}, {"mcp_param_count": "42.0"}, True),
        ({"dry": True}, {"mcp_param_dry": "true"}, True),
        ({"region": "eu"}, {}, False),
        ({"region": "eu"}, {"mcp_param_region": "us"}, False),
        ({"region": "eu"}, {"mcp_param_region": ["eu", "eu"]}, False),
        ({}, {"mcp_param_region": "eu"}, False),
        ({"region": ["eu"]}, {"mcp_param_region": "eu"}, False),
        ({"deep": {"count": 42}}, {"mcp_param_count": "42.5"}, False),
    ],
)
def test_headers_repeat_the_arguments_that_a_tool_marks(
    arguments: Any, headers: dict[str, Any], fits: bool
) -> None:
    async def scenario(site: Site) -> None:
        answer = site.stateless(call(1, "db:query", arguments), **headers)
        await site.rest()
        if fits:
            db = site.up("db")
            [asked] = site.received(db)
            site.say(db, result(asked["id"], {"content": []}))
        said = await answer.json()
        assert ("result" in said) is fits
        if not fits:
            assert said["error"]["code"] == -32020

    run({"db": [tool("query", inputSchema=SCHEMA)]}, scenario)
