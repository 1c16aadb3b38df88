"""What is said of a list that differs from another one: names, and the classes of what changed.

The compiler classes changes by the same rules (`member_class`), and goes into schemas further: what
is compatible here is so there.
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
_OF_OBJECTS = ("properties", "required")
# How many items the line about a difference names, and how many characters of each.
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
    known = {str(one.get("name")): one for one in listed if type(one) is dict}
    return {
        "properties": {
            name: {key: value for key, value in one.items() if key not in ("name", "required")}
            for name, one in known.items()
        },
        "required": [name for name, one in known.items() if one.get("required") is True],
    }


def _is_compatible(before: Any, now: Any, output: bool) -> bool:
    """Whether a schema plainly breaks nobody: it has more optional properties, or needs fewer.

    In what a tool returns, it promises more. What takes more looking is for `--check` to tell: here
    it counts as breaking.
    """
    if before is None or now is None:
        return (before is None) == output
    if type(before) is not dict or type(now) is not dict:
        return same(before, now, SETS)
    rest = [{key: one[key] for key in one if key not in _OF_OBJECTS} for one in (before, now)]
    if not same(rest[0], rest[1], SETS):
        return False
    old, new = (_object(one.get("properties")) for one in (before, now))
    had, has = (_names(one.get("required")) for one in (before, now))
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
