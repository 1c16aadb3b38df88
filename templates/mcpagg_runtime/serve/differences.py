"""How a list of a child differs from another one: by value, and whatever the order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.catalogue import TOOLS
from mcpagg_runtime.base.jsontext import parse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mcpagg_runtime.base.catalogue import Catalogue, Item

# Members of `_meta` that name the page of a tool, the second one in older servers.
_PAGE = ("ui", "ui/resourceUri")
# Members of a schema whose lists of strings are sets: their order means nothing.
SETS = ("required", "type")


class Difference:
    """What is in one of two lists alone, or of another value: the items' own names.

    `changed` is {name: (the old item, the new one)}.
    """

    def __init__(self, old: Iterable[Item], new: Iterable[Item]) -> None:
        before = {item.original: item for item in old}
        now = {item.original: item for item in new}
        self.added = [name for name in now if name not in before]
        self.removed = [name for name in before if name not in now]
        both = {name: (before[name], now[name]) for name in now if name in before}
        self.changed = {name: pair for name, pair in both.items() if differs(*pair)}

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


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
    value = parse(item.listed("")) if any(item.names(name) for name in _PAGE) else {}
    meta = value.get("_meta")
    if type(meta) is not dict or not any(name in meta for name in _PAGE):
        return item
    value["_meta"] = {name: one for name, one in meta.items() if name not in _PAGE}
    if not value["_meta"]:
        del value["_meta"]
    return now if now is None or same(value, parse(now.listed("")), SETS) else item


def differs(old: Item, new: Item) -> bool:
    """Whether two items of one name are of different values."""
    if new.compared is not None and new.compared[0] is old:
        return new.compared[1]
    if old.head == new.head and old.tail == new.tail:
        return False
    return not same(parse(old.listed("")), parse(new.listed("")), SETS)


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
