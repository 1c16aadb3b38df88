"""The clients: who is connected, what they are told, and what servers are told of them.

A client knows the proxy alone, and must be able to say which server asks and speaks.
https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation, the security notes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.client import ModernRequest
from mcpagg_runtime.base.jsontext import edited, members, obj, parse, place_of
from mcpagg_runtime.base.message import Json, error, notification
from mcpagg_runtime.base.protocol import (
    CLIENT_METHODS,
    INVALID_PARAMS,
    LEVELS,
    LOG_MESSAGE,
    METHOD_NOT_FOUND,
    RESOURCE_UPDATED,
    SERVER_MARK,
    TASKS,
)
from mcpagg_runtime.serve.editing import edited_object
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from mcpagg_runtime.base.catalogue import Catalogue
    from mcpagg_runtime.base.client import Client
    from mcpagg_runtime.base.message import Message


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
        return self.settle_level()

    def settle_level(self) -> bool:
        """Find the level that children are asked for; return whether it is another one now."""
        asked = [one.level for one in self if one.level]
        before, self.level = self.level, min(asked, key=LEVELS.index, default=self.level)
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

        `callers` are those whose calls the server has in hand. What it says meanwhile may be about
        those calls, so nobody else hears it; where they came over several connections, nobody does.
        """
        connections = {client.connection for client in callers}
        params = message.raw("params")
        if message.method == LOG_MESSAGE:
            params = attributed_log(message.json("params"), server)
        passed = notification(message.method or "", params)
        told = []
        for client in self:
            # One that has not shaken hands hears of its own calls, if they are nobody else's.
            hears = client.initialized or callers == {client}
            foreign = bool(connections - {client.connection})
            if not hears or not self._concerns(client, server, message):
                continue
            if foreign and message.method != RESOURCE_UPDATED:
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


def _lies_in(uri: str, watched: str) -> bool:
    """Whether a URI is the one that is watched, or of something within that resource."""
    if not uri.startswith(watched):
        return False
    return len(uri) == len(watched) or watched.endswith("/") or uri[len(watched)] in "/?#"


def attributed_log(params: Json, server: str) -> str:
    """Return the params of a log message whose logger is `server`, or `server/logger`."""
    logger = params.value.get("logger")
    named = f"{server}/{logger}" if type(logger) is str and logger else server
    return edited_object(params, add={"logger": quote(named)})


def attributed(method: str, params: Json, server: str, several: bool) -> str:
    """Return the params of a server's request to a client with the server's name in `_meta`.

    Where the proxy has `several`, what a person reads of an elicitation begins with the name, as
    the names of resources do.
    """
    meta = params.value.get("_meta")
    old = params.part("_meta") if type(meta) is dict else "{}"
    add = {"_meta": edited(old, add={SERVER_MARK: quote(server)})}
    message = params.value.get("message")
    if several and method == "elicitation/create" and type(message) is str:
        add["message"] = quote(f"[{server}] {message}")
    return edited_object(params, add=add)


def attributed_input(result: Json, server: str, several: bool) -> str:
    """Return a result that requires input with the requests for it attributed."""
    if type(result.value.get("inputRequests")) is not dict:
        return result.text
    text = result.part("inputRequests")
    requests = {
        key: _attributed_entry(entry, text[begin:stop], server, several)
        for key, (entry, begin, stop) in members(text)[0].items()
    }
    return edited_object(result, add={"inputRequests": edited(text, add=requests)})


def _attributed_entry(entry: Any, text: str, server: str, several: bool) -> str:
    method = entry.get("method") if type(entry) is dict else None
    params = entry.get("params", {}) if type(entry) is dict else None
    if type(method) is not str or type(params) is not dict:
        return text
    asked = Json(text).part("params") or "{}"
    return edited(text, add={"params": attributed(method, Json(asked), server, several)})


def mark_of(params: str) -> str:
    """Return the `_meta` of params that says which server asks, and nothing else; "" for none."""
    mark = place_of(params, ("_meta", SERVER_MARK))
    return obj({SERVER_MARK: params[slice(*mark)]}) if mark[1] else ""


def relayed(client: Client) -> str:
    """Return what servers are told that a client can do in a handshake, as JSON text."""
    able = dict(client.capabilities)
    if client.extensions:
        able["extensions"] = _passing_extensions(client)
    return obj(able)


def able(client: Client) -> str:
    """Return what a server is told that a client can do when it asks for something, as JSON text.

    That is all that a modern request declares, but for what does not pass a proxy.
    """
    if not isinstance(client, ModernRequest):
        return relayed(client)
    if not client.extensions:
        return client.declared
    return edited(client.declared, add={"extensions": _passing_extensions(client)})


def visits_urls(request: ModernRequest) -> bool:
    """Whether the client of a request can be asked to have a URL visited."""
    return "url" in parse(request.capabilities.get("elicitation", "{}"))


def _passing_extensions(client: Client) -> str:
    """Return the extensions that a client declared without the one that does not pass a proxy.

    Later requests about a task name no server, so they could not be routed.
    """
    if TASKS not in client.extensions:
        return client.extensions
    return edited(client.extensions, drop=(TASKS,))
