"""Serves HTTP by uvicorn: what `--http` does."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import TYPE_CHECKING

from mcpagg_runtime.http.access import BadSetting, Settings
from mcpagg_runtime.http.app import GRACE_SECONDS, HttpApp
from mcpagg_runtime.start.handover import ENDING
from mcpagg_runtime.stdio.standard import print_error
from mcpagg_runtime.stdio.stdio import MISSING_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.stdio.engine import Log

# Exit status: the command line, a setting, the address or an installed package cannot be used.
UNUSABLE = 2
# How often slow connections are closed: the headers of a request may take up to twice as long.
HEADER_SECONDS = 10.0
# How long an idle connection is kept: longer than by clients, as a request that is sent just when
# we close it fails.
IDLE_CONNECTION_SECONDS = 75
REMEDY = "python3 -m pip install uvicorn, or run it by `uv run`, which installs what a script names"


def serve_http(plan: Plan, folder: str, given: Mapping[str, Any], log: Log | None) -> int:
    """Serve until a signal comes; return the exit status.

    `given` has `host`, `port` and `path` if the command line gives them. The first line on
    standard error is the URL.
    """
    try:
        settings = Settings(plan, os.environ, given)
        settings.check_address()
    except BadSetting as problem:
        print_error(f"{plan.name}: {problem}")
        return UNUSABLE
    try:
        import uvicorn
    except ImportError:
        print_error(f"{plan.name}: serving HTTP needs uvicorn, which is not installed: {REMEDY}")
        return UNUSABLE
    try:
        listener = listen(settings.host, settings.port)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        print_error(f"{plan.name}: cannot listen on {settings.host}:{settings.port}: {reason}")
        return UNUSABLE
    print_error(_url(settings, listener))

    async def serve() -> int:
        app = HttpApp(plan, folder, settings, log, on_last_client_left=_end_ourselves)
        config = uvicorn.Config(
            app,
            lifespan="on",
            log_config=None,
            log_level="critical",  # the application reports what fails
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_CONNECTION_SECONDS,
            timeout_graceful_shutdown=int(3 * GRACE_SECONDS),
        )
        server = uvicorn.Server(config)
        watching = asyncio.ensure_future(_close_slow(server))
        await server.serve(sockets=[listener])
        watching.cancel()
        return 0 if server.started else MISSING_VARIABLE

    # uvicorn raises the signal that ended it once more, for the handler before its own.
    for number in ENDING:
        signal.signal(number, _ignore)
    return asyncio.run(serve())


async def _close_slow(server: Any) -> None:
    """Close connections on which no request arrives, or whose client does not read.

    uvicorn waits without limit for headers, and for a client to read what is left of a response
    that was given up.
    """
    before: dict[Any, Any] = {}
    while True:
        await asyncio.sleep(HEADER_SECONDS)
        waiting = {
            connection: connection.cycle
            for connection in server.server_state.connections
            if _is_given_up(connection)
            or (
                connection.timeout_keep_alive_task is None  # else it is between two requests
                and (connection.cycle is None or connection.cycle.response_complete)
            )
        }
        for connection, cycle in waiting.items():
            if connection in before and before[connection] is cycle:
                transport = connection.transport
                (transport.abort if _is_given_up(connection) else transport.close)()
        before = waiting


def _is_given_up(connection: Any) -> bool:
    cycle = connection.cycle
    return connection.transport.is_closing() and bool(cycle) and not cycle.response_complete


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there.

    Raises:
        OSError: it cannot listen.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    listener = socket.create_server(address[:2], family=family, backlog=1024)
    # Connections inherit it. asyncio sets it only where a socket names its protocol; without it, an
    # event stream, which is written in pieces, waits 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _url(settings: Settings, listener: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listener.getsockname()[1]}{settings.path}"


def _end_ourselves() -> None:
    signal.raise_signal(signal.SIGTERM)


def _ignore(*_: object) -> None:
    """Do nothing on a signal."""
