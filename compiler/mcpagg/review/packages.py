"""The changes of what is frozen: between FILE and a compilation, and since FILE was compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mcpagg.passes.freezing.checking import Offered
from mcpagg.passes.freezing.trees import builders_of, hashes_of, other_builders
from mcpagg.review.changes import Change
from mcpagg_runtime.frozen.table import DockerImage, NpmTree, Program, PypiTree, read_frozen

if TYPE_CHECKING:
    from mcpagg_runtime.frozen.table import Frozen

KIND = "package"


def offered_changes(server: str, rows: Sequence[str], offered: Offered) -> Iterator[Change]:
    """Yield what resolving a server anew would change, and what its registry no longer has."""
    for change in _offered(server, rows, offered):
        yield replace(change, is_offered=True)


def _offered(server: str, rows: Sequence[str], offered: Offered) -> Iterator[Change]:
    for name, version in sorted(offered.other):
        yield _spoilt(server, name, version, "same version, other bytes")
    for name, version in sorted(offered.gone):
        yield _spoilt(server, name, version, "gone from the registry")
    for advisory in offered.advisories:
        yield Change("advisories", server, KIND, advisory.name, what=f"!{advisory}")
    before, now = read_frozen(rows), read_frozen(offered.rows)
    yield from _moves(server, before, now)
    yield from _image_moves(server, before, now)


def _spoilt(server: str, name: str, version: str, what: str) -> Change:
    return Change("registry", server, KIND, name, what=f"!{name} {version}: {what}")


def frozen_changes(server: str, before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    """Yield how the rows of a server have changed; no rows: it is not frozen."""
    if not (before and after):
        if before or after:
            what = "is frozen now" if after else "is no longer frozen"
            yield Change("launch", server, "server", what=what)
        return
    was, now = read_frozen(before), read_frozen(after)
    changes = [*_spoilt_versions(server, was, now), *_moves(server, was, now)]
    yield from changes
    if not changes and builders_of(was) != builders_of(now):
        yield Change("provenance", server, "server", what="names other builders of its packages")
    old, new = (_start(rows, is_whole=not changes) for rows in (before, after))
    if old != new or not (changes or _installed(was) == _installed(now)):
        yield Change("launch", server, "server", "", "", "is frozen otherwise", old, new)


def _spoilt_versions(server: str, before: Frozen, after: Frozen) -> Iterator[Change]:
    old, new = hashes_of(before), hashes_of(after)
    for name, version in sorted(old.keys() & new):
        if not old[name, version] & new[name, version]:
            yield _spoilt(server, name, version, "same version, other bytes")


def _start(rows: Sequence[str], *, is_whole: bool) -> str:
    """Return what a head says of the start, less what the command says.

    The version, too, unless it `is_whole`: that is reported with the packages.
    """
    frozen = read_frozen(rows)
    if isinstance(frozen, NpmTree | PypiTree) and not is_whole:
        frozen.version = "-"
    if not isinstance(frozen, Program):
        frozen.args = 0
    return frozen.rows()[0].removesuffix(" args=0")


def _installed(frozen: Frozen) -> list[list[str]]:
    """Return what lines say of what is installed."""
    packages = frozen.packages if isinstance(frozen, NpmTree | PypiTree) else ()
    return [package.fields() for package in packages]


def _moves(server: str, before: Frozen, after: Frozen) -> Iterator[Change]:
    """Yield the packages whose versions are others: by package, wherever it lies."""
    for found in other_builders(before, after):
        yield Change("provenance", server, KIND, found.name, what=f"!{found}")
    old, new = _versions(before), _versions(after)
    for name in sorted({**old, **new}):
        gone = ", ".join(sorted(old.get(name, set()) - new.get(name, set())))
        come = ", ".join(sorted(new.get(name, set()) - old.get(name, set())))
        if gone and come:
            yield Change("packages", server, KIND, name, what=f"~{name} {gone} → {come}")
        elif gone or come:
            what = f"+{name} {come}" if come else f"-{name} {gone}"
            yield Change("packages", server, KIND, name, what=what)


def _versions(frozen: Frozen) -> dict[str, set[str]]:
    versions: dict[str, set[str]] = {}
    for name, version in hashes_of(frozen):
        versions.setdefault(name, set()).add(version)
    return versions


def _image_moves(server: str, old: Frozen, new: Frozen) -> Iterator[Change]:
    """Yield that a tag is that of another image."""
    if isinstance(old, DockerImage) and isinstance(new, DockerImage) and old.digest != new.digest:
        what = f"~{new.image} {old.digest} → {new.digest}"
        yield Change("packages", server, KIND, new.image, what=what)
