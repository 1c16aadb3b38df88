"""Streamable HTTP: the endpoint of both eras.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, streamable HTTP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.client import is_enveloped
from mcpagg_runtime.base.jsontext import Malformed, NotAnObject
from mcpagg_runtime.base.protocol import BATCH_VERSION, INVALID_REQUEST, PARSE_ERROR
from mcpagg_runtime.http.exchange import EVENTS, JSON, Refused
from mcpagg_runtime.http.outgoing import Reply, pump, watched
from mcpagg_runtime.start.greeting import LEGACY_VERSIONS

if TYPE_CHECKING:
    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.http.bridge import Bridge
    from mcpagg_runtime.http.exchange import Exchange
    from mcpagg_runtime.http.outgoing import Outgoing
    from mcpagg_runtime.http.sessions import Session, Sessions
    from mcpagg_runtime.http.stateless import Stateless

SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"


class Streamable:
    """Requests to the endpoint: those of sessions here, those without go to `Stateless`."""

    def __init__(self, bridge: Bridge, sessions: Sessions, stateless: Stateless) -> None:
        self._bridge = bridge
        self._sessions = sessions
        self._stateless = stateless

    async def answer(self, exchange: Exchange) -> None:
        """Answer a request.

        Raises:
            Refused: it is not carried out.
        """
        version = exchange.header(VERSION_HEADER)
        legacy = version in ("", *LEGACY_VERSIONS)
        allowed = ("GET", "POST", "DELETE") if legacy else ("POST",)
        if exchange.method not in allowed:
            allow = {"allow": ", ".join(allowed)}
            raise Refused(405, f"{exchange.method} is not allowed here", headers=allow)
        if exchange.method == "GET":
            await self._listen(exchange)
        elif exchange.method == "DELETE":
            await self._sessions.end(self._sessions.find(exchange.header(SESSION_HEADER)))
            await exchange.respond(204)
        else:
            messages, batch = await posted(exchange, self._bridge)
            first = messages[0]
            enveloped = first.method != "initialize" and is_enveloped(first)
            if not legacy or (enveloped and not version):
                await self._stateless.answer(exchange, messages, batch)
            else:
                await self._post(exchange, messages, batch)

    async def _post(self, exchange: Exchange, messages: list[Message], batch: bool) -> None:
        if any(message.method == "initialize" and message.id is not None for message in messages):
            if batch:
                raise Refused(400, "initialize does not stand in a batch")
            await self._shake_hands(exchange, messages[0])
            return
        session = self._sessions.find(exchange.header(SESSION_HEADER))
        if batch and session.client.version != BATCH_VERSION:
            raise Refused(400, f"Only version {BATCH_VERSION} has batches")
        requests = [one for one in messages if one.method is not None and one.id is not None]
        if not requests:
            await self._bridge.take(session.client, [*messages])
            await exchange.respond(202)
            return
        reply = Reply(exchange, [message.id_text for message in requests], batch)
        session.expect(reply, requests)
        try:
            await self._bridge.take(session.client, [*messages])
            await reply.write()
        finally:
            session.forget(reply)
        await self._end_if_stuck(session, reply.outgoing)

    async def _shake_hands(self, exchange: Exchange, message: Message) -> None:
        """Begin a session, whatever old one the client names."""
        session = await self._sessions.open()
        reply = Reply(exchange, [message.id_text])
        session.expect(reply, [message])
        try:
            await self._bridge.take(session.client, [message])
            stayed = await reply.write({SESSION_HEADER: session.identifier})
        finally:
            session.forget(reply)
        if not stayed:
            await self._sessions.end(session)

    async def _listen(self, exchange: Exchange) -> None:
        """Open the stream of what a session is told outside of answers."""
        if not exchange.accepts(EVENTS):
            raise Refused(406, f"Accept has no {EVENTS}")
        session = self._sessions.find(exchange.header(SESSION_HEADER))
        outgoing = session.open_stream()
        with watched(exchange, outgoing):
            await exchange.begin_events({SESSION_HEADER: session.identifier})
            await exchange.write(b": open\n\n")
            await pump(exchange, outgoing)
        if session.stream is outgoing:
            session.close_stream()
        session.touch()
        await self._end_if_stuck(session, outgoing)

    async def _end_if_stuck(self, session: Session, outgoing: Outgoing) -> None:
        """End a session whose client does not read what it gets."""
        if outgoing.has_overflowed:
            await self._sessions.end(session, "the client does not read")


async def posted(exchange: Exchange, bridge: Bridge) -> tuple[list[Message], bool]:
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
    for message in await bridge.read(body):
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
