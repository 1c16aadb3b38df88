"""The processes of a child on Windows: a job object holds them, and ends them with the proxy."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

# CREATE_SUSPENDED: it must start no other process before it is in the job. CREATE_NO_WINDOW: a
# proxy without a console would open one for each child; and the user's Ctrl-C is for the proxy.
START_FLAGS = 0x00000004 | 0x08000000

# PROCESS_TERMINATE, PROCESS_SET_QUOTA, PROCESS_SUSPEND_RESUME, SYNCHRONIZE
_ACCESS = 0x0001 | 0x0100 | 0x0800 | 0x00100000
_ACCOUNTING = 1  # JobObjectBasicAccountingInformation
_ACCOUNTING_SIZE, _ACTIVE_AT = 48, 40
_LIMITS = 9  # JobObjectExtendedLimitInformation, whose size is that of a machine's pointers
_LIMITS_SIZE, _FLAGS_AT = {8: 144, 4: 112}, 16
_KILL_ON_JOB_CLOSE = 0x2000
_WAIT_TIMEOUT = 258
_ENDED_BY_US = 1


class Job:
    """The processes of one child, its descendants included.

    The system ends them when the last handle of the job is closed: also when this process is ended
    in a way that leaves it no time for anything. Where there can be no job, the child is alone.
    """

    def __init__(self, pid: int) -> None:
        """Take in a suspended process and let it run.

        Raises:
            OSError: it cannot be made to run.
        """
        self._process = self._job = None
        self._kernel = _library("kernel32")
        for name in ("OpenProcess", "CreateJobObjectW"):
            getattr(self._kernel, name).restype = ctypes.c_void_p
        self._process = ctypes.c_void_p(self._kernel.OpenProcess(_ACCESS, False, pid))
        if not self._process.value:
            raise OSError(f"Windows does not let process {pid} be opened")
        self._job = self._created()
        if _library("ntdll").NtResumeProcess(self._process):
            raise OSError(f"Windows does not let process {pid} run")

    def _created(self) -> Any:
        """Return a job with the process in it, None if the system does not allow that."""
        job = ctypes.c_void_p(self._kernel.CreateJobObjectW(None, None))
        limits = bytearray(_LIMITS_SIZE[ctypes.sizeof(ctypes.c_void_p)])
        limits[_FLAGS_AT : _FLAGS_AT + 4] = _KILL_ON_JOB_CLOSE.to_bytes(4, "little")
        given = (ctypes.c_char * len(limits)).from_buffer(limits)
        if (
            job.value
            and self._kernel.SetInformationJobObject(job, _LIMITS, given, len(limits))
            and self._kernel.AssignProcessToJobObject(job, self._process)
        ):
            return job
        self._kernel.CloseHandle(job)
        return None

    def signal(self, number: int) -> bool:
        """End the processes (0: only ask); return whether there are any."""
        if number and self._job is not None:
            self._kernel.TerminateJobObject(self._job, _ENDED_BY_US)
        elif number:
            self._kernel.TerminateProcess(self._process, _ENDED_BY_US)
        if self._job is None:
            return bool(self._kernel.WaitForSingleObject(self._process, 0) == _WAIT_TIMEOUT)
        found = (ctypes.c_char * _ACCOUNTING_SIZE)()
        self._kernel.QueryInformationJobObject(self._job, _ACCOUNTING, found, len(found), None)
        return any(found.raw[_ACTIVE_AT : _ACTIVE_AT + 4])

    def __del__(self) -> None:
        for handle in (self._process, self._job):
            if handle is not None and handle.value:
                self._kernel.CloseHandle(handle)


def _library(name: str) -> Any:
    """Return a library of Windows; no other system's `ctypes` has a way to it."""
    loader: Any = ctypes
    return loader.WinDLL(name)
