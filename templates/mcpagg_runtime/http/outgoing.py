"""What is said to a client in one HTTP answer: a JSON body, or a stream of events."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from mcpagg_runtime.http.exchange import EVENTS, JSON, Gone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpagg_runtime.http.exchange import Exchange
    from mcpagg_runtime.messages.message import Message

# Into a stream that says nothing, a comment is written so often: proxies close silent connections.
KEEP_ALIVE_SECONDS = 15.0
# So much may wait for a client that does not read, behind the message that is being written.
MAXIMUM_UNREAD_BYTES = 1 << 26


class Outgoing:
    """What is said to a client on its way into one answer; only used in the event loop.

    It is a stream of events if its `kind` says so, if more is said than answers, or if nothing is
    said for long, for what lies between here and the client waits no longer for the headers of an
    answer; else JSON.
    """

    def __init__(self, exchange: Exchange, kind: str = JSON, batch: bool = False) -> None:
        self.is_stream = kind == EVENTS
        self.takes_events = exchange.accepts(EVENTS)
        """Whether messages other than the answers owed can be sent here."""
        self.is_left = False
        """Whether nobody reads it any more."""
        self.has_overflowed = False
        """Whether the client reads so slowly that too much waits for it."""
        self._exchange = exchange
        self._batch = batch
        self._code: int | None = None
        """The code of the error that is the answer."""
        self._has_ended = False
        """Whether nothing more will come."""
        self._word = ""
        """Why that is, for the client."""
        self._waiting: deque[tuple[bytes, str]] = deque()
        """The texts of messages, and the ids of their events."""
        self._size = 0
        self._news = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether a client reads what is put here."""
        return not (self.is_left or self._has_ended)

    def put(self, message: Message, event_id: str = "") -> None:
        """Have a message written; of a client that does not read, nothing is kept any more."""
        if self._size > MAXIMUM_UNREAD_BYTES:
            self.has_overflowed = True
            self._leave()
        if not self.is_open:
            return
        line = message.line()
        self._waiting.append((line.rstrip(), event_id))
        self._size += len(line)
        if message.method is not None:
            self.is_stream = True
        else:
            self._code = message.code if message.is_error else None
        self._news.set()

    def end(self, word: str = "") -> None:
        """Take nothing more; what waits is written."""
        self._word = self._word or word
        self._has_ended = True
        self._news.set()

    def _leave(self) -> None:
        """Write nothing more: nobody reads it."""
        self.is_left = True
        self._waiting.clear()
        self._news.set()

    async def write(
        self,
        headers: Mapping[str, str] = {},
        opening: bytes = b"",
        patience: float = KEEP_ALIVE_SECONDS,
        status: Callable[[int], int] = lambda code: 200,
    ) -> bool:
        """Write it as it comes; return whether the client stayed until its end.

        A stream begins with `opening`; after so many seconds of `patience` without a word, the
        answer is one. `status` gives the HTTP status of a JSON answer that is an error with this
        code.
        """
        with self._exchange.leaving(self._leave):
            while self.is_open and not self.is_stream:
                if not await self._wait(patience):
                    self.is_stream = self.takes_events
                    patience = KEEP_ALIVE_SECONDS
            try:
                if self.is_left:
                    return False
                if self.is_stream:
                    return await self._write_events(headers, opening)
                lines = self._taken()
                body = b",".join(line for line, _ in lines)
                answered = 200 if self._code is None else status(self._code)
                body = b"[" + body + b"]" if self._batch else body
                await self._exchange.respond(answered, body, headers)
            except Gone:
                self._leave()
                return False
        return True

    async def _write_events(self, headers: Mapping[str, str], opening: bytes) -> bool:
        """Write it as events; return whether the client stayed."""
        exchange = self._exchange
        about = {
            "content-type": EVENTS,
            "cache-control": "no-cache, no-transform",
            "x-accel-buffering": "no",  # nginx keeps answers back until they are complete
        }
        await exchange.begin(200, {**about, **headers})
        if opening:
            await exchange.write(opening)
        while not self.is_left and not (self._has_ended and not self._waiting):
            lines = self._taken()
            for line, event_id in lines:
                await exchange.write(event("message", line, event_id))
            if not lines and not await self._wait(KEEP_ALIVE_SECONDS):
                await exchange.write(b": still there\n\n")
        if self.is_left:
            return False
        await exchange.end(f": {self._word}\n\n".encode() if self._word else b"")
        return True

    def _taken(self) -> list[tuple[bytes, str]]:
        """Return what waits; it waits no longer."""
        lines = [*self._waiting]
        self._waiting.clear()
        self._size = 0
        return lines

    async def _wait(self, seconds: float) -> bool:
        """Wait for something new; return whether there is, before it has taken so long."""
        if not self._news.is_set():
            try:
                await asyncio.wait_for(self._news.wait(), seconds)
            except asyncio.TimeoutError:
                return False
        self._news.clear()
        return True


def event(name: str, data: bytes, identifier: str = "") -> bytes:
    """Return an event of a stream; `data` is one line.

    https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    mark = b"id: " + identifier.encode("ascii") + b"\n" if identifier else b""
    return mark + b"event: " + name.encode("ascii") + b"\ndata: " + data + b"\n\n"
