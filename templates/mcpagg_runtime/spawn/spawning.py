"""Starts the process of a server; reading it and writing to it come after that."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.spawn.launch import prepare
from mcpagg_runtime.spawn.nesting import data_digest, with_identity
from mcpagg_runtime.spawn.platforms import (
    WINDOWS,
    SessionGroup,
    command_line,
    lead_group,
    own_folder,
    start_options,
)
from mcpagg_runtime.start.values import scan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from mcpagg_runtime.spawn.launch import Launch
    from mcpagg_runtime.spawn.platforms import Group

    class Handle(Protocol):
        """A process as its parent has it; `subprocess.Popen` is one."""

        pid: int
        returncode: Any
        """How it ended, negative for a signal; None until somebody has waited for that."""

        def wait(self) -> int:
            """Wait for its end, and return how it ended."""


# Where it is set, it names a file: who in it must have signed what this proxy holds.
ALLOWED_SIGNERS = "MCPAGG_ALLOWED_SIGNERS"
KILL = 9  # by number: the signal module costs a start 6 ms
# The folder in which a system lists the descriptors of the process that looks.
DESCRIPTORS = {"linux": "/proc/self/fd", "darwin": "/dev/fd"}


class Spawned:
    """A process that runs, with its pipes, and nobody who looks after it yet."""

    def __init__(self, launch: Launch, handle: Handle, group: Group, pipes: list[int]) -> None:
        """`pipes` are our ends of its standard input, output and error."""
        self.launch = launch
        self.handle = handle
        self.group = group
        self.pipes = pipes

    def kill(self) -> None:
        """End its process group at once, and wait for nothing."""
        self.group.signal(KILL)

    def discard(self) -> None:
        """End it, since nobody will look after it."""
        self.kill()
        self.handle.wait()
        for descriptor in self.pipes:
            os.close(descriptor)


def spawn_early(tables: Mapping[str, Any], file: str, server: str) -> Spawned | Exception | None:
    """Start the server that a first call waits for; `tables` are those of the emitted file.

    What serves calls is still to be compiled then. That takes longer than most servers take to
    start, which they do on another core. The engine takes the process over, or reports why there is
    none. None where starting takes more than a row: something was signed, or it is elsewhere.
    """
    if "approval" in tables or ALLOWED_SIGNERS in os.environ:
        return None
    rows, _ = scan(tables["servers"], 0)
    options, _ = scan(tables["options"], 0)
    if "command" not in rows.get(server, ()):
        return None
    try:
        for number in range(3):
            os.fstat(number)
    except OSError:  # one that the caller closed would be the number of a pipe
        return None
    folder = own_folder(file)
    minimal = options.get("env") == "minimal"
    try:
        launch = prepare(server, rows, os.environ, folder, minimal)
        launch.env = with_identity(launch.env, data_digest(tables), server, os.environ)
        return spawn(launch)
    except Exception as problem:
        return problem


def spawn(launch: Launch) -> Spawned:
    """Start the process of a server.

    Raises:
        OSError: the command cannot be started.
        ValueError: an argument holds a NUL, or what a shell that it needs cannot be given.
    """
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for ends in ((theirs, ours), (ours, theirs), (ours, theirs)):
            for end, descriptor in zip(ends, os.pipe()):  # noqa: B905 - Python 3.9
                end.append(descriptor)
        handle, group = _start_directly(launch, theirs) or _start_by_subprocess(launch, theirs)
        return Spawned(launch, handle, group, ours)
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)


def _start_directly(launch: Launch, streams: list[int]) -> tuple[Handle, Group] | None:
    """Start a program with `posix_spawn`; None where that cannot do all that is asked.

    Those are a folder to start in, a system where nobody can tell which descriptors it would
    inherit, and oddities of which `subprocess` says what is wrong with them.
    """
    odd = launch.cwd is not None or min(streams) < 3 or "" in launch.env
    place = DESCRIPTORS.get(sys.platform)
    if WINDOWS or odd or place is None or not os.path.isabs(launch.argv[0]):
        return None
    from _signal import SIGPIPE, SIGXFSZ  # type: ignore[import-not-found]

    try:
        inherited = _inheritable(place)
    except OSError:
        return None
    system: Any = os  # that of Windows has none of this
    try:
        pid = system.posix_spawn(
            launch.argv[0],
            launch.argv,
            launch.env,
            file_actions=[
                *(
                    (system.POSIX_SPAWN_DUP2, stream, number)
                    for number, stream in enumerate(streams)
                ),
                *((system.POSIX_SPAWN_CLOSE, number) for number in inherited),
            ],
            setsid=True,
            setsigdef=[SIGPIPE, SIGXFSZ],  # which Python ignores
        )
    except (NotImplementedError, OSError):
        # Python was built where there were no sessions to ask for; or a descriptor cannot be closed
        # (glibc, one beyond the limit). A fault of the program `subprocess` reports itself.
        return None
    return DirectProcess(pid), SessionGroup(pid)


def _inheritable(place: str) -> list[int]:
    """Return the descriptors beyond 2 that a program would inherit, as the system lists them."""
    found = []
    for name in os.listdir(place):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:  # closed by now, as that of this very list is
            continue
    return found


class DirectProcess:
    """A process that `posix_spawn` started; one thread waits for it."""

    def __init__(self, pid: int) -> None:
        self.returncode: int | None = None
        self.pid = pid

    def wait(self) -> int:
        """Wait for its end, and return how it ended: negative is minus a signal."""
        try:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        except ChildProcessError:  # whoever started us has its children's ends ignored (SIGCHLD)
            self.returncode = 0
        return self.returncode


def _start_by_subprocess(launch: Launch, streams: list[int]) -> tuple[Handle, Group]:
    # Not before a server needs it: this takes as long to import as the rest of a start.
    import subprocess

    popen = subprocess.Popen(
        command_line(launch.argv),
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        env=launch.env,
        cwd=launch.cwd,
        **start_options(),
    )
    try:
        return popen, lead_group(popen.pid)
    except OSError:  # on Windows
        popen.kill()
        popen.wait()
        raise
