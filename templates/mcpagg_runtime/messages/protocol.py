"""What the protocol defines: versions, methods, names of members, error codes.

https://modelcontextprotocol.io/specification
"""

from __future__ import annotations

# Those with a handshake are in start/greeting.
BATCH_VERSION = "2025-03-26"  # the one revision in which a line may hold an array of messages
# The revision without: every request carries who asks, in an envelope of members of params._meta.
MODERN_VERSION = "2026-07-28"

LEGACY = "legacy"
MODERN = "modern"

# Members of `_meta`.
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
INFO_KEY = "io.modelcontextprotocol/clientInfo"
LEVEL_KEY = "io.modelcontextprotocol/logLevel"
ENVELOPE = frozenset({VERSION_KEY, CAPABILITIES_KEY, INFO_KEY, LEVEL_KEY})
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
SERVER_MARK = "mcpagg/server"  # our own: which server asks a client

# Extensions.
SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
# Schemes of pages, which tools name, and of skills: a URI that two servers have is qualified.
# https://github.com/modelcontextprotocol/ext-apps, https://github.com/modelcontextprotocol/ext-skills
PAGE_SCHEME = "ui://"
SKILL_SCHEME = "skill://"
APART = (PAGE_SCHEME, SKILL_SCHEME)
PAGES = "io.modelcontextprotocol/ui"  # of clients that show the pages of tools

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_TIMEOUT = -32001  # the SDKs' own code for it
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020  # this and the next two are of the modern revision
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042
# Errors that only a modern server answers with.
MODERN_CODES = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)

# https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

# What a server may ask a client, and the capability that the client must have declared for it.
CLIENT_METHODS = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}

# What a URI may be of.
_BY_URI = ("resources", "templates", "skills")
_BY_REFERENCE = ("prompts", "resources", "templates")


class Method:
    """What a method is that clients call and servers answer; METHODS has one row for each.

    `capability` is what some server must have declared for it. `member` is the member of params
    that says what it is for, by which it is routed: "name", "uri", "ref", or "" for none; `kind`
    is the name of the list (see KINDS) that a "name" is looked up in, and `lists` are those whose
    withheld items it is refused for: by default that one, or all that a URI may be of. `asks` says
    whether a modern client may be asked for input before the result, `cached` whether a modern
    result has cache hints, `repeated` whether a header of HTTP repeats `member`, and `modern`
    whether the modern revision has the method.
    """

    __slots__ = ("asks", "cached", "capability", "kind", "lists", "member", "modern", "repeated")

    def __init__(
        self,
        capability: str,
        member: str = "",
        kind: str = "",
        lists: tuple[str, ...] = (),
        *,
        asks: bool = False,
        cached: bool = False,
        repeated: bool = False,
        modern: bool = True,
    ) -> None:
        self.capability = capability
        self.member = member
        self.kind = kind
        self.lists = lists or (_BY_URI if member == "uri" else (kind,))
        self.asks = asks
        self.cached = cached
        self.repeated = repeated
        self.modern = modern


METHODS = {
    "tools/call": Method("tools", "name", "tools", asks=True, repeated=True),
    "prompts/get": Method("prompts", "name", "prompts", asks=True, repeated=True),
    "resources/read": Method("resources", "uri", asks=True, cached=True, repeated=True),
    "resources/subscribe": Method("resources", "uri", modern=False),
    "resources/unsubscribe": Method("resources", "uri", modern=False),
    "completion/complete": Method("completions", "ref", lists=_BY_REFERENCE),
    "logging/setLevel": Method("logging", modern=False),
    "skills/get": Method(SKILLS_EXTENSION, "uri", lists=("skills",), cached=True),
    "resources/directory/read": Method(SKILLS_EXTENSION, "uri"),
}
OTHER = Method("", modern=False)  # what every method is that has no row
LISTEN = "subscriptions/listen"

INITIALIZED = "notifications/initialized"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
LOG_MESSAGE = "notifications/message"
ROOTS_CHANGED = "notifications/roots/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
LISTS_CHANGED = frozenset(
    f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
)
# Notifications that only a client may send, and those that only a server may.
OF_CLIENTS = frozenset({INITIALIZED, ROOTS_CHANGED})
OF_SERVERS = LISTS_CHANGED | {
    LOG_MESSAGE,
    RESOURCE_UPDATED,
    "notifications/elicitation/complete",
    ACKNOWLEDGED,
}

# What else the protocol itself defines, in any revision: no extension's, so no server with one is
# asked for it. https://modelcontextprotocol.io/specification, the schemas
PROTOCOL_METHODS = frozenset(
    {
        *("initialize", "ping", "server/discover", LISTEN, *CLIENT_METHODS),
        *("tools/list", "prompts/list", "resources/list", "resources/templates/list"),
        *("skills/list", "tasks/get", "tasks/list", "tasks/cancel", "tasks/result", "tasks/update"),
    }
)
