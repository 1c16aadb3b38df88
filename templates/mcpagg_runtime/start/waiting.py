"""Waits for more on standard input, as briefly as a start does."""

from __future__ import annotations

# Where nothing can wait for a pipe: how long one is left alone between two looks at it.
LOOK_AGAIN_SECONDS = 0.001


def says_more(seconds: float) -> bool:
    """Wait until there is something on standard input, or its end, no longer than `seconds`."""
    try:
        from select import POLLIN, poll  # type: ignore[attr-defined, unused-ignore]
    except ImportError:  # Windows
        return holds_more(seconds)
    waiting = poll()
    waiting.register(0, POLLIN)
    return bool(waiting.poll(seconds * 1000))


def holds_more(seconds: float) -> bool:
    """Do the same by looking again and again; False at once of what is no pipe."""
    from _winapi import PeekNamedPipe  # type: ignore[attr-defined, unused-ignore]
    from msvcrt import get_osfhandle  # type: ignore[attr-defined, unused-ignore]
    from time import monotonic, sleep

    end = monotonic() + seconds
    try:
        pipe = get_osfhandle(0)
        while not PeekNamedPipe(pipe)[0]:
            if monotonic() >= end:
                return False
            sleep(LOOK_AGAIN_SECONDS)
    except BrokenPipeError:  # its end
        return True
    except OSError:
        return False
    return True
