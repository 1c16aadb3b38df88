"""Whether what was frozen covers this machine: its platform, its Python."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.table import FrozenError
from mcpagg_runtime.launch.platforms import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpagg_runtime.frozen.table import NpmTree, PypiTree

# What Python calls processors, in the words of Node.
_PROCESSORS = {
    "x86_64": "x64",
    "amd64": "x64",
    "aarch64": "arm64",
    "arm64": "arm64",
    "i386": "ia32",
    "i686": "ia32",
    "x86": "ia32",
    "armv7l": "arm",
    "armv6l": "arm",
}


def this_platform() -> str:
    """Return the platform of this machine in the words of Node: `linux-x64`, `linux-x64-musl`."""
    system = "linux" if sys.platform.startswith("linux") else sys.platform
    machine = _machine(os.environ).lower()
    musl = "-musl" if system == "linux" and not _has_glibc() else ""
    return f"{system}-{_PROCESSORS.get(machine, machine)}{musl}"


def _machine(environ: Mapping[str, str]) -> str:
    """Return the processor, as Windows itself tells every process; Python would ask a service."""
    names = ("PROCESSOR_ARCHITEW6432", "PROCESSOR_ARCHITECTURE") if WINDOWS else ()
    return next((environ[name] for name in names if environ.get(name)), "") or platform.machine()


def _has_glibc() -> bool:
    try:
        return sys.platform != "win32" and bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (OSError, ValueError):  # there is no such name where it is another one
        return False


def fits(listed: Mapping[str, Sequence[str]], platform: str) -> bool:
    """Whether an npm package fits a platform, by the `os`, `cpu` and `libc` of its manifest."""
    system, processor, *libc = platform.split("-")
    own = {"os": system, "cpu": processor}
    own["libc"] = "" if system != "linux" else "musl" if libc else "glibc"
    return all(_is_listed(own[key], words) for key, words in listed.items())


def _is_listed(value: str, words: Sequence[str]) -> bool:
    if f"!{value}" in words:
        return False
    wanted = [word for word in words if not word.startswith("!")]
    return not wanted or value in wanted or "any" in wanted


def refuse_uncovered(tree: NpmTree | PypiTree) -> None:
    """Refuse a tree whose lines do not cover this machine, before anything is installed.

    Raises:
        FrozenError: they do not.
    """
    here = this_platform()
    if tree.on and here not in tree.on:
        raise FrozenError(f"it is frozen for {', '.join(tree.on)}, and this is {here}{_REMEDY}")


_REMEDY = ": compile on such a machine with --refresh"


def is_within(version: Sequence[int], specifier: str) -> bool:
    """Whether a version of Python is one of `>=3.10,<3.15`, of `==3.12.*`, or the like.

    Raises:
        FrozenError: the specifier has another form.
    """
    return all(_meets(tuple(version), clause.strip()) for clause in specifier.split(",") if clause)


def _meets(version: tuple[int, ...], clause: str) -> bool:
    operator = clause.rstrip("0123456789.*")
    try:
        parts = tuple(int(part) for part in clause[len(operator) :].split(".") if part != "*")
        own = version[: len(parts)]
        return {
            ">=": own >= parts,
            "<": own < parts,
            "==": own == parts,
            "!=": own != parts,
            "<=": own <= parts,
            ">": own > parts,
        }[operator]
    except (ValueError, LookupError) as problem:
        raise FrozenError(f"cannot be read as versions of Python: {clause}") from problem
