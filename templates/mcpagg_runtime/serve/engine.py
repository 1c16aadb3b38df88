"""Carries out what the core decides: writes to peers, starts and stops children, keeps time."""

from __future__ import annotations

import _thread
import os
from time import monotonic, time
from typing import TYPE_CHECKING

from mcpagg_runtime.base.client import Client
from mcpagg_runtime.base.jsontext import Malformed, obj
from mcpagg_runtime.base.message import error, failure, notification, read_messages
from mcpagg_runtime.base.polling import acquired
from mcpagg_runtime.base.protocol import BATCH_VERSION, CANCELLED, INTERNAL_ERROR
from mcpagg_runtime.base.writer import Writer
from mcpagg_runtime.serve.core import Core
from mcpagg_runtime.serve.effects import FOREVER, SAY, SEND, SLEEP, START, STATE, STOP
from mcpagg_runtime.serve.lives import Lives
from mcpagg_runtime.serve.routing import Dispatch
from mcpagg_runtime.spawn.spawning import ALLOWED_SIGNERS
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from mcpagg_runtime.base.answers import Answers
    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.base.plan import Plan
    from mcpagg_runtime.serve.child import Child
    from mcpagg_runtime.serve.connection import Received
    from mcpagg_runtime.serve.effects import Action
    from mcpagg_runtime.serve.instances import Instances
    from mcpagg_runtime.serve.lives import Life

    class Sink(Protocol):
        """Takes the messages for a client."""

        def send(self, *messages: Message) -> None:
            """Take messages; never blocks."""

        def gate(self) -> Any:
            """Return a lock that is held while too much waits for the client, or None."""

    class Log(Protocol):
        """Takes what is to be logged."""

        def send(self, line: bytes) -> None:
            """Take one line, which ends in a newline; never blocks."""

        def flush(self, seconds: float) -> bool:
            """Wait until all is written, no longer than so many seconds; return whether it is."""

        def dispatch(self, servers: Mapping[str, Instances]) -> Dispatch:
            """Return what gives calls to servers, and may log them."""


NO_THREAD = "the system has no thread for it"
LONGEST_SLEEP_SECONDS = 3600.0


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
        self._refusal = _refusal(self.plan)
        dispatch = Dispatch if log is None else log.dispatch
        self.core = Core(answers, monotonic, lambda: os.urandom(16).hex(), dispatch)
        self.lock = _thread.allocate_lock()
        self._sinks: dict[Client | Child, Sink] = {}
        self._lives = Lives(self, folder)
        self._stderr = Writer(2, private=False, overflowed=lambda waiting: None)
        self.is_closing = False
        self._awaited: Client | None = None
        self._paid = _thread.allocate_lock()
        self._alarm = Alarm(self._ring)

    def connect(self, client: Client, sink: Sink) -> None:
        """Take on a client, whose messages go to `sink`."""
        self._sinks[client] = sink
        self.attempt(lambda core: core.connect(client))

    def disconnect(self, client: Client) -> None:
        """Let a client go, with all that it asked for."""
        self.attempt(lambda core: core.disconnect(client))
        with self.lock:
            del self._sinks[client]

    def receive(self, client: Client, *lines: bytes) -> int:
        """Take lines of a client, as many as came at once; return how many were taken.

        Not all of them, if the client is owed too much that it does not read: see its sink's gate.
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
                        if self._sinks[client].gate() is not None:
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
        """See to it that a child runs, on behalf of a client."""
        self.attempt(lambda core: core.wake(child, client))

    def settle(self, client: Client, seconds: float) -> None:
        """The client sends no more: wait until it is owed no answer, no longer than `seconds`."""
        self.attempt(lambda core: core.end_input(client))
        with self.lock:
            if not self.core.owes(client):
                return
            self._paid.acquire()
            self._awaited = client
        acquired(self._paid, seconds)

    def end_subscriptions(self) -> None:
        """Tell clients that there will be no more news."""
        self.attempt(lambda core: core.end_subscriptions())

    def close(self) -> None:
        """End all children, side by side; returns when none is left."""
        self.end_subscriptions()
        with self._lives.spawning, self.lock:
            self.is_closing = True
            self._alarm.wake()  # its thread keeps all of this alive
        self._lives.close()
        self._stderr.flush(1.0)
        if self.log is not None:
            self.log.flush(1.0)

    def kill(self) -> None:
        """End all children at once; takes no lock, for a signal handler may call it anywhere."""
        self._lives.kill()

    def _bring(self, event: Callable[[Core], list[Action]]) -> None:
        """Bring an event to the core and carry out what follows."""
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
        if self._awaited is not None and not self.core.owes(self._awaited):
            self._awaited = None
            self._paid.release()
        alarm = self.core.effects.alarm
        if alarm < self._alarm.due and not self._alarm.set(alarm):
            self.say(f"no time limit is kept: {NO_THREAD}")
        return reached

    def _do(self, kind: str, peer: Any, what: Any) -> None:
        """Carry out an action that is no message."""
        if kind == SAY:
            self.say(what)
        elif kind == START:
            why = self._refusal or ("" if self._lives.start(peer) else NO_THREAD)
            if why:
                self.perform(self.core.child_down(peer, f"could not be started: {why}"))
        elif kind == STOP:
            self._lives.end(peer, what)
        elif kind == SLEEP:
            self._lives.put_to_sleep(peer)
        elif kind == STATE and self.log is not None:
            state, reason = what
            self.log.send(_state_line(peer.name, state, self.shown(reason)))

    def say(self, text: str) -> None:
        """Write a line on standard error; further lines of the text are indented."""
        line = self.shown(f"{self.plan.name}: {text}")
        self._stderr.send(f"{line}\n".encode("utf-8", "backslashreplace"))

    def _report(self, fault: Exception) -> str:
        """Write a line about a fault of ours; return its kind and place."""
        from mcpagg_runtime.rare.secrecy import where

        place = where(fault)
        self.say(f"internal fault: {place}")
        return place

    def shown(self, text: str) -> str:
        """Return a text as it may be shown: servers may say what they were given."""
        from mcpagg_runtime.rare.secrecy import shown

        return shown(text, self._lives.redact)

    def _send_all(self, messages: dict[Client | Child, list[Message]]) -> None:
        """Send each peer its messages; one that has left gets none."""
        for peer, those in messages.items():
            receiver = self._sinks.get(peer) or self._lives.current.get(peer)
            if receiver is not None:
                receiver.send(*those)

    def receive_from_child(self, child: Child, life: Life, received: list[Received]) -> list[Any]:
        """Take what a child has said in one of its lives; the lock is held.

        Returns the gates of those clients that were sent something and do not read.
        """
        reached: set[Client | Child] = set()
        effects, current = self.core.effects, self._lives.current
        for one in received:
            if self.is_closing or current.get(child) is not life:
                break
            self.core.from_child(child, one)
            if effects.is_urgent:
                reached |= self.perform()
        reached |= self.perform()
        gates = []
        for peer in reached:
            gate = self._sinks[peer].gate() if peer in self._sinks else None
            if gate is not None:
                gates.append(gate)
        return gates

    def _ring(self) -> float | None:
        """Do what is due; return how long to wait for what comes next, None if nothing will."""
        with self.lock:
            if self.is_closing:
                return None
            wait = 0.0
            while wait <= 0 and self.core.alarm <= monotonic():
                try:
                    self.perform(self.core.tick())
                except Exception as fault:
                    self._report(fault)
                    wait = 1.0
            self._alarm.note(self.core.alarm)
            return wait or self.core.alarm - monotonic()


def _refusal(plan: Plan) -> str:
    """Return why no child may be started, "" if they may; see `approval`."""
    if not (plan.approval or ALLOWED_SIGNERS in os.environ):
        return ""
    from mcpagg_runtime.tool.approval import refusal

    return refusal(plan.whole)


def _state_line(server: str, state: str, reason: str) -> bytes:
    """Return what is logged of a state that a child enters, and why, "" for no reason."""
    line = obj(
        time=f"{time():.3f}",
        server=quote(server),
        state=quote(state),
        reason=quote(reason) if reason else "null",
    )
    return line.encode("ascii") + b"\n"


def _is_answer(action: Action, client: Client, identifier: str) -> bool:
    """Whether an action answers this request of a client."""
    kind, peer, message = action
    if kind != SEND or peer is not client:
        return False
    return message.method is None and message.id_text == identifier


class Alarm:
    """Calls `ring` when it is due; whoever calls a method holds the lock that `ring` takes."""

    def __init__(self, ring: Callable[[], float | None]) -> None:
        """`ring` returns for how many seconds to wait until it is due again, None to end."""
        self._ring = ring
        self.due = FOREVER
        """When the next thing is due."""
        self._woken: Any = None
        """Held while the thread has no reason to wake up; None as long as there is no thread."""
        self._is_told = False
        """Whether it was reported that there is no thread."""

    def note(self, due: float) -> None:
        """Note when the next thing is due; called by `ring`, which has seen to all that was."""
        self.due = due

    def set(self, due: float) -> bool:
        """See that `ring` is called by then; return False, once, if no thread is to be had."""
        if due >= self.due:
            return True
        self.due = due
        if self._woken is None:
            self._woken = _thread.allocate_lock()
            self._woken.acquire()
            try:
                _thread.start_new_thread(self._run, ())
            except RuntimeError:
                self._woken, self.due = None, FOREVER  # the next event tries again
                was_told, self._is_told = self._is_told, True
                return was_told
        else:
            self.wake()
        return True

    def wake(self) -> None:
        """Have `ring` called now, if there is a thread that calls it."""
        if self._woken is not None and self._woken.locked():
            self._woken.release()

    def _run(self) -> None:
        while True:
            wait = self._ring()
            if wait is None:
                return
            self._woken.acquire(True, min(wait, LONGEST_SLEEP_SECONDS))
