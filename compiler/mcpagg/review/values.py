"""Values of members that may be absent: how they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcpagg.passes.discovery.ordering import equal


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
