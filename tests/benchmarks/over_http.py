"""Measure calls over HTTP: the emitted file, the SDK's own server, and fastmcp's proxy.

    python tests/benchmarks/over_http.py [--clients 50] [--calls 20] [--fastmcp PYTHON]

Each client keeps one connection and makes its calls one after the other, as 2026-07-28 has them;
all clients at once. `sdk` is a server of the SDK with the same tool, nothing in between. `fastmcp`
is that library's proxy of the same stdio server that the emitted file is in front of, in whose
Python it is installed. What counts are the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import quantiles

ECHO = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("sdk")
@server.tool()
def echo(text: str) -> str:
    return text
"""
CHILD = [sys.executable, "-c", ECHO + "server.run('stdio')"]
SDK = """
import uvicorn
app = server.streamable_http_app(json_response=True)
uvicorn.run(app, port=int(sys.argv[1]), log_level="critical")
"""
FASTMCP = """
import json, sys
from fastmcp.server import create_proxy
command, *arguments = json.loads(sys.argv[2])
proxy = create_proxy({"mcpServers": {"a": {"command": command, "args": arguments}}})
proxy.run(transport="http", port=int(sys.argv[1]), show_banner=False, log_level="CRITICAL")
"""
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(port: int, identifier: int, tool: str, text: str) -> bytes:
    """Return a POST that calls a tool."""
    params = {"name": tool, "arguments": {"text": text}, "_meta": ENVELOPE}
    message = {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params}
    body = json.dumps(message).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
        f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def answer(reader: asyncio.StreamReader) -> str:
    """Read an answer; return its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    assert head.startswith("http/1.1 200"), head
    if "content-length: " in head:
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        return (await reader.readexactly(length)).decode()
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body.decode()


async def measure(port: int, tool: str, clients: int, calls: int) -> list[float]:
    """Make all calls; return how many seconds each took, and behind those all together."""
    times: list[float] = []

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for turn in range(calls):
            text, began = f"{number}.{turn}", time.perf_counter()
            writer.write(request(port, turn, tool, text))
            said = await answer(reader)
            assert text in said, said
            times.append(time.perf_counter() - began)
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(clients)))
    return [*times, time.perf_counter() - began]


@contextmanager
def serving(command: list[str], port: int) -> Iterator[int]:
    """Run a server as long as the block lasts; yields its port once it listens."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield port
        finally:
            process.terminate()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def contenders(folder: Path, python: str) -> dict[str, tuple[list[str], int, str]]:
    """Return {name: (command, port, tool)}; `python` has fastmcp, "" if none does."""
    config, file = folder / "mcp.json", folder / "server.py"
    config.write_text(json.dumps({"mcpServers": {"a": {"command": CHILD[0], "args": CHILD[1:]}}}))
    words = ["-m", "mcpagg", str(config), "-o", str(file), "--serve", "stdio,http", "-q"]
    subprocess.run([sys.executable, *words], check=True)
    first, second, third = free_port(), free_port(), free_port()
    serve = [sys.executable, str(file), "--http", "--port", str(first)]
    found = {
        "mcpagg": (serve, first, "a:echo"),
        "sdk": ([sys.executable, "-c", ECHO + SDK, str(second)], second, "echo"),
    }
    if python:
        command = [python, "-c", FASTMCP, str(third), json.dumps(CHILD)]
        found["fastmcp"] = command, third, "echo"
    return found


def main() -> None:
    """Measure all in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--fastmcp", default="", metavar="PYTHON")
    chosen = parser.parse_args()
    rows: dict[str, list[tuple[float, float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        found = contenders(Path(folder), chosen.fastmcp)
        for command, port, _ in found.values():
            stack.enter_context(serving(command, port))
        for turn in range(4):
            for name, (_, port, tool) in found.items():
                *times, total = asyncio.run(measure(port, tool, chosen.clients, chosen.calls))
                cuts = quantiles(times, n=100)
                if turn:  # the first one is to warm up
                    rows.setdefault(name, []).append((len(times) / total, cuts[49], cuts[98]))
    best = {name: max(found) for name, found in rows.items()}
    print(f"{chosen.clients} clients, {chosen.calls} calls each, on {os.cpu_count()} cores")
    print(f"{'':10}{'calls/s':>10}{'p50 ms':>10}{'p99 ms':>10}{'ratio of calls/s':>20}")
    for name, (rate, middle, late) in best.items():
        ratio = rate / best["sdk"][0]
        print(f"{name:10}{rate:10.0f}{middle * 1000:10.1f}{late * 1000:10.1f}{ratio:20.2f}")


if __name__ == "__main__":
    main()
