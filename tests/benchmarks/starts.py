"""From the spawn of a server to its first answers, beside a bare interpreter."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from bench import Bench
from contenders import Scene
from pipe import FLOOR, Pipe, listed
from plots import bars
from processes import resident
from report import Table

START_GOALS = (
    (Scene(10), "initialize ms", 1.6),
    (Scene(10, 2), "initialize ms", 1.6),
    (Scene(30), "tools/list ms", 2.0),
)
"""The most that a start may take, as a multiple of the floor."""

GREETINGS = 25
GREETED_GOALS = {"mcpagg": 1.6, "as one server": 1.5, "as one server, digest": 1.5}
"""The most CPU that a start may take which ends after the handshake, as a multiple of the floor."""

FIRST_CALL_GOAL, LATER_CALL_GOAL = 100.0, 2.0
"""How many milliseconds a first call may take longer than that of the child itself.

At once; and a second after the list, as of a client whose model has to think first.
"""
PAUSE_SECONDS = 1.0

WAITING = [*FLOOR, "-c", 'print(\'{"jsonrpc":"2.0","id":1,"result":{}}\', flush=True); input()']
"""A bare interpreter that says when it is up, and waits: the floor of memory."""

BARE = ["bare client"]
"""Stands for what starts every server by itself, without a proxy."""

SCENES = (Scene(1), Scene(10), Scene(30), Scene(1, 2), Scene(10, 2))


def measure(bench: Bench) -> None:
    """Start every server before children that start at once, and before slow ones."""
    tables: dict[Scene, Table] = {}
    for scene in SCENES:
        up = bench.workshop.up_file(scene)

        def turn(argv: list[str], up: Path = up, scene: Scene = scene) -> dict[str, float]:
            if argv == FLOOR:
                return floor()
            if argv == BARE:
                return bare_client(bench.workshop.commands(scene))
            seen = one_start(argv, up, scene.children)
            return seen | later_call(argv) if scene == Scene(1) else seen

        bare = {"bare client": BARE} if scene.children > 1 else {}
        contenders = {"floor": FLOOR, **bare, **bench.workshop.contenders(scene)}
        thorough = 2 if scene.delay else 11
        samples = bench.turns(1 if bench.quick else thorough, contenders, turn)
        tables[scene] = bench.report.add(f"start, {scene}", "floor", samples)
    for scene, metric, most in START_GOALS:
        ratio = tables[scene].ratio("mcpagg", metric)
        bench.report.goal(f"{metric[:-3]}, {scene}", ratio, "x the floor", most=most)
    for scene in (Scene(1), Scene(1, 2)):
        more = tables[scene].more("mcpagg", "direct", "first call ms")
        bench.report.goal(f"first call, {scene}", more, "ms more than direct", most=FIRST_CALL_GOAL)
    more = tables[Scene(1)].more("mcpagg", "direct", "1 s later ms")
    bench.report.goal("first call, 1 s later", more, "ms more than direct", most=LATER_CALL_GOAL)
    greetings(bench)
    for scene, table in tables.items():
        values = table.medians("initialize ms")
        bench.report.plots[f"start-{scene.name}"] = bars(
            f"spawn to initialize, {scene}", "ms", values
        )


def greetings(bench: Bench) -> None:
    """Greet a proxy, and one server of it as itself: the least CPU of all turns counts."""
    proxy = bench.workshop.proxy(bench.workshop.config(Scene(10)))
    if proxy is None:
        return
    digest = [sys.executable, proxy, "--digest"]
    said = subprocess.run(digest, capture_output=True, text=True, check=True)
    face = [*FLOOR, proxy, "--as", "child1"]
    contenders = {
        "floor": [*FLOOR, "-c", "pass"],
        "mcpagg": [*FLOOR, proxy],
        "as one server": face,
        "as one server, digest": [*face, said.stdout.strip()],
    }
    taken = bench.turns(GREETINGS, contenders, greeted)
    least = {name: {"CPU ms": [min(seen["CPU ms"])]} for name, seen in taken.items()}
    table = bench.report.add("CPU until the handshake is answered", "floor", least)
    for name, most in GREETED_GOALS.items():
        ratio = table.ratio(name, "CPU ms")
        bench.report.goal(f"CPU of a handshake, {name}", ratio, "x the floor", most=most)


def greeted(argv: list[str]) -> dict[str, float]:
    """Start a server that its client leaves behind the handshake; what it spent is known then."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, input=json.dumps(hello).encode() + b"\n", capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"CPU ms": spent * 1000}


def one_start(argv: list[str], up: Path, children: int) -> dict[str, float]:
    """Start a server once, up to its first answered call."""
    up.unlink(missing_ok=True)
    with Pipe(argv) as pipe:
        pipe.initialize()
        seen = {"initialize ms": pipe.elapsed() * 1000}
        server = listed(pipe, "echo")
        seen["tools/list ms"] = pipe.elapsed() * 1000
        server.call(text="x")
        seen["first call ms"] = pipe.elapsed() * 1000
        if children > 1:
            seen["all up ms"] = (last_up(up, children) - pipe.started) * 1000
        seen["memory MB"] = resident(pipe.process.pid) / 1e6
    return seen


def bare_client(commands: list[list[str]]) -> dict[str, float]:
    """Start every server at once, as a client does without a proxy, until all have answered."""
    with ExitStack() as stack:
        pipes = [stack.enter_context(Pipe(argv)) for argv in commands]
        for pipe in pipes:
            pipe.initialize()
        seen = {"initialize ms": pipes[0].elapsed() * 1000}
        servers = [listed(pipe, "echo") for pipe in pipes]
        seen["tools/list ms"] = pipes[0].elapsed() * 1000
        servers[-1].call(text="x")
        return seen | {"first call ms": pipes[0].elapsed() * 1000}


def later_call(argv: list[str]) -> dict[str, float]:
    """Start a server once, and call a tool some time after the list."""
    with Pipe(argv) as pipe:
        pipe.initialize()
        server = listed(pipe, "echo")
        time.sleep(PAUSE_SECONDS)
        return {"1 s later ms": server.call(text="x")}


def last_up(up: Path, children: int) -> float:
    """Wait until all children are up; return when the last one was."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        times = up.read_text().splitlines() if up.exists() else []
        if len(times) >= children:
            return max(map(float, times[:children]))
        time.sleep(0.02)
    return float("nan")


def floor() -> dict[str, float]:
    """Start and end the bare interpreter, and look at one that waits."""
    before = time.monotonic()
    subprocess.run([*FLOOR, "-c", "pass"], check=True)
    spent = (time.monotonic() - before) * 1000
    with Pipe(WAITING) as pipe:
        pipe.response()
        memory = resident(pipe.process.pid) / 1e6
    return {
        **dict.fromkeys(("initialize ms", "tools/list ms", "first call ms"), spent),
        "memory MB": memory,
    }
