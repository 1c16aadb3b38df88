"""Names and links: from what is configured and what was found to the tables of the emitted file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcpagg.options import Options
from mcpagg.problems import NameClash, Problem
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg.spec import ProxySpec
from mcpagg_runtime.names import exposed_name, offered, portable_names

Route = tuple[str, str, str]

# Clients cut a server's instructions, silently: Claude Code at 2,048 characters.
INSTRUCTIONS_LIMIT = 2000
# Claude Desktop, the Claude API's older limit and the OpenAI API, less the client's own prefix.
EXPOSED_NAME_LIMIT = 64


@dataclass(frozen=True, slots=True)
class Linked:
    """The routing table {exposed name: (server, own name, portable name)} and what goes with it."""

    routes: dict[str, Route]
    children: dict[str, dict[str, Any]]
    instructions: str


def link(
    spec: ProxySpec, rows: Mapping[str, Mapping[str, Any]], snapshot: Snapshot, options: Options
) -> tuple[Linked, tuple[Problem, ...]]:
    """Give every offered tool its exposed name; return the tables, and warnings.

    Raises:
        NameClash: two tools would get one name; names both, for every such pair.
    """
    paths = {server.name: server.path for server in spec.servers}
    owners: dict[str, tuple[str, str]] = {}
    clashes: list[Problem] = []
    warnings: list[Problem] = []
    for child in snapshot.children:
        for tool in child.tools:
            name = tool.get("name")
            if not isinstance(name, str) or not name:
                warnings.append(Problem(paths[child.name], "lists a tool without a name; left out"))
                continue
            if not offered(name, rows[child.name]):
                continue
            warnings += _schema_warnings(paths[child.name], name, tool)
            exposed = _exposed(child.name, name, rows[child.name], options)
            if exposed in owners:
                clashes.append(_clash(exposed, owners[exposed], (child.name, name), paths))
            owners[exposed] = child.name, name
    if clashes:
        raise NameClash(spec.source, clashes)
    portable = portable_names(owners)
    routes = {exposed: (*owner, portable[exposed]) for exposed, owner in owners.items()}
    return Linked(routes, _facts(snapshot), _instructions(snapshot)), tuple(warnings)


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


def _schema_warnings(path: str, name: str, tool: Mapping[str, Any]) -> list[Problem]:
    """Warn of what makes strict clients drop a tool, or all tools of a server."""
    schema = tool.get("inputSchema")
    if isinstance(schema, dict) and schema.get("type") == "object":
        return []
    what = f'tool \'{name}\' has an inputSchema without "type": "object"'
    return [Problem(path, what, "strict clients refuse it, some with all tools of the server")]


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
