"""The edge to clients with a handshake: their requests start calls, the rest is about those."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import Malformed, NotAnObject
from mcpagg_runtime.messages.message import error, failure, is_id, notification
from mcpagg_runtime.messages.protocol import (
    CANCELLED,
    INITIALIZED,
    INVALID_REQUEST,
    OF_SERVERS,
    PARSE_ERROR,
    PROGRESS,
    ROOTS_CHANGED,
)

if TYPE_CHECKING:
    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.routing.router import Router


class LegacyClients:
    """Takes the messages of clients with a handshake, and what is no message of any revision."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def receive(self, client: Client, message: Message | Malformed) -> None:
        """Take one message of a client, or what was to be one."""
        if isinstance(message, Malformed):
            # The reference stays silent here; a client that waits for an answer needs one.
            code = INVALID_REQUEST if isinstance(message, NotAnObject) else PARSE_ERROR
            client.deliver(failure("null", error(code, f"Invalid message: {message}")))
        elif message.method is None:
            if "result" in message.members or "error" in message.members:
                self._router.reply(client, message)
            else:
                self._invalid(client, message)
        elif not message.id_text:
            self._notified(client, message)
        elif message.id is None:
            self._invalid(client, message)
        else:
            self._router.request(client, message)

    def _invalid(self, client: Client, message: Message) -> None:
        identifier = "null" if message.id is None else message.id_text
        client.deliver(failure(identifier, error(INVALID_REQUEST, "Invalid request")))

    def _notified(self, client: Client, message: Message) -> None:
        method = message.method or ""
        if method == CANCELLED:
            key = message.params.get("requestId")
            if is_id(key):
                self._router.withdraw(client, message.json("params"), key)
        elif method == INITIALIZED:
            client.shake_hands()
            self._router.want_children(client)
        elif method == PROGRESS:
            number = message.params.get("progressToken")
            if type(number) is int:
                for child in self._router.instances():
                    child.requests.open.progress(client, number, message)
        elif method.startswith("notifications/") and method not in OF_SERVERS:
            # One that is not known may be for any of them. A request without an id is none.
            for_all = method != ROOTS_CHANGED
            for instances in self._router.servers.values():
                child = instances.of(client)
                if child.lifecycle.is_ready and (for_all or child.lifecycle.client is client):
                    child.connection.send(notification(method, message.raw("params")))
