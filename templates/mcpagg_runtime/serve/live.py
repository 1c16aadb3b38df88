"""Names what a child lists while it runs, and says how that differs from another list."""

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
from mcpagg_runtime.serve.secrecy import printable
from mcpagg_runtime.start.catalogue import RESOURCES, TOOLS, labelled
from mcpagg_runtime.start.jsontext import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from mcpagg_runtime.start.catalogue import Catalogue, Item
    from mcpagg_runtime.start.plan import Options

    Row = Mapping[str, Any]

# What a person or a model reads, and no program acts upon.
_WORDS = ("title", "description", "icons")
# Members of `_meta` that name the page of a tool, the second one in older servers.
_PAGE = ("ui", "ui/resourceUri")
# Members of a schema whose lists of strings are sets: their order means nothing.
SETS = ("required", "type")
# How many items the line about a difference names, and how many characters of each.
SHOWN_NAMES = 20
NAME_WIDTH = 100


class Difference:
    """How a list of a child differs from another one, by value and whatever the order.

    `added`, `removed` and `changed` are the items' own names; `changed` {name: what changed of it:
    text, annotations, schema, other}, more than one word where more than one did.
    """

    __slots__ = ("added", "changed", "removed")

    def __init__(self, old: Iterable[Item], new: Iterable[Item]) -> None:
        before = {item.original: item for item in old}
        now = {item.original: item for item in new}
        self.added = [name for name in now if name not in before]
        self.removed = [name for name in before if name not in now]
        both = [name for name in now if name in before]
        changed = {name: nature(before[name], now[name]) for name in both}
        self.changed = {name: nature for name, nature in changed.items() if nature}

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        """`+added -removed ~changed(schema)`, each name with its sign, the first SHOWN_NAMES."""
        changed = [f"{name}({nature})" for name, nature in self.changed.items()]
        marks = (("+", self.added), ("-", self.removed), ("~", changed))
        signed = [mark + name for mark, names in marks for name in names]
        shown = [text if len(text) <= NAME_WIDTH else f"{text[:NAME_WIDTH]}…" for text in signed]
        more = len(shown) - SHOWN_NAMES
        said = " ".join(shown[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
        return printable(said)


def drift(catalogue: Catalogue, server: str, items: list[Item], shows_pages: bool) -> Difference:
    """Return how what a child says now differs from its snapshot.

    A tool that depends on the client's capabilities may be missing. To a client that shows no
    pages, a server may list its tools without them, and leave those out that are for pages only.
    """
    listed = {item.original: item for item in items}
    absent = catalogue.conditional[server] - listed.keys()
    expected = [item for item in catalogue.recorded(server) if item.original not in absent]
    if not shows_pages and catalogue.kind is TOOLS:
        pages = [_without_page(item, listed.get(item.original)) for item in expected]
        expected = [item for item in pages if item is not None]
    return Difference(expected, items)


def _without_page(item: Item, now: Item | None) -> Item | None:
    """Return what is expected of an item for clients that show no pages, None for nothing.

    `now` is the item as it is listed to one.
    """
    value = parse(item.listed(""))
    meta = value.get("_meta")
    if type(meta) is not dict or not any(name in meta for name in _PAGE):
        return item
    value["_meta"] = {name: one for name, one in meta.items() if name not in _PAGE}
    if not value["_meta"]:
        del value["_meta"]
    return now if now is None or same(value, parse(now.listed("")), SETS) else item


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


def renewed(old: Iterable[Item], new: Iterable[Item]) -> list[str]:
    """Return the names of items that one of two lists lacks, or that may look different in them.

    Without reading their values: equal ones in another text count as different, unless both are
    known to be equal to a third.
    """
    before = {item.original: item for item in old}
    now = {item.original: item for item in new}
    return [
        name
        for name in {**before, **now}
        if name not in before or name not in now or not _look_alike(before[name], now[name])
    ]


def _look_alike(one: Item, other: Item) -> bool:
    same_text = one.head == other.head and one.tail == other.tail
    return same_text or _equal_of(one) is _equal_of(other)


def _equal_of(item: Item) -> Item:
    """Return the item that this one is known to be equal to, or itself."""
    return item.compared[0] if item.compared is not None and not item.compared[1] else item


def nature(old: Item, new: Item) -> str:
    """Say what changed between two items of one name, "" for nothing; the new one keeps it."""
    if new.compared is None or new.compared[0] is not old:
        same_text = old.head == new.head and old.tail == new.tail
        found = "" if same_text else _nature(parse(old.listed("")), parse(new.listed("")))
        new.compared = old, found
    return new.compared[1]


def _nature(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Say what changed between two values of one item, "" for nothing.

    Descriptions inside a schema are text; a flipped annotation never is.
    """
    if same(before, now, SETS):
        return ""
    natures = dict.fromkeys(
        _member_nature(name, before.get(name), now.get(name))
        for name in {**before, **now}
        if not (name in before and name in now and same(before[name], now[name], SETS))
    )
    return ",".join(natures)


def _member_nature(name: str, before: Any, now: Any) -> str:
    if name in _WORDS:
        return "text"
    if name == "annotations":
        return "annotations"
    if name.endswith("Schema"):
        try:
            return "text" if same(_bare(before), _bare(now), SETS) else "schema"
        except RecursionError:
            return "schema"
    return "other"


def _bare(schema: Any) -> Any:
    """Return a schema without the words in it; a property may be called `title`."""
    if type(schema) is list:
        return [_bare(part) for part in schema]
    if type(schema) is not dict:
        return schema
    return {
        name: _bare(part)
        for name, part in schema.items()
        if name not in ("title", "description") or type(part) is not str
    }


def same(one: Any, other: Any, sets: tuple[str, ...] = ()) -> bool:
    """JSON equality: Python's own holds true and 1 for equal, and NaN for unlike itself.

    `sets` names members whose lists of strings are equal in any order.
    """
    pairs = [(one, other)]
    while pairs:
        one, other = pairs.pop()
        if type(one) is dict and type(other) is dict:
            if one.keys() != other.keys():
                return False
            pairs += [
                (_sorted(one[key]), _sorted(other[key])) if key in sets else (one[key], other[key])
                for key in one
            ]
        elif type(one) is list and type(other) is list:
            if len(one) != len(other):
                return False
            pairs += [(one[index], other[index]) for index in range(len(one))]
        elif type(one) is bool or type(other) is bool:
            if one is not other:
                return False
        elif one != other and not (type(one) is type(other) is float and repr(one) == repr(other)):
            return False
    return True


def _sorted(value: Any) -> Any:
    """Return a list of strings in an order of its own; any other value as it is."""
    if type(value) is list and all(type(item) is str for item in value):
        return sorted(value)
    return value
