"""Waiting for descriptors, where the system can, and the capacity of pipes."""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

LINUX = sys.platform == "linux"
# Windows has no way to wait for a pipe, and macOS no RDHUP.
POLLS = hasattr(select, "poll")
POLLIN = getattr(select, "POLLIN", 0)
POLLOUT = getattr(select, "POLLOUT", 0)
POLLRDHUP = getattr(select, "POLLRDHUP", 0)

# How much of standard input is read at once.
STDIN_CHUNK = 1 << 16
# The capacity of a pipe, and the commands of Linux for it; `fcntl` has their names from 3.10 on.
DEFAULT_PIPE_BYTES, LARGEST_PIPE_BYTES = 1 << 16, 1 << 20
SET_PIPE_SIZE, GET_PIPE_SIZE = 1031, 1032


class Stopped(Exception):
    """Raised while the main thread waits for input: by a signal, or if the client is gone."""


def new_poll() -> Any:
    """Return a poll object; only where POLLS."""
    system: Any = select
    return system.poll()


def set_nonblocking(descriptor: int) -> None:
    """Have reads and writes fail that would wait; only where POLLS."""
    if sys.platform != "win32":
        os.set_blocking(descriptor, False)


def wait_writable(descriptor: int, seconds: float | None) -> bool:
    """Wait until a descriptor can be written, no longer than `seconds`; None: for ever.

    Without POLLS it returns at once, and the write waits.
    """
    return not POLLS or _ready(descriptor, seconds, POLLOUT)


def wait_readable(descriptor: int, seconds: float | None) -> bool:
    """Wait until a descriptor has data or has ended; None: for ever. Only where POLLS."""
    return _ready(descriptor, seconds, POLLIN)


def writer_closed(descriptor: int) -> bool:
    """Whether the writer of a pipe has closed it; data may be left to read."""
    # A socket may be closed in one direction alone.
    return POLLS and _ready(descriptor, 0, POLLRDHUP)


def _ready(descriptor: int, seconds: float | None, event: int) -> bool:
    # poll, because select knows no descriptor above 1,023.
    poll = new_poll()
    poll.register(descriptor, event)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def enlarge_pipe(descriptor: int) -> bool:
    """Let a pipe hold a megabyte, where the system can; return whether it holds more than before.

    A large line then passes with fewer context switches.
    """
    if not LINUX:
        return False
    from fcntl import fcntl  # type: ignore[attr-defined, unused-ignore]

    try:
        narrow = fcntl(descriptor, GET_PIPE_SIZE) < LARGEST_PIPE_BYTES
        return bool(
            narrow and fcntl(descriptor, SET_PIPE_SIZE, LARGEST_PIPE_BYTES) >= LARGEST_PIPE_BYTES
        )
    except OSError:  # it is no pipe, or the user has reached the limit for pipes
        return False
