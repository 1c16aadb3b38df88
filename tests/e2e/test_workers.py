"""A proxy in several processes behind nginx, one of which dies."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from proxies import posix
from wire import TIMEOUT

EXAMPLE = Path(__file__).parents[2] / "generated/http"
NAMES = ("w1", "w2", "w3", "w4")
PATIENT = httpx2.Timeout(None)  # those of the SDK are too short for a busy machine

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")

pytestmark = [pytest.mark.slow, posix("it ends process groups by signals")]


class Worker(NamedTuple):
    """One process of the proxy, and where it serves."""

    process: subprocess.Popen[str]
    url: str

    def kill(self) -> None:
        """End it and its servers, at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(TIMEOUT)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def running(command: list[str], **environ: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program in a process group of its own, as long as the block lasts."""
    with subprocess.Popen(
        command,
        cwd=EXAMPLE,
        env={**os.environ, **environ},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(TIMEOUT)
            finally:
                os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None


def served(port: int) -> str:
    """Wait until a port answers; return the URL of the endpoint there."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            with urlopen(f"http://127.0.0.1:{port}/health"):
                return f"http://127.0.0.1:{port}/mcp"
        except (OSError, URLError):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def uvicorn(port: int, *flags: str) -> list[str]:
    """Return the command that serves the example on a port."""
    about = ["--port", str(port), "--log-level", "critical", "--timeout-graceful-shutdown", "10"]
    return [sys.executable, "-m", "uvicorn", "server:app", *about, *flags]


async def converted(client: Client, value: int) -> bool:
    """Whether a call is answered, and right; False if it fails."""
    arguments = {"value": value, "source": "km", "target": "m"}
    result = await client.call_tool("units:convert", arguments)
    assert str(value * 1000) in result.content[0].text  # type: ignore[union-attr]
    return True


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[tuple[str, Mapping[str, Worker]]]:
    """Yield the URL of nginx in front of four workers, and those by name."""
    ports = {name: free_port() for name in NAMES}
    port = free_port()
    text = (EXAMPLE / "nginx.conf").read_text("utf-8")
    for name, own in ports.items():
        text = text.replace(f"server {name}:3006", f"server 127.0.0.1:{own}")
    text = text.replace("listen 8080", f"listen 127.0.0.1:{port}")
    config = tmp_path / "nginx.conf"
    config.write_text(f"daemon off; pid {tmp_path}/nginx.pid; error_log stderr crit;\n{text}")
    assert NGINX is not None
    with ExitStack() as stack:
        started = {
            name: (stack.enter_context(running(uvicorn(own))), own) for name, own in ports.items()
        }
        found = {name: Worker(process, served(own)) for name, (process, own) in started.items()}
        stack.enter_context(running([NGINX, "-p", str(tmp_path), "-c", str(config)]))
        yield served(port), found


@pytest.mark.skipif(NGINX is None, reason="needs nginx")
def test_of_a_worker_that_is_killed_under_load_only_the_calls_in_flight_fail(
    workers: tuple[str, Mapping[str, Worker]],
) -> None:
    url, found = workers
    clients, turns = 16, 15
    killed = asyncio.Event()
    connected = asyncio.Barrier(clients)  # what is in flight when the worker dies are calls alone
    begun_later: list[bool] = []
    failed: list[bool] = []

    async def one(number: int) -> None:
        async with (
            create_mcp_http_client(timeout=PATIENT) as http,
            Client(streamable_http_client(url, http_client=http), mode="2026-07-28") as client,
        ):
            await connected.wait()
            for turn in range(turns):
                if (number, turn) == (0, 5):
                    found["w2"].kill()
                    killed.set()
                later = killed.is_set()
                try:
                    await converted(client, number * 100 + turn)
                except AssertionError:
                    raise
                except Exception:
                    failed.append(later)
                begun_later.append(later)

    async def scenario() -> None:
        await asyncio.gather(*(one(number) for number in range(clients)))

    asyncio.run(scenario())
    assert len(begun_later) == clients * turns
    assert len(failed) <= clients
    assert True not in failed
    assert True in begun_later


@pytest.mark.skipif(NGINX is None, reason="needs nginx")
def test_behind_nginx_sessions_keep_their_worker_and_begin_anew_when_it_dies(
    workers: tuple[str, Mapping[str, Worker]],
) -> None:
    url, found = workers

    async def handshake(http: Any) -> str:
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        # Each on a connection of its own, as those of many clients are.
        answer = await http.post(url, json=hello, headers={"connection": "close"})
        return str(answer.headers["mcp-session-id"])

    async def ping(http: Any, where: str, session: str) -> int:
        body = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        answer = await http.post(where, json=body, headers={"mcp-session-id": session})
        return int(answer.status_code)

    async def worker_of(http: Any, session: str) -> str:
        _, _, own = session.partition(".")
        [name] = [name for name in NAMES if await ping(http, found[name].url, own) == 200]
        return name

    async def scenario() -> None:
        async with create_mcp_http_client(timeout=PATIENT) as http:
            sessions = [await handshake(http) for _ in range(24)]
            owners = [await worker_of(http, session) for session in sessions]
            assert len({*owners}) > 1
            for _ in range(2):
                assert [await ping(http, url, session) for session in sessions] == [200] * 24
            killed = owners[0]
            found[killed].kill()
            for session, owner in zip(sessions, owners, strict=True):
                assert await ping(http, url, session) == (404 if owner == killed else 200)
            again = [await handshake(http) for _ in range(8)]
            assert [await ping(http, url, session) for session in again] == [200] * 8

    asyncio.run(scenario())


def test_the_compose_file_and_that_of_nginx_name_the_same_workers() -> None:
    compose = (EXAMPLE / "compose.yaml").read_text("utf-8")
    nginx = (EXAMPLE / "nginx.conf").read_text("utf-8")
    for name in NAMES:
        assert f"\n  {name}: *worker\n" in compose
        assert nginx.count(f"server {name}:3006") == 1
