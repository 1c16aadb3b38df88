"""Starts threads, which the system may refuse."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# How long a signal may wait for its handler: on Windows, none is called while a thread waits.
SIGNAL_SECONDS = 0.2
NO_THREAD = "the system has no thread for it"


def start_thread(work: Callable[..., object], *arguments: Any) -> threading.Thread | None:
    """Call `work` in a daemon thread and return that; None if none can be started."""
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def join(thread: threading.Thread) -> None:
    """Wait for the end of a thread, in steps between which signal handlers are called."""
    while thread.is_alive():
        thread.join(SIGNAL_SECONDS)
