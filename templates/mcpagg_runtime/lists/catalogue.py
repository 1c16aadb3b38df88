"""What the proxy lists: of each child its snapshot, or its live list where that is served.

An item of a list is kept as the text that its child gave, with a hole where the name stands, so
that a list costs a join and every field reaches the client unread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.lists.entries import legacy_item, overlaid, patches_of
from mcpagg_runtime.messages.jsontext import edited, members, rivals
from mcpagg_runtime.messages.protocol import MODERN_VERSION, SKILLS_EXTENSION
from mcpagg_runtime.plan.addresses import rewritten_item
from mcpagg_runtime.start.lists import cut_list
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.plan.plan import Plan

    Rewrite = Callable[[str, str], str]

# The members of a tool that only revisions with a handshake have (specification 2026-07-28, the
# changes).
LEGACY_ONLY = ("execution",)


class Kind:
    """One kind of list of the protocol.

    `method` requests it, `member` holds it in the result, `capability` (or the name of an
    extension) must be declared for it, and `key` is the member by which a client requests an item.
    `label` is the one that the proxy rewrites, `announcement` the notification of a change.
    """

    def __init__(
        self,
        name: str,
        method: str,
        member: str,
        capability: str,
        key: str,
        label: str = "name",
        announced: str = "",
    ) -> None:
        """`announced` is what the notification of a change names, "" for the capability."""
        self.name = name
        self.method = method
        self.member = member
        self.capability = capability
        self.key = key
        self.label = label
        self.announcement = f"notifications/{announced or capability}/list_changed"

    def is_declared(self, capabilities: Mapping[str, Any]) -> bool:
        """Whether a server with these capabilities has such a list."""
        extensions = capabilities.get("extensions")
        extended = type(extensions) is dict and self.capability in extensions
        return extended or self.capability in capabilities


TOOLS = Kind("tools", "tools/list", "tools", "tools", "name")
PROMPTS = Kind("prompts", "prompts/list", "prompts", "prompts", "name")
RESOURCES = Kind("resources", "resources/list", "resources", "resources", "uri")
TEMPLATES = Kind(
    "templates", "resources/templates/list", "resourceTemplates", "resources", "uriTemplate"
)
# The extension has no notification of its own; the files of skills are resources.
SKILLS = Kind("skills", "skills/list", "skills", SKILLS_EXTENSION, "uri", "uri", "resources")
KINDS = (TOOLS, PROMPTS, RESOURCES, TEMPLATES, SKILLS)


class Item:
    """One tool, prompt, resource or template of one child.

    `original` is its name, or URI, at its child. `exposed` and `portable` are the names that it is
    listed under; `head` and `tail` its JSON text before and behind the name. `compared` is the item
    of the snapshot that it was compared with, and whether it differs; `classes` are those of what
    has changed since then, [] for what is the same, or not known yet.
    """

    __slots__ = ("classes", "compared", "exposed", "head", "original", "portable", "server", "tail")

    def __init__(self, server: str, original: str, name: str, head: str, tail: str) -> None:
        self.server = server
        self.original = original
        self.exposed = name
        self.portable = name
        self.head = head
        self.tail = tail
        self.compared: tuple[Item, bool] | None = None
        self.classes: list[str] = []

    def listed(self, name: str) -> str:
        """Return the JSON text of the item under `name`."""
        return self.head + quote(name) + self.tail

    def mentions(self, text: str) -> bool:
        """Whether `text` may stand in the item, escaped or not."""
        parts = (self.head, self.tail)
        return text in self.original or any(text in part or "\\u00" in part for part in parts)

    def names(self, text: str) -> bool:
        """Whether `text` stands in the item as a string."""
        string = quote(text)
        return string in self.tail or string in self.head


class Catalogue:
    """One kind of list, of all children, as it is served now."""

    def __init__(self, kind: Kind, plan: Plan, outages: Collection[str]) -> None:
        """`outages` are the servers that are down, whose items are not listed."""
        facts = plan.children if kind is TOOLS else {}
        self.kind = kind
        self.face = plan.face
        """The server that is served as itself, "" for none."""
        self.servers = (*plan.servers, *([""] if plan.subtools else []))
        self.routes = plan.routes[kind.name]
        """The routing table.

        {exposed name: (server, own name, portable name)} for tools and prompts; {URI: (server,)}
        for resources and templates, or {exposed URI: (server, own URI)} where these differ; {listed
        URI: (server, own URI, listed URI)} for skills.
        """
        self.conditional = {
            server: frozenset(facts.get(server, {}).get("conditional", ()))
            for server in self.servers
        }
        """{server: the items that it lists only for a client with capabilities}."""
        self.live: dict[str, list[Item]] = {}
        """{server: the list that is served instead of its snapshot}."""
        self.version = 0
        """How often a list was replaced."""
        self.checked: set[str] = set()
        """The servers whose list was compared with the snapshot since this process started."""
        self._snapshot = plan.snapshot
        self._outages = outages
        self._modern = {
            name for name, known in facts.items() if known["protocol"] == MODERN_VERSION
        }
        """The modern servers, whose tools may have members that legacy clients do not know."""
        self._overlays = plan.overlays if kind is TOOLS else ""
        self._rows: dict[str, dict[str, list[str]]] = {}
        """The routing table by server: {server: {exposed name: the rest of its row}}."""
        for exposed, (server, *row) in self.routes.items():
            self._rows.setdefault(server, {})[exposed] = row
        self._recorded: dict[str, list[Item]] = {}
        self._names: dict[str, Item] = {}
        self._own: dict[tuple[str, str], Item] = {}

    def texts(self, client: Client, expose: Rewrite | None = None) -> list[str]:
        """Return the JSON texts of the items that a client gets, in the form of its era.

        `expose(uri, server)` returns the exposed URI of a server's own; None if all are the same.
        """
        patches: Mapping[tuple[str, str], str] = {}
        if self._overlays:
            patches = patches_of(self._overlays)
        texts = [
            (item.server, self._text(item, client, patches)) for item in self._visible_items(client)
        ]
        if expose is None:
            return [text for _, text in texts]

        def spelled(server: str, text: str) -> str:
            return rewritten_item(self.kind.name, text, lambda uri: expose(uri, server))

        return [spelled(server, text) for server, text in texts]

    def mentions(self, scheme: str) -> bool:
        """Whether a URI of this scheme may stand in the list, escaped or not."""
        kind, live = self.kind.name, self.live
        for server in self.servers:
            if server not in live and scheme in self._snapshot[server].get(kind, ""):
                return True
        items = [item for listed in live.values() for item in listed]
        return any(item.mentions(scheme[:-2]) for item in items)

    def _visible_items(self, client: Client) -> list[Item]:
        """Return the items that a client gets: conditional ones if it has capabilities."""
        return [
            item
            for server in self.servers
            if server not in self._outages
            for item in self.served(server)
            if client.capable or item.original not in self.conditional[server]
        ]

    def _text(self, item: Item, client: Client, patches: Mapping[tuple[str, str], str]) -> str:
        by_uri = self.kind.label == "uri"
        text = item.listed(item.original if by_uri else getattr(item, client.spelling))
        if client.is_modern and '"execution"' in text:
            # Modern tools have no such member, and tasks are not passed on.
            text = edited(text, drop=LEGACY_ONLY)
        patch = patches.get((item.server, item.original))
        wraps = item.server in self._modern and not client.is_modern and wraps_output(text)
        if not (patch or wraps):
            return text
        if patch:
            text = overlaid(text, patch)
            text = edited(text, drop=rivals(members(text)[0], members(patch)[0]))
        return legacy_item(text) if wraps else text

    @property
    def unchecked(self) -> bool:
        """Whether the list of a server that is not down is still to be compared."""
        return any(s and s not in self.checked and s not in self._outages for s in self.servers)

    def left_out(self, server: str) -> tuple[str, ...]:
        """Return the members that are dropped from the items of a server.

        A server of both eras gives them in one era alone; that is no change.
        """
        return LEGACY_ONLY if server in self._modern else ()

    @property
    def has_two_spellings(self) -> bool:
        """Whether an item has another portable name than the exposed one."""
        items = [item for server in self.servers for item in self.served(server)]
        return any(item.portable != item.exposed for item in items)

    def shown(self, server: str) -> str:
        """Return the server that is named beside its resources, "" for one as itself."""
        return "" if server == self.face else server

    def served(self, server: str) -> list[Item]:
        """Return the items of a child that are served, whether it is down or not."""
        return self.live[server] if server in self.live else self.recorded(server)

    def recorded(self, server: str) -> list[Item]:
        """Return the items of a child as the snapshot and the routing table have them."""
        if server not in self._recorded:
            kind = self.kind
            text = self._snapshot[server].get(kind.name, "[]")
            rows = self._rows.get(server, {})
            found = []
            shown = self.shown(server)
            for own, names, head, tail in cut_list(text, kind.key, kind.label, shown, rows):
                item = Item(server, own, names[0], head, tail)
                item.portable = names[1]
                found.append(item)
            # In one step: threads that compare a list read it without the lock.
            self._recorded[server] = found
        return self._recorded[server]

    def serve(self, server: str, items: list[Item]) -> None:
        """Serve `items` for a child from now on."""
        self.live[server] = items
        self.version += 1
        self._names, self._own = {}, {}

    def own(self, server: str, original: str) -> Item | None:
        """Return the item that a child serves under a name, or URI, of its own."""
        if not self._own:
            items = [item for name in self.servers for item in self.served(name)]
            self._own = {(item.server, item.original): item for item in reversed(items)}
        return self._own.get((server, original))

    def find(self, name: str) -> Item | None:
        """Return the item with this name, in any spelling, also of a child that is down.

        Of two resources with one URI, the one whose child is first in the config is returned.
        """
        if not self._names:
            items = [item for server in self.servers for item in self.served(server)]
            if self.kind.key != "name":
                self._names = {item.original: item for item in reversed(items)}
            if self.kind.key == self.kind.label:
                self._names.update({item.portable: item for item in items})
                self._names.update({item.exposed: item for item in items})
        return self._names.get(name)


def wraps_output(text: str) -> bool:
    """Whether `legacy_item` is to wrap the output schema: older revisions allow objects alone."""
    if '"outputSchema"' not in text:
        return False
    schema = members(text)[0].get("outputSchema", (None,))[0]
    return type(schema) is dict and schema.get("type") != "object"
