"""Compilations without processes: what the compiler makes of a config and of made-up servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcpagg.compilation import Compilation, ProxyData
from mcpagg.job import Job
from mcpagg.options import Commands, Options, Source
from mcpagg.passes.config import read_config
from mcpagg.passes.emission.approval import Approval
from mcpagg.passes.emission.emission import NOTHING, emit
from mcpagg.passes.environment.relocation import launch_rows
from mcpagg.passes.linking.linking import link
from mcpagg.snapshot import ChildSnapshot, Snapshot

Json = dict[str, Any]


def tool(name: str = "query", **members: Any) -> Json:
    """Return a tool as a server lists it."""
    return {"name": name, "inputSchema": {"type": "object"}, **members}


def compilation(
    servers: dict[str, Json],
    *tools: Json,
    frozen: Mapping[str, Sequence[str]] = NOTHING,
    **options: Any,
) -> Compilation:
    """Compile a config whose servers, by their entries' names, all have these tools.

    `frozen` is as in `of_snapshot`.
    """
    entries = {name: {"command": "python3", **entry} for name, entry in servers.items()}
    info = {"name": "Server", "version": "1.2.3"}
    children = (ChildSnapshot(name, "2025-11-25", info, tools=tools) for name in servers)
    config = json.dumps({"mcpServers": entries}).encode("utf-8")
    return of_snapshot(config, Snapshot(tuple(children)), Options(**options), frozen=frozen)


def of_snapshot(
    config: bytes,
    snapshot: Snapshot,
    options: Options,
    approve: Callable[[str], Approval] = lambda digest: {},
    frozen: Mapping[str, Sequence[str]] = NOTHING,
) -> Compilation:
    """Compile a config whose servers have this snapshot; `frozen` is the table FROZEN."""
    commands = Commands(
        "mcpagg-compile mcp.json -o server.py", "mcpagg-compile --check -o server.py"
    )
    source = Source(config, "mcp.json", Path("/project"), options)
    job = Job(source=source, environ={}, commands=commands)
    spec, _ = read_config(
        config,
        source=source.name,
        folder=source.folder,
        allow_secrets=options.allow_secrets,
    )
    rows = launch_rows(spec, spec.folder)
    linked, _ = link(spec, rows, snapshot, options)
    text = emit(
        name=job.name,
        source=source.name,
        commands=commands,
        rows=rows,
        snapshot=snapshot,
        linked=linked,
        options=options,
        http=options.http(spec),
        approve=approve,
        frozen=frozen,
    )
    return Compilation(job, text, ProxyData(spec, rows, snapshot, linked, snapshot, frozen))
