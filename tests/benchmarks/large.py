"""Large structured results in the four pairings of eras: time, CPU, and memory that is given back.

The direct call is one of a client in the server's own era, and so is the one through the relay:
the least that a proxy does which sends nothing of a line before its end has come.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from statistics import median

from bench import FAILURES, Bench
from contenders import BLOB, RELAY
from pipe import FLOOR, Open, Pipe, listed
from processes import cpu, peak, resident

SIZES = {"1 MB": (1_000_000, 8), "20 MB": (20_000_000, 2)}
"""{size: (bytes, calls a turn)}; the last one is that whose memory is reported."""

ERAS = ("legacy", "modern")
TIME_GOAL = 1.3
"""The most that a result may take, as a multiple of the direct call."""

PEAK_GOAL, KEPT_GOAL = 2.0, 0.1
"""What a result may occupy in the proxy, and what may stay, as multiples of its size."""


@dataclass(frozen=True)
class Warm:
    """A server that has answered a small call, and what it occupied then."""

    server: Open
    memory: int


def measure(bench: Bench) -> None:
    """Get large results of a server of each era."""
    for child in ERAS:
        running = opened(bench, child)
        try:
            compare(bench, child, running)
        finally:
            for each in running.values():
                each.server.pipe.close()


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
        server.call(size=64)
        return Warm(server, resident(pipe.process.pid))
    except FAILURES:
        pipe.close()
        raise


def compare(bench: Bench, child: str, running: dict[str, Warm]) -> None:
    """Measure these servers in turns; the first turn makes the results, and does not count."""
    report, about = bench.report, f"{child} server"
    bench.turns(1, running, timed)
    samples = bench.turns(1 if bench.quick else 3, running, timed)
    table = report.add(f"large results, {about}", "direct", samples)
    memory = report.add(f"memory of 20 MB, {about}", "direct", bench.turns(1, running, occupied))
    for client in ERAS:
        name = f"mcpagg, {client} client"
        for size in SIZES:
            what = f"{size}, {client} client, {about}"
            report.goal(what, table.ratio(name, f"{size} ms"), "x direct", most=TIME_GOAL)
        what = f"memory of 20 MB, {client} client, {about}"
        unit = "x the message"
        report.goal(f"{what}, peak", memory.median(name, "peak, x"), unit, most=PEAK_GOAL)
        report.goal(f"{what}, kept", memory.median(name, "kept, x"), unit, most=KEPT_GOAL)


def timed(warm: Warm) -> dict[str, float]:
    """Get some results of each size."""
    seen: dict[str, float] = {}
    pid = warm.server.pipe.process.pid
    for name, (size, calls) in SIZES.items():
        before = cpu(pid)
        seen[f"{name} ms"] = median(warm.server.call(size=size) for _ in range(calls))
        seen[f"{name} CPU ms"] = 1000 * (cpu(pid) - before) / calls
    return seen


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
