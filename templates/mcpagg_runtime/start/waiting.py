"""Waits a moment for standard input."""

from __future__ import annotations

# How often a pipe is looked at where the system cannot wait for one.
POLL_SECONDS = 0.001


def has_input(seconds: float) -> bool:
    """Wait until standard input has data or has ended, no longer than `seconds`."""
    try:
        from select import POLLIN, poll  # type: ignore[attr-defined, unused-ignore]
    except ImportError:  # Windows
        return pipe_has_input(seconds)
    waiting = poll()
    waiting.register(0, POLLIN)
    return bool(waiting.poll(seconds * 1000))


def pipe_has_input(seconds: float) -> bool:
    """Do the same by polling; return False at once if standard input is no pipe."""
    from _winapi import PeekNamedPipe  # type: ignore[attr-defined, unused-ignore]
    from msvcrt import get_osfhandle  # type: ignore[attr-defined, unused-ignore]
    from time import monotonic, sleep

    end = monotonic() + seconds
    try:
        pipe = get_osfhandle(0)
        while not PeekNamedPipe(pipe)[0]:
            if monotonic() >= end:
                return False
            sleep(POLL_SECONDS)
    except BrokenPipeError:  # it has ended
        return True
    except OSError:
        return False
    return True
