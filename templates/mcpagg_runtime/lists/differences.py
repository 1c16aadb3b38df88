"""How two lists of a child differ, by value, and the text about that.

The compiler classes changes by the same rules (`member_class`) and looks deeper into schemas: what
is compatible here is compatible there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.lists.catalogue import TOOLS
from mcpagg_runtime.messages.jsontext import parse
from mcpagg_runtime.messages.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mcpagg_runtime.lists.catalogue import Catalogue, Item


# Members of `_meta` that name the page of a tool, the second in older servers.
_PAGE = ("ui", "ui/resourceUri")
# Members of a schema whose lists of strings are sets: their order has no meaning.
SETS = ("required", "type")


class Difference:
    """What is in only one of two lists, or has another value there: own names of items.

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
    """Return a list of strings sorted; any other value as it is."""
    if type(value) is list and all(type(item) is str for item in value):
        return sorted(value)
    return value


# Members that people and models read, and no program acts upon.
_TEXTS = ("title", "description", "icons")
_OF_OBJECTS = {"properties", "required"}
# How many items a line about a difference names, and with how many characters each.
SHOWN_NAMES = 20
NAME_WIDTH = 100


def drift_text(difference: Difference) -> str:
    """Return `+added -removed ~changed(text)`, each name with its sign, the first SHOWN_NAMES."""
    parts = (("+", difference.added), ("-", difference.removed), ("~", difference.changed))
    signed = [(mark, name) for mark, names in parts for name in names]
    shown = []
    for mark, name in signed[:SHOWN_NAMES]:
        found = f"({classes(*difference.changed[name])})" if mark == "~" else ""
        text = mark + name + found
        shown.append(text if len(text) <= NAME_WIDTH else f"{text[:NAME_WIDTH]}…")
    more = f" and {len(signed) - SHOWN_NAMES} more" if len(signed) > SHOWN_NAMES else ""
    return printable(" ".join(shown) + more)


def classes(old: Item, new: Item) -> str:
    """Return the classes of what changed between two items, joined by commas."""
    before, now = parse(old.listed("")), parse(new.listed(""))
    found = dict.fromkeys(
        member_class(name, before.get(name), now.get(name))
        for name in {**before, **now}
        if not (name in before and name in now and same(before[name], now[name], SETS))
    )
    return ",".join(found)


def member_class(name: str, before: Any, now: Any) -> str:
    """Return the class of a change of one member of an item, `before` or `now` None for none.

    `text`: what a person or a model reads, in a schema too. `hint`: what a tool says that it does
    (`readOnlyHint`, `destructiveHint`, …). `schema-breaking`, `schema-compatible`: what it takes
    and returns. `other`: the rest.
    """
    if name in _TEXTS:
        return "text"
    is_schema = name.endswith("Schema") or name == "arguments"
    if not is_schema and name != "annotations":
        return "other"
    if name == "arguments":
        before, now = arguments_schema(before), arguments_schema(now)
    before, now = _without_texts(before), _without_texts(now)
    if same(before, now, SETS):
        return "text"
    if not is_schema:
        return "hint"
    is_safe = _is_compatible(before, now, name == "outputSchema")
    return "schema-compatible" if is_safe else "schema-breaking"


def arguments_schema(arguments: Any) -> Any:
    """Return the arguments of a prompt as the schema of an object."""
    listed = arguments if type(arguments) is list else []
    known = {str(entry.get("name")): entry for entry in listed if type(entry) is dict}
    return {
        "properties": {
            name: {key: value for key, value in entry.items() if key not in ("name", "required")}
            for name, entry in known.items()
        },
        "required": [name for name, entry in known.items() if entry.get("required") is True],
    }


def _is_compatible(before: Any, now: Any, output: bool) -> bool:
    """Whether the change of a schema is plainly compatible.

    Of arguments, it adds optional properties or requires fewer; of an output, it adds properties or
    requires more. Anything else counts as breaking here; `--check` looks deeper.
    """
    if before is None or now is None:
        return (before is None) == output
    if type(before) is not dict or type(now) is not dict:
        return same(before, now, SETS)
    others = [{key: schema[key] for key in schema.keys() - _OF_OBJECTS} for schema in (before, now)]
    if not same(others[0], others[1], SETS):
        return False
    old, new = (_object(schema.get("properties")) for schema in (before, now))
    had, has = (_names(schema.get("required")) for schema in (before, now))
    if old.keys() - new.keys() or new.keys() & had - old.keys():
        return False
    if had - has if output else has - had:
        return False
    return all(_is_compatible(old[name], new[name], output) for name in old)


def _object(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


def _names(value: Any) -> set[str]:
    return {name for name in value if type(name) is str} if type(value) is list else set()


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
