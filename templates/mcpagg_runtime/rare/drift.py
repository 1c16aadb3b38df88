"""What is said of a list that differs from another one: names, and the classes of what changed.

The compiler classes changes by the same rules (`member_class`), and goes into schemas further.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import parse
from mcpagg_runtime.rare.secrecy import printable
from mcpagg_runtime.serve.differences import SETS, same

if TYPE_CHECKING:
    from typing import Any

    from mcpagg_runtime.base.catalogue import Item
    from mcpagg_runtime.serve.differences import Difference

# What a person or a model reads, and no program acts upon.
_TEXTS = ("title", "description", "icons")
# How many items the line about a difference names, and how many characters of each.
SHOWN_NAMES = 20
NAME_WIDTH = 100


def drift_text(difference: Difference) -> str:
    """Return `+added -removed ~changed(schema)`, each name with its sign, the first SHOWN_NAMES."""
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
