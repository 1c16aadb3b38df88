"""Overlays: reviewed texts and hints in place of what servers say of their tools.

An overlay is a JSON Merge Patch (RFC 7396) of a tool. The snapshot keeps the server's own words, so
that these are what a running server is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mcpagg.jsontext import members_of
from mcpagg.passes.linking.linking import Linked
from mcpagg.problems import ConfigError, Problem, suggest
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot
from mcpagg.spec import Overlay, ProxySpec


def with_overlays(spec: ProxySpec, snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with the tools as they are listed.

    Raises:
        ConfigError: with every overlay of a tool that its server does not have.
    """
    tools = {f"{child.name}:{tool['name']}" for child in snapshot.children for tool in child.tools}
    faults = [
        Problem(
            overlay.path, f"'{overlay.server}' has no tool '{overlay.tool}'", suggest(target, tools)
        )
        for overlay in active(spec, snapshot)
        if (target := f"{overlay.server}:{overlay.tool}") not in tools
    ]
    if faults:
        raise ConfigError(spec.source, faults)
    changed = patches(spec, snapshot)
    children = (_listed(child, changed.get(child.name, {})) for child in snapshot.children)
    return replace(snapshot, children=tuple(children))


def patches(spec: ProxySpec, snapshot: Snapshot) -> dict[str, dict[str, Json]]:
    """Return {server: {tool: patch}}, as the emitted file holds it."""
    by_server: dict[str, dict[str, Json]] = {}
    for overlay in active(spec, snapshot):
        by_server.setdefault(overlay.server, {})[overlay.tool] = overlay.patch
    return by_server


def unused_overlays(spec: ProxySpec, snapshot: Snapshot, linked: Linked) -> Iterator[Problem]:
    """Yield a warning for each overlay of a tool that is neither listed nor part of a composite."""
    visible = {(server, tool) for server, tool, _ in linked.routes["tools"].values()}
    for called in linked.composed.subtools.values():
        visible |= {(server, tool) for server, tools in called.items() for tool in tools}
    for overlay in active(spec, snapshot):
        if (overlay.server, overlay.tool) not in visible:
            what = f"'{overlay.tool}' of '{overlay.server}' is hidden, so nobody is shown this"
            yield Problem(overlay.path, what, "offer the tool, or leave the overlay out")


def active(spec: ProxySpec, snapshot: Snapshot) -> list[Overlay]:
    return [overlay for overlay in spec.overlays if overlay.server in snapshot.names]


def _listed(child: ChildSnapshot, changed: dict[str, Json]) -> ChildSnapshot:
    tools = [merged(tool, changed.get(tool["name"], {})) for tool in child.tools]
    return replace(child, tools=tuple(tools))


def merged(value: Any, patch: Any) -> Any:
    """Apply a JSON Merge Patch (RFC 7396, section 2)."""
    if not isinstance(patch, dict):
        return patch
    result = {**members_of(value)}
    for name, member in patch.items():
        if member is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), member)
    return result
