"""The SDK's transports to the servers of a config, for the live aggregator.

Who a request says it is, and what is said of a server that lets nobody in, is decided by the
emitted file's own modules.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp
from anyio.to_thread import run_sync
from mcp.client import Transport
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from mcpagg_runtime.launch.launch import Launch
from mcpagg_runtime.remote.connections import Address
from mcpagg_runtime.remote.faults import (
    FORBIDDEN,
    UNAUTHORIZED,
    RemoteFault,
    lacking_scope,
    refused,
    unreachable,
)
from mcpagg_runtime.remote.login import Credentials

# Seconds: to connect and to send, and for the request that ends a session.
CONNECT_SECONDS = 30.0
HTTP_TIMEOUT = httpx2.Timeout(CONNECT_SECONDS, read=None)
DELETE_TIMEOUT = httpx2.Timeout(2.0)


def transport(launch: Launch, config: str) -> Transport:
    """Return the SDK's way to a server; `config` is by which a person logs in there."""
    if launch.transport == "stdio":
        command, *args = launch.argv
        return stdio_client(
            mcp.StdioServerParameters(
                command=command,
                args=args,
                env=launch.env,
                cwd=launch.cwd,
                encoding_error_handler="replace",
            )
        )
    auth = _Auth(launch, config)
    if launch.transport == "sse":
        return sse_client(launch.url, launch.headers, sse_read_timeout=math.inf, auth=auth)
    return _streamable_http(launch, auth)


def describe_failure(cause: BaseException, launch: Launch) -> str:
    """Say what a failure of HTTP means, "" for any other."""
    if isinstance(cause, RemoteFault):
        return cause.what
    if not isinstance(cause, httpx2.HTTPStatusError | httpx2.ConnectError):
        return ""
    address = Address(launch.url)
    if isinstance(cause, httpx2.HTTPStatusError):
        return refused(cause.response.status_code, address.shown, cause.response.headers)
    below: BaseException | None = cause
    reason = ""
    while below is not None:  # the last one is the system's own
        if isinstance(below, OSError):
            reason = unreachable(below, address.shown, address.host, CONNECT_SECONDS)
        below = below.__cause__ or below.__context__
    return reason


@asynccontextmanager
async def _streamable_http(launch: Launch, auth: httpx2.Auth) -> AsyncGenerator[Any, None]:
    hooks = {"request": [_shorten_delete], "response": []}
    async with (
        httpx2.AsyncClient(
            headers=launch.headers, auth=auth, timeout=HTTP_TIMEOUT, event_hooks=hooks
        ) as client,
        streamable_http_client(launch.url, http_client=client) as streams,
    ):
        yield streams


async def _shorten_delete(request: httpx2.Request) -> None:
    """Limit the request that ends a session: closing must not depend on the server."""
    if request.method == "DELETE":
        request.extensions = {**request.extensions, "timeout": DELETE_TIMEOUT.as_dict()}


class _Auth(httpx2.Auth):
    """Authorizes requests: by the headers of the config, else by the login of this user."""

    def __init__(self, launch: Launch, config: str) -> None:
        self._where = Address(launch.url).shown
        given = any(name.lower() == "authorization" for name in launch.headers)
        self._login = None if given else Credentials(launch, config)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request; once more with another token, where the first one is refused.

        Raises:
            RemoteFault: the server does not let us in.
        """
        token = None
        if self._login is not None:
            token = await run_sync(self._login.token, self._where)
            _bear(request, token)
        response = yield request
        if response.status_code == UNAUTHORIZED and self._login is not None:
            _bear(request, await run_sync(self._login.refreshed, token, self._where))
            response = yield request
        scope = lacking_scope(response.headers) if response.status_code == FORBIDDEN else ""
        if scope and token is not None and self._login is not None:
            raise self._login.lacks_scope(scope, self._where)
        if response.status_code in (UNAUTHORIZED, FORBIDDEN):
            what = refused(response.status_code, self._where, dict(response.headers))
            raise RemoteFault(what, response.status_code)


def _bear(request: httpx2.Request, token: str | None) -> None:
    if token is not None:
        request.headers["Authorization"] = f"Bearer {token}"
