"""Both eras at the borders of the router, which knows one form: that of the handshake.

A message of the revision of 2026-07-28 is translated where it comes in or goes out, whoever says
it: a client (sessions) or a child (rounds). Nobody is pinned to an era, not even one pipe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.child import Child
from mcpagg_runtime.effects import SEND
from mcpagg_runtime.jsontext import Malformed
from mcpagg_runtime.message import Message, read_messages
from mcpagg_runtime.protocol import BATCH_VERSION, MODERN
from mcpagg_runtime.rounds import Rounds
from mcpagg_runtime.session import Session
from mcpagg_runtime.sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpagg_runtime.child import Said
    from mcpagg_runtime.client import Client
    from mcpagg_runtime.effects import Action
    from mcpagg_runtime.router import Router


class Border:
    """A router to those around it, in any era; see Core for what its methods return.

    `mint` returns a text that nobody can guess.
    """

    def __init__(self, router: Router, mint: Callable[[], str]) -> None:
        self.router = router
        self.children = router.children
        self.clock = router.effects.clock
        self.sessions = Sessions(self, mint)
        self.rounds: dict[Child, Rounds] = {}
        self._actions: list[Action] = []

    @property
    def alarm(self) -> float:
        """No deadline is due before this time; `tick` wants to be called then."""
        rounds = [one.alarm for one in self.rounds.values()]
        return min([self.router.alarm, self.sessions.alarm, *rounds])

    def connect(self, client: Client) -> list[Action]:
        """Take on a client."""
        return self._carried(self.router.connect(client))

    def disconnect(self, client: Client) -> list[Action]:
        """Let a client go, with all that it asked for."""
        self.sessions.close(client)
        return self._carried(self.router.disconnect(client))

    def end_subscriptions(self) -> list[Action]:
        """Tell clients that there will be no more news."""
        self.sessions.end_subscriptions()
        return self._carried([])

    def owes(self, client: Client) -> bool:
        """Whether a request of the client is still to be answered."""
        return self.router.owes(client) or self.sessions.owes(client)

    def from_client(self, client: Client, line: bytes) -> list[Action]:
        """Take one line of a client."""
        for message in read_messages(line, client.version == BATCH_VERSION):
            if isinstance(message, Malformed) or not self.sessions.take(client, message):
                self.carry(self.router.hear(client, message))
        return self._carried([])

    def read(self, child: Child, line: bytes) -> Said:
        """Read a line of a child, for `from_child`; the lock need not be held."""
        return self.router.read(child, line)

    def from_child(self, child: Child, said: Said) -> list[Action]:
        """Take what was read of a line of a child."""
        rounds = self.rounds.get(child)
        if rounds is None or not child.lifecycle.is_alive:
            return self._carried(self.router.from_child(child, said))
        messages, oddity = said
        child.connection.warn(oddity)
        self.carry(self.router.effects.taken())
        for message in messages:
            rounds.heard(message)
        return self._carried([])

    def child_up(self, child: Child, masks: Mapping[str, str] = {}) -> list[Action]:
        """A child's process runs, and is spoken to in its era."""
        if child.era == MODERN:
            self.rounds[child] = Rounds(self, child)
        else:
            self.rounds.pop(child, None)
        return self._carried(self.router.child_up(child, masks))

    def child_down(self, child: Child, reason: str, last_words: str = "") -> list[Action]:
        """A child's process is gone."""
        self.rounds.pop(child, None)
        return self._carried(self.router.child_down(child, reason, last_words))

    def wake(self, child: Child, client: Client) -> list[Action]:
        """Start a child although nobody calls it."""
        return self._carried(self.router.wake(child, client))

    def tick(self) -> list[Action]:
        """Do what is due at this time."""
        self.sessions.tick()
        for rounds in [*self.rounds.values()]:
            rounds.tick()
        return self._carried(self.router.tick())

    def carry(self, actions: list[Action]) -> None:
        """Carry what the router wants done across the border."""
        for action in actions:
            kind, peer, message = action
            if kind == SEND and isinstance(peer, Session):
                self.sessions.told(peer, message)
            elif kind == SEND and peer in self.rounds:
                self.rounds[peer].told(message)
            else:
                self._actions.append(action)

    def send(self, peer: Client | Child, message: Message) -> None:
        """Say something to a client or a child, as it is."""
        self._actions.append((SEND, peer, message))

    def say_for(self, child: Child, message: Message) -> None:
        """Let the router hear what a child says, in the form that it knows."""
        self.carry(self.router.hear_child(child, message))

    def ask(self, client: Client, child: Child, message: Message) -> None:
        """Let the router ask a client something on behalf of a child."""
        self.carry(self.router.ask(client, child, message))

    def _carried(self, actions: list[Action]) -> list[Action]:
        self.carry(actions)
        actions, self._actions = self._actions, []
        return actions
