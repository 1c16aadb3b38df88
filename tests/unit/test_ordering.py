"""Order is not content: what a server shuffles stays as the file has it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagg.jsontext import dumps, loads
from mcpagg.passes.discovery.ordering import arranged, in_order_of
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.lists.values import SETS, same

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
NAMES = st.sampled_from(["required", "type", "properties", "a", "b", "c", "d", "e"])
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(st.sampled_from("xyz"), max_size=4)
        | st.dictionaries(NAMES, inner, max_size=5)
    ),
    max_leaves=15,
)


def shuffled(value: Any, chance: random.Random) -> Any:
    """Return an equal value, with the members of objects, and sets, in another order."""
    if isinstance(value, list):
        return [shuffled(item, chance) for item in value]
    if not isinstance(value, dict):
        return value
    members = [(name, shuffled(member, chance)) for name, member in value.items()]
    chance.shuffle(members)
    for name, member in members:
        if name in SETS and isinstance(member, list) and all(type(m) is str for m in member):
            chance.shuffle(member)
    return dict(members)


@given(JSON, st.randoms(use_true_random=False))
def test_what_is_equal_is_taken_as_it_was(value: Any, chance: random.Random) -> None:
    other = shuffled(value, chance)
    assert same(value, other, SETS)
    assert dumps(arranged(value, other)) == dumps(value)


@given(JSON, JSON)
def test_what_is_meant_is_never_changed(before: Any, now: Any) -> None:
    assert same(arranged(before, now), now, SETS)
    assert dumps(arranged(now, now)) == dumps(now)


@given(st.dictionaries(NAMES, JSON))
def test_without_another_order_nothing_moves(now: dict[str, Any]) -> None:
    """A file compiled onto an older one is the same as one that is compiled afresh."""
    kept = {name: value for name, value in now.items() if name != "a"}
    assert dumps(arranged(kept, now)) == dumps(now)


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        ('{"a":1,"b":2}', '{"b":3,"new":0,"a":1}', '{"a":1,"b":3,"new":0}'),
        ('{"required":["a","b"]}', '{"required":["c","b","a"]}', '{"required":["c","a","b"]}'),
        ('{"required":["a","a"]}', '{"required":["b","a"]}', '{"required":["b","a"]}'),
        ('{"enum":["a","b"]}', '{"enum":["b","a"]}', '{"enum":["b","a"]}'),
        ('{"anyOf":[{"a":1,"b":2}]}', '{"anyOf":[{"b":3,"a":1}]}', '{"anyOf":[{"a":1,"b":3}]}'),
        ("1", "1.0", "1"),
        ("1", "true", "true"),
        ("1" * 5000, "2" * 5000, "2" * 5000),
        ("[" * 90 + "1E5" + "]" * 90, "[" * 90 + "100000" + "]" * 90, "[" * 90 + "1E5" + "]" * 90),
    ],
)
def test_a_change_stands_where_it_was(before: str, now: str, kept: str) -> None:
    assert dumps(arranged(loads(before), loads(now)), separators=(",", ":")) == kept


def test_each_list_keeps_its_order_and_takes_what_is_new() -> None:
    def snapshot(*uris: str) -> Snapshot:
        resources = tuple({"uri": uri, "name": str(n)} for n, uri in enumerate(uris))
        return Snapshot((ChildSnapshot("a", "2025-11-25", resources=resources),))

    found = in_order_of(snapshot("x", "y", "x", "z"), snapshot("new", "z", "x", "x", "y"))
    assert [one["uri"] for one in found.children[0].resources] == ["new", "x", "y", "x", "z"]
    other = Snapshot((ChildSnapshot("b", "2025-11-25"),))
    assert in_order_of(other, snapshot("x")) == snapshot("x")
