"""Connects the event loop with the engine; neither waits for the other."""

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

# The engine handles one event at a time: more threads would only wait for its lock.
THREADS = 4
# A larger body is parsed in a thread, since it would hold up the loop.
SMALL_BODY = 1 << 16
# The capabilities that servers see: what the proxy can pass on, whichever client calls. Roots are
# left out: a server requests them once, so those of one client would count for all.
_SHARED = obj(
    sampling="{}",
    elicitation='{"form":{},"url":{}}',
    extensions=obj({PAGES: '{"mimeTypes":["text/html;profile=mcp-app"]}'}),
)


class CannotStart(Exception):
    """Raised for a proxy that lacks something it needs; what that is was reported."""


class Bridge:
    """The engine behind all clients, used from the event loop.

    If the config has profiles, each profile has an engine, and servers, of its own.

    What takes the lock of an engine runs in threads. Messages to clients are passed to the loop
    without waiting; how much may wait for a client is bounded there, see `ResponseWriter`.
    """

    def __init__(self, plan: Plan, folder: str, log: Log | None = None) -> None:
        """Make the engine for clients without a profile.

        Raises:
            CannotStart: see `start_fault`.
        """
        self._plan = plan
        self._folder = folder
        self._log = log
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mcpagg-http")
        # It is never connected: a server's request outside of a client's call goes to no client.
        self._audience = Client("spec")
        self._audience.introduce(request(0, "initialize", obj(capabilities=_SHARED)))
        self._services: dict[str | None, tuple[Answers, Engine]] = {}
        """By profile, None for none."""
        self._receivers: dict[Client, Receive] = {}
        """Clients from which no message has come yet."""
        self._connected: dict[Client, tuple[Engine, asyncio.Future[None]]] = {}
        """The engine of each other client; the future is done once it has the first messages."""
        self._service_for(None)

    def _service_for(self, profile: str | None) -> tuple[Answers, Engine]:
        """Return the answers and the engine of a profile.

        Raises:
            CannotStart: see `start_fault`.
        """
        if profile not in self._services:
            answers = Answers(narrowed(self._plan, profile))
            if start_fault(answers, self._folder):
                raise CannotStart("why is on its standard error")
            engine = Engine(answers, self._folder, self._log)
            self._services[profile] = answers, engine
        return self._services[profile]

    def _service_of(self, message: Message) -> tuple[Answers, Engine]:
        """Return the answers and the engine for the client whose first message this is."""
        if not self._plan.profiles:
            return self._service_for(None)
        return self._service_for(profile_for(self._plan, client_name(message)))

    def tool(self, message: Message, name: str) -> Item | None:
        """Return the tool of this name, as the sender of a message knows it."""
        return self._service_of(message)[0].catalogues["tools"].find(name)

    def client(self, receive: Receive) -> Client:
        """Return a new client; messages to it are passed to `receive`, in the loop."""
        client = Client(self._plan.options.names)
        client.audience = self._audience
        self._receivers[client] = receive
        return client

    async def forward(self, client: Client, messages: list[Message]) -> None:
        """Pass messages of a client to the engine; the first one says who it is.

        Raises:
            CannotStart: see `start_fault`.
        """
        if client not in self._connected:
            _, engine = self._service_of(messages[0])
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
        """Note that the client reads the answers to these requests; ids are JSON texts."""
        await self._bring(client, lambda core: core.attend(client, identifiers))

    async def unattend(self, client: Client, identifiers: list[str]) -> None:
        """Note that the client does not read the answers to these requests at present."""
        await self._bring(client, lambda core: core.unattend(client, identifiers))

    async def _bring(self, client: Client, event: Callable[[Core], list[Action]]) -> None:
        if client in self._connected:
            engine, begun = self._connected[client]
            await begun
            await self._run_in_thread(engine.attempt, event)

    async def disconnect(self, client: Client) -> None:
        """Disconnect a client and cancel its requests."""
        self._receivers.pop(client, None)
        if client in self._connected:
            engine, begun = self._connected.pop(client)
            await begun
            await self._run_in_thread(engine.disconnect, client)

    async def read(self, body: bytes) -> list[Message | Malformed]:
        """Parse the message of a body, or those of a batch; one that is malformed is a fault.

        JSON may have line ends between its members, which the reader of lines does not accept.
        """
        line = body.replace(b"\r", b" ").replace(b"\n", b" ")
        if len(line) < SMALL_BODY:
            return read_messages(line, batches=True)
        return await self._run_in_thread(read_messages, line, True)

    def states(self) -> dict[str | None, dict[str, str]]:
        """Return the state of each server, by profile."""
        return {
            profile: {name: server.state for name, server in engine.core.router.servers.items()}
            for profile, (_, engine) in self._services.items()
        }

    async def end_subscriptions(self) -> None:
        """End the subscriptions of modern clients."""
        for _, engine in self._services.values():
            await self._run_in_thread(engine.end_subscriptions)

    async def close(self) -> None:
        """End all servers; returns when that is done."""
        closing = [self._run_in_thread(engine.close) for _, engine in self._services.values()]
        await asyncio.gather(*closing)
        self._threads.shutdown(wait=False)

    async def _run_in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


class _Sink:
    """Passes messages of the engine for a client to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        self._loop = loop
        self._receive = receive

    def send(self, *messages: Message) -> None:
        """Take messages, in any thread."""
        for message in messages:
            message.line()  # serialized here, not in the loop
            try:
                self._loop.call_soon_threadsafe(self._receive, message)
            except RuntimeError:
                return  # the loop has ended, and with it the client's connection

    def has_room(self, _seconds: float = 0.0) -> bool:
        """Return True: a client that does not read must not hold up servers that others share."""
        return True
