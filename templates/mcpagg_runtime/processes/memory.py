"""Has glibc keep free memory between large lines, and return it to the system a moment later.

To get new memory from the system costs 0.4 ms a megabyte, more than anything else that is done with
a large line. Other systems are left as they are.
"""

from __future__ import annotations

import threading
from time import sleep
from typing import TYPE_CHECKING

from mcpagg_runtime.processes.polling import LINUX
from mcpagg_runtime.processes.threads import start_thread

if TYPE_CHECKING:
    from typing import Any

# Parameters of mallopt(3) by number: M_ARENA_MAX, since what is on top of any other arena than the
# first is not returned; M_MMAP_THRESHOLD, the most there is; M_TRIM_THRESHOLD.
_PARAMETERS = {-8: 1, -3: 1 << 25, -1: 1 << 30}
# How long free memory is kept.
KEPT_SECONDS = 1.0

_is_planned = threading.Event()


def keep_memory() -> None:
    """Have free memory kept until `return_memory`.

    Only for a process that is ours alone, before it has other threads.
    """
    for number, value in _PARAMETERS.items():
        _call("mallopt", number, value)


def return_memory() -> None:
    """Return free memory to the system, KEPT_SECONDS from now."""
    if LINUX and not _is_planned.is_set():
        _is_planned.set()
        if start_thread(_return) is None:
            _is_planned.clear()


def _return() -> None:
    sleep(KEPT_SECONDS)
    _is_planned.clear()
    _call("malloc_trim", 0)


def _call(name: str, *arguments: Any) -> None:
    """Call a function of glibc, if this process runs on it."""
    if not LINUX:
        return
    try:
        import ctypes

        ctypes.CDLL(None)[name](*arguments)
    except Exception:  # another library, or a Python without ctypes
        return
