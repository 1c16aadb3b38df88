"""What a large structured result costs the proxy: CPU per call, for each pairing of eras.

    python tests/benchmarks/large.py [--json]

The time is the proxy's own, user and system, from /proc; the child and this client are not in it.
The first call of a size warms everything up and is not counted.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from pipe import FLOOR, Pipe
from proxies import compiled
from wire import enveloped

BLOB = str(Path(__file__).with_name("blob.py"))
SIZES = {"small": (64, 200), "1.2 MB": (1_200_000, 20), "20 MB": (20_000_000, 4)}
"""{size: (bytes, calls)}."""


def cpu(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def exchange(pipe: Pipe, message: object) -> None:
    """Send a request, and read lines until its answer has come."""
    pipe.input.write(json.dumps(message).encode() + b"\n")
    pipe.input.flush()
    while b'"result"' not in pipe.output.readline():
        pass


def milliseconds(file: Path, calls: int, *, modern: bool) -> float:
    """Return the CPU milliseconds of one call."""
    params: dict[str, object] = {"name": "s:blob", "arguments": {}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    pipe = Pipe([*FLOOR, str(file)])
    try:
        if modern:
            asked["params"] = enveloped(params)
        else:
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
            exchange(pipe, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
            pipe.input.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        exchange(pipe, asked)
        before = cpu(pipe.process.pid)
        for _ in range(calls):
            exchange(pipe, asked)
        return 1000 * (cpu(pipe.process.pid) - before) / calls
    finally:
        pipe.process.kill()
        pipe.process.wait()


def main() -> None:
    """Print the figures: milliseconds, and how many times those of the legacy pairing."""
    found: dict[str, dict[str, float]] = {}
    for size, (count, calls) in SIZES.items():
        for child in ("legacy", "modern"):
            with tempfile.TemporaryDirectory() as name:
                entry = {"command": sys.executable, "args": [BLOB, child, str(count)]}
                file = compiled(Path(name), {"s": entry})
                for client in ("legacy", "modern"):
                    spent = milliseconds(file, calls, modern=client == "modern")
                    found.setdefault(size, {})[f"{client} client, {child} server"] = spent
    if "--json" in sys.argv:
        json.dump(found, sys.stdout, indent=1)
        return
    for size, row in found.items():
        base = row["legacy client, legacy server"]
        for pairing, spent in row.items():
            print(f"{size:8} {pairing:30} {spent:8.2f} ms  {spent / base if base else 0:5.2f} x")


if __name__ == "__main__":
    main()
