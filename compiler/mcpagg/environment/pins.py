"""What the launchers of packages would run, and whether an exact version is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_NPM_EXACT = re.compile(r"(?:npm:)?(?:@[^@/]+/)?[^@/]+@v?\d+\.\d+\.\d+[\w.+-]*")
_PYPI_EXACT = re.compile(r"[\w.-]+(?:\[[\w,.-]+\])?(?:==|@)\d[\w.!+-]*")
_GIT_EXACT = re.compile(r"(?:.*@\s*)?git\+.+@[0-9a-f]{40}(?:#.*)?")
_IMAGE_EXACT = re.compile(r".+@sha256:[0-9a-f]{64}|.+:(?!latest$|local$)[\w.-]*\d[\w.-]*")
_LOCAL = re.compile(r"[./~$]|file:|[A-Za-z]:[\\/]")


_NPM_NAME = re.compile(r"(?:npm:)?(?:@[^@/]+/)?[^@/]+")
_PYPI_NAME = re.compile(r"[\w.-]+(?:\[[\w,.-]+\])?")
_IMAGE_NAME = re.compile(r".+?(?=:[^:/]*$|@|$)")


class Package(NamedTuple):
    """A package or image in whatever version is newest, as it is written."""

    written: str
    name: re.Pattern[str]
    """What of it names no version."""
    joint: str
    """What stands between the name and an exact version."""

    def exactly(self, version: str) -> str:
        """Return how an exact version is written; of a repository that is a commit."""
        if "git+" in self.written:
            place, _, branch = self.written.rpartition("@")
            return f"{self.written if '/' in branch else place}@COMMIT"
        found = self.name.match(self.written)
        return f"{found[0] if found else self.written}{self.joint}{version}"


class Launcher(NamedTuple):
    """A program that fetches what it runs.

    `words` are the words that make it one, its own name first. `name` and `joint` are as in
    Package. `package` are options whose value is the package; `valued` are other options that take
    the next word.
    """

    words: tuple[str, ...]
    exact: Callable[[str], object]
    name: re.Pattern[str]
    joint: str
    package: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()


def _is_npm(name: str) -> object:
    return _NPM_EXACT.fullmatch(name) or _GIT_EXACT.fullmatch(name)


def _is_pypi(name: str) -> object:
    return _PYPI_EXACT.fullmatch(name) or _GIT_EXACT.fullmatch(name)


_NPM = (
    _is_npm,
    _NPM_NAME,
    "@",
    frozenset({"-p", "--package"}),
    frozenset({"--registry", "--cache", "-c"}),
)
_UV = (
    _is_pypi,
    _PYPI_NAME,
    "==",
    frozenset({"--from", "--spec"}),
    frozenset(
        "--python -p --with --with-editable --with-requirements --index --index-url"  # noqa: SIM905 - a word a line
        " --default-index --extra-index-url --directory --env-file --refresh-package".split()
    ),
)
_IMAGE = (
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
_SHELLS = {("cmd", "/c"), ("cmd.exe", "/c"), ("cmd", "/C")}


def find_unpinned(command: str, args: Sequence[str]) -> Package | None:
    """Return the package or image that a command line runs in whatever version is newest.

    None if it names an exact version, or starts something else than a package.
    """
    argv = [command, *args]
    if tuple(argv[:2]) in _SHELLS:
        argv = argv[2:]
    for launcher in LAUNCHERS:
        words = (_bare(argv[0]) if argv else "", *argv[1 : len(launcher.words)])
        if words == launcher.words:
            package = _package(argv[len(words) :], launcher)
            if package and not _LOCAL.match(package) and not launcher.exact(package):
                return Package(package, launcher.name, launcher.joint)
    return None


def _bare(command: str) -> str:
    name = command.replace("\\", "/").rpartition("/")[2].lower()
    return re.sub(r"\.(?:exe|cmd|bat)$", "", name)


def _package(args: list[str], launcher: Launcher) -> str | None:
    """Return the package among a launcher's arguments."""
    words = iter(args)
    for word in words:
        option, equals, value = word.partition("=")
        if option in launcher.package:
            return value if equals else next(words, None)
        if not word.startswith("-"):
            return word
        if word in launcher.valued:
            next(words, None)
    return None
