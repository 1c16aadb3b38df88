"""Compiles configs for tests, through the command line's own entry."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wire import Wire, initialize

from mcpagg.cli import main

Servers = Mapping[str, Mapping[str, Any]]


def write_config(folder: Path, servers: Servers) -> Path:
    """Write a config of these servers; return its path."""
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return config


def compiled(folder: Path, servers: Servers, *flags: str) -> Path:
    """Compile these servers; return the emitted file."""
    file = folder / "server.py"
    config = write_config(folder, servers)
    assert main([str(config), "-o", str(file), "--quiet", *flags]) == 0
    return file


def running(file: Path, python: str = sys.executable, **options: Any) -> Wire:
    """Run an emitted file."""
    return Wire([python, "-I", "-S", file], **options)


def served(file: Path, client: str = "test", **capabilities: Any) -> Wire:
    """Run an emitted file and shake hands with it."""
    wire = running(file)
    initialize(wire, capabilities=capabilities, client_info={"name": client, "version": "1"})
    return wire
