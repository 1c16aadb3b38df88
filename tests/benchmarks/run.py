"""Measure proxies against the bare child and the bare interpreter, and print tables.

    python tests/benchmarks/run.py [--quick] [--json FILE] [--peer NAME='command line {config}']…

Every number is the median of runs that take turns, so that a noisy machine is noisy to everybody;
what counts are the ratios. The floor is a bare `python3 -I -S -c pass`, from start to exit, and for
memory the same interpreter waiting; `direct` is the child without a proxy. A peer is any MCP server
on stdio with a tool that ends in `echo`; `{config}` becomes the path of a Claude-style config. A
start is counted from the spawn; "all up" is when the last child was told `initialized`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple, TypeVar

from contenders import Scene, Workshop
from pipe import FLOOR, GoneError, Pipe, resident
from report import Report, Samples, Table

SIZES = {"100 B": (100, 40), "10 KB": (10_000, 20), "1 MB": (1_000_000, 3)}  # bytes, calls a turn
OUTSTANDING = 16
FAILURES = (GoneError, OSError, KeyError, IndexError, ValueError)
"""How a server shows that it is not up to a measurement: it goes, or its answer is not one."""

Contender = TypeVar("Contender")
Result = TypeVar("Result")


class Open(NamedTuple):
    """A server that has shaken hands, and its tool to call."""

    pipe: Pipe
    tool: str

    def call(self, text: str) -> float:
        """Call the tool; return the milliseconds that it took."""
        before = time.perf_counter()
        self.pipe.request("tools/call", {"name": self.tool, "arguments": {"text": text}})
        return (time.perf_counter() - before) * 1000


# Start

START_GOALS = ((Scene(10), "initialize ms", 1.6), (Scene(30), "tools/list ms", 2.0))
"""The most that a start may take, as a multiple of the floor."""

FIRST_CALL_GOAL = 25.0
"""How many milliseconds a first call may take longer than that of the child itself."""


def measure_starts(workshop: Workshop, report: Report, quick: bool) -> None:
    """Start every server before 1, 10 and 30 children that take 0 and 2 seconds to start."""
    scenes = [Scene(count, delay) for delay in (0, 2) for count in (1, 10, 30)]
    if quick:
        scenes = [Scene(1), Scene(10), Scene(30), Scene(1, 2)]
    tables: dict[Scene, Table] = {}
    for scene in scenes:
        up = workshop.up_file(scene)

        def turn(
            argv: list[str], up: Path = up, children: int = scene.children
        ) -> dict[str, float]:
            return one_start(argv, up, children) if argv != FLOOR else floor()

        contenders = {"floor": FLOOR, **workshop.contenders(scene)}
        rounds = 2 if quick else 5 if scene.delay else 9
        samples = take_turns(rounds, contenders, turn, report)
        tables[scene] = report.add(f"start, {scene}", "floor", samples)
    for scene, metric, most in START_GOALS:
        ratio = tables[scene].ratio("mcpagg", metric)
        report.goal(f"{metric[:-3]}, {scene}", ratio, most, "x the floor")
    for scene in (Scene(1), Scene(1, 2)):
        through, direct = (tables[scene].median(n, "first call ms") for n in ("mcpagg", "direct"))
        more = through - direct if through is not None and direct is not None else None
        report.goal(f"first call, {scene}", more, FIRST_CALL_GOAL, "ms more than direct")


def one_start(argv: list[str], up: Path, children: int) -> dict[str, float]:
    """Start a server once, up to its first answered call."""
    up.unlink(missing_ok=True)
    with Pipe(argv) as pipe:
        pipe.initialize()
        seen = {"initialize ms": pipe.elapsed() * 1000}
        tool = pipe.echo_tool()
        seen["tools/list ms"] = pipe.elapsed() * 1000
        Open(pipe, tool).call("x")
        seen["first call ms"] = pipe.elapsed() * 1000
        if children > 1:
            seen["all up ms"] = (last_up(up, children) - pipe.started) * 1000
        seen["memory MB"] = resident(pipe.process.pid) / 1e6
    return seen


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
    program = "print('{\"id\":1}', flush=True); input()"
    with Pipe([*FLOOR, "-c", program]) as pipe:
        pipe.response()
        memory = resident(pipe.process.pid) / 1e6
    return {
        **dict.fromkeys(("initialize ms", "tools/list ms", "first call ms"), spent),
        "memory MB": memory,
    }


# Calls


def measure_calls(workshop: Workshop, report: Report, quick: bool) -> None:
    """Call one child through every server: one after another, and many at once."""
    rounds = 3 if quick else 9
    running: dict[str, Open] = {}
    try:
        for name, argv in workshop.contenders(Scene(1)).items():
            server = attempt(report, name, partial(opened, argv))
            if server:
                running[name] = server
        samples = take_turns(rounds, running, sequential, report)
        report.add("a call, one after another, ms", "direct", samples, difference=True)
        samples = take_turns(rounds, running, burst, report)
        report.add(f"calls of 100 B, {OUTSTANDING} outstanding", "direct", samples)
        samples = take_turns(1, running, memory_after, report)
        report.add("memory after these calls", "direct", samples)
    finally:
        for each in running.values():
            each.pipe.close()


def opened(argv: list[str]) -> Open:
    """Start a server and call it once, so that its child is up."""
    pipe = Pipe(argv)
    try:
        pipe.initialize()
        server = Open(pipe, pipe.echo_tool())
        server.call("x")
    except FAILURES:
        pipe.close()
        raise
    return server


def sequential(server: Open) -> dict[str, float]:
    """Some calls of each size."""
    return {
        size: median(server.call("x" * length) for _ in range(calls))
        for size, (length, calls) in SIZES.items()
    }


def burst(server: Open, calls: int = 2000) -> dict[str, float]:
    """Keep a number of calls outstanding."""
    params = {"name": server.tool, "arguments": {"text": "x" * 100}}
    sent: dict[int, float] = {}
    took: list[float] = []

    def send() -> None:
        now = time.perf_counter()
        sent[server.pipe.send("tools/call", params)] = now

    start = time.perf_counter()
    for _ in range(OUTSTANDING):
        send()
    while sent:
        request_id, _ = server.pipe.response()
        took.append(time.perf_counter() - sent.pop(request_id))
        if len(took) + len(sent) < calls:
            send()
    rate = calls / (time.perf_counter() - start)
    return {"calls/s": rate, "p99 ms": quantiles(took, n=100)[98] * 1000}


def memory_after(server: Open) -> dict[str, float]:
    """What the server occupies now."""
    return {"memory MB": resident(server.pipe.process.pid) / 1e6}


# All of it


def take_turns(
    rounds: int,
    contenders: Mapping[str, Contender],
    measure: Callable[[Contender], dict[str, float]],
    report: Report,
) -> Samples:
    """Measure all contenders in turn, again and again; one that fails is out, with a note."""
    samples: Samples = {name: {} for name in contenders}
    for _ in range(rounds):
        for name in list(samples):
            seen = attempt(report, name, partial(measure, contenders[name]))
            if seen is None:
                del samples[name]
                continue
            for metric, value in seen.items():
                samples[name].setdefault(metric, []).append(value)
    return samples


def attempt(report: Report, name: str, action: Callable[[], Result]) -> Result | None:
    """Return what the action returns; None, and a note, if the server fails."""
    try:
        return action()
    except FAILURES as problem:
        report.note(f"{name}: {type(problem).__name__} {problem}".strip())
        return None


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer scenes and rounds")
    parser.add_argument("--only", choices=["start", "calls"], help="one half of the measurements")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all samples, for machines")
    options = parser.parse_args()
    peers = dict(peer.split("=", 1) for peer in options.peer)
    report = Report(f"Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder), peers, report.note)
        if options.only != "calls":
            measure_starts(workshop, report, options.quick)
        if options.only != "start":
            measure_calls(workshop, report, options.quick)
    if options.json:
        options.json.write_text(json.dumps(report.data(), indent=2) + "\n")
    sys.exit(0 if report.tables else 1)


if __name__ == "__main__":
    main()
