"""Cuts a stream of server-sent events into events.

https://html.spec.whatwg.org/multipage/server-sent-events.html, parsing an event stream
"""

from __future__ import annotations

from mcpagg_runtime.messages.message import MAXIMUM_LINE_BYTES

_MARK_OF_UTF8 = b"\xef\xbb\xbf"
# How long to wait before a stream is opened again, unless the server says how long.
FIRST_REOPENING_SECONDS = 1.0
LONGEST_REOPENING_SECONDS = 60.0


class TooLarge(Exception):
    """Raised for an event that is larger than a line of a server may be."""


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
        """Begin a stream anew that goes on behind the last event."""
        self._id = self.last_id
        self._kind = ""
        self._data: list[bytes] = []
        self._parts: list[bytes] = []
        """The pieces of a line that has not ended."""
        self._size = 0
        """Of the event so far, in bytes."""
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
        """Note how much has come since the last event; return the events."""
        if events:
            self._size = len(self._parts[0]) + sum(map(len, self._data))
        if self._size > MAXIMUM_LINE_BYTES:
            raise TooLarge
        return events

    def _line(self, line: bytes) -> list[Event]:
        """Take a line; return the event that it ends, if it does."""
        if self._at_start:
            line, self._at_start = line.removeprefix(_MARK_OF_UTF8), False
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
        # A server may say an id, and no more, so that a stream can be resumed from its beginning.
        return [Event(kind, data)] if data else []


def reopening_pause(reader: EventReader, vain: int) -> float:
    """Return how long to wait before a stream is opened again, that was in vain so many times."""
    pause = FIRST_REOPENING_SECONDS if reader.retry is None else reader.retry
    if vain:
        pause = max(pause, FIRST_REOPENING_SECONDS) * 2.0 ** min(vain, 10)
    return min(pause, LONGEST_REOPENING_SECONDS)
