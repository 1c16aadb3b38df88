"""All that one server is asked, over as many connections as that takes.

A handshake is tried first: it works with every legacy server, and with those that speak both eras.
The specification recommends to probe with `server/discover` instead, but some servers exit on it.
So a server gets that request only after it has refused all handshakes, or, with an envelope, as
the last one of a process: what knows the newer revision shows that by its answer, and is then asked
on a fresh process.

A server whose list of tools changed by itself is started a second time by a client without
capabilities, to learn which tools need one.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, closing
from dataclasses import replace

from mcpagg.jsontext import dumps
from mcpagg.passes.discovery.ordering import equal, numbered
from mcpagg.passes.discovery.probe import HINT, LONGEST, QUIET, UNKNOWN_THERE, ServerProbe
from mcpagg.passes.discovery.probe_connection import TIME, BadList, ProbeConnection, ServerFault
from mcpagg.passes.environment.programs import find_package
from mcpagg.problems import count
from mcpagg.snapshot import ChildSnapshot, Json
from mcpagg.spec import ServerSpec
from mcpagg_runtime.frozen.servers import FrozenServers
from mcpagg_runtime.frozen.table import FrozenError
from mcpagg_runtime.launch.launch import Launch
from mcpagg_runtime.launch.secrecy import shown
from mcpagg_runtime.lists.catalogue import KINDS, LEGACY_ONLY, TOOLS, Kind, wraps_output
from mcpagg_runtime.messages.protocol import MODERN_VERSION, PAGES
from mcpagg_runtime.start.greeting import LEGACY_VERSIONS

RELAYED: Json = {
    "roots": {"listChanged": True},
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "extensions": {PAGES: {"mimeTypes": ["text/html;profile=mcp-app"]}},
}
"""The client capabilities that a proxy can pass on between a child and its client."""

WITHOUT_SESSION = 3.0
"""How long a server behind a URL, which has shaken hands, may take to answer without a session."""
FIRST_SHARE = 0.75
"""Of the time for all tries, what the first one gets."""

OTHER_TRANSPORT = {"streamable-http": "sse", "sse": "streamable-http"}


class Inquiry:
    """One server that is asked what it offers.

    `began` is when it was first started, `snapshot` what it offers, `fault` why it failed.
    """

    def __init__(
        self, server: ServerSpec, launch: Launch, config: str, seconds: float, quoted: int
    ) -> None:
        """`seconds` bound each handshake, and then each reading of a list.

        `config` is the name of the config; `quoted` is how many lines of stderr a fault quotes.
        """
        self.server = server
        self.package = find_package(server.command, server.args)
        self.began: float | None = None
        self.snapshot: ChildSnapshot | None = None
        self.fault: ServerFault | None = None
        self.remarks: list[str] = []
        """What is odd about it, without secrets."""
        self.installer: FrozenServers | None = None
        """Has it start what was frozen of it, None if nothing was."""
        self.installing = ""
        """What is being installed of it, "" for nothing."""
        self._launch = launch
        self._config = config
        self._seconds = seconds
        self._quoted = quoted
        self._connections: list[ProbeConnection] = []
        """All that were started."""
        self._starting = threading.Lock()
        self._is_given_up = False
        """Whether it may no longer be started."""

    @property
    def alive(self) -> list[ProbeConnection]:
        return [connection for connection in [*self._connections] if not connection.server.is_over]

    def give_up(self) -> None:
        """Start it no more, and end its connections in good order."""
        with self._starting:  # no start is under way any more
            self._is_given_up = True
        for connection in self.alive:
            connection.end("was given up")

    def elapsed(self) -> float:
        """Return for how many seconds it has been asked, 0 before that."""
        return 0.0 if self.began is None else TIME.now() - self.began

    def ask(self, turn: AbstractContextManager[object]) -> str:
        """Ask the server, and return what came of it in short; nothing is raised.

        It is started, and has shaken hands, in its `turn`.
        """
        try:
            with turn:
                self.began = TIME.now()
                self._install()
                child = self.connect()
            self.snapshot = self._answers_of(child)
        except Exception as error:
            self.fault = self._as_fault(error)
            for connection in self.alive:
                connection.server.close()
            return f"failed, {self.elapsed():.1f} s"
        return f"{count(len(self.snapshot.tools), 'tool')}, {self.elapsed():.1f} s"

    def _install(self) -> None:
        """Have the server start what was frozen of it, which may have to be installed first.

        Raises:
            ServerFault: that cannot be had, or was edited where it is installed.
        """
        if self.installer is None:
            return

        def report(what: str) -> None:
            self.installing = what

        self.package = None  # no launcher is started
        try:
            self.installer.require_sound(self._launch)
            self.installer.prepare(self._launch, report)
        except (FrozenError, OSError) as problem:
            what = self._launch.redact(f"could not be started as it was frozen: {problem}")
            raise ServerFault(what) from None
        finally:
            self.installing = ""

    def _as_fault(self, error: Exception) -> ServerFault:
        """Return an error as a fault of the server."""
        if isinstance(error, ServerFault):
            return error
        fault = ServerFault(self._launch.redact(f"failed: {type(error).__name__}: {error}"))
        fault.__cause__ = error
        return fault

    def _answers_of(self, child: ServerProbe) -> ChildSnapshot:
        """Return what a server offers that has shaken hands."""
        seconds = self.elapsed()
        with closing(child.connection.server) as server:
            snapshot = self._snapshot(child)
            ran = server.version_that_runs()
            may_be_modern = child.may_be_modern()
        if may_be_modern:
            snapshot = self._in_both_eras(snapshot, child)
        self.remarks = [shown(remark, self._launch.redact) for remark in child.remarks]
        return replace(snapshot, seconds=seconds, ran=ran)

    # Its connections

    def _start(self, launch: Launch, version: str, capabilities: Json) -> ServerProbe:
        """Start the server, once or again.

        Raises:
            ServerFault: it cannot be started.
        """
        with self._starting:
            if self._is_given_up:
                raise ServerFault("is not wanted any more")
            connection = ProbeConnection(
                launch,
                version,
                capabilities,
                self._config,
                # Whatever it fetches is there once it was started.
                package=None if self._connections else self.package,
                quoted=self._quoted,
            )
            self._connections.append(connection)
        return ServerProbe(connection, self._seconds)

    def connect(self) -> ServerProbe:
        """Start the server and agree on a version.

        Where nothing takes requests of one transport of HTTP, the other one is tried
        (specification, transports, backwards compatibility).

        Raises:
            ServerFault: that failed; of two transports, what came of the first one.
        """
        try:
            return self._negotiate(self._launch, RELAYED)
        except ServerFault as fault:
            other = OTHER_TRANSPORT.get(self._launch.transport)
            if fault.status not in UNKNOWN_THERE or other is None:
                raise
            try:
                return self._negotiate(self._launch.with_transport(other), RELAYED)
            except ServerFault:
                raise fault from None

    def _negotiate(self, launch: Launch, capabilities: Json) -> ServerProbe:
        """Start a child and agree on a version.

        A child that refuses the newest version with a handshake, or is silent, is asked again in
        each older one, and at last without a handshake, in the modern one; at once in that one if
        its refusal says that it knows no handshake. Always on a fresh process, since a refusal may
        have left it in any state. All tries together take at most the limit: the first one three
        quarters, because a child that is still installing is far more common than one that hangs
        over a version; the others share the rest. What a launcher takes to install the child does
        not count. A child that exits for another reason than its version is not started again: see
        `hopeless`.

        Raises:
            ServerFault: what came of the first try; of the last one, if the child is modern.
        """
        end = TIME.now() + self._seconds
        versions = [*LEGACY_VERSIONS, MODERN_VERSION]
        fault: ServerFault | None = None
        modern = False
        while True:
            version = versions.pop(0)
            now = TIME.now()  # a start counts
            share = (end - now) / (len(versions) + 1) if fault else (end - now) * FIRST_SHARE
            child = self._start(launch, version, capabilities)
            refused = child.shake_hands(now + share)
            if refused is None:
                return child
            hopeless = child.is_hopeless  # before we end it, which would look the same
            child.connection.server.close()
            if child.connection.was_installed:
                end = max(end, TIME.now() + self._seconds * (1 - FIRST_SHARE))
            modern = modern or child.modern
            if fault is None or modern:
                fault = refused
            if not child.handshake:
                versions = [other for other in versions if other == MODERN_VERSION]
            elif hopeless or TIME.now() >= end:
                versions = []
            if not versions:
                raise fault

    # What it offers

    def _snapshot(self, child: ServerProbe) -> ChildSnapshot:
        """Ask a child for all its lists.

        Raises:
            ServerFault: it is gone, or gives no list at all.
        """
        try:
            tools, moved = child.settled_tools(HINT)
        except BadList as fault:
            return child.snapshot([], fault)
        needing = frozenset[str]() if moved is None else self._conditional(child, tools, moved)
        return replace(child.snapshot(tools), conditional=needing)

    def _conditional(self, child: ServerProbe, tools: list[Json], moved: float) -> frozenset[str]:
        """Start a child again as a client without capabilities; return the tools that are missing.

        It gets as long as it took before to bring its list to rest, and then some.
        """
        try:
            bare = self._negotiate(child.launch, {})
            with closing(bare.connection.server):
                plain, _ = bare.settled_tools(min(2 * moved + QUIET, LONGEST))
        except Exception as error:
            why = self._as_fault(error).what
            child.remarks.append(f"could not be asked without client capabilities: it {why}")
            return frozenset()
        with_all, with_none = ({tool["name"] for tool in some} for some in (tools, plain))
        for name in sorted(with_none - with_all):
            child.remarks.append(f"offers {name!r} only to a client without capabilities")
        return frozenset(with_all - with_none)

    def _in_both_eras(self, shaken: ChildSnapshot, child: ServerProbe) -> ChildSnapshot:
        """Ask a child without a handshake too, on a fresh process; return what is to be recorded.

        `shaken` is the snapshot of a connection with one, `child` that connection. Whatever
        goes wrong without a handshake, the child is a legacy one.
        """
        seconds = WITHOUT_SESSION if child.launch.url else self._seconds
        try:
            other = self._start(child.launch, MODERN_VERSION, RELAYED)
            with closing(other.connection.server):
                if other.shake_hands(TIME.now() + seconds) is not None:
                    return shaken
                plain = self._snapshot(other)
        except ServerFault:
            return shaken
        recorded, remarks = recorded_era(shaken, plain)
        child.remarks += [*(other.remarks if recorded.protocol == plain.protocol else ()), *remarks]
        return recorded


def recorded_era(shaken: ChildSnapshot, plain: ChildSnapshot) -> tuple[ChildSnapshot, list[str]]:
    """Return what to record of a server, asked with a handshake and without, and what is odd.

    Without a handshake is preferred. The handshake is recorded beside it if both list the same:
    then each client can be served in its own era, from one snapshot. Otherwise all clients are
    served in one era: in the one without a handshake, unless that lists less.
    """
    others = [kind for kind in KINDS if not _alike(kind, shaken, plain)]
    # The output schema of such a tool is another one in each era.
    wraps = any(wraps_output(dumps(tool)) for tool in plain.tools)
    if not others and not wraps:
        handshake = {"protocolVersion": shaken.protocol, "capabilities": shaken.capabilities}
        return replace(plain, handshake=handshake, conditional=shaken.conditional), []
    lacking = [
        f"{kind.name[:-1]} {key!r}"
        for kind in others
        for key, _ in _entries(kind, shaken).keys() - _entries(kind, plain).keys()
    ]
    if not lacking:
        return plain, []
    what = f"lists the {sorted(lacking)[0]} only after a handshake"
    return shaken, [f"{what}, so all clients are served in {shaken.protocol} alone"]


def _alike(kind: Kind, shaken: ChildSnapshot, plain: ChildSnapshot) -> bool:
    old, new = _entries(kind, shaken), _entries(kind, plain)
    return old.keys() == new.keys() and all(equal(old[key], new[key]) for key in old)


def _entries(kind: Kind, child: ChildSnapshot) -> dict[tuple[str, int], Json]:
    """Return what a server lists, less what one era alone can say."""
    entries = numbered(kind, child.items(kind))
    if kind is not TOOLS:
        return entries
    return {
        key: {name: value for name, value in tool.items() if name not in LEGACY_ONLY}
        for key, tool in entries.items()
    }
