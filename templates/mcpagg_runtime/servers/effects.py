"""The actions that the core requests, in order: send, report, start; and its next deadline.

The core does no I/O, reads no clock of its own and starts nothing. Each event that it takes returns
the actions that follow; the engine carries them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from mcpagg_runtime.messages.message import Message

    Action = tuple[str, Any, Any]

    class Peer(Protocol):
        """A client or a child, as those see it who only send it something."""

        name: str


SEND = "send"  # a message to a client or a child
START = "start"  # a child's process
STOP = "stop"  # a child's process; the text says why, and the child is reported down then
SLEEP = "sleep"  # end a child's process without a word: it is wanted again
SAY = "say"  # a line on standard error
STATE = "state"  # a child has entered one: (state, reason), for a log

FOREVER = float("inf")


class Effects:
    """The actions that follow from an event; whoever decides something has it."""

    def __init__(self, clock: Callable[[], float], redact: Callable[[str], str] = str) -> None:
        self.clock = clock
        """Gives seconds that never run backwards."""
        self.redact = redact
        """Gives a text without values of variables: for what servers call their items."""
        self.alarm = FOREVER
        """No deadline is due before this time; `tick` wants to be called then."""
        self.starts_due = False
        """Whether a queued child may be due to start: a state has changed, or a call waits."""
        self.actions: list[Action] = []
        """What is to be done, in order; see `Core.taken`."""
        self.is_urgent = False
        """Whether any of that is more than sending messages."""
        self.left: list[Callable[[], None]] = []
        """What a message has left to be done."""

    def later(self, work: Callable[[], None]) -> None:
        """Have something done as soon as this message has been dealt with.

        So a port can answer the router, which is still in the middle of what it says to the port.
        """
        self.left.append(work)

    def settle(self) -> None:
        """Do what is left to be done, and what that leaves."""
        while self.left:
            self.left.pop(0)()

    def send(self, peer: Peer, message: Message) -> None:
        """Send a message to a client or a child."""
        self.actions.append((SEND, peer, message))

    def say(self, text: str) -> None:
        """Write a line on standard error."""
        self._add(SAY, None, text)

    def start(self, child: Peer) -> None:
        """Start a child's process."""
        self._add(START, child, None)

    def stop(self, child: Peer, reason: str) -> None:
        """End a child's process, and report the child down."""
        self._add(STOP, child, reason)

    def sleep(self, child: Peer) -> None:
        """End a child's process, and report nothing."""
        self._add(SLEEP, child, None)

    def entered(self, child: Peer, state: str, reason: str) -> None:
        """Note in the log that a child is in another state."""
        self.starts_due = True
        self._add(STATE, child, (state, reason))

    def _add(self, kind: str, peer: Peer | None, what: Any) -> None:
        self.is_urgent = True
        self.actions.append((kind, peer, what))

    def arm(self, deadline: float) -> float:
        """See that `tick` is called at this time; return it."""
        self.alarm = min(self.alarm, deadline)
        return deadline

    def disarm(self) -> None:
        """Forget all deadlines: whoever has one arms it anew."""
        self.alarm = FOREVER
