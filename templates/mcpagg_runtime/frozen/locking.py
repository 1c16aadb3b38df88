"""Locks between processes: a file beside what one of them alone may work on at a time."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import contextmanager, suppress
from time import sleep
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.platforms import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK = ".lock"
LOCKED_POLL_SECONDS = 0.1


class AtWorkError(Exception):
    """Somebody has the lock."""


def leave() -> None:
    """Wait for no lock.

    Raises:
        AtWorkError: always.
    """
    raise AtWorkError


def lock_of(place: str) -> str:
    """Return the path of the lock of a file or a folder."""
    return place + LOCK


@contextmanager
def lock(place: str, check: Callable[[], None]) -> Iterator[int | None]:
    """Be the only one who works on a place; yield what locks it, None where nothing can.

    Who waits calls `check` meanwhile, which may raise. Programs that inherit the descriptor hold
    the lock as long as they run, whatever becomes of this process: where it is free, nobody is at
    it.
    """
    path = lock_of(place)
    held = _acquire(path, check)
    try:
        yield held
    finally:
        if held is not None:
            _release(path, held)


def _acquire(path: str, check: Callable[[], None]) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        is_ours = False
        try:
            while not _try_lock(descriptor):
                check()
                sleep(LOCKED_POLL_SECONDS)
            # Its last owner may have removed it, and somebody else have made another one.
            is_ours = WINDOWS or os.path.samestat(os.stat(path), os.fstat(descriptor))
        except FileNotFoundError:
            continue
        except OSError:  # files of this kind cannot be locked
            return None
        finally:
            if not is_ours:
                os.close(descriptor)
        if is_ours:
            return descriptor


def _release(path: str, held: int) -> None:
    # Windows removes no file that is open, and opens none that is being removed: there it stays.
    with suppress(OSError):
        if not WINDOWS and os.path.samestat(os.stat(path), os.fstat(held)):
            os.remove(path)
    os.close(held)


def _try_lock(descriptor: int) -> bool:
    """Return whether the lock is ours now.

    Raises:
        OSError: there are no locks for such files.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True
