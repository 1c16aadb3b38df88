"""Where a start and a call go: what is read, compiled and imported, system calls, functions.

What Python does is known from its audit events, what the kernel is asked for by strace, where it is
installed; the functions of a call are counted by `tests/structure.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import Bench
from contenders import Scene
from pipe import FLOOR, Open, Pipe, listed
from processes import cpu, wakeups
from structure import a_call

SCENE = Scene(10)
CALLS = 500
DRIVER = """
import os, sys
file, report = sys.argv.pop(1), sys.argv.pop(1)
trace = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
processes = {"os.posix_spawn", "os.fork", "subprocess.Popen"}
events = processes | {"import", "open", "_thread.start_new_thread"}
def note(event, arguments):
    if event == "compile":
        os.write(trace, b"compile %d\\n" % len(arguments[0] or ""))
    elif event in events:
        what = arguments[0] if event == "import" else ""
        os.write(trace, f"{event} {what}\\n".encode())
sys.addaudithook(note)
text = open(file, encoding="utf-8").read()
exec(compile(text, file, "exec"), {"__name__": "__main__", "__file__": file})
"""
ASKED = re.compile(r"^(\d+) +(\w+)\(", re.MULTILINE)
"""A line of strace: the thread, and the system call."""


def measure(bench: Bench) -> None:
    """Print what each stage of a start adds, and what a call does."""
    proxy = bench.workshop.proxy(bench.workshop.config(SCENE))
    single = bench.workshop.proxy(bench.workshop.config(Scene(1)))
    if proxy is None or single is None:
        return
    stages = {name: {k: [v] for k, v in row.items()} for name, row in start(bench, proxy).items()}
    bench.report.add(f"what a start does until, {SCENE}", "", stages)
    rows = {f"{number} in flight": calls(single, number) for number in (1, 16, 64)}
    samples = {name: {k: [v] for k, v in row.items()} for name, row in rows.items()}
    bench.report.add("what a call costs the proxy", "", samples)
    kernel(bench, proxy, single)
    samples = {name: {k: [float(v)] for k, v in row.items()} for name, row in touched().items()}
    bench.report.add("what a call touches", "", samples)


def touched() -> dict[str, dict[str, int]]:
    """Return the modules and functions of the runtime that a call touches, by pairing of eras."""
    eras = ("legacy", "modern")
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):  # findings about stubs
        return {
            f"{client} client, {child} server": a_call(
                modern_client=client == "modern", modern_child=child == "modern"
            )
            for client in eras
            for child in eras
        }


def start(bench: Bench, proxy: str) -> dict[str, dict[str, float]]:
    """Return what Python did up to each answer, counted from the start; names its imports."""
    driver, trace = bench.workshop.folder / "driver.py", bench.workshop.folder / "trace"
    driver.write_text(DRIVER)
    trace.unlink(missing_ok=True)
    found: dict[str, dict[str, float]] = {}
    known: set[str] = set()

    def seen(stage: str, pipe: Pipe) -> None:
        events = [line.split() for line in trace.read_text().splitlines()]
        counts = Counter(event[0] for event in events)
        sizes = [int(event[1]) for event in events if event[0] == "compile"]
        names = {event[1] for event in events if event[0] == "import"}
        found[stage] = {
            "file KB": sizes[0] / 1000,
            "texts compiled": len(sizes) - 1,
            "KB compiled": sum(sizes[1:]) / 1000,
            "modules imported": len(names),
            "files opened": counts["open"],
            "threads": counts["_thread.start_new_thread"],
            "processes": counts["os.posix_spawn"] + counts["os.fork"] + counts["subprocess.Popen"],
            "CPU ms": cpu(pipe.process.pid) * 1000,
        }
        bench.report.say(f"imported until {stage}: {' '.join(sorted(names - known)) or 'no more'}")
        known.update(names)

    with Pipe([*FLOOR, str(driver), proxy, str(trace)]) as pipe:
        pipe.initialize()
        seen("initialize", pipe)
        server = listed(pipe, "echo")
        seen("tools/list", pipe)
        server.call(text="x")
        seen("first call", pipe)
    return found


def calls(proxy: str, number: int) -> dict[str, float]:
    """Return what one of many calls costs the proxy's process."""
    with Pipe([*FLOOR, proxy]) as pipe:
        pipe.initialize()
        server = listed(pipe, "echo")
        flying(server, number, number)
        pid = pipe.process.pid
        before = cpu(pid), wakeups(pid)
        flying(server, number, CALLS * number)
        after = cpu(pid), wakeups(pid)
    spent, woken = (
        (late - early) / (CALLS * number) for early, late in zip(before, after, strict=True)
    )
    return {"CPU us": spent * 1e6, "wake-ups": woken}


def flying(server: Open, number: int, count: int) -> None:
    """Make calls, so many of them at a time."""
    params = {"name": server.tool, "arguments": {"text": "x" * 100}}
    for _ in range(count // number):
        for _ in range(number):
            server.pipe.send("tools/call", params)
        for _ in range(number):
            server.pipe.response()


def kernel(bench: Bench, proxy: str, single: str) -> None:
    """Print the system calls of a start, and those of a call on a warm proxy."""
    if not shutil.which("strace"):
        bench.report.note("strace is not installed: no system calls")
        return

    def session(count: int) -> Callable[[Pipe], None]:
        def talk(pipe: Pipe) -> None:
            pipe.initialize()
            server = listed(pipe, "echo")
            for _ in range(count):
                server.call(text="x")

        return talk

    def greeting(pipe: Pipe) -> None:
        pipe.request("initialize", {"protocolVersion": "2025-11-25"})

    trace = partial(traced, bench.workshop.folder / "strace")
    begun = trace([*FLOOR, proxy], greeting)
    begun.subtract(trace([*FLOOR, "-c", "input()"], lambda _: None))
    few, many = (trace([*FLOOR, single], session(count)) for count in (50, 100))
    samples = {
        "a start until initialize, above the floor": top({k: n for k, n in begun.items() if n > 0}),
        "a call": top({name: (many[name] - few[name]) / 50 for name in many}),
    }
    for what, counts in samples.items():
        said = ", ".join(f"{name} {count:.3g}" for name, count in counts.items())
        bench.report.say(f"system calls of {what}: {sum(counts.values()):.3g}: {said}")


def top(counts: dict[str, float]) -> dict[str, float]:
    """Return what occurs, the most frequent first."""
    return dict(sorted(((k, n) for k, n in counts.items() if n > 0.05), key=lambda e: -e[1]))


def traced(file: Path, argv: list[str], talk: Callable[[Pipe], None]) -> Counter[str]:
    """Return the system calls of a server's own threads in a session, its end included."""
    with Pipe(["strace", "-f", "-qq", "-o", str(file), *argv]) as pipe:
        talk(pipe)
    rows = ASKED.findall(file.read_text())
    root = rows[0][0]
    children = {thread for thread, name in rows if name == "execve" and thread != root}
    return Counter(name for thread, name in rows if thread not in children)
