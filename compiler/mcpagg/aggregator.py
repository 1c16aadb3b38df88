"""The live aggregator: every server of a config behind one object.

    async with Aggregator("mcp.json") as a:
        tools = await a.list_tools()
        result = await a.call_tool("github.search", {"query": "mcp"})

It is the dynamic counterpart of the emitted file, on the client and the transports of the SDK.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
import mcp
from anyio.abc import TaskGroup, TaskStatus
from mcp.client import Transport
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, CallToolResult, ErrorData, Tool

from mcpagg.config import read_config
from mcpagg.environment import check_environment
from mcpagg.problems import ChildFault, NameClash, Problem
from mcpagg.snapshot import Json
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg_runtime.remote.addresses import Address
from mcpagg_runtime.remote.faults import refused, unreachable
from mcpagg_runtime.serve.launch import Launch, prepare

NO_PREFIX = "Tool name must be prefixed with server key"

# What the SDK reports when a connection ends; of a server's own errors hardly one is the same.
CLOSED = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")

# Seconds: to connect and to send, and for the request that ends a session.
CONNECT_SECONDS = 30.0
HTTP_TIMEOUT = httpx2.Timeout(CONNECT_SECONDS, read=None)
DELETE_TIMEOUT = httpx2.Timeout(2.0)

T = TypeVar("T")


class UnknownTool(LookupError):
    """Raised by `call_tool` for a name that no server offers."""


class Aggregator:
    """Connects to every server of a config, lists their tools as `server.tool`, and calls them.

    Tools and results are plain JSON with the names of the protocol (`inputSchema`, `isError`),
    as far as the SDK knows their members. An error of a server is the SDK's `MCPError` as it came;
    a note on it names the server, as on what the SDK refuses. Once entered, `clients` holds the
    SDK's client of each server, `faults` what is wrong with those that failed.
    """

    def __init__(
        self,
        config: str | Path | Mapping[str, Any],
        *,
        environ: Mapping[str, str] | None = None,
        connect_timeout: float = 60.0,
        allow_failed: bool = False,
        **options: Any,
    ) -> None:
        """Take a config: its path, or its content with `servers` or `mcpServers`.

        `environ` is used instead of this process's environment; `connect_timeout` is in seconds for
        each server. With `allow_failed` servers that fail are left out. `options` are those of
        each `mcp.Client`, such as `elicitation_callback`.

        Raises:
            OSError: the file cannot be read.
            ConfigError: the config cannot be understood.
            EnvironmentFault: variables, programs or folders are missing.
        """
        self._environ = os.environ if environ is None else environ
        self._spec = _read(config, self._environ)
        self._servers = {server.name: server for server in self._spec.servers}
        self.clients: dict[str, mcp.Client] = {}
        self.faults: dict[str, Problem] = {}
        self._connect_timeout = connect_timeout
        self._allow_failed = allow_failed
        self._options = options
        self._targets: dict[str, set[tuple[str, str]]] = {}
        self._tasks: TaskGroup
        self._closing: anyio.Event

    async def __aenter__(self) -> Aggregator:
        """Start and reach all servers side by side.

        Raises:
            ChildFault: servers failed, all of them named; nothing is left running.
        """
        rows = {name: server.row() for name, server in self._servers.items()}
        folder = str(self._spec.folder)
        launches = {name: prepare(name, rows, self._environ, folder) for name in rows}
        self._closing = anyio.Event()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        try:
            async with anyio.create_task_group() as starting:
                for name, launch in launches.items():
                    starting.start_soon(self._tasks.start, self._hold, self._servers[name], launch)
        except BaseException:
            self._tasks.cancel_scope.cancel()
            await self.__aexit__()
            raise
        if self.faults and not self._allow_failed:
            await self.__aexit__()
            raise self._child_fault(*(name for name in self._servers if name in self.faults))
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all connections, and every process that was started."""
        self._closing.set()
        await self._tasks.__aexit__(None, None, None)

    async def list_tools(self) -> list[Json]:
        """Return the tools of all servers in config order, each with `server.tool` as its name.

        Raises:
            MCPError: a server answered with an error.
            ValueError: a server gave what the SDK refuses.
            ChildFault: a server is gone.
        """
        found: dict[str, list[Tool]] = {}

        async def read(name: str) -> None:
            found[name] = await self._ask(name, _tools(self.clients[name]))

        listed = [name for name in self._servers if name in self.clients]
        try:
            async with anyio.create_task_group() as reading:
                for name in listed:
                    reading.start_soon(read, name)
        except ExceptionGroup as errors:
            raise _cause(errors) from None
        tools = [(name, tool) for name in listed for tool in found[name]]
        self._targets = {}
        for name, tool in tools:
            for separator in ".:":
                spelled = f"{name}{separator}{tool.name}"
                self._targets.setdefault(spelled, set()).add((name, tool.name))
        return [{**_plain(tool), "name": f"{name}.{tool.name}"} for name, tool in tools]

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> Json:
        """Call `server.tool`, also spelled `server:tool`, and return the result.

        Raises:
            UnknownTool: no server offers it, also when asked once more.
            NameClash: two servers' tools have this name.
            TypeError: the arguments are not JSON.
            MCPError: the server answered with an error.
            ValueError, RuntimeError: it gave what the SDK, or the tool's `outputSchema`, refuses.
            ChildFault: the server is gone.
        """
        plain = json.loads(json.dumps(arguments or {}))
        if name not in self._targets:
            await self.list_tools()
        targets = sorted(self._targets.get(name, ()))
        if not targets:
            what = "Tool not found" if "." in name or ":" in name else NO_PREFIX
            raise UnknownTool(f"{what}: {name}")
        if len(targets) > 1:
            both = [Problem(self._servers[one].path, f"offers {tool!r}") for one, tool in targets]
            raise NameClash(self._spec.source, [Problem("", f"{name!r} is not one tool"), *both])
        ((server, tool),) = targets
        return _plain(await self._ask(server, self.clients[server].call_tool(tool, plain)))

    async def _hold(
        self, server: ServerSpec, launch: Launch, *, task_status: TaskStatus[None]
    ) -> None:
        """Hold the connection to one server; whatever goes wrong in it concerns no other."""
        try:
            with anyio.fail_after(self._connect_timeout) as patience:
                async with mcp.Client(_transport(server, launch), **self._options) as client:
                    patience.deadline = math.inf
                    self.clients[server.name] = client
                    task_status.started()
                    await self._closing.wait()
        except Exception as error:
            what = f"server '{server.name}' {launch.redact(self._reason(error, launch))}"
            self.faults[server.name] = Problem(server.path, what)
            if server.name not in self.clients:
                task_status.started()

    async def _ask(self, name: str, request: Coroutine[Any, Any, T]) -> T:
        """Await a request to a server; an error names it."""
        try:
            return await request
        except Exception as error:
            if isinstance(error, mcp.MCPError) and error.error == CLOSED:
                what = f"server '{name}' closed the connection before it answered"
                self.faults.setdefault(name, Problem(self._servers[name].path, what))
            if name not in self.faults:
                error.add_note(f"from server '{name}'")
                raise
            raise self._child_fault(name) from error

    def _reason(self, error: Exception, launch: Launch) -> str:
        """Say why a connection failed or ended, of a remote server as the emitted file does."""
        cause = _cause(error)
        if isinstance(cause, TimeoutError):
            return f"could not be reached: no answer within {self._connect_timeout:g} s"
        told = _told(cause, launch) if launch.url else ""
        problem = f"{type(cause).__name__}: {cause}".partition("\n")[0]
        return told or f"could not be reached: {problem}"

    def _child_fault(self, *names: str) -> ChildFault:
        return ChildFault(self._spec.source, [self.faults[name] for name in names])


def _transport(server: ServerSpec, launch: Launch) -> Transport:
    """Return the SDK's transport to a server."""
    if server.transport == "streamable-http":
        return _streamable_http(launch)
    if server.transport == "sse":
        return sse_client(launch.url, launch.headers, sse_read_timeout=math.inf)
    command, *args = launch.argv
    return mcp.stdio_client(
        mcp.StdioServerParameters(command=command, args=args, env=launch.env, cwd=launch.cwd)
    )


@asynccontextmanager
async def _streamable_http(launch: Launch) -> AsyncGenerator[Any, None]:
    """Open the SDK's transport with the server's headers."""
    hooks: dict[str, list[Callable[..., Any]]] = {
        "request": [_shorten_delete],
        "response": [_refuse],
    }
    async with (
        httpx2.AsyncClient(
            headers=launch.headers, timeout=HTTP_TIMEOUT, event_hooks=hooks
        ) as client,
        streamable_http_client(launch.url, http_client=client) as streams,
    ):
        yield streams


def _told(cause: BaseException, launch: Launch) -> str:
    """Say what a failure of HTTP means, "" for any other."""
    address = Address(launch.url)
    if isinstance(cause, httpx2.HTTPStatusError):
        answer = cause.response
        given = "authorization" in cause.request.headers
        return refused(answer.status_code, address.shown, answer.headers, credentials=given)
    if not isinstance(cause, httpx2.ConnectError):
        return ""
    below: BaseException | None = cause
    told = ""
    while below is not None:  # the last one is the system's own
        if isinstance(below, OSError):
            told = unreachable(below, address.shown, address.host, CONNECT_SECONDS)
        below = below.__cause__ or below.__context__
    return told


async def _shorten_delete(request: httpx2.Request) -> None:
    """Give the end of a session little time: closing must not depend on the server."""
    if request.method == "DELETE":
        request.extensions = {**request.extensions, "timeout": DELETE_TIMEOUT.as_dict()}


async def _refuse(response: httpx2.Response) -> None:
    """End the connection to a server that does not let us in: the SDK would not name the status."""
    if response.status_code in (401, 403):
        response.raise_for_status()


async def _tools(client: mcp.Client) -> list[Tool]:
    """Return the tools of one server, page after page."""
    if client.server_capabilities.tools is None:
        return []
    page = await client.list_tools(cache_mode="refresh")
    tools = page.tools
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


def _cause(error: BaseException) -> BaseException:
    """Return the first error in a group of groups; another error as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _plain(model: Tool | CallToolResult) -> Json:
    """Return what the SDK has read as the JSON that it was read from."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _read(config: str | Path | Mapping[str, Any], environ: Mapping[str, str]) -> ProxySpec:
    """Read and check a config; literal secrets are no fault here, where nothing is written."""
    if isinstance(config, Mapping):
        text, source, folder = json.dumps(config).encode(), "config", Path.cwd()
    else:
        text, source, folder = Path(config).read_bytes(), str(config), Path(config).parent
    spec, _ = read_config(text, source=source, folder=folder.absolute(), allow_secrets=True)
    return check_environment(spec, environ)[0]
