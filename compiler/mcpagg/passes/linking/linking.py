"""Linking: from the config and the snapshot to the tables of the emitted file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from glob import escape
from shlex import quote
from typing import Any, NamedTuple

from mcpagg.options import Options
from mcpagg.passes.linking.composing import Composed, compose
from mcpagg.passes.linking.extensions import answered_by, declared_extensions, extension_warnings
from mcpagg.problems import NameClash, Problem
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot
from mcpagg.spec import ProxySpec
from mcpagg_runtime.lists.catalogue import KINDS, PROMPTS, RESOURCES, SKILLS, TEMPLATES, TOOLS, Kind
from mcpagg_runtime.lists.listing import hides_address, is_offered
from mcpagg_runtime.plan.addresses import Addresses, uris_of
from mcpagg_runtime.plan.face import merged_instructions as merged
from mcpagg_runtime.plan.names import exposed_name, portable_names

Route = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Linked:
    """The tables of the emitted file.

    `routes` {kind: {exposed name: (server, own name, portable name)}} for tools and prompts, {kind:
    {URI: (server,)}} for resources and templates, {exposed URI: (server, its own URI)} where that
    is another one; `prefixed_kinds` are the kinds of lists that have such URIs.
    `children` is what the runtime must know of each server; `capabilities` what the proxy declares
    to clients with a handshake, `modern_capabilities` to those without; `composed` its composite
    tools, which have the server ""; `profiles` {name: what it offers}; `overlays` {server: {tool:
    JSON Merge Patch}}; `own_uris` {server: {kind: all its URIs}}, where some are routed to another.
    """

    routes: dict[str, dict[str, Route]]
    children: dict[str, dict[str, Any]]
    capabilities: dict[str, Any]
    modern_capabilities: dict[str, Any]
    instructions: str
    composed: Composed
    profiles: dict[str, Subset] = field(default_factory=dict)
    overlays: dict[str, dict[str, Any]] = field(default_factory=dict)
    own_uris: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    prefixed_kinds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Subset:
    """What a profile offers, and the clients that get it unasked.

    `tools` is {server: the server's own names}, its composite tools under ""; a server that is not
    in it is no part of the proxy then. `capabilities`, `modern_capabilities` and `instructions` are
    those of its servers.
    """

    clients: tuple[str, ...]
    tools: dict[str, list[str]]
    capabilities: dict[str, Any]
    modern_capabilities: dict[str, Any]
    instructions: str


class ListedItem(NamedTuple):
    """An item that the proxy lists; `own` is its server's name or URI for it.

    A composite tool has the server "". What has no portable name is known by `exposed` alone.
    """

    server: str
    kind: Kind
    own: str
    value: Json
    exposed: str
    portable: str

    def name(self, names: str) -> str:
        """Return the name by which most clients see it, with the option `names`."""
        return self.portable if names == "portable" else self.exposed


def link(
    spec: ProxySpec, rows: Mapping[str, Mapping[str, Any]], snapshot: Snapshot, options: Options
) -> tuple[Linked, tuple[Problem, ...]]:
    """Give everything that is offered its exposed name; return the tables, and warnings.

    Raises:
        ConfigError: a composite tool calls what is not there.
        NameClash: two tools, or two prompts, would get one name; names both, for every such pair.
    """
    paths = spec.paths
    clashes: list[Problem] = []
    composed, warnings = compose(spec, rows, snapshot, options)
    routes: dict[str, dict[str, Route]] = {}
    for kind in (TOOLS, PROMPTS):
        owners = _owners(kind, paths, rows, snapshot, options, clashes)
        if kind is TOOLS:
            _add_composites(spec, composed, owners, clashes)
        portable = portable_names(owners)
        routes[kind.name] = {name: (*owner, portable[name]) for name, owner in owners.items()}
    handed = {child.name: _handed_out(child, rows[child.name]) for child in snapshot.children}
    addresses = Addresses(
        {server: set().union(*by_kind.values()) for server, by_kind in handed.items()}
    )
    for kind in (RESOURCES, TEMPLATES):
        routes[kind.name] = _addresses(kind, paths, rows, snapshot, addresses, warnings)
    routes[SKILLS.name] = _skills(snapshot, addresses)
    if clashes:
        raise NameClash(spec.source, clashes)
    for child in snapshot.children:
        warnings += _nothing_left(paths[child.name], child, rows[child.name])
    warnings += extension_warnings(snapshot, paths)
    prefixed_kinds = frozenset(
        kind
        for server, by_kind in handed.items()
        for kind, uris in by_kind.items()
        if any(addresses.exposed_uri(uri, server) != uri for uri in uris)
    )
    linked = Linked(
        routes,
        _facts(snapshot),
        declared_capabilities(snapshot.with_handshakes),
        declared_capabilities(snapshot),
        merged_instructions(snapshot),
        composed,
        own_uris=_own_uris(rows, snapshot, routes),
        prefixed_kinds=prefixed_kinds,
    )
    return linked, tuple(warnings)


def _handed_out(child: ChildSnapshot, row: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return {kind of list: the URIs that a server hands out in it}; the config filters them."""
    return {
        kind.name: {
            uri
            for item in child.items(kind)
            if kind is not TOOLS or is_offered(item["name"], row)
            for uri in uris_of(kind.name, item)
            if kind is TOOLS or not hides_address(uri, row)
        }
        for kind in KINDS
    }


def _owners(
    kind: Kind,
    paths: Mapping[str, str],
    rows: Mapping[str, Mapping[str, Any]],
    snapshot: Snapshot,
    options: Options,
    clashes: list[Problem],
) -> dict[str, tuple[str, str]]:
    """Return {exposed name: (server, own name)}; the config filters tools."""
    owners: dict[str, tuple[str, str]] = {}
    for child in snapshot.children:
        for name in (item["name"] for item in child.items(kind)):
            if kind is TOOLS and not is_offered(name, rows[child.name]):
                continue
            exposed = _exposed(child.name, name, rows[child.name], options)
            second = child.name, name
            first = owners.setdefault(exposed, second)
            if first != second:
                both = " and ".join(f"'{tool}' of '{server}'" for server, tool in (first, second))
                what = f"the name '{exposed}' would stand for {both}"
                remedy = _clash_remedy(kind, (first, second), rows, options)
                clashes.append(Problem(paths[child.name], what, remedy))
    return owners


def _add_composites(
    spec: ProxySpec, composed: Composed, owners: dict[str, tuple[str, str]], clashes: list[Problem]
) -> None:
    """Give composite tools their own names, which no other tool may have."""
    for composite in spec.composites:
        name = composite.name
        if name in owners:
            server, tool = owners[name]
            what = f"the name '{name}' is also that of '{tool}' of '{server}'"
            clashes.append(Problem(composite.path, what, "rename the composite tool"))
        elif name in composed.subtools:
            owners[name] = "", name


def _addresses(
    kind: Kind,
    paths: Mapping[str, str],
    rows: Mapping[str, Mapping[str, Any]],
    snapshot: Snapshot,
    addresses: Addresses,
    warnings: list[Problem],
) -> dict[str, Route]:
    """Return {URI: (server,)}: a URI stays as it is, so the first server that offers it wins.

    But one of a page or a skill that several offer: {URI as exposed to clients: (server, its own)}.
    """
    owners: dict[str, Route] = {}
    for child in snapshot.children:
        for address in dict.fromkeys(item[kind.key] for item in child.items(kind)):
            if hides_address(address, rows[child.name]):
                continue
            listed = addresses.exposed_uri(address, child.name)
            if listed != address:
                owners[listed] = child.name, address
                continue
            first = owners.setdefault(address, (child.name,))[0]
            if first != child.name:
                what = f"{kind.key} {address!r} is also that of '{first}', which is asked for it"
                remedy = f"to reach this one: --hide '{first}:{address}'"
                warnings.append(Problem(paths[child.name], what, remedy))
    return owners


def _own_uris(
    rows: Mapping[str, Mapping[str, Any]],
    snapshot: Snapshot,
    routes: Mapping[str, Mapping[str, Route]],
) -> dict[str, dict[str, list[str]]]:
    """Return {server: {kind: its URIs, in its order}} of those that another server is asked for."""
    found: dict[str, dict[str, list[str]]] = {}
    for child in snapshot.children:
        for kind in (RESOURCES, TEMPLATES):
            named = dict.fromkeys(item[kind.key] for item in child.items(kind))
            uris = [uri for uri in named if not hides_address(uri, rows[child.name])]
            routed = [server for server, *_ in routes[kind.name].values() if server == child.name]
            if len(routed) < len(uris):
                found.setdefault(child.name, {})[kind.name] = uris
    return found


def _skills(snapshot: Snapshot, addresses: Addresses) -> dict[str, Route]:
    """Return {URI as listed: (server, its own URI, URI as listed)}."""
    skilled = [child for child in snapshot.children if SKILLS.is_declared(child.capabilities)]
    routes: dict[str, Route] = {}
    for child in skilled:
        for uri in dict.fromkeys(item[SKILLS.key] for item in child.skills):
            listed = addresses.exposed_uri(uri, child.name)
            routes.setdefault(listed, (child.name, uri, listed))
    return routes


def declared_capabilities(snapshot: Snapshot) -> dict[str, Any]:
    """Return what the proxy declares: what at least one child has and is passed on.

    `experimental` is dropped, and tasks of either era are not relayed. The revisions agree on the
    names of all else. What a child declares may depend on the era, see `with_handshakes`.
    """
    declared = [child.capabilities for child in snapshot.children]
    capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
    if any("prompts" in own for own in declared):
        capabilities["prompts"] = {"listChanged": True}
    if any("resources" in own for own in declared):
        capabilities["resources"] = {"listChanged": True}
        options = [own.get("resources") for own in declared]
        if any(
            isinstance(settings, dict) and settings.get("subscribe") is True for settings in options
        ):
            capabilities["resources"]["subscribe"] = True
    for name in ("completions", "logging"):
        if any(name in own for own in declared):
            capabilities[name] = {}
    extensions = declared_extensions(snapshot)
    return {**capabilities, "extensions": extensions} if extensions else capabilities


def _exposed(server: str, tool: str, row: Mapping[str, Any], options: Options) -> str:
    if options.names == "bare":
        return tool
    return exposed_name(server, tool, row, options.separator)


def _clash_remedy(
    kind: Kind,
    owners: tuple[tuple[str, str], ...],
    rows: Mapping[str, Mapping[str, Any]],
    options: Options,
) -> str:
    """Say what helps against a clash: options as they are to be written, each of which suffices."""
    remedies = []
    if kind is TOOLS:
        globs = [f"{escape(server)}:{escape(name)}" for server, name in owners]
        remedies += [f"--hide {quote(glob)}" for glob in globs]
    if options.names == "bare":
        remedies.append("--names spec")
    elif any(name in rows[server].get("rename", {}) for server, name in owners):
        remedies.append("another name in the config")
    else:
        remedies += ["another --separator", "another name of the server in the config"]
    return f"choose {', or '.join(remedies)}"


def _nothing_left(path: str, child: ChildSnapshot, row: Mapping[str, Any]) -> list[Problem]:
    """Warn of filters that leave no tool; those that leave none of any server were named before."""
    hidden = child.tools and not any(is_offered(tool["name"], row) for tool in child.tools)
    if not hidden or row.get("expose") == [] or "*" in row.get("hide", ()):
        return []
    what = f"no tool is offered of it: the filters leave none of {len(child.tools)}"
    return [Problem(path, what, "--skip it, or correct the filters")]


def _facts(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    facts: dict[str, dict[str, Any]] = {}
    answered = answered_by(snapshot)
    for child in snapshot.children:
        facts[child.name] = {"protocol": child.protocol}
        if child.handshake:
            facts[child.name]["handshake"] = child.handshake["protocolVersion"]
        if child.conditional:
            listed = [tool.get("name") for tool in child.tools]
            facts[child.name]["conditional"] = [
                name for name in listed if name in child.conditional
            ]
        if child.name in answered:
            facts[child.name]["extensions"] = answered[child.name]
        if child.hints:
            facts[child.name]["hints"] = child.hints
    return facts


def merged_instructions(snapshot: Snapshot) -> str:
    """Merge the children's instructions, each under its name, within what clients keep."""
    return merged({child.name: child.instructions or "" for child in snapshot.children})


def listed_items(snapshot: Snapshot, linked: Linked) -> dict[str, list[ListedItem]]:
    """Return {server: what is listed of it}, in its order and once each; composite tools come last.

    `snapshot` has its tools as they are listed (see `overlays`).
    """
    names: dict[tuple[str, str, str], tuple[str, str]] = {}
    for kind in KINDS:
        for exposed, (server, *own) in linked.routes[kind.name].items():
            key = own[0] if own else exposed
            names[server, kind.name, key] = exposed, own[-1] if len(own) > 1 else exposed
    listed: dict[str, list[ListedItem]] = {}
    for child in snapshot.children:
        items = listed[child.name] = []
        for kind in KINDS:
            for item in child.items(kind):
                spelled = names.pop((child.name, kind.name, item[kind.key]), None)
                if spelled is not None:
                    items.append(ListedItem(child.name, kind, item[kind.key], item, *spelled))
    for tool in linked.composed.tools:
        name = tool["name"]
        composite = ListedItem("", TOOLS, name, tool, *names["", TOOLS.name, name])
        listed.setdefault("", []).append(composite)
    return listed
