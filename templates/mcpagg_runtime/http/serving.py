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

# Exit status: the command line, a setting, the address or the machine's packages are of no use.
UNUSABLE = 2
# The headers of a request arrive in as many seconds, or in twice as many at most.
HEADER_SECONDS = 10.0
# A connection between two requests is kept longer than clients keep theirs: one that is closed just
# as its client sends a request fails that request.
IDLE_CONNECTION_SECONDS = 75
REMEDY = "python3 -m pip install uvicorn, or run it by `uv run`, which installs what a script names"


def serve_http(plan: Plan, folder: str, given: Mapping[str, Any], log: Log | None) -> int:
    """Serve until a signal comes; return the exit status.

    `given` are those of `host`, `port` and `path` that the command line gives. The first line on
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
        app = HttpApp(plan, folder, settings, log, emptied=_end_ourselves)
        config = uvicorn.Config(
            app,
            lifespan="on",
            log_config=None,
            log_level="critical",  # what there is to say of a request, the application says
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

    # uvicorn sends itself a signal that ended it once more, for whoever handled it before.
    for number in ENDING:
        signal.signal(number, _ignore)
    return asyncio.run(serve())


async def _close_slow(server: Any) -> None:
    """Close connections on which no request arrives, or whose client does not read the rest.

    uvicorn waits for headers without end, and so does a connection that it has closed for what an
    answer that was given up has left in it.
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
    """Return a socket that listens there; an OSError says why it cannot."""
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
