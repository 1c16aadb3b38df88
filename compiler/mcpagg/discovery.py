"""The discovery pass: start every child once and ask it what it offers.

A list may depend on the client's capabilities, and a child may complete it only after the
handshake. So discovery declares every capability that a proxy can relay, and reads a list again
when no more `list_changed` notifications come. If a child's list changed in this way, the child is
started a second time by a client without capabilities, to learn which tools need one.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from mcpagg.connection.handshake import as_fault, connect
from mcpagg.connection.requests import BadList, Connection, ConnectionFault
from mcpagg.jsontext import dumps
from mcpagg.problems import ChildFault, Problem
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg_runtime.catalogue import PROMPTS, RESOURCES, SKILLS, TEMPLATES, TOOLS, Kind
from mcpagg_runtime.launch import Launch, prepare
from mcpagg_runtime.protocol import PAGES

RELAYED: Json = {
    "roots": {"listChanged": True},
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "extensions": {PAGES: {"mimeTypes": ["text/html;profile=mcp-app"]}},
}
"""The client capabilities that a proxy can pass on between a child and its client."""

CONNECT_SECONDS = 60.0

# Seconds. A list is complete when no notification came for QUIET; LONGEST limits the whole wait.
# The first notification is waited for: HINT if the child declares `listChanged`, LONGEST if its
# list is empty.
HINT = 0.25
QUIET = 0.5
LONGEST = 2.0
# How long a list other than the tools may take.
OTHERS = 10.0

# Windows has the first one only in name, and the second one not at all.
_ENDING = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

Progress = Callable[[str, str], None]


def discover(
    spec: ProxySpec,
    environ: Mapping[str, str],
    *,
    connect_timeout: float = CONNECT_SECONDS,
    allow_failed: bool = False,
    minimal: bool = False,
    progress: Progress | None = None,
) -> tuple[Snapshot, tuple[Problem, ...]]:
    """Start all children side by side; return what they say they offer, and warnings.

    `spec` has passed the environment check.

    `connect_timeout` bounds, in seconds, the handshake of each child and then each reading of its
    list. With `allow_failed`, children that fail are left out and named in the snapshot; with
    `minimal`, children inherit the basic variables of `environ` only.
    `progress(server, text)` is called at each step: "starting", "13 tools, 0.8 s", "failed: …".

    No process is left running, whether it returns, raises, or is ended by Ctrl-C, SIGTERM or
    SIGHUP.

    Raises:
        ChildFault: naming every child that failed, its exit status and the end of its stderr.
    """
    progress = progress or (lambda server, text: None)
    discovery = Discovery(spec, environ, connect_timeout, minimal, progress)
    anyio.run(discovery.run)
    if discovery.faults and not allow_failed:
        total = len(spec.servers)
        advice = (
            f"{total - len(discovery.faults)} of {total} servers are fine; "
            "--skip NAME leaves a server out, --allow-failed goes on without those that fail, "
            f"--connect-timeout S gives each more than {connect_timeout:g} seconds"
        )
        failed = [server for server in spec.servers if server.name in discovery.faults]
        problems = [problem for server in failed for problem in discovery.warnings(server)]
        raise ChildFault(spec.source, problems, advice)
    found = [server.name for server in spec.servers if server.name in discovery.children]
    missing = [server.name for server in spec.servers if server.name not in discovery.children]
    warnings = [warning for server in spec.servers for warning in discovery.warnings(server)]
    snapshot = Snapshot(tuple(discovery.children[name] for name in found), tuple(missing))
    return snapshot, tuple(warnings)


class Discovery:
    """Takes the snapshot of each child as soon as it is up.

    `children` are the snapshots, `faults` what is wrong with the others.
    """

    def __init__(
        self,
        spec: ProxySpec,
        environ: Mapping[str, str],
        connect_timeout: float,
        minimal: bool,
        progress: Progress,
    ) -> None:
        """Take what `discover` takes."""
        self._spec = spec
        self._environ = environ
        self._minimal = minimal
        self.connect_timeout = connect_timeout
        self.progress = progress
        self.children: dict[str, ChildSnapshot] = {}
        self.faults: dict[str, ConnectionFault] = {}
        self._remarks: dict[str, list[str]] = {}

    async def run(self) -> None:
        """Ask all children side by side."""
        self._began = anyio.current_time()
        servers = self._spec.servers
        for server in servers:
            self.progress(server.name, "starting")
        rows = {server.name: server.row() for server in servers}
        folder = str(self._spec.folder)
        scope = anyio.CancelScope()
        with _cancelled_by_signals(scope), scope:
            async with anyio.create_task_group() as tasks:
                for server in servers:
                    launch = prepare(server.name, rows, self._environ, folder, self._minimal)
                    tasks.start_soon(self._ask, server, launch)

    async def _ask(self, server: ServerSpec, launch: Launch) -> None:
        """Take the snapshot of one child; whatever goes wrong in it concerns no other."""
        try:
            async with connect(server, launch, RELAYED, self.connect_timeout) as connection:
                await self._connected(connection)
        except Exception as error:
            fault = as_fault(error, launch)
            self.faults[server.name] = fault
            self.progress(server.name, f"failed: {fault.what}")

    def warnings(self, server: ServerSpec) -> list[Problem]:
        """Return what is odd about a child, or what failed."""
        fault = self.faults.get(server.name)
        remarks = [str(fault)] if fault else dict.fromkeys(self._remarks[server.name])
        return [Problem(server.path, f"server '{server.name}' {remark}") for remark in remarks]

    async def _connected(self, connection: Connection) -> None:
        tools: list[Json] = []
        moved: float | None = None
        fault: BadList | None = None
        try:
            tools, moved = await self._at_rest(connection, HINT)
        except BadList as problem:
            fault = problem
        conditional: frozenset[str] = frozenset()
        if moved is not None:
            conditional = await self._conditional(connection, tools, moved)
        if noise := connection.noise():
            connection.remarks.append(f"writes something else than JSON-RPC to stdout: {noise}")
        name = connection.server.name
        others = [
            await self._others(connection, kind) for kind in (PROMPTS, RESOURCES, TEMPLATES, SKILLS)
        ]
        if fault is not None:
            if not any(others):
                raise connection.fault(fault.what)
            connection.remarks.append(f"{fault.what}: taken for empty")
        elif not tools and "tools" in connection.capabilities:
            connection.remarks.append("lists no tools")
        self.children[name] = ChildSnapshot(
            name=name,
            protocol=connection.protocol,
            info=connection.info,
            capabilities=connection.capabilities,
            instructions=connection.instructions,
            tools=tuple(tools),
            prompts=others[0],
            resources=others[1],
            templates=others[2],
            skills=others[3],
            conditional=conditional,
            hints=connection.hints,  # of all lists, now that they are read
        )
        self._remarks[name] = [connection.launch.redact(remark) for remark in connection.remarks]
        took = anyio.current_time() - self._began
        self.progress(name, f"{len(tools)} tool{'' if len(tools) == 1 else 's'}, {took:.1f} s")

    async def _at_rest(
        self, connection: Connection, patience: float
    ) -> tuple[list[Json], float | None]:
        """Read a child's tools once no change comes; also return for how many seconds they changed.

        `patience` is how long to wait for news of a list that is not empty, in seconds. At most
        two readings, whatever the child announces.
        """
        began = anyio.current_time()
        tools = await self._tools(connection)
        declared = connection.capabilities.get("tools")
        # A modern list is not settling: it may depend on no connection and on no capability
        # (specification 2026-07-28, the lists), and only listeners are notified of changes.
        if declared is None or connection.modern:
            return tools, None
        hinted = isinstance(declared, dict) and declared.get("listChanged") is True
        last: float | None = None
        with anyio.move_on_after(LONGEST):
            wait = patience if tools and hinted else 0.0 if tools else LONGEST
            while await connection.changed(wait):
                last, wait = anyio.current_time(), QUIET
        if last is None:
            return tools, None
        before = connection.changes
        again = await self._tools(connection)
        # News that comes with every reading, of a list that stays the same, is no news.
        moved = dumps(again) != dumps(tools) or connection.changes == before
        return again, last - began if moved else None

    async def _conditional(
        self, connection: Connection, tools: list[Json], moved: float
    ) -> frozenset[str]:
        """Start a child again as a client without capabilities; return the tools that are missing.

        It gets as long as it took before to bring its list to rest, and then some.
        """
        server, launch = connection.server, connection.launch
        patience = min(2 * moved + QUIET, LONGEST)
        try:
            async with connect(server, launch, {}, self.connect_timeout) as bare:
                plain, _ = await self._at_rest(bare, patience)
        except Exception as error:
            why = as_fault(error, launch)
            connection.remarks.append(
                f"could not be asked without client capabilities: it {why.what}"
            )
            return frozenset()
        with_all, with_none = ({tool["name"] for tool in some} for some in (tools, plain))
        for name in sorted(with_none - with_all):
            connection.remarks.append(f"offers {name!r} only to a client without capabilities")
        return frozenset(with_all - with_none)

    async def _others(self, connection: Connection, kind: Kind) -> tuple[Json, ...]:
        """Read a list other than the tools; whatever is wrong with it costs the child no tool."""
        try:
            return tuple(await self._list(connection, kind, min(self.connect_timeout, OTHERS)))
        except BadList as fault:
            connection.remarks.append(f"{fault.what}: taken for empty")
            return ()

    async def _tools(self, connection: Connection) -> list[Json]:
        """Read a child's list of tools.

        Raises:
            BadList: it gives none.
        """
        return await self._list(connection, TOOLS, self.connect_timeout)

    async def _list(self, connection: Connection, kind: Kind, seconds: float) -> list[Json]:
        """Read one list of a child, within so many seconds.

        Raises:
            BadList: it gives none.
            ConnectionFault: the child is gone.
        """
        with anyio.move_on_after(seconds):
            try:
                return await connection.list_items(kind)
            except MCPError as error:
                if error.code != METHOD_NOT_FOUND:
                    raise BadList(connection.refusal(kind.method, error).what) from None
                # Many servers have resources and know nothing of templates.
                if kind is not TEMPLATES:
                    what = f"declares {kind.capability}, but does not know {kind.method}"
                    connection.remarks.append(what)
                return []
        raise BadList(f"did not answer {kind.method} within {seconds:g} s")


@contextmanager
def _cancelled_by_signals(scope: anyio.CancelScope) -> Iterator[None]:
    """Let SIGTERM and SIGHUP first cancel `scope`, then end this process as they would have.

    Ctrl-C needs no such care: asyncio turns it into a cancellation. A signal that is ignored
    (nohup) or handled by the caller is left alone.
    """
    caught: list[int] = []
    loop = asyncio.get_running_loop()

    def note(number: int, _frame: object) -> None:
        caught.append(number)
        loop.call_soon_threadsafe(scope.cancel)

    watched = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        watched = []
    for number in watched:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number in watched:
            signal.signal(number, signal.SIG_DFL)
        if caught:
            signal.raise_signal(caught[0])
