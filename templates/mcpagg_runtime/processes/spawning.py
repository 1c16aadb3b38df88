"""Starts the process of a server, as the leader of a group of processes that can be ended whole."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.platforms import command_line

if sys.platform == "win32":
    from mcpagg_runtime.processes.windows_jobs import START_FLAGS, Job

if TYPE_CHECKING:
    from typing import Any, Protocol

    from mcpagg_runtime.launch.launch import Launch

    class Group(Protocol):
        """The processes of one child, its descendants included."""

        def signal(self, number: int) -> bool:
            """Send a signal (0: none, only ask); return whether the group has members."""


KILL = 9  # by number: Windows has no SIGKILL


class SpawnedProcess:
    """A process that was started, and our ends of its pipes; `Process` takes it over."""

    def __init__(
        self, launch: Launch, handle: subprocess.Popen[bytes], group: Group, pipes: list[int]
    ) -> None:
        """`pipes` are our ends of its standard input, output and error."""
        self.launch = launch
        self.handle = handle
        self.group = group
        self.pipes = pipes

    def discard(self) -> None:
        """End its process group and close its pipes: nobody takes it over."""
        self.group.signal(KILL)
        self.handle.wait()
        for descriptor in self.pipes:
            os.close(descriptor)


def spawn(launch: Launch) -> SpawnedProcess:
    """Start the process of a server.

    Raises:
        OSError: the command cannot be started.
        ValueError: an argument holds a NUL, or what a shell that it needs cannot be given.
    """
    # The pipes of `subprocess` are files, which close descriptors that a writer may still use.
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for ends in ((theirs, ours), (ours, theirs), (ours, theirs)):
            for end, descriptor in zip(ends, os.pipe()):  # noqa: B905 - Python 3.9
                end.append(descriptor)
        popen = subprocess.Popen(
            command_line(launch.argv),
            stdin=theirs[0],
            stdout=theirs[1],
            stderr=theirs[2],
            env=launch.env,
            cwd=launch.cwd,
            **start_options(),
        )
        return SpawnedProcess(launch, popen, group_of(popen), ours)
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)


def group_of(popen: subprocess.Popen[bytes]) -> Group:
    """Return the group that a process leads, as `lead_group`; if that fails, it is ended."""
    try:
        return lead_group(popen.pid)
    except OSError:  # on Windows
        popen.kill()
        popen.wait()
        raise


# Groups


def start_options() -> dict[str, Any]:
    """Return the options of `subprocess.Popen` for a process that is to lead a group."""
    if sys.platform == "win32":
        return {"creationflags": START_FLAGS}
    else:
        return {"start_new_session": True}


def lead_group(pid: int) -> Group:
    """Return the group of a process that was just started with `start_options`.

    On Windows, where it was started suspended, this lets it run.

    Raises:
        OSError: on Windows, it cannot be made to run.
    """
    if sys.platform == "win32":
        return Job(pid)
    else:
        return SessionGroup(pid)


class SessionGroup:
    """The process group of the leader of a session."""

    def __init__(self, leader: int) -> None:
        self.leader = leader

    def signal(self, number: int) -> bool:
        """Send a signal (0: none, only ask); return whether the group has members."""
        if sys.platform != "win32":
            try:
                os.killpg(self.leader, number)
            except ProcessLookupError:
                return False
            except PermissionError:  # macOS: the group has only zombies left
                return False
        return True
