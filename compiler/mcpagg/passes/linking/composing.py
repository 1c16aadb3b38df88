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
        kept = [subtool for subtool in composite.subtools if subtool.server in rows]
        lost = dict.fromkeys(one.server for one in composite.subtools if one.server not in rows)
        for server in lost:
            what = f"'{server}' is not part of this proxy, so its tools are left out"
            warnings.append(Problem(composite.path, what))
        faults += [fault for one in kept for fault in _faults(one, rows, tools, options)]
        if kept and not faults:
            allowed: dict[str, dict[str, None]] = {}
            for one in kept:
                allowed.setdefault(one.server, {})[one.tool] = None
            composed.subtools[composite.name] = {name: [*own] for name, own in allowed.items()}
            composed.tools.append(_tool(composite, kept, tools))
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
    if options.on_drift == "refuse" and not is_offered(name, rows[server]):
        # Drift is found in what is offered; what is not would slip past the guard.
        what = f"'{name}' of '{server}' is hidden, and a hidden tool is not compared"
        return [Problem(subtool.path, what, "offer it, or use another --on-drift")]
    return []


def _tool(composite: Composite, subtools: list[Subtool], tools: Tools) -> dict[str, Any]:
    """Return a composite tool as it is listed."""
    text = [composite.description or HOW_TO_CALL, "# Available subtools"]
    last = None
    for one in subtools:
        if one.server != last:
            text.append(f"## {one.server}")
        last = one.server
        tool = tools[one.server, one.tool]
        about = one.description or str(tool.get("description") or "").strip()
        schema = dumps(tool.get("inputSchema", {}), quote=encode_basestring, separators=(",", ":"))
        text += [f"### {one.tool}", *([about] if about else []), f"inputSchema: {schema}"]
    servers = list(dict.fromkeys(one.server for one in subtools))
    names = list(dict.fromkeys(one.tool for one in subtools))
    properties = {
        "server": {"type": "string", "enum": servers, "description": "The server of the tool"},
        "tool": {"type": "string", "enum": names, "description": "The tool to call"},
        "args": {"type": "object", "description": "The tool's own arguments"},
    }
    return {
        "name": composite.name,
        "description": "\n\n".join(text),
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": ["server", "tool"],
        },
    }
