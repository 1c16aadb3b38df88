"""Keeps the order of an existing emitted file: another order of a server's lists is no change.

Equality is the runtime's (`same`), so compiling again, `--check` and drift agree on what a change
is. A value that equals the recorded one is replaced by the recorded one. In a value that changed,
the members that both versions have keep their recorded order, so that the diff of the two files
shows the change alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from mcpagg.jsontext import dumps
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot
from mcpagg_runtime.lists.catalogue import KINDS, Kind
from mcpagg_runtime.lists.values import SETS, same
from mcpagg_runtime.messages.jsontext import parse

# Values that nest deeper are compared as a whole.
DEEPEST = 64

Key = TypeVar("Key")


def in_order_of(before: Snapshot, now: Snapshot) -> Snapshot:
    """Return the snapshot `now` in the order of `before`: each child's lists, and their items."""
    old = before.by_name
    children = (
        _child(old[child.name], child) if child.name in old else child for child in now.children
    )
    return replace(now, children=tuple(children))


def _child(before: ChildSnapshot, now: ChildSnapshot) -> ChildSnapshot:
    changes: dict[str, Any] = {
        kind.name: _items(kind, before.items(kind), now.items(kind)) for kind in KINDS
    }
    for name in ("info", "capabilities", "handshake"):
        changes[name] = arranged(getattr(before, name), getattr(now, name))
    return replace(now, **changes)


def _items(kind: Kind, before: Sequence[Json], now: Sequence[Json]) -> tuple[Json, ...]:
    old, new = (numbered(kind, items) for items in (before, now))
    return tuple(
        arranged(old[key], new[key]) if key in old else new[key] for key in _merged([*old], [*new])
    )


def numbered(kind: Kind, items: Sequence[Json]) -> dict[tuple[str, int], Json]:
    """Return {(key, how often it stood before): item}: a list may name one resource twice."""
    by_key: dict[tuple[str, int], Json] = {}
    counts: dict[str, int] = {}
    for item in items:
        key = item[kind.key]
        counts[key] = counts.get(key, 0) + 1
        by_key[key, counts[key]] = item
    return by_key


def arranged(before: Any, now: Any, depth: int = 0) -> Any:
    """Return the value `now`, in the order of `before` as far as they are alike."""
    if depth < DEEPEST and type(before) is dict and type(now) is dict:
        return {
            key: _member(key, before[key], now[key], depth + 1) if key in before else now[key]
            for key in _merged([*before], [*now])
        }
    if depth < DEEPEST and type(before) is list and type(now) is list:
        pairs = zip(before, now, strict=False)
        alike = [arranged(old, new, depth + 1) for old, new in pairs]
        return alike + now[len(alike) :]
    return before if equal(before, now) else now


def equal(one: Any, other: Any) -> bool:
    """Whether two values that the compiler read mean the same: the runtime would find no drift."""
    return same(_read(one), _read(other), SETS)


def _member(key: str, before: Any, now: Any, depth: int) -> Any:
    if key not in SETS or not (_is_strings(before) and _is_strings(now)):
        return arranged(before, now, depth)
    if sorted(before) == sorted(now):
        return before
    distinct = len(set(before)) == len(before) and len(set(now)) == len(now)
    return _merged(before, now) if distinct else now


def _is_strings(value: Any) -> bool:
    return type(value) is list and all(type(item) is str for item in value)


def _merged(before: Sequence[Key], now: Sequence[Key]) -> list[Key]:
    """Return the keys `now`: those of `before` in their order, each new one after its neighbour.

    If the known ones have kept their order, this is `now` itself.
    """
    old_keys, new_keys = set(before), set(now)
    behind: dict[Key | None, list[Key]] = {None: []}
    last: Key | None = None
    for key in now:
        if key in old_keys:
            last = key
            behind[last] = []
        else:
            behind[last].append(key)
    common = [key for key in before if key in new_keys]
    return behind[None] + [each for key in common for each in (key, *behind[key])]


def _read(value: Any) -> Any:
    """Return a value as the runtime reads it, which knows no number that keeps its text."""
    return value if type(value) is str else parse(dumps(value))
