"""What commands run: whether a program can be started, and which version of a package it fetches.

Both are found out without starting anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from mcpagg.problems import count
from mcpagg_runtime.launch.platforms import WINDOWS, find_program
from mcpagg_runtime.processes.reasons import interpreter, shebang, where_to_find

_FOLDERS_SHOWN = 5
_ONE_PROGRAM = "`command` is one program: move what follows it to `args`"
WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\|(?:cmd|powershell|wsl)$|.*\.(?:exe|cmd|bat|ps1)$", re.I)
_NPM_EXACT = re.compile(r"(?:npm:)?(?:@[^@/]+/)?[^@/]+@v?\d+\.\d+\.\d+[\w.+-]*")
_PYPI_EXACT = re.compile(r"[\w.-]+(?:\[[\w,.-]+\])?(?:==|@)\d[\w.!+-]*")
_GIT_EXACT = re.compile(r"(?:.*@\s*)?git\+.+@[0-9a-f]{40}(?:#.*)?")
DIGEST = "sha256:"
_IMAGE_EXACT = re.compile(r".+@sha256:[0-9a-f]{64}|.+:(?!latest$|local$)[\w.-]*\d[\w.-]*")
_LOCAL = re.compile(r"[./~$]|file:|[A-Za-z]:[\\/]")
_NPM_NAME = re.compile(r"(?:npm:)?(?:@[^@/]+/)?[^@/]+")
_PYPI_NAME = re.compile(r"[\w.-]+(?:\[[\w,.-]+\])?")
_IMAGE_NAME = re.compile(r".+?(?=:[^:/]*$|@|$)")


class ProgramFault(NamedTuple):
    """Why a program cannot be started, and what to do."""

    what: str
    remedy: str


def find_fault(program: str, env: dict[str, str], written: str) -> ProgramFault | None:
    """Return why `program` cannot be started in `env`, None if it can.

    It is what a launch begins with: an absolute path, or a bare name that is not on the PATH.
    `written` is how the config has it.
    """
    path = find_program(program, env, "") if os.path.isabs(program) else None
    if path:
        return _shebang_fault(Path(path), env)
    if not WINDOWS and _WINDOWS.match(written):
        what = f"{written} is a path or a program of Windows, and this is another system"
        return ProgramFault(
            what, "write what starts the server here: what follows `cmd /c`, for one"
        )
    first, space, _ = written.partition(" ")
    file = program.removesuffix(written) + first
    is_program = os.path.basename(first) == first or os.path.isfile(file)
    if space and is_program and not os.path.exists(program):
        return ProgramFault(f"{written} is a whole command line", _ONE_PROGRAM)
    if os.path.isabs(program):
        return _path_fault(Path(program))
    return _lookup_fault(program, env.get("PATH", os.defpath))


def _path_fault(program: Path) -> ProgramFault:
    if program.is_dir():
        return ProgramFault(f"{program} is a directory", "name the program in it")
    if program.is_file():
        return _unstartable(program)
    return ProgramFault(f"{program} does not exist", "correct the path")


def _unstartable(file: Path) -> ProgramFault:
    if WINDOWS:
        what = f"{file} is no program that Windows can start"
        return ProgramFault(what, "write what runs it as `command`, and this file first in `args`")
    return ProgramFault(f"{file} is not executable", f"run chmod +x {file}")


def _lookup_fault(program: str, path: str) -> ProgramFault:
    for folder in os.get_exec_path({"PATH": path}):
        candidate = Path(folder, program)
        if candidate.is_file():
            return _unstartable(candidate)
    what = f"{program} is not on the PATH: searched {_shortened(path)}"
    return ProgramFault(what, where_to_find(program))


def _shebang_fault(script: Path, env: dict[str, str]) -> ProgramFault | None:
    """Return why the interpreter that a script names cannot be started; Windows asks for none."""
    line = None if WINDOWS else shebang(str(script))
    if line is None:
        return None
    named = interpreter(line)
    if not named:
        return ProgramFault(f"{script} has a `#!` line without a program", "complete it")
    if line.endswith("\r"):
        return ProgramFault(
            f"the `#!` line of {script} ends in a carriage return", "save it with LF"
        )
    if find_program(named, env, "") is None:
        path = env.get("PATH", os.defpath)
        searched = "" if os.path.dirname(named) else f" on the PATH: searched {_shortened(path)}"
        return ProgramFault(
            f"{script} is run by {named}, which is not found{searched}",
            f"install {os.path.basename(named)}, or correct the `#!` line",
        )
    return None


def _shortened(path: str) -> str:
    """Return a PATH; of a long one the first folders and the number of the others."""
    folders = path.split(os.pathsep)
    first = os.pathsep.join(folders[:_FOLDERS_SHOWN])
    others = len(folders) - _FOLDERS_SHOWN
    return f"{first} and {count(others, 'more folder')}" if others > 0 else first


class Launcher(NamedTuple):
    """A program that fetches what it runs.

    `words` are its command, its own name first. `kind` is the type of its packages in a purl;
    `exact` is true of a package with an exact version, `name` matches the part before the version,
    and `separator` stands between the two. `package` are options whose value is the package;
    `valued` are other options that take the next word.
    """

    words: tuple[str, ...]
    kind: str
    exact: Callable[[str], object]
    name: re.Pattern[str]
    separator: str
    package: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()


class Package(NamedTuple):
    """A package or image that a command line runs, as it is written.

    `place` is the index of its argument, which ends with what is written.
    """

    written: str
    launcher: Launcher
    place: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether it is one version, whenever it is started."""
        return bool(self.launcher.exact(self.written))

    @property
    def is_repository(self) -> bool:
        """Whether it comes from a repository, and no registry."""
        return "git+" in self.written

    @property
    def name(self) -> str:
        """The part of it that names no version."""
        if self.is_repository:
            return self.written.rpartition("@")[0] or self.written
        match = self.launcher.name.match(self.written)
        return match[0] if match else self.written

    @property
    def version(self) -> str:
        """The exact version, digest or tag that it names, "" if it names none."""
        return self.written[len(self.name) :].lstrip("@=:") if self.is_exact else ""

    def with_version(self, version: str) -> str:
        """Return how an exact version is written: a commit of a repository, an image's digest."""
        if self.is_repository:
            place, _, branch = self.written.rpartition("@")
            return f"{self.written if '/' in branch else place}@{version}"
        separator = "@" if version.startswith(DIGEST) else self.launcher.separator
        return f"{self.name}{separator}{version}"

    @property
    def plain_name(self) -> str:
        """The name as its registry has it."""
        return self.name.removeprefix("npm:").partition("[")[0]

    @property
    def version_command(self) -> str:
        """The command that tells its newest version, for a shell; of an image, that at hand."""
        if self.is_repository:
            place = self.with_version("").removesuffix("@").rpartition("git+")[2]
            return f"git ls-remote {quote(place)} HEAD"
        if self.launcher.kind == "npm":
            asked = self.plain_name if "$" in self.written else self.written
            return f"npm view {quote(asked.removeprefix('npm:'))} version"
        if self.launcher.kind == "pypi":
            return f"pip index versions {quote(self.plain_name)}"
        form = "--format '{{index .RepoDigests 0}}'"
        return f"{self.launcher.words[0]} image inspect {form} {quote(self.written)}"


def _is_npm(name: str) -> object:
    return _NPM_EXACT.fullmatch(name) or _GIT_EXACT.fullmatch(name)


def _is_pypi(name: str) -> object:
    return _PYPI_EXACT.fullmatch(name) or _GIT_EXACT.fullmatch(name)


_NPM = (
    "npm",
    _is_npm,
    _NPM_NAME,
    "@",
    frozenset({"-p", "--package"}),
    frozenset({"--registry", "--cache", "-c"}),
)
_UV = (
    "pypi",
    _is_pypi,
    _PYPI_NAME,
    "==",
    frozenset({"--from", "--spec"}),
    frozenset(
        "--python -p --with --with-editable --with-requirements --index --index-url"  # noqa: SIM905 - a word a line
        " --default-index --extra-index-url -i --backend --pip-args --directory --env-file"
        " --refresh-package".split()
    ),
)
_IMAGE = (
    "docker",
    _IMAGE_EXACT.fullmatch,
    _IMAGE_NAME,
    ":",
    frozenset[str](),
    frozenset(
        "-e --env --env-file -v --volume --mount -p --publish --name --network --net -u --user"  # noqa: SIM905 - a word a line
        " -w --workdir --entrypoint --platform --add-host --pull -m --memory --cpus --gpus"
        " -l --label --device --cap-add --cap-drop --security-opt --tmpfs --ulimit -h --hostname"
        " --dns --restart --runtime --shm-size --log-driver --log-opt --ipc --pid --userns".split()
    ),
)

LAUNCHERS = (
    Launcher(("npx",), *_NPM),
    Launcher(("pnpx",), *_NPM),
    Launcher(("bunx",), *_NPM),
    Launcher(("npm", "exec"), *_NPM),
    Launcher(("pnpm", "dlx"), *_NPM),
    Launcher(("yarn", "dlx"), *_NPM),
    Launcher(("uvx",), *_UV),
    Launcher(("uv", "tool", "run"), *_UV),
    Launcher(("uv", "x"), *_UV),
    Launcher(("pipx", "run"), *_UV),
    Launcher(("docker", "run"), *_IMAGE),
    Launcher(("podman", "run"), *_IMAGE),
)


def find_package(command: str, args: Sequence[str]) -> Package | None:
    """Return the package or image that a command line runs, None if it starts something else."""
    argv = [command, *args]
    start, name = program_of(argv)
    for launcher in LAUNCHERS:
        after = start + len(launcher.words)
        if (name, *argv[start + 1 : after]) == launcher.words:
            index, written = _package(argv, after, launcher)
            if written and not _LOCAL.match(written):
                return Package(written, launcher, index - 1)
    return None


def program_of(argv: Sequence[str]) -> tuple[int, str]:
    """Return where the program stands in a command line, behind `cmd /c`, and its name."""
    is_shell = len(argv) > 2 and program_name(argv[0]) == "cmd" and argv[1].lower() == "/c"
    start = 2 if is_shell else 0
    return start, program_name(argv[start])


def program_name(command: str) -> str:
    """Return the name of a program without its folder and the suffix of Windows."""
    name = command.replace("\\", "/").rpartition("/")[2].lower()
    return re.sub(r"\.(?:exe|cmd|bat)$", "", name)


def _package(argv: list[str], start: int, launcher: Launcher) -> tuple[int, str]:
    """Return the package among a launcher's arguments and its place, "" if there is none."""
    words = enumerate(argv[start:], start)
    for index, word in words:
        option, equals, value = word.partition("=")
        if option in launcher.package:
            return (index, value) if equals else next(words, (0, ""))
        if not word.startswith("-"):
            return index, word
        if word in launcher.valued:
            next(words, None)
    return 0, ""
