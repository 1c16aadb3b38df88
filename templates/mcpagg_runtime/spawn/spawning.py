"""Starts the process of a server; who reads it and what it is told comes after that."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcpagg_runtime.spawn.platforms import command_line, lead_group, start_options

if TYPE_CHECKING:
    import subprocess

    from mcpagg_runtime.spawn.launch import Launch
    from mcpagg_runtime.spawn.platforms import Group

KILL = 9  # by number: the signal module costs a start 6 ms


class Spawned:
    """A process that runs, with its pipes, and nobody who looks after it yet."""

    def __init__(self, launch: Launch, popen: subprocess.Popen[bytes], pipes: list[int]) -> None:
        """`pipes` are our ends of its standard input, output and error.

        Raises:
            OSError: on Windows, its group cannot be led; it is ended then.
        """
        self.launch = launch
        self.popen = popen
        self.pipes = pipes
        try:
            self.group: Group = lead_group(popen.pid)
        except OSError:
            popen.kill()
            popen.wait()
            raise

    def kill(self) -> None:
        """End its process group at once, and wait for nothing."""
        self.group.signal(KILL)

    def discard(self) -> None:
        """End it, since nobody will look after it."""
        self.kill()
        self.popen.wait()
        for descriptor in self.pipes:
            os.close(descriptor)


def spawn(launch: Launch) -> Spawned:
    """Start the process of a server.

    Raises:
        OSError: the command cannot be started.
        ValueError: an argument holds a NUL, or what a shell that it needs cannot be given.
    """
    # Not before a server is started: this takes as long to import as the rest of a start.
    import subprocess

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
        return Spawned(launch, popen, ours)
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
