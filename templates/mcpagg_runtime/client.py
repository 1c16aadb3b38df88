"""Whoever speaks to the proxy over one connection, and what it said about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.wire import members

if TYPE_CHECKING:
    from mcpagg_runtime.peers import Call, Question
    from mcpagg_runtime.wire import Message

# Newest first: https://modelcontextprotocol.io/specification, revisions with a handshake.
LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

# What a client may declare that the proxy can relay to it from a child.
RELAYED = ("roots", "sampling", "elicitation")

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
    those among what it declared that the proxy relays. `calls` are its requests in flight, oldest
    first, `questions` those that children have asked it, by the id that the proxy minted, and
    `subscriptions` the URIs that it wants news of.
    """

    __slots__ = (
        "calls",
        "capabilities",
        "info",
        "initialized",
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
        self.capabilities: dict[str, str] = {}
        self.spelling = SPELLINGS[names]
        self.initialized = False
        self.calls: list[Call] = []
        self.questions: dict[int, Question] = {}
        self.subscriptions: set[str] = set()
        self.next_id = 0

    def introduce(self, message: Message, names: str) -> None:
        """Note what the client says about itself in its `initialize`.

        Any revision that we know is spoken, anything else answered with the newest: some clients
        take another version than their own for fatal.
        """
        params = message.params
        asked = params.get("protocolVersion")
        self.version = asked if asked in LEGACY_VERSIONS else LEGACY_VERSIONS[0]
        self.name, self.info, self.capabilities = "", "", {}
        self.spelling = SPELLINGS[names]
        spans = members(message.text, message.members["params"][1])[0] if params else {}
        if type(params.get("clientInfo")) is dict:
            value, start, end = spans["clientInfo"]
            self.info = message.text[start:end]
            name = value.get("name")
            self.name = name if type(name) is str else ""
        if type(params.get("capabilities")) is dict:
            declared, _ = members(message.text, spans["capabilities"][1])
            for name in RELAYED:
                if name in declared and type(declared[name][0]) is dict:
                    _, start, end = declared[name]
                    self.capabilities[name] = message.text[start:end]
        if names == "auto" and self.name.lower().startswith(tuple(REFUSE_COLON)):
            self.spelling = "portable"
