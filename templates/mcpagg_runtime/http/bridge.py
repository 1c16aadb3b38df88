"""The way from the event loop to the engine and back: neither waits for the other."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from mcpagg_runtime.base.answers import Answers
from mcpagg_runtime.base.client import Client
from mcpagg_runtime.base.jsontext import obj
from mcpagg_runtime.base.message import read_messages, request
from mcpagg_runtime.base.protocol import PAGES
from mcpagg_runtime.serve.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from mcpagg_runtime.base.jsontext import Malformed
    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.base.plan import Plan
    from mcpagg_runtime.serve.engine import Log

    Receive = Callable[[Message], None]
    Result = TypeVar("Result")

# The engine takes one event at a time: more threads would only wait for its lock.
THREADS = 4
# A body of so many bytes is read at once; to read a larger one would hold up the loop.
SMALL_BODY = 1 << 16
# What servers are told that clients can do: what the proxy can pass on, whoever calls. Roots are
# left out: a server asks for them once, so those of one client would count for all of them.
_SHARED = obj(
    sampling="{}",
    elicitation='{"form":{},"url":{}}',
    extensions=obj({PAGES: '{"mimeTypes":["text/html;profile=mcp-app"]}'}),
)


class Bridge:
    """The one engine behind all clients, used from the event loop.

    What takes its lock runs in threads. What it says to a client is handed to the loop, which it
    does not wait for: how much may wait for a client is bounded there, see `Outgoing`.
    """

    def __init__(
        self, answers: Answers, folder: str, mint: Callable[[], str], log: Log | None = None
    ) -> None:
        """`mint` returns a text that nobody can guess."""
        self.answers = answers
        self.plan: Plan = answers.plan
        self._engine = Engine(answers, folder, log, mint=mint)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mcpagg-http")
        # It is never connected: what a server asks outside of a client's call is asked of nobody.
        self._audience = Client("spec")
        self._audience.introduce(request(0, "initialize", obj(capabilities=_SHARED)))

    def client(self) -> Client:
        """Return a new client, which shares the servers with all others."""
        client = Client(self.plan.options.names)
        client.audience = self._audience
        return client

    async def read(self, body: bytes) -> list[Message | Malformed]:
        """Read the message of a body, or those of a batch; what is none stands as its fault.

        Between its members, JSON may have line ends, which no line on a pipe may have.
        """
        line = body.replace(b"\r", b" ").replace(b"\n", b" ")
        if len(line) < SMALL_BODY:
            return read_messages(line, batches=True)
        return await self._apart(read_messages, line, True)

    async def connect(self, client: Client, receive: Receive) -> None:
        """Take on a client; what it is told is given to `receive`, in the loop."""
        sink = _Sink(asyncio.get_running_loop(), receive)
        await self._apart(self._engine.connect, client, sink)

    async def take(self, client: Client, messages: list[Message | Malformed]) -> None:
        """Take messages of a client."""
        await self._apart(self._engine.take, client, messages)

    async def exchange(
        self, client: Client, receive: Receive, messages: list[Message | Malformed]
    ) -> None:
        """Take on a client that says no more than this."""
        sink = _Sink(asyncio.get_running_loop(), receive)

        def both() -> None:
            self._engine.connect(client, sink)
            self._engine.take(client, messages)

        await self._apart(both)

    async def disconnect(self, client: Client) -> None:
        """Let a client go, with all that it asked for."""
        await self._apart(self._engine.disconnect, client)

    def states(self) -> dict[str, str]:
        """Return the state of each server."""
        return {name: child.state for name, child in self._engine.core.children.items()}

    async def end_subscriptions(self) -> None:
        """Tell modern clients that there will be no more news."""
        await self._apart(self._engine.end_subscriptions)

    async def close(self) -> None:
        """End all servers; returns when none is left."""
        await self._apart(self._engine.close)
        self._threads.shutdown(wait=False)

    async def _apart(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


class _Sink:
    """Hands what the engine says to a client to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        self._loop = loop
        self._receive = receive

    def send(self, *messages: Message) -> None:
        """Take messages, in any thread."""
        for message in messages:
            message.line()  # printed here, and not in the loop
            try:
                self._loop.call_soon_threadsafe(self._receive, message)
            except RuntimeError:
                return  # the loop has ended: so has the client's connection

    def gate(self) -> None:
        """A client that does not read holds up no server: others share it."""
