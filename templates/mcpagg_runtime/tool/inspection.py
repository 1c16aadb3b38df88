"""What the emitted file offers and needs, by its own tables; and how its servers are, once started.

For `--list`, `--env` and `--check`.
"""

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
    from collections.abc import Iterator
    from typing import Any

    from mcpagg_runtime.lists.catalogue import Kind
    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.servers.child import Child
    from mcpagg_runtime.stdio.engine import Engine

# What a listing shows of an item beside its names, where the item has it.
_SHOWN = ("inputSchema", "outputSchema", "arguments")


def offers(plan: Plan) -> Iterator[str]:
    """Say what is offered, server by server: one line an item, with its arguments in short."""
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
    """Return what is offered: each item with its schemas, and the names that it is called by."""
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
        given = [one for one in item["arguments"] or () if type(one) is dict]
        names = [str(one.get("name")) for one in given]
        needed = [one.get("name") for one in given if one.get("required") is True]
    else:
        return ""
    return "(" + ", ".join([name if name in needed else f"{name}?" for name in names]) + ")"


def variables(plan: Plan, folder: str) -> list[dict[str, Any]]:
    """Return each use of a variable: by whom, where, whether it is set or need not be.

    `server` is None for the token that the proxy itself wants over HTTP.
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
    """Return the PATH that a client needs that is started from a desktop, "" if any will do."""
    found = lookups(plan.servers, os.environ, folder, plan.options.env == "minimal")
    return {"PATH": entry_path(found, os.environ), "notes": [*shim_lines(found, os.environ)]}


def desktop_lines(needs: dict[str, Any]) -> list[str]:
    """Return the same for people."""
    entry = f'"env": {{"PATH": {quote(needs["PATH"])}}}'
    path = [f"PATH  a client that is started from a desktop needs {entry}"] if needs["PATH"] else []
    return [*path, *needs["notes"]]


def check_servers(plan: Plan, folder: str) -> dict[str, dict[str, Any]]:
    """Start every server, and return {server: how it is}: see `_health`."""
    proxy = LocalClient(plan, folder, obj(capabilities=obj(dict.fromkeys(RELAYED, "{}"))))
    engine = proxy.engine
    children = engine.core.children.values()
    try:
        for child in children:
            engine.wake(child, proxy.client)
        while not all(child.state == DOWN or _looked_at(child) for child in children):
            sleep(0.01)
    finally:
        proxy.close()
    return {child.name: _health(child, engine) for child in children}


def is_sound(health: dict[str, Any]) -> bool:
    """Whether a server is up, and as it was compiled."""
    return health["state"] != DOWN and not health["drift"]


def health_line(name: str, health: dict[str, Any]) -> str:
    """Return how a server is, for people."""
    if health["state"] == DOWN:
        return f"{name}: down: {health['reason']}"
    drifts = [f"{kind} {text}" for kind, text in health["drift"].items()]
    return f"{name}: {health['state']}, {'; '.join(drifts) or 'as it was compiled'}"


def _looked_at(child: Child) -> bool:
    """Whether a child's lists were compared and are at rest, or will never be at rest."""
    now = monotonic()
    if child.state != READY or not child.lists.compared:
        return bool(child.lists.given_up(now))
    if now > child.lifecycle.ready_at + PATIENCE_SECONDS:
        return True
    return all(one.is_at_rest for one in child.lists)


def _health(child: Child, engine: Engine) -> dict[str, Any]:
    """Return how a child is, for programs; without values of variables."""
    life = child.lifecycle
    drift = {one.kind.name: engine.shown(one.drift) for one in child.lists}
    for one in child.lists:
        if life.is_ready and not one.compared:
            drift[one.kind.name] = "changes too often to be compared"
    started = life.ready_at < FOREVER
    return {
        "state": child.state,
        "reason": engine.shown(life.reason) or None,
        "protocol": engine.shown(life.protocol) or None,
        "drift": {name: text for name, text in drift.items() if text},
        "started_in": round(life.ready_at - life.starting_at, 3) if started else None,
    }
