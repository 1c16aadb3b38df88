"""Whoever speaks to the proxy over one connection, and what it said about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import members
from mcpagg_runtime.base.protocol import CAPABILITIES_KEY, VERSION_KEY
from mcpagg_runtime.start.greeting import (
    LEGACY_VERSIONS,
    RELAYED,
    is_capable,
    spelling_for,
    spoken,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcpagg_runtime.base.message import Message

    Member = tuple[Any, int, int]


class Client:
    """One client: who it is, and what it can do."""

    __slots__ = (
        "_last_id",
        "_names",
        "audience",
        "capabilities",
        "capable",
        "connection",
        "deliver",
        "extensions",
        "info",
        "initialized",
        "level",
        "name",
        "spelling",
        "starter",
        "version",
    )

    is_modern = False
    """Whether it is a request of a modern client."""

    def __init__(self, names: str) -> None:
        """`names` is the option of that name."""
        self._names = names
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
        self.spelling = spelling_for(names, None)
        """The attribute of Item that it is shown as name."""
        self.initialized = False
        """Whether it has shaken hands."""
        self.level = ""
        """The log level that it asked for, "" for none."""
        self.connection: Client = self
        """The client that owns the pipe: itself, except for a request of a modern client."""
        self.audience: Client | None = None
        """On whose behalf servers are started, None for its own: many clients may share them."""
        self.starter: Client | None = None
        """On whose behalf servers are started, None as long as it may not want any."""
        self._last_id = 0
        self.deliver: Callable[[Message], None] = _lost
        """Takes what the router says to it."""

    def attach(self, deliver: Callable[[Message], None]) -> None:
        """From now on its messages go there."""
        self.deliver = deliver

    def mint(self) -> int:
        """Return an id for a request to the client."""
        self._last_id += 1
        return self._last_id

    def shake_hands(self) -> None:
        """It has shaken hands: from now on it may want servers."""
        self.initialized = True
        self.starter = self

    def want_servers(self, request: Client) -> None:
        """One of its modern requests may want servers: they are started on behalf of that."""
        self.starter = request

    def introduce(self, message: Message) -> None:
        """Note what the client says about itself in its `initialize`."""
        self.version = spoken(message.params.get("protocolVersion"))
        text = message.params_text
        given, _ = members(text)
        self._present(text, given.get("clientInfo"), given.get("capabilities"))

    def _present(self, text: str, info: Member | None, declared: Member | None) -> None:
        """Note who it is and what it can do, from those members of a JSON text."""
        self.name, self.info, self.extensions, self.capabilities = "", "", "", {}
        self.capable = declared is not None and is_capable(declared[0])
        if info is not None and type(info[0]) is dict:
            self.info = text[info[1] : info[2]]
            name = info[0].get("name")
            self.name = name if type(name) is str else ""
        if declared is not None and type(declared[0]) is dict:
            found, _ = members(text, declared[1])
            objects = {name: text[a:b] for name, (v, a, b) in found.items() if type(v) is dict}
            self.capabilities = {name: objects[name] for name in RELAYED if name in objects}
            self.extensions = objects.get("extensions", "")
        self.spelling = spelling_for(self._names, self.name)


def _lost(message: Message) -> None:
    """Take a message for a client that is not connected."""


def is_enveloped(message: Message) -> bool:
    """Whether a request is modern: it says so itself."""
    meta = message.params.get("_meta")
    return type(meta) is dict and (VERSION_KEY in meta or CAPABILITIES_KEY in meta)
