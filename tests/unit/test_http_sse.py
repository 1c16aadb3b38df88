"""HTTP+SSE, the transport of 2024-11-05: one stream for all answers."""

from __future__ import annotations

from asgi import Answer, Site, run
from core import INITIALIZED, call, notification, request, result

SERVERS = {"db": ["query"], "web": ["fetch"]}


async def opened(site: Site) -> tuple[Answer, str]:
    """Open a stream and shake hands over it; return it, and the path for requests."""
    stream = site.fetch("GET", "/sse", {"accept": "text/event-stream"})
    name, data = (await stream.block()).split("\n")
    assert name == "event: endpoint"
    path = data.removeprefix("data: ")
    about = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {}}
    answer = site.post(request(0, "initialize", about), path=path)
    assert await answer.status() == 202
    assert (await stream.event())["result"]["protocolVersion"] == "2024-11-05"
    assert await site.post(INITIALIZED, path=path).status() == 202
    return stream, path


def test_answers_come_over_the_stream_and_all_else_too() -> None:
    async def scenario(site: Site) -> None:
        stream, path = await opened(site)
        assert await site.post(call(1, "db:query", token=7), path=path).status() == 202
        db = site.up("db")
        [asked] = site.received(db)
        token = asked["params"]["_meta"]["progressToken"]
        told = {"progressToken": token, "progress": 1}
        site.say(db, notification("notifications/progress", told))
        site.say(db, result(asked["id"], {}))
        assert (await stream.event())["params"]["progressToken"] == 7
        assert await stream.event() == result(1, {})

    run(SERVERS, scenario)


def test_a_session_ends_with_its_stream_and_so_does_what_it_asked_for() -> None:
    async def scenario(site: Site) -> None:
        stream, path = await opened(site)
        assert await site.post(call(1, "db:query"), path=path).status() == 202
        db = site.up("db")
        [asked] = site.received(db)
        await stream.hang_up()
        cancelled = notification("notifications/cancelled", {"requestId": asked["id"]})
        assert site.received(db) == [cancelled]
        assert await site.post(request(2, "ping"), path=path).status() == 404
        assert site.clients == 0
        assert site.emptied == 0

    run(SERVERS, scenario)


def test_in_sse_mode_the_proxy_ends_with_its_last_client_unless_it_is_to_stay_open() -> None:
    for environ, ends in (({}, 1), ({"KEEP_SERVER_OPEN": "1"}, 0)):

        async def scenario(site: Site) -> None:
            first, _ = await opened(site)
            second, _ = await opened(site)
            await first.hang_up()
            assert site.emptied == 0
            await second.hang_up()

        site = run(SERVERS, scenario, environ=environ, http={"type": "sse"})
        assert site.emptied == ends


def test_the_paths_have_one_method_each() -> None:
    async def scenario(site: Site) -> None:
        for method, path, allowed in (("POST", "/sse", "GET"), ("GET", "/messages", "POST")):
            answer = site.fetch(method, path)
            assert await answer.status() == 405
            assert answer.headers["allow"] == allowed
        assert await site.post(request(1, "ping"), path="/messages").status() == 400
        assert await site.fetch("GET", "/sse", {"accept": "text/html"}).status() == 406

    run(SERVERS, scenario)


def test_a_session_of_the_other_transport_has_no_stream_here() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        path = f"/messages?session_id={session}"
        assert await site.post(request(1, "ping"), path=path).status() == 404

    run(SERVERS, scenario)


def test_at_the_end_what_is_owed_is_said_before_the_stream_ends() -> None:
    async def scenario(site: Site) -> None:
        stream, path = await opened(site)
        assert await site.post(call(1, "db:query"), path=path).status() == 202
        idle, _ = await opened(site)
        db = site.up("db")
        [asked] = site.received(db)
        site.app.begin_to_stop()
        assert await idle.block() == ": the server is stopping"
        assert await idle.block() == ""
        site.say(db, result(asked["id"], {}))
        assert await stream.event() == result(1, {})
        assert await stream.block() == ": the server is stopping"
        assert await stream.block() == ""

    run(SERVERS, scenario)
