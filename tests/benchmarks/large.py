"""Large results in the four pairings of eras: time, CPU, and memory that is given back.

The client reads what it gets. The direct call is one of a client in the server's own era, and so is
the one through the relay: the least that a proxy does which sends nothing of a line before its end
has come.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from statistics import median

from bench import FAILURES, Bench
from contenders import BLOB, RELAY
from pipe import FLOOR, Open, Pipe, listed
from processes import cpu, peak, resident
from report import Table

SIZES = {"1 MB": (1_000_000, 8), "20 MB": (20_000_000, 2)}
"""{size: (bytes, calls a turn)}; the last one is that whose memory is reported."""

ERAS = ("legacy", "modern")
TIME_GOALS = {"values": 2.5, "text": 1.5}
"""{kind: the most that a result may take}, as a multiple of the direct call."""

WAYS = [(size, kind) for size in SIZES for kind in TIME_GOALS]

CPU_GOAL = 1.5
"""The most CPU that a result may take, as a multiple of what it takes between legacy peers."""

KEPT_GOAL = 0.5
"""What of a result may stay in the proxy, as a multiple of its size."""

IDLE_SECONDS = 2.5
"""After so long without a large result, its memory has been given back."""


@dataclass(frozen=True)
class Warm:
    """A server that has answered a small call, and what it occupied then."""

    server: Open
    memory: int


def measure(bench: Bench) -> None:
    """Get large results of a server of each era."""
    tables = {}
    for child in ERAS:
        running = opened(bench, child)
        try:
            tables[child] = compare(bench, child, running)
        finally:
            for each in running.values():
                each.server.pipe.close()
    for child, client, (size, kind) in product(ERAS, ERAS, WAYS):
        column = f"{size} {kind} CPU ms"
        taken = tables[child].median(f"mcpagg, {client} client", column)
        least = tables["legacy"].median("mcpagg, legacy client", column)
        ratio = taken / least if taken and least else None
        what = f"CPU of {size}, {kind}, {client} client, {child} server"
        bench.report.goal(what, ratio, "x legacy, legacy", most=CPU_GOAL)


def opened(bench: Bench, child: str) -> dict[str, Warm]:
    """Start all that can stand before a child of an era; a peer is asked as a legacy client."""
    entry = {"command": sys.executable, "args": [BLOB, child]}
    config = bench.workshop.written(child, {"blobs": entry})
    direct = [*FLOOR, BLOB, child]
    commands = {"direct": (child, direct), "relay": (child, [*FLOOR, RELAY, "lines", *direct])}
    proxy = bench.workshop.proxy(config)
    if proxy:
        commands |= {f"mcpagg, {client} client": (client, [*FLOOR, proxy]) for client in ERAS}
    for name, argv in bench.workshop.others(config, bench.workshop.peers).items():
        commands[name] = "legacy", argv
    found = {
        name: bench.attempt(name, partial(warmed, argv, modern=client == "modern"))
        for name, (client, argv) in commands.items()
    }
    return {name: server for name, server in found.items() if server}


def warmed(argv: list[str], *, modern: bool) -> Warm:
    """Start a server, and let it answer a small call."""
    pipe = Pipe(argv)
    try:
        if not modern:
            pipe.initialize()
        server = listed(pipe, "blob", modern=modern)
        server.call(size=64, kind="text")
        return Warm(server, resident(pipe.process.pid))
    except FAILURES:
        pipe.close()
        raise


def compare(bench: Bench, child: str, running: dict[str, Warm]) -> Table:
    """Measure these servers in turns; the first turn makes the results, and does not count."""
    report, about = bench.report, f"{child} server"
    bench.turns(1, running, timed)
    samples = bench.turns(1 if bench.quick else 3, running, timed)
    table = report.add(f"large results, {about}", "direct", samples)
    time.sleep(IDLE_SECONDS)
    memory = report.add(f"memory of 20 MB, {about}", "direct", bench.turns(1, running, occupied))
    for client in ERAS:
        name = f"mcpagg, {client} client"
        for size, kind in WAYS:
            what = f"{size}, {kind}, {client} client, {about}"
            ratio = table.ratio(name, f"{size} {kind} ms")
            report.goal(what, ratio, "x direct", most=TIME_GOALS[kind])
        what = f"memory of 20 MB, {client} client, {about}, kept"
        report.goal(what, memory.median(name, "kept, x"), "x the message", most=KEPT_GOAL)
    return table


def timed(warm: Warm) -> dict[str, float]:
    """Get some results of each size and kind."""
    seen: dict[str, float] = {}
    pid = warm.server.pipe.process.pid
    for name, kind in WAYS:
        size, calls = SIZES[name]
        before = cpu(pid)
        seen[f"{name} {kind} ms"] = median(read(warm.server, size, kind) for _ in range(calls))
        seen[f"{name} {kind} CPU ms"] = 1000 * (cpu(pid) - before) / calls
    return seen


def read(server: Open, size: int, kind: str) -> float:
    """Get a result and read it; return the milliseconds that this took."""
    before = time.perf_counter()
    json.loads(server.answer(size=size, kind=kind))
    return (time.perf_counter() - before) * 1000


def occupied(warm: Warm) -> dict[str, float]:
    """Return what the large results have left, above what the server occupied before."""
    pid = warm.server.pipe.process.pid
    now, most = resident(pid), peak(pid)
    size = SIZES["20 MB"][0]
    return {
        "before MB": warm.memory / 1e6,
        "peak MB": most / 1e6,
        "after MB": now / 1e6,
        "peak, x": (most - warm.memory) / size,
        "kept, x": (now - warm.memory) / size,
    }
