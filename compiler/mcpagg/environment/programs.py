"""Whether a program can be started, found out without starting it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from mcpagg.problems import count
from mcpagg_runtime.spawn.platforms import WINDOWS, find_program, where_to_find

_SHEBANG_LIMIT = 256
_FOLDERS_SHOWN = 5
_ONE_PROGRAM = "`command` is one program: move what follows it to `args`"
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\|(?:cmd|powershell|wsl)$|.*\.(?:exe|cmd|bat|ps1)$", re.I)


class Fault(NamedTuple):
    """Why a program cannot be started, and what to do."""

    what: str
    remedy: str


def find_fault(program: str, env: dict[str, str]) -> Fault | None:
    """Return why `program` cannot be started in `env`, None if it can.

    It is what a launch begins with: an absolute path, or a bare name that is not on the PATH.
    """
    if os.path.isabs(program):
        found = find_program(program, env, "")
        return _shebang_fault(Path(found), env) if found else _path_fault(Path(program))
    return _lookup_fault(program, env.get("PATH", os.defpath))


def _path_fault(program: Path) -> Fault:
    if program.is_dir():
        return Fault(f"{program} is a directory", "name the program in it")
    if program.is_file():
        return _unstartable(program)
    first, space, _ = str(program).partition(" ")
    words = space and os.path.isfile(first)
    return Fault(f"{program} does not exist", _ONE_PROGRAM if words else "correct the path")


def _unstartable(file: Path) -> Fault:
    if WINDOWS:
        what = f"{file} is no program that Windows can start"
        return Fault(what, "write what runs it as `command`, and this file first in `args`")
    return Fault(f"{file} is not executable", f"run chmod +x {file}")


def _lookup_fault(program: str, path: str) -> Fault:
    if not WINDOWS and _WINDOWS.match(program):
        what = f"{program} is a path or a program of Windows, and this is another system"
        return Fault(what, "write what starts the server here: what follows `cmd /c`, for one")
    for folder in os.get_exec_path({"PATH": path}):
        candidate = Path(folder, program)
        if candidate.is_file():
            return _unstartable(candidate)
    remedy = _ONE_PROGRAM if " " in program.strip() else where_to_find(program)
    return Fault(f"{program} is not on the PATH: searched {_in_short(path)}", remedy)


def _shebang_fault(script: Path, env: dict[str, str]) -> Fault | None:
    """Return why the interpreter that a script names cannot be started; Windows asks for none."""
    if WINDOWS:
        return None
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
    if find_program(interpreter, env, "") is None:
        path = env.get("PATH", os.defpath)
        searched = (
            "" if os.path.dirname(interpreter) else f" on the PATH: searched {_in_short(path)}"
        )
        return Fault(
            f"{script} is run by {interpreter}, which is not found{searched}",
            f"install {os.path.basename(interpreter)}, or correct the `#!` line",
        )
    return None


def _in_short(path: str) -> str:
    """Return a PATH, of a long one the first folders and the number of the others."""
    folders = path.split(os.pathsep)
    shown = os.pathsep.join(folders[:_FOLDERS_SHOWN])
    others = len(folders) - _FOLDERS_SHOWN
    return f"{shown} and {count(others, 'more folder')}" if others > 0 else shown
