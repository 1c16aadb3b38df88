"""How start, calls and memory of a proxy grow with its children, tools and HTTP sessions."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from bench import Bench
from contenders import Scene
from over_http import Client, connected, serving
from pipe import FLOOR, Pipe, listed
from plots import lines
from processes import resident, threads
from report import Samples, slope
from starts import last_up

CHILDREN = (1, 10, 30, 100)
TOOLS = (10, 300, 1000, 3000)
SESSIONS = (1, 10, 50, 200)


def measure(bench: Bench) -> None:
    """Measure one proxy of each size, and all sessions on one server."""
    rounds = 1 if bench.quick else 3
    children = {str(count): Scene(count) for count in CHILDREN}
    samples = bench.turns(rounds, children, partial(grown, bench))
    slopes(bench, "children", samples, ("initialize ms", "all up ms", "memory MB"))
    tools = {str(count): Scene(1, tools=count) for count in TOOLS}
    samples = bench.turns(rounds, tools, partial(grown, bench))
    slopes(bench, "tools", samples, ("tools/list ms", "first call ms", "memory MB"))
    if importlib.util.find_spec("uvicorn"):
        samples = sessions(bench)
        slopes(bench, "HTTP sessions", samples, ("a call ms", "calls/s, all at once", "memory MB"))
    else:
        bench.report.note("uvicorn is not installed: nothing measured over HTTP")


def slopes(bench: Bench, what: str, samples: Samples, metrics: Sequence[str]) -> None:
    """Print a table and what each further one costs; plot these metrics."""
    table = bench.report.add(what, next(iter(samples), ""), samples)
    panels = {
        metric: [(float(name), value) for name, value in table.medians(metric).items()]
        for metric in metrics
    }
    for metric, points in panels.items():
        first, last = slope(points)
        bench.report.say(f"each further of {what}: {metric} {first:+.4f} first, {last:+.4f} last")
    bench.report.plots[f"growth-{what.replace(' ', '-')}"] = lines(what, panels)


def grown(bench: Bench, scene: Scene) -> dict[str, float]:
    """Start the proxy of a scene once, until all children are up and one is called."""
    proxy, up = bench.workshop.proxy(bench.workshop.config(scene)), bench.workshop.up_file(scene)
    if proxy is None:
        raise ValueError("not compiled")
    up.unlink(missing_ok=True)
    with Pipe([*FLOOR, proxy]) as pipe:
        pipe.initialize()
        seen = {"file KB": Path(proxy).stat().st_size / 1000}
        seen["initialize ms"] = pipe.elapsed() * 1000
        server = listed(pipe, "echo")
        seen["tools/list ms"] = pipe.elapsed() * 1000
        server.call(text="x")
        seen["first call ms"] = pipe.elapsed() * 1000
        seen["all up ms"] = (last_up(up, scene.children) - pipe.started) * 1000
        seen["a call ms"] = median(server.call(text="x" * 100) for _ in range(50))
        seen["memory MB"] = resident(pipe.process.pid) / 1e6
        seen["threads"] = threads(pipe.process.pid)
    return seen


def sessions(bench: Bench) -> Samples:
    """Open more and more sessions on one server, and call through all of them."""
    config = bench.workshop.written("http", bench.workshop.servers(Scene(1)))
    proxy = bench.workshop.proxy(config, "--serve", "stdio,http")
    if proxy is None:
        return {}
    with serving([sys.executable, proxy, "--http", "--port", "{port}"]) as (pid, port):
        return asyncio.run(_sessions(pid, port))


async def _sessions(pid: int, port: int) -> Samples:
    samples: Samples = {}
    opened: list[Client] = []
    for count in SESSIONS:
        while len(opened) < count:
            opened.append(await connected(port, session=True))
        samples[str(count)] = {
            "a call ms": [await one_call(opened[0]) for _ in range(100)],
            "calls/s, all at once": [await at_once(opened) for _ in range(3)],
            "memory MB": [resident(pid) / 1e6],
            "threads": [threads(pid)],
        }
    for client in opened:
        client.writer.close()
    return samples


async def one_call(client: Client) -> float:
    """Return how many milliseconds a call takes."""
    start = time.perf_counter()
    await client.call("x" * 100)
    return (time.perf_counter() - start) * 1000


async def at_once(opened: Sequence[Client], rounds: int = 3) -> float:
    """Let each session have a call in flight, several times; return the calls a second."""
    start = time.perf_counter()
    for _ in range(rounds):
        await asyncio.gather(*(client.call("x" * 100) for client in opened))
    return rounds * len(opened) / (time.perf_counter() - start)
