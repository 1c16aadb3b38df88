"""For `--list`, `--env` and `--check`: what the tables offer and need, and health of servers."""

from __future__ import annotations

import json
import os
from time import monotonic, sleep
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.needs import missing_variables, uses
from mcpagg_runtime.launch.variables import references
from mcpagg_runtime.lists.catalogue import KINDS, TOOLS
from mcpagg_runtime.lists.entries import overlaid, patches_of
from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.servers.lifecycle import DOWN, READY
from mcpagg_runtime.servers.lists import PATIENCE_SECONDS
from mcpagg_runtime.start.greeting import RELAYED
from mcpagg_runtime.start.values import quote
from mcpagg_runtime.tool.desktop import entry_path, lookups, shim_lines
from mcpagg_runtime.tool.local_client import LocalClient

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from mcpagg_runtime.lists.catalogue import Kind
    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.servers.child import Child
    from mcpagg_runtime.stdio.engine import Engine

# Members of an item that a listing shows beside its names.
_SHOWN = ("inputSchema", "outputSchema", "arguments")


def listing_lines(plan: Plan) -> Iterator[str]:
    """Yield a line for each server and each of its items, with arguments in short."""
    for server in plan.servers:
        counts, lines = [], []
        for kind in KINDS:
            offered = list(offered_by(plan, server, kind))
            if offered:
                counts.append(
                    f"{len(offered)} {kind.name[:-1] if len(offered) == 1 else kind.name}"
                )
            for exposed, names, item in offered:
                shown = names[1] if names and plan.options.names == "portable" else exposed
                text = str(item.get("description") or "").strip()
                first = text.splitlines()[0] if text else ""
                lines.append(f"  {shown}{_in_short(item)}  {first}".rstrip())
        yield f"{server}: {', '.join(counts) or 'nothing'}"
        yield from lines
    for name, allowed in plan.subtools.items():
        calls = [f"{server}/{tool}" for server, tools in allowed.items() for tool in tools]
        yield f"{name}: a composite tool: {', '.join(calls)}"


def listing(plan: Plan) -> dict[str, Any]:
    """Return all items with their schemas and the names by which they can be called."""
    servers: dict[str, dict[str, Any]] = {server: {} for server in plan.servers}
    for server, found in servers.items():
        for kind in KINDS:
            for exposed, names, item in offered_by(plan, server, kind):
                entry = {kind.key: exposed, "description": item.get("description")}
                if names:
                    entry.update(original=names[0], portable=names[1])
                entry.update({member: item[member] for member in _SHOWN if member in item})
                found.setdefault(kind.name, []).append(entry)
    return {
        "name": plan.name,
        "version": plan.version,
        "servers": servers,
        "composites": {name: dict(allowed) for name, allowed in plan.subtools.items()},
    }


def offered_by(
    plan: Plan, server: str, kind: Kind
) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    """Yield (exposed name or URI, (own name, portable name) or (), item) of a server."""
    items = json.loads(plan.snapshot[server].get(kind.name, "[]"))
    known = {item[kind.key]: item for item in items}
    if kind is TOOLS and plan.overlays:
        for (owner, tool), patch in patches_of(plan.overlays).items():
            if owner == server:
                known[tool] = json.loads(overlaid(json.dumps(known[tool]), patch))
    for exposed, (owner, *names) in plan.routes[kind.name].items():
        if owner == server:
            item = known[(names or [exposed])[0]]
            yield exposed, tuple(names) if len(names) > 1 else (), item


def _in_short(item: dict[str, Any]) -> str:
    """Return the arguments of a tool or a prompt as `(needed, optional?)`."""
    if "inputSchema" in item:
        schema = item["inputSchema"]
        properties, required = schema.get("properties"), schema.get("required")
        names = list(properties) if type(properties) is dict else []
        needed = required if type(required) is list else []
    elif "arguments" in item:
        given = [entry for entry in item["arguments"] or () if type(entry) is dict]
        names = [str(entry.get("name")) for entry in given]
        needed = [entry.get("name") for entry in given if entry.get("required") is True]
    else:
        return ""
    return "(" + ", ".join([name if name in needed else f"{name}?" for name in names]) + ")"


def variables(plan: Plan, folder: str) -> list[dict[str, Any]]:
    """Return each use of a variable: its server and place, whether it is set or has a default.

    `server` is None for the token that the proxy itself needs over HTTP.
    """
    missing = missing_variables(plan.servers, os.environ, folder)
    found = []
    for server, row in plan.servers.items():
        lacking = missing[server].missing if server in missing else []
        for location, name, default in uses(row):
            in_file = "env_file" in row and default is None and (location, name) not in lacking
            use = {"name": name, "set": name in os.environ or in_file}
            use |= {"has_default": default is not None, "server": server, "place": str(location)}
            found.append(use)
    for name, default in references((plan.options.http or {}).get("token") or ""):
        use = {"name": name, "set": name in os.environ, "has_default": default is not None}
        found.append({**use, "server": None, "place": "serverTransport.auth.token"})
    return found


def variable_line(use: dict[str, Any]) -> str:
    """Return one use of a variable, for people."""
    state = "set" if use["set"] else "not set"
    if use["has_default"] and not use["set"]:
        state = "not set, has a default"
    owner = "" if use["server"] is None else f"{use['server']}: "
    return f"{use['name']}  {state}  ({owner}{use['place']})"


def desktop_needs(plan: Plan, folder: str) -> dict[str, Any]:
    """Return the PATH that a client needs if it is started from a desktop, "" if any will do."""
    found = lookups(plan.servers, os.environ, folder, plan.options.env == "minimal")
    return {"PATH": entry_path(found, os.environ), "notes": [*shim_lines(found, os.environ)]}


def desktop_lines(needs: dict[str, Any]) -> list[str]:
    """Return the same for people."""
    entry = f'"env": {{"PATH": {quote(needs["PATH"])}}}'
    path = [f"PATH  a client that is started from a desktop needs {entry}"] if needs["PATH"] else []
    return [*path, *needs["notes"]]


def check_servers(plan: Plan, folder: str, names: Collection[str]) -> dict[str, dict[str, Any]]:
    """Start these servers of a plan, and return {server: its health}: see `_health`."""
    proxy = LocalClient(plan, folder, obj(capabilities=obj(dict.fromkeys(RELAYED, "{}"))))
    engine = proxy.engine
    children = [child for child in engine.core.children.values() if child.name in names]
    try:
        for child in children:
            engine.wake(child, proxy.client)
        while not all(child.state == DOWN or _is_checked(child) for child in children):
            sleep(0.01)
    finally:
        proxy.close()
    return {child.name: _health(child, engine) for child in children}


def is_sound(health: dict[str, Any]) -> bool:
    """Whether a server is up and has not changed since it was compiled."""
    return health["state"] != DOWN and not health["drift"]


def health_line(name: str, health: dict[str, Any]) -> str:
    """Return the health of a server, for people."""
    if health["state"] == DOWN:
        return f"{name}: down: {health['reason']}"
    drifts = [f"{kind} {text}" for kind, text in health["drift"].items()]
    return f"{name}: {health['state']}, {'; '.join(drifts) or 'as it was compiled'}"


def _is_checked(child: Child) -> bool:
    """Whether a child's lists were compared and are stable, or will not become so."""
    now = monotonic()
    if child.state != READY or not child.lists.compared:
        return bool(child.lists.given_up(now))
    if now > child.lifecycle.ready_at + PATIENCE_SECONDS:
        return True
    return all(reader.is_at_rest for reader in child.lists)


def _health(child: Child, engine: Engine) -> dict[str, Any]:
    """Return the health of a child, for programs; values of variables are redacted."""
    lifecycle = child.lifecycle
    drift = {reader.kind.name: engine.shown(reader.drift) for reader in child.lists}
    for reader in child.lists:
        if lifecycle.is_ready and not reader.compared:
            drift[reader.kind.name] = "changes too often to be compared"
    started = lifecycle.ready_at < FOREVER
    return {
        "state": child.state,
        "reason": engine.shown(lifecycle.reason) or None,
        "protocol": engine.shown(lifecycle.protocol) or None,
        "drift": {name: text for name, text in drift.items() if text},
        "changes": {
            reader.kind.name: {engine.shown(name): found for name, found in reader.changes.items()}
            for reader in child.lists
            if reader.changes
        },
        "started_in": round(lifecycle.ready_at - lifecycle.starting_at, 3) if started else None,
    }
