"""What is listed, under which names, and how a name is found again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from core import Json, plan, tool

from mcpagg_runtime.clients.answers import Answers
from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.lists.catalogue import Catalogue, Item

RICH: Json = {
    "title": 'T "quoted" , } ] \\ end',
    "x_future": {"name": "inner", "a": [1, {"name": "deep"}]},
    "name": "rich:\u2028 '''\"\"\"",
    "description": 'line\n },\n {\n  "name": "not a name"',
    "inputSchema": {"type": "object", "properties": {}, "required": [], "$ref": "#"},
    "annotations": {"readOnlyHint": False, "x-custom": None},
    "_meta": {"ui": {"resourceUri": "ui://x"}, "vendor/k": 1},
    "n": 12345678901234567890,
    "lone": "\ud800",
}


def catalogue(servers: dict[str, Iterable[str | Json]], **choices: Any) -> Catalogue:
    """Return the catalogue of servers {name: tools}."""
    return Answers(plan(servers, **choices)).catalogues["tools"]


def listed(found: Catalogue, spelling: str = "exposed", capable: bool = True) -> list[Json]:
    """Return the tools of the list."""
    client = Client("portable" if spelling == "portable" else "spec")
    client.capable = capable
    return [json.loads(text) for text in found.texts(client)]


def names(found: Catalogue, spelling: str = "exposed", capable: bool = True) -> list[str]:
    """Return the names of the list."""
    return [entry["name"] for entry in listed(found, spelling, capable)]


def test_every_field_is_listed_as_the_child_gave_it_but_for_the_name() -> None:
    entries = [tool("first"), RICH, {"name": "last"}]
    for spelling in ("exposed", "portable"):
        found = catalogue({"s": entries, "none": [], "t": [RICH]})
        for entry, given in zip(listed(found, spelling), [*entries, RICH], strict=True):
            assert {**entry, "name": given["name"]} == given
            assert list(entry) == list(given)


def test_the_order_is_the_configs_then_each_childs_own() -> None:
    found = catalogue({"z": ["b", "a"], "a": ["c"]})
    assert names(found) == ["z:b", "z:a", "a:c"]
    assert names(found, "portable") == ["z_b", "z_a", "a_c"]


def test_the_list_is_one_line() -> None:
    assert "\n" not in "".join(catalogue({"s": [RICH, tool("t")]}).texts(Client("spec")))


def test_a_child_without_tools_lists_none() -> None:
    found = catalogue({"s": []})
    assert found.texts(Client("spec")) == []
    assert found.find("s:t") is None


def test_tools_that_are_not_offered_are_not_listed_nor_found() -> None:
    found = catalogue({"s": ["a", "b"]}, rows={"s": {"hide": ["a"]}})
    assert names(found) == ["s:b"]
    assert found.find("s:a") is None


def test_a_conditional_tool_is_listed_only_to_a_capable_client() -> None:
    found = catalogue({"s": ["a", "b"]}, conditional={"s": ["a"]})
    assert names(found, capable=False) == ["s:b"]
    assert names(found, capable=True) == ["s:a", "s:b"]
    assert found.find("s:a") is not None


def test_a_tool_is_found_under_either_spelling() -> None:
    found = catalogue({"my.db": ["a b"], "other": ["x"]})
    for name in ("my.db:a b", "my_db_a_b"):
        hit = found.find(name)
        assert hit is not None
        assert (hit.server, hit.original) == ("my.db", "a b")
    assert found.find("a b") is None
    assert found.find("") is None


def test_names_are_looked_up_and_never_split() -> None:
    found = catalogue({"a": ["b:c"], "a:b": ["d"], "ob": ["sql"], "ck": ["sql"]})
    owners = {name: hit.server for name in names(found) if (hit := found.find(name))}
    assert owners == {"a:b:c": "a", "a:b:d": "a:b", "ob:sql": "ob", "ck:sql": "ck"}


def test_an_exposed_name_wins_over_anothers_portable_one() -> None:
    rows = {"s": {"rename": {"x": "t_y"}}}
    found = catalogue({"s": ["x"], "t": ["y"]}, rows=rows)
    hit = found.find("t_y")
    assert hit is not None
    assert hit.server == "s"
    assert len(set(names(found, "portable"))) == 2


def test_a_child_that_is_down_is_not_listed_but_found() -> None:
    answers = Answers(plan({"a": ["t"], "b": ["t"]}))
    found = answers.catalogues["tools"]
    answers.outages.add("a")
    assert names(found) == ["b:t"]
    assert found.find("a:t") is not None
    answers.outages.remove("a")
    assert names(found) == ["a:t", "b:t"]


def test_what_is_served_instead_of_the_snapshot_is_listed_and_found() -> None:
    found = catalogue({"a": ["old"], "b": ["t"]})
    assert found.find("a:old") is not None
    new = Item("a", "new", "new", '{"x":1e999,"name" :', ' ,"y":1}')
    new.exposed, new.portable = "a:new", "a_new"
    found.serve("a", [new])
    assert names(found, "portable") == ["a_new", "b_t"]
    assert found.texts(Client("spec"))[0] == '{"x":1e999,"name" :"a:new" ,"y":1}'
    assert found.find("a:new") is new
    assert found.find("a:old") is None
    assert [entry.original for entry in found.recorded("a")] == ["old"]
