"""Carries out what the core decides: writes to peers, starts and stops children, keeps time."""

from __future__ import annotations

import os
import threading
from time import monotonic, time
from typing import TYPE_CHECKING

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.launch.approval import refusal
from mcpagg_runtime.launch.secrecy import shown
from mcpagg_runtime.messages.jsontext import Malformed, log_line, obj
from mcpagg_runtime.messages.message import error, failure, notification, read_messages
from mcpagg_runtime.messages.printable import where
from mcpagg_runtime.messages.protocol import BATCH_VERSION, CANCELLED, INTERNAL_ERROR
from mcpagg_runtime.processes.threads import NO_THREAD, SIGNAL_SECONDS
from mcpagg_runtime.processes.writer import Writer
from mcpagg_runtime.routing.core import Core
from mcpagg_runtime.routing.router import Dispatch
from mcpagg_runtime.servers.effects import SAY, SEND, SLEEP, START, STATE, STOP
from mcpagg_runtime.start.values import quote
from mcpagg_runtime.stdio.supervisor import Supervisor
from mcpagg_runtime.stdio.timer import TimerThread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from mcpagg_runtime.clients.answers import Answers
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.servers.child import Child
    from mcpagg_runtime.servers.connection import Received
    from mcpagg_runtime.servers.effects import Action
    from mcpagg_runtime.servers.instances import Instances
    from mcpagg_runtime.stdio.supervisor import Run, Sink

    class Log(Protocol):
        """Takes what is to be logged."""

        def send(self, line: bytes) -> None:
            """Take one line, which ends in a newline; never blocks."""

        def flush(self, seconds: float) -> bool:
            """Wait until all is written, no longer than so many seconds; return whether it is."""

        def dispatch(self, servers: Mapping[str, Instances]) -> Dispatch:
            """Return what gives calls to servers, and may log them."""


# How often a thread that waits for a client checks whether the proxy is closing.
CLOSING_CHECK_SECONDS = 1.0


class Engine:
    """The core at work. One lock guards it; whoever brings an event carries out what follows.

    Carrying out never blocks: lines go to writers, processes are started and ended by threads.
    `folder` is where the emitted file lies, from which the launch table's relative paths are meant.
    `log` gets a line of JSON for each state that a child enters, and may have calls logged.
    """

    def __init__(
        self,
        answers: Answers,
        folder: str,
        log: Log | None = None,
    ) -> None:
        self.plan = answers.plan
        self.log = log
        self._refusal = refusal(self.plan.whole)
        dispatch = Dispatch if log is None else log.dispatch
        self.core = Core(
            answers,
            monotonic,
            lambda: os.urandom(16).hex(),
            dispatch,
            self._redact,
        )
        self.lock = threading.Lock()
        self._sinks: dict[Client | Child, Sink] = {}
        self._supervisor = Supervisor(self, folder)
        self._stderr = Writer(2, private=False, on_overflow=lambda waiting: None)
        self.is_closing = False
        self._awaited_client: Client | None = None
        self._all_answered = threading.Event()
        """Set once that client has no pending request."""
        self._timer = TimerThread(self.lock, self._tick, self._report)

    def connect(self, client: Client, sink: Sink) -> None:
        """Take on a client, whose messages go to `sink`."""
        self._sinks[client] = sink
        self.attempt(lambda core: core.connect(client))

    def disconnect(self, client: Client) -> None:
        """Disconnect a client and cancel its requests."""
        self.attempt(lambda core: core.disconnect(client))
        with self.lock:
            del self._sinks[client]

    def receive(self, client: Client, *lines: bytes) -> int:
        """Take lines of a client, as many as came at once; return how many were taken.

        Fewer than all, if the queue of the client's output is full: see `Sink.has_room`.
        """
        faults: list[tuple[bytes, Exception]] = []
        taken = 0
        effects = self.core.effects
        with self.lock:
            if self.is_closing:
                return len(lines)
            for line in lines:
                taken += 1
                try:
                    self.core.from_client(client, line)
                    # What is only passed on waits for the other lines: one write takes them all.
                    answered = effects.actions and effects.actions[-1][1] is client
                    if answered or effects.is_urgent:
                        self.perform()
                        if not self._sinks[client].has_room():
                            break
                except Exception as fault:
                    faults.append((line, fault))
            try:
                self.perform()
            except Exception as fault:
                faults += [(line, fault) for line in lines[:taken]]
        for line, problem in faults:
            self.fail(client, line, problem)
        return taken

    def take(self, client: Client, messages: list[Message | Malformed]) -> None:
        """Take what was read of a client: a message, or those of a batch."""
        try:
            self._bring(lambda core: core.take(client, messages))
        except Exception as fault:
            self._take_back(client, messages, fault)

    def fail(self, client: Client, line: bytes, fault: Exception) -> None:
        """Answer the requests of a client's line that a fault of ours has kept from an answer."""
        self._take_back(client, read_messages(line, client.version == BATCH_VERSION), fault)

    def _take_back(
        self, client: Client, messages: list[Message | Malformed], fault: Exception
    ) -> None:
        """Answer requests that a fault of ours has kept from an answer.

        What was begun of them is taken back, as if the client had cancelled them.
        """
        place = self._report(fault)
        with self.lock:
            for message in messages:
                if isinstance(message, Malformed) or message.id is None or not message.method:
                    continue
                identifier = message.id_text
                cancelled = notification(CANCELLED, obj(requestId=identifier))
                actions = self.core.take(client, [cancelled])
                self.perform(actions)
                if not any(_is_answer(action, client, identifier) for action in actions):
                    why = error(INTERNAL_ERROR, f"Internal fault: {place}")
                    self._send_all({client: [failure(identifier, why)]})

    def wake(self, child: Child, client: Client) -> None:
        """Start a child for a client, unless it runs."""
        self.attempt(lambda core: core.wake(child, client))

    def settle(self, client: Client, seconds: float, is_stopped: Callable[[], bool]) -> None:
        """The client sends no more: wait until it is owed no answer, no longer than `seconds`.

        `is_stopped` is asked now and then whether there is still reason to wait.
        """
        end = monotonic() + seconds
        self.attempt(lambda core: core.end_input(client))
        with self.lock:
            if not self.core.owes(client):
                return
            self._awaited_client = client
        while not (is_stopped() or monotonic() > end):
            if self._all_answered.wait(SIGNAL_SECONDS):
                return

    def end_subscriptions(self) -> None:
        """End the subscriptions of all clients."""
        self.attempt(lambda core: core.end_subscriptions())

    def close(self) -> None:
        """End all children, side by side; returns when none is left."""
        self.end_subscriptions()
        with self._supervisor.spawning, self.lock:
            self.is_closing = True
            self._timer.end()  # its thread keeps all of this alive
        self._supervisor.close()
        self._stderr.flush(1.0)
        if self.log is not None:
            self.log.flush(1.0)

    def kill(self) -> None:
        """End all children at once; takes no lock, for a signal handler may call it anywhere."""
        self._supervisor.kill()

    def _bring(self, event: Callable[[Core], list[Action]]) -> None:
        """Pass an event to the core and carry out what follows."""
        with self.lock:
            if not self.is_closing:
                self.perform(event(self.core))

    def attempt(self, event: Callable[[Core], list[Action]]) -> None:
        """Bring an event that nobody waits for: after a fault of ours, the rest goes on."""
        try:
            self._bring(event)
        except Exception as fault:
            self._report(fault)

    def perform(self, actions: list[Action] | None = None) -> set[Client | Child]:
        """Carry out what the core wants done; the lock is held. Return whom something was sent."""
        reached: set[Client | Child] = set()
        messages: dict[Client | Child, list[Message]] = {}
        for kind, peer, what in self.core.taken() if actions is None else actions:
            if kind is SEND:
                messages.setdefault(peer, []).append(what)
                continue
            self._send_all(messages)
            reached.update(messages)
            messages = {}
            self._do(kind, peer, what)
        self._send_all(messages)
        reached.update(messages)
        if self._awaited_client is not None and not self.core.owes(self._awaited_client):
            self._awaited_client = None
            self._all_answered.set()
        due = self.core.effects.alarm
        if due < self._timer.due and not self._timer.call_by(due):
            self.say(f"no time limit is kept: {NO_THREAD}")
        return reached

    def _do(self, kind: str, peer: Any, what: Any) -> None:
        """Carry out an action that is no message."""
        if kind == SAY:
            self.say(what)
        elif kind == START:
            why = self._refusal or ("" if self._supervisor.start(peer) else NO_THREAD)
            if why:
                self.perform(self.core.child_down(peer, f"could not be started: {why}"))
        elif kind == STOP:
            self._supervisor.end(peer, what)
        elif kind == SLEEP:
            self._supervisor.stop_idle(peer)
        elif kind == STATE and self.log is not None:
            state, reason = what
            self.log.send(_state_line(peer.name, state, self.shown(reason)))

    def say(self, text: str) -> None:
        """Write a line on standard error; further lines of the text are indented."""
        line = self.shown(f"{self.plan.name}: {text}")
        self._stderr.send(f"{line}\n".encode("utf-8", "backslashreplace"))

    def _report(self, fault: Exception) -> str:
        """Write a line about a fault of ours; return its kind and place."""
        place = where(fault)
        self.say(f"internal fault: {place}")
        return place

    def shown(self, text: str) -> str:
        """Return a text as it may be shown: servers may say what they were given."""
        return shown(text, self._redact)

    def _redact(self, text: str) -> str:
        return self._supervisor.redact(text)

    def _send_all(self, messages: dict[Client | Child, list[Message]]) -> None:
        """Send each peer its messages; one that has left gets none."""
        for peer, those in messages.items():
            receiver = self._sinks.get(peer) or self._supervisor.current.get(peer)
            if receiver is not None:
                receiver.send(*those)

    def receive_from_child(
        self, child: Child, run: Run, *lines: bytes, request: int = 0
    ) -> list[Received]:
        """Take lines of a run of a child; return what was read in each.

        `request` is what they answer, if that is known. Waits until the clients that were sent
        something read it: meanwhile the child's pipe fills, and not our memory.
        """
        # Lines are parsed before the lock is taken: a long one holds up its own server alone.
        read, redact = child.connection.read, self._supervisor.redact
        received = [read(line, redact, request) for line in lines]
        reached: set[Client | Child] = set()
        effects, current = self.core.effects, self._supervisor.current
        with self.lock:
            for one in received:
                if self.is_closing or current.get(child) is not run:
                    break
                self.core.from_child(child, one)
                if effects.is_urgent:
                    reached |= self.perform()
            reached |= self.perform()
        for peer in reached:
            sink = self._sinks.get(peer)
            while not (sink is None or self.is_closing or sink.has_room(CLOSING_CHECK_SECONDS)):
                pass
        return received

    def _tick(self) -> float:
        """Do what is due; return when the next thing is. The lock is held."""
        while self.core.alarm <= monotonic():
            self.perform(self.core.tick())
        return self.core.alarm


def _state_line(server: str, state: str, reason: str) -> bytes:
    """Return what is logged of a state that a child enters, and why, "" for no reason."""
    why = quote(reason) if reason else "null"
    return log_line(time(), server=quote(server), state=quote(state), reason=why)


def _is_answer(action: Action, client: Client, identifier: str) -> bool:
    """Whether an action answers this request of a client."""
    kind, peer, message = action
    if kind != SEND or peer is not client:
        return False
    return message.method is None and message.id_text == identifier
