"""Writes lines to a descriptor without ever making the sender wait."""

from __future__ import annotations

import _thread
import os
import select
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


# What may wait behind the line that is being written, which may be of any length itself.
MAXIMUM_WAITING_BYTES = 1 << 26
# A peer for which more than that waits must take something every so many seconds, or it does not
# read; one that does may fall behind so many times as far.
STALL_SECONDS = 10.0
PATIENCE_FACTOR = 8
# How often whoever waits for a peer that does not read looks whether there is still reason to.
LOOK_SECONDS = 1.0


class Outbox:
    """The way out to one peer: whole lines, in order, whatever the peer's pace.

    What the descriptor takes without waiting is written at once. The rest is queued, and a thread
    that lives as long as the queue writes it: a peer that does not read holds up nobody.
    Whether it may be owed without end is for whoever made the outbox to say.
    """

    def __init__(
        self,
        descriptor: int,
        private: bool,
        broke: Callable[[], None] | None = None,
        overflowed: Callable[[int], None] | None = None,
    ) -> None:
        """`private`: nobody else has this end, so it may be made non-blocking.

        `broke` is called, in a thread of its own, when the peer takes nothing any more; so is
        `overflowed`, with the number of bytes that wait, when a line comes for a peer that does not
        read what is waiting already. Nothing is taken from then on. Without `overflowed` all is
        taken: whoever sends is to heed `gate`.

        The flag belongs to the open file, not to the descriptor: on a terminal, or a pipe that is
        also someone's standard error, it would surprise whoever shares it.
        """
        self.descriptor = descriptor
        self.broken = False
        self._broke = broke
        self._overflowed = overflowed
        self._private = private and hasattr(os, "set_blocking")
        if self._private:
            os.set_blocking(descriptor, False)
        self._closing = False
        self._lock = _thread.allocate_lock()
        self._writing = False  # whether the thread lives
        self._queue: list[bytes] = []
        self._batch: list[bytes] = []  # what the thread took of the queue, last line first
        self._waiting = 0  # bytes of the lines that the thread has not begun to write
        self._gates: list[tuple[bool, Any]] = []
        self._took_at = 0.0  # when the peer last took something from the thread

    def send(self, line: bytes) -> None:
        """Write a line, which ends in a newline, now or as soon as the peer reads."""
        with self._lock:
            if self.broken or self._closing:
                return
            if not self._writing:
                rest = self._write_at_once(line)
                if rest:
                    self._writing = True
                    self._took_at = monotonic()
                    _thread.start_new_thread(self._drain, (rest,))
            elif self._overflowed is not None and self._overflows():
                self.broken = True
                _thread.start_new_thread(self._overflowed, (self._waiting,))
                self._discard()
            else:
                self._queue.append(line)
                self._waiting += len(line)

    def _overflows(self) -> bool:
        if self._waiting <= MAXIMUM_WAITING_BYTES:
            return False
        stalled = monotonic() - self._took_at >= STALL_SECONDS
        return stalled or self._waiting > PATIENCE_FACTOR * MAXIMUM_WAITING_BYTES

    def gate(self) -> Any:
        """Return a lock that is held while too much waits for the peer; None if that is not so.

        Whoever has more for it waits for that lock, with no other one held.
        """
        if self._waiting <= MAXIMUM_WAITING_BYTES:
            return None
        with self._lock:
            return self._gate(emptied=False)

    def flush(self, seconds: float) -> bool:
        """Wait until all is written, no longer than `seconds`; return whether it is."""
        with self._lock:
            gate = self._gate(emptied=True)
        return gate is None or bool(gate.acquire(True, seconds))

    def close(self) -> None:
        """Close the descriptor once what is queued is written; nothing more is taken.

        Never under the thread's feet: the number might be another file's by the next write.
        """
        with self._lock:
            if not self._closing:
                self._closing = True
                if not self._writing:
                    os.close(self.descriptor)

    def _gate(self, emptied: bool) -> Any:
        """Return a lock that is held until there is room, or until all is written."""
        if not self._writing or not (emptied or self._waiting > MAXIMUM_WAITING_BYTES):
            return None
        gate = _thread.allocate_lock()
        gate.acquire()
        self._gates.append((emptied, gate))
        return gate

    def _open_gates(self) -> None:
        shut = []
        for emptied, gate in self._gates:
            if self._writing and (emptied or self._waiting > MAXIMUM_WAITING_BYTES):
                shut.append((emptied, gate))
            else:
                gate.release()
        self._gates = shut

    def _write_at_once(self, line: bytes) -> bytes:
        """Write what can be written without waiting; return the rest."""
        try:
            if self._private or self._has_room(line):
                return line[os.write(self.descriptor, line) :]
        except BlockingIOError:
            return line
        except OSError:
            self._break()
            return b""
        return line

    def _break(self) -> None:
        if self._broke is not None and not self.broken:
            _thread.start_new_thread(self._broke, ())
        self.broken = True

    def _has_room(self, line: bytes) -> bool:
        # POSIX: a pipe that select finds writable takes PIPE_BUF bytes without blocking.
        if len(line) > getattr(select, "PIPE_BUF", 0):
            return False
        return writable(self.descriptor, 0)

    def _drain(self, rest: bytes) -> None:
        """Write the rest of a line, and then what was queued meanwhile."""
        line = rest
        while line:
            view = memoryview(line)
            try:
                while view:
                    view = view[self._write(view) :]
            except OSError:
                self._break()
            line = self._next()

    def _next(self) -> bytes:
        """Return the line to be written next; b"" if there is none, and so the thread ends."""
        with self._lock:
            if not self._batch:
                self._batch, self._queue = self._queue[::-1], []
            if self._batch and not self.broken:
                line = self._batch.pop()
                self._waiting -= len(line)
            else:
                line = b""
                self._writing = False
                self._discard()
                if self._closing:
                    os.close(self.descriptor)
            self._open_gates()
            return line

    def _discard(self) -> None:
        self._queue, self._batch, self._waiting = [], [], 0

    def _write(self, data: memoryview) -> int:
        """Write what can be written, once anything can."""
        try:
            taken = os.write(self.descriptor, data)
            self._took_at = monotonic()
            return taken
        except BlockingIOError:
            writable(self.descriptor, None)
            return 0


def writable(descriptor: int, seconds: float | None) -> bool:
    """Wait until a descriptor takes something, no longer than `seconds`; None: for ever."""
    return _ready(descriptor, seconds, "POLLOUT")


def readable(descriptor: int, seconds: float | None) -> bool:
    """Wait until a descriptor has something to read, or its end; None: for ever."""
    return _ready(descriptor, seconds, "POLLIN")


def hung_up(descriptor: int) -> bool:
    """Whether the writer of a pipe is gone, though something may be left to read."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def _ready(descriptor: int, seconds: float | None, event: str) -> bool:
    # poll, because select knows no descriptor above 1,023; Windows has neither for pipes.
    if not hasattr(select, "poll"):
        return event == "POLLOUT"
    poll = select.poll()
    poll.register(descriptor, getattr(select, event))
    return bool(poll.poll(None if seconds is None else seconds * 1000))
