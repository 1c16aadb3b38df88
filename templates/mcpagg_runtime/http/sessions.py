"""The sessions of clients that have shaken hands: each is one client over many HTTP requests.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, session management
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.base.message import error, failure
from mcpagg_runtime.base.protocol import (
    INTERNAL_ERROR,
    LISTS_CHANGED,
    PROGRESS,
    RESOURCE_UPDATED,
)
from mcpagg_runtime.http.exchange import Elsewhere, Outgoing, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.http.bridge import Bridge
    from mcpagg_runtime.http.exchange import Exchange
    from mcpagg_runtime.http.siblings import Siblings

MAXIMUM_SESSIONS = 1000
# A session without a request or an open stream ends after so many seconds.
IDLE_SECONDS = 1800.0
# What is sent to a client that has no stream open is kept for the next one: so many messages, each
# no longer than so many bytes; the oldest are dropped.
MAXIMUM_KEPT = 100
MAXIMUM_KEPT_BYTES = 1 << 16


class Session:
    """One client, and which of its HTTP answers a message for it belongs into."""

    def __init__(self, identifier: str, bridge: Bridge) -> None:
        self.identifier = identifier
        self.client = bridge.client(self.receive)
        self.stream: Outgoing | None = None
        """Takes messages outside of the answers, if the client has a stream open for them."""
        self.used_at = monotonic()
        self._parting = ""
        """Why its stream ends as soon as nothing more is owed there, "" for not at all."""
        self._replies: dict[str, Outgoing] = {}
        """{JSON text of the id of a request: where the answer belongs}, oldest first."""
        self._tokens: dict[str, Outgoing] = {}
        """The same by the JSON text of its progress token."""
        self._kept: deque[Message] = deque(maxlen=MAXIMUM_KEPT)

    @property
    def is_idle(self) -> bool:
        """Whether no HTTP request of it is open."""
        return self.stream is None and not self._replies

    def touch(self) -> None:
        """Note that it is used."""
        self.used_at = monotonic()

    # Its HTTP answers

    def expect(self, reply: Outgoing, messages: list[Message]) -> None:
        """Have the answers to these requests written into `reply`, a stream perhaps.

        Raises:
            Refused: one has the id of another that is still to be answered.
        """
        for message in messages:
            if message.id_text in self._replies:
                text = "A request with this id is still to be answered"
                raise Refused(400, text, identifier=message.id_text)
        for message in messages:
            self._replies[message.id_text] = reply
            token = message.json("params").part("_meta", "progressToken")
            if token not in ("", "null"):
                self._tokens[token] = reply

    def forget(self, reply: Outgoing) -> None:
        """Nothing more is written into a reply: it is complete, or its client has left.

        A request whose connection broke goes on: only a cancellation ends it.
        """
        self._replies = {key: one for key, one in self._replies.items() if one is not reply}
        self._tokens = {key: one for key, one in self._tokens.items() if one is not reply}
        self.touch()

    def open_stream(self, exchange: Exchange) -> Outgoing:
        """Return a new stream for messages outside of the answers; an older one ends.

        A client whose connection broke unnoticed opens another.
        """
        self.close_stream("another stream was opened")
        self.stream = Outgoing(exchange)
        while self._kept:
            self.stream.put(self._kept.popleft())
        return self.stream

    def close_stream(self, word: str = "") -> None:
        """End the stream, if there is one."""
        if self.stream is not None:
            self.stream.end(word)
            self.stream = None

    def part(self, word: str) -> None:
        """End the stream as soon as nothing more is owed there."""
        self._parting = word
        if self.stream not in self._replies.values():
            self.close_stream(word)

    # What it is sent

    def receive(self, message: Message) -> None:
        """Take what the engine says to the client."""
        if message.method is None:
            reply = self._replies.pop(message.id_text, None)
            if reply is not None:
                reply.put(message)
            if self._parting:
                self.part(self._parting)
            return
        target = self._target(message)
        if target is not None:
            target.put(message)
        elif len(message.line()) <= MAXIMUM_KEPT_BYTES and not self._is_kept(message):
            self._kept.append(message)

    def _target(self, message: Message) -> Outgoing | None:
        """Return where a request or a notification is written.

        What is about a call belongs into its answer. Of all but progress that is not known: it is
        taken for the call that came last. News that no call caused belong into the stream.
        """
        if message.method == PROGRESS:
            token = message.json("params").part("progressToken")
            if token in self._tokens and self._tokens[token].takes_events:
                return self._tokens[token]
        talking = [reply for reply in self._replies.values() if reply.takes_events]
        last = talking[-1] if talking else None
        if message.method in LISTS_CHANGED or message.method == RESOURCE_UPDATED:
            return self.stream or last
        return last or self.stream

    def _is_kept(self, message: Message) -> bool:
        """Whether the same is held already: that a list has changed is said once."""
        changed = message.method in LISTS_CHANGED
        return changed and any(one.method == message.method for one in self._kept)

    def end(self, word: str) -> None:
        """End its HTTP answers; what is owed is an error that says why."""
        replies, self._replies, self._tokens = self._replies, {}, {}
        for identifier, reply in replies.items():
            reply.put(lost(identifier, word))
        self.close_stream(word)


def lost(identifier: str, word: str) -> Message:
    """Return the answer to a request that nobody will answer any more, and why."""
    return failure(identifier, error(INTERNAL_ERROR, word[:1].upper() + word[1:]))


def no_session() -> Refused:
    """Return the refusal of a session that nobody has: the client is to shake hands again."""
    return Refused(404, "There is no such session, or it has ended")


class Sessions:
    """All sessions, by their ids."""

    def __init__(self, bridge: Bridge, siblings: Siblings) -> None:
        self._bridge = bridge
        self._siblings = siblings
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter([*self._sessions.values()])

    async def open(self) -> Session:
        """Begin a session; where there are too many, one ends that is not in use.

        Raises:
            Refused: all are in use.
        """
        if len(self._sessions) >= MAXIMUM_SESSIONS:
            idle = [session for session in self if session.is_idle]
            if not idle:
                raise Refused(503, "Too many sessions", headers={"retry-after": "60"})
            oldest = min(idle, key=lambda session: session.used_at)
            await self.end(oldest, "the session has made room for another")
        session = Session(self._siblings.mint(), self._bridge)
        self._sessions[session.identifier] = session
        return session

    def find(self, identifier: str) -> Session:
        """Return a session.

        Raises:
            Refused: there is none of this id; the client is to shake hands again.
            Elsewhere: another worker has it.
        """
        if not identifier:
            raise Refused(400, "Mcp-Session-Id is missing: it comes with the answer to initialize")
        session = self._sessions.get(identifier)
        if session is None:
            worker = self._siblings.other(identifier)
            if worker:
                raise Elsewhere(worker)
            raise no_session()
        session.touch()
        return session

    async def end(self, session: Session, word: str = "the session has ended") -> None:
        """End a session, and what belongs to it."""
        if self._sessions.pop(session.identifier, None) is not None:
            session.end(word)
            await self._bridge.disconnect(session.client)

    async def end_idle(self) -> None:
        """End the sessions that nobody has used for long."""
        limit = monotonic() - IDLE_SECONDS
        for session in self:
            if session.is_idle and session.used_at < limit:
                await self.end(session)
