"""Starts the process of a server; reading it and writing to it come after that."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.platforms import command_line
from mcpagg_runtime.processes.groups import lead_group, start_options

if TYPE_CHECKING:
    from mcpagg_runtime.launch.launch import Launch
    from mcpagg_runtime.processes.groups import Group

KILL = 9  # by number: Windows has no SIGKILL


class Spawned:
    """A process that runs, with its pipes, and nobody who looks after it yet."""

    def __init__(
        self, launch: Launch, handle: subprocess.Popen[bytes], group: Group, pipes: list[int]
    ) -> None:
        """`pipes` are our ends of its standard input, output and error."""
        self.launch = launch
        self.handle = handle
        self.group = group
        self.pipes = pipes

    def discard(self) -> None:
        """End its process group, since nobody will look after it."""
        self.group.signal(KILL)
        self.handle.wait()
        for descriptor in self.pipes:
            os.close(descriptor)


def spawn(launch: Launch) -> Spawned:
    """Start the process of a server.

    Raises:
        OSError: the command cannot be started.
        ValueError: an argument holds a NUL, or what a shell that it needs cannot be given.
    """
    # Those of `subprocess` would be files, which close what a writer may still have a use for.
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
        return Spawned(launch, popen, _led(popen), ours)
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)


def _led(popen: subprocess.Popen[bytes]) -> Group:
    """Return the group that a process leads, and let it run; it is ended where that fails."""
    try:
        return lead_group(popen.pid)
    except OSError:  # on Windows
        popen.kill()
        popen.wait()
        raise
