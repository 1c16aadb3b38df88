"""One HTTP request and its response, over ASGI.

https://asgi.readthedocs.io/en/latest/specs/www.html
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.message import error, failure
from mcpagg_runtime.messages.protocol import INVALID_REQUEST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
    from typing import Any

    Scope = Mapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON = "application/json"
EVENTS = "text/event-stream"
# How long the body of a request may take to arrive.
BODY_SECONDS = 60.0
# How many bytes of a body that is too large are read and discarded: a client that still sends does
# not read the refusal.
MAXIMUM_DISCARDED_BYTES = 1 << 26
# A client that reads nothing for so many seconds counts as disconnected. An ASGI server buffers one
# piece for its client and blocks on the next one, so a body is sent in pieces of so many bytes.
UNREAD_SECONDS = 60.0
PIECE_BYTES = 1 << 16


class Refused(Exception):
    """Raised for a request that is refused: its HTTP status, and an error of JSON-RPC."""

    def __init__(
        self,
        status: int,
        text: str,
        code: int = INVALID_REQUEST,
        *,
        identifier: str = "null",
        headers: Mapping[str, str] = {},
        data: str = "",
    ) -> None:
        """`identifier` is the JSON text of the id of the request, `data` that of the error's."""
        super().__init__(text)
        self.status = status
        self.headers = headers
        self.body = failure(identifier, error(code, text, data)).line().rstrip()


class Disconnected(Exception):
    """Raised when the client has closed its connection, or does not read."""


class Exchange:
    """One request, read from ASGI, and the response to it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        """`limit` is how large its body may be, in bytes."""
        self._limit = limit
        self.method: str = scope["method"]
        self.root: str = scope.get("root_path", "").rstrip("/")
        """The prefix of the path below which the application is mounted."""
        self.path = plain_path(_path_below(self.root, scope["path"]))
        self.query: bytes = scope.get("query_string", b"")
        self.server: tuple[str, int | None] | None = scope.get("server")
        """The address that the request came to; the port is None for a Unix socket. None if the
        ASGI server does not know it."""
        self.headers: list[tuple[str, str]] = [
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in scope["headers"]
        ]
        self.common: dict[str, str] = {}
        """Headers that every response has."""
        self.status = 0
        """The status of the response, 0 before it has begun."""
        self._is_last = False
        """Whether the last part was sent: a disconnect after that only ends the exchange."""
        self._body: bytes | None = None
        self._receive = receive
        self._send = send

    def header_values(self, name: str) -> list[str]:
        """Return the values of the headers of this name, which is in lower case."""
        return [value for header, value in self.headers if header == name]

    def header(self, name: str) -> str:
        """Return the value of the first header of this name, "" if there is none."""
        return next((value for header, value in self.headers if header == name), "")

    def accepts(self, kind: str) -> bool:
        """Whether the client accepts this type of content; without the header, any."""
        accepted = ",".join(self.header_values("accept")) or "*/*"
        ranges = [part.partition(";")[0].strip().lower() for part in accepted.split(",")]
        return not {kind, kind.partition("/")[0] + "/*", "*/*"}.isdisjoint(ranges)

    async def body(self) -> bytes:
        """Read the body.

        Raises:
            Refused: it is too large, or arrives too slowly.
            Disconnected: the client has left.
        """
        if self._body is not None:
            return self._body
        length = self.header("content-length")
        if length.isdigit() and int(length) > self._limit + MAXIMUM_DISCARDED_BYTES:
            raise self._too_large(is_read=False)
        try:
            self._body = await asyncio.wait_for(self._read(), BODY_SECONDS)
            return self._body
        except asyncio.TimeoutError:
            text = f"The body did not arrive within {BODY_SECONDS:g} seconds"
            raise Refused(408, text, headers={"connection": "close"}) from None

    async def _read(self) -> bytes:
        parts, size = [], 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            part = message.get("body", b"")
            size += len(part)
            is_read = not message.get("more_body", False)
            if size <= self._limit:
                parts.append(part)
            elif is_read or size > self._limit + MAXIMUM_DISCARDED_BYTES:
                raise self._too_large(is_read=is_read)
            else:
                parts.clear()
            if is_read:
                return b"".join(parts)

    def _too_large(self, *, is_read: bool) -> Refused:
        text = f"The body is larger than {self._limit} bytes"
        return Refused(413, text, headers={} if is_read else {"connection": "close"})

    @contextmanager
    def on_disconnect(self, then: Callable[[], None]) -> Iterator[None]:
        """Within the block, call `then` if the client closes its connection."""

        def left(task: asyncio.Future[None]) -> None:
            if not (task.cancelled() or self._is_last):
                then()

        on_disconnect = asyncio.ensure_future(self._wait_for_disconnect())
        on_disconnect.add_done_callback(left)
        try:
            yield
        finally:
            on_disconnect.cancel()

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # The response

    async def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = {}, kind: str = JSON
    ) -> None:
        """Send a whole response.

        Raises:
            Disconnected: the client has left.
        """
        about = {"content-type": kind} if body else {}
        length = {"content-length": str(len(body))} if status != 204 else {}
        await self.begin(status, {**about, **length, **headers})
        await self.end(body)

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin a response.

        Raises:
            Disconnected: the client has left, or reads nothing.
        """
        self.status = status
        lines = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in {**self.common, **headers}.items()
        ]
        await self._send_message(
            {"type": "http.response.start", "status": status, "headers": lines}
        )

    async def write(self, data: bytes) -> None:
        """Write a part of the body.

        Raises:
            Disconnected: the client has left, or reads nothing.
        """
        for start in range(0, len(data), PIECE_BYTES):
            await self._write_piece(data, start)

    async def end(self, data: bytes = b"") -> None:
        """End a response, with the last part of the body.

        Raises:
            Disconnected: the client has left, or reads nothing.
        """
        *starts, last = range(0, len(data) or 1, PIECE_BYTES)
        for start in starts:
            await self._write_piece(data, start)
        self._is_last = True
        await self._send_message({"type": "http.response.body", "body": data[last:]})

    async def _write_piece(self, data: bytes, start: int) -> None:
        piece = data[start : start + PIECE_BYTES]
        await self._send_message({"type": "http.response.body", "body": piece, "more_body": True})

    async def _send_message(self, message: MutableMapping[str, Any]) -> None:
        """Send an ASGI message; the server raises OSError if the client has disconnected."""
        try:
            await asyncio.wait_for(self._send(message), UNREAD_SECONDS)
        except (OSError, asyncio.TimeoutError):
            raise Disconnected from None


def plain_path(path: str) -> str:
    """Return a path without slashes at its end, which make no difference."""
    return path.rstrip("/") or "/"


def _path_below(root: str, path: str) -> str:
    """Return a path below a root.

    The application that mounts this one, or a proxy, may have removed the root, or a part of it.
    """
    for at in (at for at, character in enumerate(root) if character == "/"):
        if f"{path}/".startswith(f"{root[at:]}/"):
            return path[len(root) - at :]
    return path
