"""Returns memory to the system."""

from __future__ import annotations

from mcpagg_runtime.base.polling import LINUX
from mcpagg_runtime.base.writer import RETURNED

# Numbers of parameters of glibc, see mallopt(3).
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3


def return_memory() -> None:
    """Return what is free, and from now on what is large as soon as it is.

    Of its own accord glibc returns large blocks until one is, and keeps those as large from then
    on: some 60 MB for each thread that reads them.
    """
    if not LINUX:
        return
    try:
        import ctypes

        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, RETURNED)
        library.mallopt(TRIM_THRESHOLD, 2 * RETURNED)
        library.malloc_trim(0)
    except (ImportError, OSError, AttributeError):  # another library, or a Python without ctypes
        return
