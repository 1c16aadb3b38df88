"""Names and links: from what is configured and what was found to the tables of the emitted file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcpagg.options import Options
from mcpagg.problems import NameClash, Problem
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg.spec import ProxySpec
from mcpagg_runtime.catalogue import PROMPTS, RESOURCES, TEMPLATES, TOOLS, Kind
from mcpagg_runtime.names import exposed_name, offered, portable_names

Route = tuple[str, ...]

# Clients cut a server's instructions, silently: Claude Code at 2,048 characters.
INSTRUCTIONS_LIMIT = 2000


@dataclass(frozen=True, slots=True)
class Linked:
    """The tables of the emitted file.

    `routes` {kind: {exposed name: (server, own name, portable name)}} for tools and prompts, {kind:
    {URI: (server,)}} for resources and templates; `children` what the runtime must know of each
    server; `capabilities` what the proxy declares.
    """

    routes: dict[str, dict[str, Route]]
    children: dict[str, dict[str, Any]]
    capabilities: dict[str, Any]
    instructions: str


def link(
    spec: ProxySpec, rows: Mapping[str, Mapping[str, Any]], snapshot: Snapshot, options: Options
) -> tuple[Linked, tuple[Problem, ...]]:
    """Give everything that is offered its exposed name; return the tables, and warnings.

    Raises:
        NameClash: two tools, or two prompts, would get one name; names both, for every such pair.
    """
    paths = {server.name: server.path for server in spec.servers}
    clashes: list[Problem] = []
    warnings: list[Problem] = []
    routes: dict[str, dict[str, Route]] = {}
    for kind in (TOOLS, PROMPTS):
        owners = _owners(kind, paths, rows, snapshot, options, clashes)
        portable = portable_names(owners)
        routes[kind.name] = {name: (*owner, portable[name]) for name, owner in owners.items()}
    for kind in (RESOURCES, TEMPLATES):
        routes[kind.name] = _addresses(kind, paths, snapshot, warnings)
    if clashes:
        raise NameClash(spec.source, clashes)
    for child in snapshot.children:
        for tool in child.tools:
            if offered(tool["name"], rows[child.name]):
                warnings += _tool_warnings(paths[child.name], tool)
    capabilities = _capabilities(snapshot)
    linked = Linked(routes, _facts(snapshot), capabilities, _instructions(snapshot))
    return linked, tuple(warnings)


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
            if kind is TOOLS and not offered(name, rows[child.name]):
                continue
            exposed = _exposed(child.name, name, rows[child.name], options)
            if exposed in owners:
                clashes.append(_clash(exposed, owners[exposed], (child.name, name), paths))
            owners[exposed] = child.name, name
    return owners


def _addresses(
    kind: Kind, paths: Mapping[str, str], snapshot: Snapshot, warnings: list[Problem]
) -> dict[str, Route]:
    """Return {URI: (server,)}: a URI stays as it is, so the first server that has it wins."""
    owners: dict[str, Route] = {}
    for child in snapshot.children:
        for address in dict.fromkeys(item[kind.key] for item in child.items(kind)):
            first = owners.setdefault(address, (child.name,))
            if first != (child.name,):
                what = f"{kind.key} {address!r} is also that of '{first[0]}', which is asked for it"
                warnings.append(Problem(paths[child.name], what))
    return owners


def _capabilities(snapshot: Snapshot) -> dict[str, Any]:
    """Return what the proxy declares: what at least one child has and is passed on.

    `experimental` is dropped and `tasks` is not relayed; extensions are merged, the first wins.
    """
    declared = [child.capabilities for child in snapshot.children]
    found: dict[str, Any] = {"tools": {"listChanged": True}}
    if any("prompts" in one for one in declared):
        found["prompts"] = {"listChanged": True}
    if any("resources" in one for one in declared):
        found["resources"] = {"listChanged": True}
        options = [one.get("resources") for one in declared]
        if any(isinstance(one, dict) and one.get("subscribe") is True for one in options):
            found["resources"]["subscribe"] = True
    for name in ("completions", "logging"):
        if any(name in one for one in declared):
            found[name] = {}
    extensions: dict[str, Any] = {}
    for one in declared:
        named = one.get("extensions")
        extensions = {**(named if isinstance(named, dict) else {}), **extensions}
    return {**found, "extensions": extensions} if extensions else found


def _exposed(server: str, tool: str, row: Mapping[str, Any], options: Options) -> str:
    if options.names == "bare":
        return tool
    return exposed_name(server, tool, row, options.separator)


def _clash(
    exposed: str, first: tuple[str, str], second: tuple[str, str], paths: Mapping[str, str]
) -> Problem:
    """Describe two tools under one name."""
    same = f"'{first[1]}' of '{first[0]}' and '{second[1]}' of '{second[0]}'"
    remedy = "rename a server, choose another --separator, or --hide one of them"
    if first == second:
        same, remedy = (
            f"'{first[1]}', which '{first[0]}' lists twice",
            "that is a fault of the server",
        )
    return Problem(paths[second[0]], f"the name '{exposed}' would stand for {same}", remedy)


def _tool_warnings(path: str, tool: Mapping[str, Any]) -> list[Problem]:
    """Warn of what makes strict clients drop a tool, and of what cannot be passed on."""
    name, schema, execution = tool["name"], tool.get("inputSchema"), tool.get("execution")
    found = []
    if not isinstance(schema, dict) or schema.get("type") != "object":
        what = f'tool \'{name}\' has an inputSchema without "type": "object"'
        found.append(Problem(path, what, "strict clients refuse it, some with all of the server's"))
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        what = f"tool '{name}' can only be called as a task, and tasks are not relayed"
        found.append(Problem(path, what, "a call of it fails; --hide it"))
    return found


def _facts(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    facts: dict[str, dict[str, Any]] = {}
    for child in snapshot.children:
        facts[child.name] = {"protocol": child.protocol}
        if child.conditional:
            listed = [tool.get("name") for tool in child.tools]
            facts[child.name]["conditional"] = [
                name for name in listed if name in child.conditional
            ]
    return facts


def _instructions(snapshot: Snapshot) -> str:
    """Merge the children's instructions, each under its name, within what clients keep."""
    told = [child for child in snapshot.children if (child.instructions or "").strip()]
    if not told:
        return ""
    head = (
        "Tools are named server:tool. What the servers say of their own tools, by their own names:"
    )
    share = (INSTRUCTIONS_LIMIT - len(head)) // len(told)
    return "\n\n".join([head, *(_section(child, share) for child in told)])


def _section(child: ChildSnapshot, share: int) -> str:
    text = f"# {child.name}\n{(child.instructions or '').strip()}"
    return text if len(text) <= share - 2 else text[: share - 3].rstrip() + "…"
