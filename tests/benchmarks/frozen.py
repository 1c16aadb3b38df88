"""What freezing costs a first start, and what it saves each later one, of real servers."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import Bench
from pipe import FLOOR, Pipe

from mcpagg.passes.emission.recorded import read_contents

SERVERS: Mapping[str, Sequence[str]] = {
    "everything": ("npx", "-y", "@modelcontextprotocol/server-everything"),
    "filesystem": ("npx", "-y", "@modelcontextprotocol/server-filesystem", "."),
    "memory": ("npx", "-y", "@modelcontextprotocol/server-memory"),
    "thinking": ("npx", "-y", "@modelcontextprotocol/server-sequential-thinking"),
    "playwright": ("npx", "-y", "@playwright/mcp"),
    "context7": ("npx", "-y", "@upstash/context7-mcp"),
    "time": ("uvx", "mcp-server-time"),
    "git": ("uvx", "mcp-server-git"),
    "fetch": ("uvx", "mcp-server-fetch"),
    # It was written for the first major version of its SDK, and does not say so.
    "sqlite": ("uvx", "--with", "mcp<2", "mcp-server-sqlite", "--db-path", ":memory:"),
    "duckduckgo": ("uvx", "duckduckgo-mcp-server"),
    "wikipedia": ("uvx", "wikipedia-mcp"),
}
"""The command line of each, as configs have it; none needs a key."""

FIRST, SECOND = "first start ms", "second start ms"
FIRST_GOAL, SECOND_GOAL = 1.2, 400.0
"""A first start may take so many times that of npx or uvx; a second one is so many ms faster."""


def measure(bench: Bench) -> None:
    """Start each server on empty caches, and again, as configured and frozen in turn."""
    for name, command in SERVERS.items():
        config = bench.workshop.written(name, {name: {"command": command[0], "args": command[1:]}})
        with tempfile.TemporaryDirectory(dir=bench.workshop.folder) as caches:
            file = bench.workshop.proxy(config, "--freeze", env=_environment(caches))
        if file is None:
            continue
        usual, frozen = f"{name}, {command[0]}", f"{name}, frozen"
        contenders = {usual: [*command], frozen: [*FLOOR, file]}
        samples = bench.turns(1 if bench.quick else 3, contenders, _two_starts)
        if frozen in samples:
            samples[frozen]["KB in FILE"] = [_size(Path(file), name) / 1000]
        table = bench.report.add(f"freeze, {name}", usual, samples)
        ratio, less = table.ratio(frozen, FIRST), table.more(usual, frozen, SECOND)
        bench.report.goal(f"first start, {name}", ratio, f"x {command[0]}", most=FIRST_GOAL)
        bench.report.goal(f"second start, {name}", less, "ms less", least=SECOND_GOAL)


def _environment(caches: str) -> dict[str, str]:
    """Return the environment of a machine whose caches, ours included, are in a folder."""
    env = {
        **os.environ,
        "XDG_CACHE_HOME": caches,
        "UV_CACHE_DIR": os.path.join(caches, "uv"),
        "npm_config_cache": os.path.join(caches, "npm"),
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # as where it is installed
    return env


def _two_starts(argv: list[str]) -> dict[str, float]:
    """Start a server twice, where there is nothing of it before."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as caches:
        env = _environment(caches)
        return {FIRST: _started(argv, env), SECOND: _started(argv, env)}


def _started(argv: list[str], env: dict[str, str]) -> float:
    """Start a server; return the milliseconds until it has answered a call.

    The call lacks an argument where a tool needs one, so that it does nothing.
    """
    with Pipe(argv, env=env) as pipe:
        pipe.initialize()
        found: Any = json.loads(pipe.request("tools/list"))
        tools: list[dict[str, Any]] = found["result"]["tools"]
        needy = (tool for tool in tools if tool["inputSchema"].get("required"))
        pipe.request("tools/call", {"name": next(needy, tools[0])["name"], "arguments": {}})
        return pipe.elapsed() * 1000


def _size(file: Path, name: str) -> int:
    """Return how much of a file its lines of a server are."""
    return sum(len(json.dumps(row)) for row in read_contents(file).frozen[name])
