"""The changes of an item of a list, one for each place, and the class of each.

The compiler's `--check` reports them, a running proxy names and judges drift by them: what is
`text` here is `text` there.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING

from mcpagg_runtime.lists.hidden import newly_hidden
from mcpagg_runtime.lists.schemas import schema_changes
from mcpagg_runtime.lists.values import ABSENT, became, differing, equal, escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# Members that people and models read, and no program acts upon.
_TEXTS = ("title", "description", "icons")


class ItemChange(
    namedtuple("ItemChange", "class_ place what before after", defaults=(ABSENT, ABSENT))
):
    """A change at one place of an item: its class, its JSON pointer, what became of it, values."""

    __slots__ = ()


def item_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[ItemChange]:
    """Yield what changed between two items of one name.

    `text`: what a person or a model reads, in a schema too. `hint`: what a tool says that it does
    (`readOnlyHint`, …). `schema-breaking`, `schema-compatible`: what it takes and returns. `other`:
    the rest. `hidden` is none of these, see `classes_of`.
    """
    for member, old, new in differing(before, after):
        place = f"/{escaped(member)}"
        if member.endswith("Schema"):
            yield from _schema(place, old, new, output=member == "outputSchema")
        elif member == "arguments":
            yield from _arguments(place, old, new)
        elif member == "annotations":
            yield from _hints(place, old, new)
        else:
            yield ItemChange(member_class(member), place, became(old, new), old, new)


def classes_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the classes of what changed between two items, each once."""
    changes = [*item_changes(before, after)]
    hides = any(newly_hidden(change.before, change.after, change.place) for change in changes)
    found = [*(["hidden"] if hides else []), *(change.class_ for change in changes)]
    return list(dict.fromkeys(found))


def classes_of_new(item: Mapping[str, Any]) -> list[str]:
    """Return the classes of an item that is new."""
    return ["added", *(["hidden"] if newly_hidden(ABSENT, item) else [])]


def member_class(name: str) -> str:
    """Return the class of a change of a member that is neither a schema nor annotations."""
    return "text" if name in _TEXTS else "other"


def _hints(place: str, before: Any, after: Any) -> Iterator[ItemChange]:
    old, new = ({} if value is ABSENT else value for value in (before, after))
    if not (isinstance(old, dict) and isinstance(new, dict) and (old or new)):
        yield ItemChange("hint", place, became(before, after), before, after)
        return
    for key, *values in differing(old, new):
        class_ = "text" if key == "title" else "hint"
        yield ItemChange(class_, f"{place}/{escaped(key)}", became(*values), *values)


def _schema(place: str, before: Any, after: Any, *, output: bool) -> Iterator[ItemChange]:
    if before is ABSENT or after is ABSENT:
        narrows = before is ABSENT
        class_ = "schema-compatible" if narrows == output else "schema-breaking"
        yield ItemChange(class_, place, became(before, after), before, after)
        return
    for change in schema_changes(before, after, place):
        class_ = change.class_for(output=output)
        yield ItemChange(class_, change.pointer, change.what, change.before, change.after)


def _arguments(place: str, before: Any, after: Any) -> Iterator[ItemChange]:
    """Yield what changed of the arguments of a prompt, which are compared as a schema."""
    old, new = arguments_schema(before), arguments_schema(after)
    if equal(old, new):
        yield ItemChange("schema-compatible", place, "changed", before, after)
    yield from _schema(place, old, new, output=False)


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
