"""Whether a program can be started, found out without starting it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

_SHEBANG_LIMIT = 256
_ONE_PROGRAM = "`command` is one program: move what follows it to `args`"
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\|(?:cmd|powershell|wsl)$|.*\.(?:exe|cmd|bat|ps1)$", re.I)


class Fault(NamedTuple):
    """Why a program cannot be started, and what to do."""

    what: str
    remedy: str


def find_fault(program: str, env: dict[str, str]) -> Fault | None:
    """Return why `program` cannot be started in `env`, None if it can.

    A bare name is looked up on the PATH of `env`, which is the child's own.
    """
    path = env.get("PATH", os.defpath)
    found = shutil.which(program, path=path)
    if found is not None:
        return _shebang_fault(Path(found), path)
    if os.path.dirname(program):
        return _path_fault(Path(program))
    return _lookup_fault(program, path)


def _path_fault(program: Path) -> Fault:
    if program.is_dir():
        return Fault(f"{program} is a directory", "name the program in it")
    if program.is_file():
        return Fault(f"{program} is not executable", f"run chmod +x {program}")
    first, space, _ = str(program).partition(" ")
    words = space and os.path.isfile(first)
    return Fault(f"{program} does not exist", _ONE_PROGRAM if words else "correct the path")


def _lookup_fault(program: str, path: str) -> Fault:
    if os.name != "nt" and _WINDOWS.match(program):
        what = f"{program} is a path or a program of Windows, and this is another system"
        return Fault(what, "write what starts the server here: what follows `cmd /c`, for one")
    for folder in os.get_exec_path({"PATH": path}):
        candidate = Path(folder, program)
        if candidate.is_file():
            return Fault(f"{candidate} is not executable", f"run chmod +x {candidate}")
    remedy = _ONE_PROGRAM if " " in program.strip() else "install it, or write its absolute path"
    return Fault(f"{program} is not on the PATH: searched {path}", remedy)


def _shebang_fault(script: Path, path: str) -> Fault | None:
    """Return why the interpreter that a script names cannot be started."""
    try:
        with script.open("rb") as file:
            line = file.read(_SHEBANG_LIMIT).partition(b"\n")[0]
    except OSError:
        return None  # executable but not readable: the kernel can, so it is for a start to tell
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).strip(" \t").split()
    if not words:
        return Fault(f"{script} has a `#!` line without a program", "complete it")
    if line.endswith(b"\r"):
        return Fault(f"the `#!` line of {script} ends in a carriage return", "save it with LF")
    interpreter = words[0]
    if os.path.basename(interpreter) == "env":
        interpreter = next((w for w in words[1:] if w[0] != "-" and "=" not in w), interpreter)
    if shutil.which(interpreter, path=path) is None:
        searched = "" if os.path.dirname(interpreter) else f" on the PATH: searched {path}"
        return Fault(
            f"{script} is run by {interpreter}, which is not found{searched}",
            f"install {os.path.basename(interpreter)}, or correct the `#!` line",
        )
    return None
