"""Calls the ASGI application of a proxy as a server does, without sockets, processes or threads.

    async def scenario(site: Site) -> None:
        session = await site.session()
        answer = site.post(call(1, "db:query"), session)
        await site.rest()
        await site.rest()
        db = site.up("db")
        [request] = site.received(db)
        site.say(db, result(request["id"], {}))
        assert await answer.json() == result(1, {})

    run({"db": ["query"]}, scenario)

Whatever the application does of its own accord it has done when `await site.rest()` returns; what
it does after a time, when `await site.later(seconds)` does, which puts its clock forward.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from core import INITIALIZED, Json, World, request

from mcpagg_runtime.clients.answers import Answers
from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.http.access import Settings
from mcpagg_runtime.http.app import HttpApp
from mcpagg_runtime.messages.protocol import CAPABILITIES_KEY, INFO_KEY, VERSION_KEY
from mcpagg_runtime.routing.core import Core
from mcpagg_runtime.servers.effects import SEND

DEADLINE = 60.0
"""How long anything may take; only failing tests wait for it."""

BOTH = "application/json, text/event-stream"
MODERN = "2026-07-28"


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward."""

    ahead = 0.0

    def time(self) -> float:
        """See the library."""
        return super().time() + self.ahead


class Inline(Executor):
    """Does at once what is to be done in a thread."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do it."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as problem:
            future.set_exception(problem)
        return future


class Site(World):
    """A world whose clients come over HTTP. It stands in for the engine of an application."""

    def __init__(
        self,
        servers: Mapping[str, Iterable[str | Json]],
        environ: Mapping[str, str] = {},
        *,
        given: Mapping[str, Any] = {},
        http: Mapping[str, Any] | None = None,
        **choices: Any,
    ) -> None:
        """`environ`, `given` and `http` are for the settings; see World for the rest."""
        self._sinks: dict[Client, Any] = {}
        super().__init__(servers, **choices)
        self.plan.options.http = http or {}
        self.emptied = 0
        settings = Settings(self.plan, environ, given)
        self.app = HttpApp(self.plan, "", settings, on_last_client_left=self._empty)
        self.closed = False

    def _empty(self) -> None:
        self.emptied += 1

    # The engine

    def engine(self, answers: Answers, folder: str, log: object) -> Site:
        """Be the engine of the application."""
        self.core = Core(answers, lambda: self.now, lambda: os.urandom(16).hex())
        self.router = self.core.router
        return self

    def do(self, actions: list[Any]) -> None:
        """Give what is for a client over HTTP to it; note the rest."""
        for action in actions:
            kind, peer, what = action
            if kind == SEND and peer in self._sinks:
                self._sinks[peer].send(what)
            elif kind != SEND or not isinstance(peer, Client) or not self._sinks:
                super().do([action])

    def connect(self, client: Client, sink: Any) -> None:
        """See Engine."""
        self._sinks[client] = sink
        self.do(self.core.connect(client))

    def take(self, client: Client, messages: list[Any]) -> None:
        """See Engine."""
        self.do(self.core.take(client, messages))

    def disconnect(self, client: Client) -> None:
        """See Engine."""
        self.do(self.core.disconnect(client))
        del self._sinks[client]

    def attempt(self, event: Callable[[Core], list[Any]]) -> None:
        """See Engine."""
        self.do(event(self.core))

    def end_subscriptions(self) -> None:
        """See Engine."""
        self.do(self.core.end_subscriptions())

    def close(self) -> None:
        """See Engine."""
        self.closed = True

    @property
    def sessions(self) -> Any:
        """The sessions of the application."""
        assert self.app._service is not None
        return self.app._service.sessions

    @property
    def clients(self) -> int:
        """How many clients the router has."""
        return len([*self.router.clients])

    # The clients

    async def until(self, ready: Callable[[], Any]) -> Any:
        """Wait until something is so that comes over a socket; return what `ready` then says."""
        while not (found := ready()):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        return found

    async def rest(self) -> None:
        """Let the application do all that it does without being asked anything more."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def later(self, seconds: float) -> None:
        """Let so many seconds have passed, and what is due then be done."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Clock)
        loop.ahead += seconds
        await self.rest()

    def fetch(
        self,
        method: str,
        path: str = "/mcp",
        headers: Mapping[str, str | list[str]] = {},
        chunks: Iterable[bytes] = (b"",),
        server: tuple[str, int | None] | None = ("127.0.0.1", 3006),
        root: str = "",
    ) -> Answer:
        """Send a request; a header "" leaves out one that is sent by default.

        `root` is below what the application is mounted.
        """
        path, _, query = path.partition("?")
        sent: dict[str, str | list[str]] = {"host": "localhost:3006", **headers}
        lines = [
            (name.encode(), value.encode("latin-1"))
            for name, values in sent.items()
            for value in ([values] if isinstance(values, str) else values)
            if value
        ]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "root_path": root,
            "query_string": query.encode(),
            "headers": lines,
            "server": server,
        }
        return Answer(self.app, scope, [*chunks])

    def post(
        self,
        message: Any,
        session: str = "",
        path: str = "/mcp",
        root: str = "",
        **headers: str | list[str],
    ) -> Answer:
        """Post a message, of a session if one is given; `_` in a header's name stands for `-`."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        sent: dict[str, str | list[str]] = {"content-type": "application/json", "accept": BOTH}
        if session:
            sent |= {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.fetch("POST", path, sent, [body], root=root)

    def stateless(self, message: Json, capabilities: Json | None = None, **headers: Any) -> Answer:
        """Post a request of 2026-07-28, with its envelope and the headers that it needs."""
        params = {**message.get("params", {})}
        envelope = {VERSION_KEY: MODERN, CAPABILITIES_KEY: capabilities or {}}
        envelope[INFO_KEY] = {"name": "test", "version": "1"}
        params["_meta"] = {**envelope, **params.get("_meta", {})}
        sent = {"mcp_protocol_version": MODERN, "mcp_method": message["method"]}
        named = params.get("uri" if message["method"] == "resources/read" else "name")
        if named is not None:
            sent["mcp_name"] = named
        return self.post({**message, "params": params}, **{**sent, **headers})

    async def session(self, capabilities: Json | None = None, **params: Any) -> str:
        """Shake hands; return the id of the session."""
        about = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities or {},
            "clientInfo": {"name": "test", "version": "1"},
            **params,
        }
        answer = self.post(request("hello", "initialize", about))
        assert "result" in await answer.json()
        identifier = answer.headers["mcp-session-id"]
        assert await self.post(INITIALIZED, identifier).status() == 202
        return identifier

    def listen(self, session: str, last: str = "") -> Answer:
        """Open the stream of a session, or go on with that of an event."""
        headers = {"accept": "text/event-stream", "mcp-session-id": session, "last-event-id": last}
        return self.fetch("GET", headers=headers)


class Answer:
    """The answer to one request, as it comes."""

    def __init__(self, app: HttpApp, scope: Json, chunks: list[bytes]) -> None:
        self.headers: dict[str, str] = {}
        self.ended = False
        self.last_id = ""
        """The id of the last event that was looked at, by which the stream can be resumed."""
        self._status = 0
        self._chunks = chunks
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._rest = b""
        self._begun = asyncio.Event()
        self._left = asyncio.Event()
        self.reads = asyncio.Event()
        """Cleared for a client that reads nothing."""
        self.reads.set()
        self._task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._chunks:
            body = self._chunks.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(self._chunks)}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            pairs = message["headers"]
            assert len({name for name, _ in pairs}) == len(pairs)
            self.headers = {name.decode(): value.decode("latin-1") for name, value in pairs}
            self._begun.set()
        else:
            assert not self.ended
            await self.reads.wait()
            self._pieces.put_nowait(message.get("body", b""))
            if not message.get("more_body", False):
                self.ended = True
                self._left.set()

    async def _next(self, what: Awaitable[Any]) -> Any:
        waiting = asyncio.ensure_future(what)
        await asyncio.wait({waiting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            self._task.result()
            raise AssertionError("nothing came")
        return waiting.result()

    async def status(self) -> int:
        """Return the status, as soon as there is one."""
        await self._next(self._begun.wait())
        return self._status

    async def body(self) -> bytes:
        """Return the body, once it is complete."""
        await self.status()
        parts = [self._rest]
        while not (self.ended and self._pieces.empty()):
            parts.append(await self._next(self._pieces.get()))
        await self._task
        self._rest = b""
        return b"".join(parts)

    async def json(self) -> Any:
        """Return what a JSON body says."""
        body = await self.body()
        assert self.headers["content-type"] == "application/json"
        return json.loads(body)

    async def block(self) -> str:
        """Return the next event or comment of a stream, "" at its end."""
        assert await self.status() == 200
        assert self.headers["content-type"] == "text/event-stream"
        while b"\n\n" not in self._rest:
            if self.ended and self._pieces.empty():
                assert not self._rest
                return ""
            self._rest += await self._next(self._pieces.get())
        block, _, self._rest = self._rest.partition(b"\n\n")
        return block.decode()

    async def event(self) -> Any:
        """Return the message of the next event of a stream; what has none is passed over."""
        while True:
            block = await self.block()
            assert block, "the stream has ended"
            if (message := self._message(block)) is not None:
                return message

    async def events(self) -> list[Any]:
        """Return the messages of a stream up to its end."""
        found = []
        while block := await self.block():
            found.append(self._message(block))
        return [message for message in found if message is not None]

    def arrived(self) -> list[Any]:
        """Return the messages that have come since this was last asked, of a body or a stream."""
        pieces = [self._rest]
        while not self._pieces.empty():
            pieces.append(self._pieces.get_nowait())
        if self.headers.get("content-type") == "application/json":
            assert self.ended
            body, self._rest = b"".join(pieces), b""
            return [json.loads(body)] if body else []
        *blocks, self._rest = b"".join(pieces).split(b"\n\n")
        found = [self._message(block.decode()) for block in blocks]
        return [message for message in found if message is not None]

    def _message(self, block: str) -> Any:
        """Return the message of a block, None without one; note the id by which to go on."""
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        self.last_id = fields.get("id", self.last_id)
        if not fields.get("data"):
            return None
        assert fields["event"] == "message"
        return json.loads(fields["data"])

    @property
    def is_open(self) -> bool:
        """Whether the application is still at it."""
        return not self._task.done()

    async def hang_up(self) -> None:
        """Close the connection; returns when the application has done with it."""
        self._left.set()
        await self._task


def run(
    servers: Mapping[str, Iterable[str | Json]],
    scenario: Callable[..., Awaitable[None]],
    workers: int = 1,
    patience: float = DEADLINE,
    **choices: Any,
) -> Site:
    """Play a scenario at a site, or at several that are workers of one proxy.

    See `Site` for the choices; after `patience` seconds, a call is answered by a stream. Returns
    the last site.
    """

    async def play() -> Site:
        sites = [await opened(servers, **choices) for _ in range(workers)]
        await scenario(*sites)
        for site in sites:
            await closed(site)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return sites[-1]

    with stage(patience) as runner:
        loop = runner.get_loop()

        def give_up() -> None:
            for task in asyncio.all_tasks(loop):
                task.cancel()

        guard = threading.Timer(DEADLINE, loop.call_soon_threadsafe, (give_up,))
        guard.start()
        try:
            return runner.run(play())
        finally:
            guard.cancel()


@contextmanager
def stage(patience: float = DEADLINE) -> Iterator[asyncio.Runner]:
    """Give an event loop in which applications need no threads, and whose clock is theirs."""
    with asyncio.Runner(loop_factory=Clock) as runner:
        time = runner.get_loop().time
        with (
            patch("mcpagg_runtime.http.bridge.ThreadPoolExecutor", lambda *_, **__: Inline()),
            patch("mcpagg_runtime.http.endpoints.STREAM_AFTER_SECONDS", patience),
            patch("mcpagg_runtime.http.sessions.monotonic", time),
            patch("mcpagg_runtime.http.streams.monotonic", time),
        ):
            yield runner


async def opened(servers: Mapping[str, Iterable[str | Json]], **choices: Any) -> Site:
    """Return a site whose application has started; see `Site` for the choices."""
    site = Site(servers, **choices)
    with patch("mcpagg_runtime.http.bridge.Engine", site.engine):
        await site.app.start()
    return site


async def closed(site: Site) -> None:
    """Let the application of a site end."""
    if site.app._service is not None:
        await site.app._service.close()
    site.app._restore_signals()
