"""The PATH for a client that is started from a desktop.

Such a client passes on the PATH of its system, without the folders that only a shell adds. Programs
that servers need from those are found here by the PATH of a shell; their folders go into the
client's entry of the proxy.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.launch import Launches, MissingVariables
from mcpagg_runtime.launch.platforms import WINDOWS, find_program
from mcpagg_runtime.launch.windows_programs import is_batch_file
from mcpagg_runtime.processes.reasons import interpreters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcpagg_runtime.launch.launch import Launch, Row

# The PATH of launchd on macOS; other systems have more.
POSIX_FOLDERS = "/usr/bin:/bin:/usr/sbin:/sbin"
WINDOWS_FOLDERS = ("System32", "", "System32\\Wbem", "System32\\WindowsPowerShell\\v1.0")
# Programs that start others, whose names stand among their arguments.
STARTERS = {"env", "sh", "bash", "zsh", "dash", "fish", "cmd", "powershell", "pwsh"}
# fnm makes a folder for each shell, and removes it with the shell.
OF_ONE_SHELL = "fnm_multishells"
# Version managers with shims, which choose the program when they are started, by the current folder
# and by variables of a shell; and the commands that print the program.
SHIMS = {
    "asdf": "asdf which",
    "goenv": "goenv which",
    "jenv": "jenv which",
    "mise": "mise which",
    "nodenv": "nodenv which",
    "proto": "proto bin",
    "pyenv": "pyenv which",
    "rbenv": "rbenv which",
    "volta": "volta which",
}


class Lookup:
    """A program that a server looks up on its PATH: the server, its name, and its path."""

    def __init__(self, server: str, name: str, place: str) -> None:
        self.server = server
        self.name = name
        self.place = place

    @property
    def folder(self) -> str:
        """The folder of the program, with a lasting path."""
        folder = os.path.dirname(self.place)
        return os.path.realpath(folder) if OF_ONE_SHELL in folder else folder


def shim_manager(place: str) -> str:
    """Return the version manager of a shim, "" if the program is none."""
    folder, name = os.path.split(place)
    above, own = os.path.split(folder)
    words = [os.path.basename(os.path.realpath(place))]
    if own == "shims":
        words.append(os.path.basename(above))
    elif own.lower() == "volta" or (own, above[-5:].lower()) == ("bin", "volta"):
        words.append("volta")
    managers = [word.lstrip(".").partition(".")[0].partition("-")[0] for word in words]
    known = [word for word in managers if word in SHIMS and word != name.partition(".")[0]]
    return known[0] if known else ""


def desktop_path(environ: Mapping[str, str]) -> str:
    """Return the PATH that every desktop has."""
    if not WINDOWS:
        return POSIX_FOLDERS
    root = environ.get("SYSTEMROOT", "C:\\Windows")
    return os.pathsep.join([f"{root}\\{folder}".rstrip("\\") for folder in WINDOWS_FOLDERS])


def lookups(
    rows: Mapping[str, Row], environ: Mapping[str, str], folder: str, minimal: bool = False
) -> list[Lookup]:
    """Return the programs that servers find on this PATH, and not on that of a desktop.

    The arguments are those of `Launches`.
    """
    found = []
    launches = Launches(rows, environ, folder, minimal)
    from_desktop = launches.replaced({**environ, "PATH": desktop_path(environ)})
    for server, row in rows.items():
        here = _prepared(server, launches)
        there = _prepared(server, from_desktop)
        if "command" not in row or here is None or there is None:
            continue
        known = there.env.get("PATH", "").split(os.pathsep)
        named = [(row["command"], here.argv[0])] if here.argv[0] != there.argv[0] else []
        named += [(name, find_program(name, here.env, "") or "") for name in _started_by_name(here)]
        found += [
            Lookup(server, name, place)
            for name, place in named
            if os.path.isabs(place) and os.path.dirname(place) not in known
        ]
    return found


def folders_of(found: list[Lookup], environ: Mapping[str, str]) -> list[str]:
    """Return the folders to add to the PATH of a desktop, in the order of the shell's PATH."""
    order = environ.get("PATH", "").split(os.pathsep)
    needed = {os.path.dirname(lookup.place): lookup.folder for lookup in found}
    known = sorted(needed, key=lambda path: order.index(path) if path in order else len(order))
    return list(dict.fromkeys(needed[folder] for folder in known))


def entry_path(found: list[Lookup], environ: Mapping[str, str]) -> str:
    """Return the PATH for the client's entry, "" if that of a desktop will do."""
    folders = folders_of(found, environ)
    return os.pathsep.join([*folders, desktop_path(environ)]) if folders else ""


def shim_lines(found: list[Lookup], environ: Mapping[str, str]) -> Iterator[str]:
    """Warn of each shim: what it starts depends on what a desktop may not have."""
    shims = {(lookup.name, shim_manager(lookup.place)): lookup.server for lookup in found}
    for (name, manager), server in shims.items():
        if manager:
            given = sorted(name for name in environ if name.startswith(f"{manager.upper()}_"))
            by = f"the current folder and {', '.join(given) or 'variables of a shell'}"
            yield (
                f"{name} (of {server}) is a shim of {manager}, which goes by {by}: if it fails from"
                f" a desktop, put the folder of what `{SHIMS[manager]} {name}` prints first there"
            )


def _prepared(server: str, launches: Launches) -> Launch | None:
    """Return what would be started; a variable that is missing counts as empty."""
    while True:
        try:
            return launches.prepare(server)
        except MissingVariables as problem:
            empty = {variable: "" for _, variable in problem.missing}
            launches = launches.replaced({**launches.environ, **empty})
        except (OSError, ValueError):  # its env file cannot be read: another fault
            return None


def _started_by_name(launch: Launch) -> Iterator[str]:
    """Yield the names of other programs that the command will look up."""
    started = [launch.argv[0]]
    if os.path.basename(started[0]).lower().partition(".")[0] in STARTERS:
        for name in _words_of_line(launch):
            yield name
            started.append(find_program(name, launch.env, "") or name)
    for place in started:
        if WINDOWS and is_batch_file(place):
            yield "node"  # which scripts of npm start
        for name, _ in interpreters(place, launch.env):
            if not os.path.dirname(name):
                yield name
        if manager := shim_manager(place):
            yield manager


def _words_of_line(launch: Launch) -> Iterator[str]:
    """Yield the words of a command line that are names of programs."""
    for word in " ".join(launch.argv[1:]).replace(";", " ").split():
        name = word.strip("'\"()")
        if name and not os.path.dirname(name) and find_program(name, launch.env, ""):
            yield name
