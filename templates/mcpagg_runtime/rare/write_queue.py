"""What a peer has not taken yet: queued, bounded, and written by a thread at the peer's pace.

Most writers never have one, so a start does not pay for it.
"""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.base.polling import writable
from mcpagg_runtime.base.threads import start_thread
from mcpagg_runtime.base.writer import RETURNED
from mcpagg_runtime.rare.memory import return_memory

if TYPE_CHECKING:
    import threading
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
