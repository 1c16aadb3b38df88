"""The ASGI application within another one: below which paths, and how long it lives."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import pytest
from asgi import Answer, Site, run
from core import plan, request

from mcpagg_runtime.http.access import BadSetting
from mcpagg_runtime.http.app import application, serve_asgi
from mcpagg_runtime.http.bridge import CannotStart
from mcpagg_runtime.http.exchange import UNREAD_SECONDS, Exchange
from mcpagg_runtime.http.serving import _close_slow

SERVERS = {"db": ["query"]}
PARAMS = {"protocolVersion": "2025-11-25", "capabilities": {}}
HELLO = request(1, "initialize", PARAMS)


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("", "/mcp"),
        ("", "/mcp/"),
        ("/agg", "/agg/mcp"),
        ("/agg", "/agg/mcp/"),
        ("/agg/", "/agg/mcp"),
        ("/", "/mcp"),
        ("/two/deep", "/two/deep/mcp"),
        ("/tenants/Jürgen & Söhne", "/tenants/Jürgen & Söhne/mcp"),
        ("/mcp", "/mcp/mcp"),
        # What it is mounted at is as good a name for it.
        ("/mcp", "/mcp/"),
        ("/agg", "/agg"),
        # Taken off by who mounts it, as older ones did, or the beginning by a proxy in front.
        ("/agg", "/mcp"),
        ("/api/agg", "/agg/mcp"),
    ],
)
def test_it_is_served_below_any_path_with_and_without_a_slash(root: str, path: str) -> None:
    async def scenario(site: Site) -> None:
        answer = site.post(HELLO, path=path, root=root)
        assert "result" in await answer.json()
        under = path.rstrip("/").removesuffix("mcp").rstrip("/")
        for tail in ("/health", "/health/"):
            assert await site.fetch("GET", under + tail, root=root).status() == 200

    run(SERVERS, scenario)


@pytest.mark.parametrize(
    ("root", "path", "told"),
    [
        ("", "/", "/mcp"),
        ("/ag", "/agg/mcp", "/ag/mcp"),
        ("/agg", "/agg/other", "/agg/mcp"),
    ],
)
def test_another_path_is_told_the_endpoint(root: str, path: str, told: str) -> None:
    async def scenario(site: Site) -> None:
        answer = site.post(HELLO, path=path, root=root)
        assert await answer.status() == 404
        assert (await answer.json())["error"]["message"] == f"The endpoint is {told}"

    run(SERVERS, scenario)


@pytest.mark.parametrize("path", ["/", "/x", "/x/", "/x/y/"])
def test_the_endpoint_may_have_any_path(path: str) -> None:
    async def scenario(site: Site) -> None:
        for asked in {path, path.rstrip("/") + "/"}:
            assert "result" in await site.post(HELLO, path=asked).json()
        assert await site.fetch("GET", "/health").status() == 200

    run(SERVERS, scenario, environ={"MCP_PROXY_PATH": path})


@pytest.mark.parametrize("root", ["/agg", "/tenants/Jürgen & 日本#", "/a\nb"])
def test_the_older_transport_is_told_a_path_below_the_root(root: str) -> None:
    async def scenario(site: Site) -> None:
        accept = {"accept": "text/event-stream"}
        stream = site.fetch("GET", f"{root}/sse/", accept, root=root)
        [name, place] = (await stream.block()).split("\n")
        assert name == "event: endpoint"
        assert place.startswith(f"data: {quote(root)}/messages?session_id=")
        session = place.partition("?")[2]
        sent = site.post(HELLO, path=f"{root}/messages/?{session}", root=root)
        assert await sent.status() == 202
        assert "result" in await stream.event()
        await stream.hang_up()

    run(SERVERS, scenario)


class Life:
    """A lifespan of an application."""

    def __init__(self, app: Any) -> None:
        self._told: asyncio.Queue[Any] = asyncio.Queue()
        self._said: asyncio.Queue[Any] = asyncio.Queue()
        self.task = asyncio.ensure_future(app({"type": "lifespan"}, self._told.get, self._said.put))

    async def tell(self, event: str) -> None:
        """Begin or end it; returns when that is done."""
        self._told.put_nowait({"type": f"lifespan.{event}"})
        assert (await self._said.get())["type"] == f"lifespan.{event}.complete"


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the application of an emitted file, whose servers are started when they are called."""
    made = plan(SERVERS, start="lazy")
    made.options.http = {}
    monkeypatch.setattr("mcpagg_runtime.http.app.Plan", lambda tables: made)
    monkeypatch.setattr("mcpagg_runtime.http.app._APPLICATIONS", {})
    return partial(serve_asgi, {"name": "test"}, "server.py")


async def hello(app: Any) -> int:
    """Return the status of the answer to a handshake."""
    site = Site({})
    site.app = app
    return await site.post(HELLO).status()


def test_it_lives_again_after_its_end(app: Any) -> None:
    async def life() -> None:
        for _ in range(2):
            one = Life(app)
            await one.tell("startup")
            assert await hello(app) == 200
            await one.tell("shutdown")
            assert await hello(app) == 503

    for _ in range(2):
        asyncio.run(life())


def test_each_event_loop_has_a_life_of_its_own(app: Any) -> None:
    """As where each request of a test client is made in a new loop, and none has a lifespan."""
    for _ in range(2):
        assert asyncio.run(hello(app)) == 200


def test_its_servers_end_with_their_event_loop(app: Any) -> None:
    closed = []

    async def close(self: Any) -> None:
        await asyncio.sleep(0)
        closed.append(self)

    with patch("mcpagg_runtime.http.bridge.Bridge.close", close):
        assert asyncio.run(hello(app)) == 200
    assert len(closed) == 1


@pytest.mark.parametrize("has_lifespan", [False, True])
def test_a_signal_is_handed_on_when_the_servers_have_ended_if_nobody_else_tells(
    app: Any, has_lifespan: bool
) -> None:
    async def scenario() -> None:
        heard: list[bool] = []
        here = asyncio.get_running_loop()
        last = here.create_future()

        def handle(number: int, frame: object) -> None:
            heard.append(own.stopping and own._service is None)
            here.call_soon_threadsafe(last.set_result, None)

        before = signal.signal(signal.SIGTERM, handle)
        try:
            if has_lifespan:
                await Life(app).tell("startup")
            assert await hello(app) == 200
            own = application({}, "server.py", begins=False)
            signal.raise_signal(signal.SIGTERM)
            await last
            assert heard == [not has_lifespan]
            await own.stop()
            assert signal.getsignal(signal.SIGTERM) is handle
        finally:
            signal.signal(signal.SIGTERM, before)

    asyncio.run(scenario())


def test_without_asyncio_it_says_so_and_does_not_start(
    app: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[Mapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Mapping[str, Any]) -> None:
        said.append(message)

    with pytest.raises(BadSetting, match="asyncio alone"):
        app({"type": "lifespan"}, receive, send).send(None)
    assert [one["type"] for one in said] == ["lifespan.startup.failed"]
    assert capfd.readouterr().err == f"test: {said[0]['message']}\n"


def test_a_lifespan_that_fails_ends_with_an_error_as_others_wait_for_it(app: Any) -> None:
    async def start(self: Any) -> None:
        raise CannotStart("no")

    async def scenario() -> None:
        life = Life(app)
        with pytest.raises(AssertionError):
            await life.tell("startup")
        with pytest.raises(CannotStart):
            await life.task

    with patch("mcpagg_runtime.http.app.HttpApp.start", start):
        asyncio.run(scenario())


# Bodies that are not read


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_that_nobody_reads_is_given_up_and_little_of_it_given_away(
    is_stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpagg_runtime.http.exchange.PIECE_BYTES", 1000)
    given: list[int] = []
    send = Answer._send

    async def count(self: Answer, message: Any) -> None:
        if "body" in message:
            given.append(len(message["body"]))
        await send(self, message)

    monkeypatch.setattr(Answer, "_send", count)

    async def scenario(site: Site) -> None:
        session = await site.session()
        patience = 0.0 if is_stream else 60.0
        with patch("mcpagg_runtime.http.endpoints.STREAM_AFTER_SECONDS", patience):
            await read_nothing(site, session, given)
        # The session is there still: its client may have gone for a while.
        assert await site.post(request(3, "ping"), session).status() == 200

    run(SERVERS, scenario)


async def read_nothing(site: Site, session: str, given: list[int]) -> None:
    """Have a call answered by much, which nobody reads."""
    large = {"content": [{"type": "text", "text": "x" * 15_000}]}
    call = request(2, "tools/call", {"name": "db:query", "arguments": {}})
    answer = site.post(call, session)
    await site.rest()
    db = site.up("db")
    [asked] = site.received(db)
    answer.reads.clear()
    del given[:]
    site.say(db, {"jsonrpc": "2.0", "id": asked["id"], "result": large})
    await site.rest()
    await site.later(UNREAD_SECONDS)
    assert not answer.is_open
    assert sum(given) <= 1000
    assert not answer.ended


@pytest.mark.parametrize("length", [0, 1, 6, 7, 8, 14, 15])
def test_a_large_answer_arrives_whole_and_in_pieces(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpagg_runtime.http.exchange.PIECE_BYTES", 7)
    body = bytes(range(length))
    sent: list[Mapping[str, Any]] = []

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    exchange = Exchange({"method": "GET", "path": "/", "headers": []}, receive, send, 0)
    asyncio.run(exchange.respond(200, body))
    *before, last = sent[1:]
    assert b"".join(piece["body"] for piece in (*before, last)) == body
    assert [(len(piece["body"]), piece["more_body"]) for piece in before] == [(7, True)] * len(
        before
    )
    assert len(last["body"]) <= 7
    assert not last.get("more_body")


class Connection:
    """One of uvicorn's."""

    def __init__(self, transport: Any, cycle: Any, kept_for: object) -> None:
        self.transport = transport
        self.cycle = cycle
        self.timeout_keep_alive_task = kept_for


def test_a_connection_that_was_given_up_unread_is_closed_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that closes it waits for what is left in it."""
    monkeypatch.setattr("mcpagg_runtime.http.serving.HEADER_SECONDS", 0)
    done: list[str] = []

    def connection(name: str, cycle: Any, *, closing: bool, kept: bool = False) -> Connection:
        transport = SimpleNamespace(
            is_closing=lambda: closing,
            close=lambda: done.append(f"{name} closed"),
            abort=lambda: done.append(f"{name} aborted"),
        )
        return Connection(transport, cycle, object() if kept else None)

    whole, part = (SimpleNamespace(response_complete=complete) for complete in (True, False))
    connections = {
        connection("unread", part, closing=True),
        connection("answering", part, closing=False),
        connection("silent", None, closing=False),
        connection("kept", whole, closing=False, kept=True),
    }

    async def scenario() -> None:
        server = SimpleNamespace(server_state=SimpleNamespace(connections=connections))
        watching = asyncio.ensure_future(_close_slow(server))
        while len(done) < 2:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        watching.cancel()

    asyncio.run(scenario())
    assert set(done) == {"unread aborted", "silent closed"}
