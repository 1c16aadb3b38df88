"""Requests of one instance of a server to clients: whom they are for, and which calls they hold up.

A legacy server's request does not say which call caused it. It is for the one party whose calls the
instance has in hand. Where there are several, it is held until one is left; nobody is ever asked
for another. What makes that rare: see `Instances`, and `FirstCalls`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import Json
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
    from collections.abc import Callable

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
# How long a child may go on with a call that was taken back, if it never says that it has ended.
LATE_SECONDS = 60.0
# So many requests of a child may be open, and so many of them held: each one costs all that follow.
MAXIMUM_OPEN_REQUESTS = 1000
MAXIMUM_HELD_REQUESTS = 100
GONE = "The client is gone"
TOO_MANY = "Too many requests are open"
NOT_KNOWN_WHOM = "It is not known whom this is for"


def can_be_asked(client: Client) -> bool:
    """Whether a server can ask a client something in the middle of a call of its."""
    return bool(ASKED_IN_CALLS.values() & client.capabilities.keys())


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


class HeldRequest:
    """A request of a child that may be for several parties."""

    __slots__ = ("deadline", "left", "message")

    def __init__(self, message: Message, left: set[Client], deadline: float) -> None:
        self.message = message
        self.left = left
        """The parties that have taken back a call that it may be of."""
        self.deadline = deadline
        """Until when it waits to be for one."""


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

    def forget(self) -> None:
        """Let every item have a first call again."""
        self._called.clear()

    def holds_back(self, call: Call, now: float) -> bool:
        """Whether a call has to wait for one of another party."""
        if self.until <= now:
            self.end()
        if self._alone is None or call.path != ("name",):
            return False
        if (call.method, call.original) in self._called:
            return False
        return call.client.party is not self._alone.client.party

    def note(self, call: Call, now: float) -> None:
        """A call of a client that can be asked is sent.

        Only what is on a list: of URIs, clients make up any number.
        """
        is_first = call.path == ("name",) and (call.method, call.original) not in self._called
        if is_first and self._alone is None:
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
        send_on: Callable[[], None],
        *,
        several: bool,
    ) -> None:
        """`send_on` sends the calls that waited for a request to be closed."""
        self._send_on = send_on
        self._connection = connection
        self._lifecycle = lifecycle
        self._clients = clients
        self._instances = instances
        self._several = several
        """Whether the proxy has several servers, so that a person must be shown which one asks."""
        self.pending: list[ServerRequest] = []
        """Those that clients have not answered."""
        self.held: list[HeldRequest] = []
        """Those that may be for several parties."""
        self.deferred: list[Message] = []
        """Requests that wait for the next call of the client that the child was started for."""
        self._first_calls = FirstCalls()
        self._late: dict[Client, dict[int, float]] = {}
        """{party: {id of a call that was taken back: until when the child may be at it}}."""

    @property
    def are_open(self) -> bool:
        """Whether a request is not answered yet."""
        return bool(self.pending or self.held)

    @property
    def _is_full(self) -> bool:
        """Whether so many requests are open that the child is to ask nothing more."""
        return len(self.pending) + len(self.held) + len(self.deferred) >= MAXIMUM_OPEN_REQUESTS

    # Whom a request is for

    def receive(self, message: Message) -> None:
        """Answer what the child asks, or ask the client that it works for."""
        if message.method == "ping":
            self._connection.send(result(message.id_text, "{}"))
        elif message.id is None:
            self.ask(None, message)
        elif self._is_full:
            self._refuse(message, INTERNAL_ERROR, TOO_MANY)
        elif not self._connection.calls and self._may_defer(message):
            self.deferred.append(message)
        else:
            self._note_asking(message.method or "")
            left = {*self._late}
            if self._ask_caller(message, left):
                return
            if len(self.held) >= MAXIMUM_HELD_REQUESTS:
                self._refuse(message, INTERNAL_ERROR, NOT_KNOWN_WHOM)
            else:
                effects = self._connection.effects
                deadline = effects.arm(effects.clock() + ANSWER_SECONDS)
                self.held.append(HeldRequest(message, left, deadline))

    def _note_asking(self, method: str) -> None:
        """A legacy child asks something in the middle of a call: its server is one that does."""
        calls = self._connection.calls.values()
        if calls and method in ASKED_IN_CALLS:
            shared = any(call.client.connection.audience is not None for call in calls)
            self._instances.ask(are_shared=shared)

    def _ask_caller(self, message: Message, left: set[Client]) -> bool:
        """Ask the client that a request is for; return False if that is not known.

        `left` are parties that it may be for although their calls were taken back.
        """
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
            self.ask(reached[-1].client, message)
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
        asked = Counter(one.client for one in self.pending)
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
        elif self._is_full:
            refusal = error(INTERNAL_ERROR, TOO_MANY)
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

        It never waits for one of its own party.
        """
        if self._lifecycle.era != LEGACY:
            return False
        now, party = self._connection.effects.clock(), call.client.party
        if self._instances.owners(self._connection.child):
            self._first_calls.forget()  # it asks: where parties share it, each call goes alone
        if self._first_calls.holds_back(call, now):
            return True
        if self.held:
            in_hand = self._connection.calls.values()
            return party not in {one.client.party for one in in_hand}
        in_calls = [one for one in self.pending if one.message.method in ASKED_IN_CALLS]
        foreign = [one for one in in_calls if one.client.party is not party]
        for asked in foreign:
            if asked.deadline == FOREVER:
                asked.deadline = self._connection.effects.arm(now + ANSWER_SECONDS)
        return bool(foreign)

    def sent(self, call: Call) -> None:
        """A call is sent."""
        if self._lifecycle.era == LEGACY and can_be_asked(call.client):
            effects = self._connection.effects
            self._first_calls.note(call, effects.clock())
            effects.arm(self._first_calls.until)

    def ended(self, call: Call) -> None:
        """A call is answered."""
        self._first_calls.ended(call)

    def taken_back(self, call: Call) -> None:
        """A call was taken back; what it asks meanwhile is for nobody else."""
        self._first_calls.ended(call)
        effects = self._connection.effects
        late = self._late.setdefault(call.client.party, {})
        late[call.number] = effects.arm(effects.clock() + LATE_SECONDS)
        for held in self.held:
            held.left.add(call.client.party)

    def answered_late(self, number: int) -> None:
        """The child has ended a call that was taken back, if this is the id of one."""
        for party, late in [*self._late.items()]:
            if late.pop(number, None) is not None and not late:
                del self._late[party]

    def is_late(self, party: Client) -> bool:
        """Whether the child may still be at a call that this party has taken back."""
        return party in self._late

    def give_up(self, now: float, *, awaited: bool) -> list[Call]:
        """Wait no longer for answers that are late, if calls are `awaited` that they hold up.

        Nor for a first call that is alone. Returns the calls of which one has asked something for
        too long, and nobody knows which.
        """
        if self._first_calls.until <= now:
            self._first_calls.end()
        self._connection.effects.arm(self._first_calls.until)
        for asked in [one for one in self.pending if one.deadline < FOREVER]:
            if not awaited:
                asked.deadline = FOREVER
            elif asked.deadline > now:
                self._connection.effects.arm(asked.deadline)
            else:
                self._end(asked)
                why = "The client did not answer while others waited"
                self._refuse(asked.message, REQUEST_TIMEOUT, why)
        self._drop_late(now)
        concerned: dict[Call, None] = {}
        for held in [*self.held]:
            if held.deadline > now:
                self._connection.effects.arm(held.deadline)
                continue
            self.held.remove(held)
            self._refuse(held.message, INTERNAL_ERROR, NOT_KNOWN_WHOM)
            concerned.update(dict.fromkeys(self._connection.calls.values()))
        return [*concerned]

    def _drop_late(self, now: float) -> None:
        """Expect nothing more of calls that were taken back long ago."""
        for party, late in [*self._late.items()]:
            self._late[party] = {number: until for number, until in late.items() if until > now}
            for until in self._late[party].values():
                self._connection.effects.arm(until)
            if not self._late[party]:
                del self._late[party]

    # What clients answer

    def _find(self, client: Client, number: int) -> ServerRequest | None:
        asked = [one for one in self.pending if one.client is client and one.number == number]
        return asked[0] if asked else None

    def reply(self, client: Client, number: int, message: Message) -> bool:
        """Pass a client's answer on to the child, if it is to one of these."""
        asked = self._find(client, number)
        if asked is None:
            return False
        self._close(asked)
        self._lifecycle.touch()
        self._connection.send(message.under(asked.message.id_text))
        return True

    def _close(self, asked: ServerRequest) -> None:
        """Forget a request: calls that waited for that may go."""
        self.pending.remove(asked)
        self._connection.effects.later(self._send_on)

    def progress(self, client: Client, number: int, message: Message) -> None:
        """Pass a client's progress on to the child, under the child's own token."""
        asked = self._find(client, number)
        if asked is not None and asked.token:
            params = message.json("params").owned({"progressToken": asked.token})
            self._connection.send(notification(PROGRESS, params.text))

    # Requests that end otherwise

    def _end(self, asked: ServerRequest, params: str = "{}") -> None:
        """Forget a request; its client need not answer it. `params` say more of that."""
        self._close(asked)
        cancelled = Json(params).owned({"requestId": str(asked.number)})
        asked.client.deliver(notification(CANCELLED, cancelled.text))

    def _refuse(self, message: Message, code: int, why: str) -> None:
        self._connection.send(failure(message.id_text, error(code, why)))

    def withdraw(self, message: Message) -> None:
        """The child no longer wants an answer to what it asked; the youngest has its id."""
        key = message.params.get("requestId")
        if not is_id(key):
            return
        self.deferred = [one for one in self.deferred if one.id != key]
        self.held = [one for one in self.held if one.message.id != key]
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
                if call.attended and not inability(call.client, asked.message)
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
        for asked in taken:
            self._close(asked)
        return taken

    def clear(self) -> None:
        """Take back everything that the child asked: it is gone."""
        self.deferred, self.held = [], []
        self._first_calls, self._late = FirstCalls(), {}
        for asked in [*self.pending]:
            self._end(asked)
