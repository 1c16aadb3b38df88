"""Whoever speaks to the proxy over one connection, and what it said about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import members, obj, read_members
from mcpagg_runtime.messages.message import Message, error
from mcpagg_runtime.messages.protocol import (
    CAPABILITIES_KEY,
    ENVELOPE,
    INFO_KEY,
    INVALID_PARAMS,
    LEGACY,
    LEVEL_KEY,
    LEVELS,
    MODERN,
    MODERN_VERSION,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)
from mcpagg_runtime.start.greeting import (
    LEGACY_VERSIONS,
    RELAYED,
    negotiated_version,
    spelling_for,
)
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Member = tuple[Any, int, int]


# Of a longer `_meta`, nothing is kept for the next request.
LONGEST_ENVELOPE = 1 << 12


class Client:
    """One client: who it is, and what it can do."""

    __slots__ = (
        "asked",
        "audience",
        "capabilities",
        "capable",
        "connection",
        "deliver",
        "era",
        "extensions",
        "extra",
        "info",
        "initialized",
        "latest",
        "level",
        "may_answer",
        "name",
        "names",
        "party",
        "starter",
        "token",
        "version",
        "watched",
    )

    is_modern = False
    """Whether it is a request of a modern client."""

    def __init__(self, names: str) -> None:
        self.names = names
        """The option of that name."""
        self.version = LEGACY_VERSIONS[0]
        self.name = ""
        """The one in its clientInfo."""
        self.info = ""
        """Its clientInfo as JSON text."""
        self.capabilities: dict[str, str] = {}
        """{name: JSON text} of those among what it declared that the proxy passes on."""
        self.capable = False
        """Whether it declared anything on which the tools of a server may depend."""
        self.extensions = ""
        """Those that it declared, as JSON text, "" for none."""
        self.initialized = False
        """Whether it has shaken hands."""
        self.level = ""
        """The log level that it asked for, "" for none."""
        self.connection: Client = self
        """The client that owns the pipe: itself, except for a request of a modern client."""
        self.party: Client = self
        """Whom a server means that asks something in a call: whoever has the connection."""
        self.era = LEGACY
        """In which era a server that speaks both is spoken to on its behalf."""
        self.audience: Client | None = None
        """On whose behalf servers are started, None for its own: many clients may share them."""
        self.starter: Client | None = None
        """On whose behalf servers are started, None as long as it may not want any."""
        self.may_answer = True
        """Whether it may still send answers, before the end of its input."""
        self.watched: dict[str, tuple[str, str]] = {}
        """{URI of a resource: (the server that has agreed to tell of it, its own URI)}."""
        self.token = ""
        """Of a request of a modern client: the JSON text of its progress token, "" for none."""
        self.extra: dict[str, str] = {}
        """Of such: {name: JSON text} of what its `_meta` has beside the envelope and that token."""
        self.latest: tuple[Any, ...] | None = None
        """The `_meta` of the last modern request over the connection, and what was read of it."""
        self.asked = 0
        """How many requests it was sent: their ids count from 1."""
        self.deliver: Callable[[Message], None] = _lost
        """Takes what the router says to it."""

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
        self.name, self.info, self.extensions, self.capabilities = "", "", "", {}
        if info is not None and type(info[0]) is dict:
            self.info = text[info[1] : info[2]]
            name = info[0].get("name")
            self.name = name if type(name) is str else ""
        if declared is not None and declared[0] and type(declared[0]) is dict:
            found, _ = members(text, declared[1])
            objects = {name: text[a:b] for name, (v, a, b) in found.items() if type(v) is dict}
            self.capabilities = {name: objects[name] for name in RELAYED if name in objects}
            self.extensions = objects.get("extensions", "")
        self.capable = bool(self.capabilities or self.extensions)


def _lost(message: Message) -> None:
    """Take a message for a client that is not connected."""


class ModernRequest(Client):
    """One request of a modern client, which the router knows as a client of its own.

    It has an envelope: members of `_meta` that say who asks.
    """

    __slots__ = ("declared", "fault", "identifier", "message", "meta", "repeats")

    is_modern = True

    declared: str
    """All that the client can do, as JSON text."""
    fault: str
    """The error that a bad envelope is answered with, as JSON text, "" for none."""
    meta: str
    """The JSON text of its `_meta`."""
    repeats: bool
    """Whether a member of that stands twice."""

    def __init__(self, client: Client, message: Message) -> None:
        super().__init__(client.names)
        self.era = MODERN
        self.version = MODERN_VERSION
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
        if client.latest is None or client.latest[0] != meta:
            self._read(message.params["_meta"], meta)
            said = (meta, self.repeats, self.fault, self.token, self.extra, self.level)
            who = (self.name, self.info, self.declared, self.extensions)
            able = (self.capabilities, self.capable)
            client.latest = (*said, *who, *able) if len(meta) < LONGEST_ENVELOPE else None
            return
        # A client says the same of itself in each request.
        self.meta, self.repeats, self.fault, self.token, self.extra, self.level = client.latest[:6]
        self.name, self.info, self.declared, self.extensions = client.latest[6:10]
        self.capabilities, self.capable = client.latest[10:]

    def _read(self, value: Mapping[str, Any], text: str) -> None:
        """Read who asks, and what else is said, in its `_meta`."""
        self.meta = text
        found: dict[str, Member] = {}
        names: list[str] = []
        read_members(text, 0, found, names)
        self.repeats = len(names) > len(found)
        self._present(text, found.get(INFO_KEY), found.get(CAPABILITIES_KEY))
        said = {name: text[start:end] for name, (v, start, end) in found.items() if v is not None}
        self.declared = said.get(CAPABILITIES_KEY, "")
        self.token = said.get("progressToken", "")
        self.extra = extra_of(text, found)
        level = value.get(LEVEL_KEY)
        self.level = level if type(level) is str else ""
        self.fault = _fault(value)

    def release(self) -> None:
        """Keep its message no longer, which may be large: servers know who started them."""
        self.message = _RELEASED


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
