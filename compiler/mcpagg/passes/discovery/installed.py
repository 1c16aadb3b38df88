"""Which version of a package a launcher has started, and whether it is still installing it.

Read from the launcher's processes, and from what a package manager writes beside the program that
one of them runs. Nobody is believed who could be wrong: a server's own `serverInfo` often is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mcpagg.jsontext import members_of
from mcpagg.passes.environment.programs import DIGEST, LAUNCHERS, Package, program_name
from mcpagg_runtime.launch.launch import Launch

_PROC = "/proc"
_LAUNCHERS = {launcher.words[0] for launcher in LAUNCHERS}
_LIBRARIES = ("lib/python3*/site-packages", "Lib/site-packages")
_PROGRAMS = ("bin", "Scripts")
_MODULES = "/node_modules/"
_CALL_SECONDS = 10.0
TICKS = 100
"""The unit of time in what the system says of processes, a part of a second (time(7), USER_HZ)."""
LOOK_SECONDS = 20.0
"""How long an installation may do nothing before it is taken for one that will never end."""


class Run(NamedTuple):
    """A package that runs: its version, and for how many seconds, None if that is unknown."""

    version: str
    seconds: float | None


class Installation:
    """What a launcher does before the package that it fetches runs.

    `leader` is the launcher's process, `output` returns what it has written so far.
    """

    def __init__(self, package: Package, leader: int, output: Callable[[], str]) -> None:
        self.package = package
        self._leader = leader
        self._output = output
        self._is_over = False
        self._seen: object = None

    def is_under_way(self) -> bool:
        """Whether the package is not running yet, as far as can be determined."""
        return not self._is_over and find_run(self.package, self._leader) is None

    def more(self, seconds: float) -> float:
        """Return for how long to go on waiting for an answer, which may take so many seconds.

        That is 0 once so many seconds have passed since the end of the installation, or if an
        installation has done nothing since this was asked last.
        """
        if self._is_over:
            return 0.0
        run = find_run(self.package, self._leader)
        if run is not None:
            self._is_over = True
            return max(seconds - (seconds if run.seconds is None else run.seconds), 0.0)
        before, self._seen = self._seen, (self._output(), _work(self._leader))
        return LOOK_SECONDS if self._seen != before else 0.0


def version_that_runs(package: Package, launch: Launch, leader: int) -> str:
    """Return the version of a package that was started, "" where that cannot be known.

    `leader` is the process that its launcher is. Of an image it is the digest, of a repository the
    commit.
    """
    if package.launcher.kind == "docker":
        return _digest(package, launch)
    run = find_run(package, leader)
    return run.version if run else _version_in_cache(package, launch)


def find_run(package: Package, leader: int) -> Run | None:
    """Return what a launcher has started of a package, None while that is nothing."""
    for seconds, line in _processes(leader):
        # What runs the launcher itself lies among other packages than those that it fetches.
        if not any(program_name(word) in _LAUNCHERS for word in line):
            for word in line:
                if version := _version_beside(word, package):
                    return Run(version, seconds)
    return None


def _work(leader: int) -> object:
    """Return what changes while processes work: what they have read and written, if known."""
    work = []
    for process in _session(leader):
        try:
            work.append((process.name, (process / "io").read_bytes()))
        except OSError:
            continue  # it has ended, or is another user's
    return sorted(work)


def _processes(leader: int) -> Iterator[tuple[float | None, list[str]]]:
    """Yield since when a process and those that it has started run, in seconds, and their words.

    On Windows nothing tells that quickly.
    """
    if os.path.isdir(f"{_PROC}/self"):
        for process in _session(leader):
            try:
                line = os.fsdecode((process / "cmdline").read_bytes()).split("\0")
                yield _age(process), line
            except OSError:
                continue
    elif os.name == "posix":
        for line in _listed_by_ps(leader):
            yield None, line


def _age(process: Path) -> float:
    uptime = float((process.parent / "uptime").read_text().split()[0])
    return uptime - int(_facts(process)[19]) / TICKS


def _facts(process: Path) -> list[bytes]:
    """Return what the system says of a process, behind its name in brackets (proc_pid_stat(5))."""
    return (process / "stat").read_bytes().rpartition(b")")[2].split()


def _session(leader: int) -> list[Path]:
    """Return the folders of the processes that are of the session of a leader."""
    processes = []
    for entry in Path(_PROC).glob("[0-9]*"):
        try:
            if int(_facts(entry)[3]) == leader:
                processes.append(entry)
        except OSError:
            continue  # it has ended meanwhile
    return processes


def _listed_by_ps(leader: int) -> Iterator[list[str]]:
    """Yield the command lines of a process group where there is no /proc, as on macOS.

    Nobody can tell the words of these: each path is taken with what follows it, and without.
    """
    command = ["ps", "-A", "-ww", "-o", "pgid=,command="]
    listing = subprocess.run(  # noqa: S603 - no word of it is anybody else's
        command, capture_output=True, check=False, timeout=_CALL_SECONDS
    )
    for line in os.fsdecode(listing.stdout).splitlines():
        group, _, text = line.strip().partition(" ")
        if group == str(leader):
            starts = [match.start() for match in re.finditer(r"(?<!\S)/", text)]
            yield [*text.split(), *(text[start:] for start in starts)]


def _version_beside(word: str, package: Package) -> str:
    """Return the version of a package of which `word` is a program, "" if it is none."""
    if package.launcher.kind == "npm":
        return _of_npm(word.replace("\\", "/"), package)
    path = Path(word)
    is_program = path.is_absolute() and path.parent.name in _PROGRAMS and path.is_file()
    return _of_environment(path.parent.parent, package) if is_program else ""


def _of_npm(word: str, package: Package) -> str:
    """Return the version of an npm package that has the file `word`, as it is or by a link."""
    start = word.find(_MODULES)
    while start >= 0:
        folder = Path(word[:start]) / "node_modules" / package.plain_name
        home = os.path.realpath(folder) + os.sep
        if os.path.realpath(word).startswith(home):
            return _text(_json(folder / "package.json"), "version")
        start = word.find(_MODULES, start + 1)
    return ""


def _of_environment(root: Path, package: Package) -> str:
    """Return the version of a package that a Python environment has."""
    for library in _LIBRARIES:
        for record in root.glob(f"{library}/*.dist-info"):
            name, _, version = record.name.removesuffix(".dist-info").rpartition("-")
            if package.is_repository:
                origin = _json(record / "direct_url.json").get("vcs_info")
                if commit := _text(origin, "commit_id"):
                    return commit
            elif _normal(name) == _normal(package.plain_name):
                return version
    return ""


def _normal(name: str) -> str:
    """Return a name by which two spellings of one package are the same (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _version_in_cache(package: Package, launch: Launch) -> str:
    """Return the version that `npx` has installed for this very package, where no process tells.

    It names the folder by what it was asked for (npm, libnpmexec).
    """
    if package.launcher.words not in {("npx",), ("npm", "exec")} or package.is_repository:
        return ""
    caches = [
        launch.env.get("npm_config_cache") or launch.env.get("NPM_CONFIG_CACHE"),
        os.path.join(launch.env.get("LOCALAPPDATA", ""), "npm-cache"),
        os.path.join(launch.env.get("HOME", ""), ".npm"),
    ]
    asked = hashlib.sha512(package.written.encode()).hexdigest()[:16]
    for cache in filter(os.path.isabs, filter(None, caches)):
        folder = Path(cache, "_npx", asked, "node_modules", package.plain_name)
        if version := _text(_json(folder / "package.json"), "version"):
            return version
    return ""


def _digest(package: Package, launch: Launch) -> str:
    """Return the digest of an image that was started, as the program that did so tells."""
    if program_name(launch.argv[0]) not in _LAUNCHERS:
        return ""
    command = [launch.argv[0], "image", "inspect", "--format", "{{json .RepoDigests}}"]
    try:
        inspection = subprocess.run(  # noqa: S603 - the program that was just started
            [*command, package.written],
            env=launch.env,
            capture_output=True,
            check=False,
            timeout=_CALL_SECONDS,
        )
        digests = json.loads(inspection.stdout or b"null")
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    names = [name for name in digests or () if isinstance(name, str) and f"@{DIGEST}" in name]
    return names[0].rpartition("@")[2] if names else ""


def _json(file: Path) -> Mapping[str, Any]:
    try:
        return members_of(json.loads(file.read_bytes()))
    except (OSError, ValueError):
        return {}


def _text(value: object, key: str) -> str:
    """Return a text that an object has, "" if it has none."""
    text = members_of(value).get(key)
    return text if isinstance(text, str) else ""
