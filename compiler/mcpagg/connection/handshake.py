"""From a server of the config to a connection: start it or reach it, and agree on a version."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import anyio
import httpx2

from mcpagg.connection.remote import open_remote
from mcpagg.connection.requests import Connection, ConnectionFault, Link
from mcpagg.connection.stdio import open_child
from mcpagg.snapshot import Json
from mcpagg.spec import ServerSpec
from mcpagg_runtime.client import LEGACY_VERSIONS
from mcpagg_runtime.launch import Launch

FIRST_SHARE = 0.75

T = TypeVar("T")


@asynccontextmanager
async def connect(
    server: ServerSpec, launch: Launch, capabilities: Json, seconds: float
) -> AsyncGenerator[Connection, None]:
    """Start or reach a child and shake hands with it, as a client with these `capabilities`.

    A child that refuses the newest version with a handshake, or is silent, is asked again in each
    older one, always on a fresh process, since a refusal may have left it in any state. All tries
    together take at most `seconds`: the first one three quarters, because a child that is still
    installing is far more common than one that hangs over a version; the others share the rest. A
    child that exits for another reason than its version is not started again: see `hopeless`.

    Raises:
        ConnectionFault: what came of the first try.
        Exception: also within a group, what the SDK's HTTP transports make of an address.
    """
    end = anyio.current_time() + seconds
    first: ConnectionFault | None = None
    for older, version in enumerate(LEGACY_VERSIONS):
        left = end - anyio.current_time()
        share = left / (len(LEGACY_VERSIONS) - older) if older else left * FIRST_SHARE
        connection: Connection | None = None
        fault: ConnectionFault | None = None
        hopeless = False
        with anyio.move_on_after(share) as patience:
            async with _connected(server, launch, capabilities) as connection:
                fault = await connection.initialize(version)
                if fault is None:
                    patience.deadline = math.inf
                    yield connection
                    return
                hopeless = connection.hopeless  # while it can be told from how we end it
        first = first or fault or _silence(connection, seconds)
        if hopeless or anyio.current_time() >= end:
            break
    raise first or ConnectionFault("was not asked")


def _silence(connection: Connection | None, seconds: float) -> ConnectionFault:
    what = f"did not answer initialize within {seconds:g} s"
    if connection is None:
        return ConnectionFault(what)
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
