"""Requests of one child to clients: whom they are for, and whose turn it is.

A legacy server's request does not say which call caused it. A server that makes such requests
therefore gets the calls of one client at a time. A call that is waiting for that client's answer
does not block others of the same connection; those of other connections it blocks for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import edited
from mcpagg_runtime.base.message import error, failure, is_id, notification, request, result
from mcpagg_runtime.base.protocol import (
    CANCELLED,
    LEGACY,
    METHOD_NOT_FOUND,
    PROGRESS,
    REQUEST_TIMEOUT,
)
from mcpagg_runtime.serve.clients import attributed, inability
from mcpagg_runtime.serve.effects import FOREVER

if TYPE_CHECKING:
    from mcpagg_runtime.base.client import Client
    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.serve.clients import Clients
    from mcpagg_runtime.serve.connection import Connection
    from mcpagg_runtime.serve.lifecycle import Lifecycle

# How long a client may take to answer from when a call of another one waits for the server.
ANSWER_SECONDS = 60.0
# Those that are about one call; a list of roots is the client's as a whole.
ABOUT_A_CALL = ("sampling/createMessage", "elicitation/create")
GONE = "The client is gone"


class ServerRequest:
    """One request of a child on its way to a client."""

    __slots__ = ("client", "deadline", "message", "number", "reply", "token")

    def __init__(self, client: Client, message: Message) -> None:
        self.client = client
        self.message = message
        """As the child has sent it."""
        self.number = client.mint()
        """The id that the client knows it by."""
        given = message.json("params").part("_meta", "progressToken")
        self.token = given if given != "null" else ""
        """The JSON text of the child's progress token, "" for none."""
        self.reply: Message | None = None
        """What the client answers, None before it does."""
        self.deadline = FOREVER
        """Until when the client may answer, FOREVER while no call of another one waits for it."""


class ServerRequests:
    """What one child asks clients, oldest first, and what they answer."""

    def __init__(
        self,
        connection: Connection,
        lifecycle: Lifecycle,
        clients: Clients,
        *,
        asks: bool,
        several: bool,
    ) -> None:
        self._connection = connection
        self._lifecycle = lifecycle
        self._clients = clients
        self.asks = asks
        """Whether the child sends clients requests in the middle of calls."""
        self._several = several
        """Whether the proxy has several servers, so that a person must be shown which one asks."""
        self.pending: list[ServerRequest] = []
        """Those that clients have not answered, or whose answer the child has not got."""
        self.deferred: list[Message] = []
        """Requests that wait for the next call of the client that the child was started for."""

    def receive(self, message: Message) -> None:
        """Answer what the child asks, or ask the client that it works for."""
        if message.method == "ping":
            self._connection.send(result(message.id_text, "{}"))
            return
        if message.method in ABOUT_A_CALL:
            self.asks = True
        client = self._client_for(message.method or "")
        if client is None and self._may_defer(message):
            self.deferred.append(message)
        else:
            self.ask(client, message)

    def _may_defer(self, message: Message) -> bool:
        """Whether a request can wait for the next call of the client that the child works for.

        A modern client can be asked in the middle of a call alone; servers ask for its roots
        before there is one.
        """
        starter = self._lifecycle.client
        started = starter is not None and starter.connection in self._clients
        return started and not self._connection.calls and message.method == "roots/list"

    def ask_deferred(self, client: Client) -> bool:
        """Ask a client that calls the child what the child wanted to know before, if anything."""
        starter = self._lifecycle.client
        if not self.deferred or starter is None or starter.connection is not client.connection:
            return False
        deferred, self.deferred = self.deferred, []
        for message in deferred:
            self.ask(client, message)
        return True

    def ask(self, client: Client | None, message: Message) -> None:
        """Pass the child's request on to a client, or refuse it where that cannot be."""
        refusal = error(METHOD_NOT_FOUND, f"Method not found: {message.method}")
        if client is not None and message.id is not None:
            refusal = inability(client, message)
        if client is None or refusal:
            self._connection.send(failure(message.id_text or "null", refusal))
            return
        asked = ServerRequest(client, message)
        if not client.may_answer:
            self._refuse(asked, METHOD_NOT_FOUND, GONE)
            return
        self.pending.append(asked)
        method, server = message.method or "", self._connection.name
        token = {"progressToken": str(asked.number)} if asked.token else {}
        params = attributed(method, message.json("params"), server, self._several, token)
        client.deliver(request(asked.number, method, params))

    def _client_for(self, method: str) -> Client | None:
        """Return the client that a request is for: who calls the child, or else who started it.

        Where it could be for several, it is for nobody: an answer must never reach another one's
        call. Roots are those of the connection, whichever of its requests asks.
        """
        callers = list(dict.fromkeys([call.client for call in self._connection.calls.values()]))
        if not callers:
            starter = self._lifecycle.client
            return starter if starter in self._clients else None
        if any(client.connection is not callers[0].connection for client in callers):
            return None
        at_work = self._at_work()
        certain = len(at_work) == 1 or len(callers) == 1
        chosen = [client for client in callers if client in at_work] or callers
        return chosen[-1] if certain or method not in ABOUT_A_CALL else None

    # Turns

    @property
    def _takes_turns(self) -> bool:
        """Whether the child gets the calls of one client at a time; a modern one says for which."""
        return self.asks and self._lifecycle.era == LEGACY

    def _at_work(self) -> set[Client]:
        """Return the clients whose calls the child works at: it waits for no answer of theirs."""
        callers = {call.client for call in self._connection.calls.values()}
        return callers - {asked.client for asked in self.pending}

    def blocks(self, client: Client) -> bool:
        """Whether a client's call has to wait until the child has done with another client's."""
        if not self._takes_turns:
            return False
        calls = self._connection.calls.values()
        foreign = any(call.client.connection is not client.connection for call in calls)
        return foreign or bool(self._at_work() - {client})

    def hurry(self, client: Client) -> None:
        """A call of a client waits: others have only so long to answer what they were asked."""
        effects = self._connection.effects
        for asked in self.pending:
            if asked.client.connection is not client.connection and asked.deadline == FOREVER:
                asked.deadline = effects.clock() + ANSWER_SECONDS
            effects.arm(asked.deadline)

    def give_up(self, now: float, *, awaited: bool) -> None:
        """Wait no longer for answers that are late, if calls are `awaited` that they hold up."""
        for asked in [one for one in self.pending if one.deadline < FOREVER]:
            if not awaited or asked.reply is not None:
                asked.deadline = FOREVER
            elif asked.deadline > now:
                self._connection.effects.arm(asked.deadline)
            else:
                self._end(asked)
                why = "The client did not answer while others waited"
                self._refuse(asked, REQUEST_TIMEOUT, why)

    # What clients answer

    def _find(self, client: Client, number: int) -> ServerRequest | None:
        asked = [one for one in self.pending if one.client is client and one.number == number]
        return asked[0] if asked and asked[0].reply is None else None

    def reply(self, client: Client, number: int, message: Message) -> bool:
        """Take a client's answer, if it is to one of these; the child gets it when it is time."""
        asked = self._find(client, number)
        if asked is not None:
            asked.reply = message
            self.flush_replies()
        return asked is not None

    def progress(self, client: Client, number: int, message: Message) -> None:
        """Pass a client's progress on to the child, under the child's own token."""
        asked = self._find(client, number)
        if asked is not None and asked.token:
            params = message.json("params").edited(add={"progressToken": asked.token})
            self._connection.send(notification(PROGRESS, params.text))

    def flush_replies(self) -> None:
        """Let the child go on with the calls that it got answers for, one client's at a time."""
        for asked, reply in [(one, one.reply) for one in self.pending if one.reply is not None]:
            client = asked.client
            busy = self._takes_turns and any(
                other is not client and other.connection is client.connection
                for other in self._at_work()
            )
            if not busy:
                self.pending.remove(asked)
                self._lifecycle.touch()
                self._connection.send(reply.under(asked.message.id_text))

    # Requests that end otherwise

    def _end(self, asked: ServerRequest, params: str = "{}") -> None:
        """Forget a request; its client need not answer it. `params` say more of that."""
        self.pending.remove(asked)
        if asked.reply is None:
            cancelled = edited(params, add={"requestId": str(asked.number)})
            asked.client.deliver(notification(CANCELLED, cancelled))

    def _refuse(self, asked: ServerRequest, code: int, why: str) -> None:
        self._connection.send(failure(asked.message.id_text, error(code, why)))

    def withdraw(self, message: Message) -> None:
        """The child no longer wants an answer to what it asked; the youngest has its id."""
        key = message.params.get("requestId")
        if not is_id(key):
            return
        self.deferred = [one for one in self.deferred if one.id != key]
        found = [asked for asked in self.pending if asked.message.id == key]
        if found:
            self._end(found[-1], message.params_text)

    def input_ended(self, client: Client) -> None:
        """Answer what a client was asked that will send no more answers; what it sent counts."""
        self._leave([one for one in self.pending if one.client is client and one.reply is None])

    def disconnected(self, client: Client) -> None:
        """Answer what a client was asked that is gone, with the calls that its answers were for."""
        self._leave([one for one in self.pending if one.client is client])

    def _leave(self, left: list[ServerRequest]) -> None:
        for asked in left:
            self.pending.remove(asked)
            self._refuse(asked, METHOD_NOT_FOUND, GONE)

    def clear(self) -> None:
        """Take back everything that the child asked: it is gone."""
        self.deferred = []
        for asked in [*self.pending]:
            self._end(asked)
