"""Says why a server could not be started, and how its process ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcpagg_runtime.rare.secrecy import where
from mcpagg_runtime.spawn.launch import MissingVariables
from mcpagg_runtime.spawn.platforms import WINDOWS, is_program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.spawn.launch import Launch

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


def why_not_started(problem: Exception, launch: Launch | None) -> str:
    """Say why a command could not be started; where it was looked for, if that matters."""
    if not isinstance(problem, (MissingVariables, OSError, ValueError)):
        why = f"{where(problem)}: {problem}"
    elif isinstance(problem, FileNotFoundError) and launch and not os.path.isabs(launch.argv[0]):
        why = not_found(launch.argv[0], launch.env)
    else:
        why = str(problem)
    return launch.redact(why) if launch is not None else why


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
