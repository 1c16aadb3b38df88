"""Has glibc keep free memory from one large line to the next, and return it to the system then.

Memory that is new to a process costs more than all else that is done with a large line: 0.4 ms a
megabyte, for each copy. Other systems are left as they are.
"""

from __future__ import annotations

import _thread
from time import sleep
from typing import TYPE_CHECKING

from mcpagg_runtime.base.polling import LINUX

if TYPE_CHECKING:
    from typing import Any

# Parameters of mallopt(3) by number: M_ARENA_MAX, since what is on top of any other arena than the
# first is not returned; M_MMAP_THRESHOLD, the most there is; M_TRIM_THRESHOLD.
_PARAMETERS = {-8: 1, -3: 1 << 25, -1: 1 << 30}
# For so long memory is kept.
FREE_SECONDS = 1.0

_is_planned = _thread.allocate_lock()


def keep_memory() -> None:
    """Have free memory kept until it is returned.

    For a process of our own, before it has other threads.
    """
    for number, value in _PARAMETERS.items():
        _call("mallopt", number, value)


def return_memory() -> None:
    """Return what is free to the system, a moment after this was first asked for."""
    if LINUX and _is_planned.acquire(False):
        try:
            _thread.start_new_thread(_return, ())
        except RuntimeError:  # there is no thread to be had
            _is_planned.release()


def _return() -> None:
    sleep(FREE_SECONDS)
    _is_planned.release()
    _call("malloc_trim", 0)


def _call(name: str, *arguments: Any) -> None:
    """Call a function of glibc, where that is what there is."""
    if not LINUX:
        return
    try:
        import ctypes

        ctypes.CDLL(None)[name](*arguments)
    except Exception:  # another library, or a Python without ctypes
        return
