"""Answers that can be fetched again, answers that nobody waits for, and what is kept of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgi import Answer, Site, run
from core import TOOLS_CHANGED, call, notification, request, result

from mcpagg_runtime.http.sessions import IDLE_SECONDS
from mcpagg_runtime.http.streams import REPLAY_SECONDS

SERVERS = {"db": ["query"]}
FETCHED = {"content": [{"type": "text", "text": "x" * 50}]}


def told(token: int, progress: int) -> dict[str, Any]:
    """Return a notification of progress."""
    return notification("notifications/progress", {"progressToken": token, "progress": progress})


async def begun(site: Site, session: str, **headers: str) -> tuple[Answer, Any, Any]:
    """Make a call that is answered by a stream; return the answer, its server and what it got."""
    answer = site.post(call(1, "db:query", token=7), session, **headers)
    await site.rest()
    db = site.up("db")
    [asked] = site.received(db)
    return answer, db, asked


async def left(site: Site, progress: int = 0) -> tuple[str, Any, Any]:
    """Make such a call, hang up, and have its server tell of so much progress.

    Return the session, the server and what it got.
    """
    session = await site.session()
    answer, db, asked = await begun(site, session)
    await answer.hang_up()
    for step in range(progress):
        site.say(db, told(asked["params"]["_meta"]["progressToken"], step))
    return session, db, asked


def attended(site: Site) -> list[bool]:
    """Return of each call under way whether somebody reads its answer."""
    return [one.attended for one in site["db"].calls.all()]


async def cancel(site: Site, session: str, identifier: Any, path: str = "/mcp") -> None:
    """Cancel a call."""
    cancelled = notification("notifications/cancelled", {"requestId": identifier})
    assert await site.post(cancelled, session, path).status() == 202


async def delete(site: Site, session: str) -> None:
    """End a session."""
    assert await site.fetch("DELETE", headers={"mcp-session-id": session}).status() == 204


def test_a_call_that_takes_long_begins_with_an_event_to_resume_from() -> None:
    async def scenario(site: Site) -> None:
        answer, db, asked = await begun(site, await site.session())
        assert await answer.block() == "id: 2.0\nretry: 1000\ndata: "
        site.say(db, result(asked["id"], FETCHED))
        assert (await answer.block()).startswith("id: 2.1\nevent: message\ndata: {")
        assert await answer.block() == ""

    run(SERVERS, scenario, patience=0)


def test_what_is_answered_at_once_is_json_and_nothing_of_it_is_kept() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer, db, asked = await begun(site, session)
        site.say(db, result(asked["id"], FETCHED))
        assert await answer.json() == result(1, FETCHED)
        assert not len(site.sessions.find(session).replay)

    run(SERVERS, scenario)


@pytest.mark.parametrize("accept", ["application/json", "*/*", ""])
def test_who_does_not_ask_for_events_gets_json_however_long_it_takes(accept: str) -> None:
    async def scenario(site: Site) -> None:
        answer, db, asked = await begun(site, await site.session(), accept=accept)
        site.say(db, result(asked["id"], FETCHED))
        assert await answer.json() == result(1, FETCHED)

    run(SERVERS, scenario, patience=0)


def test_an_answer_whose_connection_broke_is_fetched_again() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer, db, asked = await begun(site, session)
        token = asked["params"]["_meta"]["progressToken"]
        site.say(db, told(token, 1))
        assert await answer.event() == told(7, 1)
        await answer.hang_up()
        assert site.received(db) == []
        assert attended(site) == [False]
        site.say(db, told(token, 2))
        site.say(db, result(asked["id"], FETCHED))
        await site.rest()
        again = site.listen(session, answer.last_id)
        assert await again.events() == [told(7, 2), result(1, FETCHED)]
        # And again, as long as it is kept, from wherever.
        assert await site.listen(session, "2.0").events() == [
            told(7, 1),
            told(7, 2),
            result(1, FETCHED),
        ]

    run(SERVERS, scenario, patience=0)


def test_a_resumed_answer_goes_on_live_and_is_attended_again() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer, db, asked = await begun(site, session)
        assert (await answer.block()).startswith("id: 2.0")
        await answer.hang_up()
        again = site.listen(session, "2.0")
        assert (await again.block()).startswith("id: 2.0")
        assert attended(site) == [True]
        await again.hang_up()
        assert attended(site) == [False]
        last = site.listen(session, "2.0")
        await last.status()
        site.say(db, told(asked["params"]["_meta"]["progressToken"], 1))
        site.say(db, result(asked["id"], FETCHED))
        assert await last.events() == [told(7, 1), result(1, FETCHED)]
        assert last.last_id == "2.2"

    run(SERVERS, scenario, patience=0)


def test_who_resumes_before_the_break_is_noticed_takes_the_answer_over() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer, db, asked = await begun(site, session)
        await answer.status()
        again = site.listen(session, "2.0")
        await site.rest()
        assert not answer.is_open
        assert attended(site) == [True]
        site.say(db, result(asked["id"], FETCHED))
        assert await again.events() == [result(1, FETCHED)]
        assert await answer.events() == []

    run(SERVERS, scenario, patience=0)


def test_nothing_is_left_of_a_stream_that_was_read_to_its_end() -> None:
    """Some clients ask for what follows an error: after this status they ask no more."""

    async def scenario(site: Site) -> None:
        session = await site.session()
        answer, db, asked = await begun(site, session)
        site.say(db, result(asked["id"], FETCHED))
        assert await answer.events() == [result(1, FETCHED)]
        for event_id, status in ((answer.last_id, 405), ("9.1", 405), ("x", 400), ("1.²", 400)):
            assert await site.listen(session, event_id).status() == status
        other = await site.session()
        assert await site.listen(other, "2.0").status() == 405

    run(SERVERS, scenario, patience=0)


def test_news_are_fetched_again_and_go_on() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        stream = site.listen(session)
        await stream.status()
        site.up("db")
        site.down("db")
        assert await stream.event() == TOOLS_CHANGED
        again = site.listen(session, "0.0")
        assert await again.event() == TOOLS_CHANGED
        await delete(site, session)
        assert await again.events() == []

    run(SERVERS, scenario)


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
def test_a_client_of_an_older_revision_gets_no_event_without_data(version: str) -> None:
    async def scenario(site: Site) -> None:
        session = await site.session(protocolVersion=version)
        answer, db, asked = await begun(site, session, mcp_protocol_version=version)
        site.say(db, told(asked["params"]["_meta"]["progressToken"], 1))
        assert await answer.block() == ": open"
        assert await answer.event() == told(7, 1)
        await answer.hang_up()
        site.say(db, result(asked["id"], FETCHED))
        await site.rest()
        assert await site.listen(session, answer.last_id).events() == [result(1, FETCHED)]

    run(SERVERS, scenario, patience=0)


def test_what_is_kept_has_a_bound_in_bytes_and_one_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcpagg_runtime.http.endpoints.MAXIMUM_REPLAY_BYTES", 20000)

    async def scenario(site: Site) -> None:
        session, db, asked = await left(site, progress=100)
        site.say(db, result(asked["id"], FETCHED))
        await site.rest()
        *steps, last = await site.listen(session, "2.0").events()
        assert last == result(1, FETCHED)
        assert steps[-1] == told(7, 99)
        assert 1 < len(steps) < 20
        await site.later(REPLAY_SECONDS + 1)
        assert await site.listen(session, "2.0").status() == 405

    run(SERVERS, scenario, patience=0)


def test_of_an_answer_that_is_too_large_to_be_kept_it_is_said_that_it_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcpagg_runtime.http.endpoints.MAXIMUM_REPLAY_BYTES", 2000)

    async def scenario(site: Site) -> None:
        session, db, asked = await left(site)
        site.say(db, result(asked["id"], {"content": "x" * 2000}))
        await site.rest()
        [ended] = await site.listen(session, "2.0").events()
        assert ended["id"] == 1
        assert ended["error"]["message"].startswith("The answer was lost")

    run(SERVERS, scenario, patience=0)


def test_what_is_kept_for_all_sessions_has_a_bound_of_which_each_has_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcpagg_runtime.http.sessions.MAXIMUM_REPLAYS_BYTES", 20000)

    async def scenario(site: Site) -> None:
        session, _, _ = await left(site, progress=100)
        await site.rest()
        kept = len(site.sessions.find(session).replay)
        assert 1 < kept < 20
        for _ in range(3):
            await site.session()
        await site.sessions.end_idle()
        assert 1 < len(site.sessions.find(session).replay) <= kept / 4

    run(SERVERS, scenario, patience=0)


def test_a_session_whose_calls_nobody_waits_for_is_idle_and_its_end_cancels_them() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer, db, asked = await begun(site, session)
        await answer.status()
        await site.later(IDLE_SECONDS + 1)
        assert len(site.sessions) == 1
        await answer.hang_up()
        await site.later(IDLE_SECONDS + 1)
        assert len(site.sessions) == 0
        cancelled = notification("notifications/cancelled", {"requestId": asked["id"]})
        assert site.received(db) == [cancelled]

    run(SERVERS, scenario, patience=0)


def test_a_deleted_session_cancels_what_nobody_waits_for() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer, db, asked = await begun(site, session)
        await answer.hang_up()
        await delete(site, session)
        cancelled = notification("notifications/cancelled", {"requestId": asked["id"]})
        assert site.received(db) == [cancelled]

    run(SERVERS, scenario, patience=0)


@pytest.mark.parametrize("patience", [0, 60])
def test_a_thousand_cancelled_calls_leave_nothing_open(patience: float) -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        for number in range(1000):
            answer = site.post(call(number, "db:query", token=number), session)
            await (site.rest() if patience else answer.status())
            await cancel(site, session, number)
            [ended] = await answer.events() if not patience else [await answer.json()]
            assert ended["id"] == number
            assert ended["error"]["message"] == "The request was cancelled"
            await site.rest()
            assert not answer.is_open
        opened = site.sessions.find(session)
        assert opened.is_idle
        assert not opened._replies
        assert not opened._tokens
        await delete(site, session)

    run(SERVERS, scenario, patience=patience)


def test_a_cancellation_that_overtakes_its_call_counts() -> None:
    """Each is a POST of its own, perhaps over another connection."""

    async def scenario(site: Site) -> None:
        session = await site.session()
        await cancel(site, session, 1)
        first = site.post(call(1, "db:query"), session)
        second = site.post(call(2, "db:query"), session)
        ended = await first.json()
        assert ended["error"]["message"] == "The request was cancelled"
        db = site.up("db")
        [asked] = site.received(db)
        site.say(db, result(asked["id"], FETCHED))
        assert await second.events() == [result(2, FETCHED)]

    run(SERVERS, scenario, patience=0)


def test_a_cancellation_that_overtook_one_call_cancels_no_other() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        await cancel(site, session, "1")
        other = site.post(call(1, "db:query"), session)
        await site.post(call("1", "db:query"), session).json()
        again = site.post(call("1", "db:query"), session)
        await site.rest()
        db = site.up("db")
        assert len(site.asked(db)) == 2
        assert other.is_open
        assert again.is_open

    run(SERVERS, scenario)


def test_a_call_is_cancelled_however_its_id_is_written() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        written = json.dumps(call("1", "db:query")).replace('"1"', '"\\u0031"').encode()
        answer = site.post(written, session)
        await site.rest()
        await cancel(site, session, "1")
        assert (await answer.json())["error"]["message"] == "The request was cancelled"
        assert not site.core.owes(site.sessions.find(session).client)

    run(SERVERS, scenario)


def test_a_cancelled_call_whose_connection_broke_is_no_longer_kept_waiting() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer, db, asked = await begun(site, session)
        await answer.hang_up()
        await cancel(site, session, 1)
        cancelled = notification("notifications/cancelled", {"requestId": asked["id"]})
        assert site.received(db) == [cancelled]
        [ended] = await site.listen(session, "2.0").events()
        assert ended["error"]["message"] == "The request was cancelled"

    run(SERVERS, scenario, patience=0)


def test_of_a_batch_what_is_cancelled_is_answered_with_the_rest() -> None:
    async def scenario(site: Site) -> None:
        version = "2025-03-26"
        session = await site.session(protocolVersion=version)
        answer = site.post(
            [call(1, "db:query"), call(2, "db:query")], session, mcp_protocol_version=version
        )
        await site.rest()
        await cancel(site, session, 1)
        db = site.up("db")
        [asked] = site.received(db)
        site.say(db, result(asked["id"], FETCHED))
        first, second = await answer.json()
        assert first["error"]["message"] == "The request was cancelled"
        assert second == result(2, FETCHED)

    run(SERVERS, scenario)


def test_over_http_sse_a_cancelled_call_has_no_answer_and_its_stream_goes_on() -> None:
    async def scenario(site: Site) -> None:
        stream = site.fetch("GET", "/sse", {"accept": "text/event-stream"})
        path = (await stream.block()).partition("data: ")[2]
        hello = request(0, "initialize", {"protocolVersion": "2024-11-05", "capabilities": {}})
        await site.post(hello, path=path).status()
        await stream.event()
        await site.post(call(1, "db:query"), path=path).status()
        await cancel(site, "", 1, path)
        await site.post(request(2, "ping"), path=path).status()
        assert await stream.event() == result(2, {})
        await stream.hang_up()

    run(SERVERS, scenario)


def test_what_belongs_to_another_worker_is_refused_so_that_its_client_begins_anew() -> None:
    async def scenario(one: Site, two: Site) -> None:
        session = await one.session()
        assert await two.post(request(1, "ping"), session).status() == 404
        assert await two.listen(session).status() == 404
        answer = one.stateless(call(1, "db:query"), {"elicitation": {}})
        await one.rest()
        db = one.up("db")
        one.received(db)
        one.say(db, request("q", "elicitation/create", {"message": "Which?"}))
        said = (await answer.json())["result"]
        again = call(2, "db:query")
        again["params"]["requestState"] = said["requestState"]
        again["params"]["inputResponses"] = {k: {"action": "accept"} for k in said["inputRequests"]}
        refused = two.stateless(again, {"elicitation": {}})
        assert await refused.status() == 400
        error = (await refused.json())["error"]
        assert error["code"] == -32602
        assert "make the request anew" in error["message"]
        assert not two["db"].calls.any_waits

    run(SERVERS, scenario, workers=2)


def test_a_question_is_put_into_the_answer_of_the_call_that_asks_it() -> None:
    """So nobody misses it who has another connection broken."""

    async def scenario(site: Site) -> None:
        session = await site.session({"elicitation": {}})
        answers = [site.post(call(number, "m:t"), session) for number in (1, 2)]
        await site.rest()
        child = site.up("m")
        for identifier in site.asked(child):
            asked = {"k": {"method": "elicitation/create", "params": {"message": "?"}}}
            value = {"resultType": "input_required", "inputRequests": asked}
            site.say(child, result(identifier, value))
        for answer, number in zip(answers, (1, 2), strict=True):
            assert (await answer.event())["id"] == number
        await answers[0].hang_up()
        await answers[1].hang_up()

    run({"m": ["t"]}, scenario, facts={"m": {"protocol": "2026-07-28"}})
