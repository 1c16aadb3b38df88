"""Does what is due, when it is: by a thread of its own, which is started when first needed."""

from __future__ import annotations

import _thread
from typing import TYPE_CHECKING

from mcpagg_runtime.serve.effects import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LONGEST_SLEEP_SECONDS = 3600.0


class Alarm:
    """Calls `ring` when it is due; whoever calls a method holds the lock that `ring` takes."""

    def __init__(self, ring: Callable[[], float | None]) -> None:
        """`ring` returns for how many seconds to wait until it is due again, None to end."""
        self._ring = ring
        self._due = FOREVER
        self._woken: Any = None
        """Held while the thread has no reason to wake up; None as long as there is no thread."""

    def note(self, due: float) -> None:
        """Note when the next thing is due; called by `ring`, which has seen to all that was."""
        self._due = due

    def set(self, due: float) -> bool:
        """See that `ring` is called by then; return whether there is a thread to be had for it."""
        if due >= self._due:
            return True
        self._due = due
        if self._woken is None:
            self._woken = _thread.allocate_lock()
            self._woken.acquire()
            try:
                _thread.start_new_thread(self._run, ())
            except RuntimeError:
                self._woken, self._due = None, FOREVER  # the next event tries again
                return False
        elif self._woken.locked():
            self._woken.release()
        return True

    def _run(self) -> None:
        while True:
            wait = self._ring()
            if wait is None:
                return
            self._woken.acquire(True, min(wait, LONGEST_SLEEP_SECONDS))
