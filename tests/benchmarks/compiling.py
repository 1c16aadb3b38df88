"""How long a compile takes, beside its slowest server, and one that starts none (`--offline`)."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from bench import Bench
from contenders import Scene, compiler

COUNT = 15
REAL = ("mcp_server_git", "mcp_server_time")
"""Real servers that the development environment installs; each is taken several times."""

OVER_GOAL, OFFLINE_GOAL = 2.0, 0.3
"""Seconds: above the slowest server, and without any."""

SERVER_TIME = re.compile(r"^  .+: .*, ([\d.]+) s$", re.MULTILINE)
"""How the compiler tells how long a server took."""


def measure(bench: Bench, config: Path | None) -> None:
    """Compile a config, by default of fifteen servers; unless quick, once before to warm up."""
    config = config or fifteen(bench)
    output = bench.workshop.folder / "measured.py"
    ways = {
        "compile": [str(config), "-o", str(output)],
        "--offline": ["--offline", "-o", str(output)],
    }
    if not bench.quick:
        bench.turns(1, ways, compiled)
    samples = bench.turns(1 if bench.quick else 2, ways, compiled)
    table = bench.report.add(f"compile, {config.stem}", "compile", samples)
    over = table.median("compile", "s above the slowest server")
    bench.report.goal("compile, warm", over, "s above the slowest server", most=OVER_GOAL)
    offline = table.median("--offline", "s")
    bench.report.goal("compile --offline", offline, "s", most=OFFLINE_GOAL)


def fifteen(bench: Bench) -> Path:
    """Return a config of fifteen servers: real ones where they are installed."""
    found = [name for name in REAL if importlib.util.find_spec(name)]
    if not found:
        bench.report.note(f"none of {', '.join(REAL)} is installed: compiling made-up servers")
        return bench.workshop.config(Scene(COUNT))
    servers = {
        f"server{number}": {"command": sys.executable, "args": ["-m", found[number % len(found)]]}
        for number in range(COUNT)
    }
    return bench.workshop.written(f"{COUNT} servers", servers)


def compiled(arguments: list[str]) -> dict[str, float]:
    """Run the compiler once."""
    # As where it is installed: Python keeps bytecode.
    environ = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = time.monotonic()
    run = subprocess.run(
        [*compiler(), *arguments], capture_output=True, text=True, env=environ, check=False
    )
    took = time.monotonic() - before
    if run.returncode:
        raise ValueError(run.stderr.strip())
    servers = [float(seconds) for seconds in SERVER_TIME.findall(run.stderr)]
    if not servers:
        return {"s": took}
    return {
        "s": took,
        "slowest server s": max(servers),
        "s above the slowest server": took - max(servers),
    }
