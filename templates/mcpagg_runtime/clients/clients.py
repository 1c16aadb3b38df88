"""The clients: who is connected, which notifications they get, and what servers learn of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.clients.client import ModernRequest
from mcpagg_runtime.messages.jsontext import edited, obj, parse
from mcpagg_runtime.messages.message import error, notification
from mcpagg_runtime.messages.protocol import (
    CLIENT_METHODS,
    INVALID_PARAMS,
    LEVELS,
    LOG_MESSAGE,
    METHOD_NOT_FOUND,
    RESOURCE_UPDATED,
)
from mcpagg_runtime.plan.uri_templates import is_within
from mcpagg_runtime.start.greeting import TASKS
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.clients.speakers import Speakers
    from mcpagg_runtime.lists.catalogue import Catalogue
    from mcpagg_runtime.messages.message import Message


class Clients:
    """Who is connected, and which notifications they get outside of their calls."""

    def __init__(self, logs: bool, speakers: Speakers) -> None:
        self.speakers = speakers
        self.level = ""
        """The log level that children are asked for, "" for none."""
        self._logs = logs
        """Whether the proxy declares that it logs."""
        self._connected: dict[Client, None] = {}
        """In order of connection."""

    def __iter__(self) -> Iterator[Client]:
        return iter([*self._connected])

    def __contains__(self, client: object) -> bool:
        return client in self._connected

    def connect(self, client: Client) -> None:
        """Take on a client."""
        self._connected[client] = None

    def disconnect(self, client: Client) -> None:
        """Let a client go, if it is there."""
        self._connected.pop(client, None)

    def watched(self, server: str, serves: Callable[[Client], bool]) -> list[str]:
        """Return its own URIs of the resources that a server tells those clients of, each once."""
        watched = [one.watched.values() for one in self if one.watched and serves(one)]
        return list(dict.fromkeys([u for uris in watched for owner, u in uris if owner == server]))

    def settle_level(self) -> bool:
        """Find the level that children are asked for; return whether it is another one now.

        What one client does not want to see, another one may.
        """
        asked = [one.level for one in self if one.level]
        before, self.level = self.level, min(asked, key=LEVELS.index, default=self.level)
        return self.level != before

    def list_changed(self, catalogue: Catalogue, server: str, names: list[str]) -> None:
        """Tell the clients that see one of these items of a server that their list changed."""
        conditional = catalogue.conditional[server]
        public = any(name not in conditional for name in names)
        for client in self:
            if client.initialized and (public or (names and client.capable)):
                client.deliver(notification(catalogue.kind.announcement))

    def all_changed(self, catalogues: Mapping[str, Catalogue], server: str) -> None:
        """Everything that a server offers has left the lists, or is back in them."""
        announced = set()
        for catalogue in catalogues.values():
            served = catalogue.served(server)
            if served and catalogue.kind.announcement not in announced:
                announced.add(catalogue.kind.announcement)
                self.list_changed(catalogue, server, [item.original for item in served])

    def warn(self, server: str, text: str) -> None:
        """Log a warning of ours about a server, with the clients that take log messages.

        A modern client takes some in its requests alone.
        """
        if not self._logs:
            return
        params = obj(level=quote("warning"), logger=quote(server), data=quote(text))
        reached = set()
        for client in self:
            takes = bool(client.level) if client.is_modern else client.initialized
            is_loud = takes and _is_loud("warning", client.level)
            if is_loud and client.connection not in reached:
                reached.add(client.connection)
                client.deliver(notification(LOG_MESSAGE, params))

    def pass_on(
        self,
        server: str,
        message: Message,
        callers: set[Client],
        serves: Callable[[Client], bool],
        exposed: Callable[[str, str], str],
    ) -> bool:
        """Give a server's notification (log, resource, unknown) to the clients that it concerns.

        Return whether there was one. `serves` says which clients the server's instance has;
        `exposed` returns the exposed URI for a server's own.

        `callers` are those whose calls the server has in hand. What it says meanwhile may be about
        those calls, so nobody else gets it; where they came over several connections, nobody does.
        """
        method, params = message.method or "", message.raw("params")
        if method == LOG_MESSAGE:
            params = self.speakers.log(message, server)
        uri = message.params.get("uri")
        if method == RESOURCE_UPDATED and type(uri) is str:
            known = exposed(uri, server)
            if known != uri:
                params = message.json("params").owned({"uri": quote(known)}).text
        passed = notification(method, params)
        connections = {caller.connection for caller in callers}
        reached = set()
        for client in self:
            # One that has not shaken hands gets those of its own calls, if they are nobody else's.
            if not (client.initialized or callers == {client}) or not serves(client):
                continue
            about_others = bool(connections - {client.connection})
            if method == RESOURCE_UPDATED:
                concerned = _watches(client, server, uri)
            elif method == LOG_MESSAGE and not about_others:
                # It is logged once over one connection, whoever speaks over it.
                is_loud = self._logs and _is_loud(message.params.get("level"), client.level)
                concerned = is_loud and client.connection not in reached
            else:
                concerned = not about_others
            if concerned:
                reached.add(client.connection)
                client.deliver(passed)
        return bool(reached)


def _watches(client: Client, server: str, uri: Any) -> bool:
    """Whether a client gets updates of a resource from a server, or of what it lies within."""
    watched = [one for owner, one in client.watched.values() if owner == server]
    return type(uri) is str and any(is_within(uri, one) for one in watched)


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


def _is_loud(level: object, threshold: str) -> bool:
    """Whether a log message is to reach who asked for `threshold`, "" for all of them."""
    return level not in LEVELS or not threshold or LEVELS.index(level) >= LEVELS.index(threshold)


def relayed(client: Client) -> str:
    """Return the capabilities of a client that a handshake with a server states, as JSON text."""
    extensions = _passing_extensions(client)
    return obj({**client.capabilities, **extensions})


def able(client: Client) -> str:
    """Return the capabilities of a client that its request to a server states, as JSON text.

    That is all that a modern request declares, but for what does not pass a proxy.
    """
    if not isinstance(client, ModernRequest):
        return relayed(client)
    if not client.extensions:
        return client.declared
    return edited(client.declared, add=_passing_extensions(client))


def _passing_extensions(client: Client) -> dict[str, str]:
    """Return the member with the extensions that a client declared, if it declared any.

    The one that does not pass a proxy is left out: later requests about a task name no server, so
    they could not be routed.
    """
    if not client.extensions:
        return {}
    return {"extensions": edited(client.extensions, drop=(TASKS,))}
