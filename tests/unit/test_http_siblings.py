"""Workers of one machine: what one of them must answer, the others hand on to it."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from time import time

import pytest
from asgi import Answer, Site, run
from core import call, request, result

from mcpagg_runtime.http.access import BadSetting, Settings

SERVERS = {"db": ["query"]}

pytestmark = pytest.mark.skipif(
    not hasattr(asyncio, "start_unix_server"), reason="the system has no sockets in the file system"
)


def workers(folder: Path, scenario: object, *names: str) -> None:
    """Play a scenario with a site for each worker."""

    async def play(*sites: Site) -> None:
        await scenario(*sites)  # type: ignore[operator]

    environs = [
        {"MCP_PROXY_WORKER": name, "MCP_PROXY_WORKER_DIRECTORY": str(folder)} for name in names
    ]
    run(SERVERS, play, environs=environs)


async def answered(site: Site, answer: Answer) -> object:
    """Return what the server of a site answers to a call that reached it over a socket."""
    await site.until(lambda: site.started)
    db = site.up("db")
    [asked] = await site.until(lambda: site.received(db))
    site.say(db, result(asked["id"], {"content": []}))
    return await answer.json()


def test_a_session_is_served_by_its_worker_whichever_gets_the_request(tmp_path: Path) -> None:
    async def scenario(one: Site, two: Site) -> None:
        session = await one.session()
        assert session.startswith("one-")
        answer = two.post(call(1, "db:query"), session)
        assert await answered(one, answer) == result(1, {"content": []})
        stream = two.listen(session)
        assert await stream.block() == ": open"
        assert await two.fetch("DELETE", headers={"mcp-session-id": session}).status() == 204
        assert await stream.block() == ": the session has ended"
        assert await stream.block() == ""
        assert await two.post(request(1, "ping"), session).status() == 404
        assert two.clients == 0

    workers(tmp_path, scenario, "one", "two")


def test_a_suspended_call_is_resumed_where_it_was_suspended(tmp_path: Path) -> None:
    async def scenario(one: Site, two: Site) -> None:
        answer = one.stateless(call(1, "db:query"), {"elicitation": {}})
        await one.rest()
        db = one.up("db")
        [asked] = one.received(db)
        one.say(db, request("q", "elicitation/create", {"message": "Which?"}))
        said = (await answer.json())["result"]
        again = call(2, "db:query")
        again["params"]["requestState"] = said["requestState"]
        again["params"]["inputResponses"] = {k: {"action": "accept"} for k in said["inputRequests"]}
        resumed = two.stateless(again, {"elicitation": {}})
        await one.until(lambda: one.received(db))
        one.say(db, result(asked["id"], {"content": []}))
        assert (await resumed.json())["id"] == 2

    workers(tmp_path, scenario, "one", "two")


def test_who_leaves_one_worker_leaves_the_other(tmp_path: Path) -> None:
    async def scenario(one: Site, two: Site) -> None:
        session = await one.session()
        stream = two.listen(session)
        assert await stream.block() == ": open"
        await stream.hang_up()
        await one.until(lambda: all(found.is_idle for found in one.sessions))

    workers(tmp_path, scenario, "one", "two")


def test_a_session_whose_worker_is_gone_is_gone(tmp_path: Path) -> None:
    async def scenario(one: Site) -> None:
        assert await one.post(request(1, "ping"), "two-1234").status() == 404
        assert await one.post(request(1, "ping"), "../x-1234").status() == 404
        hello = request(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        assert await one.post(hello, "two-1234").status() == 200

    workers(tmp_path, scenario, "one")
    assert [*tmp_path.iterdir()] == []


def test_a_state_whose_worker_is_gone_is_answered_like_any_that_is_unknown(tmp_path: Path) -> None:
    async def scenario(one: Site) -> None:
        again = call(2, "db:query")
        again["params"].update(requestState="mcpagg:two-1234:1", inputResponses={})
        answer = one.stateless(again, {"elicitation": {}})
        assert await answer.status() == 400
        said = await answer.json()
        assert said["id"] == 2
        assert "requestState" in said["error"]["message"]

    workers(tmp_path, scenario, "one")


def test_what_killed_workers_have_left_is_removed(tmp_path: Path) -> None:
    def bound(name: str, age: float) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / name))
        os.utime(tmp_path / name, (0, time() - age))
        return listener

    async def scenario(one: Site) -> None:
        del one
        left = {name for name in os.listdir(tmp_path) if not name.endswith("-one.sock")}
        assert left == {"lives.sock", "begins.sock", "other"}

    with bound("lives.sock", 100) as living:
        living.listen()
        for name, age in (("dead.sock", 100), ("begins.sock", 1), ("other", 100)):
            bound(name, age).close()
        workers(tmp_path, scenario, "one")


def test_a_folder_in_which_others_could_answer_is_not_used(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o777)  # noqa: S103

    async def scenario(one: Site) -> None:
        assert await one.post(request(1, "ping"), await one.session()).status() == 200
        assert os.listdir(tmp_path) == []

    workers(tmp_path, scenario, "one")


def test_the_token_is_asked_for_by_the_worker_that_answers(tmp_path: Path) -> None:
    async def scenario(one: Site, two: Site) -> None:
        session = await one.session()
        one.app._guard._token = b"s3cret"
        assert await two.post(request(1, "ping"), session).status() == 401

    workers(tmp_path, scenario, "one", "two")


def test_a_worker_has_a_plain_name(tmp_path: Path) -> None:
    async def scenario(one: Site) -> None:
        for name in ("a-b", "../x", "x" * 33):
            with pytest.raises(BadSetting):
                Settings(one.plan, {"MCP_PROXY_WORKER": name})

    workers(tmp_path, scenario, "one")
