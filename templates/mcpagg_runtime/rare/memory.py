"""Returns memory to the system."""

from __future__ import annotations

from mcpagg_runtime.base.polling import LINUX


def return_memory() -> None:
    """Return what is free: glibc would keep it for what else of that size may come."""
    if not LINUX:
        return
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
