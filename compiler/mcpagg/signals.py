"""Signals that end the process, put off until something is in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDING = ("SIGTERM", "SIGHUP", "SIGBREAK")
"""Those that Python itself raises nothing for; Windows has the last one alone."""


@contextmanager
def ending_later(
    names: tuple[str, ...] = ENDING,
    meanwhile: Callable[[], None] = lambda: None,
    *,
    handled: bool = False,
) -> Iterator[None]:
    """Let a signal of these names end the process after the block; call `meanwhile` when it comes.

    With `handled`, so does a signal that the caller handles: its handler is called after the block.
    One that is ignored (nohup) stays so. Only the main thread can handle signals.
    """
    caught: list[int] = []

    def handle(number: int, _frame: object) -> None:
        caught.append(number)
        meanwhile()

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.Signals[name] for name in names if hasattr(signal, name)):
            handler = signal.getsignal(number)
            if handler is signal.SIG_DFL or (handled and handler not in (signal.SIG_IGN, None)):
                before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if caught:
            signal.raise_signal(caught[0])
