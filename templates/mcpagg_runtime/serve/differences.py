"""How a list of a child differs from another one: by value, and in which classes.

The compiler classes changes by the same rules (`member_class`), and goes into schemas further.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.catalogue import TOOLS
from mcpagg_runtime.base.jsontext import parse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mcpagg_runtime.base.catalogue import Catalogue, Item

# What a person or a model reads, and no program acts upon.
_TEXTS = ("title", "description", "icons")
# Members of `_meta` that name the page of a tool, the second one in older servers.
_PAGE = ("ui", "ui/resourceUri")
# Members of a schema whose lists of strings are sets: their order means nothing.
SETS = ("required", "type")
# How many items the line about a difference names, and how many characters of each.
SHOWN_NAMES = 20
NAME_WIDTH = 100


class Difference:
    """How a list of a child differs from another one, by value and whatever the order.

    `added`, `removed` and `changed` are the items' own names; `changed` {name: its classes}.
    """

    __slots__ = ("added", "changed", "removed")

    def __init__(self, old: Iterable[Item], new: Iterable[Item]) -> None:
        before = {item.original: item for item in old}
        now = {item.original: item for item in new}
        self.added = [name for name in now if name not in before]
        self.removed = [name for name in before if name not in now]
        both = [name for name in now if name in before]
        changed = {name: classes(before[name], now[name]) for name in both}
        self.changed = {name: found for name, found in changed.items() if found}

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        """`+added -removed ~changed(schema)`, each name with its sign, the first SHOWN_NAMES."""
        if not self:
            return ""
        from mcpagg_runtime.rare.secrecy import printable

        changed = [f"{name}({found})" for name, found in self.changed.items()]
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
    value = parse(item.listed("")) if any(item.names(name) for name in _PAGE) else {}
    meta = value.get("_meta")
    if type(meta) is not dict or not any(name in meta for name in _PAGE):
        return item
    value["_meta"] = {name: one for name, one in meta.items() if name not in _PAGE}
    if not value["_meta"]:
        del value["_meta"]
    return now if now is None or same(value, parse(now.listed("")), SETS) else item


def classes(old: Item, new: Item) -> str:
    """Return the classes of what changed between two items of one name.

    They are joined by commas, "" for no change; see `member_class`.
    """
    if new.compared is not None and new.compared[0] is old:
        return new.compared[1]
    if old.head == new.head and old.tail == new.tail:
        return ""
    return _classes(parse(old.listed("")), parse(new.listed("")))


def _classes(before: dict[str, Any], now: dict[str, Any]) -> str:
    if same(before, now, SETS):
        return ""
    found = dict.fromkeys(
        member_class(name, before.get(name), now.get(name))
        for name in {**before, **now}
        if not (name in before and name in now and same(before[name], now[name], SETS))
    )
    return ",".join(found)


def member_class(name: str, before: Any, now: Any) -> str:
    """Return the class of a change of one member of an item.

    `text`: what a person or a model reads, in a schema too. `hint`: what a tool says that it does
    (`readOnlyHint`, `destructiveHint`, …). `schema`: what it takes and returns. `other`: the rest.
    """
    if name in _TEXTS:
        return "text"
    found = "hint" if name == "annotations" else "other"
    if name.endswith("Schema") or name == "arguments":
        found = "schema"
    if found == "other":
        return found
    try:
        return "text" if same(_without_texts(before), _without_texts(now), SETS) else found
    except RecursionError:
        return found


def _without_texts(value: Any) -> Any:
    """Return a schema, or hints, less the texts in it; a property may be called `title`."""
    if type(value) is list:
        return [_without_texts(part) for part in value]
    if type(value) is not dict:
        return value
    return {
        name: _without_texts(part)
        for name, part in value.items()
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
