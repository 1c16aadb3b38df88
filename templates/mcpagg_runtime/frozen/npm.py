"""Trees of npm: the lock that is made of the lines of a file, and how npm installs it.

A lock needs less than npm writes into it: with the packages at the top as dependencies of the root,
and nested ones as those of the package around them, each at its exact version, `npm ci` of npm 7
and newer installs the same bytes as from npm's own lock.
"""

from __future__ import annotations

import json
import os
import re
from copy import copy
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from mcpagg_runtime.frozen.coverage import fits
from mcpagg_runtime.frozen.folders import path_of_any_length
from mcpagg_runtime.frozen.table import LISTED, FrozenError, NpmTree
from mcpagg_runtime.processes.reasons import status_text

if TYPE_CHECKING:
    from mcpagg_runtime.frozen.programs import Programs
    from mcpagg_runtime.frozen.table import NpmPackage

REGISTRY = "https://registry.npmjs.org"
"""npm takes the registry that the machine is configured for in the place of this one."""
OLDEST = 7
"""The first version of npm that reads such a lock."""
# Whatever a user's .npmrc says: options of the command line win.
_HERE = (
    "--global=false",
    "--location=project",
    "--workspaces=false",
    "--no-update-notifier",
    "--loglevel=error",
    "--usage=false",
    "--version=false",
)
OPTIONS = (
    *_HERE,
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--prefer-offline",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=500",
    "--fetch-retry-maxtimeout=1000",
    "--include=optional",
    "--install-strategy=hoisted",
    "--bin-links=true",
    "--package-lock-only=false",
    "--dry-run=false",
)
# As npm finds it out: the libc is that of Node, which musl is if it is not glibc.
_PLATFORM = (
    "process.report.excludeNetwork = true;"
    "const other = process.platform === 'linux'"
    " && !process.report.getReport().header.glibcVersionRuntime;"
    "`${process.platform}-${process.arch}${other ? '-musl' : ''}`"
)
_PLATFORM_SHAPE = re.compile(r"^[a-z0-9]+-[a-z0-9]+(?:-musl)?$", re.MULTILINE)
_VERSION = re.compile(r"(\d+)\.\d+\.\d+")
_OTHER_BYTES = re.compile(r"wanted (sha\d+-[\w+/=]+)")
_REASON = re.compile(r"npm (?:error|ERR!)(?: |$)(?!A complete log|Log files|    at )(.*)")
_LINES = 4
_FIRST_LINE_BYTES = 256


def archive_of(name: str, version: str) -> str:
    """Return where a registry keeps a package, by npm's rule."""
    return f"{REGISTRY}/{name}/-/{name.rpartition('/')[2]}-{version.partition('+')[0]}.tgz"


def manifest_of(tree: NpmTree) -> dict[str, Any]:
    """Return the `package.json` of the folder in which a tree is installed."""
    top = [package for package in tree.packages if len(package.path) == 1]
    return {"private": True, **_dependencies(top)}


def lock_of(tree: NpmTree) -> dict[str, Any]:
    """Return the `package-lock.json` beside it."""
    nested: dict[tuple[str, ...], list[NpmPackage]] = {}
    for package in tree.packages:
        nested.setdefault(package.path[:-1], []).append(package)
    packages: dict[str, Any] = {"": _dependencies(nested.get((), []))}
    for package in sorted(tree.packages, key=lambda package: package.path):
        packages[folder_of(package)] = _entry(package, nested.get(package.path, []))
    return {"lockfileVersion": 3, "requires": True, "packages": packages}


def write_project(tree: NpmTree, folder: str) -> None:
    """Write the two files of a project whose packages are those of a tree.

    Raises:
        OSError: the folder cannot be written.
    """
    for name, value in (("package.json", manifest_of(tree)), ("package-lock.json", lock_of(tree))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)


def _entry(package: NpmPackage, nested: list[NpmPackage]) -> dict[str, Any]:
    """Return what a lock says of a package, in which others are nested."""
    entry: dict[str, Any] = {"version": package.version, "integrity": package.integrity}
    if package.name != package.path[-1]:
        entry["name"] = package.name
    if package.url:
        entry["resolved"] = package.url
    elif "via-metadata" not in package.marks:
        entry["resolved"] = archive_of(package.name, package.version)
    if "optional" in package.marks:
        entry["optional"] = True
    if "scripts" in package.marks:
        entry["hasInstallScript"] = True
    return {
        **entry,
        **{flag: package.listed[flag] for flag in LISTED if flag in package.listed},
    } | (_dependencies(nested))


def _dependencies(packages: list[NpmPackage]) -> dict[str, dict[str, str]]:
    """Return the members that name packages as dependencies at their exact versions."""
    found: dict[str, dict[str, str]] = {}
    for package in sorted(packages, key=lambda package: package.path):
        member = "optionalDependencies" if "optional" in package.marks else "dependencies"
        found.setdefault(member, {})[package.path[-1]] = _wanted(package)
    return found


def _wanted(package: NpmPackage) -> str:
    if package.url:
        return package.url
    alias = package.name != package.path[-1]
    return f"npm:{package.name}@{package.version}" if alias else package.version


def of_platform(tree: NpmTree, platform: str) -> NpmTree:
    """Return the packages of a tree that a platform takes; none of them may be missing.

    What is optional and does not fit it is left out, with all that is nested in it. What fits is no
    longer optional: npm would leave it out without a word if its registry did not answer. Only
    what runs install scripts stays optional: where these fail, it is installed, and not built.
    """
    others = {
        package.path
        for package in tree.packages
        if "optional" in package.marks and not fits(package.listed, platform)
    }
    packages = [
        package if "scripts" in package.marks else _required(package)
        for package in tree.packages
        if not any(package.path[:depth] in others for depth in range(1, len(package.path) + 1))
    ]
    return NpmTree(tree.name, tree.version, tree.bin, tree.args, packages, tree.on)


def _required(package: NpmPackage) -> NpmPackage:
    required = copy(package)
    required.marks = package.marks - {"optional"}
    return required


def install_modules(programs: Programs, tree: NpmTree, folder: str) -> None:
    """Install a tree into a folder, with the scripts of those packages alone that may run theirs.

    Raises:
        FrozenError: it cannot be installed.
        OSError: the folder cannot be written.
    """
    npm = programs.needed("npm", "once, to install what this file lists")
    _refuse_old(programs, npm, folder)
    here = of_platform(tree, _platform(programs, folder))
    write_project(here, folder)
    _run(programs, here, [npm, "ci", *OPTIONS], folder)
    lacking = [package for package in here.packages if not _is_there(package, folder)]
    if lacking:
        raise FrozenError(f"npm has not installed {lacking[0].name} {lacking[0].version}")
    # By its folder: npm knows a package by the name of that, which an alias has changed.
    built = sorted(
        f"./{folder_of(package)}" for package in here.packages if "scripts" in package.marks
    )
    if built:
        programs.hold_nothing()
        options = [*_HERE, "--foreground-scripts", "--ignore-scripts=false"]
        _run(programs, here, [npm, "rebuild", *options, *built], folder)


def _platform(programs: Programs, folder: str) -> str:
    """Return the platform that npm installs for: that of the Node which runs it.

    Raises:
        FrozenError: Node does not say.
    """
    node = programs.needed("node", "once, to install what this file lists")
    status, output = programs.run([node, "-p", _PLATFORM], folder)
    platform = _PLATFORM_SHAPE.search(output)
    if status or platform is None:
        words = output.strip()[-200:]
        raise FrozenError(f"{node} does not name its platform, and {status_text(status)}: {words}")
    return platform[0]


def _refuse_old(programs: Programs, npm: str, folder: str) -> None:
    version = _version(programs, npm, folder)
    if int(version[1]) < OLDEST:
        raise FrozenError(
            f"npm {OLDEST} or newer is needed to install it, and {npm} is {version[0]}"
        )


def _version(programs: Programs, program: str, folder: str) -> re.Match[str]:
    """Return the version of npm or Node: in group 1 the first number of it.

    Raises:
        FrozenError: it prints none.
    """
    status, output = programs.run([program, "--version"], folder)
    version = _VERSION.search(output)
    if status or version is None:
        words = output.strip()[-200:]
        raise FrozenError(f"{program} --version {status_text(status)}: {words}")
    return version


def node_of_scripts(programs: Programs, tree: NpmTree, folder: str) -> str:
    """Return which Node install scripts build a tree for: `node 20`; "" for one without them.

    Raises:
        FrozenError: there is none, or its version is not known.
    """
    if not any("scripts" in package.marks for package in tree.packages):
        return ""
    return f"node {_version(programs, programs.needed('node', 'to start it'), folder)[1]}"


def _run(programs: Programs, tree: NpmTree, command: list[str], folder: str) -> None:
    """Run npm.

    Raises:
        FrozenError: it fails, with the reason in the words of npm.
    """
    status, output = programs.run(command, folder)
    if status:
        raise FrozenError(failure(tree, output) or f"npm {status_text(status)}")


def failure(tree: NpmTree, output: str) -> str:
    """Say why npm has failed, "" if its output does not."""
    other = _OTHER_BYTES.search(output)
    if other:
        wanted = [package for package in tree.packages if other[1] in package.integrity.split()]
        what = f"{wanted[0].name} {wanted[0].version}" if wanted else "a package"
        return f"{what} from the registry is not what was reviewed: its bytes differ"
    words = [line.strip() for line in _REASON.findall(output)]
    return "npm: " + "; ".join(list(filter(None, words))[:_LINES]) if any(words) else ""


def _is_there(package: NpmPackage, folder: str) -> bool:
    manifest = os.path.join(folder, *folder_of(package).split("/"), "package.json")
    return os.path.isfile(path_of_any_length(manifest))


def folder_of(package: NpmPackage) -> str:
    """Return the folder of a package below that of its tree."""
    return "/".join(f"node_modules/{name}" for name in package.path)


def npm_command(programs: Programs, tree: NpmTree, folder: str) -> list[str]:
    """Return what starts a server from the folder that its tree is installed in.

    As npx starts it: a native program, which an install script may have put there, by itself; a
    script by the program that its first line names, with the options there, or by Node.

    Raises:
        FrozenError: the script cannot be read, or that program is not on the PATH.
    """
    script = os.path.join(folder, "node_modules", *tree.bin.split("/"))
    try:
        with open(script, "rb") as file:
            line = file.readline(_FIRST_LINE_BYTES)
    except OSError as problem:
        raise FrozenError(f"its packages have no program {tree.bin}: {problem.strerror}") from None
    if b"\0" in line:
        return [script]
    interpreter, *options = _interpreter(line)
    return [programs.needed(interpreter, "to start it"), *options, script]


def _interpreter(line: bytes) -> list[str]:
    """Return the program that the first line of a script names, with its options; Node for none."""
    words = line[2:].decode("utf-8", "replace").split() if line.startswith(b"#!") else []
    if words and words[0].endswith("/env"):
        words = [*dropwhile(lambda word: word.startswith("-") or "=" in word, words[1:])]
    return [words[0].rpartition("/")[2], *words[1:]] if words else ["node"]
