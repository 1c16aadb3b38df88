"""The timer of the core, which waits for nothing itself."""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.processes.threads import start_thread
from mcpagg_runtime.servers.effects import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_SLEEP_SECONDS = 3600.0
AFTER_A_FAULT_SECONDS = 1.0


class TimerThread:
    """Calls `tick` when something is due, in a thread that is started when first needed.

    The caller of a method holds `lock`; the thread holds it while it calls `tick`.
    """

    def __init__(
        self,
        lock: threading.Lock,
        tick: Callable[[], float],
        report: Callable[[Exception], object],
    ) -> None:
        """`tick` does what is due and returns when it is due next; `report` gets its faults."""
        self.due = FOREVER
        """When `tick` is called next."""
        self._tick = tick
        self._report = report
        self._changed = threading.Condition(lock)
        self._thread: threading.Thread | None = None
        self._is_over = False
        self._is_reported = False
        """Whether it was reported that there is no thread."""

    def call_by(self, due: float) -> bool:
        """Have `tick` called by then; return False, once, if no thread can be started."""
        self.due = due
        if self._thread is not None:
            self._changed.notify()
            return True
        self._thread = start_thread(self._run)
        if self._thread is not None:
            return True
        self.due = FOREVER  # the next event tries again
        was_reported, self._is_reported = self._is_reported, True
        return was_reported

    def end(self) -> None:
        self._is_over = True
        self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._is_over:
                pause = 0.0
                try:
                    self.due = self._tick()
                except Exception as fault:
                    self._report(fault)
                    pause = AFTER_A_FAULT_SECONDS
                wait = min(self.due - monotonic(), LONGEST_SLEEP_SECONDS)
                self._changed.wait(pause or max(0.0, wait))
