"""What makes it known whose call a server's request is of: first calls alone, and late ones.

A legacy server's request does not say which call caused it; see `ServerRequests`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.servers.effects import FOREVER

if TYPE_CHECKING:
    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.servers.calls import Call
    from mcpagg_runtime.servers.effects import Effects

# How long the first call of a tool may keep first calls of other clients waiting.
ALONE_SECONDS = 0.25
# How long a child may go on with a call that was taken back, if it never says that it has ended.
LATE_SECONDS = 60.0


class FirstCalls:
    """The first call of each item in one life of a child: it goes alone, for a moment.

    So what the child asks first has one party that it is for. Other parties' calls of what has not
    been called yet wait until that one is answered, has asked, or its moment is over; once an item.
    """

    def __init__(self) -> None:
        self._called: set[tuple[str, str]] = set()
        """(method, the child's own name) of what has been called."""
        self.alone: Call | None = None
        """The one that goes alone now."""
        self.until = FOREVER
        """When the moment of the one that is alone is over."""

    def forget(self) -> None:
        """Let every item have a first call again."""
        self._called.clear()

    def holds_back(self, call: Call, now: float) -> bool:
        """Whether a call has to wait for one of another party."""
        self.expire(now)
        if self.alone is None or not self._is_first(call):
            return False
        return call.client.party is not self.alone.client.party

    def note(self, call: Call, now: float) -> None:
        """A call of a client that can be asked is sent."""
        if self.alone is None and self._is_first(call):
            self.alone, self.until = call, now + ALONE_SECONDS

    def _is_first(self, call: Call) -> bool:
        """Whether a call is the first of what is on a list: clients make up any number of URIs."""
        return call.path == ("name",) and (call.method, call.original) not in self._called

    def expire(self, now: float) -> float:
        """Let the one that is alone be so no longer, if its moment is over; return `until`."""
        if self.until <= now:
            self.end()
        return self.until

    def ended(self, call: Call) -> None:
        """A call has been answered, or taken back."""
        if call is self.alone:
            self.end()

    def end(self) -> None:
        """Let no call be alone any longer."""
        if self.alone is not None:
            self._called.add((self.alone.method, self.alone.original))
        self.alone, self.until = None, FOREVER


class LateCalls:
    """The calls of one life of a child that were taken back and that it may still be at."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._late: dict[int, tuple[Client, float]] = {}
        """{id of a call: (its party, until when the child may be at it)}, soonest first."""

    def parties(self) -> set[Client]:
        """Return the parties whose calls they are."""
        return {party for party, _ in self._late.values()}

    def add(self, call: Call) -> None:
        """A call is taken back."""
        until = self._effects.arm(self._effects.clock() + LATE_SECONDS)
        self._late[call.number] = call.client.party, until

    def ended(self, number: int) -> None:
        """The child has ended what had this id, if that is one of them."""
        self._late.pop(number, None)

    def expire(self, now: float) -> None:
        """Expect nothing more of those that were taken back long ago."""
        gone = []
        for number, (_, until) in self._late.items():
            if until > now:
                self._effects.arm(until)
                break
            gone.append(number)
        for number in gone:
            del self._late[number]
