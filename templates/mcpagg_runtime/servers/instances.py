"""The instances of one server: processes, or sessions with one behind a URL.

All clients share one instance, in the era that they speak where the server speaks both, as long as
it asks them nothing. A request of a legacy server does not say which call caused it. So once it has
asked something in the middle of a call, each client that can be asked gets an instance of its own,
from its next call on; the first one stays with the client that was asked. All others share one that
learns from its handshake that it can ask nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.protocol import LEGACY, MODERN
from mcpagg_runtime.servers.child import Child
from mcpagg_runtime.servers.lifecycle import DOWN, QUEUED, READY, STARTING, retry_pause
from mcpagg_runtime.servers.server_requests import ASKED_IN_CALLS, can_be_asked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mcpagg_runtime.clients.answers import Answers
    from mcpagg_runtime.clients.client import Clients
    from mcpagg_runtime.lists.uris import UriOwners
    from mcpagg_runtime.servers.calls import Call
    from mcpagg_runtime.servers.effects import Effects, Peer

# So many instances a server may have besides the shared ones; further clients share these.
MAXIMUM_INSTANCES = 32
# One that no client has any more is kept so long for the next request without a session.
SPARE_SECONDS = 60.0
MAXIMUM_STARTING = 8
# Of these, one is kept for a child that a call waits for: it need not wait for others to start.
MAXIMUM_IN_BACKGROUND = 7

NOT_SHARED = (
    "asks clients in the middle of calls: each client that it may ask has an instance of its own "
    "from its next call on, which shares no state with the others"
)


class Instances:
    """All instances of one server, and which one a client's calls are for."""

    def __init__(
        self, name: str, answers: Answers, effects: Effects, clients: Clients, origins: UriOwners
    ) -> None:
        facts = answers.plan.children.get(name, {})
        self.name = name
        self._effects = effects
        self._parts = answers, effects, clients, origins
        self._speaks_both = "handshake" in facts
        # Who has tools for clients with capabilities has them to ask such clients something.
        self._asks = bool(facts.get("conditional"))
        """Whether the server asks clients something in the middle of calls."""
        self.said: dict[str, str] = {}
        """What was said last of each list, by whichever instance."""
        self.main = Child(name, self, *self._parts)
        """The one that stands for the server where no client is in question."""
        self._shared = {self.main.era: self.main}
        """{era of clients: the instance that they share}."""
        self.own: dict[Client, Child] = {}
        """{party: the instance that it was given}; a party has no other one then."""
        self._silent: Child | None = None
        """The one of the clients that can be asked nothing, None as long as they need none."""
        self._users: set[Client] = set()
        """The parties whose calls the shared legacy instance has had."""
        self._is_used = False
        """Whether one of them was a session that has ended: its state may be there still."""
        self._failures = 0
        """How many starts in a row have failed."""
        self._failed: tuple[Child, float] | None = None
        """The instance whose start failed last, and until when no further one is started."""
        self._spare: dict[Child, float] = {}
        """{instance that no client has any more: when it is ended}."""

    def __iter__(self) -> Iterator[Child]:
        """All instances."""
        silent = [] if self._silent is None else [self._silent]
        children = [*self._shared.values(), *silent, *self.own.values(), *self._spare]
        return iter(dict.fromkeys(children))

    @property
    def state(self) -> str:
        """The state of the shared instance that is furthest in its life."""
        states = [child.state for child in self._shared.values()]
        return next((s for s in (READY, STARTING, QUEUED, DOWN) if s in states), self.main.state)

    @property
    def are_down(self) -> bool:
        """Whether a shared one is down, and none is up or on its way up."""
        up = any(child.state in (READY, STARTING, QUEUED) for child in self)
        return not up and any(child.state == DOWN for child in self._shared.values())

    def shares(self, child: Peer) -> bool:
        """Whether an instance is one that all clients share, or was."""
        return any(child is shared for shared in self._shared.values())

    # Which one a client has

    def shared(self, client: Client) -> Child:
        """Return the instance that clients share who speak as this one does."""
        if not self._speaks_both:
            return self.main
        if client.era not in self._shared:
            self._shared[client.era] = Child(self.name, self, *self._parts, era=client.era)
        return self._shared[client.era]

    def of(self, client: Client) -> Child:
        """Return the instance whose notifications a client gets."""
        return self.own.get(client.party) or self.shared(client)

    def serving(self, client: Client) -> Child:
        """Return the instance that the next call of a client is for."""
        shared = self.shared(client) if self._speaks_both else self.main
        party = client.party
        if shared.lifecycle.era == MODERN:
            return shared
        if party in self.own:
            return self.own[party]
        if not self._asks or self._is_free_for(party) or shared.lifecycle.is_down_for_good:
            self._users.add(party)
            return shared
        if not can_be_asked(client):
            self.own[party] = self._unasking()
        elif (failed := self._lately_failed()) is not None:
            return failed
        else:
            self.own[party] = self._another(party)
        return self.own[party]

    def _lately_failed(self) -> Child | None:
        """Return the instance that says why none is started now, None if one may be."""
        if self._failed is None or self._failed[1] <= self._effects.clock():
            return None
        child = self._failed[0]
        return child if child.lifecycle.is_down_for_good else None

    def _is_free_for(self, party: Client) -> bool:
        """Whether nobody else has used the shared instance."""
        return not self._is_used and self._users <= {party}

    def _another(self, party: Client) -> Child:
        """Return an instance for a party alone, or one of the few that there are."""
        spare = next((child for child in self._spare if child.lifecycle.is_ready), None)
        if spare is not None and party.is_modern:
            del self._spare[spare]
            return spare
        private = set(self.own.values()) - {*self._shared.values(), self._silent}
        if len(private) + len(self._spare) < MAXIMUM_INSTANCES:
            return Child(self.name, self, *self._parts, era=LEGACY)
        owners = list(self.own.values())
        return min(sorted(private, key=owners.index), key=owners.count)

    def _unasking(self) -> Child:
        """Return the instance of all those who can be asked nothing."""
        if self._silent is None:
            nobody = Client("spec")
            self._silent = Child(self.name, self, *self._parts, era=LEGACY, audience=nobody)
        return self._silent

    def owners(self, child: Peer) -> list[Client]:
        """Return the parties that an instance was given to."""
        return [party for party, own in self.own.items() if own is child]

    def sole_user(self, child: Peer) -> Client | None:
        """Return the party that alone has ever used an instance and is here, None for none."""
        owners = self.owners(child)
        if len(owners) != 1:
            return None
        return owners[0] if not self.shares(child) or self._is_free_for(owners[0]) else None

    def asked(self, child: Peer, method: str, party: Client) -> None:
        """A legacy instance asks a party something in a call: it stays with that party."""
        if method in ASKED_IN_CALLS and party not in self.own and not self.owners(child):
            self.own[party] = next(one for one in self if one is child)

    def note_asking(self, method: str, calls: Collection[Call]) -> None:
        """A legacy instance asks something while it has these calls in flight.

        Once that is in the middle of a call, clients have instances of their own from then on.
        """
        if self._asks or not calls or method not in ASKED_IN_CALLS:
            return
        self._asks = True
        if any(call.client.connection.audience is not None for call in calls):
            self.main.connection.say(NOT_SHARED)

    # What becomes of starts

    def failed(self, child: Child) -> None:
        """An instance could not be started: each client would have another one tried."""
        if not self.shares(child):
            self._failures += 1
            self._failed = child, self._effects.clock() + retry_pause(self._failures)

    def succeeded(self) -> None:
        """An instance was started."""
        self._failures, self._failed = 0, None

    # What ends

    def left(self, client: Client) -> None:
        """A client is gone, and with it the instance that was its own."""
        if client.party is not client:
            return
        if client in self._users:
            self._users.remove(client)
            self._is_used |= not client.is_modern
        child = self.own.pop(client, None)
        kept = (self._silent, *self._shared.values())
        if child is None or child in kept or self.owners(child):
            return
        # What a call that was taken back asks yet is for nobody else.
        if (
            client.is_modern
            and child.lifecycle.is_ready
            and client not in child.requests.late.parties()
        ):
            self._spare[child] = self._effects.arm(self._effects.clock() + SPARE_SECONDS)
        else:
            child.retire()

    def tick(self, now: float) -> None:
        """Do what is due at this time, in all instances."""
        for child in self:
            child.tick(now)
        for child, due in [*self._spare.items()]:
            if due <= now or not child.lifecycle.is_ready:
                del self._spare[child]
                child.retire()
            else:
                self._effects.arm(due)


def admit(children: list[Child]) -> None:
    """Start queued children, those that a call waits for first, a few at a time.

    One that may take for ever to start does not count: nobody is to wait for that.
    """
    queued = [child for child in children if child.state == QUEUED]
    starting = sum(child.state == STARTING and child.lifecycle.is_timed for child in children)
    for child in sorted(queued, key=lambda child: not child.calls.any_waits):
        limit = MAXIMUM_STARTING if child.calls.any_waits else MAXIMUM_IN_BACKGROUND
        if starting >= limit:
            return
        starting += 1
        child.lifecycle.start()
