"""HTTP+SSE, the transport of 2024-11-05: one stream for all answers, requests by POST beside it.

https://modelcontextprotocol.io/specification/2024-11-05/basic/transports, HTTP with SSE
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from mcpagg_runtime.http.exchange import EVENTS, Refused
from mcpagg_runtime.http.outgoing import event, pump, watched
from mcpagg_runtime.http.streamable import posted

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpagg_runtime.http.bridge import Bridge
    from mcpagg_runtime.http.exchange import Exchange
    from mcpagg_runtime.http.sessions import Sessions

STREAM_PATH, POST_PATH = "/sse", "/messages"


class EventSessions:
    """The sessions of this transport: each ends with its stream."""

    def __init__(self, bridge: Bridge, sessions: Sessions, emptied: Callable[[], None]) -> None:
        """`emptied` is called when the last stream has ended, and no other session is left."""
        self._emptied = emptied
        self._bridge = bridge
        self._sessions = sessions

    async def answer(self, exchange: Exchange) -> None:
        """Answer a request to either path.

        Raises:
            Refused: it is not carried out.
        """
        method = "GET" if exchange.path == STREAM_PATH else "POST"
        if exchange.method != method:
            raise Refused(405, f"{exchange.method} is not allowed here", headers={"allow": method})
        await (self._listen(exchange) if method == "GET" else self._post(exchange))

    async def _listen(self, exchange: Exchange) -> None:
        if not exchange.accepts(EVENTS):
            raise Refused(406, f"Accept has no {EVENTS}")
        session = await self._sessions.open()
        outgoing = session.open_stream()
        try:
            with watched(exchange, outgoing):
                await exchange.begin_events()
                place = f"{exchange.root}{POST_PATH}?session_id={session.identifier}"
                await exchange.write(event("endpoint", place.encode("latin-1")))
                await pump(exchange, outgoing)
        finally:
            await self._sessions.end(session)
            if not self._sessions:
                self._emptied()

    async def _post(self, exchange: Exchange) -> None:
        asked = parse_qs(exchange.query.decode("latin-1"))
        session = self._sessions.find(asked.get("session_id", [""])[0])
        if session.stream is None:
            raise Refused(404, "This session has no stream")
        messages, _ = await posted(exchange, self._bridge)
        requests = [one for one in messages if one.method is not None and one.id is not None]
        session.expect(session.stream, requests)
        await self._bridge.take(session.client, [*messages])
        await exchange.respond(202, b"Accepted", kind="text/plain")
