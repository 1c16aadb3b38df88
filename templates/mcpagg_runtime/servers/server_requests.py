"""Requests of one instance of a server to clients: whom they are for, and which calls they hold up.

A legacy server's request does not say which call caused it. It is for the one party whose calls the
instance has in flight. Where there are several, it is held until one is left; nobody is ever asked
for another. What makes that rare: see `Instances`, and `FirstCalls`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.message import error, failure, is_id, result
from mcpagg_runtime.messages.protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LEGACY,
    REQUEST_TIMEOUT,
)
from mcpagg_runtime.servers.attribution import FirstCalls, LateCalls
from mcpagg_runtime.servers.open_requests import (
    ANSWER_SECONDS,
    DeferredRequests,
    OpenRequests,
    inability,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpagg_runtime.clients.client import Client, Clients
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.servers.calls import Call
    from mcpagg_runtime.servers.connection import Connection
    from mcpagg_runtime.servers.instances import Instances
    from mcpagg_runtime.servers.lifecycle import Lifecycle

# What a server may ask in the middle of a call; a list of roots is the client's as a whole.
ASKED_IN_CALLS = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation"}
# So many requests of a child may be open, and so many of them held: each one costs all that follow.
MAXIMUM_OPEN_REQUESTS = 1000
MAXIMUM_HELD_REQUESTS = 100
GONE = "The client is gone"
TOO_MANY = "Too many requests are open"
NOT_KNOWN_WHOM = "It is not known whom this is for"


def can_be_asked(client: Client) -> bool:
    """Whether a server can ask a client something in the middle of a call of its."""
    return bool(ASKED_IN_CALLS.values() & client.capabilities.keys())


class HeldRequest:
    """A request of a child that may be for several parties."""

    __slots__ = ("deadline", "left", "message")

    def __init__(self, message: Message, left: set[Client], deadline: float) -> None:
        self.message = message
        self.left = left
        """The parties that have taken back a call that it may be of."""
        self.deadline = deadline
        """Until when it waits to be for one."""


class ServerRequests:
    """What one child asks clients, oldest first, and what they answer."""

    def __init__(
        self,
        connection: Connection,
        lifecycle: Lifecycle,
        clients: Clients,
        instances: Instances,
        send_on: Callable[[], None],
    ) -> None:
        """For `send_on` see `OpenRequests`."""
        self._connection = connection
        self._lifecycle = lifecycle
        self._clients = clients
        self._instances = instances
        self.open = OpenRequests(connection, lifecycle, send_on, clients.speakers)
        self.held: list[HeldRequest] = []
        """Those that may be for several parties."""
        self.deferred = DeferredRequests(lifecycle, clients)
        self.first_calls = FirstCalls()
        self.late = LateCalls(connection.effects)

    @property
    def are_open(self) -> bool:
        """Whether a request is not answered yet."""
        return bool(self.open.pending or self.held)

    @property
    def _is_full(self) -> bool:
        """Whether so many requests are open that the child is to ask nothing more."""
        asked = len(self.open.pending) + len(self.held) + len(self.deferred.waiting)
        return asked >= MAXIMUM_OPEN_REQUESTS

    # Whom a request is for

    def receive(self, message: Message) -> None:
        """Answer what the child asks, or ask the client that it works for."""
        if message.method == "ping":
            self._connection.send(result(message.id_text, "{}"))
        elif message.id is None:
            self.ask(None, message)
        elif self._is_full:
            self._refuse(message, INTERNAL_ERROR, TOO_MANY)
        elif not self._connection.calls and self.deferred.takes(message):
            pass
        else:
            self._instances.note_asking(message.method or "", self._connection.calls.values())
            left = self.late.parties()
            if self._ask_caller(message, left):
                return
            if len(self.held) >= MAXIMUM_HELD_REQUESTS:
                self._refuse(message, INTERNAL_ERROR, NOT_KNOWN_WHOM)
            else:
                effects = self._connection.effects
                deadline = effects.arm(effects.clock() + ANSWER_SECONDS)
                self.held.append(HeldRequest(message, left, deadline))

    def _ask_caller(self, message: Message, left: set[Client]) -> bool:
        """Ask the client that a request is for; return False if that is not known; see `late`."""
        parties = {*left}
        calls = [*self._connection.calls.values()]
        if not calls:
            owner = self._owner()
            if owner is not None and not parties <= {owner.party}:
                owner = None
            self.ask(owner, message)
            return True
        candidates = self._at_work(calls) or calls
        parties.update([call.client.party for call in candidates])
        if len(parties) > 1:
            return self._is_for_nobody(message, parties)
        # Its party is certain; of several requests of that, the youngest that can carries it.
        clients = {call.client for call in calls}
        unable = {client for client in clients if inability(client, message)}
        able = [call for call in candidates if call.client not in unable]
        able = able or [call for call in calls if call.client not in unable]
        reached = [call for call in able or candidates if call.attended]
        if reached:
            self.ask(reached[-1].client, message, reached[-1].identifier)
        else:
            self._refuse(message, INTERNAL_ERROR, GONE)
        return True

    def _is_for_nobody(self, message: Message, parties: set[Client]) -> bool:
        """Refuse a request that none of these parties is to be asked; return whether that is so."""
        refusals = [inability(party, message) for party in parties]
        if all(refusals):
            self._connection.send(failure(message.id_text, refusals[0]))
        elif message.method not in ASKED_IN_CALLS:
            # It is not about a call: no wait shows whom it is for.
            self._refuse(message, INTERNAL_ERROR, NOT_KNOWN_WHOM)
        else:
            return False
        return True

    def _at_work(self, calls: list[Call]) -> list[Call]:
        """Return those calls that do not wait for an answer of their client."""
        asked = Counter(one.client for one in self.open.pending)
        own = Counter(call.client for call in calls)
        return [call for call in calls if own[call.client] > asked[call.client]]

    def _owner(self) -> Client | None:
        """Return the client that a request outside of calls is for, None for nobody."""
        starter = self._lifecycle.client
        if starter in self._clients:
            return starter
        owner = self._instances.sole_user(self._connection.child)
        return owner if owner in self._clients else None

    def settle(self) -> None:
        """Ask what was held as soon as it is known of whom."""
        held, self.held = self.held, []
        for one in held:
            if not self._ask_caller(one.message, one.left):
                self.held.append(one)

    def ask_deferred(self, client: Client) -> None:
        """Ask a client that calls the child what the child wanted to know before, if anything."""
        for message in self.deferred.taken_for(client):
            self.ask(client, message)

    def ask(self, client: Client | None, message: Message, about: str = "") -> None:
        """Pass the child's request on to a client, or refuse it where that cannot be.

        `about` is the client's id of the call that it is about, as JSON text, if that is known.
        """
        method = message.method or ""
        if message.id is None:
            refusal = error(INVALID_REQUEST, "Invalid request: an id is a string or an integer")
        elif client is None:
            refusal = error(INTERNAL_ERROR, "No client's call is under way")
        elif not client.may_answer:
            refusal = error(INTERNAL_ERROR, GONE)
        elif self._is_full:
            refusal = error(INTERNAL_ERROR, TOO_MANY)
        else:
            refusal = inability(client, message)
        if client is None or refusal:
            self._connection.send(failure(message.id_text or "null", refusal))
            return
        if self._lifecycle.era == LEGACY:
            self._instances.asked(self._connection.child, method, client.party)
            self.first_calls.end()
        self.open.ask(client, message, about)

    # Which calls have to wait

    def holds_back(self, call: Call) -> bool:
        """Whether a call has to wait, so that it stays known whom a legacy child's request is for.

        It never waits for one of its own party.
        """
        if self._instances.own and self._instances.owners(self._connection.child):
            self.first_calls.forget()  # it asks: where parties share it, each call goes alone
        if not (self.first_calls.alone or self.held or self.open.pending):
            return False
        now, party = self._connection.effects.clock(), call.client.party
        if self.first_calls.holds_back(call, now):
            return True
        if self.held:
            in_flight = self._connection.calls.values()
            return party not in {one.client.party for one in in_flight}
        in_calls = [one for one in self.open.pending if one.message.method in ASKED_IN_CALLS]
        foreign = [one for one in in_calls if one.client.party is not party]
        self.open.limit(foreign, now)
        return bool(foreign)

    def sent(self, call: Call) -> None:
        """A call is sent."""
        if self._lifecycle.era == LEGACY and can_be_asked(call.client):
            effects = self._connection.effects
            self.first_calls.note(call, effects.clock())
            effects.arm(self.first_calls.until)

    def taken_back(self, call: Call) -> None:
        """A call was taken back; what it asks meanwhile is for nobody else."""
        self.first_calls.ended(call)
        self.late.add(call)
        for held in self.held:
            held.left.add(call.client.party)

    def give_up(self, now: float, *, awaited: bool) -> list[Call]:
        """Wait no longer for answers that are late, if calls are `awaited` that they hold up.

        Nor for a first call that is alone. Returns the calls of which one has asked something for
        too long, and nobody knows which.
        """
        self._connection.effects.arm(self.first_calls.expire(now))
        for asked in self.open.overdue(now, awaited=awaited):
            self.open.end(asked)
            why = "The client did not answer while others waited"
            self._refuse(asked.message, REQUEST_TIMEOUT, why)
        self.late.expire(now)
        concerned: dict[Call, None] = {}
        for held in [*self.held]:
            if held.deadline > now:
                self._connection.effects.arm(held.deadline)
                continue
            self.held.remove(held)
            self._refuse(held.message, INTERNAL_ERROR, NOT_KNOWN_WHOM)
            concerned.update(dict.fromkeys(self._connection.calls.values()))
        return [*concerned]

    # Requests that end otherwise

    def _refuse(self, message: Message, code: int, why: str) -> None:
        self._connection.send(failure(message.id_text, error(code, why)))

    def withdraw(self, message: Message) -> None:
        """The child no longer wants an answer to what it asked; the youngest has its id."""
        key = message.params.get("requestId")
        if not is_id(key):
            return
        self.deferred.withdraw(key)
        self.held = [one for one in self.held if one.message.id != key]
        found = [asked for asked in self.open.pending if asked.message.id == key]
        if found:
            self.open.end(found[-1], message.params_text)

    def hand_over(self, client: Client) -> None:
        """A request of a modern client has ended: what it was asked is of another one of its party.

        For a call does not end before what it asks is answered.
        """
        for asked in self.open.take_from(client):
            others = [
                call.client
                for call in self._connection.calls.values()
                if call.client.party is client.party
                if call.attended and not inability(call.client, asked.message)
            ]
            if others:
                self.ask(others[-1], asked.message)
            else:
                self._refuse(asked.message, INTERNAL_ERROR, GONE)

    def refuse_for(self, client: Client) -> None:
        """Answer what a client was asked that is gone, or will send no more answers."""
        for asked in self.open.take_from(client):
            self._refuse(asked.message, INTERNAL_ERROR, GONE)

    def clear(self) -> None:
        """Take back everything that the child asked: it is gone."""
        self.deferred.clear()
        self.held = []
        self.first_calls, self.late = FirstCalls(), LateCalls(self._connection.effects)
        for asked in [*self.open.pending]:
            self.open.end(asked)
