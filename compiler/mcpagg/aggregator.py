"""The live aggregator: every server of a config behind one object.

    async with Aggregator("mcp.json") as a:
        tools = await a.list_tools()
        result = await a.call_tool("github.search", {"query": "mcp"})

It is the dynamic counterpart of the emitted file, and what the compiler's discovery is built on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus

from mcpagg.config import read_config
from mcpagg.connection.handshake import as_fault, connect, side_by_side
from mcpagg.connection.requests import Connection, ConnectionFault
from mcpagg.environment import check_environment
from mcpagg.problems import ChildFault, NameClash, Problem
from mcpagg.snapshot import Json
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg_runtime.launch import Launch, prepare

CONNECT_SECONDS = 60.0
NO_PREFIX = "Tool name must be prefixed with server key"

T = TypeVar("T")


class UnknownTool(LookupError):
    """Raised by `call_tool` for a name that no server offers."""


class Aggregator:
    """Connects to every server of a config, lists their tools as `server.tool`, and calls them.

    Results are the plain JSON of the server, nothing dropped; an error of a server is the SDK's
    `MCPError`, untouched. Requests of a server are answered for a user who is not there (no roots,
    sampling refused, elicitation cancelled), where `capabilities` declare that they may be made.
    """

    def __init__(
        self,
        config: str | Path | Mapping[str, Any] | ProxySpec,
        *,
        environ: Mapping[str, str] | None = None,
        capabilities: Json | None = None,
        connect_timeout: float = CONNECT_SECONDS,
        allow_failed: bool = False,
        minimal: bool = False,
    ) -> None:
        """Take a config: its path, or its content with `servers` or `mcpServers`.

        A `ProxySpec` is taken as checked. `environ` is used instead of this process's environment;
        `connect_timeout` is in seconds for each server. With `allow_failed` servers that fail are
        left out and stand in `faults`. `minimal`: servers inherit the basic variables only.

        Raises:
            OSError: the file cannot be read.
            ConfigError: the config cannot be understood.
            EnvironmentFault: variables, programs or folders are missing.
        """
        self._environ = os.environ if environ is None else environ
        self.spec = config if isinstance(config, ProxySpec) else _read(config, self._environ)
        self.connections: dict[str, Connection] = {}
        self.faults: dict[str, ConnectionFault] = {}
        self._capabilities = capabilities or {}
        self.connect_timeout = connect_timeout
        self._allow_failed = allow_failed
        self._minimal = minimal
        self._targets: dict[str, dict[tuple[str, str], ServerSpec]] = {}
        self._tasks: TaskGroup
        self._closing: anyio.Event

    async def __aenter__(self) -> Aggregator:
        """Start and reach all servers side by side.

        Raises:
            ChildFault: servers failed, all of them named; nothing is left running.
        """
        rows = {server.name: server.row() for server in self.spec.servers}
        folder = str(self.spec.folder)
        launches = [prepare(name, rows, self._environ, folder, self._minimal) for name in rows]
        self._closing = anyio.Event()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        try:
            async with anyio.create_task_group() as starting:
                for server, launch in zip(self.spec.servers, launches, strict=True):
                    starting.start_soon(self._tasks.start, self._attend, server, launch)
        except BaseException:
            self._tasks.cancel_scope.cancel()
            await self.__aexit__()
            raise
        if self.faults and not self._allow_failed:
            await self.__aexit__()
            failed = [server for server in self.spec.servers if server.name in self.faults]
            raise self._child_fault(*failed)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all connections, and every process that was started."""
        self._closing.set()
        await self._tasks.__aexit__(None, None, None)

    async def list_tools(self) -> list[Json]:
        """Return the tools of all servers in config order, as they gave them but for `name`.

        Raises:
            MCPError: a server answered with an error.
            ChildFault: a server is gone.
        """
        listed: dict[str, list[Json]] = {}

        async def read(server: ServerSpec) -> None:
            listed[server.name] = await self._ask(
                server, self.connections[server.name].list_items()
            )

        await side_by_side(read, self._connected_servers())
        self._targets = {}
        for server in self._connected_servers():
            for tool in listed[server.name]:
                for spelling in (f"{server.name}.{tool['name']}", f"{server.name}:{tool['name']}"):
                    self._targets.setdefault(spelling, {})[server.name, tool["name"]] = server
        return [
            {**tool, "name": f"{server.name}.{tool['name']}"}
            for server in self._connected_servers()
            for tool in listed[server.name]
        ]

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> Json:
        """Call `server.tool`, also spelled `server:tool`, and return the result as it came.

        Raises:
            UnknownTool: no server offers it, also when asked once more.
            NameClash: two servers' tools have this name.
            TypeError: the arguments are not JSON.
            MCPError: the server answered with an error.
            ChildFault: the server is gone.
        """
        plain = json.loads(json.dumps(arguments or {}))
        if name not in self._targets:
            await self.list_tools()
        targets = self._targets.get(name, {})
        if not targets:
            what = "Tool not found" if "." in name or ":" in name else NO_PREFIX
            raise UnknownTool(f"{what}: {name}")
        if len(targets) > 1:
            both = [
                Problem(server.path, f"offers {tool!r}") for (_, tool), server in targets.items()
            ]
            raise NameClash(self.spec.source, [Problem("", f"{name!r} is not one tool"), *both])
        (((_, tool), server),) = targets.items()
        call = {"name": tool, "arguments": plain}
        return await self._ask(server, self.connections[server.name].call(call))

    async def _connected(self, connection: Connection) -> None:
        """Called with each connection as soon as it is up; `__aenter__` waits for it."""

    def _failed(self, server: ServerSpec, fault: ConnectionFault) -> None:
        """Called with each server as soon as it has failed."""

    async def _attend(
        self, server: ServerSpec, launch: Launch, *, task_status: TaskStatus[None]
    ) -> None:
        """Hold the connection to one server; whatever goes wrong in it concerns no other."""
        try:
            async with connect(
                server, launch, self._capabilities, self.connect_timeout
            ) as connection:
                await self._connected(connection)
                self.connections[server.name] = connection
                task_status.started()
                await self._closing.wait()
        except Exception as error:
            fault = as_fault(error, launch)
            self.faults[server.name] = fault
            self._failed(server, fault)
            if server.name not in self.connections:
                task_status.started()

    async def _ask(self, server: ServerSpec, request: Awaitable[T]) -> T:
        try:
            return await request
        except ConnectionFault as fault:
            self.faults[server.name] = fault
            raise self._child_fault(server) from fault

    def _connected_servers(self) -> list[ServerSpec]:
        return [server for server in self.spec.servers if server.name in self.connections]

    def _child_fault(self, *servers: ServerSpec) -> ChildFault:
        return ChildFault(self.spec.source, [problem(s, self.faults[s.name]) for s in servers])


def _read(config: str | Path | Mapping[str, Any], environ: Mapping[str, str]) -> ProxySpec:
    """Read and check a config; literal secrets are no fault here, where nothing is written."""
    if isinstance(config, Mapping):
        text, source, folder = json.dumps(config).encode(), "config", Path.cwd()
    else:
        text, source, folder = Path(config).read_bytes(), str(config), Path(config).parent
    spec, _ = read_config(text, source=source, folder=folder.absolute(), allow_secrets=True)
    return check_environment(spec, environ)[0]


def problem(server: ServerSpec, what: object) -> Problem:
    """Say something of a server."""
    return Problem(server.path, f"server '{server.name}' {what}")
