"""Compiles configs for tests, through the command line's own entry, and runs what is emitted.

Where the variable MCPAGG_WINDOWS_PYTHON names the command of a Windows Python, `running` takes that
one: see windows/README.md.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from wire import STUB, Wire, initialize, stub_entry

from mcpagg.command.cli import main

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

    The stub is the server "odd"; "good", an ordinary one, stands beside it. A list that differs
    counts sooner than elsewhere, since neither completes its list after the handshake.
    """
    options = folder / "options.json"
    options.write_text(json.dumps(before))
    entry = {"command": STUB[0], "args": [*STUB[1:], f"@{options}"]}
    file = compiled(folder, {"odd": entry, "good": stub_entry()}, *flags)
    options.write_text(json.dumps(after))
    return lowered(file, SETTLE_SECONDS=0.1)


def lowered(file: Path, **bounds: float) -> Path:
    """Set bounds of an emitted file, so that a test reaches them at once, or on no machine."""
    text = file.read_text(encoding="utf-8")
    for name, value in bounds.items():
        text, count = re.subn(rf"(?m)^{name} = .*$", f"{name} = {value}", text)
        assert count == 1
    file.write_text(text, encoding="utf-8")
    return file


def delayed(file: Path, module: str, code: str) -> Path:
    """Have an emitted file run some code when it imports a module of its runtime."""
    text = file.read_text(encoding="utf-8")
    begin = f'    "{module}": r"""\n'
    assert text.count(begin) == 1
    file.write_text(text.replace(begin, begin + code), encoding="utf-8")
    return file


WINDOWS_PYTHON = os.environ.get("MCPAGG_WINDOWS_PYTHON", "")
"""The command that runs a Windows Python on this system; empty where there is none."""

ON_WINDOWS = bool(WINDOWS_PYTHON) or sys.platform == "win32"

SHORT_GRACES = {"STDIN_GRACE_SECONDS": 0.2, "SIGTERM_GRACE_SECONDS": 0.2}
"""Bounds for `lowered`: how long a server that does not end by itself is waited for."""

KILLED = "exited with status 9" if ON_WINDOWS else "was killed by SIGKILL"
"""What is said of a server that ends itself with signal 9."""

went_to_windows: list[Path] = []
"""The emitted files that `running` has run there."""


def posix(why: str) -> pytest.MarkDecorator:
    """Return the mark of a test that Windows cannot pass."""
    return pytest.mark.skipif(ON_WINDOWS, reason=why)


def running(file: Path, *arguments: str, python: str = sys.executable, **options: Any) -> Wire:
    """Run an emitted file."""
    if WINDOWS_PYTHON:
        python = WINDOWS_PYTHON
        file = for_windows(file)
        went_to_windows.append(file)
    return Wire([python, "-I", "-S", file, *arguments], **options)


def for_windows(file: Path) -> Path:
    """Return a copy of an emitted file whose servers are run by the Windows Python, not by this."""
    text = file.read_text(encoding="utf-8")
    copy = file.with_suffix(".windows.py")
    text = text.replace(json.dumps(sys.executable), json.dumps(windows_executable()))
    copy.write_text(text, encoding="utf-8", newline="\n")
    return copy


@cache
def windows_executable() -> str:
    """Return the path of the Windows Python as it knows it itself, with `/`."""
    command = [WINDOWS_PYTHON, "-c", "import sys; print(sys.executable)"]
    ran = subprocess.run(command, input=b"", capture_output=True, check=True)
    return ran.stdout.decode().strip().replace("\\", "/")


def served(file: Path, client: str = "test", **capabilities: Any) -> Wire:
    """Run an emitted file and shake hands with it."""
    wire = running(file)
    try:
        initialize(wire, capabilities=capabilities, client_info={"name": client, "version": "1"})
    except BaseException:
        wire.kill()
        raise
    return wire
