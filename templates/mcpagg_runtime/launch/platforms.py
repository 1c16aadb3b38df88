"""Where systems differ: names of variables, and how programs are found and started."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.windows_programs import (
    batch_line,
    find_windows_program,
    is_batch_file,
    shell_command,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WINDOWS = sys.platform == "win32"
# On Windows, 0o700 gives a folder to its owner alone, and who owns that of an elevated process is
# not the user, who would be locked out of it later.
FOR_THIS_USER = 0o777 if WINDOWS else 0o700


def variable_key(name: str) -> str:
    """Return the name of a variable in an environment, which is in upper case on Windows."""
    return name.upper() if WINDOWS else name


def find_program(command: str, env: Mapping[str, str], folder: str) -> str | None:
    """Return the absolute path of the program of a command, None if there is none.

    A bare name is looked up on the PATH of `env`, which is the child's own. Relative paths are
    relative to `folder`.
    """
    if WINDOWS:
        return find_windows_program(command, env, folder)
    folders = [""] if "/" in command else env.get("PATH", os.defpath).split(os.pathsep)
    places = [os.path.join(folder, path, command) for path in folders]
    return next((place for place in places if is_program(place)), None)


def is_program(path: str) -> bool:
    """Whether a path is that of a file that may be executed."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def command_line(argv: Sequence[str]) -> Sequence[str] | str:
    """Return the arguments of `subprocess.Popen`: on Windows, a batch file is run by the shell.

    Raises:
        OSError: there is no such program; Windows itself would look in the current folder, too.
        ValueError: an argument holds what the shell cannot be given.
    """
    if not WINDOWS:
        return argv
    if not os.path.isabs(argv[0]):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    return shell_command(batch_line(argv), os.environ) if is_batch_file(argv[0]) else argv


def own_folder(file: str) -> str:
    """Return the folder of the emitted file, links resolved.

    On Windows, links are resolved only if the file itself is one: a mapped drive would become a
    network path, in which `cmd.exe` cannot start programs.
    """
    is_resolved = sys.platform != "win32" or os.path.islink(file)
    return os.path.dirname(os.path.realpath(file) if is_resolved else os.path.abspath(file))
