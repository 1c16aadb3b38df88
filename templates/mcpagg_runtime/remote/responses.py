"""Responses of a remote server: bodies as they arrive, unpacked, and cut into events.

https://html.spec.whatwg.org/multipage/server-sent-events.html, parsing an event stream
"""

from __future__ import annotations

import http.client
import re
import threading
import zlib
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.message import MAXIMUM_LINE_BYTES
from mcpagg_runtime.remote.faults import (
    RemoteFault,
    broken,
    refusal_in,
    refused,
    with_its_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from mcpagg_runtime.remote.connections import Connection, ConnectionPool

EVENT_STREAM = "text/event-stream"
BODY_CHUNK = 1 << 16
# How much is read of an answer that only says what is wrong.
REFUSAL_BYTES = 1 << 16
# How much is read of a body that nobody wants, and for how long, so that its connection can be
# kept.
DISCARDED_BYTES = 1 << 16
DISCARDED_SECONDS = 0.2
# What servers say with status 400 of a session that they do not know: they speak of its id, say
# that it is over, or that nobody has shaken hands.
LOST_SESSION = re.compile(
    rb"mcp-session-id|session[ -]id\b"
    rb"|\b(?:expired|find|invalid|missing|no|stale|unknown)(?: active| such| valid)* session"
    rb"(?:_?id)?\b(?! [a-z]*(?:arg|param|name|field))"
    rb"|\bsession(?:_?id)?\b(?: with id)?:?(?: [\"'(]?[\w-]{0,40}\d[\w-]{0,40}[\"')]?)?"
    rb"(?: (?:does|has|is|was))?(?: been)? (?:closed|expired|invalid|missing|not exist|not found"
    rb"|not valid|required|terminated|unknown)"
    rb"|(?:\b(?:client|connection|server|session)\b[\w ]{0,20} |^|[\"':] ?)not (?:been |yet )*"
    rb"initiali[sz]ed"
)
# A longer text says no more about it, and a search holds up all threads.
SEARCHED_BYTES = 1 << 12
# Errors of JSON-RPC that only a server gives which has read the request.
OF_THE_REQUEST = (-32601, -32602, -32603)
ACCEPTED_ENCODINGS = "gzip, deflate"
"""What the standard library of every Python that we run on unpacks: not br, not zstd."""
GZIP_NAMES = ("gzip", "x-gzip")
# The most that is unpacked at once, however well it was compressed.
UNPACKED_PIECE = 1 << 16
# The window sizes by which zlib knows the forms of RFC 1952, RFC 1950 and RFC 1951 alone.
GZIP_FORM, ZLIB_FORM, PLAIN_FORM = 31, 15, -15
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# How long to wait before a stream is opened again, unless the server says how long.
FIRST_REOPENING_SECONDS = 1.0
LONGEST_REOPENING_SECONDS = 60.0


class Transfer:
    """One request and its response, under way; any thread may cancel it.

    `number` is the id of the message that is sent, 0 for one without. `sent` is set as soon as the
    server can have the whole request, or never will; `done` when nobody waits for the response.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.sent = threading.Event()
        self.done = threading.Event()
        self.answered = False
        """Whether the server has answered the message."""
        self.has_received = False
        """Whether the server has sent anything in the response."""
        self.reopened = False
        """Whether it was sent again after a break, and nothing has come since."""
        self.cancelled = False
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def use(self, connection: Connection | None) -> None:
        """Note the connection that it runs over, None for none."""
        with self._lock:
            self._connection = connection
            if connection is not None and self.cancelled:
                connection.shutdown()

    def cancel(self) -> None:
        """Shut its connection down, and have nobody wait for the response."""
        with self._lock:
            self.cancelled = True
            if self._connection is not None:
                self._connection.shutdown()
        self.sent.set()
        self.done.set()


class Response:
    """A response, whose body is to be read within a `with` block."""

    def __init__(
        self,
        pool: ConnectionPool,
        connection: Connection,
        response: http.client.HTTPResponse,
        transfer: Transfer,
    ) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        """The last one of each name."""
        kind = self.headers.get("content-type", "")
        self.kind = kind.partition(";")[0].strip().lower()
        """The media type of the body."""
        self.where = pool.where
        """The URL, to be shown."""
        self._pool = pool
        self._connection = connection
        self._response = response
        self._transfer = transfer

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it comes, unpacked.

        Raises:
            RemoteFault: the connection broke before its end, or nobody can unpack it.
        """
        encoding = self.headers.get("content-encoding", "")
        try:
            yield from unpacked(encoding, self._chunks())
        except CannotUnpack as problem:
            raise RemoteFault(f"{problem} at {self.where}", self.status) from None
        except EOFError as problem:
            raise RemoteFault(broken(problem, self.where)) from None

    def _chunks(self) -> Iterator[bytes]:
        """Yield the body as it was sent."""
        response, left = self._response, self._response.length
        try:
            if response.chunked or left is None:
                while data := response.read1(BODY_CHUNK):
                    if response.chunked and (response.chunk_left or 0) < 0:
                        raise http.client.HTTPException("the length of a chunk is below zero")
                    yield data
                return
            while left:
                data = response.read(min(left, BODY_CHUNK))
                if not data:
                    raise RemoteFault(broken(EOFError(), self.where))
                left -= len(data)
                yield data
            response.read()  # nothing, and notices that this is the end
        except (OSError, ValueError, http.client.HTTPException) as problem:
            raise RemoteFault(broken(problem, self.where)) from None

    def error_body(self) -> bytes:
        """Return the body of an error, b"" if this is none, or its body cannot be read."""
        try:
            return self.body(REFUSAL_BYTES) if self.status >= 400 else b""
        except RemoteFault:
            return b""

    def body(self, limit: int = MAXIMUM_LINE_BYTES) -> bytes:
        """Return the whole body.

        Raises:
            RemoteFault: it is too large, or breaks off.
        """
        parts, size = [], 0
        for data in self.chunks():
            parts.append(data)
            size += len(data)
            if size > limit:
                raise RemoteFault(f"answered with more than {limit >> 20} MiB at {self.where}")
        return b"".join(parts)

    def events(self, reader: EventReader) -> Iterator[list[Event]]:
        """Yield the events of a body that is a stream, those together that came at once.

        Raises:
            RemoteFault: one is too large, or the stream breaks off.
        """
        reader.restart()
        try:
            for data in self.chunks():
                yield reader.feed(data)
        except TooLarge:
            size = f"{MAXIMUM_LINE_BYTES >> 20} MiB"
            what = f"sent an event of more than {size} at {self.where}"
            raise RemoteFault(what, self.status) from None

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events."""
        return self.status == 200 and self.kind == EVENT_STREAM

    def means_lost_session(self, body: bytes, number: int = 0) -> bool:
        """Whether the server refuses a request because it does not know its session.

        By the specification it says so with status 404; some servers say 400. `body` is that of
        the response, `number` the id of the request. A server that answers this id with an error
        of its own has read the request, and refuses it for another reason.
        """
        if self.status not in (400, 404):
            return False
        answer = refusal_in(body)
        error = answer.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if number and answer.get("id") == number and code in OF_THE_REQUEST:
            return False
        words = body[:SEARCHED_BYTES].lower()
        return self.status == 404 or LOST_SESSION.search(words) is not None

    def fault(self, body: bytes) -> RemoteFault:
        """Return what the status of an error means; `body` is that of the response."""
        what = refused(self.status, self.where, self.headers)
        return RemoteFault(with_its_words(what, body), self.status)

    def close(self) -> None:
        """Return the connection to the pool, or close it if the body has not ended.

        A stream that has brought the answer is given a moment to end.
        """
        if not self._transfer.cancelled:
            self._discard_rest()
        self._transfer.use(None)
        # A response without the answer may belong to an earlier request.
        in_step = self._transfer.answered or not self._transfer.number or self.status != 200
        reusable = self._response.isclosed() and not self._response.will_close
        if in_step and reusable and not self._transfer.cancelled:
            self._pool.release(self._connection, _keep_alive_seconds(self.headers))
        else:
            self._response.close()
            self._connection.http.close()

    def _discard_rest(self) -> None:
        """Read the rest of the body, if it is short and comes at once."""
        deadline = monotonic() + DISCARDED_SECONDS
        size = 0
        try:
            self._connection.socket.settimeout(DISCARDED_SECONDS)
            for data in self._chunks():
                size += len(data)
                if size > DISCARDED_BYTES or monotonic() > deadline:
                    break
        except (OSError, RemoteFault):
            pass


def _keep_alive_seconds(headers: Mapping[str, str]) -> float:
    """Return how long a server keeps an idle connection, less a second for the way."""
    seconds = headers.get("keep-alive", "").lower().partition("timeout=")[2].partition(",")[0]
    seconds = seconds.strip()[:9]
    return int(seconds) - 1.0 if seconds.isdecimal() else float("inf")


# Compressed bodies


class CannotUnpack(Exception):
    """Raised for a body that cannot be unpacked; the text completes "server 'x' …"."""


def unpacked(encoding: str, packed: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a body unpacked, piece by piece; `encoding` is the value of Content-Encoding.

    Raises:
        CannotUnpack: the encoding is unknown, or the body is not encoded so.
        EOFError: the body ends too early.
    """
    names = [name.strip().lower() for name in encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if not names:
        return iter(packed)
    if len(names) > 1 or names[0] not in (*GZIP_NAMES, "deflate"):
        asked = ACCEPTED_ENCODINGS.replace(",", " and")
        what = f"answered with content that is encoded as {encoding[:40]!r}"
        raise CannotUnpack(f"{what}, and only {asked} are accepted")
    return _inflated(names[0], packed)


def _inflated(name: str, packed: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what is packed by deflate, or by gzip, which may be several packets in a row."""
    reader: Any = None
    ended = False
    for piece in packed:
        data = piece.lstrip(b"\0") if ended else piece  # padding
        while data:
            if ended and name not in GZIP_NAMES:
                break
            try:
                reader = reader or zlib.decompressobj(_form(name, data))
                yield from _pieces(reader, data)
            except zlib.error:
                raise CannotUnpack(f"answered with content that is no {name}") from None
            ended, data = reader.eof, b""
            if ended:
                data, reader = reader.unused_data.lstrip(b"\0"), None
    if reader is not None:
        raise EOFError


def _pieces(reader: Any, data: bytes) -> Iterator[bytes]:
    """Yield what `data` unpacks to, in pieces of bounded size."""
    found = reader.decompress(data, UNPACKED_PIECE)
    while found:
        yield found
        is_full = len(found) == UNPACKED_PIECE and not reader.eof
        found = reader.decompress(reader.unconsumed_tail, UNPACKED_PIECE) if is_full else b""


def _form(name: str, beginning: bytes) -> int:
    """Return what zlib calls the form of a body; servers call two of them "deflate"."""
    if name in GZIP_NAMES:
        return GZIP_FORM
    # RFC 1950: the method in the lower four bits is 8, that of the window at most 7.
    return ZLIB_FORM if beginning[0] & 0x8F == 0x08 else PLAIN_FORM


# Server-sent events


class TooLarge(Exception):
    """Raised for an event that is larger than a server's line may be."""


class Event:
    """One event: its type, `message` where it names none, and its data, lines joined by LF."""

    __slots__ = ("data", "kind")

    def __init__(self, kind: str, data: bytes) -> None:
        self.kind = kind
        self.data = data


class EventReader:
    """Reads one stream.

    A line ends in LF, CRLF or CR; a blank line ends an event. `last_id` is the id that the stream
    can be resumed from, "" for none; `retry` is how many seconds to wait before that, None if the
    server does not say.
    """

    def __init__(self) -> None:
        self.last_id = ""
        self.retry: float | None = None
        self.restart()

    def restart(self) -> None:
        """Begin to read another stream, which resumes behind the last event."""
        self._id = self.last_id
        self._kind = ""
        self._data: list[bytes] = []
        self._parts: list[bytes] = []
        """The pieces of a line that has not ended."""
        self._size = 0
        """How much of the event has come, in bytes."""
        self._after_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> list[Event]:
        """Take the next bytes; return the events that they complete.

        Raises:
            TooLarge: an event has more than MAXIMUM_LINE_BYTES.
        """
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        if data:
            self._after_cr = data.endswith(b"\r")
        self._size += len(data)
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *rest = data.split(b"\n")
        self._parts.append(first)
        if not rest:
            return self._bounded([])
        lines = [b"".join(self._parts), *rest]
        self._parts = [lines.pop()]
        return self._bounded([event for line in lines for event in self._line(line)])

    def _bounded(self, events: list[Event]) -> list[Event]:
        """Return the events; refuse one that grows too large."""
        if events:
            self._size = len(self._parts[0]) + sum(map(len, self._data))
        if self._size > MAXIMUM_LINE_BYTES:
            raise TooLarge
        return events

    def _line(self, line: bytes) -> list[Event]:
        """Take a line; return the event that it ends, if it does."""
        if self._at_start:
            line, self._at_start = line.removeprefix(_BYTE_ORDER_MARK), False
        if not line:
            return self._end()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._kind = value.decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif field == b"retry" and value.isdigit():
            self.retry = int(value[:9]) / 1000
        return []

    def _end(self) -> list[Event]:
        self.last_id = self._id
        kind, data = self._kind or "message", b"\n".join(self._data)
        self._kind, self._data = "", []
        # An event of an id alone lets a stream be resumed from its beginning.
        return [Event(kind, data)] if data else []


def reopening_pause(reader: EventReader, failures: int) -> float:
    """Return how long to wait before a stream is opened again, after so many failures in a row."""
    pause = FIRST_REOPENING_SECONDS if reader.retry is None else reader.retry
    if failures:
        pause = max(pause, FIRST_REOPENING_SECONDS) * 2.0 ** min(failures, 10)
    return min(pause, LONGEST_REOPENING_SECONDS)
