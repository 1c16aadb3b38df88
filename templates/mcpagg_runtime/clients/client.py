"""Clients: who speaks to the proxy and what it can do, who is connected, and what it is told.

A client knows the proxy alone, and must be able to say which server asks and speaks.
https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation, the security notes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import edited, members, obj, read_members
from mcpagg_runtime.messages.message import Message, error, notification
from mcpagg_runtime.messages.protocol import (
    CAPABILITIES_KEY,
    ENVELOPE,
    INFO_KEY,
    INVALID_PARAMS,
    LEGACY,
    LEVEL_KEY,
    LEVELS,
    LOG_MESSAGE,
    MODERN,
    MODERN_VERSION,
    RESOURCE_UPDATED,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)
from mcpagg_runtime.plan.uri_templates import is_within
from mcpagg_runtime.start.greeting import (
    LEGACY_VERSIONS,
    RELAYED,
    TASKS,
    negotiated_version,
    spelling_for,
)
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from mcpagg_runtime.clients.speakers import Speakers
    from mcpagg_runtime.lists.catalogue import Catalogue

    Member = tuple[Any, int, int]


# Of a longer `_meta`, nothing is kept for the next request.
LONGEST_ENVELOPE = 1 << 12


def _lost(message: Message) -> None:
    """Take a message for a client that is not connected."""


class Client:
    """One client: who it is, and what it can do."""

    is_modern = False
    """Whether it is a request of a modern client."""
    era = LEGACY
    """In which era a server that speaks both is spoken to on its behalf."""
    version = LEGACY_VERSIONS[0]
    name = ""
    """The one in its clientInfo."""
    info = ""
    """Its clientInfo as JSON text."""
    capabilities: Mapping[str, str] = {}
    """{name: JSON text} of those among what it declared that the proxy passes on."""
    able = "{}"
    """The same as one JSON text, with extensions: what requests to servers state."""
    capable = False
    """Whether it declared anything on which the tools of a server may depend."""
    extensions = ""
    """Those that it declared and that the proxy passes on, as JSON text, "" for none."""
    initialized = False
    """Whether it has shaken hands."""
    level = ""
    """The log level that it asked for, "" for none."""
    audience: Client | None = None
    """On whose behalf servers are started, None for its own: many clients may share them."""
    starter: Client | None = None
    """On whose behalf servers are started, None as long as it may not want any."""
    may_answer = True
    """Whether it may still send answers, before the end of its input."""
    token = ""
    """Of a request of a modern client: the JSON text of its progress token, "" for none."""
    extra: Mapping[str, str] = {}
    """Of such: {name: JSON text} of what its `_meta` has beside the envelope and that token."""
    repeats = False
    """Of such: whether a member of its `_meta` stands twice."""
    latest: Mapping[str, Any] = {}
    """What was read of the `_meta` of the last modern request over the connection."""
    asked = 0
    """How many requests it was sent: their ids count from 1."""
    deliver: Callable[[Message], None] = staticmethod(_lost)
    """Takes what the core says to it."""

    def __init__(self, names: str) -> None:
        self.names = names
        """The option of that name."""
        self.connection: Client = self
        """The client that owns the pipe: itself, except for a request of a modern client."""
        self.party: Client = self
        """Whom a server means that asks something in a call: whoever has the connection."""
        self.watched: dict[str, tuple[str, str]] = {}
        """{URI of a resource: (the server that has agreed to tell of it, its own URI)}."""

    @property
    def spelling(self) -> str:
        """The attribute of Item that it is shown as name."""
        return spelling_for(self.names, self.name)

    def mint(self) -> int:
        """Return an id for a request to the client."""
        self.asked += 1
        return self.asked

    def shake_hands(self) -> None:
        """It has shaken hands: from now on it may want servers."""
        self.initialized = True
        self.starter = self

    def introduce(self, message: Message, newest: str = LEGACY_VERSIONS[0]) -> None:
        """Note what the client says about itself in its `initialize`.

        `newest` is the newest version with a handshake that it is spoken to in.
        """
        self.version = negotiated_version(message.params.get("protocolVersion"), newest)
        text = message.params_text
        given, _ = members(text)
        self._present(text, given.get("clientInfo"), given.get("capabilities"))

    def _present(self, text: str, info: Member | None, declared: Member | None) -> None:
        """Note who it is and what it can do, from those members of a JSON text."""
        self.name, self.info, self.capabilities = "", "", {}
        extensions = ""
        if info is not None and type(info[0]) is dict:
            self.info = text[info[1] : info[2]]
            name = info[0].get("name")
            self.name = name if type(name) is str else ""
        if declared is not None and declared[0] and type(declared[0]) is dict:
            found, _ = members(text, declared[1])
            objects = {name: text[a:b] for name, (v, a, b) in found.items() if type(v) is dict}
            self.capabilities = {name: objects[name] for name in RELAYED if name in objects}
            extensions = objects.get("extensions", "")
        self.capable = bool(self.capabilities or extensions)
        # One does not pass a proxy: later requests about a task name no server.
        self.extensions = edited(extensions, drop=(TASKS,)) if extensions else ""
        self.able = self.relayed()

    def relayed(self) -> str:
        """Return what it can do, as a handshake with a server states it, as JSON text."""
        extensions = {"extensions": self.extensions} if self.extensions else {}
        return obj({**self.capabilities, **extensions})


class ModernRequest(Client):
    """One request of a modern client, which the router knows as a client of its own.

    It has an envelope: members of `_meta` that say who asks.
    """

    is_modern = True
    era = MODERN
    version = MODERN_VERSION
    fault: str
    """The error that a bad envelope is answered with, as JSON text, "" for none."""
    meta: str
    """The JSON text of its `_meta`."""

    def __init__(self, client: Client, message: Message) -> None:
        super().__init__(client.names)
        self.resume(client, message)

    def resume(self, client: Client, message: Message) -> None:
        """Let `message`, which has an envelope, be the request of a client that is to be answered.

        Over HTTP each request is a party of its own: nothing says that two are of one client.
        """
        self.connection = client
        self.party = self if client.audience is not None else client
        self.message = message
        self.identifier = message.id_text
        """The JSON text of its id."""
        meta = message.members["params"].part("_meta")
        if client.latest.get("meta") == meta:  # a client says the same of itself in each request
            vars(self).update(client.latest)
        else:
            self._read(message.params["_meta"], meta)
            known = {name: getattr(self, name) for name in _SAID}
            client.latest = known if len(meta) < LONGEST_ENVELOPE else {}

    def _read(self, value: Mapping[str, Any], text: str) -> None:
        """Read who asks, and what else is said, in its `_meta`."""
        self.meta = text
        found: dict[str, Member] = {}
        names: list[str] = []
        read_members(text, 0, found, names)
        self.repeats = len(names) > len(found)
        self._present(text, found.get(INFO_KEY), found.get(CAPABILITIES_KEY))
        said = {name: text[start:end] for name, (v, start, end) in found.items() if v is not None}
        self.able = said.get(CAPABILITIES_KEY, "")
        if self.extensions:
            self.able = edited(self.able, add={"extensions": self.extensions})
        self.token = said.get("progressToken", "")
        self.extra = extra_of(text, found)
        level = value.get(LEVEL_KEY)
        self.level = level if type(level) is str else ""
        self.fault = _fault(value)

    def release(self) -> None:
        """Keep its message no longer, which may be large: servers know who started them."""
        self.message = _RELEASED


# What a `_meta` says.
_SAID = (
    *("meta", "repeats", "fault", "token", "extra", "level"),
    *("name", "info", "able", "extensions", "capabilities", "capable"),
)
# What stands for the message of a request that has been answered.
_RELEASED = Message({})


def extra_of(text: str, meta: Mapping[str, Member]) -> dict[str, str]:
    """Return {name: JSON text} of what a `_meta` has beside the envelope and a progress token."""
    ours = (*ENVELOPE, "progressToken")
    return {name: text[start:end] for name, (_, start, end) in meta.items() if name not in ours}


def _fault(meta: Mapping[str, Any]) -> str:
    """Return the error that an envelope is refused with; the version comes first.

    Whoever speaks another one may well have another envelope.
    """
    version = meta.get(VERSION_KEY)
    if type(version) is not str:
        return error(INVALID_PARAMS, f"params._meta needs {VERSION_KEY}, a string")
    if version != MODERN_VERSION:
        data = obj(supported=f"[{quote(MODERN_VERSION)}]", requested=quote(version))
        return error(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    if type(meta.get(CAPABILITIES_KEY)) is not dict:
        return error(INVALID_PARAMS, f"params._meta needs {CAPABILITIES_KEY}, an object")
    if LEVEL_KEY in meta and meta[LEVEL_KEY] not in LEVELS:
        return error(INVALID_PARAMS, "Unknown log level")
    return ""


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


def _is_loud(level: object, threshold: str) -> bool:
    """Whether a log message is to reach who asked for `threshold`, "" for all of them."""
    return level not in LEVELS or not threshold or LEVELS.index(level) >= LEVELS.index(threshold)
