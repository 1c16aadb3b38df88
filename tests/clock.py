"""The clocks of discovery and of the aggregator's event loop, put forward by a test.

How many seconds a real process takes depends on the machine. So a test of what follows a time
limit sets one that no machine reaches, and puts the clock forward when the child is where the test
wants it: nothing is waited for, and load changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from wire import Json

from mcpagg.passes.discovery.probe_connection import Time

LIMIT = 16_000.0
"""Seconds: a limit that is reached only when the clock is put forward."""


@contextmanager
def forward() -> Iterator[Callable[[float], None]]:
    """Yield a function that puts both clocks forward; any thread may call it."""
    ahead = 0.0
    running: list[asyncio.BaseEventLoop] = []
    waiting: list[threading.Condition] = []
    wait = Time.wait

    def loop_time(loop: asyncio.BaseEventLoop) -> float:
        running[:] = [loop]
        return time.monotonic() + ahead

    def now(self: Time) -> float:
        return time.monotonic() + ahead

    def noted_wait(self: Time, changed: threading.Condition, seconds: float) -> None:
        if changed not in waiting:
            waiting.append(changed)
        wait(self, changed, seconds)

    def move(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    def skip(seconds: float) -> None:
        if running:
            running[0].call_soon_threadsafe(move, seconds)  # after what is there to be read already
        else:
            move(seconds)
        for changed in [*waiting]:
            with changed:
                changed.notify_all()

    with (
        mock.patch.object(asyncio.BaseEventLoop, "time", loop_time),
        mock.patch.object(Time, "now", now),
        mock.patch.object(Time, "wait", noted_wait),
    ):
        yield skip


@contextmanager
def skipping(log: Path, *moves: tuple[str, float]) -> Iterator[None]:
    """Put the clock forward, move by move: once a stub has received the method, by the seconds.

    `log` is the log of the stubs concerned: a pipe meanwhile, and a file afterwards.
    """
    rest = list(moves)
    rows: list[bytes] = []
    os.mkfifo(log)
    # Opened for both, it has no end, and neither side waits for the other.
    with os.fdopen(os.open(log, os.O_RDWR), "rb+", buffering=0) as pipe, forward() as skip:

        def read() -> None:
            with os.fdopen(os.dup(pipe.fileno()), "rb") as events:
                while (row := events.readline()) != b"\n":
                    rows.append(row)
                    if rest and rest[0][0] == _method(json.loads(row)):
                        skip(rest.pop(0)[1])

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield
        finally:
            pipe.write(b"\n")
            reader.join()
            log.unlink()
            log.write_bytes(b"".join(rows))


def _method(event: Json) -> object:
    """Return the method of a message that a stub received; None for its other events."""
    return json.loads(event["line"]).get("method") if event["event"] == "line" else None
