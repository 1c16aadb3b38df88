"""Sessions: each is one client, after its handshake, over many HTTP requests.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, session management
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.http.exchange import Refused
from mcpagg_runtime.http.streams import (
    MAXIMUM_REPLAYS_BYTES,
    Replay,
    Stream,
    failed_answer,
    parsed_event_id,
)
from mcpagg_runtime.messages.jsontext import parse
from mcpagg_runtime.messages.message import is_id
from mcpagg_runtime.messages.protocol import LISTS_CHANGED, PROGRESS, RESOURCE_UPDATED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpagg_runtime.http.bridge import Bridge
    from mcpagg_runtime.http.streams import ResponseWriter
    from mcpagg_runtime.messages.message import Message

MAXIMUM_SESSIONS = 1000
# A session without an open connection ends after so many seconds.
IDLE_SECONDS = 1800.0
# Messages for a client without an open stream are held for the next one: so many, each no longer
# than so many bytes; the oldest are dropped.
MAXIMUM_HELD = 100
MAXIMUM_HELD_BYTES = 1 << 16
# A cancellation may come before its request, since each is a POST of its own. So many are kept, for
# so long.
MAXIMUM_EARLY = 100
EARLY_SECONDS = 5.0
# The number of a session's standalone stream, which belongs to no request.
STANDALONE = 0


class Session:
    """One client, and its streams: the standalone one, and one for each response."""

    def __init__(self, identifier: str, bridge: Bridge, replayed: Callable[[], int]) -> None:
        """`replayed` returns how many bytes of its streams are kept for replay."""
        self.identifier = identifier
        self.client = bridge.client(self.receive)
        self.used_at = monotonic()
        self.attending = asyncio.Lock()
        """Held while the engine is notified of whether answers are read."""
        self.replay = Replay(replayed)
        self.standalone = Stream(STANDALONE, self.replay)
        """The messages outside of responses; over HTTP+SSE the answers as well."""
        self._streams = STANDALONE
        """How many response streams there have been."""
        self._drain_reason = ""
        """Why `standalone` ends once no answer is pending there, "" if it does not."""
        self._replies: dict[str, Stream] = {}
        """{JSON text of the id of a pending request: the stream for its answer}, oldest first."""
        self._tokens: dict[str, Stream] = {}
        """The same streams by the JSON texts of progress tokens."""
        self._held: deque[Message] = deque(maxlen=MAXIMUM_HELD)
        """Messages that came while no stream was open for them."""
        self._early_cancellations: deque[tuple[float, Message]] = deque(maxlen=MAXIMUM_EARLY)
        """Cancellations that came before their requests, and when."""

    @property
    def is_idle(self) -> bool:
        """Whether no connection of it is open."""
        streams = (self.standalone, *self._replies.values())
        return not any(stream.is_attended for stream in streams)

    def touch(self) -> None:
        self.used_at = monotonic()

    # Streams

    def open_answer(self, writer: ResponseWriter, requests: list[Message]) -> Stream:
        """Return a stream for the answers to these requests.

        Raises:
            Refused: one has the id of a pending request.
        """
        self._streams += 1
        stream = Stream(self._streams, self.replay)
        self.add_pending(stream, requests)
        stream.attach(writer)
        return stream

    def add_pending(self, stream: Stream, requests: list[Message]) -> None:
        """Note that the answers to these requests belong into a stream.

        Raises:
            Refused: one has the id of a pending request.
        """
        taken = {*self._replies}
        for message in requests:
            if message.id_text in taken:
                text = "A request with this id is still to be answered"
                raise Refused(400, text, identifier=message.id_text)
            taken.add(message.id_text)
        for message in requests:
            self._replies[message.id_text] = stream
            token = message.json("params").part("_meta", "progressToken")
            if token not in ("", "null"):
                self._tokens[token] = stream

    def pending(self, stream: Stream) -> list[str]:
        """Return the JSON texts of the ids of the requests that are pending in a stream."""
        return [key for key, other in self._replies.items() if other is stream]

    def open_standalone(self, writer: ResponseWriter, place: int | None = None) -> Stream:
        """Open the standalone stream; `place` is where it resumes.

        An older connection ends: the client may have lost it without our notice.
        """
        self.standalone.attach(writer, place)
        while self._held:
            self.standalone.put(self._held.popleft())
        return self.standalone

    def resume(self, writer: ResponseWriter, event_id: str) -> Stream:
        """Resume the stream of this event over another connection.

        Raises:
            Refused: nothing is left of it.
        """
        number, place = parsed_event_id(event_id)
        if number == STANDALONE:
            return self.open_standalone(writer, place)
        stream = next((s for s in self._replies.values() if s.number == number), None)
        if stream is not None:
            stream.attach(writer, place)
            return stream
        if not self.replay.events_after(number, place):
            # Some clients resume streams that they have read to the end; this status stops them.
            allow = {"allow": "POST, DELETE"}
            raise Refused(405, "Nothing is kept that came behind this event", headers=allow)
        stream = Stream(number, self.replay)
        stream.attach(writer, place)
        stream.end()
        return stream

    def drain(self, reason: str) -> None:
        """End the standalone stream once no answer is pending there."""
        self._drain_reason = reason
        if not self.pending(self.standalone):
            self.standalone.end(reason)

    # Messages to the client

    def receive(self, message: Message) -> None:
        """Put a message of the engine into its stream."""
        if message.method is None:
            stream = self._replies.pop(message.id_text, None)
            if stream is not None:
                stream.put(message)
                self._end_if_done(stream)
            return
        target = self._target(message)
        if target is not None:
            target.put(message)
        elif len(message.line()) <= MAXIMUM_HELD_BYTES and not self._is_held(message):
            self._held.append(message)

    def _end_if_done(self, stream: Stream) -> None:
        """End a stream in which no answer is pending any more."""
        if self.pending(stream):
            return
        self._tokens = {token: s for token, s in self._tokens.items() if s is not stream}
        if stream is not self.standalone:
            stream.end()
        elif self._drain_reason:
            stream.end(self._drain_reason)

    def _target(self, message: Message) -> Stream | None:
        """Return the stream for a request or a notification of a server, None for none.

        A message about a call belongs into the stream of its response. That is known of progress,
        and of most requests; what else there is, is put into the latest response that is read.
        Changes of lists and resources belong into the standalone stream.
        """
        if message.method == PROGRESS:
            token = message.json("params").part("progressToken")
            if token in self._tokens and self._tokens[token].takes_events:
                return self._tokens[token]
        own = self._replies.get(message.about)
        if own is not None and own.takes_events and own.is_attended:
            return own
        streams = [s for s in self._replies.values() if s.takes_events and s.is_attended]
        last = streams[-1] if streams else None
        standalone = self.standalone if self.standalone.is_attended else None
        if message.method in LISTS_CHANGED or message.method == RESOURCE_UPDATED:
            return standalone or last
        return last or standalone

    def _is_held(self, message: Message) -> bool:
        """Whether the same change of a list is held already: once is enough."""
        changed = message.method in LISTS_CHANGED
        return changed and any(held.method == message.method for held in self._held)

    # Requests without an answer of the engine

    def cancel(self, cancellation: Message) -> None:
        """Answer a cancelled request with an error, as servers of the SDKs do.

        A client would resume a stream that ends without an answer.
        """
        key = cancellation.params.get("requestId")
        identifier = next((text for text in self._replies if _is_text_of(text, key)), "")
        stream = self._replies.get(identifier)
        if stream is None:
            if len(cancellation.line()) <= MAXIMUM_HELD_BYTES:
                self._early_cancellations.append((monotonic(), cancellation))
        elif stream is self.standalone:
            del self._replies[identifier]
            self._end_if_done(stream)
        else:
            self.receive(failed_answer(identifier, "the request was cancelled"))

    def early_cancellations(self, requests: list[Message]) -> list[Message]:
        """Return the cancellations that came before these requests, each once."""
        limit = monotonic() - EARLY_SECONDS
        early = [one for one in self._early_cancellations if one[0] > limit]
        texts = [request.id_text for request in requests]
        meant = [
            (at, cancellation)
            for at, cancellation in early
            if any(_is_text_of(text, cancellation.params.get("requestId")) for text in texts)
        ]
        self._early_cancellations.clear()
        self._early_cancellations.extend([one for one in early if one not in meant])
        return [cancellation for _, cancellation in meant]

    def forget(self, stream: Stream) -> None:
        """Drop the pending requests of a stream: they were not forwarded."""
        self._replies = {key: s for key, s in self._replies.items() if s is not stream}
        self._end_if_done(stream)

    def end(self, reason: str) -> None:
        """End its streams; pending requests are answered with an error that says why."""
        for identifier in [*self._replies]:
            self.receive(failed_answer(identifier, reason))
        self.standalone.end(reason)


def _is_text_of(text: str, key: object) -> bool:
    """Whether this is the JSON text of an id, which may be written in several ways."""
    return is_id(key) and parse(text) == key


class Sessions:
    """All sessions by their ids."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter([*self._sessions.values()])

    async def open(self, replayed: int) -> Session:
        """Begin a session; if there are too many, one that is idle ends.

        At most `replayed` bytes of its streams are kept for replay.

        Raises:
            Refused: all are in use.
        """
        if len(self._sessions) >= MAXIMUM_SESSIONS:
            idle = [session for session in self if session.is_idle]
            if not idle:
                raise Refused(503, "Too many sessions", headers={"retry-after": "60"})
            oldest = min(idle, key=lambda session: session.used_at)
            await self.end(oldest, "the session has made room for another")

        def share() -> int:
            return min(replayed, MAXIMUM_REPLAYS_BYTES // max(1, len(self._sessions)))

        session = Session(os.urandom(16).hex(), self._bridge, share)
        self._sessions[session.identifier] = session
        return session

    def find(self, identifier: str) -> Session:
        """Return a session.

        Raises:
            Refused: there is no such session; the client is to repeat the handshake.
        """
        if not identifier:
            raise Refused(400, "Mcp-Session-Id is missing: it comes with the answer to initialize")
        session = self._sessions.get(identifier)
        if session is None:
            raise Refused(404, "There is no such session, or it has ended")
        session.touch()
        return session

    async def end(self, session: Session, reason: str = "the session has ended") -> None:
        """End a session, and disconnect its client."""
        if self._sessions.pop(session.identifier, None) is not None:
            session.end(reason)
            await self._bridge.disconnect(session.client)

    async def end_idle(self) -> None:
        """End sessions that were idle for long, and drop old events of the others."""
        limit = monotonic() - IDLE_SECONDS
        for session in self:
            session.replay.drop_old()
            if session.is_idle and session.used_at < limit:
                await self.end(session)
