"""Wheels of Python: which of them are frozen, and which machines they cover.

A package has wheels for each version of Python and each system, often dozens. Those for `VERSIONS`
on `PLATFORMS` are frozen; what the tree does not cover is reported. A source distribution is taken
to cover all: whether it can be built on a machine is known there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from packaging.markers import Marker
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from mcpagg.problems import name_list

VERSIONS = (10, 11, 12, 13, 14)
"""The versions 3.N of Python for which wheels are frozen."""


class _Machine(NamedTuple):
    """What a platform is in the words of markers, and its tags of wheels."""

    sys_platform: str
    platform_system: str
    os_name: str
    platform_machine: str
    tags: re.Pattern[str]


def _machine(system: str, name: str, os_name: str, machine: str, tags: str) -> _Machine:
    return _Machine(system, name, os_name, machine, re.compile(f"any|{tags}"))


PLATFORMS = {
    "linux-x64": _machine("linux", "Linux", "posix", "x86_64", r"(?:many)?linux\w*_x86_64"),
    "linux-arm64": _machine("linux", "Linux", "posix", "aarch64", r"(?:many)?linux\w*_aarch64"),
    # Of these, only what runs anywhere is frozen.
    "linux-x64-musl": _machine("linux", "Linux", "posix", "x86_64", "any"),
    "linux-arm64-musl": _machine("linux", "Linux", "posix", "aarch64", "any"),
    "darwin-x64": _machine(
        "darwin", "Darwin", "posix", "x86_64", r"macosx_\w+_(?:x86_64|universal2|intel)"
    ),
    "darwin-arm64": _machine(
        "darwin", "Darwin", "posix", "arm64", r"macosx_\w+_(?:arm64|universal2)"
    ),
    "win32-x64": _machine("win32", "Windows", "nt", "AMD64", "win_amd64"),
    "win32-arm64": _machine("win32", "Windows", "nt", "ARM64", "win_arm64"),
}
"""The platforms for which wheels are frozen, in the words of Node."""
MUSL = "wheels for musl are left out"
WHEEL = ".whl"
_OLDER = re.compile(r"py3|py2\.py3|py3(\d+)")
_CPYTHON = re.compile(r"cp3(\d+)")

Cell = tuple[str, int]
"""A platform, and N of the version 3.N of Python."""


@dataclass(frozen=True, slots=True)
class Wheels:
    """A package in one version: its wheels {file name: hash as a line has it}, where it is needed.

    Or its source distribution, in their place. `marker` says where it is needed as PEP 508 has it,
    "" for everywhere.
    """

    name: str
    version: str
    files: Mapping[str, str]
    marker: str = ""

    @property
    def hashes(self) -> frozenset[str]:
        return frozenset(self.files.values())

    @property
    def is_source(self) -> bool:
        return not any(file.endswith(WHEEL) for file in self.files)

    def cells(self) -> set[Cell]:
        """Return where the marker asks for the package."""
        if not self.marker:
            return {*_cells()}
        marker = Marker(self.marker)
        return {cell for cell in _cells() if marker.evaluate(_environment(*cell))}

    def frozen(self, cells: Collection[Cell]) -> dict[str, set[Cell]]:
        """Return {hash: the cells it fits} of the wheels that fit any of these cells."""
        found = {hash_: {*_fitting(file)} & {*cells} for file, hash_ in self.files.items()}
        return {hash_: fitting for hash_, fitting in found.items() if fitting}


class Coverage(NamedTuple):
    """What a tree covers: N of the versions 3.N, and platforms; what lacks for others."""

    versions: list[int]
    platforms: list[str]
    lacking: dict[str, list[str]]

    @property
    def left_out(self) -> str:
        """The platforms that are not covered, with what lacks for them; "" for none."""
        reasons: dict[str, list[str]] = {}
        for platform, packages in self.lacking.items():
            what = MUSL if platform.endswith("-musl") else f"no wheel of {name_list(packages, 3)}"
            reasons.setdefault(what, []).append(platform)
        return "; ".join(f"{', '.join(names)} ({what})" for what, names in reasons.items())


def _cells() -> Iterator[Cell]:
    return ((platform, version) for platform in PLATFORMS for version in VERSIONS)


def _environment(platform: str, version: int) -> dict[str, str]:
    machine = PLATFORMS[platform]
    return {
        "sys_platform": machine.sys_platform,
        "platform_system": machine.platform_system,
        "os_name": machine.os_name,
        "platform_machine": machine.platform_machine,
        "python_version": f"3.{version}",
        "python_full_version": f"3.{version}.9",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "implementation_version": f"3.{version}.9",
        "platform_release": "",
        "platform_version": "",
        "extra": "",
    }


def _fitting(file: str) -> Iterator[Cell]:
    """Yield the platforms and versions for which a wheel is, by the tags of its name (PEP 425).

    What is no wheel is for all.
    """
    if not file.endswith(WHEEL):
        yield from _cells()
        return
    try:
        _, _, _, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return
    for tag in tags:
        for version in VERSIONS:
            if _runs(tag.interpreter, tag.abi, version):
                for platform, machine in PLATFORMS.items():
                    if machine.tags.fullmatch(tag.platform):
                        yield platform, version


def _runs(interpreter: str, abi: str, version: int) -> bool:
    """Whether CPython 3.N runs what is for an interpreter with an ABI."""
    own = _CPYTHON.fullmatch(interpreter)
    if own and abi in ("abi3", "none"):
        return int(own[1]) <= version
    if own:
        return int(own[1]) == version and abi == interpreter
    older = _OLDER.fullmatch(interpreter)
    return older is not None and abi == "none" and (not older[1] or int(older[1]) <= version)


def coverage(packages: Sequence[Wheels], oldest: int, newest: int) -> Coverage:
    """Return what wheels cover, of the versions from 3.`oldest` to 3.`newest`.

    The platforms are those that some version covers in whole; the versions those that cover each
    of these platforms.
    """
    asked = [version for version in VERSIONS if oldest <= version <= newest]
    lacking: dict[Cell, list[str]] = {}
    for package in packages:
        needed = package.cells()
        there = set().union(*package.frozen(needed).values())
        for cell in needed - there:
            lacking.setdefault(cell, []).append(f"{package.name} {package.version}")
    whole = {cell for cell in _cells() if cell not in lacking}
    most = max(asked, key=lambda version: (sum((p, version) in whole for p in PLATFORMS), version))
    platforms = [platform for platform in PLATFORMS if (platform, most) in whole]
    versions = [v for v in asked if all((platform, v) in whole for platform in platforms)]
    # What lies between is a range: of versions that leave a gap, those about the best one.
    versions = [v for v in versions if {*range(min(v, most), max(v, most))} <= {*versions, most}]
    others = {p: lacking[p, most] for p in PLATFORMS if p not in platforms}
    return Coverage(versions, platforms, others)
