"""Requests of one instance of a server to clients: whom they are for, and which calls they hold up.

A legacy server's request does not say which call caused it. It is for the one party whose calls the
instance has in hand, among those who can be asked. Where there are several, it is held until one is
left; nobody is ever asked for another. What makes that rare: see Instances, and `FirstCalls`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import edited
from mcpagg_runtime.base.message import error, failure, is_id, notification, request, result
from mcpagg_runtime.base.protocol import (
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LEGACY,
    PROGRESS,
    REQUEST_TIMEOUT,
)
from mcpagg_runtime.serve.clients import attributed, inability
from mcpagg_runtime.serve.effects import FOREVER

if TYPE_CHECKING:
    from mcpagg_runtime.base.client import Client
    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.serve.clients import Clients
    from mcpagg_runtime.serve.connection import Call, Connection
    from mcpagg_runtime.serve.instances import Instances
    from mcpagg_runtime.serve.lifecycle import Lifecycle

# What a server may ask in the middle of a call; a list of roots is the client's as a whole.
ASKED_IN_CALLS = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation"}
# How long a client may take to answer from when a call of another one waits for the instance, and
# how long a request waits until it is known whom it is for.
ANSWER_SECONDS = 60.0
# How long the first call of a tool may keep first calls of other clients waiting.
ALONE_SECONDS = 0.25
# How long a child may go on with a call that was taken back before it notices that.
LATE_SECONDS = 1.0
GONE = "The client is gone"


class ServerRequest:
    """One request of a child on its way to a client."""

    __slots__ = ("client", "deadline", "message", "number", "token")

    def __init__(self, client: Client, message: Message) -> None:
        self.client = client
        self.message = message
        """As the child has sent it."""
        self.number = client.mint()
        """The id that the client knows it by."""
        given = message.json("params").part("_meta", "progressToken")
        self.token = given if given != "null" else ""
        """The JSON text of the child's progress token, "" for none."""
        self.deadline = FOREVER
        """Until when the client may answer, FOREVER while no call of another one waits for it."""


class FirstCalls:
    """The first call of each item in one life of a child: it goes alone, for a moment.

    So what the child asks first has one party that it is for. Other parties' calls of what has not
    been called yet wait until that one is answered, has asked, or its moment is over; once an item.
    """

    def __init__(self) -> None:
        self._called: set[tuple[str, str]] = set()
        """(method, the child's own name) of what has been called."""
        self._alone: Call | None = None
        self.until = FOREVER
        """When the moment of the one that is alone is over."""

    def holds_back(self, call: Call, now: float) -> bool:
        """Whether a call has to wait for one of another party."""
        if self.until <= now:
            self.end()
        if self._alone is None or (call.method, call.original) in self._called:
            return False
        return call.client.party is not self._alone.client.party

    def note(self, call: Call, now: float) -> None:
        """A call of a client that can be asked is sent."""
        if self._alone is None and (call.method, call.original) not in self._called:
            self._alone, self.until = call, now + ALONE_SECONDS

    def ended(self, call: Call) -> None:
        """A call has been answered, or taken back."""
        if call is self._alone:
            self.end()

    def end(self) -> None:
        """Let no call be alone any longer."""
        if self._alone is not None:
            self._called.add((self._alone.method, self._alone.original))
        self._alone, self.until = None, FOREVER


class ServerRequests:
    """What one child asks clients, oldest first, and what they answer."""

    def __init__(
        self,
        connection: Connection,
        lifecycle: Lifecycle,
        clients: Clients,
        instances: Instances,
        *,
        several: bool,
    ) -> None:
        self._connection = connection
        self._lifecycle = lifecycle
        self._clients = clients
        self._instances = instances
        self._several = several
        """Whether the proxy has several servers, so that a person must be shown which one asks."""
        self.pending: list[ServerRequest] = []
        """Those that clients have not answered."""
        self.held: dict[Message, float] = {}
        """{request that may be for several parties: until when it waits to be for one}."""
        self.deferred: list[Message] = []
        """Requests that wait for the next call of the client that the child was started for."""
        self._first_calls = FirstCalls()
        self._late: dict[Client, float] = {}
        """{party whose call was taken back: until when the child may not have noticed that}."""

    @property
    def are_open(self) -> bool:
        """Whether a request is not answered yet."""
        return bool(self.pending or self.held)

    # Whom a request is for

    def receive(self, message: Message) -> None:
        """Answer what the child asks, or ask the client that it works for."""
        if message.method == "ping":
            self._connection.send(result(message.id_text, "{}"))
        elif not self._connection.calls and self._may_defer(message):
            self.deferred.append(message)
        elif message.id is None:
            self.ask(None, message)
        elif not self._ask_caller(message):
            deadline = self._connection.effects.clock() + ANSWER_SECONDS
            self.held[message] = self._connection.effects.arm(deadline)

    def _ask_caller(self, message: Message) -> bool:
        """Ask the client that a request is for; return False if that is not known."""
        calls = [*self._connection.calls.values()]
        able = [call for call in calls if not inability(call.client, message)]
        if not able:
            self.ask(calls[-1].client if calls else self._owner(), message)
            return True
        candidates = self._at_work(able) or able
        now = self._connection.effects.clock()
        parties = {party for party, until in self._late.items() if until > now}
        parties.update([call.client.party for call in candidates])
        if len(parties) > 1:
            return False
        reached = [call for call in candidates if call.is_attended]
        if reached:
            # Its party is certain; if that made several requests, the youngest one carries it.
            self.ask(reached[-1].client, message)
        else:
            self._refuse(message, INTERNAL_ERROR, GONE)
        return True

    def _at_work(self, calls: list[Call]) -> list[Call]:
        """Return those calls that do not wait for an answer of their client."""
        asked = [one.client for one in self.pending]
        counts = {client: asked.count(client) for client in asked}
        own = [call.client for call in calls]
        return [call for call in calls if own.count(call.client) > counts.get(call.client, 0)]

    def _owner(self) -> Client | None:
        """Return the client that a request outside of calls is for, None for nobody."""
        starter = self._lifecycle.client
        if starter in self._clients:
            return starter
        owners = self._instances.owners(self._connection.child)
        return owners[0] if len(owners) == 1 and owners[0] in self._clients else None

    def settle(self) -> None:
        """Ask what was held as soon as it is known of whom."""
        for message in [*self.held]:
            if message in self.held and self._ask_caller(message):
                del self.held[message]

    def _may_defer(self, message: Message) -> bool:
        """Whether a request can wait for the next call of the client that the child works for.

        A modern client can be asked in the middle of a call alone; servers ask for its roots
        before there is one.
        """
        starter = self._lifecycle.client
        started = starter is not None and starter.connection in self._clients
        return started and starter not in self._clients and message.method == "roots/list"

    def ask_deferred(self, client: Client) -> None:
        """Ask a client that calls the child what the child wanted to know before, if anything."""
        starter = self._lifecycle.client
        if not self.deferred or starter is None or starter.connection is not client.connection:
            return
        deferred, self.deferred = self.deferred, []
        for message in deferred:
            self.ask(client, message)

    def ask(self, client: Client | None, message: Message) -> None:
        """Pass the child's request on to a client, or refuse it where that cannot be."""
        method = message.method or ""
        if message.id is None:
            refusal = error(INVALID_REQUEST, "Invalid request: an id is a string or an integer")
        elif client is None:
            refusal = error(INTERNAL_ERROR, "No client's call is under way")
        elif not client.may_answer:
            refusal = error(INTERNAL_ERROR, GONE)
        else:
            refusal = inability(client, message)
        if client is None or refusal:
            self._connection.send(failure(message.id_text or "null", refusal))
            return
        if self._lifecycle.era == LEGACY:
            self._instances.asked(self._connection.child, method, client.party)
            self._first_calls.end()
        asked = ServerRequest(client, message)
        self.pending.append(asked)
        token = {"progressToken": str(asked.number)} if asked.token else {}
        name = self._connection.name
        params = attributed(method, message.json("params"), name, self._several, token)
        client.deliver(request(asked.number, method, params))

    # Which calls have to wait

    def holds_back(self, call: Call) -> bool:
        """Whether a call has to wait, so that it stays known whom a request is for.

        Only a call of a client that can be asked waits, and never for its own party's.
        """
        client = call.client
        if not self._could_ask(client):
            return False
        now = self._connection.effects.clock()
        if self._first_calls.holds_back(call, now):
            return True
        in_hand = {one.client.party for one in self._connection.calls.values()}
        if self.held:
            return client.party not in in_hand
        foreign = [one for one in self.pending if one.client.party is not client.party]
        for asked in foreign:
            if asked.deadline == FOREVER:
                asked.deadline = self._connection.effects.arm(now + ANSWER_SECONDS)
        return bool(foreign)

    def sent(self, call: Call) -> None:
        """A call is sent."""
        if self._could_ask(call.client):
            effects = self._connection.effects
            self._first_calls.note(call, effects.clock())
            effects.arm(self._first_calls.until)

    def ended(self, call: Call) -> None:
        """A call is answered."""
        self._first_calls.ended(call)

    def taken_back(self, call: Call) -> None:
        """A call was taken back; what it asks meanwhile is for nobody else."""
        self._first_calls.ended(call)
        if self._could_ask(call.client):
            effects = self._connection.effects
            self._late[call.client.party] = effects.arm(effects.clock() + LATE_SECONDS)

    def _could_ask(self, client: Client) -> bool:
        """Whether the child could ask a client something in the middle of a call of its."""
        able = ASKED_IN_CALLS.values() & client.capabilities.keys()
        return bool(able) and self._lifecycle.era == LEGACY

    def give_up(self, now: float, *, awaited: bool) -> list[Call]:
        """Wait no longer for answers that are late, if calls are `awaited` that they hold up.

        Returns the calls of which one has asked something for too long, and nobody knows which.
        """
        for asked in [one for one in self.pending if one.deadline < FOREVER]:
            if not awaited:
                asked.deadline = FOREVER
            elif asked.deadline > now:
                self._connection.effects.arm(asked.deadline)
            else:
                self._end(asked)
                why = "The client did not answer while others waited"
                self._refuse(asked.message, REQUEST_TIMEOUT, why)
        self._late = {party: until for party, until in self._late.items() if until > now}
        concerned: dict[Call, None] = {}
        for message, deadline in [*self.held.items()]:
            if deadline <= now:
                del self.held[message]
                self._refuse(message, INTERNAL_ERROR, "It is not known whom this is for")
                calls = self._connection.calls.values()
                concerned.update({c: None for c in calls if not inability(c.client, message)})
            else:
                self._connection.effects.arm(deadline)
        return [*concerned]

    # What clients answer

    def _find(self, client: Client, number: int) -> ServerRequest | None:
        asked = [one for one in self.pending if one.client is client and one.number == number]
        return asked[0] if asked else None

    def reply(self, client: Client, number: int, message: Message) -> bool:
        """Pass a client's answer on to the child, if it is to one of these."""
        asked = self._find(client, number)
        if asked is None:
            return False
        self.pending.remove(asked)
        self._lifecycle.touch()
        self._connection.send(message.under(asked.message.id_text))
        return True

    def progress(self, client: Client, number: int, message: Message) -> None:
        """Pass a client's progress on to the child, under the child's own token."""
        asked = self._find(client, number)
        if asked is not None and asked.token:
            params = message.json("params").edited(add={"progressToken": asked.token})
            self._connection.send(notification(PROGRESS, params.text))

    # Requests that end otherwise

    def _end(self, asked: ServerRequest, params: str = "{}") -> None:
        """Forget a request; its client need not answer it. `params` say more of that."""
        self.pending.remove(asked)
        cancelled = edited(params, add={"requestId": str(asked.number)})
        asked.client.deliver(notification(CANCELLED, cancelled))

    def _refuse(self, message: Message, code: int, why: str) -> None:
        self._connection.send(failure(message.id_text, error(code, why)))

    def withdraw(self, message: Message) -> None:
        """The child no longer wants an answer to what it asked; the youngest has its id."""
        key = message.params.get("requestId")
        if not is_id(key):
            return
        self.deferred = [one for one in self.deferred if one.id != key]
        self.held = {one: until for one, until in self.held.items() if one.id != key}
        found = [asked for asked in self.pending if asked.message.id == key]
        if found:
            self._end(found[-1], message.params_text)

    def hand_over(self, client: Client) -> None:
        """A request of a modern client has ended: what it was asked is of another one of its party.

        For a call does not end before what it asks is answered.
        """
        for asked in self._take_from(client):
            others = [
                call.client
                for call in self._connection.calls.values()
                if call.client.party is client.party
                if call.is_attended and not inability(call.client, asked.message)
            ]
            if others:
                self.ask(others[-1], asked.message)
            else:
                self._refuse(asked.message, INTERNAL_ERROR, GONE)

    def refuse_for(self, client: Client) -> None:
        """Answer what a client was asked that is gone, or will send no more answers."""
        for asked in self._take_from(client):
            self._refuse(asked.message, INTERNAL_ERROR, GONE)

    def _take_from(self, client: Client) -> list[ServerRequest]:
        taken = [asked for asked in self.pending if asked.client is client]
        self.pending = [asked for asked in self.pending if asked.client is not client]
        return taken

    def clear(self) -> None:
        """Take back everything that the child asked: it is gone."""
        self.deferred, self.held = [], {}
        self._first_calls, self._late = FirstCalls(), {}
        for asked in [*self.pending]:
            self._end(asked)
