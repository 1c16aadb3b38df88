"""What is said to a client on its way into one answer: a JSON body, or a stream of events."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcpagg_runtime.http.exchange import EVENTS, Gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.http.exchange import Exchange

# Into a stream that says nothing, a comment is written so often: proxies close silent connections.
KEEP_ALIVE_SECONDS = 15.0
# So much may wait for a client that does not read, behind the message that is being written.
MAXIMUM_UNREAD_BYTES = 1 << 26


class Outgoing:
    """Messages that wait to be written, in order; only used in the event loop."""

    takes_events = True
    """Whether something else than answers can be told here."""

    def __init__(self) -> None:
        self.broken = False
        """Whether the client has left, or reads so slowly that too much waits for it."""
        self.has_overflowed = False
        """Whether it is the latter."""
        self.word = ""
        """Why it was ended, for the client."""
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._news = asyncio.Event()

    def put(self, message: Message) -> None:
        """Have a message written; of a client that does not read, nothing is kept any more."""
        line = message.line()
        if self._size > MAXIMUM_UNREAD_BYTES:
            self.has_overflowed = True
            self.leave()
        if not (self.broken or self._ended):
            self._waiting.append(line.rstrip())
            self._size += len(line)
            self._news.set()

    def leave(self) -> None:
        """Write nothing more: nobody reads it."""
        self.broken = True
        self._waiting.clear()
        self._news.set()

    def end(self, word: str = "") -> None:
        """Take nothing more; what waits is written."""
        self.word = self.word or word
        self._ended = True
        self._news.set()

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be written, and nothing will come."""
        return self.broken or (self._ended and not self._waiting)

    def taken(self) -> list[bytes]:
        """Return what waits; it waits no longer."""
        lines = [*self._waiting]
        self._waiting.clear()
        self._size = 0
        return lines

    async def wait(self, seconds: float) -> bool:
        """Wait for something new, no longer than `seconds`; return whether there is."""
        if not self._news.is_set():
            try:
                await asyncio.wait_for(self._news.wait(), seconds)
            except asyncio.TimeoutError:
                return False
        self._news.clear()
        return True


class Reply:
    """The answer to one POST: JSON, or a stream of events if more is said than the answers.

    It begins with what comes first. Where nothing comes for long, it is a stream as well, for what
    lies between here and the client waits no longer for the headers of an answer.
    """

    def __init__(self, exchange: Exchange, owed: list[str], batch: bool = False) -> None:
        """`owed` are the JSON texts of the ids that are to be answered."""
        self.outgoing = Outgoing()
        self.takes_events = exchange.accepts(EVENTS)
        """Whether something else than the answers can be told here."""
        self._exchange = exchange
        self._owed = [*owed]
        self._batch = batch
        self._is_stream = False
        self._refusal: Message | None = None

    def put(self, message: Message) -> None:
        """Have a message written; with the last of the answers, the reply is complete."""
        if message.method is not None:
            self._is_stream = True
        elif message.is_error and not self._batch:
            self._refusal = message
        self.outgoing.put(message)
        if message.method is None and message.id_text in self._owed:
            self._owed.remove(message.id_text)
        if not self._owed:
            self.outgoing.end()

    async def write(
        self,
        headers: Mapping[str, str] = {},
        status: Callable[[int | None], int] = lambda code: 200,
    ) -> bool:
        """Write it as it comes; return whether the client stayed until its end.

        `status` gives the HTTP status of a JSON answer that is an error with this code.
        """
        with watched(self._exchange, self.outgoing):
            while self._owed and not (self._is_stream or self.outgoing.is_over):
                if not await self.outgoing.wait(KEEP_ALIVE_SECONDS):
                    self._is_stream = self.takes_events
            if self.outgoing.broken:
                return False
            if self._is_stream:
                await self._exchange.begin_events(headers)
                return await pump(self._exchange, self.outgoing)
            lines = self.outgoing.taken()
            body = b"[" + b",".join(lines) + b"]" if self._batch else lines[0]
            code = self._refusal.code if self._refusal is not None else None
            answered = 200 if self._refusal is None else status(code)
            await self._exchange.respond(answered, body, headers)
            return True


@contextmanager
def watched(exchange: Exchange, outgoing: Outgoing) -> Iterator[None]:
    """Note in `outgoing` when the client of an exchange leaves."""
    leaving = asyncio.ensure_future(exchange.gone())
    leaving.add_done_callback(lambda task: None if task.cancelled() else outgoing.leave())
    try:
        yield
    finally:
        leaving.cancel()


async def pump(exchange: Exchange, outgoing: Outgoing) -> bool:
    """Write what comes as events until the end; return whether the client stayed until then."""
    try:
        while not outgoing.is_over:
            lines = outgoing.taken()
            for line in lines:
                await exchange.write(event("message", line))
            if not lines and not await outgoing.wait(KEEP_ALIVE_SECONDS):
                await exchange.write(b": still there\n\n")
        if outgoing.broken:
            return False
        if outgoing.word:
            await exchange.write(f": {outgoing.word}\n\n".encode())
        await exchange.end()
    except Gone:
        outgoing.leave()
    return not outgoing.broken


def event(name: str, data: bytes) -> bytes:
    """Return an event of a stream; `data` is one line.

    https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    return b"event: " + name.encode("ascii") + b"\ndata: " + data + b"\n\n"
