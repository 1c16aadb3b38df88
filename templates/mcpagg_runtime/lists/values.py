"""JSON values: whether they are equal, members that may be absent, places in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Final

# Members of a schema whose lists of strings are sets: their order has no meaning.
SETS = ("required", "type")


class _Absent:
    """The value of a member that is absent."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


def alike(before: Any, after: Any) -> bool:
    if before is ABSENT or after is ABSENT:
        return before is after
    return equal(before, after)


def differing(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, value before, value after) of each member that is not alike."""
    for name in {**before, **after}:
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        if not alike(old, new):
            yield name, old, new


def became(before: Any, after: Any) -> str:
    """Say what became of a member that has other values now."""
    return "was added" if before is ABSENT else "was removed" if after is ABSENT else "changed"


def equal(one: Any, other: Any) -> bool:
    """Whether two values mean the same in a list of a server."""
    return same(one, other, SETS)


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


# Places in values


def items_of(value: object) -> list[Any]:
    """Return a value that is to be a list, an empty one for any other."""
    return value if isinstance(value, list) else []


def escaped(name: str) -> str:
    """Return the name of a member as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def at_pointer(value: Any, pointer: str) -> Any:
    """Return what stands in a value at a JSON pointer.

    Raises:
        LookupError, ValueError, TypeError: nothing does.
    """
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def strings(value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string in a value, names of members too, with its JSON pointer; no pictures."""
    if isinstance(value, str):
        if not value.startswith("data:"):
            yield pointer, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from strings(item, f"{pointer}/{index}")
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = f"{pointer}/{escaped(name)}"
            yield inner, name
            yield from strings(item, inner)
