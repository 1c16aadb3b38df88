"""Streams of events that outlast a connection: what was written is kept to be fetched again.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, resumability
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.http.exchange import Refused
from mcpagg_runtime.messages.message import error, failure
from mcpagg_runtime.messages.protocol import INTERNAL_ERROR

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpagg_runtime.http.outgoing import Outgoing
    from mcpagg_runtime.messages.message import Message

# Of what was written into the streams of a session, so much is kept for so long; the oldest is
# dropped first. All sessions have so much in equal shares, and an event counts for what it costs
# beside its text.
MAXIMUM_REPLAY_BYTES = 1 << 22
MAXIMUM_REPLAYS_BYTES = 1 << 28
EVENT_BYTES = 1 << 10
REPLAY_SECONDS = 300.0
# So long a client is to wait until it asks again.
RETRY_MILLISECONDS = 1000
# Since this revision, clients take an event without data, by which a stream can be resumed from its
# beginning.
PRIMED_VERSION = "2025-11-25"


class Replay:
    """The last events of the streams of one session."""

    def __init__(self, limit: Callable[[], int]) -> None:
        """`limit` says how much is kept, in bytes."""
        self._limit = limit
        self._size = 0
        self._events: deque[tuple[float, int, int, Message]] = deque()
        """When each was said, the number of its stream, its place there, and what."""

    def __len__(self) -> int:
        return len(self._events)

    def add(self, stream: int, place: int, message: Message) -> None:
        """Keep an event."""
        limit = self._limit()
        if _cost(message) > limit and message.method is None:
            word = f"the answer was lost: of one of more than {limit} bytes nothing is kept"
            message = lost(message.id_text, word)
        self._events.append((monotonic(), stream, place, message))
        self._size += _cost(message)
        self.drop_old()

    def after(self, stream: int, place: int) -> list[tuple[int, Message]]:
        """Return the events of a stream that come behind this place, each with its own."""
        return [
            (at, said) for _, number, at, said in self._events if number == stream and at > place
        ]

    def drop_old(self) -> None:
        """Keep no more than there is room for, and nothing for too long."""
        limit, oldest = self._limit(), monotonic() - REPLAY_SECONDS
        while self._events and (self._size > limit or self._events[0][0] < oldest):
            self._size -= _cost(self._events.popleft()[3])


class Stream:
    """The messages of one answer, or of a session outside of its answers.

    One connection at a time carries them; where it breaks, another goes on behind the last event
    that the client has seen.
    """

    def __init__(self, number: int, replay: Replay) -> None:
        self.number = number
        self.outgoing: Outgoing | None = None
        """The way to the client, perhaps broken; None before there was one."""
        self._replay = replay
        self._last = 0
        """The place of the last event."""
        self._from = 0
        """The place behind which its connection goes on."""

    @property
    def is_attended(self) -> bool:
        """Whether a client reads what is put here."""
        return self.outgoing is not None and self.outgoing.is_open

    @property
    def takes_events(self) -> bool:
        """Whether messages other than answers can be put here."""
        return self.outgoing is not None and self.outgoing.takes_events

    def opening(self, version: str) -> bytes:
        """Return how its connection begins for a client of this version."""
        if version < PRIMED_VERSION:
            return b": open\n\n"
        mark = _event_id(self.number, self._from)
        return f"id: {mark}\nretry: {RETRY_MILLISECONDS}\ndata: \n\n".encode("ascii")

    def put(self, message: Message) -> None:
        """Have a message written, and keep it if it is an event; an answer may be a JSON body."""
        outgoing = self.outgoing
        if outgoing is None:
            return
        mark = ""
        if outgoing.is_stream or (outgoing.is_open and message.method is not None):
            self._last += 1
            self._replay.add(self.number, self._last, message)
            mark = _event_id(self.number, self._last)
        outgoing.put(message, mark)

    def carry(self, outgoing: Outgoing, place: int | None = None) -> None:
        """Go on with this connection, from behind this place, or with what is still to come."""
        self.end("another stream was opened")
        self.outgoing = outgoing
        self._from = self._last if place is None else place
        if place is not None:
            for at, message in self._replay.after(self.number, place):
                outgoing.put(message, _event_id(self.number, at))

    def end(self, word: str = "") -> None:
        """End its connection, if there is one."""
        if self.outgoing is not None:
            self.outgoing.end(word)


def _cost(message: Message) -> int:
    """Return what an event costs that is kept, in bytes."""
    return len(message.line()) + EVENT_BYTES


def _event_id(stream: int, place: int) -> str:
    return f"{stream}.{place}"


def position(event_id: str) -> tuple[int, int]:
    """Return the numbers of the stream and the place that the id of an event stands for.

    Raises:
        Refused: it is none of ours.
    """
    stream, _, place = event_id.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in (stream, place)):
        raise Refused(400, "Last-Event-ID is none of this session")
    return int(stream), int(place)


def lost(identifier: str, word: str) -> Message:
    """Return the answer to a request that nobody will answer any more, and why."""
    return failure(identifier, error(INTERNAL_ERROR, word[:1].upper() + word[1:]))
