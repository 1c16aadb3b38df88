"""Which of its two eras is recorded of a server that speaks both."""

from __future__ import annotations

from dataclasses import replace

from mcpagg.jsontext import dumps
from mcpagg.passes.discovery.ordering import equal, numbered
from mcpagg.snapshot import ChildSnapshot, Json
from mcpagg_runtime.lists.catalogue import KINDS, LEGACY_ONLY, TOOLS, Kind, wraps_output


def of_both(shaken: ChildSnapshot, plain: ChildSnapshot) -> tuple[ChildSnapshot, list[str]]:
    """Return what to record of a server, asked with a handshake and without, and what is odd.

    Without a handshake is preferred. The handshake is recorded beside it if both list the same:
    then each client can be served in its own era, from one snapshot. Otherwise all clients are
    served in one era: in the one without a handshake, unless that lists less.
    """
    others = [kind for kind in KINDS if not _alike(kind, shaken, plain)]
    # The output schema of such a tool is another one in each era.
    wraps = any(wraps_output(dumps(tool)) for tool in plain.tools)
    if not others and not wraps:
        handshake = {"protocolVersion": shaken.protocol, "capabilities": shaken.capabilities}
        return replace(plain, handshake=handshake, conditional=shaken.conditional), []
    lacking = [
        f"{kind.name[:-1]} {key!r}"
        for kind in others
        for key, _ in _entries(kind, shaken).keys() - _entries(kind, plain).keys()
    ]
    if not lacking:
        return plain, []
    what = f"lists the {sorted(lacking)[0]} only after a handshake"
    return shaken, [f"{what}, so all clients are served in {shaken.protocol} alone"]


def _alike(kind: Kind, shaken: ChildSnapshot, plain: ChildSnapshot) -> bool:
    old, new = _entries(kind, shaken), _entries(kind, plain)
    return old.keys() == new.keys() and all(equal(old[key], new[key]) for key in old)


def _entries(kind: Kind, child: ChildSnapshot) -> dict[tuple[str, int], Json]:
    """Return what a server lists, less what one era alone can say."""
    entries = numbered(kind, child.items(kind))
    if kind is not TOOLS:
        return entries
    return {
        key: {name: value for name, value in tool.items() if name not in LEGACY_ONLY}
        for key, tool in entries.items()
    }
