"""Trees of packages as they are compared: which versions they have, wherever these lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.table import NpmTree, PypiTree

if TYPE_CHECKING:
    from mcpagg_runtime.frozen.table import Frozen

Version = tuple[str, str]
"""A package and its version."""


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
