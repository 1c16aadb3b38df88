"""Real servers of other SDKs behind URLs answer behind a proxy as they do without it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled, served
from remotes import Talk
from wire import call, tools

from mcpagg.passes.emission.recorded import read_contents

EVERYTHING = ["npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31"]
FIRST = ["uv", "run", "--no-project", "--quiet", "--with", "mcp<2", "python", "-c"]
"""Runs Python with the first version of its SDK."""
FIRST_SERVER = """
import sys
from mcp.server.fastmcp import FastMCP

server = FastMCP("first", port=int(sys.argv[2]))

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

@server.tool()
def fail() -> str:
    raise ValueError("no")

server.run(sys.argv[1])
"""

EVERYTHING_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"message": "wörds \u2028"}),
    ("get-sum", {"a": 1, "b": 2.5}),
    ("get-tiny-image", {}),
    ("get-structured-content", {"location": "New York"}),
    ("get-annotated-message", {"messageType": "error"}),
    ("get-sum", {"a": "x"}),
]
FIRST_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("add", {"a": 1, "b": 2}),
    ("add", {}),
    ("fail", {}),
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npx") is None, reason="needs Node's npx"),
    pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv"),
]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


class Started:
    """A server that says on its output when it listens."""

    def __init__(self, command: list[str], path: str, port: int, sign: str) -> None:
        self.url = f"http://127.0.0.1:{port}{path}"
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "PORT": str(port)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        self._sign = sign
        self._reader: threading.Thread | None = None

    def wait(self) -> None:
        """Wait until it listens, then read on, so that it never waits for us."""
        output = self._process.stdout
        assert output is not None
        said = []
        for line in output:
            said.append(line)
            if self._sign in line:
                self._reader = threading.Thread(target=output.read, daemon=True)
                self._reader.start()
                return
        raise AssertionError(f"{self.url}: {''.join(said)}")

    def kill(self) -> None:
        """End it, and what npx or uv have started for it."""
        os.killpg(self._process.pid, signal.SIGKILL)
        if self._reader is not None:
            self._reader.join()
        with self._process:
            pass


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    started: dict[str, Started] = {}
    try:
        for name, transport, path in (
            ("streamable", "streamableHttp", "/mcp"),
            ("events", "sse", "/sse"),
        ):
            port = free_port()
            started[name] = Started([*EVERYTHING, transport], path, port, str(port))
        for name, transport, path in (
            ("first_streamable", "streamable-http", "/mcp"),
            ("first_events", "sse", "/sse"),
        ):
            port = free_port()
            command = [*FIRST, FIRST_SERVER, transport, str(port)]
            started[name] = Started(command, path, port, "running on")
        for server in started.values():
            server.wait()
        yield {name: server.url for name, server in started.items()}
    finally:
        for server in started.values():
            server.kill()


@pytest.fixture(scope="module")
def file(urls: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    entries = {name: {"type": "http", "url": url} for name, url in urls.items()}
    return compiled(tmp_path_factory.mktemp("real_remotes"), entries)


def test_every_tool_is_listed_and_called_as_without_the_proxy(
    file: Path, urls: dict[str, str]
) -> None:
    with served(file) as proxy:
        listed = tools(proxy)
        for name, url in urls.items():
            transport = "sse" if name.endswith("events") else "streamable-http"
            with Talk(url, transport=transport) as direct:
                direct.greet()
                own = direct.call("tools/list").value("result")["tools"]
                ours = [tool for tool in listed if tool["name"].startswith(f"{name}:")]
                assert ours == [{**tool, "name": f"{name}:{tool['name']}"} for tool in own]
                calls = FIRST_CALLS if name.startswith("first") else EVERYTHING_CALLS
                for tool, arguments in calls:
                    params = json.dumps({"name": tool, "arguments": arguments})
                    theirs = direct.call("tools/call", params)
                    answer = call(proxy, f"{name}:{tool}", **arguments)
                    assert answer.get("result") == theirs.value("result")
                    assert answer.get("error") == theirs.value("error")


def test_which_transport_each_has_was_found_out(file: Path, urls: dict[str, str]) -> None:
    rows = read_contents(file).rows
    assert {name: row["transport"] for name, row in rows.items()} == {
        name: "sse" if name.endswith("events") else "streamable-http" for name in urls
    }
