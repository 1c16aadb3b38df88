"""Compiles configs for tests, through the command line's own entry."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wire import STUB, Wire, initialize, stub_entry

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


def swapped(folder: Path, before: dict[str, Any], after: dict[str, Any], *flags: str) -> Path:
    """Compile against a stub that is `before`, and let it be `after` when it runs.

    The stub is the server "odd"; "good", an ordinary one, stands beside it.
    """
    options = folder / "options.json"
    options.write_text(json.dumps(before))
    entry = {"command": STUB[0], "args": [*STUB[1:], f"@{options}"]}
    file = compiled(folder, {"odd": entry, "good": stub_entry()}, *flags)
    options.write_text(json.dumps(after))
    return file


def lowered(file: Path, **bounds: float) -> Path:
    """Set bounds of an emitted file, so that a test reaches them at once, or on no machine."""
    text = file.read_text(encoding="utf-8")
    for name, value in bounds.items():
        text, count = re.subn(rf"(?m)^{name} = .*$", f"{name} = {value}", text)
        assert count == 1
    file.write_text(text, encoding="utf-8")
    return file


def running(file: Path, *arguments: str, python: str = sys.executable, **options: Any) -> Wire:
    """Run an emitted file."""
    return Wire([python, "-I", "-S", file, *arguments], **options)


def served(file: Path, client: str = "test", **capabilities: Any) -> Wire:
    """Run an emitted file and shake hands with it."""
    wire = running(file)
    try:
        initialize(wire, capabilities=capabilities, client_info={"name": client, "version": "1"})
    except BaseException:
        wire.kill()
        raise
    return wire
