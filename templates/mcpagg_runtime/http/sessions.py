"""The sessions of clients that have shaken hands: each is one client over many HTTP requests.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, session management
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.http.exchange import Refused
from mcpagg_runtime.http.streams import MAXIMUM_REPLAYS_BYTES, Replay, Stream, lost, position
from mcpagg_runtime.messages.protocol import LISTS_CHANGED, PROGRESS, RESOURCE_UPDATED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpagg_runtime.http.bridge import Bridge
    from mcpagg_runtime.http.outgoing import Outgoing
    from mcpagg_runtime.messages.message import Message

MAXIMUM_SESSIONS = 1000
# A session without an open connection ends after so many seconds.
IDLE_SECONDS = 1800.0
# What is sent to a client that has no stream open is kept for the next one: so many messages, each
# no longer than so many bytes; the oldest are dropped.
MAXIMUM_KEPT = 100
MAXIMUM_KEPT_BYTES = 1 << 16
# A cancellation may overtake its request, as each is a POST of its own: those of requests that have
# not come are remembered, so many for so long.
MAXIMUM_OVERTAKING = 100
OVERTAKING_SECONDS = 5.0
# The number of the stream of a session that is of no request.
NEWS = 0


class Session:
    """One client, and which of its streams a message for it belongs into."""

    def __init__(self, identifier: str, bridge: Bridge, replayed: Callable[[], int]) -> None:
        """`replayed` says how much of its streams is kept to be fetched again, in bytes."""
        self.identifier = identifier
        self.client = bridge.client(self.receive)
        self.used_at = monotonic()
        self.attending = asyncio.Lock()
        """Held while the engine is told whether answers are read."""
        self.replay = Replay(replayed)
        self.news = Stream(NEWS, self.replay)
        """Takes messages outside of the answers, if the client has a stream open for them; over
        HTTP+SSE the answers too."""
        self._streams = NEWS
        """How many others there have been."""
        self._parting = ""
        """Why `news` ends as soon as nothing more is owed there, "" for not at all."""
        self._replies: dict[str, Stream] = {}
        """{JSON text of the id of a request: where the answer belongs}, oldest first."""
        self._tokens: dict[str, Stream] = {}
        """The same by the JSON text of its progress token."""
        self._kept: deque[Message] = deque(maxlen=MAXIMUM_KEPT)
        """What came while no stream was open for it."""
        self._overtaking: deque[tuple[float, str, Message]] = deque(maxlen=MAXIMUM_OVERTAKING)
        """Cancellations whose requests have not come: since when, and the ids of those."""

    @property
    def is_idle(self) -> bool:
        """Whether no connection of it is open."""
        return not any(one.is_attended for one in (self.news, *self._replies.values()))

    def touch(self) -> None:
        """Note that it is used."""
        self.used_at = monotonic()

    # Its streams

    def open_answer(self, outgoing: Outgoing, requests: list[Message]) -> Stream:
        """Return a stream for the answers to these requests.

        Raises:
            Refused: one has the id of another that is still to be answered.
        """
        self._streams += 1
        stream = Stream(self._streams, self.replay)
        self.expect(stream, requests)
        stream.carry(outgoing)
        return stream

    def expect(self, stream: Stream, requests: list[Message]) -> None:
        """Have the answers to these requests put into a stream.

        Raises:
            Refused: one has the id of another that is still to be answered.
        """
        for message in requests:
            if message.id_text in self._replies:
                text = "A request with this id is still to be answered"
                raise Refused(400, text, identifier=message.id_text)
        for message in requests:
            self._replies[message.id_text] = stream
            token = message.json("params").part("_meta", "progressToken")
            if token not in ("", "null"):
                self._tokens[token] = stream

    def owed(self, stream: Stream) -> list[str]:
        """Return the JSON texts of the ids of the requests that are to be answered in a stream."""
        return [identifier for identifier, one in self._replies.items() if one is stream]

    def open_news(self, outgoing: Outgoing, place: int | None = None) -> Stream:
        """Open the stream for messages outside of the answers, behind this place.

        An older one ends: a client whose connection broke unnoticed opens another.
        """
        self.news.carry(outgoing, place)
        while self._kept:
            self.news.put(self._kept.popleft())
        return self.news

    def resume(self, outgoing: Outgoing, event_id: str) -> Stream:
        """Return the stream of this event, which goes on behind it over another connection.

        Raises:
            Refused: nothing is left of it.
        """
        number, place = position(event_id)
        if number == NEWS:
            return self.open_news(outgoing, place)
        stream = next((one for one in self._replies.values() if one.number == number), None)
        if stream is not None:
            stream.carry(outgoing, place)
            return stream
        if not self.replay.after(number, place):
            # Clients ask no more after this status; some ask for what they have read to its end.
            allow = {"allow": "POST, DELETE"}
            raise Refused(405, "Nothing is kept that came behind this event", headers=allow)
        stream = Stream(number, self.replay)
        stream.carry(outgoing, place)
        stream.end()
        return stream

    def part(self, word: str) -> None:
        """End the stream of news as soon as nothing more is owed there."""
        self._parting = word
        if not self.owed(self.news):
            self.news.end(word)

    # What it is sent

    def receive(self, message: Message) -> None:
        """Take what the engine says to the client."""
        if message.method is None:
            stream = self._replies.pop(message.id_text, None)
            if stream is not None:
                stream.put(message)
                self._settle(stream)
            return
        target = self._target(message)
        if target is not None:
            target.put(message)
        elif len(message.line()) <= MAXIMUM_KEPT_BYTES and not self._is_kept(message):
            self._kept.append(message)

    def _settle(self, stream: Stream) -> None:
        """End a stream in which nothing is owed any more."""
        if self.owed(stream):
            return
        self._tokens = {token: one for token, one in self._tokens.items() if one is not stream}
        if stream is not self.news:
            stream.end()
        elif self._parting:
            stream.end(self._parting)

    def _target(self, message: Message) -> Stream | None:
        """Return where a request or a notification is written.

        What is about a call belongs into its answer. Of all but progress that is not known: it is
        taken for the call that came last of those whose answer is read. News that no call caused
        belong into the stream for them.
        """
        if message.method == PROGRESS:
            token = message.json("params").part("progressToken")
            if token in self._tokens and self._tokens[token].takes_events:
                return self._tokens[token]
        streams = [one for one in self._replies.values() if one.takes_events and one.is_attended]
        last = streams[-1] if streams else None
        news = self.news if self.news.is_attended else None
        if message.method in LISTS_CHANGED or message.method == RESOURCE_UPDATED:
            return news or last
        return last or news

    def _is_kept(self, message: Message) -> bool:
        """Whether the same is held already: that a list has changed is said once."""
        changed = message.method in LISTS_CHANGED
        return changed and any(one.method == message.method for one in self._kept)

    # Requests that the engine will not answer

    def cancel(self, cancellation: Message) -> None:
        """End the answer to a request that was taken back, as servers of the SDKs do.

        To a stream that ends without an answer, clients come back.
        """
        identifier = cancellation.json("params").part("requestId")
        stream = self._replies.get(identifier)
        if stream is None:
            if len(cancellation.line()) <= MAXIMUM_KEPT_BYTES:
                self._overtaking.append((monotonic(), identifier, cancellation))
        elif stream is self.news:
            del self._replies[identifier]
            self._settle(stream)
        else:
            self.receive(lost(identifier, "the request was cancelled"))

    def overtook(self, requests: list[Message]) -> list[Message]:
        """Return the cancellations that have come before these requests."""
        limit, identifiers = monotonic() - OVERTAKING_SECONDS, {one.id_text for one in requests}
        return [
            cancellation
            for at, identifier, cancellation in self._overtaking
            if at > limit and identifier in identifiers
        ]

    def forget(self, stream: Stream) -> None:
        """Owe nothing more in a stream: its requests were not taken."""
        self._replies = {key: one for key, one in self._replies.items() if one is not stream}
        self._settle(stream)

    def end(self, word: str) -> None:
        """End its HTTP answers; what is owed is an error that says why."""
        for identifier in [*self._replies]:
            self.receive(lost(identifier, word))
        self.news.end(word)


class Sessions:
    """All sessions, by their ids."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter([*self._sessions.values()])

    async def open(self, replayed: int) -> Session:
        """Begin a session; where there are too many, one ends that is not in use.

        At most `replayed` bytes of its streams are kept to be fetched again.

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
            Refused: there is none of this id; the client is to shake hands again.
        """
        if not identifier:
            raise Refused(400, "Mcp-Session-Id is missing: it comes with the answer to initialize")
        session = self._sessions.get(identifier)
        if session is None:
            raise Refused(404, "There is no such session, or it has ended")
        session.touch()
        return session

    async def end(self, session: Session, word: str = "the session has ended") -> None:
        """End a session, and what belongs to it."""
        if self._sessions.pop(session.identifier, None) is not None:
            session.end(word)
            await self._bridge.disconnect(session.client)

    async def end_idle(self) -> None:
        """End the sessions that nobody has used for long, and keep nothing for too long."""
        limit = monotonic() - IDLE_SECONDS
        for session in self:
            session.replay.drop_old()
            if session.is_idle and session.used_at < limit:
                await self.end(session)
