"""Resolves packages of an index of Python: what uv chooses, as the lines of a frozen server.

One resolution holds for all systems; its wheels are narrowed to those of `wheels`. No URL is kept.
A package that has no wheel is built from its source where the user has named it.
"""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from mcpagg.passes.freezing.commands import NotFreezable, PypiRequest
from mcpagg.passes.freezing.running import Tool, Unresolved
from mcpagg.passes.freezing.wheels import (
    PLATFORMS,
    VERSIONS,
    Coverage,
    Wheels,
    coverage,
)
from mcpagg.problems import name_list
from mcpagg_runtime.frozen.pypi import archives_allowed, hash_text, requirements_of
from mcpagg_runtime.frozen.table import SOURCE, FrozenError, PypiPackage, PypiTree
from mcpagg_runtime.frozen.uv_settings import keep_settings_out

NEEDED = "install uv, 0.7 or newer (pip install uv)"
RESOLVE = (
    "pip",
    "compile",
    "--universal",
    "--upgrade",  # what an earlier one has written is no preference
    "--generate-hashes",
    "--no-header",
    "--no-annotate",
    "--quiet",
    "--format=pylock.toml",
    "--output-file=pylock.toml",
)
_TOO_OLD = re.compile(r"requested Python version.*does not satisfy|Python>=?3\.\d+.*unsatisfiable")
_NO_WHEEL = re.compile(r"Wheels are required for `([^`]+)`")
_UNKNOWN = re.compile(r"unexpected argument|invalid value")


class NoWheel(Unresolved):
    """Raised where uv needs a package that it would have to build."""

    def __init__(self, name: str, fault: Unresolved) -> None:
        super().__init__(str(fault))
        self.name = name


def resolve_pypi(
    request: PypiRequest, uv: Tool, folder: Path, named: Collection[str] = ()
) -> tuple[PypiTree, str]:
    """Return the tree that uv resolves a request to, and for what platforms it is not.

    `folder` is empty; `named` are packages that may be built from their source.

    Raises:
        Unresolved: uv fails.
        NotFreezable: the tree has what cannot be frozen.
    """
    oldest, packages = _resolved(request, uv, folder, {*map(canonicalize_name, named)})
    newest = oldest if request.python else VERSIONS[-1]
    covered = coverage(packages, oldest, newest)
    if not (covered.versions and covered.platforms):
        raise NotFreezable(f"has no wheels for any platform: {covered.left_out}")
    name = canonicalize_name(Requirement(request.requirements[0]).name)
    version = _newest(packages, name)
    function = _entry(request, packages, uv, folder)
    on = [] if len(covered.platforms) == len(PLATFORMS) else covered.platforms
    entry, python = f"{request.program}={function}", _python(covered)
    lines = [*_lines(packages, covered)]
    return PypiTree(name, version, entry, python, request.args, lines, on), covered.left_out


def _python(covered: Coverage) -> str:
    """Return the versions that are covered; what is newer than all may do as well."""
    first, last = covered.versions[0], covered.versions[-1]
    end = "" if last == VERSIONS[-1] else f",<3.{last + 1}"
    return f">=3.{first}{end}"


def _newest(packages: Sequence[Wheels], name: str) -> str:
    """Return the newest version of a package; older ones of it are for older versions of Python."""
    return max((one.version for one in packages if one.name == name), key=Version)


def _resolved(
    request: PypiRequest, uv: Tool, folder: Path, named: Collection[str]
) -> tuple[int, list[Wheels]]:
    """Return N of the oldest version 3.N that all packages support, and the packages."""
    asked = [int(request.python.partition(".")[2])] if request.python else VERSIONS
    for version in asked:
        try:
            return version, _buildable(request.requirements, version, uv, folder, named)
        except Unresolved as fault:
            if version == asked[-1] or not _TOO_OLD.search(str(fault)):
                raise
    raise AssertionError("unreachable")


def _buildable(
    requirements: Sequence[str], oldest: int, uv: Tool, folder: Path, named: Collection[str]
) -> list[Wheels]:
    """Return the packages that uv chooses; of the `named`, those that have no wheel are built.

    Raises:
        NotFreezable: another one has none.
    """
    built: list[str] = []
    while True:
        try:
            return _chosen(requirements, oldest, uv, folder, built)
        except NoWheel as fault:
            if fault.name not in {*named} - {*built}:
                raise _unbuilt(fault.name) from None
            built.append(fault.name)


def _unbuilt(name: str) -> NotFreezable:
    return NotFreezable(
        f"needs {name}, of which the index has no wheel; no hash covers what building it fetches",
        f"--freeze-scripts {name} lets it be built, with what it requires for that on the day",
    )


def _chosen(
    requirements: Sequence[str], oldest: int, uv: Tool, folder: Path, built: Collection[str]
) -> list[Wheels]:
    """Return the packages that uv chooses, some of them `built` from their source.

    Raises:
        NoWheel: the newest version of the first of them needs one more to be built. uv would take
            an older version instead, which nobody asked for.
    """
    packages = locked(requirements, oldest, uv, folder, built)
    name = canonicalize_name(Requirement(requirements[0]).name)
    offered = locked(requirements[:1], oldest, uv, folder, built, ["--no-deps"])
    newest = _newest(offered, name)
    if Version(newest) > Version(_newest(packages, name)):
        try:
            locked([*requirements, f"{name}=={newest}"], oldest, uv, folder, built)
        except NoWheel:
            raise
        except Unresolved:  # it does not fit the other packages, and uvx takes no other one
            return packages
    return packages


def locked(
    requirements: Sequence[str],
    oldest: int,
    uv: Tool,
    folder: Path,
    built: Collection[str] = (),
    flags: Sequence[str] = (),
) -> list[Wheels]:
    """Return the packages that uv chooses, for 3.`oldest` and newer.

    Of those that are `built` from their source, no wheel is taken; of others, nothing else.

    Raises:
        NoWheel: a package has none.
        Unresolved: uv fails.
        NotFreezable: a package has no archive.
    """
    try:
        keep_settings_out(uv.env, str(folder))
    except FrozenError as fault:
        raise Unresolved(str(fault)) from None
    folder.joinpath("in.txt").write_text("\n".join(requirements) + "\n", "utf-8")
    allowed = archives_allowed([PypiPackage(name, "", (), marks=[SOURCE]) for name in built])
    try:
        uv.run([*RESOLVE, *allowed, *flags, f"--python-version=3.{oldest}", "in.txt"], folder)
    except Unresolved as fault:
        if _UNKNOWN.search(str(fault)):
            raise Unresolved(f"uv is too old: {NEEDED}") from None
        if lacking := _NO_WHEEL.search(str(fault)):
            raise NoWheel(lacking[1], fault) from None
        raise
    lock = tomllib.loads(folder.joinpath("pylock.toml").read_text("utf-8"))
    return [*packages_of(lock, oldest, built)]


def packages_of(
    lock: Mapping[str, Any], oldest: int, built: Collection[str] = ()
) -> Iterator[Wheels]:
    """Yield the packages of a pylock.toml (PEP 751) that was made for 3.`oldest` and newer.

    Raises:
        NotFreezable: one has no wheels, and is not to be built.
    """
    for entry in lock["packages"]:
        name, version = str(entry["name"]), str(entry.get("version", ""))
        archives = entry.get("wheels", ()) if name not in built else [entry.get("sdist")]
        if not all(archives) or not archives or not version:
            raise _unbuilt(name)
        files = {_file(archive): hash_text(archive["hashes"]["sha256"]) for archive in archives}
        yield Wheels(name, version, files, _marker(str(entry.get("marker", "")), oldest))


def _file(wheel: Mapping[str, Any]) -> str:
    url = str(wheel.get("url") or wheel.get("path", ""))
    return str(wheel.get("name") or unquote(urlsplit(url).path).rpartition("/")[2])


def _marker(marker: str, oldest: int) -> str:
    """Return a marker without what the head says for all packages, where that comes first."""
    floor = f"python_full_version >= '3.{oldest}'"
    if marker == floor:
        return ""
    return marker if " or " in marker else marker.removeprefix(f"{floor} and ")


def _lines(packages: Sequence[Wheels], covered: Coverage) -> Iterator[PypiPackage]:
    """Yield the packages that are needed anywhere, with the wheels of what is covered."""
    there = {(platform, version) for platform in covered.platforms for version in covered.versions}
    for package in packages:
        hashes = package.frozen(package.cells() & there)
        if hashes:
            yield _package(package, hashes)


def _package(package: Wheels, hashes: Collection[str]) -> PypiPackage:
    marks = [SOURCE] if package.is_source else []
    return PypiPackage(package.name, package.version, hashes, package.marker, marks)


# The program


def _entry(request: PypiRequest, packages: Sequence[Wheels], uv: Tool, folder: Path) -> str:
    """Return the MODULE:FUNCTION of a request's program, from the wheels that are asked for."""
    asked = {canonicalize_name(Requirement(one).name) for one in request.requirements}
    top = [_package(one, one.hashes) for one in packages if canonicalize_name(one.name) in asked]
    text = requirements_of(PypiTree("top", "-", "-", "", 0, top))
    folder.joinpath("top.txt").write_text(text, "utf-8")
    flags = ["--no-deps", "--require-hashes", *archives_allowed(top), "--quiet"]
    uv.run(["pip", "install", "--target=top", *flags, "--requirement=top.txt"], folder)
    programs = {
        name: function
        for file in sorted(folder.glob("top/*.dist-info/entry_points.txt"))
        for name, function in console_scripts(file.read_text("utf-8")).items()
    }
    if request.program in programs:
        return programs[request.program]
    if folder.joinpath("top", "bin", request.program).exists():
        raise NotFreezable(f"starts {request.program}, which is no program in Python")
    there = f"its programs are {name_list(sorted(programs))}" if programs else ""
    raise NotFreezable(
        f"starts {request.program}, which {name_list(sorted(asked))} does not have", there
    )


def console_scripts(text: str) -> dict[str, str]:
    """Return {program: MODULE:FUNCTION} of the text of an entry_points.txt."""
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
    parser.read_string(text)
    scripts = parser["console_scripts"] if parser.has_section("console_scripts") else {}
    return {name: value.partition("[")[0].replace(" ", "") for name, value in scripts.items()}
