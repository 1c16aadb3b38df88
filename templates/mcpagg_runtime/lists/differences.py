"""How two lists of a child differ, by value, and the text about that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.lists.catalogue import TOOLS
from mcpagg_runtime.lists.values import SETS, same
from mcpagg_runtime.messages.jsontext import parse
from mcpagg_runtime.messages.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from mcpagg_runtime.lists.catalogue import Catalogue, Item


# Members of `_meta` that name the page of a tool, the second in older servers.
_PAGE = ("ui", "ui/resourceUri")


class Difference:
    """What is in only one of two lists, or has another value there: own names of items.

    `changed` is {name: (the old item, the new one)}.
    """

    def __init__(self, old: Iterable[Item], new: Iterable[Item]) -> None:
        before = {item.original: item for item in old}
        now = {item.original: item for item in new}
        self.new = now
        """{own name: item} of the new list."""
        self.added = [name for name in now if name not in before]
        self.removed = [name for name in before if name not in now]
        both = {name: (before[name], now[name]) for name in now if name in before}
        self.changed = {name: pair for name, pair in both.items() if differs(*pair)}

    def classes(self, name: str) -> list[str]:
        """Return the classes of what became of an item, see `changes`."""
        if name in self.removed:
            return ["removed"]
        new = self.new[name]
        return new.classes or classes(self.changed[name][0] if name in self.changed else None, new)

    def all_classes(self) -> dict[str, list[str]]:
        """Return the classes of what became of each item that is not the same."""
        return {name: self.classes(name) for name in (*self.added, *self.removed, *self.changed)}

    def refused(self, accepted: Collection[str]) -> set[str]:
        """Return the items of the new list that are not as accepted: of any other class, too."""
        names = [*self.added, *self.changed]
        return {name for name in names if not {*self.classes(name)}.issubset(accepted)}

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def drift(catalogue: Catalogue, server: str, items: list[Item], shows_pages: bool) -> Difference:
    """Return how a child's list differs from its snapshot.

    A tool that depends on the client's capabilities may be missing. For a client that shows no
    pages, a server may list its tools without them, and leave out those that are for pages alone.
    """
    listed = {item.original: item for item in items}
    absent = catalogue.conditional[server] - listed.keys()
    expected = [item for item in catalogue.recorded(server) if item.original not in absent]
    if not shows_pages and catalogue.kind is TOOLS:
        pages = [_without_page(item, listed.get(item.original)) for item in expected]
        expected = [item for item in pages if item is not None]
    return Difference(expected, items)


def _without_page(item: Item, now: Item | None) -> Item | None:
    """Return an item as it is expected for a client that shows no pages, None if it may be missing.

    `now` is the item as the child lists it for such a client.
    """
    value = parse(item.listed("")) if any(item.names(name) for name in _PAGE) else {}
    meta = value.get("_meta")
    if type(meta) is not dict or not any(name in meta for name in _PAGE):
        return item
    value["_meta"] = {name: part for name, part in meta.items() if name not in _PAGE}
    if not value["_meta"]:
        del value["_meta"]
    return now if now is None or same(value, parse(now.listed("")), SETS) else item


def differs(old: Item, new: Item) -> bool:
    """Whether two items of one name have different values."""
    if new.compared is not None and new.compared[0] is old:
        return new.compared[1]
    if old.head == new.head and old.tail == new.tail:
        return False
    return not same(parse(old.listed("")), parse(new.listed("")), SETS)


def classes(old: Item | None, new: Item) -> list[str]:
    """Return the classes of an item that is new, or has another value than `old`."""
    from mcpagg_runtime.lists.changes import classes_of, classes_of_new  # few lists differ

    if old is None:
        return classes_of_new(parse(new.listed("")))
    return classes_of(parse(old.listed("")), parse(new.listed("")))


# How many items a line about a difference names, and with how many characters each.
SHOWN_NAMES = 20
NAME_WIDTH = 100


def drift_text(difference: Difference, redact: Callable[[str], str] = str) -> str:
    """Return `+added -removed ~changed(text)`, each name with its sign, the first SHOWN_NAMES.

    Each is redacted whole, before it is cut.
    """
    parts = (("+", difference.added), ("-", difference.removed), ("~", difference.changed))
    signed = [(mark, name) for mark, names in parts for name in names]
    shown = []
    for mark, name in signed[:SHOWN_NAMES]:
        found = [one for one in difference.classes(name) if one not in ("added", "removed")]
        text = mark + redact(name) + (f"({','.join(found)})" if found else "")
        shown.append(text if len(text) <= NAME_WIDTH else f"{text[:NAME_WIDTH]}…")
    more = f" and {len(signed) - SHOWN_NAMES} more" if len(signed) > SHOWN_NAMES else ""
    return printable(" ".join(shown) + more)
