"""Names what a child lists while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.serve.names import (
    exposed_name,
    hashed_name,
    hides_address,
    offered,
    portable_names,
    prefixes,
    server_address,
)
from mcpagg_runtime.start.catalogue import RESOURCES, TOOLS, labelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from mcpagg_runtime.start.catalogue import Catalogue, Item
    from mcpagg_runtime.start.plan import Options

    Row = Mapping[str, Any]


def name_items(
    catalogue: Catalogue, server: str, row: Row, items: list[Item], options: Options
) -> list[Item]:
    """Give a child's items, each once, the names that they are listed under; return them.

    The config filters tools and resources; what has a name that another child's has is left out.
    """
    if catalogue.kind is TOOLS:
        items = [item for item in items if offered(item.original, row)]
    elif catalogue.kind.capability == RESOURCES.capability:
        items = [item for item in items if not hides_address(item.original, row)]
    if catalogue.kind.key == "name":
        return _named(catalogue, server, row, items, options)
    for item in items:
        if catalogue.kind.label == "name":
            item.exposed = item.portable = labelled(server, item.exposed)
        elif catalogue.apart:
            item.exposed = item.portable = server_address(item.original, server)
    return items


def _named(
    catalogue: Catalogue, server: str, row: Row, items: list[Item], options: Options
) -> list[Item]:
    """Name tools or prompts; one keeps the names that it had."""
    recorded, live = catalogue.recorded(server), catalogue.live
    known = {item.original: item for item in [*live.get(server, ()), *recorded]}
    taken: dict[str, tuple[str, str]] = {}
    for other in [t for others in live.values() for t in others]:
        taken[other.exposed] = taken[other.portable] = other.server, other.original
    for exposed, route in catalogue.routes.items():
        taken[exposed] = taken[route[2]] = route[0], route[1]
    is_anothers = _foreign(server, row, catalogue.servers, options)
    named: dict[str, Item] = {}
    for item in items:
        if item.original in known:
            item.exposed = known[item.original].exposed
        elif options.names != "bare":
            item.exposed = exposed_name(server, item.original, row, options.separator)
        owner = server, item.original
        free = taken.get(item.exposed, owner) == owner
        if free and item.original not in known and is_anothers(item.exposed):
            item.exposed = hashed_name(item.exposed)
        if taken.setdefault(item.exposed, owner) == owner:
            named[item.original] = item
    portable = portable_names([*taken])
    for item in named.values():
        same = known.get(item.original)
        item.portable = same.portable if same else portable[item.exposed]
        if same is None and item.portable != item.exposed and is_anothers(item.portable):
            item.portable = hashed_name(item.exposed)
    return list(named.values())


def _foreign(
    server: str, row: Row, servers: Iterable[str], options: Options
) -> Callable[[str], bool]:
    """Return what tells whether a name of a server's new item begins as those of another one do.

    Where names have no prefix, or the config has chosen them, they are nobody's.
    """
    chosen = frozenset(row.get("rename", {}).values())
    known = prefixes([name for name in servers if name], options.separator)

    def is_anothers(name: str) -> bool:
        owner = next((owner for owner, prefix in known if name.startswith(prefix)), server)
        return options.names != "bare" and name not in chosen and owner != server

    return is_anothers
