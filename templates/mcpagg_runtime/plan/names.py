"""The names that clients see.

The exposed name is `server:tool`, the config key exactly as written. Some clients refuse a colon,
and drop every tool of a server over one such name, so each tool has a portable name too. Names
are looked up in a table, never split, so a separator inside a key or a tool name is harmless.

The compiler names the snapshot with this module, the emitted file what is new in a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.digest import sha256_of
from mcpagg_runtime.start.own import PORTABLE, is_portable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from mcpagg_runtime.lists.catalogue import Catalogue, Item
    from mcpagg_runtime.plan.plan import Options

    Row = Mapping[str, Any]

PORTABLE_LIMIT = 50
_HASH_LENGTHS = (6, 12, 32)


def exposed_name(server: str, tool: str, row: Row, separator: str) -> str:
    """Return the name that a client sees for a server's tool."""
    renamed: str | None = row.get("rename", {}).get(tool)
    return renamed if renamed is not None else server + separator + tool


def portable_names(exposed: Iterable[str]) -> dict[str, str]:
    """Return a portable name for each exposed one: unique, and the same whatever the order.

    A name is cleaned to `[A-Za-z0-9_-]` with runs of `_` folded into one. Where that makes two
    alike, or equal to another exposed name, or longer than PORTABLE_LIMIT, it ends in a short hash
    of the exposed name; where that is another's name as well, in a longer hash.
    """
    names = {name: _sanitized(name) for name in exposed}
    for length in _HASH_LENGTHS:
        count: dict[str, int] = {}
        for short in names.values():
            count[short] = count.get(short, 0) + 1
        for name, short in names.items():
            is_exposed = short in names and short != name
            if count[short] > 1 or is_exposed or not 0 < len(short) <= PORTABLE_LIMIT:
                names[name] = _hashed(name, length)
    return names


def own_portable_names(names: Iterable[str]) -> dict[str, str]:
    """Return a portable name for each of a server's own names: itself, where that is portable."""
    names = [*names]
    cleaned = portable_names(names)
    return {name: name if is_portable(name) else cleaned[name] for name in names}


def prefix_of(name: str, servers: Iterable[str], separator: str) -> str | None:
    """Return the server whose prefix `name` starts with, in either spelling; the longest wins."""
    known = prefixes(servers, separator)
    return next((server for server, prefix in known if name.startswith(prefix)), None)


def prefixes(servers: Iterable[str], separator: str) -> list[tuple[str, str]]:
    """Return each server with its prefix in either spelling, those of the longest name first."""
    spelled = [(server, (server + separator, f"{_sanitized(server)}_")) for server in servers]
    found = [(server, prefix) for server, both in spelled for prefix in both if prefix != "_"]
    return sorted(found, key=lambda pair: -len(pair[0]))


def hashed_name(name: str) -> str:
    """Return a portable name for an exposed one that ends in a short hash of it."""
    return _hashed(name, _HASH_LENGTHS[0])


def name_new(
    items: list[Item], catalogue: Catalogue, server: str, row: Row, options: Options
) -> list[Item]:
    """Give new tools or prompts of a child their names; return those that can have one.

    An item whose name another child's has is left out, as by the compiler.
    """
    owners: dict[str, tuple[str, str]] = {}
    for other in [item for items_ in catalogue.live.values() for item in items_]:
        owners[other.exposed] = owners[other.portable] = other.server, other.original
    for exposed, route in catalogue.routes.items():
        owners[exposed] = owners[route[2]] = route[0], route[1]
    others = () if server == catalogue.face else catalogue.servers
    is_anothers = _anothers_prefix(server, row, others, options)
    named = []
    for item in items:
        if server == catalogue.face:
            item.exposed = row.get("rename", {}).get(item.original, item.original)
        elif options.names != "bare":
            item.exposed = exposed_name(server, item.original, row, options.separator)
        owner = server, item.original
        if owners.get(item.exposed, owner) == owner and is_anothers(item.exposed):
            item.exposed = hashed_name(item.exposed)
        if owners.setdefault(item.exposed, owner) == owner:
            named.append(item)
    spell = own_portable_names if server == catalogue.face else portable_names
    portable = spell([*owners])
    for item in named:
        item.portable = portable[item.exposed]
        if item.portable != item.exposed and is_anothers(item.portable):
            item.portable = hashed_name(item.exposed)
    return named


def _anothers_prefix(
    server: str, row: Row, servers: Iterable[str], options: Options
) -> Callable[[str], bool]:
    """Return a function: whether the name of a server's new item has another server's prefix.

    Names without prefixes, and those that the config has chosen, have none.
    """
    chosen = frozenset(row.get("rename", {}).values())
    known = prefixes([name for name in servers if name], options.separator)

    def is_anothers(name: str) -> bool:
        owner = next((owner for owner, prefix in known if name.startswith(prefix)), server)
        return options.names != "bare" and name not in chosen and owner != server

    return is_anothers


def _sanitized(name: str) -> str:
    text = "".join([char if char in PORTABLE else "_" for char in name])
    while "__" in text:
        text = text.replace("__", "_")
    return text.strip("_")


def _hashed(name: str, length: int) -> str:
    mark = sha256_of(name)[:length]
    return f"{_sanitized(name)[: PORTABLE_LIMIT - length - 1].rstrip('_-') or 'tool'}_{mark}"
