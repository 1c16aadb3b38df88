"""What a server uses that has nothing to do: memory, CPU and wake-ups, with ten children up."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench import Bench
from contenders import Scene
from pipe import Pipe
from processes import cpu, resident, threads, wakeups
from starts import WAITING, last_up

SCENE = Scene(10)
MEMORY_GOAL = 18.0
"""Megabytes."""


def measure(bench: Bench) -> None:
    """Start all servers, wait until their children are up, and look at them for a while."""
    settling, window = (1.0, 4.0) if bench.quick else (3.0, 20.0)
    with ExitStack() as stack:
        waiting = stack.enter_context(Pipe(WAITING))
        waiting.response()
        pids = {"floor": waiting.process.pid}
        up = bench.workshop.up_file(SCENE)
        for name, argv in bench.workshop.contenders(SCENE).items():
            up.unlink(missing_ok=True)
            for server in bench.opened({name: argv}).values():
                stack.enter_context(server.pipe)
                pids[name] = server.pipe.process.pid
                last_up(up, SCENE.children)
        time.sleep(settling)
        before = bench.turns(1, pids, used)
        time.sleep(window)
        after = bench.turns(1, {name: pids[name] for name in before}, used)
        samples = bench.turns(1, {name: pids[name] for name in after}, occupied)
    for name, row in samples.items():
        for metric, [late] in after[name].items():
            row[f"{metric} a minute"] = [(late - before[name][metric][0]) * 60 / window]
    table = bench.report.add(f"idle, {SCENE}", "floor", samples)
    goals = (("memory MB", MEMORY_GOAL), ("CPU ms a minute", 0), ("wake-ups a minute", 0))
    for metric, most in goals:
        what, _, unit = metric.partition(" ")
        value = table.median("mcpagg", metric)
        bench.report.goal(f"idle, {SCENE}, {what}", value, unit, most=most)


def used(pid: int) -> dict[str, float]:
    """Return what a server has used up to now."""
    return {"CPU ms": cpu(pid) * 1000, "wake-ups": wakeups(pid)}


def occupied(pid: int) -> dict[str, float]:
    """Return what a server has now."""
    return {"memory MB": resident(pid) / 1e6, "threads": threads(pid)}
