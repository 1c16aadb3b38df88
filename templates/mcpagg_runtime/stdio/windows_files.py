"""Files of Windows that several processes write to."""

from __future__ import annotations

# FILE_APPEND_DATA without FILE_WRITE_DATA: the system itself puts each write at the end, where the
# C runtime's O_APPEND looks for the end first and writes then. FILE_READ_ATTRIBUTES, SYNCHRONIZE.
_APPEND_ACCESS = 0x0004 | 0x0080 | 0x00100000
_BY_ALL = 0x0007  # others may read, write and delete it
_OPEN_ALWAYS = 4
_NORMAL_FILE = 0x0080
_WRITE_ONLY = 0x0001


def open_to_append(path: str) -> int:
    """Return a descriptor of a file, made if there is none, each of whose writes goes to its end.

    Raises:
        OSError: it cannot be written.
        ValueError: its path cannot be one.
    """
    from _winapi import CreateFile  # type: ignore[attr-defined, unused-ignore]
    from msvcrt import open_osfhandle  # type: ignore[attr-defined, unused-ignore]

    handle = CreateFile(path, _APPEND_ACCESS, _BY_ALL, 0, _OPEN_ALWAYS, _NORMAL_FILE, 0)
    descriptor: int = open_osfhandle(handle, _WRITE_ONLY)
    return descriptor
