"""Standard input on a system where nothing can wait for a pipe and a signal at once."""

from __future__ import annotations

import _thread
import os
from typing import TYPE_CHECKING

from mcpagg_runtime.base.polling import SIGNAL_SECONDS, STDIN_CHUNK, Stopped

if TYPE_CHECKING:
    from mcpagg_runtime.base.writer import Writer


class ThreadedInput:
    """Standard input, which a thread of its own reads, one piece ahead.

    Whoever waits for the next piece wakes up now and then, so that the handlers of signals run.
    """

    def __init__(self, output: Writer) -> None:
        self.output = output
        self._data = b""
        self._problem: OSError | None = None
        self._full = _thread.allocate_lock()  # held while there is nothing to take
        self._full.acquire()
        self._empty = _thread.allocate_lock()  # held while nothing may be put there
        self._empty.acquire()
        _thread.start_new_thread(self._fill, ())

    def ready(self, seconds: float) -> bool:
        """Wait until there is something to read, or its end, no longer than `seconds`."""
        if not self._full.acquire(True, seconds):
            return False
        self._full.release()
        return True

    def read(self) -> bytes:
        """Wait for input; b"" is its end.

        Raises:
            Stopped: the client takes nothing any more.
            OSError: there is nothing to be read.
        """
        while not self._full.acquire(True, SIGNAL_SECONDS):
            if self.output.broken:
                raise Stopped
        if self._problem is not None:
            raise self._problem
        data = self._data
        self._empty.release()
        return data

    def _fill(self) -> None:
        while True:
            try:
                self._data = os.read(0, STDIN_CHUNK)
            except OSError as problem:
                self._problem, self._data = problem, b""
            self._full.release()
            if not self._data:
                return
            self._empty.acquire()
