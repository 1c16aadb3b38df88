"""What a proxy lists: each item of the snapshot that has a route, with the names it goes by."""

from __future__ import annotations

from typing import NamedTuple

from mcpagg.passes.linking.linking import Linked
from mcpagg.snapshot import Json, Snapshot
from mcpagg_runtime.lists.catalogue import KINDS, TOOLS, Kind


class ListedItem(NamedTuple):
    """One item: `own` is what its server calls it (a URI, where it has one).

    A composite tool has the server "". What has no portable name is known by `exposed` alone.
    """

    server: str
    kind: Kind
    own: str
    value: Json
    exposed: str
    portable: str

    def name(self, names: str) -> str:
        """Return the name by which most clients see it, with the option `names`."""
        return self.portable if names == "portable" else self.exposed


def listed_items(snapshot: Snapshot, linked: Linked) -> dict[str, list[ListedItem]]:
    """Return {server: what is listed of it}, in its order and once each; composite tools come last.

    `snapshot` has its tools as they are listed (see `overlays`).
    """
    names: dict[tuple[str, str, str], tuple[str, str]] = {}
    for kind in KINDS:
        for exposed, (server, *own) in linked.routes[kind.name].items():
            key = own[0] if own else exposed
            names[server, kind.name, key] = exposed, own[-1] if len(own) > 1 else exposed
    listed: dict[str, list[ListedItem]] = {}
    for child in snapshot.children:
        items = listed[child.name] = []
        for kind in KINDS:
            for item in child.items(kind):
                spelled = names.pop((child.name, kind.name, item[kind.key]), None)
                if spelled is not None:
                    items.append(ListedItem(child.name, kind, item[kind.key], item, *spelled))
    for tool in linked.composed.tools:
        name = tool["name"]
        composite = ListedItem("", TOOLS, name, tool, *names["", TOOLS.name, name])
        listed.setdefault("", []).append(composite)
    return listed
