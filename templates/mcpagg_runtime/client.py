"""Whoever speaks to the proxy over one connection, and what it said about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.wire import members

if TYPE_CHECKING:
    from typing import Any

    from mcpagg_runtime.peers import Call, Child, Question
    from mcpagg_runtime.wire import Message

    Member = tuple[Any, int, int]

# Newest first: https://modelcontextprotocol.io/specification, revisions with a handshake.
LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

# The revision without a handshake: every request carries who asks, in an envelope of these members
# of params._meta. https://modelcontextprotocol.io/specification/2026-07-28/basic
MODERN_VERSION = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"

# https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

# What a client may declare that the proxy can relay to it from a child.
RELAYED = ("roots", "sampling", "elicitation")

# The extension of clients that show the pages of tools: https://github.com/modelcontextprotocol/
# ext-apps
PAGES = "io.modelcontextprotocol/ui"

# Clients that refuse a colon in a name, by the start of their clientInfo.name in lower case, and
# the rule that they apply. Claude Code, VS Code, Codex and Gemini CLI rewrite names: no row needed.
REFUSE_COLON = {
    "claude-ai": "Claude Desktop and claude.ai: ^[a-zA-Z0-9_-]{1,64}$, or all tools are withheld",
    "cursor": "Cursor: letters, digits and _, server and tool together under 60 characters",
    "github-copilot": "Copilot CLI passes names on to a model API that answers 400",
    "copilot-cli": "the same, under its other name",
}

# The attribute of Item that each choice of --names shows; `auto` depends on the client.
SPELLINGS = {"auto": "exposed", "spec": "exposed", "portable": "portable", "bare": "exposed"}


class Client:
    """One client. `spelling` is the attribute of Item that it is shown as name.

    `name` is its clientInfo's, `info` that whole as JSON text; `capabilities` {name: JSON text} are
    those among what it declared that the proxy relays, `extensions`
    those that it declared, as JSON text, "" for none. `calls` are its requests in flight, oldest
    first, `questions` those that children have asked it, by the id that the proxy minted, and
    `subscriptions` {URI: the child that has agreed to tell of it}. `level` is the log level that it
    asked for, "" for none. `connection` is itself: the requests of a modern client share one.
    `modern` is who it said to be in the last enveloped request that may want children, None before
    there was one.
    """

    __slots__ = (
        "calls",
        "capabilities",
        "connection",
        "extensions",
        "info",
        "initialized",
        "level",
        "modern",
        "name",
        "next_id",
        "questions",
        "spelling",
        "subscriptions",
        "version",
    )

    def __init__(self, names: str) -> None:
        """`names` is the option of that name."""
        self.version = LEGACY_VERSIONS[0]
        self.name = ""
        self.info = ""
        self.extensions = ""
        self.capabilities: dict[str, str] = {}
        self.spelling = SPELLINGS[names]
        self.initialized = False
        self.calls: list[Call] = []
        self.questions: dict[int, Question] = {}
        self.subscriptions: dict[str, Child] = {}
        self.level = ""
        self.next_id = 0
        self.connection = self
        self.modern: Client | None = None

    @property
    def capable(self) -> bool:
        """Whether it declared anything on which the tools of a server may depend."""
        return bool(self.capabilities or self.extensions)

    def introduce(self, message: Message, names: str) -> None:
        """Note what the client says about itself in its `initialize`.

        Any revision that we know is spoken, anything else answered with the newest: some clients
        take another version than their own for fatal.
        """
        params = message.params
        asked = params.get("protocolVersion")
        self.version = asked if asked in LEGACY_VERSIONS else LEGACY_VERSIONS[0]
        start = message.members["params"][1] if params else 0
        given = members(message.text, start)[0] if params else {}
        self.present(message.text, given.get("clientInfo"), given.get("capabilities"), names)

    def present(self, text: str, info: Member | None, declared: Member | None, names: str) -> None:
        """Note who the client is and what it can do, from those members of a message's `text`."""
        self.name, self.info, self.extensions, self.capabilities = "", "", "", {}
        self.spelling = SPELLINGS[names]
        if info is not None and type(info[0]) is dict:
            self.info = text[info[1] : info[2]]
            name = info[0].get("name")
            self.name = name if type(name) is str else ""
        if declared is not None and type(declared[0]) is dict:
            found, _ = members(text, declared[1])
            objects = {name: text[a:b] for name, (v, a, b) in found.items() if type(v) is dict}
            self.capabilities = {name: objects[name] for name in RELAYED if name in objects}
            self.extensions = objects.get("extensions", "")
        if names == "auto" and self.name.lower().startswith(tuple(REFUSE_COLON)):
            self.spelling = "portable"


def is_enveloped(message: Message) -> bool:
    """Whether a request is of the revision without a handshake: it says so itself."""
    meta = message.params.get("_meta")
    return type(meta) is dict and (VERSION_KEY in meta or CAPABILITIES_KEY in meta)
