"""The emitted file over HTTP: uvicorn, sockets, clients of the SDK, and how it starts and ends."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from core import call
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from proxies import SHORT_GRACES, compiled, lowered, posix, swapped
from wire import TIMEOUT, Process, events, stub_entry

pytestmark = posix("the proxy is a POSIX process here")

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A proxy of two servers that serves HTTP."""
    servers = {
        "a": stub_entry(
            tools=["echo", "slow", "never"],
            does={
                "never": {"do": "nothing"},
                "slow": {"do": "sleep", "seconds": 1},
            },
        ),
        "b": stub_entry(tools=["echo"]),
    }
    return compiled(tmp_path_factory.mktemp("http"), servers, "--serve", "stdio,http")


class Served:
    """A proxy that serves HTTP."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stderr is not None
        self.url = process.stderr.readline().strip()
        self.said: list[str] = []
        self._open: list[http.client.HTTPConnection] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.said += self.process.stderr

    def request(
        self, method: str, path: str = "", body: object = None, **headers: str
    ) -> http.client.HTTPResponse:
        """Send one request over a connection of its own."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT)
        self._open.append(connection)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            sent = {"content-type": "application/json", **sent}
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path or parts.path, data, sent)
        return connection.getresponse()

    def close(self) -> None:
        """Close all connections, and end the process."""
        for connection in self._open:
            connection.close()
        self.process.kill()
        self._reader.join(TIMEOUT)

    def stop(self) -> int:
        """End it by a signal; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        return status


@contextmanager
def serving(file: Path, *flags: str, environ: Mapping[str, str] = {}) -> Iterator[Served]:
    """Serve a file on a free port."""
    command = [sys.executable, str(file), "--http", "--port", "0", *flags]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environ}
    ) as process:
        proxy = Served(process)
        try:
            yield proxy
        finally:
            proxy.close()


@pytest.fixture(scope="module")
def served(file: Path) -> Iterator[Served]:
    """A proxy that all tests share which do not end it."""
    with serving(file) as proxy:
        assert proxy.url.startswith("http://127.0.0.1:")
        yield proxy


async def uses(client: Client) -> None:
    """List the tools and call one of each server."""
    names = [tool.name for tool in (await client.list_tools()).tools]
    assert names == ["a:echo", "a:slow", "a:never", "b:echo"]
    for server in ("a", "b"):
        result = await client.call_tool(f"{server}:echo", {"x": server})
        assert json.loads(result.content[0].text) == {"x": server}  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_clients_of_the_sdk_use_it(served: Served, mode: str) -> None:
    async def scenario() -> None:
        async with Client(served.url, mode=mode) as client:
            await uses(client)
            expected = "2025-11-25" if mode == "legacy" else "2026-07-28"
            assert client.protocol_version == expected

    asyncio.run(scenario())


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_each_server_is_served_as_itself_beside_the_proxy(served: Served, mode: str) -> None:
    async def scenario() -> None:
        async with Client(served.url.removesuffix("/mcp") + "/a/mcp", mode=mode) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == ["echo", "slow", "never"]
            result = await client.call_tool("echo", {"x": 1})
            assert json.loads(result.content[0].text) == {"x": 1}  # type: ignore[union-attr]
            health = json.loads(served.request("GET", "/health").read())
            assert health["as_itself"] == {"a": "ready"}

    asyncio.run(scenario())


def test_a_session_is_of_one_endpoint(served: Served) -> None:
    accept = {"accept": "application/json, text/event-stream"}
    opened = served.request("POST", "/b/mcp", HELLO, **accept)
    session = opened.getheader("mcp-session-id")
    assert b'"name":"stub"' in opened.read()
    for path, status in (("/b/mcp", 200), ("/a/mcp", 404), ("/mcp", 404)):
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        answer = served.request("POST", path, ping, **accept, mcp_session_id=str(session))
        assert answer.status == status, path
        answer.read()
    assert served.request("POST", "/c/mcp", HELLO, **accept).status == 404


def test_one_server_alone_is_served_at_the_endpoint(file: Path) -> None:
    async def scenario(url: str) -> None:
        async with Client(url) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]

    with serving(file, "--as", "b") as proxy:
        asyncio.run(scenario(proxy.url))
        assert proxy.request("POST", "/a/mcp", HELLO).status == 404
        assert proxy.stop() == 0


def test_a_client_of_the_older_transport_uses_it(served: Served) -> None:
    async def scenario() -> None:
        url = served.url.removesuffix("/mcp") + "/sse"
        async with Client(sse_client(url), mode="legacy") as client:
            await uses(client)

    asyncio.run(scenario())


def test_cancelled_calls_leave_no_connection_of_their_client_open(served: Served) -> None:
    """A client of the SDK has a hundred."""

    async def scenario() -> None:
        async with Client(served.url, mode="legacy") as client:
            for _ in range(150):
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(client.call_tool("a:never", {}), 0.02)
            await uses(client)

    asyncio.run(scenario())


def test_an_answer_whose_connection_was_cut_reaches_its_client(served: Served) -> None:
    async def scenario() -> None:
        parts = urlsplit(served.url)
        called, cut = asyncio.Event(), asyncio.Event()
        relays: list[asyncio.Task[Any] | None] = []

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            relays.append(asyncio.current_task())
            back, forth = await asyncio.open_connection(parts.hostname, parts.port)

            async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                with suppress(OSError):
                    while data := await source.read(1 << 16):
                        sink.write(data)
                        if b'"a:slow"' in data:
                            called.set()
                        elif called.is_set() and b"data: \n" in data and not cut.is_set():
                            await sink.drain()
                            sink.transport.abort()
                            cut.set()
                with suppress(OSError):
                    sink.close()
                    await sink.wait_closed()

            await asyncio.gather(pass_on(reader, forth), pass_on(back, writer))

        listener = await asyncio.start_server(relay, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}{parts.path}"
        async with Client(url, mode="legacy") as client:
            result = await client.call_tool("a:slow", {})
            assert not result.is_error
        assert cut.is_set()
        listener.close()
        await asyncio.gather(*filter(None, relays))

    asyncio.run(scenario())


def test_fifty_clients_with_equal_ids_and_tokens_at_once_are_all_answered_right(
    served: Served,
) -> None:
    async def one(number: int) -> None:
        mode = ("legacy", "2026-07-28")[number % 2]
        async with (
            create_mcp_http_client(
                timeout=httpx2.Timeout(None)
            ) as http,  # a busy machine is no fault
            Client(streamable_http_client(served.url, http_client=http), mode=mode) as client,
        ):

            async def ask(turn: int) -> None:
                heard: list[float] = []

                async def progress(
                    progress: float, total: float | None, message: str | None
                ) -> None:
                    heard.append(progress)

                what = {"client": number, "turn": turn}
                result = await client.call_tool("a:echo", what, progress_callback=progress)
                assert json.loads(result.content[0].text) == what  # type: ignore[union-attr]

            await asyncio.gather(*(ask(turn) for turn in range(8)))

    async def scenario() -> None:
        await asyncio.gather(*(one(number) for number in range(50)))

    asyncio.run(scenario())
    assert served.said == []


def test_raw_requests_are_checked_before_they_are_read(served: Served) -> None:
    assert served.request("POST", body=HELLO, host="evil.example.com").status == 403
    assert served.request("POST", body=HELLO, origin="null").status == 403
    assert served.request("GET", "/health").status == 200
    answer = served.request("POST", body=HELLO)
    assert json.load(answer)["result"]["serverInfo"]["name"] == "mcp"
    session = answer.headers["mcp-session-id"]
    big = call(2, "a:echo", {"x": "y" * 5_000_000})
    answer = served.request("POST", body=big, mcp_session_id=session)
    assert len(answer.read()) > 5_000_000
    big["params"]["arguments"]["x"] *= 4
    answer = served.request("POST", body=big, mcp_session_id=session)
    assert answer.status == 413


def test_at_the_end_streams_end_and_the_exit_status_is_0(file: Path) -> None:
    with serving(file) as proxy:
        answer = proxy.request("POST", body=HELLO)
        session = answer.headers["mcp-session-id"]
        answer.read()
        stream = proxy.request("GET", mcp_session_id=session, accept="text/event-stream")
        beginning = [stream.readline() for _ in range(4)]
        assert beginning[0] == b"id: 0.0\n"
        assert proxy.stop() == 0
        assert stream.read() == b": the server is stopping\n\n"
        assert proxy.said == []


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_mounted_without_a_lifespan_it_leaves_no_server_behind(tmp_path: Path, name: str) -> None:
    """Of the last of these signals uvicorn knows nothing."""
    number = getattr(signal, name)
    log = tmp_path / "log"
    stubborn = {"sigterm": "ignore", "at": {"eof": [{"sleep": 3600}]}, "log": str(log)}
    file = swapped(tmp_path, {}, stubborn, "--serve", "stdio,http")
    lowered(file, **SHORT_GRACES)
    (tmp_path / "parent.py").write_text(PARENT, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "parent.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()

        async def scenario() -> None:
            async with Client(url, mode="legacy") as client:
                assert not (await client.call_tool("odd:echo", {})).is_error

        asyncio.run(scenario())
        process.send_signal(number)
        assert process.wait(TIMEOUT) in (0, -number)
    pids = {row["pid"] for row in events(log, "start")}
    assert pids
    assert not pids & {one.pid for one in Process.all()}


PARENT = """
import socket
import server, uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

inner = Starlette(routes=[Mount("/deep", app=server.app)])
outer = Starlette(routes=[Mount("/two", app=inner)])
listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}/two/deep/mcp/", flush=True)
uvicorn.Server(uvicorn.Config(outer, log_level="critical")).run([listener])
"""


def test_a_token_is_needed_where_one_is_set_and_for_an_address_that_others_reach(
    file: Path,
) -> None:
    token = {"MCP_PROXY_AUTH_TOKEN": "s3cret"}
    with serving(file, "--path", "/x", environ=token) as proxy:
        assert proxy.url.endswith("/x")
        assert proxy.request("POST", body=HELLO).status == 401
        right = proxy.request("POST", body=HELLO, authorization="Bearer s3cret")
        assert right.status == 200
    refused = ran(file, "--http", "--host", "0.0.0.0")  # noqa: S104
    assert refused.returncode == 2
    assert "can be reached by others" in refused.stderr


def test_a_connection_on_which_no_request_arrives_is_closed(file: Path, tmp_path: Path) -> None:
    hasty = tmp_path / "server.py"
    shutil.copy(file, hasty)
    with serving(lowered(hasty, HEADER_SECONDS=0.1)) as proxy:
        parts = urlsplit(proxy.url)
        with socket.create_connection((parts.hostname, parts.port), TIMEOUT) as slow:
            slow.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
            assert slow.recv(1) == b""
        assert proxy.request("POST", body=HELLO).status == 200


CALL = call(2, "a:echo", {"x": "SECRET"})


def calls(proxy: Served) -> None:
    """Make a call of a session."""
    answer = proxy.request("POST", body=HELLO)
    session = answer.headers["mcp-session-id"]
    answer.read()
    assert b"SECRET" in proxy.request("POST", body=CALL, mcp_session_id=session).read()


def logged(log: Path) -> tuple[list[str], list[str]]:
    """Return the paths of requests and the names of calls in a log."""
    assert "SECRET" not in log.read_text()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    requests = [line["path"] for line in lines if "path" in line]
    return requests, [line["name"] for line in lines if "outcome" in line]


def test_the_level_of_the_environment_has_calls_and_requests_logged(
    file: Path, tmp_path: Path
) -> None:
    debug = {"MCP_PROXY_LOG_LEVEL": "debug"}
    with serving(file, "--log", str(tmp_path / "log"), environ=debug) as proxy:
        calls(proxy)
        assert proxy.stop() == 0
    assert logged(tmp_path / "log") == (["/mcp", "/mcp"], ["a:echo"])
    (tmp_path / "info").mkdir()
    with serving(file, environ={"MCP_PROXY_LOG_DIRECTORY_PATH": str(tmp_path / "info")}) as proxy:
        calls(proxy)
        assert proxy.stop() == 0
    assert logged(tmp_path / "info/mcp.log") == ([], [])
    with serving(file, environ=debug) as proxy:
        calls(proxy)
        assert proxy.stop() == 0
        assert proxy.said == []


def test_an_asgi_server_has_the_log_of_the_directory(file: Path, tmp_path: Path) -> None:
    debug = {**os.environ, "MCP_PROXY_LOG_LEVEL": "debug"}

    def asked(folder: Path) -> str:
        command = [sys.executable, "-c", ASKS, str(file)]
        environ = {**debug, "MCP_PROXY_LOG_DIRECTORY_PATH": str(folder)}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    assert asked(tmp_path) == "200\n"
    assert logged(tmp_path / "mcp.log") == (["/health"], [])
    said = asked(tmp_path / "none")
    assert said.startswith("503\nmcp: MCP_PROXY_LOG_DIRECTORY_PATH: cannot write the log: ")


ASKS = """
import asyncio, importlib.util, sys

spec = importlib.util.spec_from_file_location("server", sys.argv[1])
server = importlib.util.module_from_spec(spec)
spec.loader.exec_module(server)
scope = {"type": "http", "method": "GET", "path": "/health", "query_string": b"",
         "headers": [(b"host", b"localhost")], "server": ("127.0.0.1", 80)}

async def receive():
    return {"type": "http.request", "body": b"", "more_body": False}

async def send(event):
    if "status" in event:
        print(event["status"])

asyncio.run(server.app(scope, receive, send))
"""


def ran(file: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a file to its end."""
    return subprocess.run(
        [sys.executable, str(file), *arguments],
        capture_output=True,
        text=True,
        check=False,
        input="",
        timeout=TIMEOUT,
        env={**os.environ, **environ},
    )


def test_what_cannot_be_served_is_said_in_a_line(file: Path, tmp_path: Path) -> None:
    plain = compiled(tmp_path, {"a": stub_entry()})
    refused = ran(plain, "--http")
    assert refused.returncode == 2
    assert "compiled without --serve stdio,http" in refused.stderr
    assert '"http.app": ' not in plain.read_text(encoding="utf-8")
    (tmp_path / "uvicorn.py").write_text("raise ImportError")
    missing = ran(file, "--http", PYTHONPATH=str(tmp_path))
    assert missing.returncode == 2
    [line] = missing.stderr.splitlines()
    assert "needs uvicorn, which is not installed: python3 -m pip install uvicorn" in line
    for flags in (["--port", "1"], ["--http", "--list"], ["--http", "--port", "x"]):
        assert ran(file, *flags).returncode == 2


def test_a_variable_that_is_not_set_fails_the_start(tmp_path: Path) -> None:
    entry = {**stub_entry(), "env": {"KEY": "${NEEDED_KEY}"}}
    os.environ["NEEDED_KEY"] = "x"
    try:
        file = compiled(tmp_path, {"a": entry}, "--serve", "stdio,http")
    finally:
        del os.environ["NEEDED_KEY"]
    refused = ran(file, "--http", "--port", "0")
    assert refused.returncode == 3
    assert "NEEDED_KEY" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_importing_the_file_serves_nothing_and_loads_no_part(file: Path) -> None:
    code = "import server, sys; print('asyncio' in sys.modules, callable(server.app))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=file.parent,
        input="",
    )
    assert done.stdout == "False True\n"


def test_the_application_of_the_file_lives_as_its_server_says(file: Path) -> None:
    code = """
import asyncio, server

async def main():
    said, told = asyncio.Queue(), asyncio.Queue()
    life = asyncio.ensure_future(server.app({"type": "lifespan"}, told.get, said.put))
    for event in ("startup", "shutdown"):
        await told.put({"type": f"lifespan.{event}"})
        heard = asyncio.ensure_future(said.get())
        await asyncio.wait({life, heard}, return_when=asyncio.FIRST_COMPLETED)
        if life.done():
            life.result()
        print((await heard)["type"])
    await life

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=file.parent, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert done.stderr == ""
