"""Starts and ends the runs of children: each a process, or a connection to a remote server."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.launch import Launches
from mcpagg_runtime.launch.nesting import with_identity
from mcpagg_runtime.messages.printable import where
from mcpagg_runtime.processes.process import Process
from mcpagg_runtime.processes.reasons import start_failure
from mcpagg_runtime.processes.spawning import spawn
from mcpagg_runtime.processes.threads import join, start_thread
from mcpagg_runtime.servers.lifecycle import STARTING
from mcpagg_runtime.start.embedded import SPARE

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from mcpagg_runtime.launch.launch import Launch
    from mcpagg_runtime.messages.message import Fragment, Message
    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.processes.spawning import SpawnedProcess
    from mcpagg_runtime.routing.core import Core
    from mcpagg_runtime.servers.child import Child
    from mcpagg_runtime.servers.connection import Received
    from mcpagg_runtime.servers.effects import Action, Peer

    class Run(Protocol):
        """One run of a child: a process, or the connection to a remote server."""

        launch: Launch
        gone: threading.Event
        """Set once it has ended."""
        detached: bool
        """Whether it was ended on purpose."""

        def send(self, *messages: Message) -> None:
            """Send it messages; never waits."""

        def read_to_end(self) -> None:
            """Pass on what it writes, until it ends."""

        def detach(self) -> None:
            """Ignore what still comes of it, and do not report its end: it is ended on purpose."""

        def suppress_report(self) -> None:
            """Do not report its end."""

        def end(self, reason: str) -> None:
            """Report why it ends, unless that was reported, and close it."""

        def close(self) -> None:
            """End it; returns when it has ended."""

        def kill(self) -> None:
            """End it at once, and wait for nothing."""

    class Sink(Protocol):
        """Takes the messages for a client."""

        def send(self, *messages: Message) -> None:
            """Take messages; never blocks."""

        def has_room(self, seconds: float = 0.0) -> bool:
            """Wait until the client's queue has room, at most so long; return whether it has."""

    class Host(Protocol):
        """The engine, to which the supervisor reports; see `Engine`."""

        plan: Plan
        core: Core
        lock: threading.Lock
        """Guards the core, and the supervisor."""
        is_closing: bool

        def attempt(self, event: Callable[[Core], list[Action]]) -> None:
            """Pass an event to the core; the lock is not held."""

        def perform(self, actions: list[Action]) -> object:
            """Carry out actions of the core; the lock is held."""

        def receive_from_child(
            self, child: Child, run: Run, *lines: bytes, request: int = 0
        ) -> list[Received]:
            """Take lines of a run; return what was read in each. The lock is not held."""


class Supervisor:
    """All runs of children; the caller of a method holds the lock, unless the method says not.

    Runs are started and ended in threads of their own, so no method but `close` waits for one.
    """

    def __init__(self, host: Host, folder: str) -> None:
        """`folder` is what relative paths of the launch table are relative to."""
        _keep_spare_descriptor()
        self._host = host
        self._folder = folder
        self.current: dict[Peer, Run] = {}
        """The current run of each child; a grandchild may still hold the pipes of an older one."""
        self._started: list[Run] = []
        """The runs that may not have ended."""
        plan = host.plan
        self._launches = Launches(
            plan.whole.servers, os.environ, folder, plan.options.env == "minimal"
        )
        self._last_launches: dict[str, Launch] = {}
        """How each server was started last, for redaction: also of servers that have ended."""
        self._starts: dict[Peer, object] = {}
        """What stands for the latest start of a child: one that hung may come to life beside it."""
        self.spawning = threading.Lock()
        """Held while a run is started: `close` of the engine takes it, and sees every run."""

    def redact(self, text: str) -> str:
        """Return a text without values of variables; takes no lock."""
        for launch in [*self._last_launches.values()]:
            text = launch.redact(text)
        return text

    def start(self, child: Child) -> bool:
        """Start a child in a thread; return False if there is none."""
        start = self._starts[child] = object()
        return start_thread(self._run, child, start) is not None

    def end(self, child: Child, reason: str) -> None:
        """End a child and report why."""
        if start_thread(self._end, child, reason) is None:
            run = self.current.get(child)
            if run is not None:
                run.suppress_report()
                run.kill()
            self._host.perform(self._host.core.child_down(child, reason))

    def _end(self, child: Child, reason: str) -> None:
        run = self.current.get(child)
        if run is not None:
            run.end(reason)
        else:  # its start hangs
            self._host.attempt(lambda core: core.child_down(child, reason))

    def stop_idle(self, child: Child) -> None:
        """End a child without a report; it may be started again at once."""
        run = self.current.pop(child, None)
        if run is not None:
            run.detach()
            _close_in_thread(run)

    def close(self) -> None:
        """End all runs, side by side; returns when all have ended. Takes no lock."""
        threads = []
        for run in self._started:
            run.suppress_report()
            thread = start_thread(run.close)
            if thread is None:
                run.kill()
                run.close()
            else:
                threads.append(thread)
        for thread in threads:
            join(thread)

    def kill(self) -> None:
        """Kill all runs; takes no lock, since a signal handler calls it."""
        for run in list(self._started):
            run.kill()

    # One run

    def _run(self, child: Child, start: object) -> None:
        """Start a child and read its messages until it ends; in a thread of its own."""
        host, core = self._host, self._host.core
        launch: Launch | None = None
        run: Run | None = None

        def ended(reason: str, stderr_tail: str) -> None:
            # A child that was stopped on purpose, or given up, may have been started again already.
            stale = run.detached if run is not None else self._starts.get(child) is not start
            if not stale:
                host.attempt(lambda core: core.child_down(child, reason, stderr_tail))

        # Whatever fails in here, requests to this child must end.
        try:
            launch = self._prepared(child)
            # The engine, when it closes, waits for a start under way; none comes after.
            with self.spawning:
                if host.is_closing or self._starts.get(child) is not start:
                    return
                run = self._start_run(child, launch, ended)
                with host.lock:
                    self._started = [old for old in self._started if not old.gone.is_set()]
                    self._started.append(run)
                    self.current[child] = run
                    host.perform(core.child_up(child, launch.masks))
                    if child.state != STARTING:  # the core has given it up meanwhile
                        run.suppress_report()
                        _close_in_thread(run)
            run.read_to_end()
        except Exception as problem:
            if run is not None:
                run.end(f"was given up over an internal fault: {where(problem)}")
            else:
                why = self.redact(start_failure(problem, launch))
                ended(f"could not be started: {why}", "")
        finally:
            if self._starts.get(child) is start:
                del self._starts[child]

    def _prepared(self, child: Child) -> Launch:
        """Return how a child is started now; may take its time.

        Raises:
            Exception: it cannot be started.
        """
        launch = self._launches.prepare(child.name)
        self._last_launches[child.name] = launch
        return launch

    def _start_run(self, child: Child, launch: Launch, ended: Callable[[str, str], None]) -> Run:
        """Start a process, or make a connection to a remote server."""
        host = self._host
        if launch.transport == "stdio":
            return Process(self._spawn(launch), partial(host.receive_from_child, child), ended)
        from mcpagg_runtime.remote.transport import RemoteConnection

        def receive(line: bytes, request: int) -> list[Message | Fragment]:
            [(found, _)] = host.receive_from_child(child, connection, line, request=request)
            return found

        config = os.path.join(self._folder, host.plan.config) if host.plan.config else "CONFIG"
        connection = RemoteConnection(
            launch,
            receive,
            ended,
            lambda request, why: host.attempt(
                lambda core: core.request_failed(child, request, why)
            ),
            lambda: host.attempt(lambda core: core.child_renewed(child)),
            lambda tool: host.core.schema_of(child, tool),
            f"mcpagg/{host.plan.compiler}",
            config,
        )
        return connection

    def _spawn(self, launch: Launch) -> SpawnedProcess:
        """Start the process of a server; the lock `spawning` is held."""
        digest = self._host.plan.digest
        launch.env = with_identity(launch.env, digest, launch.name, os.environ)
        return spawn(launch)


def _keep_spare_descriptor() -> None:
    """Keep a descriptor in reserve, since children may use up all."""
    try:
        if not SPARE:
            SPARE.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return  # none is left


def _close_in_thread(run: Run) -> None:
    """Close a run in a thread; if there is none, kill it."""
    if start_thread(run.close) is None:
        run.kill()
