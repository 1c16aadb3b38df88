"""Writes lines to a descriptor without ever making the sender wait.

What a peer has not taken yet is queued, bounded, and written by a thread at the peer's pace.
"""

from __future__ import annotations

import os
import select
import threading
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.processes.memory import return_memory
from mcpagg_runtime.processes.polling import (
    NARROW_PIPE,
    POLLS,
    set_nonblocking,
    widen,
    writable,
)
from mcpagg_runtime.processes.threads import start_thread

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence
    from typing import Protocol

    Piece = bytes | memoryview

    Pieces = list[Piece]

    class Owner(Protocol):
        """The writer that a queue belongs to."""

        descriptor: int
        broken: bool
        closing: bool
        drained: threading.Condition

        def break_off(self) -> None:
            """Note that the peer takes nothing any more."""


# How many pieces POSIX lets one call write everywhere, give or take: IOV_MAX.
MAXIMUM_PIECES = 1000
# The memory of a longer line, in bytes, is returned to the system.
RETURNED = 1 << 20


class Writer:
    """The way out to one peer: whole lines, in order, whatever the peer's pace.

    What the descriptor takes without waiting is written at once, the rest by a thread, out of a
    queue: a peer that does not read holds up nobody.
    """

    def __init__(
        self,
        descriptor: int,
        private: bool,
        broke: Callable[[], object] | None = None,
        overflowed: Callable[[int], object] | None = None,
    ) -> None:
        """`private`: nobody else has this end, so it may be made non-blocking.

        `broke` is called when the peer takes nothing any more; so is `overflowed`, with the number
        of bytes that wait, when a line comes for a peer that does not read what is waiting already.
        Both are called with locks held, and must return at once. Nothing is taken from then on.
        Without `overflowed` all is taken: whoever sends is to ask `has_room` first.

        The flag belongs to the open file, not to the descriptor: on a terminal, or a pipe that is
        also someone's standard error, it would surprise whoever shares it. And without a way to
        wait, whoever has something left to write would have to try over and over.
        """
        self.descriptor = descriptor
        self.broken = False
        self.closing = False
        self.lock = threading.Lock()
        self.drained = threading.Condition(self.lock)
        """Told of each line of the queue that is written."""
        self._queue: WriteQueue | None = None
        self._broke = broke
        self._overflowed = overflowed
        self._private = private and POLLS
        if self._private:
            set_nonblocking(descriptor)

    def send(self, *pieces: Piece) -> None:
        """Write lines, whole or in pieces, now or as soon as the peer reads.

        The last piece ends in a newline.
        """
        with self.lock:
            if self.broken or self.closing:
                return
            queue = self._queue
            if queue is None or not queue.alive:
                rest = self._write_at_once(pieces)
                left = sum([len(piece) for piece in rest]) if rest else 0
                if left > NARROW_PIPE and widen(self.descriptor):
                    rest = self._write_at_once(rest)
                if rest:
                    self._begin(rest)
            elif self._overflowed is not None and queue.overflows():
                self.broken = True
                self._overflowed(queue.waiting)
                queue.discard()
            else:
                queue.add([*pieces])

    def has_room(self, seconds: float = 0.0) -> bool:
        """Wait until not too much waits for the peer, at most so long; return whether it is so."""
        queue = self._queue
        if queue is None or not queue.crowded:
            return True
        with self.drained:
            return self.drained.wait_for(lambda: not queue.crowded, seconds)

    def flush(self, seconds: float) -> bool:
        """Wait until all is written, no longer than `seconds`; return whether it is."""
        with self.drained:
            return self.drained.wait_for(
                lambda: self._queue is None or not self._queue.alive, seconds
            )

    def close(self) -> None:
        """Close the descriptor once what is queued is written; nothing more is taken.

        Never under the thread's feet: the number might be another file's by the next write.
        """
        with self.lock:
            if not self.closing:
                self.closing = True
                if self._queue is None or not self._queue.alive:
                    os.close(self.descriptor)

    def break_off(self) -> None:
        """Note that the peer takes nothing any more."""
        if self._broke is not None and not self.broken:
            self._broke()
        self.broken = True

    def _begin(self, rest: list[Piece]) -> None:
        if self._queue is None:
            self._queue = WriteQueue(self)
        self._queue.begin(rest)

    def _write_at_once(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Write what can be written without waiting; return the rest, which is no copy."""
        written = 0
        try:
            if self._private:
                written = os.writev(  # type: ignore[attr-defined, unused-ignore]
                    self.descriptor, pieces[:MAXIMUM_PIECES]
                )
            elif self._has_room(pieces):
                written = os.write(self.descriptor, b"".join(pieces))
        except BlockingIOError:
            pass
        except OSError:
            self.break_off()
            return []
        for number, piece in enumerate(pieces):
            if written < len(piece):
                return [memoryview(piece)[written:], *pieces[number + 1 :]]
            written -= len(piece)
        return []

    def _has_room(self, pieces: Sequence[Piece]) -> bool:
        # POSIX: a pipe that select finds writable takes PIPE_BUF bytes without blocking.
        if sum([len(piece) for piece in pieces]) > getattr(select, "PIPE_BUF", 0):
            return False
        return writable(self.descriptor, 0)


# What may wait behind the line that is being written, which may be of any length itself.
MAXIMUM_WAITING_BYTES = 1 << 26
# A peer for which more than that waits must take something every so many seconds, or it does not
# read; one that does may fall behind so many times as far.
STALL_SECONDS = 10.0
PATIENCE_FACTOR = 8
# How much is written at once: where writing waits, a peer that reads a long line slowly is seen to
# take something.
PIECE = 1 << 20
# How much is copied so that one call can write it.
JOINED = 1 << 16


class WriteQueue:
    """The lines that wait for one peer. Whoever calls a method holds the lock of its writer.

    `alive` says whether the thread that writes them lives, `waiting` how many bytes there are of
    lines that it has not begun to write.
    """

    def __init__(self, writer: Owner) -> None:
        self.writer = writer
        self.alive = False
        self.waiting = 0
        self._queue: list[Pieces] = []
        self._batch: list[Pieces] = []  # what the thread took of the queue, the last first
        self._took_at = 0.0  # when the peer last took something

    def begin(self, rest: Pieces) -> None:
        """Have a thread write the rest of what was sent, and then what is added meanwhile."""
        self._took_at = monotonic()
        self.alive = start_thread(self._drain, rest) is not None
        if not self.alive:  # half a line is written: nothing can follow it
            self.writer.break_off()

    def add(self, pieces: Pieces) -> None:
        """Queue what was sent."""
        self._queue.append(pieces)
        self.waiting += _size(pieces)

    def discard(self) -> None:
        """Forget what waits; the line that is being written goes on."""
        self._queue, self._batch, self.waiting = [], [], 0

    @property
    def crowded(self) -> bool:
        """Whether so much waits that nothing should be added."""
        return self.waiting > MAXIMUM_WAITING_BYTES

    def overflows(self) -> bool:
        """Whether so much waits because the peer does not read, or as good as not."""
        if not self.crowded:
            return False
        stalled = monotonic() - self._took_at >= STALL_SECONDS
        return stalled or self.waiting > PATIENCE_FACTOR * MAXIMUM_WAITING_BYTES

    def _drain(self, pieces: Pieces) -> None:
        most = 0
        while pieces:
            most = max(most, _size(pieces))
            if _size(pieces) <= JOINED:
                pieces[:] = [b"".join(pieces)]
            pieces.reverse()
            try:
                while pieces:  # one that is written is kept no longer
                    view = memoryview(pieces.pop())
                    while view:
                        view = view[self._write(view) :]
                    del view
            except OSError:
                self.writer.break_off()
            with self.writer.drained:
                pieces = self._next()
        if most > RETURNED:
            return_memory()

    def _write(self, data: memoryview) -> int:
        """Write what can be written, once anything can."""
        try:
            taken = os.write(self.writer.descriptor, data[:PIECE])
            self._took_at = monotonic()
            return taken
        except BlockingIOError:
            writable(self.writer.descriptor, None)
            return 0

    def _next(self) -> Pieces:
        """Return what is to be written next; nothing if there is none, and so the thread ends."""
        pieces: Pieces = []
        if not self._batch:
            self._batch, self._queue = self._queue[::-1], []
        if self._batch and not self.writer.broken:
            pieces = self._batch.pop()
            self.waiting -= _size(pieces)
        else:
            self.alive = False
            self.discard()
            if self.writer.closing:
                os.close(self.writer.descriptor)
        self.writer.drained.notify_all()
        return pieces


def _size(pieces: Pieces) -> int:
    return sum([len(piece) for piece in pieces])
