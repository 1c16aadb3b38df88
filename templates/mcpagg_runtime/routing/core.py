"""The core of the proxy: takes the events of all peers, of either era, one at a time.

It does no I/O, reads no clock of its own and starts nothing: what follows from an event is returned
as actions, in order; see Effects.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import Malformed
from mcpagg_runtime.messages.message import failure, read_messages
from mcpagg_runtime.messages.protocol import BATCH_VERSION, MODERN
from mcpagg_runtime.routing.legacy import LegacyClients
from mcpagg_runtime.routing.router import Dispatch, Router
from mcpagg_runtime.servers.effects import SEND, Effects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpagg_runtime.clients.answers import Answers
    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.modern.client import ModernClients
    from mcpagg_runtime.routing.router import Dispatching
    from mcpagg_runtime.servers.child import Child
    from mcpagg_runtime.servers.connection import Received
    from mcpagg_runtime.servers.effects import Action


class Core:
    """Hands what peers say to the edges, and what becomes of processes to children."""

    def __init__(
        self,
        answers: Answers,
        clock: Callable[[], float],
        mint: Callable[[], str],
        dispatching: Dispatching = Dispatch,
        redact: Callable[[str], str] = str,
    ) -> None:
        """`clock` gives seconds that never run backwards, `mint` a text that nobody can guess.

        `redact` is as in `Effects`.
        """
        self.effects = Effects(clock, redact)
        self.router = Router(answers, self.effects, dispatching)
        self._legacy = LegacyClients(self.router)
        self.children = self.router.children
        self._mint = mint
        self.modern: ModernClients | None = None
        """The port of modern clients, None before there was one."""

    @property
    def alarm(self) -> float:
        """No deadline is due before this time; `tick` wants to be called then."""
        return self.effects.alarm

    def taken(self) -> list[Action]:
        """Return what is to be done about the events since this was last asked."""
        effects = self.effects
        if effects.left:
            effects.settle()
        if effects.starts_due:
            effects.starts_due = False
            self.router.admit()
        actions, effects.actions, effects.is_urgent = effects.actions, [], False
        return actions

    # Clients

    def connect(self, client: Client) -> list[Action]:
        """Take on a client, which may have shaken hands already."""
        client.deliver = lambda message: self.effects.actions.append((SEND, client, message))
        self.router.connect(client)
        return self.taken()

    def end_input(self, client: Client) -> list[Action]:
        """A client will send nothing more; it still reads what it is owed."""
        self.router.end_input(client)
        return self.taken()

    def unattend(self, client: Client, identifiers: Iterable[str]) -> list[Action]:
        """Nobody reads what is said to a client about these of its calls at present.

        `identifiers` are the JSON texts of their ids. They go on, but are asked nothing.
        """
        self.router.note_attention(client, [*identifiers], attended=False)
        return self.taken()

    def attend(self, client: Client, identifiers: Iterable[str]) -> list[Action]:
        """Somebody reads again what is said to a client about these of its calls."""
        self.router.note_attention(client, [*identifiers], attended=True)
        return self.taken()

    def disconnect(self, client: Client) -> list[Action]:
        """Let a client go, with all that it asked for: nobody will read what it is still owed."""
        if self.modern is not None:
            self.modern.close(client)
        self.router.disconnect(client)
        return self.taken()

    def from_client(self, client: Client, line: bytes) -> None:
        """Take one line of a client; lines may come several at once, so the rest is `taken`."""
        for message in read_messages(line, client.version == BATCH_VERSION):
            self._receive(client, message)

    def take(self, client: Client, messages: Iterable[Message | Malformed]) -> list[Action]:
        """Take what was read of a client: a message, or those of a batch."""
        for message in messages:
            self._receive(client, message)
        return self.taken()

    def _receive(self, client: Client, message: Message | Malformed) -> None:
        """Give a message to the edge that it is for: one pipe may bring those of both eras."""
        is_taken = False
        if not isinstance(message, Malformed):
            is_first = self.modern is None and message.is_enveloped and message.id is not None
            if is_first and message.method != "initialize":
                from mcpagg_runtime.modern.client import ModernClients

                self.modern = ModernClients(self.router, self._mint)
            is_taken = self.modern is not None and self.modern.receive(client, message)
        if not is_taken:
            self._legacy.receive(client, message)
        if self.effects.left:
            self.effects.settle()

    def owes(self, client: Client) -> bool:
        """Whether a request of the client is still to be answered."""
        waits = self.modern is not None and self.modern.owes(client)
        return waits or self.router.owes(client)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, or remembered for what has ended."""
        children = [child for instances in self.router.servers.values() for child in instances]
        busy = any(child.is_busy or not child.connection.port.is_idle for child in children)
        return not busy and (self.modern is None or self.modern.is_idle)

    def end_subscriptions(self) -> list[Action]:
        """End the subscriptions of all clients."""
        if self.modern is not None:
            self.modern.end_subscriptions()
        return self.taken()

    # Children

    def wake(self, child: Child, client: Client) -> list[Action]:
        """Start a child although nobody calls it."""
        child.lifecycle.want(client)
        return self.taken()

    def child_up(self, child: Child, masks: Mapping[str, str] = {}) -> list[Action]:
        """A child's process runs; `masks` {name: value} are variables that clients never see."""
        if child.era == MODERN:
            from mcpagg_runtime.modern.child import ModernChildPort

            router = self.router
            tool = partial(self.schema_of, child)
            info, speakers = router.plan.whole.info, router.clients.speakers
            port = ModernChildPort(child.connection, info, speakers, tool)
            child.up(port, masks)
        else:
            child.up(None, masks)
        return self.taken()

    def child_down(self, child: Child, reason: str, last_words: str = "") -> list[Action]:
        """A child's process is gone, or never was.

        `reason` completes "Server 'x' …"; `last_words` is the end of its stderr, without secrets.
        """
        child.down(reason, last_words)
        return self.taken()

    def schema_of(self, child: Child, tool: str) -> str:
        """Return the JSON text of a child's tool, by the child's name for it; "" if unknown."""
        item = self.router.answers.catalogues["tools"].own(child.name, tool)
        return "" if item is None else item.listed("")

    def child_renewed(self, child: Child) -> list[Action]:
        """A child that is up has shaken hands again, and knows nothing of what it was sent."""
        child.renewed()
        return self.taken()

    def request_failed(self, child: Child, request: int, reason: str) -> list[Action]:
        """A child will not answer a request; `reason` completes "Server 'x' …"."""
        if child.lifecycle.is_alive:
            child.connection.port.receive(failure(str(request), child.connection.gone(reason)))
        return self.taken()

    def from_child(self, child: Child, received: Received) -> None:
        """Take what its connection has read of a line of a child; the rest is `taken`."""
        messages, oddity = received
        if child.lifecycle.is_alive:  # else these are its last words
            connection = child.connection
            if oddity:
                connection.warn(oddity)
            for message in messages:
                connection.port.receive(message)
                if self.effects.left:
                    self.effects.settle()

    def tick(self) -> list[Action]:
        """Do what is due at this time, and set the alarm anew."""
        now = self.effects.clock()
        self.effects.disarm()
        if self.modern is not None:
            self.modern.tick(now)
        for instances in self.router.servers.values():
            instances.tick(now)
        return self.taken()
