"""Composite tools: what is listed for each, and what it may call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from typing import Any

from mcpagg.jsontext import dumps
from mcpagg.options import Options
from mcpagg.problems import ConfigError, Problem
from mcpagg.snapshot import Snapshot
from mcpagg.spec import Composite, ProxySpec, Subtool
from mcpagg_runtime.lists.listing import is_offered

Tools = Mapping[tuple[str, str], Mapping[str, Any]]

HOW_TO_CALL = (
    "Calls one of the tools below. Name its server and the tool, and give the tool's own arguments"
    ' as `args`: {"server": "SERVER", "tool": "TOOL", "args": {}}'
)


@dataclass(frozen=True, slots=True)
class Composed:
    """The composite tools of a proxy: as they are listed, and {name: {server: its tools}}."""

    tools: list[dict[str, Any]] = field(default_factory=list)
    subtools: dict[str, dict[str, list[str]]] = field(default_factory=dict)


def compose(
    spec: ProxySpec, rows: Mapping[str, Mapping[str, Any]], snapshot: Snapshot, options: Options
) -> tuple[Composed, list[Problem]]:
    """Build the composite tools from the snapshot; return them, and warnings.

    Subtools of a server that is not part of the proxy (switched off, skipped, failed) are left out.

    Raises:
        ConfigError: with every subtool that its server does not have.
    """
    tools = {
        (child.name, tool["name"]): tool for child in snapshot.children for tool in child.tools
    }
    composed, warnings, faults = Composed(), [], []
    for composite in spec.composites:
        subtools = [subtool for subtool in composite.subtools if subtool.server in rows]
        servers = dict.fromkeys(subtool.server for subtool in composite.subtools)
        for server in (server for server in servers if server not in rows):
            what = f"'{server}' is not part of this proxy, so its tools are left out"
            warnings.append(Problem(composite.path, what))
        for subtool in subtools:
            faults += _faults(subtool, rows, tools, options)
        if subtools and not faults:
            allowed: dict[str, dict[str, None]] = {}
            for subtool in subtools:
                allowed.setdefault(subtool.server, {})[subtool.tool] = None
            composed.subtools[composite.name] = {name: [*own] for name, own in allowed.items()}
            composed.tools.append(_tool(composite, subtools, tools))
    if faults:
        raise ConfigError(spec.source, faults)
    return composed, warnings


def _faults(
    subtool: Subtool, rows: Mapping[str, Mapping[str, Any]], tools: Tools, options: Options
) -> list[Problem]:
    server, name = subtool.server, subtool.tool
    if (server, name) not in tools:
        has = ", ".join(tool for owner, tool in tools if owner == server) or "none"
        return [Problem(subtool.path, f"'{server}' has no tool '{name}'", f"it has {has}")]
    if options.drift == "refuse" and not is_offered(name, rows[server]):
        # Drift is found in what is offered; what is not would slip past the guard.
        what = f"'{name}' of '{server}' is hidden, and a hidden tool is not compared"
        return [Problem(subtool.path, what, "offer it, or use another --on-drift")]
    return []


def _tool(composite: Composite, subtools: list[Subtool], tools: Tools) -> dict[str, Any]:
    """Return a composite tool as it is listed."""
    text = [composite.description or HOW_TO_CALL, "# Available subtools"]
    last = None
    for subtool in subtools:
        if subtool.server != last:
            text.append(f"## {subtool.server}")
        last = subtool.server
        tool = tools[subtool.server, subtool.tool]
        about = subtool.description or str(tool.get("description") or "").strip()
        schema = dumps(tool.get("inputSchema", {}), quote=encode_basestring, separators=(",", ":"))
        text += [f"### {subtool.tool}", *([about] if about else []), f"inputSchema: {schema}"]
    servers = list(dict.fromkeys(subtool.server for subtool in subtools))
    names = list(dict.fromkeys(subtool.tool for subtool in subtools))
    properties = {
        "server": {"type": "string", "enum": servers, "description": "The server of the tool"},
        "tool": {"type": "string", "enum": names, "description": "The tool to call"},
        "args": {"type": "object", "description": "The tool's own arguments"},
    }
    return {
        "name": composite.name,
        "description": "\n\n".join(text),
        "inputSchema": {"type": "object", "properties": properties, "required": ["server", "tool"]},
    }
