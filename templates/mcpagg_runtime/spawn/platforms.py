"""Where systems differ: names of variables, programs, the processes of a child, exit codes.

What Windows alone needs is in modules of its own, which are loaded there and nowhere else.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Protocol

    class Group(Protocol):
        """The processes of one child, its descendants included."""

        def signal(self, number: int) -> bool:
            """Send a signal (0: none, only ask); return whether the group has members."""


WINDOWS = sys.platform == "win32"

# Where package managers and version managers put programs.
OFTEN_USED_FOLDERS = (
    "/opt/homebrew/bin",
    "/usr/local/bin",
    "~/.local/bin",
    "~/.nvm/versions/node/*/bin",
    "~/.volta/bin",
    "~/.bun/bin",
    "~/.cargo/bin",
    "~/.pyenv/shims",
)
# What Windows says of processes that did not end by themselves.
# https://learn.microsoft.com/openspecs/windows_protocols/ms-erref, NTSTATUS
CRASHES = {
    0xC0000005: "access violation",
    0xC00000FD: "stack overflow",
    0xC0000135: "a DLL was not found",
    0xC0000142: "a DLL could not be initialized",
    0xC0000374: "heap corruption",
    0xC0000409: "it aborted",
}
INTERRUPTED = 0xC000013A
FIRST_CRASH = 0xC0000000


def variable_key(name: str, windows: bool = WINDOWS) -> str:
    """Return the name by which an environment knows a variable: Windows ignores its case."""
    return name.upper() if windows else name


def find_program(command: str, env: Mapping[str, str], folder: str) -> str | None:
    """Return the absolute path of what is started for a command, None if there is no such program.

    A bare name is looked up on the PATH of `env`, which is the child's own. Relative paths are
    meant from `folder`.
    """
    if WINDOWS:
        from mcpagg_runtime.windows.programs import find_windows_program

        return find_windows_program(command, env, folder)
    folders = [""] if "/" in command else env.get("PATH", os.defpath).split(os.pathsep)
    places = [os.path.join(folder, one, command) for one in folders]
    return next((place for place in places if is_program(place)), None)


def is_program(path: str) -> bool:
    """Whether a path is that of a file that may be executed."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def not_found(command: str, env: Mapping[str, str]) -> str:
    """Say where a bare name was looked up, and what to do."""
    searched = f"{command} is not on the PATH: searched {env.get('PATH', '')}"
    return f"{searched}; {where_to_find(command)}"


def where_to_find(command: str) -> str:
    """Say what to do about a bare name that is not on the PATH.

    A desktop does not know the folders that only a shell adds to the PATH.
    """
    for pattern in () if WINDOWS else OFTEN_USED_FOLDERS:
        for folder in _matching(os.path.expanduser(pattern)):
            place = os.path.join(folder, command)
            if is_program(place):
                return f"write {place} as `command`, or add its folder to PATH in `env`"
    return "install it, or write its absolute path"


def _matching(pattern: str) -> list[str]:
    """Return the folders that a pattern stands for, which may hold one `*`; the last name first."""
    before, star, after = pattern.partition("*")
    if not star:
        return [pattern]
    try:
        names = sorted(os.listdir(before), reverse=True)
    except OSError:
        return []
    return [before + name + after for name in names]


def command_line(argv: Sequence[str]) -> Sequence[str] | str:
    """Return what `subprocess.Popen` starts for a command: on Windows, batch files need the shell.

    Raises:
        OSError: there is no such program; Windows itself would look in the current folder, too.
        ValueError: an argument holds what the shell cannot be given.
    """
    if not WINDOWS:
        return argv
    if not os.path.isabs(argv[0]):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    from mcpagg_runtime.windows.programs import batch_line, is_batch_file, shell_command

    return shell_command(batch_line(argv), os.environ) if is_batch_file(argv[0]) else argv


def start_options() -> dict[str, Any]:
    """Return how a process is started that is to lead a group: options of `subprocess.Popen`."""
    if not WINDOWS:
        return {"start_new_session": True}
    from mcpagg_runtime.windows.jobs import START_FLAGS

    return {"creationflags": START_FLAGS}


def lead_group(pid: int) -> Group:
    """Return the group of a process that was just started with `start_options`.

    On Windows this is what lets it run.

    Raises:
        OSError: on Windows, that cannot be done.
    """
    if not WINDOWS:
        return SessionGroup(pid)
    from mcpagg_runtime.windows.jobs import Job

    return Job(pid)


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


def describe(status: int) -> str:
    """Say how a process ended, from its return code: negative is minus a signal."""
    if status == INTERRUPTED:
        return "was interrupted"
    if status >= FIRST_CRASH:
        known = CRASHES.get(status)
        return f"crashed with 0x{status:08X}" + (f" ({known})" if known else "")
    if status >= 0:
        return f"exited with status {status}"
    import signal

    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def crashed(status: int) -> bool:
    """Whether a process did not end by itself: by a signal, or by what Windows calls an error."""
    return status < 0 or status >= FIRST_CRASH
