#!/usr/bin/env python3
"""A soak: one client, a proxy, ten children, and faults at random.

    python tests/soak.py --seconds 300 --seed 7

The client keeps many requests outstanding; meanwhile children are killed, stalled, flooded, deaf or
drifting, and the client itself pauses, cancels and babbles. Every request must be answered exactly
once and right, which the ledger knows; threads, descriptors and memory of the proxy must not grow,
and after the end of input nothing of it may be left. What is tried at step N follows from the seed
and N; only timing differs from run to run. On a violation: the last events, and exit status 1.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from ledger import Json, Ledger, Violation
from load import SERVERS, TOOLS, Client, Load
from proxies import compiled, lowered
from wire import TIMEOUT, stub_entry

ROUND_SECONDS = 50.0  # one proxy's life: a child that is down stays down
MODES = [[], ["--restart", "on-call"], ["--restart", "on-call", "--idle-stop", "0.2"]]
HABITS: dict[str, Json] = {  # how some of them list, write and start
    "s0": {"page": 5},
    "s1": {"envelope": "typescript", "newline": "\r\n"},
    "s2": {"duplicate": True},
    "s3": {"batch": True},
    "s4": {"chunk": 700},
    "s5": {"envelope": "spaced"},
    "s6": {"at": {"start": [{"sleep": 0.5}]}},
}


def entry(name: str) -> Json:
    """Return the config entry of a child."""
    who = {"do": "raw_result", "json": json.dumps({"content": [], "server": name})}
    return stub_entry(name, tools=TOOLS, does={"who": who}, **HABITS.get(name, {}))


def soak(seconds: float, seed: int) -> Counter[str]:
    """Load one proxy after another; return the counts of all that was done.

    Raises:
        Violation: a proxy broke a promise.
    """
    rounds = max(len(MODES), round(seconds / ROUND_SECONDS))
    counts: Counter[str] = Counter()
    for number in range(rounds):
        flags = MODES[number % len(MODES)]
        with tempfile.TemporaryDirectory() as folder:
            file = compiled(Path(folder), {name: entry(name) for name in SERVERS}, *flags)
            lowered(file, DRAIN_SECONDS=TIMEOUT)  # a busy machine is no fault of the proxy
            ledger = Ledger(restarts=bool(flags))
            with Client(file) as client:
                load = Load(client, ledger, f"{seed}/{number}")
                try:
                    report = load.live(seconds / rounds)
                except (OSError, LookupError, TypeError, ValueError, queue.Empty) as problem:
                    raise ledger.violation(repr(problem)) from problem
                finally:
                    client.reading.set()
        slowest = ", ".join(f"{kind} {took:.2f} s" for kind, took in ledger.slowest.items())
        print(f"round {number} {flags}: {report}; slowest: {slowest}", flush=True)
        counts += ledger.counts
    return counts


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Load a proxy, make faults, judge its answers.")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    try:
        counts = soak(chosen.seconds, chosen.seed)
    except Violation as violation:
        print(violation)
        return 1
    for kind, count in sorted(counts.items()):
        print(f"{count:8} {kind}")
    faults = sum(count for kind, count in counts.items() if kind.startswith("fault: "))
    print(f"seed {chosen.seed}: no violation, {faults} faults, {sum(counts.values())} events")
    return 0


if __name__ == "__main__":
    sys.exit(main())
