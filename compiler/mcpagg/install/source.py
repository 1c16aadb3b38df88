"""The source of what is installed: a config in the standard form, made of the client's entries.

It says of each server how it is started, and what its client withholds of it. No value is in it
that its client keeps. What is written is read again, and must say the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcpagg.passes.config.formats import Number
from mcpagg.passes.config.own import KEY
from mcpagg.passes.config.reading import project_of, read_config
from mcpagg.passes.environment.environment import settle_folders
from mcpagg.passes.environment.relocation import relocated
from mcpagg.problems import CompileError, ConfigError
from mcpagg.spec import ProxySpec, ServerSpec

_TYPES = {"streamable-http": "http", "sse": "sse"}
_AS_WRITTEN = {"env_file": "envFile", "timeout": "tool_timeout_sec"}
_FILTERS = {"expose": "enabledTools", "hide": "disabledTools"}


def for_source(server: ServerSpec, folder: Path, source: Path) -> ServerSpec:
    """Return a server whose paths lead from `folder`, as a source has it that lies elsewhere.

    Raises:
        ValueError: a source cannot say the same.
    """
    settled = settle_folders(ProxySpec(source="", folder=folder, servers=(server,))).servers[0]
    try:
        row = relocated(settled.row(), folder, project_of(source.parent, source.name))
        found = ServerSpec.from_row(server.name, row)
        moved = replace(
            server,
            command=found.command,
            args=found.args,
            env=found.env,
            cwd=found.cwd,
            env_file=found.env_file,
            url=found.url,
            headers=found.headers,
        )
        again = read_source_text(text_of([moved]), source)[0]
    except ConfigError as problem:
        raise ValueError(problem.problems[0].what) from None
    if again.row() != moved.row():
        raise ValueError("it is read in a way that another config cannot say")
    return moved


def text_of(servers: Sequence[ServerSpec], overlays: Mapping[str, Any] = {}) -> bytes:
    """Return the text of a source; `overlays` are as a config has them under our own key."""
    document: dict[str, Any] = {"mcpServers": {server.name: _entry(server) for server in servers}}
    if overlays:
        document[KEY] = {"overlays": overlays}
    return (json.dumps(document, indent=2, ensure_ascii=False, default=_plain) + "\n").encode()


def read_source_text(text: bytes, source: Path) -> tuple[ServerSpec, ...]:
    """Return the servers of a source.

    Raises:
        ConfigError: it cannot be read.
    """
    return read_config(text, source=str(source), folder=source.parent)[0].servers


def recorded_servers(source: Path) -> dict[str, ServerSpec]:
    """Return the servers of a source that is there, none of one that cannot be read."""
    try:
        return {server.name: server for server in read_source_text(source.read_bytes(), source)}
    except (OSError, CompileError):
        return {}


def _entry(server: ServerSpec) -> dict[str, Any]:
    row = server.row()
    entry: dict[str, Any] = {}
    if "url" in row:
        entry = {"type": _TYPES[server.transport], "url": row["url"]}
        entry |= {"headers": row["headers"]} if row["headers"] else {}
    else:
        entry = {"command": row["command"], "args": row["args"]}
        entry |= {"env": row["env"]} if row["env"] else {}
        entry |= {"cwd": row["cwd"]} if "cwd" in row else {}
    entry |= {key: row[name] for name, key in _AS_WRITTEN.items() if name in row}
    entry |= {key: row[name] for name, key in _FILTERS.items() if name in row}
    return entry | _login(server)


def _login(server: ServerSpec) -> dict[str, Any]:
    oauth = server.oauth
    settings = {"clientId": oauth.client_id, "scopes": oauth.scopes}
    settings = {key: value for key, value in settings.items() if value}
    return {"oauth": settings} if settings else {}


def _plain(value: object) -> Any:
    if isinstance(value, Number):
        return value.value
    raise TypeError(type(value).__name__)
