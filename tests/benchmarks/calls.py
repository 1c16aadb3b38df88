"""Calls of one child through every server: one after another, and many in flight."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from statistics import median, quantiles

from bench import Bench
from contenders import RELAYS, Scene
from large import ERAS, Warm, opened
from pipe import Open
from processes import cpu, resident

SIZES = {"100 B": (100, 300), "10 KB": (10_000, 20), "1 MB": (1_000_000, 3)}
"""{size: (bytes, calls a turn)}."""

MEDIAN_GOAL, P99_GOAL = 0.08, 0.4
"""The milliseconds that a proxy may add to a call of 100 bytes."""

IN_FLIGHT, SHARE_GOALS = (16, 64), {16: 0.42}
"""How many calls are in flight; the share of the direct throughput that is to be reached."""

PAIRING_TURNS, PAIRING_CALLS, PAIRING_GOAL = 30, 100, 1.15
"""How often each pairing of eras makes how many calls; the most CPU that modern peers may take, as
a multiple of what legacy ones do."""

BURST_CALLS, BURST_SECONDS = 3000, 3.0
"""A burst ends after so many calls or so long."""


def measure(bench: Bench) -> None:
    """Call one child through every server."""
    report, rounds = bench.report, 3 if bench.quick else 9
    running = bench.opened(bench.workshop.contenders(Scene(1)) | bench.workshop.relays())
    try:
        samples = bench.turns(rounds, running, sequential)
        table = report.add("a call, one after another", "direct", samples, difference=True)
        for metric, most in (("100 B ms", MEDIAN_GOAL), ("100 B p99 ms", P99_GOAL)):
            more = table.more("mcpagg", "direct", metric)
            report.goal(f"added to a call, {metric[:-3]}", more, "ms", most=most)
        for number in IN_FLIGHT:
            samples = bench.turns(rounds, running, partial(burst, number))
            table = report.add(f"calls of 100 B, {number} in flight", "direct", samples)
            share = table.ratio("mcpagg", "calls/s")
            if number in SHARE_GOALS:
                report.goal(f"{number} in flight", share, "of direct", least=SHARE_GOALS[number])
            limits = {relay: table.ratio(relay, "calls/s") or 0 for relay in RELAYS}
            told = ", ".join(f"{relay} {share:.2f}" for relay, share in limits.items())
            report.say(f"what any proxy in Python is below, of direct: {told}")
        report.add("memory after these calls", "direct", bench.turns(1, running, memory))
    finally:
        for each in running.values():
            each.pipe.close()
    pairings(bench)


def pairings(bench: Bench) -> None:
    """Make small calls in each pairing of eras: the least CPU of all turns counts."""
    with ExitStack() as closing:
        running = {}
        for child in ERAS:
            for name, warm in opened(bench, child).items():
                closing.callback(warm.server.pipe.close)
                if name.startswith("mcpagg"):
                    running[f"{name.removeprefix('mcpagg, ')}, {child} server"] = warm
        taken = bench.turns(PAIRING_TURNS, running, spent)
    least = {name: {"CPU us": [min(seen["CPU us"])]} for name, seen in taken.items()}
    table = bench.report.add("CPU of a call, by pairing", "legacy client, legacy server", least)
    ratio = table.ratio("modern client, modern server", "CPU us")
    bench.report.goal("CPU of a call, modern peers", ratio, "x legacy", most=PAIRING_GOAL)


def spent(warm: Warm) -> dict[str, float]:
    """Make some small calls, one after another."""
    pid = warm.server.pipe.process.pid
    before = cpu(pid)
    for _ in range(PAIRING_CALLS):
        warm.server.answer(size=64, kind="text")
    return {"CPU us": 1e6 * (cpu(pid) - before) / PAIRING_CALLS}


def sequential(server: Open) -> dict[str, float]:
    """Make some calls of each size."""
    seen: dict[str, float] = {}
    for size, (length, calls) in SIZES.items():
        took = [server.call(text="x" * length) for _ in range(calls)]
        seen[f"{size} ms"] = median(took)
        if calls >= 100:
            seen[f"{size} p99 ms"] = quantiles(took, n=100)[98]
    return seen


def burst(number: int, server: Open) -> dict[str, float]:
    """Keep a number of calls in flight."""
    params = {"name": server.tool, "arguments": {"text": "x" * 100}}
    sent: dict[int, float] = {}
    took: list[float] = []

    def send() -> None:
        now = time.perf_counter()
        sent[server.pipe.send("tools/call", params)] = now

    before = cpu(server.pipe.process.pid)
    start = time.perf_counter()
    for _ in range(number):
        send()
    while sent:
        request_id, _ = server.pipe.response()
        took.append(time.perf_counter() - sent.pop(request_id))
        if len(took) + len(sent) < BURST_CALLS and time.perf_counter() - start < BURST_SECONDS:
            send()
    rate = len(took) / (time.perf_counter() - start)
    spent = (cpu(server.pipe.process.pid) - before) / len(took)
    return {
        "calls/s": rate,
        "p99 ms": quantiles(took, n=100)[98] * 1000,
        "CPU us": spent * 1e6,
    }


def memory(server: Open) -> dict[str, float]:
    """Return what the server occupies now."""
    return {"memory MB": resident(server.pipe.process.pid) / 1e6}
