"""The clients that are connected, and what they are told that they have not asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.serve.attribution import attributed_log
from mcpagg_runtime.serve.compose import notification
from mcpagg_runtime.start.protocol import LEVELS, LOG_MESSAGE, RESOURCE_UPDATED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcpagg_runtime.start.catalogue import Catalogue
    from mcpagg_runtime.start.client import Client
    from mcpagg_runtime.start.message import Message


class Clients:
    """Who is connected, which resources each of them watches, and what they want logged."""

    def __init__(self, logs: bool) -> None:
        self.level = ""
        """The log level that children are asked for, "" for none."""
        self._logs = logs
        """Whether the proxy declares that it logs."""
        self._watched: dict[Client, dict[str, str]] = {}
        """{client: {URI: the server that has agreed to tell of it}}, in order of connection."""
        self._ended: set[Client] = set()
        """Those that will send nothing more."""

    def __iter__(self) -> Iterator[Client]:
        return iter([*self._watched])

    def __contains__(self, client: object) -> bool:
        return client in self._watched

    def connect(self, client: Client) -> None:
        """Take on a client."""
        self._watched[client] = {}

    def end_input(self, client: Client) -> None:
        """A client will send nothing more."""
        self._ended.add(client)

    def may_answer(self, client: Client) -> bool:
        """Whether a client may still answer what it is asked."""
        return client not in self._ended

    def disconnect(self, client: Client) -> dict[str, str]:
        """Let a client go; return the {URI: server} that it watched."""
        self._ended.discard(client)
        return self._watched.pop(client)

    # Resources

    def watch(self, client: Client, uri: str, server: str) -> None:
        """A server has agreed to tell a client of a resource."""
        if client in self._watched:
            self._watched[client][uri] = server

    def unwatch(self, client: Client, uri: str) -> str | None:
        """A client wants no more news of a resource; return the server that gave them."""
        return self._watched.get(client, {}).pop(uri, None)

    def is_watched(self, uri: str, server: str) -> bool:
        """Whether a server tells any client of a resource."""
        return any(watched.get(uri) == server for watched in self._watched.values())

    def watched(self, server: str) -> list[str]:
        """Return the URIs of the resources that a server tells clients of."""
        found = [w.items() for w in self._watched.values()]
        return list(dict.fromkeys([uri for w in found for uri, owner in w if owner == server]))

    # Logging

    def set_level(self, client: Client, level: str) -> bool:
        """Note which log level a client asks for; return whether children need another one now.

        What one client does not want to hear, another one may.
        """
        client.level = level
        asked = [one.level for one in [*self, client] if one.level]
        before, self.level = self.level, min(asked, key=LEVELS.index)
        return self.level != before

    # News

    def list_changed(self, catalogue: Catalogue, server: str, names: list[str]) -> None:
        """Tell the clients that see one of these items of a server that their list changed."""
        conditional = catalogue.conditional[server]
        public = [name for name in names if name not in conditional]
        for client in self:
            if client.initialized and (public or (names and client.capable)):
                client.deliver(notification(catalogue.kind.announcement))

    def all_changed(self, catalogues: Mapping[str, Catalogue], server: str) -> None:
        """Everything that a server offers has left the lists, or is back in them."""
        told = set()
        for catalogue in catalogues.values():
            served = catalogue.served(server)
            if served and catalogue.kind.announcement not in told:
                told.add(catalogue.kind.announcement)
                self.list_changed(catalogue, server, [item.original for item in served])

    def pass_on(self, server: str, message: Message, callers: set[Client]) -> None:
        """Give a server's notification (log, resource, unknown) to the clients that it concerns.

        `callers` are those whose calls the server has in hand.
        """
        params = message.raw("params")
        if message.method == LOG_MESSAGE:
            params = attributed_log(message.json("params"), server)
        passed = notification(message.method or "", params)
        told = []
        for client in self:
            # One that has not shaken hands hears of its own calls, if they are nobody else's.
            hears = client.initialized or callers == {client}
            if not hears or not self._concerns(client, server, message):
                continue
            # What a server logs is told once over one connection, whoever speaks over it.
            if message.method != LOG_MESSAGE or client.connection not in told:
                told.append(client.connection)
                client.deliver(passed)

    def _concerns(self, client: Client, server: str, message: Message) -> bool:
        if message.method == RESOURCE_UPDATED:
            uri = message.params.get("uri")
            watched = [one for one, owner in self._watched[client].items() if owner == server]
            return type(uri) is str and any(_lies_in(uri, one) for one in watched)
        if message.method == LOG_MESSAGE:
            return self._logs and _is_loud(message.params.get("level"), client.level)
        return True


def _is_loud(level: object, threshold: str) -> bool:
    """Whether a log message is to reach who asked for `threshold`, "" for all of them."""
    return level not in LEVELS or not threshold or LEVELS.index(level) >= LEVELS.index(threshold)


def _lies_in(uri: str, watched: str) -> bool:
    """Whether a URI is the one that is watched, or of something within that resource."""
    if not uri.startswith(watched):
        return False
    return len(uri) == len(watched) or watched.endswith("/") or uri[len(watched)] in "/?#"
