"""The discovery pass: start every child once and ask it what it offers.

A list may depend on the client's capabilities, and a child may complete it only after the
handshake. So discovery declares every capability that a proxy can relay, and reads a list again
when no more `list_changed` notifications come. If a child's list changed in this way, the child is
started a second time by a client without capabilities, to learn which tools need one.

A child that shakes hands and shows that it also knows the revision without a handshake is started
again to be asked in that one, which is preferred: see `of_both`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from mcpagg.collector import UNKNOWN_THERE, Collector, connect
from mcpagg.conversation import ALL_LINES, BadList, Conversation, Fault, Silence, Time
from mcpagg.eras import of_both
from mcpagg.jsontext import dumps
from mcpagg.options import CONNECT_SECONDS
from mcpagg.problems import Problem, count
from mcpagg.programs import find_package
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg_runtime.base.catalogue import PROMPTS, RESOURCES, SKILLS, TEMPLATES, TOOLS, Kind
from mcpagg_runtime.base.protocol import MODERN_VERSION, PAGES
from mcpagg_runtime.rare.secrecy import shown
from mcpagg_runtime.serve.process import LAST_WORDS_LINES
from mcpagg_runtime.spawn.launch import Launch, mentioned_by_all, prepare

RELAYED: Json = {
    "roots": {"listChanged": True},
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "extensions": {PAGES: {"mimeTypes": ["text/html;profile=mcp-app"]}},
}
"""The client capabilities that a proxy can pass on between a child and its client."""

# Seconds. A list is complete when no notification came for QUIET; LONGEST limits the whole wait.
# The first notification is waited for: HINT if the child declares `listChanged`, LONGEST if its
# list is empty.
HINT = 0.25
QUIET = 0.5
LONGEST = 2.0
# How long a list other than the tools may take.
OTHERS = 10.0
# How long a server behind a URL, which has shaken hands, may take to answer without a session.
WITHOUT_SESSION = 3.0

# Windows has the first one only in name, and the second one not at all.
_ENDING = [
    signal.Signals[name] for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
]
JOIN_SECONDS = 0.2

OTHER_TRANSPORT = {"streamable-http": "sse", "sse": "streamable-http"}

__all__ = ["ALL_LINES", "LAST_WORDS_LINES", "Awaited", "Found", "discover"]

Progress = Callable[[str, str], None]

# How many package managers install at a time, which is work for the network, the disk and the
# processor. A server that has shaken hands lets the next one begin.
INSTALLING = 4
LOOK_SECONDS = 1.0


class Awaited(NamedTuple):
    """A server that is still awaited, for how many seconds, None if it waits for its turn.

    `said` returns what it has said last.
    """

    name: str
    seconds: float | None = None
    said: Callable[[], str] = lambda: ""


class Found(NamedTuple):
    """What discovery has found: the snapshot, what is odd about servers, and what failed.

    `late` names those of the latter that might have come up with more time.
    """

    snapshot: Snapshot
    warnings: tuple[Problem, ...]
    failures: tuple[Problem, ...]
    late: tuple[str, ...] = ()


def discover(
    spec: ProxySpec,
    environ: Mapping[str, str],
    *,
    asked: Collection[str] | None = None,
    connect_timeout: float = CONNECT_SECONDS,
    minimal: bool = False,
    quoted: int = LAST_WORDS_LINES,
    progress: Progress = lambda server, text: None,
    waiting: Callable[[Sequence[Awaited]], None] = lambda awaited: None,
) -> Found:
    """Start children side by side; return what they say they offer.

    `asked` names those to start, None for all; they have passed the environment check.

    `connect_timeout` bounds, in seconds, the handshake of each child and then each reading of its
    list; what a package manager takes to install it is apart. With `minimal`, children inherit the
    basic variables of `environ` only. Children that fail are named in the snapshot, with `quoted`
    lines of their stderr in `failures`.
    `progress(server, text)` is called for what comes of each: "13 tools, 0.8 s", "failed, 3.1 s";
    `waiting` about once in a second, and when all are to be ended ("", "ending 3 servers…").

    No process is left running, whether it returns, raises, or is ended by Ctrl-C, SIGTERM or
    SIGHUP.
    """
    servers = [one for one in spec.servers if asked is None or one.name in asked]
    discovery = Discovery(spec, environ, connect_timeout, minimal, quoted)
    discovery.run(servers, progress, waiting)
    found = [server.name for server in servers if server.name in discovery.children]
    failed = [server for server in servers if server.name not in discovery.children]
    snapshot = Snapshot(
        tuple(discovery.children[name] for name in found), tuple(one.name for one in failed)
    )
    warnings = [remark for server in servers for remark in discovery.remarks(server)]
    failures = [discovery.failure(server) for server in failed]
    late = tuple(one.name for one in failed if discovery.faults[one.name].is_late)
    return Found(snapshot, tuple(warnings), tuple(failures), late)


class Discovery:
    """Asks children side by side, each in a thread of its own.

    `children` are the snapshots, `faults` what is wrong with the other children.
    """

    def __init__(
        self,
        spec: ProxySpec,
        environ: Mapping[str, str],
        connect_timeout: float,
        minimal: bool,
        quoted: int,
    ) -> None:
        """Take what `discover` takes."""
        self.children: dict[str, ChildSnapshot] = {}
        self.faults: dict[str, Fault] = {}
        self._spec = spec
        self._environ = environ
        self._minimal = minimal
        self._connect_timeout = connect_timeout
        self._remarks: dict[str, list[str]] = {}
        self._quoted = quoted
        self._packages = {one.name: find_package(one.command, one.args) for one in spec.servers}
        self._turns = threading.Semaphore(INSTALLING)
        self._began: dict[str, float] = {}
        """When each server was first started."""
        self._time = Time()
        self._steps: SimpleQueue[tuple[str, str]] = SimpleQueue()
        """(server, what came of it), for the thread that reports progress."""
        self._begun: set[str] = set()
        """The servers that were started."""
        self._lock = threading.Lock()
        self._alive: set[Collector] = set()
        """The children that have been started, and not closed."""
        self._is_over = False
        """Whether no child may be started any more."""

    def run(
        self,
        servers: Sequence[ServerSpec],
        progress: Progress,
        waiting: Callable[[Sequence[Awaited]], None],
    ) -> None:
        """Ask these children, and report progress; an interruption ends them all."""
        rows = {server.name: server.row() for server in self._spec.servers}
        folder = str(self._spec.folder)
        known = mentioned_by_all(rows)
        threads = []
        for server in servers:
            launch = prepare(server.name, rows, self._environ, folder, self._minimal, known)
            threads.append(threading.Thread(target=self._ask, args=(server, launch), daemon=True))
        with _raised_signals():
            try:
                for thread in threads:
                    thread.start()
                left = [server.name for server in servers]
                while left:
                    with suppress(Empty):
                        name, text = self._steps.get(timeout=LOOK_SECONDS)
                        left.remove(name)
                        progress(name, text)
                    waiting([self._awaited(name) for name in left])
            except BaseException:
                progress("", f"ending {count(len(self._alive), 'server')}… (again: at once)")
                self._end(threads)
                raise

    def _awaited(self, name: str) -> Awaited:
        began = self._began.get(name)
        if began is None:
            return Awaited(name)
        with self._lock:
            talks = [child.conversation for child in self._alive if child.launch.name == name]
        seconds = self._time.now() - began
        return Awaited(name, seconds, talks[-1].last_line) if talks else Awaited(name, seconds)

    def _end(self, threads: list[threading.Thread]) -> None:
        """End all children; a second interruption ends them at once."""
        self._is_over = True
        self._turns.release(len(threads) or 1)
        try:
            with self._lock:  # no start is under way any more
                alive = [*self._alive]
            for child in alive:
                child.conversation.give_up()
            _join(threads)
        except BaseException:
            for child in [*self._alive]:
                child.conversation.kill()
            _join(threads)
            raise

    def _start(self, launch: Launch, capabilities: Json) -> Collector:
        """Start a child, once or again.

        Raises:
            Fault: it cannot be started.
        """
        with self._lock:
            if self._is_over:
                raise Fault("is not wanted any more")
            # Whatever it fetches is there once it was started.
            package = self._packages[launch.name] if launch.name not in self._begun else None
            self._begun.add(launch.name)
            asked = Conversation(
                launch,
                capabilities,
                self._time,
                self._spec.source,
                package=package,
                quoted=self._quoted,
            )
            child = Collector(asked, self._time)
            self._alive.add(child)
        return child

    def _close(self, child: Collector) -> None:
        child.conversation.close()
        with self._lock:
            self._alive.discard(child)

    def _connect(self, launch: Launch, capabilities: Json) -> Collector:
        """Start a child and agree on a version.

        Where nothing takes requests of one transport of HTTP, the other one is tried
        (specification, transports, backwards compatibility).

        Raises:
            Fault: that failed; of two transports, what came of the first one.
        """
        try:
            return self._connect_once(launch, capabilities)
        except Fault as fault:
            other = OTHER_TRANSPORT.get(launch.transport)
            if fault.status not in UNKNOWN_THERE or other is None:
                raise
            try:
                return self._connect_once(launch.over(other), capabilities)
            except Fault:
                raise fault from None

    def _connect_once(self, launch: Launch, capabilities: Json) -> Collector:
        return connect(
            lambda: self._start(launch, capabilities),
            self._close,
            self._connect_timeout,
            self._time,
        )

    def _ask(self, server: ServerSpec, launch: Launch) -> None:
        """Take the snapshot of one child; whatever goes wrong in it concerns no other."""
        try:
            with self._turns if self._packages[server.name] else nullcontext():
                self._began[server.name] = self._time.now()
                child = self._connect(launch, RELAYED)
            seconds = self._since(server)
            try:
                found = self._snapshot(server.name, child)
                ran = child.conversation.version_that_runs()
                may_be_modern = child.may_be_modern()
            finally:
                self._close(child)
            if may_be_modern:
                found = self._in_both_eras(found, child)
            self._remarks[server.name] = [shown(remark, launch.redact) for remark in child.remarks]
            self.children[server.name] = replace(found, seconds=seconds, ran=ran)
            text = f"{count(len(found.tools), 'tool')}, {self._since(server):.1f} s"
        except Exception as error:
            self.faults[server.name] = _as_fault(error, launch)
            text = f"failed, {self._since(server):.1f} s"
        self._steps.put((server.name, text))

    def _since(self, server: ServerSpec) -> float:
        """Return for how many seconds a child was asked so far."""
        return self._time.now() - self._began[server.name]

    def remarks(self, server: ServerSpec) -> list[Problem]:
        """Return what is odd about a child."""
        remarks = dict.fromkeys(self._remarks.get(server.name, ()))
        return [Problem(server.path, f"server '{server.name}' {remark}") for remark in remarks]

    def failure(self, server: ServerSpec) -> Problem:
        """Return why a child failed."""
        return Problem(server.path, f"server '{server.name}' {self.faults[server.name]}")

    def _snapshot(self, name: str, child: Collector) -> ChildSnapshot:
        """Ask a child for all its lists.

        Raises:
            Fault: it is gone, or gives no list at all.
        """
        tools: list[Json] = []
        moved: float | None = None
        fault: BadList | None = None
        try:
            tools, moved = self._at_rest(child, HINT)
        except BadList as problem:
            fault = problem
        conditional: frozenset[str] = frozenset()
        if moved is not None:
            conditional = self._conditional(child, tools, moved)
        if child.conversation.noise:
            child.remarks.append(child.conversation.told_noise())
        others: dict[str, Any] = {
            kind.name: self._others(child, kind) for kind in (PROMPTS, RESOURCES, TEMPLATES, SKILLS)
        }
        if fault is not None:
            if not any(others.values()):
                raise child.conversation.fault(fault.what, is_late=fault.is_late)
            child.remarks.append(f"{fault.what}: taken for empty")
        elif not tools and "tools" in child.capabilities:
            child.remarks.append("lists no tools")
        return ChildSnapshot(
            name=name,
            protocol=child.protocol,
            transport=child.launch.transport if child.launch.url else "",
            info=child.info,
            capabilities=child.capabilities,
            instructions=child.instructions,
            tools=tuple(tools),
            conditional=conditional,
            # Of all lists, now that they are read.
            hints=child.hints,
            refused=tuple(one for some in child.refused.values() for one in some),
            **others,
        )

    def _in_both_eras(self, shaken: ChildSnapshot, child: Collector) -> ChildSnapshot:
        """Ask a child without a handshake too, on a fresh process; return what is to be recorded.

        `shaken` is the snapshot of a conversation with one, `child` that conversation. Whatever
        goes wrong without a handshake, the child is a legacy one.
        """
        seconds = WITHOUT_SESSION if child.launch.url else self._connect_timeout
        try:
            other = self._start(child.launch, RELAYED)
            try:
                if other.greet(MODERN_VERSION, self._time.now() + seconds) is not None:
                    return shaken
                plain = self._snapshot(shaken.name, other)
            finally:
                self._close(other)
        except (Fault, Silence):
            return shaken
        found, remarks = of_both(shaken, plain)
        child.remarks += [*(other.remarks if found.protocol == plain.protocol else ()), *remarks]
        return found

    def _at_rest(self, child: Collector, patience: float) -> tuple[list[Json], float | None]:
        """Read a child's tools once no change comes; also return for how many seconds they changed.

        `patience` is how long to wait for news of a list that is not empty, in seconds. At most
        two readings, whatever the child announces.
        """
        began = self._time.now()
        tools = child.items(TOOLS, self._connect_timeout)
        declared = child.capabilities.get("tools")
        # A modern list is not settling: it may depend on no connection and on no capability
        # (specification 2026-07-28, the lists), and only listeners are notified of changes.
        if declared is None or child.protocol == MODERN_VERSION:
            return tools, None
        hinted = isinstance(declared, dict) and declared.get("listChanged") is True
        last: float | None = None
        end = self._time.now() + LONGEST
        wait = patience if tools and hinted else 0.0 if tools else LONGEST
        while child.conversation.changed(min(wait, end - self._time.now())):
            last, wait = self._time.now(), QUIET
        if last is None:
            # The stream for such news is opened after the handshake: by then it may be no news.
            missed = hinted and bool(child.launch.url)
            return tools, 0.0 if missed else None
        before = child.conversation.changes
        again = child.items(TOOLS, self._connect_timeout)
        # News that comes with every reading, of a list that stays the same, is no news.
        moved = dumps(again) != dumps(tools) or child.conversation.changes == before
        return again, last - began if moved else None

    def _conditional(self, child: Collector, tools: list[Json], moved: float) -> frozenset[str]:
        """Start a child again as a client without capabilities; return the tools that are missing.

        It gets as long as it took before to bring its list to rest, and then some.
        """
        patience = min(2 * moved + QUIET, LONGEST)
        try:
            bare = self._connect(child.launch, {})
            try:
                plain, _ = self._at_rest(bare, patience)
            finally:
                self._close(bare)
        except Exception as error:
            why = _as_fault(error, child.launch)
            child.remarks.append(f"could not be asked without client capabilities: it {why.what}")
            return frozenset()
        with_all, with_none = ({tool["name"] for tool in some} for some in (tools, plain))
        for name in sorted(with_none - with_all):
            child.remarks.append(f"offers {name!r} only to a client without capabilities")
        return frozenset(with_all - with_none)

    def _others(self, child: Collector, kind: Kind) -> tuple[Json, ...]:
        """Read a list other than the tools; whatever is wrong with it costs the child no tool."""
        try:
            return tuple(child.items(kind, min(self._connect_timeout, OTHERS)))
        except BadList as fault:
            child.remarks.append(f"{fault.what}: taken for empty")
            return ()


def _join(threads: list[threading.Thread]) -> None:
    """Wait for those that were started, in steps: on Windows Ctrl-C is noticed between waits."""
    for thread in threads:
        while thread.is_alive():
            thread.join(JOIN_SECONDS)


def _as_fault(error: Exception, launch: Launch) -> Fault:
    """Say of an error what it means for the child."""
    if isinstance(error, Fault):
        return error
    fault = Fault(launch.redact(f"failed: {type(error).__name__}: {error}"))
    fault.__cause__ = error
    return fault


class _Signalled(BaseException):
    """Raised in the main thread by a signal that ends the process."""


@contextmanager
def _raised_signals() -> Iterator[None]:
    """Let such signals first be raised here, then end this process as they would have.

    Ctrl-C needs no such care: Python raises it. A signal that is ignored (nohup) or handled by the
    caller is left alone.
    """
    caught: list[int] = []

    def note(number: int, _frame: object) -> None:
        caught.append(number)
        raise _Signalled

    watched = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        watched = []
    for number in watched:
        signal.signal(number, note)
    try:
        yield
    except _Signalled:
        pass
    finally:
        for number in watched:
            signal.signal(number, signal.SIG_DFL)
        if caught:
            signal.raise_signal(caught[0])
