"""The way from the event loop to the engine and back: neither waits for the other."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from mcpagg_runtime.clients.answers import Answers
from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.clients.profiles import client_name, narrowed, profile_for
from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.message import read_messages, request
from mcpagg_runtime.messages.protocol import PAGES
from mcpagg_runtime.stdio.engine import Engine
from mcpagg_runtime.stdio.stdio import start_fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from mcpagg_runtime.lists.catalogue import Item
    from mcpagg_runtime.messages.jsontext import Malformed
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.routing.core import Core
    from mcpagg_runtime.servers.effects import Action
    from mcpagg_runtime.stdio.engine import Log

    Receive = Callable[[Message], None]
    Result = TypeVar("Result")

# The engine takes one event at a time: more threads would only wait for its lock.
THREADS = 4
# A body of so many bytes is read at once; to read a larger one would hold up the loop.
SMALL_BODY = 1 << 16
# The capabilities that servers see: what the proxy can pass on, whoever calls. Roots are
# left out: a server asks for them once, so those of one client would count for all of them.
_SHARED = obj(
    sampling="{}",
    elicitation='{"form":{},"url":{}}',
    extensions=obj({PAGES: '{"mimeTypes":["text/html;profile=mcp-app"]}'}),
)


class CannotStart(Exception):
    """Raised for a proxy that lacks something that it needs; what, has been said."""


class Bridge:
    """The engine behind all clients, used from the event loop.

    Where the config has profiles, there is one engine for each that a client has had: the others
    do not exist for it, so its servers are its own.

    What takes the lock of an engine runs in threads. What it says to a client is handed to the
    loop, which it does not wait for: how much may wait for a client is bounded there, see
    `Outgoing`.
    """

    def __init__(self, plan: Plan, folder: str, log: Log | None = None) -> None:
        """Be ready for clients.

        Raises:
            CannotStart: see `start_fault`.
        """
        self._plan = plan
        self._folder = folder
        self._log = log
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mcpagg-http")
        # It is never connected: what a server asks outside of a client's call is asked of nobody.
        self._audience = Client("spec")
        self._audience.introduce(request(0, "initialize", obj(capabilities=_SHARED)))
        self._served: dict[str | None, tuple[Answers, Engine]] = {}
        """By profile, None for who has none."""
        self._receivers: dict[Client, Receive] = {}
        """Clients that have said nothing yet."""
        self._connected: dict[Client, tuple[Engine, asyncio.Future[None]]] = {}
        """The engine of each other client, and when it has taken the first messages."""
        self._serving(None)

    def _serving(self, profile: str | None) -> tuple[Answers, Engine]:
        """Return what serves a profile.

        Raises:
            CannotStart: see `start_fault`.
        """
        if profile not in self._served:
            plan = self._plan
            if plan.profiles:
                plan = narrowed(plan, profile)
            answers = Answers(plan)
            if start_fault(answers, self._folder):
                raise CannotStart("why is on its standard error")
            engine = Engine(answers, self._folder, self._log)
            self._served[profile] = answers, engine
        return self._served[profile]

    def _serving_sender(self, message: Message) -> tuple[Answers, Engine]:
        """Return what serves the client that begins with this message."""
        if not self._plan.profiles:
            return self._serving(None)
        return self._serving(profile_for(self._plan, client_name(message)))

    def tool(self, message: Message, name: str) -> Item | None:
        """Return the tool of this name, as the sender of a message knows it."""
        return self._serving_sender(message)[0].catalogues["tools"].find(name)

    def client(self, receive: Receive) -> Client:
        """Return a new client; what it is sent is given to `receive`, in the loop."""
        client = Client(self._plan.options.names)
        client.audience = self._audience
        self._receivers[client] = receive
        return client

    async def take(self, client: Client, messages: list[Message]) -> None:
        """Take messages of a client; its first one says who it is.

        Raises:
            CannotStart: see `start_fault`.
        """
        if client not in self._connected:
            _, engine = self._serving_sender(messages[0])
            sink = _Sink(asyncio.get_running_loop(), self._receivers.pop(client))

            def begin() -> None:
                engine.connect(client, sink)
                engine.take(client, [*messages])

            began = asyncio.ensure_future(self._run_in_thread(begin))
            self._connected[client] = engine, began
            await began
            return
        engine, begun = self._connected[client]
        await begun
        await self._run_in_thread(engine.take, client, [*messages])

    async def attend(self, client: Client, identifiers: list[str]) -> None:
        """Say that the answers to these requests of a client are read, given as JSON texts."""
        await self._tell(client, lambda core: core.attend(client, identifiers))

    async def unattend(self, client: Client, identifiers: list[str]) -> None:
        """Say that nobody reads the answers to these requests at present."""
        await self._tell(client, lambda core: core.unattend(client, identifiers))

    async def _tell(self, client: Client, event: Callable[[Core], list[Action]]) -> None:
        if client in self._connected:
            engine, begun = self._connected[client]
            await begun
            await self._run_in_thread(engine.attempt, event)

    async def disconnect(self, client: Client) -> None:
        """Let a client go, with all that it asked for."""
        self._receivers.pop(client, None)
        if client in self._connected:
            engine, begun = self._connected.pop(client)
            await begun
            await self._run_in_thread(engine.disconnect, client)

    async def read(self, body: bytes) -> list[Message | Malformed]:
        """Read the message of a body, or those of a batch; what is none stands as its fault.

        Between its members, JSON may have line ends, which no line on a pipe may have.
        """
        line = body.replace(b"\r", b" ").replace(b"\n", b" ")
        if len(line) < SMALL_BODY:
            return read_messages(line, batches=True)
        return await self._run_in_thread(read_messages, line, True)

    def states(self) -> dict[str | None, dict[str, str]]:
        """Return the state of each server, by profile."""
        return {
            profile: {name: one.state for name, one in engine.core.router.servers.items()}
            for profile, (_, engine) in self._served.items()
        }

    async def end_subscriptions(self) -> None:
        """Tell modern clients that there will be no more news."""
        for _, engine in self._served.values():
            await self._run_in_thread(engine.end_subscriptions)

    async def close(self) -> None:
        """End all servers; returns when none is left."""
        closing = [self._run_in_thread(engine.close) for _, engine in self._served.values()]
        await asyncio.gather(*closing)
        self._threads.shutdown(wait=False)

    async def _run_in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
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

    def has_room(self, _seconds: float = 0.0) -> bool:
        """Return that it has: a client that does not read holds up no server that others share."""
        return True
