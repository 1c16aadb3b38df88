"""Signals that end the process, where something is to be put in order before they do."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDING = ("SIGTERM", "SIGHUP", "SIGBREAK")
"""Those that Python itself raises nothing for; Windows has the last one alone."""


@contextmanager
def ending_later(
    names: tuple[str, ...] = ENDING, meanwhile: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Let a signal of these names end the process after the block; call `meanwhile` when it comes.

    A signal that is ignored (nohup), or handled by the caller, is left alone. Only the main thread
    can handle signals, and is given them.
    """
    caught: list[int] = []

    def handle(number: int, _frame: object) -> None:
        caught.append(number)
        meanwhile()

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.Signals[name] for name in names if hasattr(signal, name)):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if caught:
            signal.raise_signal(caught[0])
