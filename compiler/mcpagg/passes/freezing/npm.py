"""Resolves packages of an npm registry: the lock that npm makes, as the lines of a frozen server.

Every flag is given, since a user's `.npmrc` may change any. No host of a registry is kept: where
an archive lies follows a rule, and a registry with another one is marked (`via-metadata`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from posixpath import normpath
from typing import Any
from urllib.parse import unquote, urlsplit

from mcpagg.jsontext import members_of
from mcpagg.passes.freezing.commands import NotFreezable, NpmRequest
from mcpagg.passes.freezing.running import Tool, Unresolved
from mcpagg.passes.freezing.trees import Version
from mcpagg.problems import name_list
from mcpagg_runtime.frozen.coverage import fits
from mcpagg_runtime.frozen.table import LISTED, NpmPackage, NpmTree

NEEDED = "install Node.js with npm 7 or newer"
RESOLVE = (
    "install",
    "--package-lock-only",
    "--lockfile-version=3",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--omit-lockfile-registry-resolved=false",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
    "--include=optional",
    "--include=peer",
    "--no-save-exact",
    "--strict-peer-deps=false",
    "--legacy-peer-deps=false",
    "--save=true",
    "--package-lock=true",
    "--usage=false",
    "--version=false",
    "--json=false",
    "--loglevel=error",
    "--install-strategy=hoisted",
    "--workspaces=false",
    "--global=false",
    "--dry-run=false",
)
PLATFORMS = (
    "linux-x64",
    "linux-arm64",
    "linux-x64-musl",
    "linux-arm64-musl",
    "darwin-x64",
    "darwin-arm64",
    "win32-x64",
    "win32-arm64",
)
"""The platforms that are reported where a tree lacks them, in the words of Node."""
_SETTINGS = "look at `npm config list`"
_MODULES = "node_modules/"
_URL = re.compile(r"https?://")

Lock = Mapping[str, Mapping[str, Any]]
"""{path from the folder of the lock: entry}, the "packages" of a package-lock.json, version 3."""


def resolve_npm(
    request: NpmRequest, npm: Tool, folder: Path, scripts: Collection[str] = ()
) -> NpmTree:
    """Return the tree that npm resolves a request to; `folder` is empty.

    `scripts` are the packages whose install scripts may run.

    Raises:
        Unresolved: npm fails.
        NotFreezable: the tree has what cannot be frozen.
    """
    lock = _lock({"dependencies": dict(request.packages)}, npm, folder)
    return tree_of(request, lock, scripts)


def archives(
    versions: Collection[Version], npm: Tool, folder: Path
) -> dict[Version, frozenset[str]]:
    """Return {version: what its archive hashes to} as a registry has it; nothing for what is gone.

    Each is asked for under another name, so that one lock has them all; what is optional may lack.

    Raises:
        Unresolved: npm fails.
    """
    names = {f"p{index}": version for index, version in enumerate(versions)}
    wanted = {alias: f"npm:{name}@{version}" for alias, (name, version) in names.items()}
    asked = {"optionalDependencies": wanted}
    lock = _lock(asked, npm, folder, "--legacy-peer-deps") if wanted else {}
    return {
        version: frozenset(str(lock.get(_MODULES + alias, {}).get("integrity", "")).split())
        for alias, version in names.items()
    }


def _lock(
    dependencies: Mapping[str, Mapping[str, str]], npm: Tool, folder: Path, *flags: str
) -> Lock:
    """Return the lock that npm makes of {kind of dependencies: {name: range or tag}}.

    Raises:
        Unresolved: npm fails, or is older than version 7.
    """
    manifest = {"private": True, **dependencies}
    folder.joinpath("package.json").write_text(json.dumps(manifest), "utf-8")
    npm.run([*RESOLVE, *flags], folder)
    try:
        lock = json.loads(folder.joinpath("package-lock.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise Unresolved(f"npm has made no lock that can be read: {_SETTINGS}") from None
    if "packages" not in lock:
        raise Unresolved(f"npm is too old: {NEEDED}")
    return {path: members_of(entry) for path, entry in members_of(lock.get("packages")).items()}


def tree_of(request: NpmRequest, lock: Lock, scripts: Collection[str] = ()) -> NpmTree:
    """Return the tree that a lock describes.

    Raises:
        NotFreezable: it has what cannot be frozen.
    """
    urls = set(_wanted_urls(lock))
    packages = [_package(path, entry, urls) for path, entry in _entries(lock)]
    running = {package.name for package in packages if "scripts" in package.marks}
    if refused := sorted(running - set(scripts)):
        flags = " ".join(f"--freeze-scripts {name}" for name in refused)
        raise NotFreezable(
            f"runs install scripts: {name_list(refused)}; no hash covers what these fetch",
            f"{flags} lets them run",
        )
    name = request.packages[0][0]
    top = lock[_MODULES + name]
    script = f"{name if not request.program else _holder(request, lock)}/{_bin(request, lock)}"
    own = str(top.get("name", name))
    return NpmTree(own, str(top["version"]), script, request.args, packages, _platforms(packages))


def _entries(lock: Lock) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the entries of a lock that are archives; what lies within another one is none."""
    for path, entry in lock.items():
        if not path or entry.get("inBundle"):
            continue
        if entry.get("link") or not path.startswith(_MODULES):
            raise NotFreezable(f"needs {path}, which is a folder of this machine")
        yield path, entry


def _package(path: str, entry: Mapping[str, Any], urls: Collection[str]) -> NpmPackage:
    names = path.removeprefix(_MODULES).split(f"/{_MODULES}")
    name = str(entry.get("name", names[-1]))
    version, resolved = str(entry.get("version", "")), str(entry.get("resolved", ""))
    strongest = [one for one in str(entry.get("integrity", "")).split() if one[:6] == "sha512"]
    if not strongest:
        raise NotFreezable(f"needs {name} from {_origin(resolved)}, of which there is no SHA-512")
    marks = ["optional"] if entry.get("optional") or entry.get("devOptional") else []
    marks += ["scripts"] if entry.get("hasInstallScript") else []
    url = resolved if resolved in urls else ""
    if url and urlsplit(url).username is not None:
        raise NotFreezable(f"needs {name} from a URL with a password")
    if not url and resolved and not _is_usual(resolved, name, version):
        marks.append("via-metadata")
    listed = {key: _words(entry[key]) for key in LISTED if entry.get(key)}
    return NpmPackage(names, version, strongest[0], name=name, listed=listed, marks=marks, url=url)


def _words(listed: object) -> list[str]:
    """Return the words of a list of a manifest, where one of them may stand without a list."""
    return [*map(str, listed)] if isinstance(listed, list) else [str(listed)]


def _origin(resolved: str) -> str:
    parts = urlsplit(resolved)
    return f"{parts.scheme}:{parts.path}" if resolved else "nowhere that is known"


def _is_usual(resolved: str, name: str, version: str) -> bool:
    """Whether an archive lies where that of the public registry does, below any host and path."""
    base = name.rpartition("/")[2]
    return unquote(urlsplit(resolved).path).endswith(f"/{name}/-/{base}-{version}.tgz")


def _wanted_urls(lock: Lock) -> Iterator[str]:
    """Yield the URLs that packages ask for in place of a version."""
    for entry in lock.values():
        for kind in ("dependencies", "optionalDependencies", "peerDependencies"):
            wanted = members_of(entry.get(kind)).values()
            yield from (spec for spec in wanted if isinstance(spec, str) and _URL.match(spec))


# The program


def _holder(request: NpmRequest, lock: Lock) -> str:
    """Return the package that has the program of a request: one that is asked for, or any.

    As npx does, which looks into `node_modules/.bin`.
    """
    asked = [name for name, _ in request.packages]
    others = [path.removeprefix(_MODULES) for path in lock if path.count(_MODULES) == 1]
    for name in [*asked, *others]:
        if request.program in _bins(lock.get(_MODULES + name, {}), name):
            return name
    there = sorted(program for name in asked for program in _bins(lock[_MODULES + name], name))
    raise NotFreezable(
        f"starts {request.program}, which {name_list(asked)} does not have", _are(there)
    )


def _bin(request: NpmRequest, lock: Lock) -> str:
    """Return the script of a program, from the folder of its package.

    Without a name it is what npx takes: the only one, or the one that is called as the package.
    """
    holder = _holder(request, lock) if request.program else request.packages[0][0]
    entry = lock[_MODULES + holder]
    bins = _bins(entry, holder)
    own = str(entry.get("name", holder)).rpartition("/")[2]
    if request.program:
        chosen = bins[request.program]
    elif len(set(bins.values())) == 1:
        chosen = next(iter(bins.values()))
    elif own in bins:
        chosen = bins[own]
    else:
        what = "has no program" if not bins else "has several programs"
        raise NotFreezable(f"starts {holder}, which {what}", _are(sorted(bins)))
    return normpath(chosen.replace("\\", "/"))


def _are(programs: list[str]) -> str:
    return f"its programs are {name_list(programs)}" if programs else ""


def _bins(entry: Mapping[str, Any], name: str) -> dict[str, str]:
    bins = entry.get("bin", {})
    if isinstance(bins, str):
        return {name.rpartition("/")[2]: bins}
    return {key: str(value) for key, value in members_of(bins).items()}


# Platforms


def left_out(tree: NpmTree) -> str:
    """Return the platforms for which a tree is not, "" for none."""
    return ", ".join(one for one in PLATFORMS if tree.on and one not in tree.on)


def _platforms(packages: Collection[NpmPackage]) -> list[str]:
    """Return the platforms that all packages fit which must be there; [] for all."""
    needed = [package.listed for package in packages if "optional" not in package.marks]
    covered = [one for one in PLATFORMS if all(fits(listed, one) for listed in needed)]
    return [] if len(covered) == len(PLATFORMS) else covered
