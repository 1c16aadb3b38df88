"""A child that is reached by SSE or streamable HTTP, on the SDK's own transports."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

# Seconds to connect, to send, and for a free connection; an answer may take any time, since each
# request has a limit of its own.
TIMEOUT = httpx2.Timeout(30.0, read=None)
FAREWELL = httpx2.Timeout(2.0)


@asynccontextmanager
async def open_remote(
    url: str, headers: Mapping[str, str], *, sse: bool
) -> AsyncGenerator[RemoteChild, None]:
    """Connect to `url`; every request carries `headers`.

    Raises:
        Exception: also from within a group, whatever the SDK makes of an address that does not
            answer or does not speak the protocol.
    """
    async with AsyncExitStack() as stack:
        client = create_mcp_http_client(headers=dict(headers), timeout=TIMEOUT)
        if sse:
            transport = sse_client(
                url, httpx_client_factory=lambda headers=None, timeout=None, auth=None: client
            )
        else:
            await stack.enter_async_context(client)
            transport = streamable_http_client(url, http_client=client, max_sse_event_size=None)
        child = RemoteChild(client, sse=sse)
        child.read, child.write = await stack.enter_async_context(transport)
        yield child


class RemoteChild:
    """The link to a remote child: what `ChildProcess` is to one over stdio."""

    read: ReadStream[SessionMessage | Exception]
    write: WriteStream[SessionMessage]
    broken = False
    last_words = ""
    noise: tuple[str, ...] = ()

    def __init__(self, client: httpx2.AsyncClient, *, sse: bool) -> None:
        """Watch the responses to `client`: the SDK keeps their status to itself."""
        self._sse = sse
        self._status: int | None = None
        client.event_hooks = {"request": [_hasten], "response": [self._note]}

    @property
    def hopeless(self) -> bool:
        """Whether an older version would be refused as well: 401, 404, 503, but not 400."""
        return self._status not in (None, 400)

    @property
    def refusal(self) -> str:
        """The status of the last message, if it was refused: `HTTP 401`."""
        return f"HTTP {self._status}" if self._status else ""

    async def fate(self) -> str:
        """Say what became of the connection."""
        return f"answered {self.refusal}" if self._status else "closed the connection"

    async def _note(self, response: httpx2.Response) -> None:
        # The GET of streamable HTTP is an offer that a server may decline.
        if self._sse or response.request.method == "POST":
            self._status = response.status_code if response.status_code >= 400 else None


async def _hasten(request: httpx2.Request) -> None:
    """Give the farewell to a session little time: closing must not depend on the server."""
    if request.method == "DELETE":
        request.extensions = {**request.extensions, "timeout": FAREWELL.as_dict()}
