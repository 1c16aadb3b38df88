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
from mcpagg_runtime.http.outgoing import KEEP_ALIVE_SECONDS, Outgoing, event
from mcpagg_runtime.http.streams import MAXIMUM_REPLAY_BYTES, PRIMED_VERSION, lost
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
    MISSING_CAPABILITY,
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
# A call that takes longer is answered by a stream, where its client can fetch the answer again.
STREAM_AFTER_SECONDS = 0.1
STATUS_OF = {
    METHOD_NOT_FOUND: 404,
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS), 400),
    **dict.fromkeys((HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION), 400),
}
"""The HTTP status that goes with the code of an error; with all others, 200."""


class Endpoints:
    """Answers requests to these paths: those of sessions here, those without by `Stateless`."""

    def __init__(
        self, bridge: Bridge, sessions: Sessions, stateless: Stateless, emptied: Callable[[], None]
    ) -> None:
        """`emptied` is called when a stream of HTTP+SSE has ended, and no session is left."""
        self._bridge = bridge
        self._sessions = sessions
        self._stateless = stateless
        self._emptied = emptied

    async def answer(self, exchange: Exchange) -> None:
        """Answer a request to the endpoint of streamable HTTP.

        Raises:
            Refused: it is not carried out.
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
            messages, batch = await self._posted(exchange)
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
            # It begins a session, whatever old one the client names.
            session = await self._sessions.open(MAXIMUM_REPLAY_BYTES)
            headers[SESSION_HEADER] = session.identifier
        else:
            session = self._sessions.find(exchange.header(SESSION_HEADER))
        if batch and session.client.version != BATCH_VERSION:
            raise Refused(400, f"Only version {BATCH_VERSION} has batches")
        if not requests:
            await self._take(session, messages)
            await exchange.respond(202)
            return
        outgoing = Outgoing(exchange, batch=batch)
        stream = session.open_answer(outgoing, requests)
        try:
            await self._take(session, messages)
        except BaseException:
            session.forget(stream)
            raise
        # Who names no type, or any, may well expect JSON.
        resumes = session.client.version >= PRIMED_VERSION and EVENTS in exchange.header("accept")
        patience = STREAM_AFTER_SECONDS if resumes else KEEP_ALIVE_SECONDS
        stayed = await self._write(session, stream, outgoing, headers, patience)
        if headers and not stayed:
            await self._sessions.end(session)  # its client does not know its id

    async def _take(self, session: Session, messages: list[Message]) -> None:
        """Take messages of a session; what it cancels is answered no more."""
        messages = [*messages, *session.overtook(_requests(messages))]
        await self._bridge.take(session.client, messages)
        for message in messages:
            if message.method == CANCELLED:
                session.cancel(message)

    async def _listen(self, exchange: Exchange) -> None:
        """Open the stream of what a session is sent outside of answers, or one that broke off."""
        _check_events(exchange)
        session = self._sessions.find(exchange.header(SESSION_HEADER))
        last = exchange.header(LAST_EVENT_HEADER)
        outgoing = Outgoing(exchange, EVENTS)
        stream = session.resume(outgoing, last) if last else session.open_news(outgoing)
        await self._tell_attendance(session, stream)
        await self._write(session, stream, outgoing, {SESSION_HEADER: session.identifier})

    async def _write(
        self,
        session: Session,
        stream: Stream,
        outgoing: Outgoing,
        headers: Mapping[str, str],
        patience: float = KEEP_ALIVE_SECONDS,
    ) -> bool:
        """Write a stream over a connection; return whether the client stayed until its end.

        A request whose connection broke goes on: only a cancellation ends it.
        """
        stayed = await outgoing.write(headers, stream.opening(session.client.version), patience)
        session.touch()
        await self._tell_attendance(session, stream)
        if outgoing.has_overflowed:
            await self._sessions.end(session, "the client does not read")
        return stayed

    async def _tell_attendance(self, session: Session, stream: Stream) -> None:
        """Tell the engine whether somebody reads the answers that are owed in a stream."""
        async with session.attending:
            if owed := session.owed(stream):
                attended = stream.is_attended
                tell = self._bridge.attend if attended else self._bridge.unattend
                await tell(session.client, owed)

    # HTTP+SSE

    async def answer_older(self, exchange: Exchange) -> None:
        """Answer a request to one of the two paths of HTTP+SSE, where a session is a stream.

        Raises:
            Refused: it is not carried out.
        """
        if exchange.path == STREAM_PATH:
            _check_method(exchange, ("GET",))
            await self._stream(exchange)
            return
        _check_method(exchange, ("POST",))
        asked = parse_qs(exchange.query.decode("latin-1"))
        session = self._sessions.find(asked.get("session_id", [""])[0])
        if not session.news.is_attended:
            raise Refused(404, "This session has no stream")
        messages, _ = await self._posted(exchange)
        session.expect(session.news, _requests(messages))
        await self._take(session, messages)
        await exchange.respond(202, b"Accepted", kind="text/plain")

    async def _stream(self, exchange: Exchange) -> None:
        _check_events(exchange)
        session = await self._sessions.open(replayed=0)
        # The root is a decoded text, of any characters.
        place = f"{encode(exchange.root)}{POST_PATH}?session_id={session.identifier}"
        try:
            opening = event("endpoint", place.encode("ascii"))
            outgoing = Outgoing(exchange, EVENTS)
            session.open_news(outgoing)
            await outgoing.write({}, opening)
        finally:
            await self._sessions.end(session)
            if not self._sessions:
                self._emptied()

    async def _posted(self, exchange: Exchange) -> tuple[list[Message], bool]:
        """Read the messages of a POST; return whether they are a batch, too.

        Raises:
            Refused: they cannot be read.
            Gone: the client has left.
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
    """Answers modern requests: each POST is a client of its own, which leaves with its answer."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._replies: dict[Outgoing, tuple[str, Callable[[Message], None]]] = {}
        """{the answer under way: the JSON text of its id, what takes it}."""

    async def answer(self, exchange: Exchange, messages: list[Message], batch: bool) -> None:
        """Answer a request.

        Raises:
            Refused: it is not carried out.
        """
        message = messages[0]
        if batch or message.method is None:
            raise Refused(400, "The body is one request or notification")
        if message.id is None:
            # None has a meaning here: whoever wants a call to end closes the stream of its answer.
            _check_version(exchange.header(VERSION_HEADER), "null")
            await exchange.respond(202)
            return
        self._check(exchange, message)
        reply = Outgoing(exchange)

        def receive(said: Message) -> None:
            reply.put(said)
            if said.method is None:
                reply.end()

        client = self._bridge.client(receive)
        self._replies[reply] = message.id_text, receive
        try:
            await self._bridge.take(client, [message])
            await reply.write(status=lambda code: STATUS_OF.get(code, 200))
        finally:
            del self._replies[reply]
            await self._bridge.disconnect(client)

    def end(self, word: str) -> None:
        """Answer what is owed with an error that says why."""
        for identifier, receive in self._replies.values():
            receive(lost(identifier, word))

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
        if problem := mismatch(exchange.all, message, listed):
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
    """Return those of the messages that are owed an answer."""
    return [one for one in messages if one.method is not None and one.id is not None]
