"""Trees of packages as they are compared: which versions they have, wherever these lie."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from mcpagg_runtime.frozen.pypi import requirement_of
from mcpagg_runtime.frozen.table import UNATTESTED, NpmTree, PypiTree

if TYPE_CHECKING:
    from mcpagg_runtime.frozen.table import Frozen

Version = tuple[str, str]
"""A package and its version."""


class OtherBuilder(NamedTuple):
    """A version that is new, and who has built the older ones (`was`) and this one (`now`)."""

    name: str
    version: str
    was: str
    now: str

    def __str__(self) -> str:
        names = f"{self.name} {self.version}"
        return f"{names}: was built by {self.was}, now by {builder_name(self.now)}"


def builder_name(builder: str) -> str:
    """Return what a builder is called in a sentence."""
    return "an unknown builder" if builder == UNATTESTED else builder


def hashes_of(frozen: Frozen) -> dict[Version, frozenset[str]]:
    """Return {version: what its archives hash to} of a tree, {} of what has no packages."""
    hashes: dict[Version, frozenset[str]] = {}
    if isinstance(frozen, NpmTree):
        for package in frozen.packages:
            hashes[package.name, package.version] = frozenset([package.integrity])
    if isinstance(frozen, PypiTree):
        for wheels in frozen.packages:
            version = wheels.name, wheels.version
            hashes[version] = hashes.get(version, frozenset()) | frozenset(wheels.hashes)
    return hashes


def builders_of(frozen: Frozen) -> dict[Version, str]:
    """Return {version: who has built it, "" for what is not known}."""
    if not isinstance(frozen, NpmTree | PypiTree):
        return {}
    return {(package.name, package.version): package.builder for package in frozen.packages}


def other_builders(before: Frozen, after: Frozen) -> Iterator[OtherBuilder]:
    """Yield the new versions of packages of which each older one was built elsewhere.

    An older one that nobody has attested, or of which nothing is known, leaves nothing to lose.
    """
    old = builders_of(before)
    for (name, version), now in sorted(builders_of(after).items()):
        were = {builder for (other, _), builder in old.items() if other == name}
        is_other = now and were and not were & {now, "", UNATTESTED}
        if is_other and (name, version) not in old:
            yield OtherBuilder(name, version, ", ".join(sorted(were)), now)


def pins(tree: PypiTree, versions: Collection[Version]) -> dict[Version, str]:
    """Return {version: the requirement that asks for nothing else} of these versions of a tree."""
    return {
        (one.name, one.version): requirement_of(one)
        for one in tree.packages
        if (one.name, one.version) in versions
    }


def oldest_python(tree: PypiTree) -> int:
    """Return N of the oldest version 3.N for which a tree is."""
    return int(re.findall(r"3\.(\d+)", tree.python)[0])
