"""The ASGI application: its paths, its start and its end.

https://asgi.readthedocs.io/en/latest/specs
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING

from mcpagg_runtime.http.access import RESERVED_PATHS, BadSetting, Guard, Settings, preflight
from mcpagg_runtime.http.bridge import Bridge, CannotStart
from mcpagg_runtime.http.endpoints import POST_PATH, STREAM_PATH, Endpoints, Stateless
from mcpagg_runtime.http.exchange import Disconnected, Exchange, Refused, plain_path
from mcpagg_runtime.http.sessions import Sessions
from mcpagg_runtime.launch.platforms import own_folder
from mcpagg_runtime.messages.jsontext import log_line, obj
from mcpagg_runtime.messages.printable import where
from mcpagg_runtime.messages.protocol import INTERNAL_ERROR
from mcpagg_runtime.plan.face import served
from mcpagg_runtime.plan.plan import Plan
from mcpagg_runtime.start.handover import ENDING, LOG_DIRECTORY
from mcpagg_runtime.start.values import quote
from mcpagg_runtime.stdio.log_file import open_log
from mcpagg_runtime.stdio.standard import print_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcpagg_runtime.http.exchange import Receive, Scope, Send
    from mcpagg_runtime.stdio.engine import Log

HEALTH_PATH = "/health"
# How often idle sessions are looked for.
MAINTENANCE_SECONDS = 60.0
# How long, at the end, pending answers are waited for.
GRACE_SECONDS = 5.0
GOODBYE = "the server is stopping"


# The applications by emitted file and event loop: locks and clients belong to one loop.
_APPLICATIONS: dict[tuple[str, asyncio.AbstractEventLoop], HttpApp] = {}


async def serve_asgi(
    tables: Mapping[str, Any], file: str, scope: Scope, receive: Receive, send: Send
) -> None:
    """The ASGI application of the emitted file `file`, with these tables."""
    try:
        app = application(tables, file, begins=scope["type"] == "lifespan")
    except BadSetting as problem:
        print_error(f"{tables['name']}: {problem}")
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.failed", "message": str(problem)})
            raise  # some servers wait for the end of the lifespan
        if scope["type"] == "http":
            refusal = Refused(503, f"The server cannot start: {problem}")
            await Exchange(scope, receive, send, 0).respond(refusal.status, refusal.body)
        return
    await app(scope, receive, send)


def application(tables: Mapping[str, Any], file: str, *, begins: bool) -> HttpApp:
    """Return the application of this event loop; make one if there is none, or it is stopping.

    Raises:
        BadSetting: a setting cannot be used, or this is no loop of asyncio.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise BadSetting("it is served on asyncio alone: take a server or worker of that") from None
    for key in [key for key in _APPLICATIONS if key[1].is_closed()]:
        del _APPLICATIONS[key]
    app = _APPLICATIONS.get((file, loop))
    if app is None or (begins and app.stopping):
        plan = Plan(tables)
        folder = own_folder(file)
        app = HttpApp(plan, folder, Settings(plan, os.environ), _log_of(plan))
        _APPLICATIONS[file, loop] = app
    return app


def _log_of(plan: Plan) -> Log | None:
    """Return the log that the environment asks for, None for none.

    Raises:
        BadSetting: it cannot be written.
    """
    if not os.environ.get(LOG_DIRECTORY):
        return None
    try:
        return open_log(plan)
    except (OSError, ValueError) as problem:
        raise BadSetting(f"{LOG_DIRECTORY}: cannot write the log: {problem}") from None


class HttpApp:
    """A proxy over HTTP, called by an ASGI server with each request.

    It starts with the first event, of a lifespan or a request: not every ASGI server has lifespans,
    and an application that mounts this one may not pass its own on. It ends with its lifespan, or
    with a signal, at the latest with its event loop.
    """

    def __init__(
        self,
        plan: Plan,
        folder: str,
        settings: Settings,
        log: Log | None = None,
        on_last_client_left: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_last_client_left` is called if the proxy ends with its last client."""
        self._plan = plan
        self._folder = folder
        self._settings = settings
        self._on_last_client_left = (
            on_last_client_left if settings.ends_with_clients else lambda: None
        )
        self._log = log
        self._guard = Guard(settings)
        self._active = 0
        """How many requests are being answered."""
        self.stopping = False
        self._has_lifespan = False
        self._handlers: dict[int, Any] = {}
        """{signal: the handler before ours}."""
        self._stopped = asyncio.Event()
        self._idle = asyncio.Event()
        """Set while no request is being answered."""
        self._idle.set()
        self._service: _Service | None = None
        self._faces: dict[str, _Service] = {}
        """What serves servers as themselves, since they were first asked for, by name."""
        self._paths = {} if plan.face else _face_paths(plan, settings.path)
        self._starting = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI scope: a request, or the lifespan."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            exchange = Exchange(scope, receive, send, self._settings.maximum_body)
            await self._respond(exchange)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})

    # Start and end

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._has_lifespan = True
        try:
            await self.start()
        except CannotStart as problem:
            await send({"type": "lifespan.startup.failed", "message": str(problem)})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def start(self) -> _Service:
        """Start serving, if it has not started.

        Raises:
            CannotStart: see `start_fault`.
        """
        async with self._starting:
            if self._service is None:
                bridge = Bridge(self._plan, self._folder, self._log)
                self._service = _Service(bridge, self._last_client_left)
                self._handle_signals()
            return self._service

    async def _face(self, name: str) -> _Service:
        """Return what serves a server as itself; start that if it has not started.

        Raises:
            CannotStart: see `start_fault`.
        """
        async with self._starting:
            if name not in self._faces:
                bridge = Bridge(served(self._plan, [name]), self._folder, self._log)
                self._faces[name] = _Service(bridge)
            return self._faces[name]

    def _services(self) -> list[_Service]:
        """Return all that serves, the servers as themselves last."""
        return [*([] if self._service is None else [self._service]), *self._faces.values()]

    def _last_client_left(self) -> None:
        if not any(len(service.sessions) for service in self._services()):
            self._on_last_client_left()

    def _handle_signals(self) -> None:
        """Stop on a signal that ends the ASGI server.

        ASGI servers wait for all responses before they end the lifespan, and a stream of events
        never ends by itself. The earlier handler of the signal is called as well: at once if there
        is a lifespan, else when our servers have ended, since it may end the process.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()

        def on_signal(number: int, frame: Any) -> None:
            handler = self._handlers[number]
            is_handled = callable(handler)
            then = (
                partial(handler, number, frame) if is_handled else partial(_default_action, number)
            )
            if not (self.stopping or loop.is_closed()):
                if not (self._has_lifespan and is_handled):
                    loop.call_soon_threadsafe(self._stop_before, then)
                    return
                loop.call_soon_threadsafe(self.begin_to_stop)
            then()

        for number in ENDING:
            handler = signal.getsignal(number)
            if callable(handler) or handler is signal.SIG_DFL:
                self._handlers[number] = handler
                signal.signal(number, on_signal)
        self._handler = on_signal

    def _restore_signals(self) -> None:
        for number, handler in self._handlers.items():
            if signal.getsignal(number) is self._handler:
                signal.signal(number, handler)

    def _stop_before(self, then: Callable[[], object]) -> None:
        self.begin_to_stop()
        self._last = asyncio.ensure_future(self.stop())
        self._last.add_done_callback(lambda _: then())

    def begin_to_stop(self) -> None:
        """Refuse new requests, finish pending ones, and end streams; returns at once."""
        if not self.stopping:
            self.stopping = True
            self._ending = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        services = self._services()
        for service in services:
            await service.bridge.end_subscriptions()
            for session in service.sessions:
                session.drain(GOODBYE)
        if services:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._idle.wait(), GRACE_SECONDS)
        for service in services:
            for session in service.sessions:
                await service.sessions.end(session, GOODBYE)
            service.stateless.end(GOODBYE)
        if services:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._idle.wait(), GRACE_SECONDS)
        self._stopped.set()

    async def stop(self) -> None:
        """End everything; returns when all servers have ended."""
        self.begin_to_stop()
        await self._stopped.wait()
        services, self._service, self._faces = self._services(), None, {}
        await asyncio.gather(*(service.close() for service in services))
        if services:
            self._restore_signals()

    # Requests

    async def _respond(self, exchange: Exchange) -> None:
        began = monotonic()
        self._active += 1
        self._idle.clear()
        try:
            await self._handle(exchange)
        except Disconnected:
            pass
        except Refused as refusal:
            await self._refuse(exchange, refusal)
        except Exception as fault:
            print_error(f"{self._plan.name}: internal fault: {where(fault)}")
            text = f"Internal fault: {where(fault)}"
            await self._refuse(exchange, Refused(500, text, INTERNAL_ERROR))
        finally:
            self._active -= 1
            if not self._active:
                self._idle.set()
            if self._log is not None and self._settings.is_verbose:
                self._log_request(self._log, exchange, monotonic() - began)

    async def _refuse(self, exchange: Exchange, refusal: Refused) -> None:
        """Respond with a refusal, unless the response has begun."""
        if not exchange.status:
            with suppress(Disconnected):
                await exchange.respond(refusal.status, refusal.body, refusal.headers)

    async def _handle(self, exchange: Exchange) -> None:
        self._guard.check_origin(exchange)
        if exchange.method == "OPTIONS":
            await exchange.respond(204, headers=preflight(exchange))
            return
        if exchange.path == HEALTH_PATH:
            await self._respond_health(exchange)
            return
        self._guard.check_token(exchange)
        if self.stopping:
            headers = {"retry-after": "1", "connection": "close"}
            raise Refused(503, "The server is stopping", headers=headers)
        try:
            await self._route(exchange)
        except CannotStart as problem:
            raise Refused(503, f"The server cannot start: {problem}") from None

    async def _route(self, exchange: Exchange) -> None:
        """Respond at the endpoint of the proxy, or of a server as itself.

        Raises:
            CannotStart: see `start_fault`.
            Refused: there is no such endpoint, or the request is refused.
        """
        service = self._service or await self.start()
        is_mounted_there = bool(exchange.root) and exchange.path == "/"
        if exchange.path == self._settings.path or is_mounted_there:
            await service.endpoints.answer(exchange)
        elif exchange.path in (STREAM_PATH, POST_PATH):
            await service.endpoints.answer_sse(exchange)
        elif exchange.path in self._paths:
            face = await self._face(self._paths[exchange.path])
            await face.endpoints.answer(exchange)
        else:
            raise Refused(404, f"The endpoint is {exchange.root}{self._settings.path}")

    async def _respond_health(self, exchange: Exchange) -> None:
        """Respond with the status; an authorized client gets the states of the servers as well."""
        about = {"status": quote("stopping" if self.stopping else "ok")}
        if self._service is not None and self._guard.is_authorized(exchange):
            states = {
                profile: obj({name: quote(state) for name, state in servers.items()})
                for profile, servers in self._service.bridge.states().items()
            }
            about["servers"] = states.pop(None)
            if profiles := {name: text for name, text in states.items() if name is not None}:
                about["profiles"] = obj(profiles)
            faces = {name: face.bridge.states() for name, face in self._faces.items()}
            if as_itself := {n: s[None][n] for n, s in faces.items() if n in s[None]}:
                about["as_itself"] = obj({n: quote(state) for n, state in as_itself.items()})
            about["sessions"] = str(sum(len(service.sessions) for service in self._services()))
        await exchange.respond(503 if self.stopping else 200, obj(about).encode())

    def _log_request(self, log: Log, exchange: Exchange, seconds: float) -> None:
        """Log a line about a request, without anything that may be a secret."""
        line = log_line(
            time(),
            method=quote(exchange.method),
            path=quote(exchange.path),
            status=str(exchange.status),
            seconds=f"{seconds:.3f}",
        )
        log.send(line)


def _face_paths(plan: Plan, path: str) -> dict[str, str]:
    """Return {path: the server that is served there as itself}, beside the endpoint `path`."""
    paths = {plain_path(f"/{name}{path}"): name for name in plan.servers}
    return {one: name for one, name in paths.items() if one not in (*RESERVED_PATHS, path)}


def _default_action(number: int) -> None:
    """Take the default action of a signal."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


class _Service:
    """What serves requests between start and end."""

    def __init__(
        self, bridge: Bridge, on_last_client_left: Callable[[], None] = lambda: None
    ) -> None:
        self.bridge = bridge
        self.sessions = Sessions(bridge)
        self.stateless = Stateless(bridge)
        self.endpoints = Endpoints(bridge, self.sessions, self.stateless, on_last_client_left)
        self._over = asyncio.Event()
        self._maintenance = asyncio.ensure_future(self._maintain())

    async def _maintain(self) -> None:
        """End idle sessions now and then; at the end, or when cancelled, end all servers."""
        try:
            while not self._over.is_set():
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._over.wait(), MAINTENANCE_SECONDS)
                await self.sessions.end_idle()
        finally:
            await self.bridge.close()

    async def close(self) -> None:
        self._over.set()
        await self._maintenance
