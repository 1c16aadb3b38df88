"""Responses to a client as they are written, and streams of events that outlast a connection.

https://html.spec.whatwg.org/multipage/server-sent-events.html
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, resumability
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.http.exchange import EVENTS, JSON, Disconnected, Refused
from mcpagg_runtime.messages.message import error, failure
from mcpagg_runtime.messages.protocol import INTERNAL_ERROR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpagg_runtime.http.exchange import Exchange
    from mcpagg_runtime.messages.message import Message

# How often a comment is written into a silent stream, since proxies close silent connections.
KEEP_ALIVE_SECONDS = 15.0
# How much may wait for a client that does not read, behind the message that is being written.
MAXIMUM_UNREAD_BYTES = 1 << 26
# How much of the streams of one session, and of all sessions in equal shares, is kept for replay,
# and for how long; the oldest is dropped first. Each event counts EVENT_BYTES more than its text.
MAXIMUM_REPLAY_BYTES = 1 << 22
MAXIMUM_REPLAYS_BYTES = 1 << 28
EVENT_BYTES = 1 << 10
REPLAY_SECONDS = 300.0
# How long a client is to wait before it reconnects.
RETRY_MILLISECONDS = 1000
# Since this revision, clients accept an event without data, from which a stream can be resumed at
# its beginning.
PRIMED_VERSION = "2025-11-25"


class ResponseWriter:
    """Writes messages for a client into one HTTP response; used only in the event loop.

    The response is a stream of events if `kind` says so, if it holds more than answers, or if there
    is no answer for long, since proxies limit the wait for the headers; else it is JSON.
    """

    def __init__(self, exchange: Exchange, kind: str = JSON, batch: bool = False) -> None:
        self.is_stream = kind == EVENTS
        self.takes_events = exchange.accepts(EVENTS)
        """Whether messages other than answers can be sent here."""
        self.is_disconnected = False
        """Whether the client has left, or does not read."""
        self.has_overflowed = False
        """Whether the client reads so slowly that too much waits for it."""
        self._exchange = exchange
        self._batch = batch
        self._code: int | None = None
        """The code of the error that is the answer, if it is one."""
        self._has_ended = False
        """Whether `end` was called."""
        self._end_reason = ""
        """Why it ends, for the client."""
        self._waiting: deque[tuple[bytes, str]] = deque()
        """The messages that wait, and the ids of their events."""
        self._size = 0
        self._changed = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether messages can be put here."""
        return not (self.is_disconnected or self._has_ended)

    def put(self, message: Message, event_id: str = "") -> None:
        """Queue a message; if too much waits, the client counts as disconnected."""
        if self._size > MAXIMUM_UNREAD_BYTES:
            self.has_overflowed = True
            self._disconnect()
        if not self.is_open:
            return
        line = message.line()
        self._waiting.append((line.rstrip(), event_id))
        self._size += len(line)
        if message.method is not None:
            self.is_stream = True
        else:
            self._code = message.code if message.is_error else None
        self._changed.set()

    def end(self, reason: str = "") -> None:
        """Accept no more messages; those that wait are written."""
        self._end_reason = self._end_reason or reason
        self._has_ended = True
        self._changed.set()

    def _disconnect(self) -> None:
        """Write nothing more, and drop what waits."""
        self.is_disconnected = True
        self._waiting.clear()
        self._changed.set()

    async def write(
        self,
        headers: Mapping[str, str] = {},
        opening: bytes = b"",
        patience: float = KEEP_ALIVE_SECONDS,
        status: Callable[[int], int] = lambda code: 200,
    ) -> bool:
        """Write the response as messages come; return whether the client stayed until its end.

        A stream begins with `opening`. After `patience` seconds without a message, the response
        becomes a stream. `status` returns the HTTP status of a JSON response for the code of an
        error.
        """
        with self._exchange.on_disconnect(self._disconnect):
            while self.is_open and not self.is_stream:
                if not await self._wait(patience):
                    self.is_stream = self.takes_events
                    patience = KEEP_ALIVE_SECONDS
            try:
                if self.is_disconnected:
                    return False
                if self.is_stream:
                    return await self._write_events(headers, opening)
                lines = self._drained()
                body = b",".join(line for line, _ in lines)
                answered = 200 if self._code is None else status(self._code)
                body = b"[" + body + b"]" if self._batch else body
                await self._exchange.respond(answered, body, headers)
            except Disconnected:
                self._disconnect()
                return False
        return True

    async def _write_events(self, headers: Mapping[str, str], opening: bytes) -> bool:
        """Write messages as events; return whether the client stayed."""
        exchange = self._exchange
        about = {
            "content-type": EVENTS,
            "cache-control": "no-cache, no-transform",
            "x-accel-buffering": "no",  # nginx keeps answers back until they are complete
        }
        await exchange.begin(200, {**about, **headers})
        if opening:
            await exchange.write(opening)
        while not self.is_disconnected and not (self._has_ended and not self._waiting):
            lines = self._drained()
            for line, event_id in lines:
                await exchange.write(event("message", line, event_id))
            if not lines and not await self._wait(KEEP_ALIVE_SECONDS):
                await exchange.write(b": still there\n\n")
        if self.is_disconnected:
            return False
        await exchange.end(f": {self._end_reason}\n\n".encode() if self._end_reason else b"")
        return True

    def _drained(self) -> list[tuple[bytes, str]]:
        """Return the messages that wait, and empty the queue."""
        lines = [*self._waiting]
        self._waiting.clear()
        self._size = 0
        return lines

    async def _wait(self, seconds: float) -> bool:
        """Wait so long for a change; return whether there was one."""
        if not self._changed.is_set():
            try:
                await asyncio.wait_for(self._changed.wait(), seconds)
            except asyncio.TimeoutError:
                return False
        self._changed.clear()
        return True


def event(name: str, data: bytes, identifier: str = "") -> bytes:
    """Return the text of an event; `data` is one line."""
    mark = b"id: " + identifier.encode("ascii") + b"\n" if identifier else b""
    return mark + b"event: " + name.encode("ascii") + b"\ndata: " + data + b"\n\n"


class Replay:
    """The last events of the streams of one session."""

    def __init__(self, limit: Callable[[], int]) -> None:
        """`limit` says how much is kept, in bytes."""
        self._limit = limit
        self._size = 0
        self._events: deque[tuple[float, int, int, Message]] = deque()
        """Of each event: the time, the number of its stream, its place there, and the message."""

    def __len__(self) -> int:
        return len(self._events)

    def add(self, stream: int, place: int, message: Message) -> None:
        limit = self._limit()
        if _cost(message) > limit and message.method is None:
            reason = f"the answer was lost: of one of more than {limit} bytes nothing is kept"
            message = failed_answer(message.id_text, reason)
        self._events.append((monotonic(), stream, place, message))
        self._size += _cost(message)
        self.drop_old()

    def events_after(self, stream: int, place: int) -> list[tuple[int, Message]]:
        """Return the events of a stream behind this place, each with its own place."""
        return [
            (at, message)
            for _, number, at, message in self._events
            if number == stream and at > place
        ]

    def drop_old(self) -> None:
        """Drop events beyond the limit, and those that are too old."""
        limit, oldest = self._limit(), monotonic() - REPLAY_SECONDS
        while self._events and (self._size > limit or self._events[0][0] < oldest):
            self._size -= _cost(self._events.popleft()[3])


class Stream:
    """The messages of one response, or those of a session outside of its responses.

    They are written to one connection at a time; if it breaks, the client resumes the stream over
    another, behind the last event that it has seen.
    """

    def __init__(self, number: int, replay: Replay) -> None:
        self.number = number
        self.writer: ResponseWriter | None = None
        """The way to the client, perhaps broken; None before there was one."""
        self._replay = replay
        self._last = 0
        """The place of the last event."""
        self._from = 0
        """The place behind which the connection resumes."""

    @property
    def is_attended(self) -> bool:
        """Whether a client reads this stream."""
        return self.writer is not None and self.writer.is_open

    @property
    def takes_events(self) -> bool:
        """Whether messages other than answers can be put here."""
        return self.writer is not None and self.writer.takes_events

    def opening(self, version: str) -> bytes:
        """Return the first event of a connection, for a client of this version."""
        if version < PRIMED_VERSION:
            return b": open\n\n"
        mark = _event_id(self.number, self._from)
        return f"id: {mark}\nretry: {RETRY_MILLISECONDS}\ndata: \n\n".encode("ascii")

    def put(self, message: Message) -> None:
        """Queue a message, and keep it for replay if it is written as an event."""
        writer = self.writer
        if writer is None:
            return
        mark = ""
        if writer.is_stream or (writer.is_open and message.method is not None):
            self._last += 1
            self._replay.add(self.number, self._last, message)
            mark = _event_id(self.number, self._last)
        writer.put(message, mark)

    def attach(self, writer: ResponseWriter, place: int | None = None) -> None:
        """Write to this response from now on; first replay what came behind `place`, if given."""
        self.end("another stream was opened")
        self.writer = writer
        self._from = self._last if place is None else place
        if place is not None:
            for at, message in self._replay.events_after(self.number, place):
                writer.put(message, _event_id(self.number, at))

    def end(self, reason: str = "") -> None:
        """End its connection, if there is one."""
        if self.writer is not None:
            self.writer.end(reason)


def _cost(message: Message) -> int:
    """Return how many bytes an event counts for in a replay."""
    return len(message.line()) + EVENT_BYTES


def _event_id(stream: int, place: int) -> str:
    return f"{stream}.{place}"


def parsed_event_id(event_id: str) -> tuple[int, int]:
    """Return the number of the stream and the place of an event id.

    Raises:
        Refused: it is not one of ours.
    """
    stream, _, place = event_id.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in (stream, place)):
        raise Refused(400, "Last-Event-ID is none of this session")
    return int(stream), int(place)


def failed_answer(identifier: str, reason: str) -> Message:
    """Return the error that answers a request which will get no other answer."""
    return failure(identifier, error(INTERNAL_ERROR, reason[:1].upper() + reason[1:]))
