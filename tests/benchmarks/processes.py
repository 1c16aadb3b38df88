"""What processes use: memory, CPU, wake-ups. Memory is from `ps`, all else from Linux alone."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

CHILDREN = ("echo.py", "blob.py")
"""What marks the children of the benchmarks, unlike a server's own helpers."""


class Entry:
    """A line of the process table."""

    def __init__(self, row: str) -> None:
        pid, parent, resident, self.args = row.split(None, 3)
        self.pid, self.parent, self.resident = int(pid), int(parent), int(resident) * 1024


def table() -> dict[int, Entry]:
    """Return the processes of the machine."""
    command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,rss=,args="]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {entry.pid: entry for entry in map(Entry, rows)}


def family(pid: int) -> dict[int, Entry]:
    """Return a process and its descendants."""
    everyone = table()
    found = {pid: everyone[pid]} if pid in everyone else {}
    size = 0
    while len(found) > size:
        size = len(found)
        found |= {entry.pid: entry for entry in everyone.values() if entry.parent in found}
    return found


def own(pid: int) -> list[Entry]:
    """Return a server and its helpers, but not the children that it serves."""
    entries = family(pid).values()
    return [e for e in entries if e.pid == pid or not any(name in e.args for name in CHILDREN)]


def resident(pid: int) -> int:
    """Return the bytes that a server occupies, helpers included."""
    return sum(entry.resident for entry in own(pid))


def peak(pid: int) -> int:
    """Return the most bytes that a server has occupied, each of its helpers by itself."""
    return sum(_status(f"/proc/{entry.pid}/status", "VmHWM:") for entry in own(pid)) * 1024


def threads(pid: int) -> int:
    """Return how many threads a server has."""
    return sum(_status(f"/proc/{entry.pid}/status", "Threads:") for entry in own(pid))


def cpu(pid: int) -> float:
    """Return the CPU seconds that a server has used, to the nanosecond."""
    # The clock of another process, made as clock_getcpuclockid(3) makes it; /proc counts in 10 ms.
    return sum(time.clock_gettime((~entry.pid << 3) | 2) for entry in own(pid))


def wakeups(pid: int) -> int:
    """Return how often the threads of a server went to sleep, which is how often they woke up."""
    return sum(
        _status(str(status), "voluntary_ctxt_switches:")
        for entry in own(pid)
        for status in Path(f"/proc/{entry.pid}/task").glob("*/status")
    )


def _status(file: str, name: str) -> int:
    """Return a number of a status file."""
    rows = Path(file).read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith(name))
