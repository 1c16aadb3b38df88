"""The live aggregator: every server of a config behind one object.

    async with Aggregator("mcp.json") as a:
        tools = await a.list_tools()
        result = await a.call_tool("github.search", {"query": "mcp"})

It is the dynamic counterpart of the emitted file, on the client of the SDK.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp
from anyio.abc import TaskGroup, TaskStatus
from mcp_types import CallToolResult, Tool

from mcpagg.dropped import every_answer
from mcpagg.passes.config import read_config
from mcpagg.passes.environment.environment import check_environment
from mcpagg.problems import ChildFault, NameClash, Problem
from mcpagg.snapshot import Json
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg.transports import describe_failure, transport
from mcpagg_runtime.launch.launch import Launch
from mcpagg_runtime.tool.aggregator import Misused, entered_already, used_outside

__all__ = ["Aggregator", "Misused", "UnknownTool"]

NO_PREFIX = "Tool name must be prefixed with server key"


class UnknownTool(LookupError):
    """Raised by `call_tool` for a name that no server offers."""


class Aggregator:
    """Connects to every server of a config, lists their tools as `server.tool`, and calls them.

    Tools and results are plain JSON with the names of the protocol (`inputSchema`, `isError`),
    as far as the SDK knows their members. An error is the SDK's (`MCPError` as the server gave it,
    or that the connection is closed), with a note that names the server; an answer that cannot be
    read is one as well. Once entered, `clients`
    holds the SDK's client of each server, `faults` what is wrong with those that failed.
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
        self.clients: dict[str, mcp.Client] = {}
        self.faults: dict[str, Problem] = {}
        self._connect_timeout = connect_timeout
        self._allow_failed = allow_failed
        self._options = options
        self._targets: dict[str, set[tuple[str, str]]] = {}
        """{name in either spelling: (server, tool) of all that have it}, as last listed."""
        self._tasks: TaskGroup | None = None
        """Hold the connections, between entering and leaving."""
        self._was_entered = False
        self._closing: anyio.Event

    async def __aenter__(self) -> Aggregator:
        """Start and reach all servers side by side.

        Raises:
            ChildFault: servers failed, all of them named; nothing is left running.
            Misused: it is entered already.
        """
        if self._tasks is not None:
            raise entered_already()
        launches = self._spec.launches(self._spec.paths, self._environ)
        self.clients, self.faults, self._targets = {}, {}, {}
        self._closing = anyio.Event()
        tasks = await anyio.create_task_group().__aenter__()
        self._tasks, self._was_entered = tasks, True
        try:
            async with anyio.create_task_group() as starting:
                for server in self._spec.servers:
                    starting.start_soon(tasks.start, self._hold, server, launches[server.name])
            if self.faults and not self._allow_failed:
                raise ChildFault(self._spec.source, [self.faults[name] for name in self._failed()])
        except BaseException:
            tasks.cancel_scope.cancel()
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = self._open()
        self._tasks = None
        self._closing.set()
        await tasks.__aexit__(None, None, None)

    def _open(self) -> TaskGroup:
        """Return what holds the connections.

        Raises:
            Misused: see `used_outside`.
        """
        if self._tasks is None:
            raise used_outside(self._was_entered)
        return self._tasks

    def _failed(self) -> list[str]:
        return [server.name for server in self._spec.servers if server.name in self.faults]

    async def list_tools(self) -> list[Json]:
        """Return the tools of all servers in config order, each with `server.tool` as its name.

        Raises:
            MCPError, ValueError: a server answered with an error, or with what the SDK refuses.
            Misused: see `used_outside`.
        """
        self._open()
        servers = [server.name for server in self._spec.servers if server.name in self.clients]
        tools = [(name, tool) for name in servers for tool in await self._tools(name)]
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
            MCPError: the server answered with an error, or is gone.
            ValueError, RuntimeError: it gave what the SDK, or the tool's `outputSchema`, refuses.
            Misused: see `used_outside`.
        """
        self._open()
        plain = json.loads(json.dumps(arguments or {}))
        if name not in self._targets:
            await self.list_tools()
        targets = sorted(self._targets.get(name, ()))
        if not targets:
            what = "Tool not found" if "." in name or ":" in name else NO_PREFIX
            raise UnknownTool(f"{what}: {name}")
        if len(targets) > 1:
            paths = self._spec.paths
            both = [Problem(paths[server], f"offers {tool!r}") for server, tool in targets]
            raise NameClash(self._spec.source, [Problem("", f"{name!r} is not one tool"), *both])
        ((server, tool),) = targets
        with _naming(server):
            return _plain(await self.clients[server].call_tool(tool, plain))

    async def _tools(self, server: str) -> list[Tool]:
        """Return the tools of one server, page after page."""
        client = self.clients[server]
        if client.server_capabilities.tools is None:
            return []
        with _naming(server):
            page = await client.list_tools(cache_mode="refresh")
            tools = page.tools
            while page.next_cursor is not None:
                page = await client.list_tools(cursor=page.next_cursor)
                tools += page.tools
        return tools

    async def _hold(
        self, server: ServerSpec, launch: Launch, *, task_status: TaskStatus[None]
    ) -> None:
        """Hold the connection to one server; whatever goes wrong in it concerns no other."""
        try:
            with anyio.fail_after(self._connect_timeout) as scope:
                stream = every_answer(transport(launch, self._spec.source), server.name)
                async with mcp.Client(stream, **self._options) as client:
                    scope.deadline = math.inf
                    self.clients[server.name] = client
                    task_status.started()
                    await self._closing.wait()
        except Exception as error:
            what = f"server '{server.name}' {launch.redact(self._reason(error, launch))}"
            self.faults[server.name] = Problem(server.path, what)
            if server.name not in self.clients:
                task_status.started()

    def _reason(self, error: BaseException, launch: Launch) -> str:
        """Say why a connection failed or ended, of a remote server as the emitted file does."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if reason := describe_failure(error, launch):
            return reason
        if isinstance(error, TimeoutError):
            return f"could not be reached: no answer within {self._connect_timeout:g} s"
        what = f"{type(error).__name__}: {error}".partition("\n")[0]
        return f"could not be reached: {what}"


@contextmanager
def _naming(server: str) -> Iterator[None]:
    """Add to an error which server it is from."""
    try:
        yield
    except Exception as error:
        error.add_note(f"from server '{server}'")
        raise


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
