"""From a server of the config to a connection: start it or reach it, and agree on a version.

A handshake is tried first: it works with every legacy server, and with those that speak both eras.
The specification recommends to probe with `server/discover` instead, but some servers exit on it.
So a child gets that request only after it has refused all handshakes.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import anyio
import httpx2
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from mcpagg.connection.modern import DISCOVER
from mcpagg.connection.remote import open_remote
from mcpagg.connection.requests import Connection, ConnectionFault, Link
from mcpagg.connection.stdio import open_child
from mcpagg.snapshot import Json
from mcpagg.spec import ServerSpec
from mcpagg_runtime.launch import Launch
from mcpagg_runtime.protocol import LEGACY_VERSIONS

FIRST_SHARE = 0.75

T = TypeVar("T")


@asynccontextmanager
async def connect(
    server: ServerSpec, launch: Launch, capabilities: Json, seconds: float
) -> AsyncGenerator[Connection, None]:
    """Start or reach a child and agree on a version, as a client with these `capabilities`.

    A child that refuses the newest version with a handshake, or is silent, is asked again in each
    older one, and at last without a handshake, in the modern one; at once in that one if its
    refusal says that it knows no handshake. Always on a fresh process, since a refusal may have
    left it in any state. All tries together take at most `seconds`: the first one three quarters,
    because a child that is still installing is far more common than one that hangs over a version;
    the others share the rest. A child that exits for another reason than its version is not
    started again: see `hopeless`.

    Raises:
        ConnectionFault: what came of the first try; of the last one, if the child is modern.
        Exception: also within a group, what the SDK's HTTP transports make of an address.
    """
    end = anyio.current_time() + seconds
    versions = [*LEGACY_VERSIONS, LATEST_MODERN_VERSION]
    if server.transport == "sse":  # a transport of the legacy revisions alone
        versions.pop()
    fault: ConnectionFault | None = None
    modern = False
    while versions:
        version = versions.pop(0)
        left = end - anyio.current_time()
        share = left / (len(versions) + 1) if fault else left * FIRST_SHARE
        connection: Connection | None = None
        refused: ConnectionFault | None = None
        hopeless = False
        with anyio.move_on_after(share) as patience:
            async with _connected(server, launch, capabilities) as connection:
                refused = await connection.greet(version)
                if refused is None:
                    patience.deadline = math.inf
                    yield connection
                    return
                hopeless = connection.hopeless  # while it can be told from how we end it
        modern = modern or (connection is not None and connection.modern)
        if fault is None or modern:
            fault = refused or _silence(connection, version, seconds)
        if connection is not None and not connection.handshake:
            versions = [one for one in versions if one in MODERN_PROTOCOL_VERSIONS]
        elif hopeless or anyio.current_time() >= end:
            break
    raise fault or ConnectionFault("was not asked")


def _silence(connection: Connection | None, version: str, seconds: float) -> ConnectionFault:
    greeting = DISCOVER if version in MODERN_PROTOCOL_VERSIONS else "initialize"
    what = f"did not answer {greeting} within {seconds:g} s"
    if connection is None:
        return ConnectionFault(what)
    if noise := connection.noise():
        what += f", but wrote something else than JSON-RPC to stdout: {noise}"
    return connection.fault(f"{what} (is it still installing, or does it buffer its output?)")


@asynccontextmanager
async def _connected(
    server: ServerSpec, launch: Launch, capabilities: Json
) -> AsyncGenerator[Connection, None]:
    """Open the link to a child and serve it while the caller uses the connection."""
    async with AsyncExitStack() as stack:
        if server.transport == "stdio":
            try:
                link: Link = await stack.enter_async_context(open_child(launch))
            except (OSError, ValueError) as error:
                raise ConnectionFault(
                    launch.redact(f"could not be started: {_why(error)}")
                ) from None
        else:
            remote = open_remote(launch.url, launch.headers, sse=server.transport == "sse")
            link = await stack.enter_async_context(remote)
        connection = Connection(server, launch, link, capabilities)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        await tasks.start(connection.run)
        yield connection


async def side_by_side(work: Callable[[T], Coroutine[Any, Any, None]], items: Iterable[T]) -> None:
    """Await `work(item)` for all items at once; an error comes out as it is, not in a group."""
    try:
        async with anyio.create_task_group() as tasks:
            for item in items:
                tasks.start_soon(work, item)
    except Exception as error:
        raise root_cause(error) from None


def as_fault(error: Exception, launch: Launch) -> ConnectionFault:
    """Say of an error within `connect`, or a group of them, what it means for the child."""
    cause = root_cause(error)
    if isinstance(cause, ConnectionFault):
        return cause
    how = "could not be reached" if isinstance(cause, OSError | httpx2.HTTPError) else "failed"
    why = f"{type(cause).__name__}: {cause}".partition("\n")[0]
    fault = ConnectionFault(launch.redact(f"{how}: {why}"))
    fault.__cause__ = error
    return fault


def root_cause(error: BaseException) -> BaseException:
    """Return the first error in a group of groups; other errors as they are."""
    while nested := getattr(error, "exceptions", None):
        error = nested[0]
    return error


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}"
    return str(error)
