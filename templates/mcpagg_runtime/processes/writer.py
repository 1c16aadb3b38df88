"""Writes lines to a descriptor without blocking the sender.

What the peer has not read yet is queued, up to a bound, and written by a thread.
"""

from __future__ import annotations

import os
import select
import threading
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.processes.memory import return_memory
from mcpagg_runtime.processes.polling import (
    DEFAULT_PIPE_BYTES,
    POLLS,
    enlarge_pipe,
    set_nonblocking,
    wait_writable,
)
from mcpagg_runtime.processes.threads import start_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpagg_runtime.messages.message import Message

    Piece = bytes | memoryview

    Pieces = list[Piece]


# How many pieces one call may write on every system: IOV_MAX, about.
MAXIMUM_PIECES = 1000
# After a line of more bytes, free memory is returned to the system.
RETURNED_BYTES = 1 << 20


class Writer:
    """Writes lines to one peer, in order.

    What can be written without waiting is written at once, the rest by a thread, out of a queue:
    a peer that does not read holds up nobody.
    """

    def __init__(
        self,
        descriptor: int,
        private: bool,
        on_broken: Callable[[], object] | None = None,
        on_overflow: Callable[[int], object] | None = None,
    ) -> None:
        """`private`: no other process shares the open file, so it may be made non-blocking.

        The flag belongs to the open file, not to the descriptor: on a terminal, or a pipe that is
        also another program's standard error, it would surprise that.

        `on_broken` is called when the descriptor can no longer be written; `on_overflow`, with the
        number of bytes that wait, when a line comes for a peer that does not read those. Both are
        called with locks held, and must return at once; from then on, lines are dropped. Without
        `on_overflow` every line is queued: the sender is to ask `has_room` first.
        """
        self.descriptor = descriptor
        self.broken = False
        self.closing = False
        self.lock = threading.Lock()
        self.drained = threading.Condition(self.lock)
        """Notified of each line of the queue that is written."""
        self._queue = WriteQueue(self)
        self._on_broken = on_broken
        self._on_overflow = on_overflow
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
            if not queue.alive:
                rest = self._write_at_once(pieces)
                if _size(rest) > DEFAULT_PIPE_BYTES and enlarge_pipe(self.descriptor):
                    rest = self._write_at_once(rest)
                if rest:
                    queue.begin(rest)
            elif self._on_overflow is not None and queue.overflows():
                self.broken = True
                self._on_overflow(queue.waiting)
                queue.discard()
            else:
                queue.add([*pieces])

    def send_messages(self, *messages: Message) -> None:
        """Write messages, each as a line; see `send`."""
        self.send(*[piece for message in messages for piece in message.pieces()])

    def has_room(self, seconds: float = 0.0) -> bool:
        """Wait until the queue has room, at most so long; return whether it has."""
        queue = self._queue
        if not queue.crowded:
            return True
        with self.drained:
            return self.drained.wait_for(lambda: not queue.crowded, seconds)

    def flush(self, seconds: float) -> bool:
        """Wait until the queue is written, no longer than `seconds`; return whether it is."""
        with self.drained:
            return self.drained.wait_for(lambda: not self._queue.alive, seconds)

    def close(self) -> None:
        """Close the descriptor once the queue is written; further lines are dropped.

        It is never closed while the thread writes: the number might be another file's by then.
        """
        with self.lock:
            if not self.closing:
                self.closing = True
                if not self._queue.alive:
                    os.close(self.descriptor)

    def mark_broken(self) -> None:
        """Note that the descriptor can no longer be written."""
        if self._on_broken is not None and not self.broken:
            self._on_broken()
        self.broken = True

    def _write_at_once(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Write what can be written without waiting; return the rest, without copying it."""
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
            self.mark_broken()
            return []
        for number, piece in enumerate(pieces):
            if written < len(piece):
                return [memoryview(piece)[written:], *pieces[number + 1 :]]
            written -= len(piece)
        return []

    def _has_room(self, pieces: Sequence[Piece]) -> bool:
        # POSIX: a pipe that select finds writable takes PIPE_BUF bytes without blocking.
        if _size(pieces) > getattr(select, "PIPE_BUF", 0):
            return False
        return wait_writable(self.descriptor, 0)


# How much may wait behind the line that is being written, which may have any length.
MAXIMUM_WAITING_BYTES = 1 << 26
# A peer for which more waits counts as one that does not read if it has taken nothing for so many
# seconds. One that reads slowly may fall behind by so many times as much.
STALL_SECONDS = 10.0
PATIENCE_FACTOR = 8
# How much is written at once: where a write blocks, it shows that a slow peer reads.
PIECE = 1 << 20
# Up to so many bytes, pieces are joined so that one call writes them.
JOINED = 1 << 16


class WriteQueue:
    """The lines that wait for one peer; the caller of a method holds the lock of its writer.

    `alive` says whether the thread that writes them runs, `waiting` how many bytes wait behind the
    line that it writes.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.alive = False
        self.waiting = 0
        self._queue: list[Pieces] = []
        self._batch: list[Pieces] = []  # what the thread has taken of the queue, reversed
        self._written_at = 0.0  # when the last write succeeded

    def begin(self, rest: Pieces) -> None:
        """Start a thread that writes the rest of a line, and then what is added meanwhile."""
        self._written_at = monotonic()
        self.alive = start_thread(self._drain, rest) is not None
        if not self.alive:  # half a line is written: nothing can follow it
            self.writer.mark_broken()

    def add(self, pieces: Pieces) -> None:
        self._queue.append(pieces)
        self.waiting += _size(pieces)

    def discard(self) -> None:
        """Drop the lines that wait; the line that is being written goes on."""
        self._queue, self._batch, self.waiting = [], [], 0

    @property
    def crowded(self) -> bool:
        """Whether more than MAXIMUM_WAITING_BYTES wait."""
        return self.waiting > MAXIMUM_WAITING_BYTES

    def overflows(self) -> bool:
        """Whether the queue is crowded by a peer that does not read, or reads far too slowly."""
        if not self.crowded:
            return False
        stalled = monotonic() - self._written_at >= STALL_SECONDS
        return stalled or self.waiting > PATIENCE_FACTOR * MAXIMUM_WAITING_BYTES

    def _drain(self, pieces: Pieces) -> None:
        most = 0
        while pieces:
            most = max(most, _size(pieces))
            if _size(pieces) <= JOINED:
                pieces[:] = [b"".join(pieces)]
            pieces.reverse()
            try:
                while pieces:  # frees each piece once it is written
                    view = memoryview(pieces.pop())
                    while view:
                        view = view[self._write(view) :]
                    del view
            except OSError:
                self.writer.mark_broken()
            with self.writer.drained:
                pieces = self._next()
        if most > RETURNED_BYTES:
            return_memory()

    def _write(self, data: memoryview) -> int:
        """Write as much as the descriptor takes; wait first if it takes nothing."""
        try:
            written = os.write(self.writer.descriptor, data[:PIECE])
            self._written_at = monotonic()
            return written
        except BlockingIOError:
            wait_writable(self.writer.descriptor, None)
            return 0

    def _next(self) -> Pieces:
        """Return the next line to write, [] if there is none and the thread is to end."""
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


def _size(pieces: Sequence[Piece]) -> int:
    return sum([len(piece) for piece in pieces])
