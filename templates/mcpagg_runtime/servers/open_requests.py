"""The requests of one child that clients are to answer.

Each has an id towards its client; the answer goes back under the child's own, progress under its
own token, and it says which server asks: a client knows the proxy alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import Json, parse
from mcpagg_runtime.messages.message import error, notification, request
from mcpagg_runtime.messages.protocol import (
    CANCELLED,
    CLIENT_METHODS,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PROGRESS,
)
from mcpagg_runtime.servers.effects import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpagg_runtime.clients.client import Client, Clients
    from mcpagg_runtime.clients.speakers import Speakers
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.servers.connection import Connection
    from mcpagg_runtime.servers.lifecycle import Lifecycle

# How long a client may take to answer from when a call of another one waits for the instance, and
# how long a request waits until it is known whom it is for.
ANSWER_SECONDS = 60.0


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


class OpenRequests:
    """The requests of one child that clients have not answered, oldest first."""

    def __init__(
        self,
        connection: Connection,
        lifecycle: Lifecycle,
        send_on: Callable[[], None],
        speakers: Speakers,
    ) -> None:
        """`send_on` sends the calls that waited for a request to be closed."""
        self._connection = connection
        self._lifecycle = lifecycle
        self._send_on = send_on
        self._speakers = speakers
        self.pending: list[ServerRequest] = []

    def ask(self, client: Client, message: Message, about: str = "") -> None:
        """Ask a client what the child has sent; for `about` see `Message`."""
        asked = ServerRequest(client, message)
        self.pending.append(asked)
        token = {"progressToken": str(asked.number)} if asked.token else {}
        params = self._speakers.request(message, self._connection.name, token)
        sent = request(asked.number, message.method or "", params)
        sent.about = about
        client.deliver(sent)

    def limit(self, requests: list[ServerRequest], now: float) -> None:
        """Give clients so much time to answer, as calls of other ones wait from now on."""
        for asked in requests:
            if asked.deadline == FOREVER:
                asked.deadline = self._connection.effects.arm(now + ANSWER_SECONDS)

    def overdue(self, now: float, *, awaited: bool) -> list[ServerRequest]:
        """Return those whose time is up; none of them has a limit where no call is `awaited`."""
        late = []
        for asked in [one for one in self.pending if one.deadline < FOREVER]:
            if not awaited:
                asked.deadline = FOREVER
            elif asked.deadline > now:
                self._connection.effects.arm(asked.deadline)
            else:
                late.append(asked)
        return late

    def answer(self, client: Client, number: int, message: Message) -> bool:
        """Pass a client's answer on to the child, if it is to one of these."""
        asked = self._find(client, number)
        if asked is None:
            return False
        self.close(asked)
        self._lifecycle.touch()
        self._connection.send(message.under(asked.message.id_text))
        return True

    def progress(self, client: Client, number: int, message: Message) -> None:
        """Pass a client's progress on to the child, under the child's own token."""
        asked = self._find(client, number)
        if asked is not None and asked.token:
            params = message.json("params").owned({"progressToken": asked.token})
            self._connection.send(notification(PROGRESS, params.text))

    def _find(self, client: Client, number: int) -> ServerRequest | None:
        asked = [one for one in self.pending if one.client is client and one.number == number]
        return asked[0] if asked else None

    def close(self, asked: ServerRequest) -> None:
        """Forget a request: calls that waited for that may go."""
        self.pending.remove(asked)
        self._connection.effects.later(self._send_on)

    def end(self, asked: ServerRequest, params: str = "{}") -> None:
        """Forget a request; its client need not answer it. `params` say more of that."""
        self.close(asked)
        cancelled = Json(params).owned({"requestId": str(asked.number)})
        asked.client.deliver(notification(CANCELLED, cancelled.text))

    def take_from(self, client: Client) -> list[ServerRequest]:
        """Forget, and return, what a client was asked that will not answer it."""
        taken = [asked for asked in self.pending if asked.client is client]
        for asked in taken:
            self.close(asked)
        return taken


class DeferredRequests:
    """Requests of a child that wait for the next call of the client that it was started for.

    A modern client can be asked in the middle of a call alone; servers ask for its roots before
    there is one.
    """

    def __init__(self, lifecycle: Lifecycle, clients: Clients) -> None:
        self._lifecycle = lifecycle
        self._clients = clients
        self.waiting: list[Message] = []

    def takes(self, message: Message) -> bool:
        """Keep a request that can wait for such a call; return whether it can."""
        starter = self._lifecycle.client
        started = starter is not None and starter.connection in self._clients
        may_wait = started and starter not in self._clients and message.method == "roots/list"
        if may_wait:
            self.waiting.append(message)
        return may_wait

    def taken_for(self, client: Client) -> list[Message]:
        """Return those that a client can be asked now, and keep them no longer."""
        starter = self._lifecycle.client
        if starter is None or starter.connection is not client.connection:
            return []
        taken, self.waiting = self.waiting, []
        return taken

    def withdraw(self, key: object) -> None:
        """Forget the request with this id: the child no longer wants an answer."""
        self.waiting = [one for one in self.waiting if one.id != key]

    def clear(self) -> None:
        """Forget all."""
        self.waiting.clear()


def inability(client: Client, message: Message) -> str:
    """Return the error for a request that a client declared no capability for, "" if it did.

    One set of servers may be shared by clients that can do different things.
    """
    method = message.method or ""
    able = client.capabilities.get(CLIENT_METHODS.get(method, ""))
    if able is None:
        return error(METHOD_NOT_FOUND, f"Method not found: {method}")
    declared, params = parse(able), message.params
    if method == "elicitation/create":
        mode = params.get("mode", "form")
        # Who names no mode takes forms, as in the revisions before there were modes.
        if (mode == "url" or "url" in declared) and mode not in declared:
            return error(INVALID_PARAMS, f"The client has no elicitation in mode {mode}")
    if method == "sampling/createMessage" and "tools" in params and "tools" not in declared:
        return error(INVALID_PARAMS, "The client has no tools for sampling")
    return ""
