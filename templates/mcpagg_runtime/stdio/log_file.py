"""The file of the log: its path, its name, and how it is opened."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.platforms import WINDOWS
from mcpagg_runtime.processes.threads import start_thread
from mcpagg_runtime.processes.writer import Writer
from mcpagg_runtime.start.handover import LOG_DIRECTORY, LOG_LEVEL
from mcpagg_runtime.stdio.call_log import Log
from mcpagg_runtime.stdio.standard import print_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.plan.plan import Plan

# The names of devices on Windows, with or without a suffix, some followed by a digit.
DEVICES = ("aux", "con", "nul", "prn", "com", "lpt")
# FILE_APPEND_DATA without FILE_WRITE_DATA: each write goes to the end of the file, in one step. The
# C runtime's O_APPEND first seeks and then writes. FILE_READ_ATTRIBUTES, SYNCHRONIZE.
_APPEND_ACCESS = 0x0004 | 0x0080 | 0x00100000
_BY_ALL = 0x0007  # others may read, write and delete it
_OPEN_ALWAYS = 4
_NORMAL_FILE = 0x0080
_WRITE_ONLY = 0x0001


def open_log(plan: Plan) -> Log:
    """Open the log in the directory that the environment names; see `_opened`."""
    return open_log_at(plan, path_in(os.environ[LOG_DIRECTORY], plan.name), (), is_debug())


def is_debug(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment asks for a line a call."""
    return environ.get(LOG_LEVEL) == "debug"


def path_in(directory: str, name: str) -> str:
    """Return the path of a proxy's log in a directory, "" without a directory."""
    return os.path.join(directory, log_name(name)) if directory else ""


def log_name(name: str) -> str:
    """Return the file name of a proxy's log: the same on every system, and valid on each."""
    letters = ["_" if letter in '<>:"/\\|?*' or letter < " " else letter for letter in name]
    device = name.partition(".")[0].strip().lower().rstrip("0123456789")
    return ("_" if device in DEVICES else "") + "".join(letters) + ".log"


def open_log_at(plan: Plan, path: str, protocol: tuple[int, ...], with_calls: bool) -> Log:
    """Open a log; see `_opened`."""
    message = f"{plan.name}: cannot write the log {path} any more"
    writer = Writer(
        _opened(path, protocol),
        private=False,
        on_broken=lambda: start_thread(print_error, message),  # in a thread: stderr may block
        on_overflow=lambda waiting: None,
    )
    return Log(writer, with_calls)


def _opened(path: str, protocol: tuple[int, ...]) -> int:
    """Open a log. `protocol` are the descriptors of the protocol.

    Raises:
        OSError: it cannot be written.
        ValueError: it is the file of one of those, or the path is not valid.
    """
    if WINDOWS:
        descriptor = open_to_append(path)
    else:  # O_NONBLOCK: a named pipe may have no reader
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, flags, 0o666)
    about = os.fstat(descriptor)
    # A terminal, or /dev/null, may be several things at once.
    if not stat.S_ISCHR(about.st_mode):
        for other in protocol:
            if os.path.samestat(about, os.fstat(other)):
                os.close(descriptor)
                raise ValueError("the protocol is spoken over it")
    return descriptor


def open_to_append(path: str) -> int:
    """Open a file of Windows to which several processes append; create it if there is none.

    Raises:
        OSError: it cannot be written.
        ValueError: the path is not valid.
    """
    from _winapi import CreateFile  # type: ignore[attr-defined, unused-ignore]
    from msvcrt import open_osfhandle  # type: ignore[attr-defined, unused-ignore]

    handle = CreateFile(path, _APPEND_ACCESS, _BY_ALL, 0, _OPEN_ALWAYS, _NORMAL_FILE, 0)
    descriptor: int = open_osfhandle(handle, _WRITE_ONLY)
    return descriptor
