"""Measure proxies against the bare child and the bare interpreter; print tables and goals.

    python tests/benchmarks/run.py [--quick] [--only PART]… [--json FILE] [--svg DIR]
        [--peer NAME='command {config}']… [--http-peer NAME='command {config} {port}']…
    python tests/benchmarks/run.py --profile

What counts are the ratios; README.md says what each figure is.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from json import dumps
from pathlib import Path

import breakdown
import calls
import compiling
import frozen
import growth
import large
import over_http
import resting
import starts
from bench import Bench
from contenders import Workshop
from report import Report


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parts = ("start", "calls", "large", "idle", "growth", "compile", "http", "freeze")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", choices=parts, action="append", help="this part (repeatable)")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--http-peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--config", type=Path, help="what is compiled; default: 15 servers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all samples, for machines")
    parser.add_argument("--svg", type=Path, metavar="DIR", help="write plots into this folder")
    parser.add_argument("--profile", action="store_true", help="only tell where time is spent")
    options = parser.parse_args()
    report = Report(f"Python {platform.python_version()}, {os.cpu_count()} cores")
    measurements: dict[str, Callable[[Bench], None]] = {
        "start": starts.measure,
        "calls": calls.measure,
        "large": large.measure,
        "idle": resting.measure,
        "growth": growth.measure,
        "compile": lambda bench: compiling.measure(bench, options.config),
        "http": lambda bench: over_http.measure(bench, named(options.http_peer)),
        "freeze": frozen.measure,
    }
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder), named(options.peer), report.note)
        bench = Bench(workshop, report, options.quick)
        if options.profile:
            breakdown.measure(bench)
        else:
            for name in options.only or parts[:-1]:  # the last one needs the network
                measurements[name](bench)
    write(report, options.json, options.svg)
    sys.exit(0 if report.tables else 1)


def named(peers: Sequence[str]) -> dict[str, str]:
    """Return {name: command} of what the command line calls NAME=COMMAND."""
    return dict(peer.split("=", 1) for peer in peers)


def write(report: Report, json: Path | None, svg: Path | None) -> None:
    """Write the files that are asked for."""
    if json:
        json.write_text(dumps(report.data(), indent=2) + "\n")
    if svg:
        svg.mkdir(parents=True, exist_ok=True)
        for name, plot in report.plots.items():
            (svg / f"{name}.svg").write_text(plot)


if __name__ == "__main__":
    main()
