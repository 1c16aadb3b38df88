"""Starts and ends the runs of children: each a process, or a connection to a server elsewhere."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.launch import Launches
from mcpagg_runtime.launch.nesting import data_digest, with_identity
from mcpagg_runtime.messages.printable import where
from mcpagg_runtime.messages.reading import answered
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
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.processes.spawning import SpawnedProcess
    from mcpagg_runtime.routing.core import Core
    from mcpagg_runtime.servers.child import Child
    from mcpagg_runtime.servers.connection import Received
    from mcpagg_runtime.servers.effects import Action, Peer

    class Run(Protocol):
        """One run of a child: a process, or the connection to a server elsewhere."""

        launch: Launch
        gone: threading.Event
        """Set once nothing is left of it."""
        detached: bool
        """Whether it was ended on purpose."""

        def send(self, *messages: Message) -> None:
            """Send it messages; never waits."""

        def read(self) -> None:
            """Read what it says, until it has no more to say."""

        def detach(self) -> None:
            """Take no more of it: it is ended on purpose."""

        def suppress_report(self) -> None:
            """Report nothing of its end."""

        def end(self, reason: str) -> None:
            """Report why it is over, and see that it is."""

        def close(self) -> None:
            """End it; returns when that is done."""

        def kill(self) -> None:
            """End it at once, and wait for nothing."""

    class Sink(Protocol):
        """Takes the messages for a client."""

        def send(self, *messages: Message) -> None:
            """Take messages; never blocks."""

        def has_room(self, seconds: float = 0.0) -> bool:
            """Wait until little enough waits for the client, at most so long; say whether it is."""

    class Host(Protocol):
        """Whom children run for: what becomes of them is brought to its core."""

        plan: Plan
        core: Core
        lock: threading.Lock
        """Guards the core, and the supervisor."""
        is_closing: bool

        def attempt(self, event: Callable[[Core], list[Action]]) -> None:
            """Bring an event to the core; the lock is not held."""

        def perform(self, actions: list[Action]) -> object:
            """Carry out what the core wants done; the lock is held."""

        def receive_from_child(
            self, child: Child, run: Run, received: list[Received]
        ) -> list[Sink]:
            """Take what a child has said; the lock is held.

            Returns those clients' that were sent something and do not read.
            """


# How often it is looked whether there is still reason to wait for a client that does not read.
LOOK_SECONDS = 1.0


class Supervisor:
    """All runs of children; whoever calls a method holds the lock, but where it says not.

    They are started and ended by threads of their own: nothing here waits for one.
    """

    def __init__(self, host: Host, folder: str) -> None:
        """`folder` is the one from which the launch table's relative paths are meant."""
        _keep_spare()
        self._host = host
        self._folder = folder
        self.current: dict[Peer, Run] = {}
        """Those that children have now: a grandchild may hold the pipes of an older one."""
        self._started: list[Run] = []
        """Those of which something may be left."""
        plan = host.plan
        self._launchable = Launches(
            plan.whole.servers, os.environ, folder, plan.options.env == "minimal"
        )
        self._launches: dict[str, Launch] = {}
        """How each server was started last: a line may be about one that has ended."""
        self._digest = ""
        """That of the plan's tables, once a process was started."""
        self.spawning = threading.Lock()
        """Held while one is started: who has it, and closes, sees all that will ever be."""

    def redact(self, text: str) -> str:
        """Return a text without values of variables; needs no lock."""
        for launch in [*self._launches.values()]:
            text = launch.redact(text)
        return text

    def start(self, child: Child) -> bool:
        """Start a child; return whether there was a thread to be had for it."""
        return start_thread(self._run, child) is not None

    def end(self, child: Child, reason: str) -> None:
        """End a child, for a reason that is reported."""
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
        """End all, side by side; returns when none is left. Needs no lock: none is started now."""
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
        """End all at once; takes no lock, for a signal handler may call it anywhere."""
        for run in list(self._started):
            run.kill()

    # One run

    def _run(self, child: Child) -> None:
        """Start a child and read what it says, to its end; in a thread of its own."""
        host, core = self._host, self._host.core
        launch: Launch | None = None
        run: Run | None = None

        def take(received: list[Received]) -> None:
            if run is not None:
                with host.lock:
                    unread = host.receive_from_child(child, run, received)
                # It is read no further: its pipe fills then, not our memory.
                for client in unread:
                    while not (host.is_closing or client.has_room(LOOK_SECONDS)):
                        pass

        def ended(reason: str, stderr_tail: str) -> None:
            # One that was stopped at that moment may run again already.
            if run is None or not run.detached:
                host.attempt(lambda core: core.child_down(child, reason, stderr_tail))

        # Whatever happens in here, nobody may wait for ever for what this child owes.
        try:
            launch = self._launchable.prepare(child.name)
            self._launches[child.name] = launch
            # Whoever closes the engine waits for a start under way, and none comes after.
            with self.spawning:
                if host.is_closing:
                    return
                run = self._start_run(child, launch, take, ended)
                with host.lock:
                    self._started = [old for old in self._started if not old.gone.is_set()]
                    self._started.append(run)
                    self.current[child] = run
                    host.perform(core.child_up(child, launch.masks))
                    if child.state != STARTING:  # given up meanwhile
                        run.suppress_report()
                        _close_in_thread(run)
            run.read()
        except Exception as problem:
            if run is not None:
                run.end(f"was given up over an internal fault: {where(problem)}")
            else:
                ended(f"could not be started: {start_failure(problem, launch)}", "")

    def _start_run(
        self,
        child: Child,
        launch: Launch,
        take: Callable[[list[Received]], None],
        ended: Callable[[str, str], None],
    ) -> Run:
        """Start a process, or get ready to speak to a server elsewhere; it reads for `take`."""
        host = self._host
        # Before the lock is taken: a long line holds up its own server alone.
        read, redact = child.connection.read, self.redact

        def receive(*lines: bytes) -> None:
            take([read(line, redact) for line in lines])

        def receive_answers(line: bytes, request: int) -> list[int]:
            received = read(line, redact, request)
            take([received])
            return answered(received[0])

        if launch.transport == "stdio":
            return Process(self._spawn(launch), receive, ended)
        from mcpagg_runtime.remote.transport import RemoteConnection

        config = os.path.join(self._folder, host.plan.config) if host.plan.config else "CONFIG"
        return RemoteConnection(
            launch,
            receive_answers,
            ended,
            lambda request, why: host.attempt(
                lambda core: core.request_failed(child, request, why)
            ),
            lambda: host.attempt(lambda core: core.child_renewed(child)),
            lambda tool: host.core.schema_of(child, tool),
            f"mcpagg/{host.plan.compiler}",
            config,
        )

    def _spawn(self, launch: Launch) -> SpawnedProcess:
        """Start the process of a server; only one is started at a time."""
        self._digest = self._digest or data_digest(self._host.plan.tables)
        launch.env = with_identity(launch.env, self._digest, launch.name, os.environ)
        return spawn(launch)


def _keep_spare() -> None:
    """Keep a descriptor, since lives may take all that there are."""
    try:
        if not SPARE:
            SPARE.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return  # there is none


def _close_in_thread(run: Run) -> None:
    """Close a run of which nothing more is taken; without a thread to wait in, kill it."""
    if start_thread(run.close) is None:
        run.kill()
