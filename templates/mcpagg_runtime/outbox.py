"""Writes lines to a descriptor without ever making the sender wait."""

from __future__ import annotations

import _thread
import os
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Outbox:
    """The way out to one peer: whole lines, in order, whatever the peer's pace.

    What the descriptor takes without waiting is written at once. The rest is queued, and a thread
    that lives as long as the queue writes it: a peer that does not read holds up nobody, but what
    it is owed stays in memory until it reads or is gone.
    """

    def __init__(
        self, descriptor: int, private: bool, broke: Callable[[], None] | None = None
    ) -> None:
        """`private`: nobody else has this end, so it may be made non-blocking.

        `broke` is called, in a thread of its own, when the peer takes nothing any more.

        The flag belongs to the open file, not to the descriptor: on a terminal, or a pipe that is
        also someone's standard error, it would surprise whoever shares it.
        """
        self.descriptor = descriptor
        self.broken = False
        self._broke = broke
        self._private = private and hasattr(os, "set_blocking")
        if self._private:
            os.set_blocking(descriptor, False)
        self._closing = False
        self._lock = _thread.allocate_lock()
        self._idle = _thread.allocate_lock()  # held while the thread lives
        self._queue: list[bytes] = []

    def send(self, line: bytes) -> None:
        """Write a line, which ends in a newline, now or as soon as the peer reads."""
        with self._lock:
            if self.broken or self._closing:
                return
            rest = line if self._idle.locked() else self._write_at_once(line)
            if rest:
                self._queue.append(rest)
                if self._idle.acquire(False):
                    _thread.start_new_thread(self._drain, ())

    def flush(self, seconds: float) -> bool:
        """Wait until all is written, no longer than `seconds`; return whether it is."""
        if not self._idle.acquire(True, seconds):
            return False
        self._idle.release()
        return True

    def close(self) -> None:
        """Close the descriptor once what is queued is written; nothing more is taken.

        Never under the thread's feet: the number might be another file's by the next write.
        """
        with self._lock:
            if not self._closing:
                self._closing = True
                if not self._idle.locked():
                    os.close(self.descriptor)

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
        self.broken = True
        if self._broke is not None:
            _thread.start_new_thread(self._broke, ())

    def _has_room(self, line: bytes) -> bool:
        # POSIX: a pipe that select finds writable takes PIPE_BUF bytes without blocking.
        if len(line) > getattr(select, "PIPE_BUF", 0):
            return False
        return writable(self.descriptor, 0)

    def _drain(self) -> None:
        while True:
            with self._lock:
                batch, self._queue = self._queue, []
                if not batch or self.broken:
                    if self._closing:
                        os.close(self.descriptor)
                    self._idle.release()
                    return
            try:
                for line in batch:
                    view = memoryview(line)
                    while view:
                        view = view[self._write(view) :]
            except OSError:
                self._break()

    def _write(self, data: memoryview) -> int:
        """Write what can be written, once anything can."""
        try:
            return os.write(self.descriptor, data)
        except BlockingIOError:
            writable(self.descriptor, None)
            return 0


def writable(descriptor: int, seconds: float | None) -> bool:
    """Wait until a descriptor takes something, no longer than `seconds`; None: for ever."""
    return _ready(descriptor, seconds, "POLLOUT")


def readable(descriptor: int, seconds: float | None) -> bool:
    """Wait until a descriptor has something to read, or its end; None: for ever."""
    return _ready(descriptor, seconds, "POLLIN")


def _ready(descriptor: int, seconds: float | None, event: str) -> bool:
    # poll, because select knows no descriptor above 1,023; Windows has neither for pipes.
    if not hasattr(select, "poll"):
        return event == "POLLOUT"
    poll = select.poll()
    poll.register(descriptor, getattr(select, event))
    return bool(poll.poll(None if seconds is None else seconds * 1000))
