"""The paths that MCP is served on: streamable HTTP of both eras, and HTTP+SSE of 2024-11-05.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, streamable HTTP
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports, streamable HTTP
https://modelcontextprotocol.io/specification/2024-11-05/basic/transports, HTTP with SSE
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs
from urllib.parse import quote as encode

from mcpagg_runtime.http.exchange import EVENTS, JSON, Refused
from mcpagg_runtime.http.streams import (
    KEEP_ALIVE_SECONDS,
    MAXIMUM_REPLAY_BYTES,
    PRIMED_VERSION,
    ResponseWriter,
    event,
    failed_answer,
)
from mcpagg_runtime.messages.jsontext import Malformed, NotAnObject, obj
from mcpagg_runtime.messages.param_headers import MARK, mismatch
from mcpagg_runtime.messages.protocol import (
    BATCH_VERSION,
    CANCELLED,
    CAPABILITIES_KEY,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LISTEN,
    METHOD_NOT_FOUND,
    MODERN_CODES,
    MODERN_VERSION,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)
from mcpagg_runtime.start.greeting import LEGACY_VERSIONS
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcpagg_runtime.http.bridge import Bridge
    from mcpagg_runtime.http.exchange import Exchange
    from mcpagg_runtime.http.sessions import Session, Sessions
    from mcpagg_runtime.http.streams import Stream
    from mcpagg_runtime.messages.message import Message

STREAM_PATH, POST_PATH = "/sse", "/messages"
SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"
LAST_EVENT_HEADER = "last-event-id"
# A call that takes longer is answered by a stream, if its client can resume that.
STREAM_AFTER_SECONDS = 0.1
STATUS_OF = {
    METHOD_NOT_FOUND: 404,
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS), 400),
    **dict.fromkeys(MODERN_CODES, 400),
}
"""The HTTP status for the code of an error; for all others, 200."""


class Endpoints:
    """Responds to requests to these paths; modern requests are left to `Stateless`."""

    def __init__(
        self,
        bridge: Bridge,
        sessions: Sessions,
        stateless: Stateless,
        on_last_client_left: Callable[[], None],
    ) -> None:
        """`on_last_client_left` is called when a stream of HTTP+SSE ends and no session is left."""
        self._bridge = bridge
        self._sessions = sessions
        self._stateless = stateless
        self._on_last_client_left = on_last_client_left

    async def answer(self, exchange: Exchange) -> None:
        """Respond to a request to the endpoint of streamable HTTP.

        Raises:
            Refused: the request is refused.
        """
        version = exchange.header(VERSION_HEADER)
        legacy = version in ("", *LEGACY_VERSIONS)
        _check_method(exchange, ("GET", "POST", "DELETE") if legacy else ("POST",))
        if exchange.method == "GET":
            await self._listen(exchange)
        elif exchange.method == "DELETE":
            await self._sessions.end(self._sessions.find(exchange.header(SESSION_HEADER)))
            await exchange.respond(204)
        else:
            messages, batch = await self._read_post(exchange)
            first = messages[0]
            enveloped = first.method != "initialize" and first.is_enveloped
            if not legacy or (enveloped and not version):
                await self._stateless.answer(exchange, messages, batch)
            else:
                await self._post(exchange, messages, batch)

    async def _post(self, exchange: Exchange, messages: list[Message], batch: bool) -> None:
        requests = _requests(messages)
        headers = {}
        if any(message.method == "initialize" for message in requests):
            if batch:
                raise Refused(400, "initialize does not stand in a batch")
            # It begins a session, even if the client names an old one.
            session = await self._sessions.open(MAXIMUM_REPLAY_BYTES)
            headers[SESSION_HEADER] = session.identifier
        else:
            session = self._sessions.find(exchange.header(SESSION_HEADER))
        if batch and session.client.version != BATCH_VERSION:
            raise Refused(400, f"Only version {BATCH_VERSION} has batches")
        if not requests:
            await self._forward(session, messages)
            await exchange.respond(202)
            return
        writer = ResponseWriter(exchange, batch=batch)
        stream = session.open_answer(writer, requests)
        try:
            await self._forward(session, messages)
        except BaseException:
            session.forget(stream)
            raise
        # A client that accepts any type may expect JSON.
        resumes = session.client.version >= PRIMED_VERSION and EVENTS in exchange.header("accept")
        patience = STREAM_AFTER_SECONDS if resumes else KEEP_ALIVE_SECONDS
        stayed = await self._write(session, stream, writer, headers, patience)
        if headers and not stayed:
            await self._sessions.end(session)  # its client does not know its id

    async def _forward(self, session: Session, messages: list[Message]) -> None:
        """Forward messages of a session; pending requests that they cancel are answered."""
        messages = [*messages, *session.early_cancellations(_requests(messages))]
        await self._bridge.forward(session.client, messages)
        for message in messages:
            if message.method == CANCELLED:
                session.cancel(message)

    async def _listen(self, exchange: Exchange) -> None:
        """Open the standalone stream of a session, or resume a stream that broke."""
        _check_events(exchange)
        session = self._sessions.find(exchange.header(SESSION_HEADER))
        last = exchange.header(LAST_EVENT_HEADER)
        writer = ResponseWriter(exchange, EVENTS)
        stream = session.resume(writer, last) if last else session.open_standalone(writer)
        await self._report_attendance(session, stream)
        await self._write(session, stream, writer, {SESSION_HEADER: session.identifier})

    async def _write(
        self,
        session: Session,
        stream: Stream,
        writer: ResponseWriter,
        headers: Mapping[str, str],
        patience: float = KEEP_ALIVE_SECONDS,
    ) -> bool:
        """Write a stream to a response; return whether the client stayed until its end.

        A request whose connection breaks goes on: only a cancellation ends it.
        """
        stayed = await writer.write(headers, stream.opening(session.client.version), patience)
        session.touch()
        await self._report_attendance(session, stream)
        if writer.has_overflowed:
            await self._sessions.end(session, "the client does not read")
        return stayed

    async def _report_attendance(self, session: Session, stream: Stream) -> None:
        """Notify the engine whether the client reads the pending answers of a stream."""
        async with session.attending:
            if pending := session.pending(stream):
                attended = stream.is_attended
                tell = self._bridge.attend if attended else self._bridge.unattend
                await tell(session.client, pending)

    # HTTP+SSE

    async def answer_sse(self, exchange: Exchange) -> None:
        """Respond to a request to one of the two paths of HTTP+SSE, where a session is a stream.

        Raises:
            Refused: the request is refused.
        """
        if exchange.path == STREAM_PATH:
            _check_method(exchange, ("GET",))
            await self._stream(exchange)
            return
        _check_method(exchange, ("POST",))
        asked = parse_qs(exchange.query.decode("latin-1"))
        session = self._sessions.find(asked.get("session_id", [""])[0])
        if not session.standalone.is_attended:
            raise Refused(404, "This session has no stream")
        messages, _ = await self._read_post(exchange)
        session.add_pending(session.standalone, _requests(messages))
        await self._forward(session, messages)
        await exchange.respond(202, b"Accepted", kind="text/plain")

    async def _stream(self, exchange: Exchange) -> None:
        _check_events(exchange)
        session = await self._sessions.open(replayed=0)
        # The root is decoded, so it may hold any character.
        place = f"{encode(exchange.root)}{POST_PATH}?session_id={session.identifier}"
        try:
            opening = event("endpoint", place.encode("ascii"))
            writer = ResponseWriter(exchange, EVENTS)
            session.open_standalone(writer)
            await writer.write({}, opening)
        finally:
            await self._sessions.end(session)
            if not self._sessions:
                self._on_last_client_left()

    async def _read_post(self, exchange: Exchange) -> tuple[list[Message], bool]:
        """Read the messages of a POST; also return whether they are a batch.

        Raises:
            Refused: they cannot be read.
            Disconnected: the client has left.
        """
        kind = exchange.header("content-type").partition(";")[0].strip().lower()
        if kind != JSON:
            raise Refused(415, f"Content-Type is not {JSON}", headers={"accept": JSON})
        if not exchange.accepts(JSON):
            raise Refused(406, f"Accept has no {JSON}")
        body = await exchange.body()
        messages: list[Message] = []
        for message in await self._bridge.read(body):
            if isinstance(message, Malformed):
                code = INVALID_REQUEST if isinstance(message, NotAnObject) else PARSE_ERROR
                raise Refused(400, f"Invalid message: {message}", code)
            if message.method is None and not message.is_response:
                raise Refused(400, "Invalid request")
            if message.id_text and message.id is None and message.method is not None:
                raise Refused(400, "Invalid request: an id is a string or an integer")
            messages.append(message)
        if not messages:
            raise Refused(400, "The body is empty", PARSE_ERROR)
        return messages, body.lstrip()[:1] == b"["


class Stateless:
    """Responds to modern requests: each POST is a client of its own, until its response."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._replies: dict[ResponseWriter, tuple[str, Callable[[Message], None]]] = {}
        """{the response: the JSON text of the request's id, what receives the answer}."""

    async def answer(self, exchange: Exchange, messages: list[Message], batch: bool) -> None:
        """Respond to a request.

        Raises:
            Refused: the request is refused.
        """
        message = messages[0]
        if batch or message.method is None:
            raise Refused(400, "The body is one request or notification")
        if message.id is None:
            # No notification has a meaning here: a client cancels a call by closing its response.
            _check_version(exchange.header(VERSION_HEADER), "null")
            await exchange.respond(202)
            return
        self._check(exchange, message)
        reply = ResponseWriter(exchange)

        def receive(message: Message) -> None:
            reply.put(message)
            if message.method is None:
                reply.end()

        client = self._bridge.client(receive)
        self._replies[reply] = message.id_text, receive
        try:
            await self._bridge.forward(client, [message])
            await reply.write(status=lambda code: STATUS_OF.get(code, 200))
        finally:
            del self._replies[reply]
            await self._bridge.disconnect(client)

    def end(self, reason: str) -> None:
        """Answer pending requests with an error that says why."""
        for identifier, receive in self._replies.values():
            receive(failed_answer(identifier, reason))

    def _check(self, exchange: Exchange, message: Message) -> None:
        identifier = message.id_text
        meta = message.params.get("_meta")
        envelope = meta if type(meta) is dict else {}
        for key in (VERSION_KEY, CAPABILITIES_KEY):
            if key not in envelope:
                text = f"params._meta needs {key}"
                raise Refused(400, text, INVALID_PARAMS, identifier=identifier)
        name = message.params.get("name") if message.method == "tools/call" else None
        tool = self._bridge.tool(message, name) if type(name) is str else None
        listed = tool.listed(tool.exposed) if tool is not None and tool.names(MARK) else ""
        if problem := mismatch(exchange.header_values, message, listed):
            text = f"Header mismatch: {problem}"
            raise Refused(400, text, HEADER_MISMATCH, identifier=identifier)
        _check_version(exchange.header(VERSION_HEADER), identifier)
        if message.method == "initialize":
            text = "Method not found: initialize"
            raise Refused(404, text, METHOD_NOT_FOUND, identifier=identifier)
        if message.method == LISTEN:
            _check_events(exchange, identifier)


def _check_method(exchange: Exchange, allowed: Sequence[str]) -> None:
    if exchange.method not in allowed:
        allow = {"allow": ", ".join(allowed)}
        raise Refused(405, f"{exchange.method} is not allowed here", headers=allow)


def _check_events(exchange: Exchange, identifier: str = "null") -> None:
    if not exchange.accepts(EVENTS):
        raise Refused(406, f"Accept has no {EVENTS}", identifier=identifier)


def _check_version(version: str, identifier: str) -> None:
    if version != MODERN_VERSION:
        raise Refused(
            400,
            "Unsupported protocol version",
            UNSUPPORTED_VERSION,
            identifier=identifier,
            data=obj(supported=f"[{quote(MODERN_VERSION)}]", requested=quote(version)),
        )


def _requests(messages: list[Message]) -> list[Message]:
    """Return those of the messages that are requests."""
    return [
        message for message in messages if message.method is not None and message.id is not None
    ]
