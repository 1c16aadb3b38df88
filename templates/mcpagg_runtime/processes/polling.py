"""Waits for descriptors, where the system has a way to do so."""

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
# What a pipe holds, at first and at most, and how Linux calls that; `fcntl` has names from 3.10 on.
NARROW_PIPE, WIDE_PIPE = 1 << 16, 1 << 20
SET_PIPE_SIZE, GET_PIPE_SIZE = 1031, 1032


class Stopped(Exception):
    """Raised while the main thread waits for input: by a signal, or as nobody reads any more."""


def new_poll() -> Any:
    """Return what waits for descriptors; where POLLS, and nowhere else."""
    system: Any = select
    return system.poll()


def set_nonblocking(descriptor: int) -> None:
    """Have reads and writes fail that would wait; where POLLS, and nowhere else."""
    if sys.platform != "win32":
        os.set_blocking(descriptor, False)


def writable(descriptor: int, seconds: float | None) -> bool:
    """Wait until a descriptor takes something, no longer than `seconds`; None: for ever.

    Without POLLS, nobody can tell, and writing waits.
    """
    return not POLLS or _ready(descriptor, seconds, POLLOUT)


def readable(descriptor: int, seconds: float | None) -> bool:
    """Wait until a descriptor has something to read, or its end; None: for ever. Where POLLS."""
    return _ready(descriptor, seconds, POLLIN)


def hung_up(descriptor: int) -> bool:
    """Whether the writer of a pipe is gone, though something may be left to read."""
    if not POLLS:
        return False
    poll = new_poll()
    # A socket may be closed in one direction alone.
    poll.register(descriptor, POLLRDHUP)
    return bool(poll.poll(0))


def _ready(descriptor: int, seconds: float | None, event: int) -> bool:
    # poll, because select knows no descriptor above 1,023.
    poll = new_poll()
    poll.register(descriptor, event)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def widen(descriptor: int) -> bool:
    """Let a pipe hold a megabyte, where the system can; return whether it holds more than before.

    A large line then passes with fewer changes between the processes at its ends.
    """
    if not LINUX:
        return False
    from fcntl import fcntl  # type: ignore[attr-defined, unused-ignore]

    try:
        narrow = fcntl(descriptor, GET_PIPE_SIZE) < WIDE_PIPE
        return bool(narrow and fcntl(descriptor, SET_PIPE_SIZE, WIDE_PIPE) >= WIDE_PIPE)
    except OSError:  # it is no pipe, or this user's pipes hold too much in all
        return False
