"""Overlays: reviewed texts and hints in place of what servers say of their tools.

An overlay is a JSON Merge Patch (RFC 7396) of a tool. The snapshot keeps the server's own words, so
that these are what a running server is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mcpagg.passes.linking.linking import Linked
from mcpagg.problems import ConfigError, Problem, meant
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot
from mcpagg.spec import Overlay, ProxySpec


def as_listed(spec: ProxySpec, snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with the tools as they are listed.

    Raises:
        ConfigError: with every overlay of a tool that its server does not have.
    """
    tools = {f"{child.name}:{tool['name']}" for child in snapshot.children for tool in child.tools}
    faults = [
        Problem(one.path, f"'{one.server}' has no tool '{one.tool}'", meant(target, tools))
        for one in active(spec, snapshot)
        if (target := f"{one.server}:{one.tool}") not in tools
    ]
    if faults:
        raise ConfigError(spec.source, faults)
    changed = patches(spec, snapshot)
    children = (_listed(child, changed.get(child.name, {})) for child in snapshot.children)
    return replace(snapshot, children=tuple(children))


def patches(spec: ProxySpec, snapshot: Snapshot) -> dict[str, dict[str, Json]]:
    """Return {server: {tool: patch}}, as the emitted file holds it."""
    found: dict[str, dict[str, Json]] = {}
    for one in active(spec, snapshot):
        found.setdefault(one.server, {})[one.tool] = one.patch
    return found


def idle(spec: ProxySpec, snapshot: Snapshot, linked: Linked) -> Iterator[Problem]:
    """Yield a warning for each overlay of a tool that is neither listed nor part of a composite."""
    shown = {(server, tool) for server, tool, _ in linked.routes["tools"].values()}
    for called in linked.composed.subtools.values():
        shown |= {(server, tool) for server, tools in called.items() for tool in tools}
    for one in active(spec, snapshot):
        if (one.server, one.tool) not in shown:
            what = f"'{one.tool}' of '{one.server}' is hidden, so nobody is shown this"
            yield Problem(one.path, what, "offer the tool, or leave the overlay out")


def active(spec: ProxySpec, snapshot: Snapshot) -> list[Overlay]:
    """Return the overlays of servers that are part of the proxy."""
    return [one for one in spec.overlays if one.server in snapshot.names]


def _listed(child: ChildSnapshot, changed: dict[str, Json]) -> ChildSnapshot:
    tools = [merged(tool, changed.get(tool["name"], {})) for tool in child.tools]
    return replace(child, tools=tuple(tools))


def merged(value: Any, patch: Any) -> Any:
    """Apply a JSON Merge Patch (RFC 7396, section 2)."""
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for name, member in patch.items():
        if member is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), member)
    return found
