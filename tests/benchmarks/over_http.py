"""Calls over HTTP: the emitted file, a server of the SDK with the same tool, and peers.

Each client keeps one connection and makes its calls one after the other, as 2026-07-28 has them, or
in a session where a server has only these; all clients at once.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import quantiles
from typing import Any

from bench import Bench
from contenders import Scene
from pipe import ENVELOPE

CLIENTS, CALLS = 50, 20
SDK = """
import sys, uvicorn
from mcp.server.mcpserver import MCPServer
server = MCPServer("sdk")
@server.tool()
def echo(text: str) -> str:
    return text
app = server.streamable_http_app(json_response=True)
uvicorn.run(app, port=int(sys.argv[1]), log_level="critical")
"""


def measure(bench: Bench, peers: Mapping[str, str]) -> None:
    """Measure all in turns; the first turn warms up, and does not count."""
    if not importlib.util.find_spec("uvicorn"):
        bench.report.note("uvicorn is not installed: nothing measured over HTTP")
        return
    config = bench.workshop.written("http", bench.workshop.servers(Scene(1)))
    proxy = bench.workshop.proxy(config, "--serve", "stdio,http")
    commands = {"sdk, no proxy": [sys.executable, "-c", SDK, "{port}"]}
    if proxy:
        commands["mcpagg"] = [sys.executable, proxy, "--http", "--port", "{port}"]
    commands |= bench.workshop.others(config, peers)
    with ExitStack() as stack:
        ports: dict[str, int] = {}
        for name, command in commands.items():
            found = bench.attempt(name, partial(stack.enter_context, serving(command)))
            if found:
                ports[name] = found[1]
        bench.turns(1, ports, burst)
        samples = bench.turns(1 if bench.quick else 5, ports, burst)
    bench.report.add(f"{CLIENTS} clients over HTTP", "sdk, no proxy", samples)


def burst(port: int) -> dict[str, float]:
    """Let all clients make their calls."""
    return asyncio.run(_burst(port, session=not asyncio.run(_sessionless(port))))


async def _sessionless(port: int) -> bool:
    """Whether a server has the tool without a session, too."""
    try:
        (await connected(port)).writer.close()
    except (ValueError, IndexError):
        return False
    return True


async def _burst(port: int, *, session: bool) -> dict[str, float]:
    times: list[float] = []

    async def one(number: int) -> None:
        client = await connected(port, session=session)
        for turn in range(CALLS):
            text, began = f"{number}.{turn}", time.perf_counter()
            said = await client.call(text)
            if text not in said:
                raise ValueError(said)
            times.append(time.perf_counter() - began)
        client.writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(CLIENTS)))
    rate, cuts = len(times) / (time.perf_counter() - began), quantiles(times, n=100)
    return {"calls/s": rate, "median ms": cuts[49] * 1000, "p99 ms": cuts[98] * 1000}


@dataclass
class Client:
    """A connection, and the session on it; none in the revision without sessions."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    port: int
    session: str = ""
    tool: str = ""

    async def call(self, text: str) -> str:
        """Call the tool; return the body of the answer."""
        params = {"name": self.tool, "arguments": {"text": text}}
        return (await self.post("tools/call", params))[1]

    async def post(
        self,
        method: str,
        params: Mapping[str, object],
        *,
        modern: bool = True,
        request: bool = True,
    ) -> tuple[str, str]:
        """Send a message; return head and body of the answer."""
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
        message |= {"id": 1} if request else {}
        modern = modern and not self.session
        headers = {"Mcp-Session-Id": self.session} if self.session else {}
        if modern:
            message["params"] = {**params, "_meta": ENVELOPE}
            headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
            headers |= {"Mcp-Name": str(params["name"])} if "name" in params else {}
        body = json.dumps(message).encode()
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            f"Content-Length: {len(body)}\r\n{''.join(lines)}\r\n"
        )
        self.writer.write(head.encode() + body)
        return await self.answer()

    async def answer(self) -> tuple[str, str]:
        """Read an answer; return its head and body."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        if not head.startswith("http/1.1 20"):
            raise ValueError(head.partition("\r\n")[0])
        if "content-length: " in head:
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            return head, (await self.reader.readexactly(length)).decode()
        body = b""
        while "transfer-encoding: chunked" in head:
            size = int(await self.reader.readline(), 16)
            body += await self.reader.readexactly(size)
            await self.reader.readline()
            if not size:
                break
        return head, body.decode()


async def connected(port: int, *, session: bool = False) -> Client:
    """Connect, open a session if asked for, and find the tool `echo`."""
    client = Client(*await asyncio.open_connection("127.0.0.1", port), port)
    if session:
        info = {"name": "benchmark", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        head, _ = await client.post("initialize", hello, modern=False)
        client.session = head.partition("mcp-session-id: ")[2].partition("\r\n")[0]
        await client.post("notifications/initialized", {}, request=False)
    _, body = await client.post("tools/list", {})
    listed: Any = json.loads(body[body.index("{") : body.rindex("}") + 1])
    names: list[str] = [tool["name"] for tool in listed["result"]["tools"]]
    client.tool = [name for name in names if name.endswith("echo")][-1]
    return client


@contextmanager
def serving(command: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Run a server as long as the block lasts; yields its process id and its port, `{port}`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    argv = [part.replace("{port}", str(port)) for part in command]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while True:
                if process.poll() is not None:
                    raise ValueError(f"exit {process.returncode}")
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield process.pid, port
        finally:
            process.terminate()
