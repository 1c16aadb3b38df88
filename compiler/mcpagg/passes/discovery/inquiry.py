"""All that one server is asked, in as many conversations as that takes.

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

from mcpagg.passes.discovery.collector import HINT, LONGEST, QUIET, UNKNOWN_THERE, Collector
from mcpagg.passes.discovery.conversation import TIME, BadList, Conversation, Fault
from mcpagg.passes.discovery.eras import of_both
from mcpagg.passes.environment.programs import find_package
from mcpagg.problems import count
from mcpagg.snapshot import ChildSnapshot, Json
from mcpagg.spec import ServerSpec
from mcpagg_runtime.launch.launch import Launch
from mcpagg_runtime.launch.secrecy import shown
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
    """One server, what it is asked, and what comes of it.

    `began` is when it was first started, `found` what it offers, `fault` why that is not known.
    """

    def __init__(
        self, server: ServerSpec, launch: Launch, config: str, seconds: float, quoted: int
    ) -> None:
        """`seconds` bound each handshake, and then each reading of a list.

        `config` is what the config is called; of its stderr so many lines are `quoted`.
        """
        self.server = server
        self.package = find_package(server.command, server.args)
        self.began: float | None = None
        self.found: ChildSnapshot | None = None
        self.fault: Fault | None = None
        self.remarks: list[str] = []
        """What is odd about it, without secrets."""
        self._launch = launch
        self._config = config
        self._seconds = seconds
        self._quoted = quoted
        self._conversations: list[Conversation] = []
        """All that were started."""
        self._starting = threading.Lock()
        self._is_given_up = False
        """Whether it may not be started any more."""

    @property
    def alive(self) -> list[Conversation]:
        """Its conversations that are not over."""
        return [one for one in [*self._conversations] if not one.server.is_over]

    def give_up(self) -> None:
        """Let it be over as soon as its processes have ended in good order."""
        with self._starting:  # no start is under way any more
            self._is_given_up = True
        for conversation in self.alive:
            conversation.end("was given up")

    def since(self) -> float:
        """Return for how many seconds it has been asked, 0 before that."""
        return 0.0 if self.began is None else TIME.now() - self.began

    def ask(self, turn: AbstractContextManager[object]) -> str:
        """Ask the server, and return what came of it in short; nothing is raised.

        It is started, and has shaken hands, in its `turn`.
        """
        try:
            with turn:
                self.began = TIME.now()
                child = self.connect()
            self.found = self._offered(child)
        except Exception as error:
            self.fault = self._as_fault(error)
            for conversation in self.alive:
                conversation.server.close()
            return f"failed, {self.since():.1f} s"
        return f"{count(len(self.found.tools), 'tool')}, {self.since():.1f} s"

    def _as_fault(self, error: Exception) -> Fault:
        """Say of an error what it means for the server."""
        if isinstance(error, Fault):
            return error
        fault = Fault(self._launch.redact(f"failed: {type(error).__name__}: {error}"))
        fault.__cause__ = error
        return fault

    def _offered(self, child: Collector) -> ChildSnapshot:
        """Return what a server offers that has shaken hands."""
        seconds = self.since()
        with closing(child.conversation.server) as server:
            found = self._snapshot(child)
            ran = server.version_that_runs()
            may_be_modern = child.may_be_modern()
        if may_be_modern:
            found = self._in_both_eras(found, child)
        self.remarks = [shown(remark, self._launch.redact) for remark in child.remarks]
        return replace(found, seconds=seconds, ran=ran)

    # Its conversations

    def _begin(self, launch: Launch, version: str, capabilities: Json) -> Collector:
        """Start the server, once or again.

        Raises:
            Fault: it cannot be started.
        """
        with self._starting:
            if self._is_given_up:
                raise Fault("is not wanted any more")
            conversation = Conversation(
                launch,
                version,
                capabilities,
                self._config,
                # Whatever it fetches is there once it was started.
                package=None if self._conversations else self.package,
                quoted=self._quoted,
            )
            self._conversations.append(conversation)
        return Collector(conversation, self._seconds)

    def connect(self) -> Collector:
        """Start the server and agree on a version.

        Where nothing takes requests of one transport of HTTP, the other one is tried
        (specification, transports, backwards compatibility).

        Raises:
            Fault: that failed; of two transports, what came of the first one.
        """
        try:
            return self._agree(self._launch, RELAYED)
        except Fault as fault:
            other = OTHER_TRANSPORT.get(self._launch.transport)
            if fault.status not in UNKNOWN_THERE or other is None:
                raise
            try:
                return self._agree(self._launch.with_transport(other), RELAYED)
            except Fault:
                raise fault from None

    def _agree(self, launch: Launch, capabilities: Json) -> Collector:
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
            Fault: what came of the first try; of the last one, if the child is modern.
        """
        end = TIME.now() + self._seconds
        versions = [*LEGACY_VERSIONS, MODERN_VERSION]
        fault: Fault | None = None
        modern = False
        while True:
            version = versions.pop(0)
            left = end - TIME.now()
            share = left / (len(versions) + 1) if fault else left * FIRST_SHARE
            child = self._begin(launch, version, capabilities)
            refused = child.greet(TIME.now() + share)
            if refused is None:
                return child
            hopeless = child.hopeless  # before we end it, which would look the same
            child.conversation.server.close()
            if child.conversation.was_installed:
                end = max(end, TIME.now() + self._seconds * (1 - FIRST_SHARE))
            modern = modern or child.modern
            if fault is None or modern:
                fault = refused
            if not child.handshake:
                versions = [one for one in versions if one == MODERN_VERSION]
            elif hopeless or TIME.now() >= end:
                versions = []
            if not versions:
                raise fault

    # What it offers

    def _snapshot(self, child: Collector) -> ChildSnapshot:
        """Ask a child for all its lists.

        Raises:
            Fault: it is gone, or gives no list at all.
        """
        try:
            tools, moved = child.at_rest(HINT)
        except BadList as fault:
            return child.offers([], fault)
        needing = frozenset[str]() if moved is None else self._conditional(child, tools, moved)
        return replace(child.offers(tools), conditional=needing)

    def _conditional(self, child: Collector, tools: list[Json], moved: float) -> frozenset[str]:
        """Start a child again as a client without capabilities; return the tools that are missing.

        It gets as long as it took before to bring its list to rest, and then some.
        """
        try:
            bare = self._agree(child.launch, {})
            with closing(bare.conversation.server):
                plain, _ = bare.at_rest(min(2 * moved + QUIET, LONGEST))
        except Exception as error:
            why = self._as_fault(error).what
            child.remarks.append(f"could not be asked without client capabilities: it {why}")
            return frozenset()
        with_all, with_none = ({tool["name"] for tool in some} for some in (tools, plain))
        for name in sorted(with_none - with_all):
            child.remarks.append(f"offers {name!r} only to a client without capabilities")
        return frozenset(with_all - with_none)

    def _in_both_eras(self, shaken: ChildSnapshot, child: Collector) -> ChildSnapshot:
        """Ask a child without a handshake too, on a fresh process; return what is to be recorded.

        `shaken` is the snapshot of a conversation with one, `child` that conversation. Whatever
        goes wrong without a handshake, the child is a legacy one.
        """
        seconds = WITHOUT_SESSION if child.launch.url else self._seconds
        try:
            other = self._begin(child.launch, MODERN_VERSION, RELAYED)
            with closing(other.conversation.server):
                if other.greet(TIME.now() + seconds) is not None:
                    return shaken
                plain = self._snapshot(other)
        except Fault:
            return shaken
        found, remarks = of_both(shaken, plain)
        child.remarks += [*(other.remarks if found.protocol == plain.protocol else ()), *remarks]
        return found
