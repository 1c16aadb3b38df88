"""Standard input on Windows, where nothing can wait for a pipe and a signal at once."""

from __future__ import annotations

import os
import queue
from contextlib import suppress
from typing import TYPE_CHECKING

from mcpagg_runtime.processes.polling import STDIN_CHUNK, Stopped
from mcpagg_runtime.processes.threads import SIGNAL_SECONDS, start_thread

if TYPE_CHECKING:
    from mcpagg_runtime.processes.writer import Writer


class ThreadedInput:
    """Standard input, read ahead by a thread of its own.

    The reader waits in short steps, so that signal handlers run.
    """

    def __init__(self, output: Writer) -> None:
        self.output = output
        self._pieces: queue.Queue[bytes | OSError] = queue.Queue(1)
        self._next: bytes | OSError | None = None
        """The piece that `ready` has waited for, if `read` has not returned it yet."""
        start_thread(self._read_ahead)

    def ready(self, seconds: float) -> bool:
        """Wait until it has data or has ended, no longer than `seconds`."""
        if self._next is None:
            with suppress(queue.Empty):
                self._next = self._pieces.get(timeout=seconds)
        return self._next is not None

    def read(self) -> bytes:
        """Wait for input; b"" is its end.

        Raises:
            Stopped: the client has closed its end of the output.
            OSError: standard input cannot be read.
        """
        while not self.ready(SIGNAL_SECONDS):
            if self.output.broken:
                raise Stopped
        piece, self._next = self._next, None
        if isinstance(piece, OSError):
            raise piece
        return piece or b""

    def _read_ahead(self) -> None:
        data = b"?"
        while data:
            try:
                data = os.read(0, STDIN_CHUNK)
            except OSError as problem:
                self._pieces.put(problem)
                return
            self._pieces.put(data)
