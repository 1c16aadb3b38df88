"""What a port is: it stands between a peer and the router, which knows one form of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from mcpagg_runtime.serve.effects import Effects, Peer
    from mcpagg_runtime.serve.lenient import Fragment
    from mcpagg_runtime.start.message import Message

    class ChildPort(Protocol):
        """One life of a child, as it is spoken to."""

        def deliver(self, message: Message) -> None:
            """Take what the router says to the child."""

        def receive(self, message: Message | Fragment) -> None:
            """Take what the child says."""

        def tick(self, now: float) -> None:
            """Do what is due at this time."""


class LegacyChildPort:
    """The port of a legacy child: its messages have the form that the router knows."""

    def __init__(
        self, child: Peer, effects: Effects, receive: Callable[[Message | Fragment], None]
    ) -> None:
        """`receive` takes what the child says."""
        self._child = child
        self._effects = effects
        self.receive = receive

    def deliver(self, message: Message) -> None:
        """Send the child what the router says to it."""
        self._effects.send(self._child, message)

    def tick(self, now: float) -> None:
        """Nothing is ever due here."""
