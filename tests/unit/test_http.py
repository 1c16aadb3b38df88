"""Streamable HTTP with sessions: which answer is which, and what each of many clients is told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgi import BOTH, Site, run
from core import TOOLS_CHANGED, call, failure, notification, plan, request, result

from mcpagg_runtime.http.access import Settings
from mcpagg_runtime.http.app import HttpApp
from mcpagg_runtime.http.exchange import UNREAD_SECONDS
from mcpagg_runtime.http.sessions import IDLE_SECONDS
from mcpagg_runtime.messages.protocol import INFO_KEY

SERVERS = {"db": ["query"], "web": ["fetch"]}


def refusal(code: int = -32600) -> Any:
    """Return what equals an error of JSON-RPC with this code and no id."""

    class _Refusal:
        def __eq__(self, other: object) -> bool:
            assert isinstance(other, dict)
            return other["id"] is None and other["error"]["code"] == code

        __hash__ = None  # type: ignore[assignment]

    return _Refusal()


def test_a_call_is_answered_in_json() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer = site.post(call("7", "db:query", {"q": 1}), session)
        await site.rest()
        db = site.up("db")
        [asked] = site.received(db)
        assert asked["params"] == {"name": "query", "arguments": {"q": 1}}
        site.say(db, result(asked["id"], {"content": []}))
        assert await answer.json() == result("7", {"content": []})
        assert await answer.status() == 200

    run(SERVERS, scenario)


def test_a_list_is_answered_from_the_file() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer = await site.post(request(1, "tools/list"), session).json()
        assert [tool["name"] for tool in answer["result"]["tools"]] == ["db:query", "web:fetch"]

    run(SERVERS, scenario)


def test_a_notification_is_accepted_without_a_body() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer = site.post(notification("notifications/roots/list_changed"), session)
        assert await answer.status() == 202
        assert await answer.body() == b""

    run(SERVERS, scenario)


def test_progress_comes_in_the_stream_of_its_call_and_no_other() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        first = site.post(call(1, "db:query", token=5), session)
        second = site.post(call(2, "db:query", token=1), session)
        await site.rest()
        db = site.up("db")
        asked = site.received(db)
        tokens = [one["params"]["_meta"]["progressToken"] for one in asked]
        for token, progress in zip(tokens, (10, 20), strict=True):
            told = {"progressToken": token, "progress": progress}
            site.say(db, notification("notifications/progress", told))
        for one in asked:
            site.say(db, result(one["id"], {}))
        for answer, number, token, progress in ((first, 1, 5, 10), (second, 2, 1, 20)):
            said = {"progressToken": token, "progress": progress}
            told = notification("notifications/progress", said)
            assert await answer.events() == [told, result(number, {})]

    run(SERVERS, scenario)


def test_who_takes_no_events_gets_the_answer_alone() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer = site.post(call(1, "db:query", token=1), session, accept="application/json")
        await site.rest()
        db = site.up("db")
        [asked] = site.received(db)
        token = asked["params"]["_meta"]["progressToken"]
        site.say(db, notification("notifications/progress", {"progressToken": token}))
        site.say(db, result(asked["id"], {}))
        assert await answer.json() == result(1, {})

    run(SERVERS, scenario)


def test_a_question_of_a_server_comes_with_the_call_and_its_answer_by_another_post() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session({"elicitation": {}})
        answer = site.post(call(1, "db:query"), session)
        await site.rest()
        db = site.up("db")
        [asked] = site.received(db)
        site.say(db, request("q", "elicitation/create", {"message": "Which?"}))
        question = await answer.event()
        assert question["params"]["message"] == "[db] Which?"
        reply = site.post(result(question["id"], {"action": "accept"}), session)
        assert await reply.status() == 202
        assert site.received(db) == [result("q", {"action": "accept"})]
        site.say(db, result(asked["id"], {}))
        assert await answer.events() == [result(1, {})]

    run(SERVERS, scenario)


def test_news_come_over_the_stream_of_the_session() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        stream = site.listen(session)
        assert "id: 0.0" in await stream.block()
        assert stream.headers["x-accel-buffering"] == "no"
        await site.rest()
        db = site.up("db", ["query", "more"])
        site.wait(5)
        site.give_list(db, ["query", "more"])
        assert await stream.event() == TOOLS_CHANGED

    run(SERVERS, scenario)


def test_news_are_kept_for_the_stream_that_comes_and_said_once() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        site.up("db")
        site.up("web")
        site.down("db")
        site.down("web")
        await site.rest()
        stream = site.listen(session)
        assert await stream.event() == TOOLS_CHANGED
        assert await site.fetch("DELETE", headers={"mcp-session-id": session}).status() == 204
        assert await stream.events() == []

    run(SERVERS, scenario)


def test_a_second_stream_replaces_the_first() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        first = site.listen(session)
        assert await first.status() == 200
        second = site.listen(session)
        assert await first.events() == []
        site.up("db")
        site.down("db")
        assert await second.event() == TOOLS_CHANGED
        await second.hang_up()
        third = site.listen(session)
        assert await third.status() == 200

    run(SERVERS, scenario)


def test_sessions_are_refused_by_what_is_wrong_with_them() -> None:
    async def scenario(site: Site) -> None:
        listing = request(1, "tools/list")
        for method in ("POST", "GET", "DELETE"):
            for session, status in (("", 400), ("bogus", 404)):
                headers = {"mcp-session-id": session, "accept": BOTH}
                headers["content-type"] = "application/json"
                body = [json.dumps(listing).encode()]
                answer = site.fetch(method, headers=headers, chunks=body)
                assert (method, await answer.status()) == (method, status)
                assert await answer.json() == refusal()

    run(SERVERS, scenario)


def test_a_handshake_with_a_stale_session_begins_a_new_one() -> None:
    async def scenario(site: Site) -> None:
        hello = request(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
        answer = site.post(hello, "stale")
        assert (await answer.json())["result"]["protocolVersion"] == "2025-06-18"
        assert answer.headers["mcp-session-id"] != "stale"

    run(SERVERS, scenario)


def test_what_was_of_a_session_ends_with_it() -> None:
    async def scenario(site: Site) -> None:
        session, other = await site.session({"elicitation": {}}), await site.session()
        answer = site.post(call(1, "db:query"), session)
        await site.rest()
        db = site.up("db")
        [asked] = site.received(db)
        site.say(db, request("q", "elicitation/create", {"message": "Which?"}))
        assert (await answer.event())["method"] == "elicitation/create"
        assert await site.fetch("DELETE", headers={"mcp-session-id": session}).status() == 204
        gone = failure("q", -32603, "The client is gone")
        cancelled = notification("notifications/cancelled", {"requestId": asked["id"]})
        assert site.received(db) == [cancelled, gone]
        [ended] = await answer.events()
        assert ended["id"] == 1
        assert ended["error"]["message"] == "The session has ended"
        assert await site.post(request(2, "ping"), session).status() == 404
        assert await site.post(request(2, "ping"), other).json() == result(2, {})
        assert site.clients == 1

    run(SERVERS, scenario)


def test_a_broken_connection_cancels_nothing() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer = site.post(call(1, "db:query"), session)
        await site.rest()
        db = site.up("db")
        [asked] = site.received(db)
        await answer.hang_up()
        assert site.received(db) == []
        site.say(db, result(asked["id"], {}))
        again = site.post(call(1, "db:query"), session)
        await site.rest()
        [asked] = site.received(db)
        site.say(db, result(asked["id"], {"second": True}))
        assert await again.json() == result(1, {"second": True})

    run(SERVERS, scenario)


def test_an_id_that_is_still_to_be_answered_is_not_used_twice() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        site.post(call(1, "db:query"), session)
        await site.rest()
        answer = site.post(call(1, "db:query"), session)
        assert await answer.status() == 400
        assert (await answer.json())["id"] == 1

    run(SERVERS, scenario)


def test_a_batch_is_answered_by_a_batch_where_the_revision_has_them() -> None:
    async def scenario(site: Site) -> None:
        batch = [request(1, "ping"), notification("notifications/x"), request(2, "ping")]
        old = await site.session(protocolVersion="2025-03-26")
        answer = site.post(batch, old, mcp_protocol_version="2025-03-26")
        assert await answer.json() == [result(1, {}), result(2, {})]
        twice = [request(1, "ping"), request(1, "ping")]
        assert await site.post(twice, old, mcp_protocol_version="2025-03-26").status() == 400
        new = await site.session()
        assert await site.post(batch, new).status() == 400
        assert await site.post([request(1, "initialize")], "").status() == 400

    run(SERVERS, scenario)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"", -32700),
        (b"\xff", -32700),
        (b"7", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
    ],
)
def test_a_body_that_is_no_message_is_refused(body: bytes, code: int) -> None:
    async def scenario(site: Site) -> None:
        answer = site.post(body, await site.session())
        assert await answer.status() == 400
        assert await answer.json() == refusal(code)

    run(SERVERS, scenario)


def test_line_ends_between_members_do_not_reach_a_server() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        text = json.dumps(call(1, "db:query", {"text": "a\nb"}), indent=1).replace("\n", "\r\n")
        site.post(text.encode(), session)
        await site.rest()
        db = site.up("db")
        [line] = site.lines(db)
        assert json.loads(line)["params"]["arguments"] == {"text": "a\nb"}
        assert "\r" not in line

    run(SERVERS, scenario)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content_type": "text/plain"}, 415),
        ({"content_type": ""}, 415),
        ({"content_type": "application/json; charset=utf-8"}, 200),
        ({"accept": "text/html"}, 406),
        ({"accept": ""}, 200),
        ({"accept": "*/*"}, 200),
        ({"mcp_protocol_version": "1999-01-01"}, 400),
        ({"mcp_protocol_version": ""}, 200),
        ({"mcp_protocol_version": "2024-11-05"}, 200),
    ],
)
def test_headers_that_do_not_fit_are_refused(headers: dict[str, str], status: int) -> None:
    async def scenario(site: Site) -> None:
        answer = site.post(request(1, "ping"), await site.session(), **headers)
        assert await answer.status() == status

    run(SERVERS, scenario)


def test_the_endpoint_says_which_methods_it_has() -> None:
    async def scenario(site: Site) -> None:
        answer = site.fetch("PUT")
        assert await answer.status() == 405
        assert answer.headers["allow"] == "GET, POST, DELETE"
        session = await site.session()
        refused = site.fetch(
            "GET", headers={"accept": "application/json", "mcp-session-id": session}
        )
        assert await refused.status() == 406
        assert await site.fetch("GET", headers={"mcp-session-id": session}).status() == 200
        assert await site.fetch("GET", "/elsewhere").status() == 404

    run(SERVERS, scenario)


def test_an_idle_session_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpagg_runtime.http.sessions.MAXIMUM_SESSIONS", 2)

    async def scenario(site: Site) -> None:
        first, second = await site.session(), await site.session()
        stream = site.listen(first)
        await site.rest()
        third = await site.session()
        assert await site.post(request(1, "ping"), second).status() == 404
        site.listen(third)
        await site.rest()
        answer = site.post(request(1, "initialize", {}))
        assert await answer.status() == 503
        await stream.hang_up()
        await site.session()
        assert await site.post(request(1, "ping"), first).status() == 404
        assert site.clients == 2

    run(SERVERS, scenario)


def test_sessions_that_nobody_uses_end() -> None:
    async def scenario(site: Site) -> None:
        idle, listening = await site.session(), await site.session()
        site.listen(listening)
        await site.rest()
        await site.later(IDLE_SECONDS + 1)
        assert await site.post(request(1, "ping"), idle).status() == 404
        assert await site.post(request(1, "ping"), listening).status() == 200

    run(SERVERS, scenario)


def test_a_client_that_does_not_read_loses_its_session_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcpagg_runtime.http.streams.MAXIMUM_UNREAD_BYTES", 1000)

    async def scenario(site: Site) -> None:
        slow, other = await site.session(), await site.session()
        stream = site.listen(slow)
        assert "id: 0.0" in await stream.block()
        stream.reads.clear()
        await site.rest()
        db = site.up("db")
        for number in range(100):
            site.say(db, notification("notifications/message", {"level": "info", "data": number}))
            site.say(db, notification("notifications/x", {"data": "x" * 100}))
        await site.rest()
        answer = site.post(call(1, "db:query"), other)
        await site.rest()
        [asked] = site.received(db)
        site.say(db, result(asked["id"], {}))
        assert await answer.json() == result(1, {})
        stream.reads.set()
        await site.rest()
        assert not stream.is_open
        assert await site.post(request(1, "ping"), slow).status() == 404

    run(SERVERS, scenario)


def test_a_large_answer_that_is_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpagg_runtime.http.exchange.PIECE_BYTES", 1000)

    async def scenario(site: Site) -> None:
        session = await site.session()
        unread, read = site.post(call(1, "db:query"), session), site.post(
            call(2, "db:query"), session
        )
        unread.reads.clear()
        await site.rest()
        db = site.up("db")
        for asked in site.received(db):
            site.say(db, result(asked["id"], {"text": "x" * 5500}))
        assert await read.json() == result(2, {"text": "x" * 5500})
        await site.later(UNREAD_SECONDS)
        assert not unread.is_open
        assert not unread.ended
        assert await site.post(request(3, "ping"), session).json() == result(3, {})

    run(SERVERS, scenario)


def test_equal_ids_and_tokens_of_many_clients_do_not_cross() -> None:
    async def scenario(site: Site) -> None:
        sessions = [await site.session() for _ in range(5)]
        answers = [
            site.post(call(1, "db:query", {"who": session}, token=1), session)
            for session in sessions
        ]
        await site.rest()
        db = site.up("db")
        asked = {one["params"]["arguments"]["who"]: one for one in site.received(db)}
        for session in reversed(sessions):
            token = asked[session]["params"]["_meta"]["progressToken"]
            told = {"progressToken": token, "progress": 1, "message": session}
            site.say(db, notification("notifications/progress", told))
            site.say(db, result(asked[session]["id"], {"who": session}))
        for session, answer in zip(sessions, answers, strict=True):
            progress, last = await answer.events()
            assert progress["params"] == {"progressToken": 1, "progress": 1, "message": session}
            assert last == result(1, {"who": session})

    run(SERVERS, scenario)


def test_a_profile_is_chosen_by_the_name_of_each_client() -> None:
    """What is outside of it does not exist for this client, and goes on for the others."""
    profiles = {"sales": {"db": ["query"]}, "default": {"web": ["fetch"]}}

    async def tools(app: HttpApp, name: str) -> list[list[str]]:
        """Return what a client of this name is listed, in a session, without one, and over SSE."""
        site = Site({})
        site.app = app
        about = {"clientInfo": {"name": name, "version": "1"}}
        listing = request(1, "tools/list")
        in_session = await site.post(listing, await site.session(**about)).json()
        stateless = request(1, "tools/list", {"_meta": {INFO_KEY: about["clientInfo"]}})
        without = await site.stateless(stateless).json()
        stream = site.fetch("GET", "/sse", {"accept": "text/event-stream"})
        path = (await stream.block()).partition("data: ")[2]
        version = {"protocolVersion": "2024-11-05", "capabilities": {}}
        hello = request(0, "initialize", {**version, **about})
        assert await site.post(hello, path=path).status() == 202
        assert "result" in await stream.event()
        assert await site.post(listing, path=path).status() == 202
        over_sse = await stream.event()
        await stream.hang_up()
        answers = (in_session, without, over_sse)
        return [[one["name"] for one in answer["result"]["tools"]] for answer in answers]

    async def play() -> None:
        made = plan({"db": ["query", "drop"], "web": ["fetch"]}, start="lazy", profiles=profiles)
        made.options.http = {}
        app = HttpApp(made, "", Settings(made, {}))
        assert await tools(app, "Sales desk") == [["db:query"]] * 3
        assert await tools(app, "other") == [["web:fetch"]] * 3
        assert await tools(app, "sales") == [["db:query"]] * 3
        site = Site({})
        site.app = app
        about = await site.fetch("GET", "/health").json()
        assert about["servers"] == {"web": "created"}
        assert about["profiles"] == {"sales": {"db": "created"}}
        await app.stop()

    asyncio.run(play())
