"""Explains why a server could not be started, or how its process ended."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.launch import MORE_FOLDERS, MissingVariables
from mcpagg_runtime.launch.platforms import WINDOWS, find_program
from mcpagg_runtime.messages.printable import where
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mcpagg_runtime.launch.launch import Launch

# Where package managers and version managers put programs. `*` is a version, the newest first.
USUAL_FOLDERS = (
    "/opt/homebrew/bin",
    "/home/linuxbrew/.linuxbrew/bin",
    "/usr/local/bin",
    "~/.local/bin",
    "~/.nvm/versions/node/*/bin",
    "~/.local/share/fnm/node-versions/*/installation/bin",
    "~/Library/Application Support/fnm/node-versions/*/installation/bin",
    "~/.local/share/mise/installs/node/*/bin",
    "~/.volta/bin",
    "~/.bun/bin",
    "~/.deno/bin",
    "~/.cargo/bin",
    "~/.asdf/shims",
    "~/.local/share/mise/shims",
    "~/.pyenv/shims",
)
USUAL_FOLDERS_ON_WINDOWS = (
    "%ProgramFiles%\\nodejs",
    "%APPDATA%\\npm",
    "%USERPROFILE%\\.local\\bin",
    "%APPDATA%\\fnm\\node-versions\\*\\installation",
    "%LOCALAPPDATA%\\Volta\\bin",
    "%ProgramFiles%\\Volta",
    "%USERPROFILE%\\.bun\\bin",
    "%USERPROFILE%\\scoop\\shims",
    "%ProgramFiles%\\Docker\\Docker\\resources\\bin",
)
SHEBANG_LIMIT = 256
# What `env` exits with where it does not find the program that it is to run.
NOT_FOUND = 127
# Exit codes of processes that crashed on Windows.
# https://learn.microsoft.com/openspecs/windows_protocols/ms-erref, NTSTATUS
CRASHES = {
    0xC0000005: "access violation",
    0xC00000FD: "stack overflow",
    0xC0000135: "a DLL was not found",
    0xC0000142: "a DLL could not be initialized",
    0xC0000374: "heap corruption",
    0xC0000409: "it aborted",
}
# A line of stderr that has one of these words gives a reason.
REASONS = ("error", "fatal", "panic", "exception", "traceback", "cannot", "failed", "not found")
REASON_LINES = 3
FIRST_LINES = 2
GAP = "…"
INTERRUPTED = 0xC000013A
FIRST_CRASH = 0xC0000000


def start_failure(problem: Exception, launch: Launch | None) -> str:
    """Say why a command could not be started, with the folders that were searched for it."""
    if not isinstance(problem, (MissingVariables, OSError, ValueError)):
        why = f"{where(problem)}: {problem}"
    elif isinstance(problem, FileNotFoundError) and launch and not os.path.isabs(launch.argv[0]):
        why = not_found(launch.argv[0], launch.env)
    else:
        why = str(problem)
    return launch.redact(why) if launch is not None else why


def not_found(command: str, env: Mapping[str, str]) -> str:
    """Say where a bare name was looked up, and what to do."""
    path = env.get("PATH", "")
    remedy = _entry_remedy(command, env) or where_to_find(command)
    return f"{command} is not on the PATH: searched {path}; {remedy}"


def _entry_remedy(command: str, env: Mapping[str, str]) -> str:
    """Say what to write in the client's entry, "" if the config sets PATH itself."""
    path, form = os.environ.get("PATH", ""), os.environ.get(MORE_FOLDERS)
    place = usual_place(command)
    if not place or env.get("PATH", "") != os.pathsep.join(filter(None, [form, path])):
        return ""
    lacking = [name for name, found in interpreters(place, env) if found is None]
    places = [place, *filter(None, map(usual_place, lacking))]
    folders = list(dict.fromkeys(map(os.path.dirname, places)))
    if form is not None:  # the field that an extension has
        whole = os.pathsep.join([*folders, *filter(None, [form])])
        return f"write {whole} in the field PATH of the extension"
    entry = f'"env": {{"PATH": {quote(os.pathsep.join([*folders, path]))}}}'
    return (
        f"write {entry} in the entry of this proxy in your client, or {place} as `command`,"
        " and compile again"
    )


def where_to_find(command: str) -> str:
    """Say what to write in the config about a bare name that is not on the PATH."""
    if command == "nvm":
        return "nvm is a function of a shell: write the path that `nvm which current` prints"
    place = usual_place(command)
    if place:
        return f"write {place} as `command`, or add its folder to PATH in `env`"
    return "install it, or write its absolute path"


def usual_place(command: str) -> str:
    """Return the path of a program that is not on the PATH, "" if it is not found.

    A client that is started from a desktop lacks the folders that only a shell adds to the PATH.
    """
    for pattern in USUAL_FOLDERS_ON_WINDOWS if WINDOWS else USUAL_FOLDERS:
        for folder in _matching(os.path.expandvars(os.path.expanduser(pattern))):
            place = find_program(command, {"PATH": folder}, "")
            if place is not None:
                return place
    return ""


def _matching(pattern: str) -> list[str]:
    """Return the folders that a pattern stands for, which may hold one `*`; the newest first."""
    before, star, after = pattern.partition("*")
    if not star:
        return [pattern]
    try:
        names = sorted(os.listdir(before), key=_version, reverse=True)
    except OSError:
        return []
    return [before + name + after for name in names]


def _version(name: str) -> list[int]:
    return [int(part) for part in name.lstrip("v").split(".") if part.isdigit()]


def interpreters(program: str, env: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Yield the interpreter of a script, the interpreter of that, …: (its name, path or None)."""
    found: str | None = program
    for _ in range(4):  # as deep as Linux goes
        line = shebang(found) if found else None
        name = interpreter(line) if line else ""
        if not name:
            return
        found = find_program(name, env, "")
        yield name, found


def shebang(script: str) -> str | None:
    """Return what stands behind `#!` in the first line of a file, None if that is no such line."""
    try:
        with open(script, "rb") as file:
            line = file.read(SHEBANG_LIMIT).partition(b"\n")[0]
    except OSError:
        return None  # the kernel can start what we cannot read
    return os.fsdecode(line[2:]) if line.startswith(b"#!") else None


def interpreter(line: str) -> str:
    """Return the program that a `#!` line names, itself or by `env`, "" if it names none."""
    words = line.split()
    if words and os.path.basename(words[0]) == "env":
        return next((w for w in words[1:] if w[0] != "-" and "=" not in w), words[0])
    return words[0] if words else ""


def exit_reason(status: int, launch: Launch) -> str:
    """Say how a process ended; if its interpreter was not found, say so."""
    ended = status_text(status)
    if status == NOT_FOUND and not WINDOWS:
        for name, found in interpreters(launch.argv[0], launch.env):
            if found is None:
                return f"{ended}: {not_found(name, launch.env)}"
    return ended


def status_text(status: int) -> str:
    """Say how a process ended, from its return code: negative is minus a signal."""
    if status == INTERRUPTED:
        return "was interrupted"
    if status >= FIRST_CRASH:
        known = CRASHES.get(status)
        return f"crashed with 0x{status:08X}" + (f" ({known})" if known else "")
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def has_crashed(status: int) -> bool:
    """Whether a process was ended by a signal, or by an exception of Windows."""
    return status < 0 or status >= FIRST_CRASH


def key_lines(lines: Sequence[str], most: int, is_whole: bool) -> list[str]:
    """Return the lines of stderr that tell best why a program ended, in order, at most `most`.

    Lines of options are dropped first, since many programs print their usage behind the reason.
    Then the first lines that name an error are taken; the first lines, if `is_whole` says that
    nothing stood before; and the last lines. GAP stands for lines that are left out between them.
    """
    if len(lines) > most:
        lines = [line for line in lines if not line.lstrip().startswith("-")] or lines  # usage
    if len(lines) <= most:
        return list(lines)
    reasons = [number for number, line in enumerate(lines) if _gives_reason(line)]
    chosen = {*reasons[:REASON_LINES], *range(FIRST_LINES if is_whole else 0)}
    chosen.update(range(len(lines) - most + len(chosen), len(lines)))
    result: list[str] = []
    before = 0
    for number in sorted(chosen):
        if result and number > before + 1:
            result.append(GAP)
        result.append(lines[number])
        before = number
    return result


def _gives_reason(line: str) -> bool:
    words = line.lower()
    return any(reason in words for reason in REASONS)
