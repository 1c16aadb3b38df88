"""The state that the router keeps of each child, and of what is under way between peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.catalogue import Tool
    from mcpagg_runtime.client import Client
    from mcpagg_runtime.wire import Message

CREATED = "created"  # never asked for
QUEUED = "queued"  # to be started as soon as fewer are starting
STARTING = "starting"  # process asked for, handshake not finished
READY = "ready"
DOWN = "down"  # failed to start, or died; `reason` says how

FOREVER = float("inf")


class OwnRequest:
    """One request of the proxy itself to a child: its handshake, its list."""

    __slots__ = ("method",)

    def __init__(self, method: str) -> None:
        self.method = method


class Call:
    """One request of a client on its way to a child.

    `name` is the tool as the client named it, `original` as its child does, "" while the child has
    still to be asked for such a tool. `identifier` is the client's id as JSON text, `key` the same
    id as a value; `token` is the JSON text of its progress token, "" for none. `deadline`
    is a time of the router's clock.
    """

    __slots__ = (
        "child",
        "child_id",
        "client",
        "deadline",
        "identifier",
        "key",
        "message",
        "name",
        "original",
        "token",
    )

    def __init__(self, client: Client, message: Message, child: Child, name: str) -> None:
        self.client = client
        self.message = message
        self.child = child
        self.name = name
        self.original = ""
        self.identifier = message.raw("id")
        self.key = message.id
        self.token = ""
        self.child_id = 0
        self.deadline = FOREVER


class Question:
    """One request of a child on its way to a client, with the child's id as text and value."""

    __slots__ = ("child", "client", "client_id", "identifier", "key")

    def __init__(self, child: Child, client: Client, message: Message, client_id: int) -> None:
        self.child = child
        self.client = client
        self.identifier = message.raw("id")
        self.key = message.id
        self.client_id = client_id


class Child:
    """One server behind the proxy, over all its lives.

    `waiting` are calls that came before it was ready, `unknown` those for a tool that it may have
    got since the snapshot; `calls` are clients' requests in flight by the id that the proxy minted,
    and `own` the proxy's own; `questions` are its own requests to clients, oldest first. `client`
    is the one whose message started it: it is initialised with that client's capabilities.
    `refused` says why {name that a client may use} is withheld, `pages` are the cursors followed
    in the reading under way. `deadline` is when its handshake or that reading has taken too long.
    """

    __slots__ = (
        "calls",
        "client",
        "compared",
        "deadline",
        "drift",
        "listed",
        "listing",
        "lists_tools",
        "name",
        "next_id",
        "own",
        "pages",
        "questions",
        "ready_at",
        "reason",
        "refused",
        "relist_at",
        "relist_pause",
        "row",
        "served_at",
        "state",
        "unknown",
        "waiting",
        "warned",
    )

    def __init__(self, name: str, row: Mapping[str, Any]) -> None:
        self.name = name
        self.row = row
        self.next_id = 0
        self.warned = False
        self.reset(CREATED)

    def reset(self, state: str, reason: str = "") -> None:
        """Forget one life; ids go on, so that nothing of it can be taken for the next one's."""
        self.state = state
        self.reason = reason
        self.client: Client | None = None
        self.calls: dict[int, Call] = {}
        self.own: dict[int, OwnRequest] = {}
        self.waiting: list[Call] = []
        self.unknown: list[Call] = []
        self.questions: list[Question] = []
        self.refused: dict[str, str] = {}
        self.deadline = FOREVER
        self.ready_at = FOREVER
        self.lists_tools = False
        self.compared = False
        self.listing = False
        self.listed: list[Tool] = []
        self.pages: set[str] = set()
        self.drift = ""
        self.relist_at = FOREVER
        self.relist_pause = 0.0
        self.served_at = -FOREVER
