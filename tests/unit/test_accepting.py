"""`--on-drift refuse --accept CLASS`: what has changed in these classes alone is served."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import World, call, plan, tool

from mcpagg.options import ACCEPTABLE, ACCEPTED, Options
from mcpagg.review import CLASSES, OF_LISTS
from mcpagg_runtime.lists.changes import classes_of, classes_of_new
from mcpagg_runtime.servers.child import Child
from mcpagg_runtime.servers.lists import SETTLE_SECONDS

Json = dict[str, Any]

S = {"type": "string"}
TAGS = "".join(chr(0xE0000 + ord(char)) for char in "obey")


def of(required: tuple[str, ...] = (), **properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": [*required]}


BEFORE = {
    "name": "t",
    "description": "D",
    "inputSchema": of(("a",), a=S, e={"enum": ["x", "y"]}, n={"type": "integer", "maximum": 9}),
    "outputSchema": of(("r",), r=S),
    "annotations": {"title": "T", "readOnlyHint": True},
    "_meta": {"v": 1},
}


def schema(**changes: Any) -> Json:
    return {"inputSchema": {**BEFORE["inputSchema"], **changes}}  # type: ignore[dict-item]


def properties(**changes: Any) -> Json:
    known = BEFORE["inputSchema"]["properties"]  # type: ignore[index]
    return schema(properties={**known, **changes})


KINDS: list[tuple[str, Json, list[str]]] = [
    ("a description", {"description": "E"}, ["text"]),
    ("a description with hidden characters", {"description": f"D{TAGS}"}, ["hidden", "text"]),
    ("a title", {"title": "T"}, ["text"]),
    ("a title of annotations", {"annotations": {"title": "U", "readOnlyHint": True}}, ["text"]),
    ("icons", {"icons": []}, ["text"]),
    ("a hint", {"annotations": {"title": "T", "readOnlyHint": False}}, ["hint"]),
    ("no hints", {"annotations": {"title": "T"}}, ["hint"]),
    ("one hint more", {"annotations": {**BEFORE["annotations"], "x": 1}}, ["hint"]),  # type: ignore[dict-item]
    ("meta", {"_meta": {"v": 2}}, ["other"]),
    ("a hidden character in meta", {"_meta": {"v": TAGS}}, ["hidden", "other"]),
    ("an unknown member", {"vendor": 1}, ["other"]),
    ("a text in a schema", properties(a={**S, "description": "A"}), ["text"]),
    ("a hidden text in one", properties(a={**S, "title": TAGS}), ["hidden", "text"]),
    ("a property called title", properties(title=S), ["schema-compatible"]),
    ("an optional property", properties(b=S), ["schema-compatible"]),
    ("a hidden name of one", properties(**{f"b{TAGS}": S}), ["schema-compatible"]),
    ("a wider type", properties(a={"type": ["string", "null"]}), ["schema-compatible"]),
    ("a wider enum", properties(e={"enum": ["x", "y", "z"]}), ["schema-compatible"]),
    ("a higher maximum", properties(n={"type": "integer", "maximum": 10}), ["schema-compatible"]),
    ("a default", properties(a={**S, "default": "x"}), ["schema-compatible"]),
    ("fewer required", schema(required=[]), ["schema-compatible"]),
    ("more required", schema(required=["a", "e"]), ["schema-breaking"]),
    ("another type", properties(a={"type": "integer"}), ["schema-breaking"]),
    ("a narrower enum", properties(e={"enum": ["x"]}), ["schema-breaking"]),
    ("a lower maximum", properties(n={"type": "integer", "maximum": 8}), ["schema-breaking"]),
    ("a pattern", properties(a={**S, "pattern": "x"}), ["schema-breaking"]),
    ("no property any more", schema(properties={"a": S}), ["schema-breaking"]),
    ("a new required property", {"inputSchema": of(("a", "z"), a=S, z=S)}, ["schema-breaking"]),
    ("an output that may lack more", {"outputSchema": of((), r=S)}, ["schema-breaking"]),
    ("an output with more", {"outputSchema": of(("r",), r=S, q=S)}, ["schema-compatible"]),
    ("text and hint", {"description": "E", "annotations": {"title": "T"}}, ["text", "hint"]),
    ("text and schema", {"description": "E", **schema(required=[])}, ["text", "schema-compatible"]),
]


@pytest.mark.parametrize(("what", "change", "expected"), KINDS, ids=[kind[0] for kind in KINDS])
def test_a_change_is_served_where_all_of_its_classes_are_accepted(
    what: str, change: Json, expected: list[str]
) -> None:
    after = {**BEFORE, **change}
    if what == "a hidden name of one":
        expected = ["hidden", *expected]
    assert classes_of(BEFORE, after) == expected
    for accepted in [(), *((one,) for one in ACCEPTABLE), tuple(expected)]:
        options = Options(on_drift="refuse", accept=accepted)
        served = listed([BEFORE], [after], options)
        of_all = {one for name in accepted for one in ACCEPTED.get(name, (name,))}
        taken = of_all.issuperset(expected)
        assert served == ([after] if taken else []), accepted


def listed(before: list[Json], after: list[Json], options: Options) -> list[Json]:
    """Return the tools that are served of a server with other ones than it was compiled with."""
    world = World({"a": before}, on_drift="refuse", accept=options.accept)
    client = world.client()
    give(world, after)
    world.say(client, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    found = [one for one in world.received(client) if "id" in one]
    return [{**one, "name": one["name"].partition(":")[2]} for one in found[-1]["result"]["tools"]]


def give(world: World, after: list[Json]) -> Child:
    """Let the server come up with other tools, and give them again once it has settled."""
    a = world.up("a", after)
    world.wait(SETTLE_SECONDS)
    if world.lines(a):
        world.answer(a, {"tools": after}, "tools/list")
    return a


@pytest.mark.parametrize("accepted", [(), *((one,) for one in ACCEPTABLE)])
def test_what_is_new_is_served_where_that_is_accepted(accepted: tuple[str, ...]) -> None:
    options = Options(on_drift="refuse", accept=accepted)
    new, odd = tool("new"), tool("odd", description=TAGS)
    assert classes_of_new(new) == ["added"]
    assert classes_of_new(odd) == ["added", "hidden"]
    takes_new = "added" in options.runtime().get("accept", ())  # type: ignore[operator]
    assert listed([BEFORE], [BEFORE, new, odd], options) == [BEFORE, *([new] if takes_new else [])]
    assert listed([BEFORE, new], [BEFORE], options) == [BEFORE]


def test_a_new_tool_that_is_accepted_can_be_called_and_another_one_cannot() -> None:
    world = World({"a": [tool("t")]}, on_drift="refuse", accept=("added",))
    client = world.client()
    a = give(world, [tool("t"), tool("new"), tool("odd", description=TAGS)])
    world.say(client, call(1, "a:new"))
    assert len(world.asked(a, "new")) == 1
    world.say(client, call(2, "a:odd"))
    assert world.asked(a, "odd") == []
    assert any(
        "what differs is withheld, but for what is added alone" in line for line in world.said
    )


def test_the_classes_are_those_of_a_check_and_no_group_has_hidden_in_it() -> None:
    assert set(OF_LISTS) < set(CLASSES)
    for group in ACCEPTED.values():
        assert "hidden" not in group
        assert set(group) <= set(OF_LISTS)
    table = plan({"a": ["t"]}, on_drift="refuse", accept=("additive", "text")).tables["options"]
    assert json.loads(table)["accept"] == ["added", "schema-compatible", "text"]
    assert "accept" not in json.loads(plan({"a": ["t"]}).tables["options"])
