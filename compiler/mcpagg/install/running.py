"""Whether a client is running that would write its config anew from what it has in memory.

Two are known to: Claude Desktop keeps its config as its own store, and what was edited meanwhile is
lost with its next write (anthropics/claude-code#90101, #85005); Claude Code does so with
`~/.claude.json` (#24578), and not with a project's `.mcp.json`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from mcpagg.install.places import Scope

_WRITERS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "claude-desktop": (
        "claude_desktop_config.json",
        ("claude", "claude-desktop"),
        "Claude Desktop",
    ),
    "claude-code": (".claude.json", ("claude",), "Claude Code"),
}
"""Client → the file that it writes anew, its programs in lower case, what people call it."""
_SECONDS = 10.0


def writer_of(scope: Scope, environ: Mapping[str, str], platform: str) -> str:
    """Return the name of a running client that would overwrite the file of a scope, "" for none."""
    file, programs, shown = _WRITERS.get(scope.client, ("", (), ""))
    if scope.file.name != file:
        return ""
    names = _own_programs(environ) if platform == "linux" else _programs(platform)
    return shown if any(name in programs for name in names) else ""


def _own_programs(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the programs that run with this user's home, which the configs are of."""
    home = f"HOME={environ.get('HOME', '')}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if home in (process / "environ").read_bytes().split(b"\0"):
                yield (process / "comm").read_text("utf-8", "replace").strip().lower()
                yield _name((process / "cmdline").read_text("utf-8", "replace").partition("\0")[0])


def _programs(platform: str) -> Iterator[str]:
    """Yield the programs that run, as far as the system tells."""
    windows = platform == "win32"
    command = ["tasklist", "/fo", "csv", "/nh"] if windows else ["ps", "-axo", "comm="]
    with suppress(OSError, subprocess.SubprocessError):
        ran = subprocess.run(  # noqa: S603 - a program of the system
            command, capture_output=True, check=True, timeout=_SECONDS
        )
        for line in ran.stdout.decode("utf-8", "replace").splitlines():
            yield _name(line.partition(",")[0].strip('"') if windows else line.strip())


def _name(program: str) -> str:
    return os.path.basename(program.replace("\\", "/")).lower().removesuffix(".exe")
