"""What is declared to clients, and what cannot be passed on to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpagg.options import Options
from mcpagg.passes.config import read_config
from mcpagg.passes.environment.relocation import launch_rows
from mcpagg.passes.linking.linking import Linked, link
from mcpagg.problems import NameClash
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot
from mcpagg_runtime.lists.catalogue import SKILLS
from mcpagg_runtime.start.greeting import TASKS

MODERN, LEGACY = "2026-07-28", "2025-11-25"


def linked(*children: ChildSnapshot, hide: Any = None, **options: Any) -> tuple[Linked, list[str]]:
    """Link what these servers said; return the tables, and the warnings as text.

    `hide` {server: globs} is what the config hides of them.
    """
    config = {"mcpServers": {child.name: {"command": "x"} for child in children}}
    folder = Path("/")
    spec, _ = read_config(json.dumps(config).encode(), source="mcp.json", folder=folder)
    rows = launch_rows(spec, folder)
    for server, globs in (hide or {}).items():
        rows[server]["hide"] = globs
    tables, warnings = link(spec, rows, Snapshot(children), Options(**options))
    return tables, [str(warning) for warning in warnings]


def test_a_modern_servers_capabilities_are_declared_like_any_others() -> None:
    capabilities: Json = {
        "tools": {},
        "resources": {"subscribe": True},
        "logging": {},
        "completions": {},
        "extensions": {"com.example/a": {"x": 1}},
    }
    (new, _), (old, _) = (
        linked(ChildSnapshot("a", era, {}, capabilities)) for era in (MODERN, LEGACY)
    )
    assert (
        new.capabilities
        == old.capabilities
        == {
            "tools": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "completions": {},
            "logging": {},
            "extensions": {"com.example/a": {"x": 1}},
        }
    )


def test_tasks_are_not_declared_and_named() -> None:
    extensions: Json = {TASKS: {}, "io.modelcontextprotocol/ui": {}}
    tables, warnings = linked(
        ChildSnapshot("a", MODERN, {}, {"extensions": extensions}),
        ChildSnapshot("b", MODERN, {}, {"extensions": {TASKS: {"x": 1}}}),
        ChildSnapshot("c", MODERN, {}, {"extensions": None}),
    )
    assert tables.capabilities["extensions"] == {"io.modelcontextprotocol/ui": {}}
    assert warnings == [
        f"mcpServers.{name}: server '{name}' has the extension {TASKS}, and tasks are not relayed; "
        "clients cannot use it; a tool that demands it fails"
        for name in "ab"
    ]
    tables, _ = linked(ChildSnapshot("b", MODERN, {}, {"extensions": {TASKS: {}}}))
    assert "extensions" not in tables.capabilities


def test_hints_go_to_the_table_of_children_where_there_are_any() -> None:
    hints = {"ttlMs": 5, "cacheScope": "private"}
    tables, _ = linked(ChildSnapshot("a", MODERN, hints=hints), ChildSnapshot("b", LEGACY))
    assert tables.children == {
        "a": {"protocol": MODERN, "hints": hints},
        "b": {"protocol": LEGACY},
    }


@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        ("auto", "choose another --separator, or another name of the server in the config"),
        ("bare", "choose --names spec"),
    ],
)
def test_prompts_under_one_name_are_named_with_what_helps_for_prompts(
    names: str, remedy: str
) -> None:
    one, two = ("b:p", "p") if names == "auto" else ("p", "p")
    children = (
        ChildSnapshot("a", LEGACY, prompts=({"name": one},)),
        ChildSnapshot("a:b", LEGACY, prompts=({"name": two},)),
    )
    with pytest.raises(NameClash) as caught:
        linked(*children, names=names)
    [problem] = caught.value.problems
    assert f"'{one}' of 'a' and '{two}' of 'a:b'" in problem.what
    assert problem.remedy == remedy
    linked(*children, **({"names": "spec"} if names == "bare" else {"separator": "/"}))


def test_an_extension_is_declared_where_its_methods_can_be_routed() -> None:
    ui, own, two = "io.modelcontextprotocol/ui", "com.example/own", "com.example/two"
    tables, warnings = linked(
        ChildSnapshot("a", LEGACY, {}, {"extensions": {ui: {"n": 1}, own: {"x": 1}, two: {}}}),
        ChildSnapshot("b", MODERN, {}, {"extensions": {ui: {"n": 2}, two: {}}}),
    )
    assert tables.capabilities["extensions"] == {ui: {"n": 1}, own: {"x": 1}}
    assert tables.children["a"]["extensions"] == [own]
    assert "extensions" not in tables.children["b"]
    assert warnings == [
        f"mcpServers.{name}: server '{name}' has the extension {two}, and so have others ('a' and "
        "'b'), and a request of it names no server; clients cannot use it; --skip all of them but "
        "one"
        for name in "ab"
    ]


@pytest.mark.parametrize("settings", [True, None, "yes", [], 1])
def test_settings_for_which_clients_refuse_the_handshake_are_not_declared(
    settings: Any,
) -> None:
    own = {"extensions": {"com.example/own": settings, SKILLS.capability: settings}}
    tables, _ = linked(ChildSnapshot("a", LEGACY, {}, own))
    assert tables.capabilities["extensions"] == {"com.example/own": {}, SKILLS.capability: {}}


def skilled(name: str, *uris: str, **settings: Any) -> ChildSnapshot:
    """Return a server with skills."""
    extensions = {SKILLS.capability: settings}
    skills: tuple[Json, ...] = tuple({"uri": uri, "resources": "dynamic"} for uri in uris)
    return ChildSnapshot(name, LEGACY, {}, {"extensions": extensions}, skills=skills)


def test_the_skills_of_one_server_keep_their_uris() -> None:
    tables, warnings = linked(skilled("a", "skill://x/SKILL.md"), ChildSnapshot("b", LEGACY))
    assert tables.capabilities["extensions"] == {SKILLS.capability: {}}
    uri = "skill://x/SKILL.md"
    assert tables.routes["skills"] == {uri: ("a", uri, uri)}
    assert warnings == []


def test_the_skills_of_two_servers_are_kept_apart() -> None:
    uri = "skill://x/SKILL.md"
    tables, warnings = linked(skilled("a", uri), skilled("b c", uri, directoryRead=True))
    assert tables.capabilities["extensions"] == {SKILLS.capability: {"directoryRead": True}}
    assert tables.routes["skills"] == {
        "skill://a/x/SKILL.md": ("a", uri, "skill://a/x/SKILL.md"),
        "skill://b%20c/x/SKILL.md": ("b c", uri, "skill://b%20c/x/SKILL.md"),
    }
    assert warnings == []


def test_a_resource_of_two_servers_is_listed_once_unless_one_hides_it() -> None:
    resources: tuple[Json, ...] = ({"uri": "x://y", "name": "r"},)
    first, second = (ChildSnapshot(name, LEGACY, resources=resources) for name in "ab")
    tables, warnings = linked(first, second)
    assert tables.routes["resources"] == {"x://y": ("a",)}
    assert warnings == [
        "mcpServers.b: uri 'x://y' is also that of 'a', which is asked for it; to reach this one: "
        "--hide 'a:x://y'"
    ]
    tables, warnings = linked(first, second, hide={"a": ["x://y"]})
    assert tables.routes["resources"] == {"x://y": ("b",)}
    assert warnings == []


@pytest.mark.parametrize("globs", [["d*", "g*"], ["drop", "get"]])
def test_a_server_of_which_the_filters_leave_no_tool_is_named(globs: list[str]) -> None:
    tools = ({"name": "get"}, {"name": "drop"})
    server = ChildSnapshot("a", MODERN, {}, {"tools": {}}, tools=tools)
    _, warnings = linked(server, hide={"a": globs})
    assert warnings == [
        "mcpServers.a: no tool is offered of it: the filters leave none of 2;"
        " --skip it, or correct the filters"
    ]
    assert linked(server, hide={"a": ["*"]})[1] == []  # said when the config was read


def test_a_page_of_two_servers_is_listed_twice_unless_one_hides_it() -> None:
    page = "ui://w/main.html"
    resources: tuple[Json, ...] = ({"uri": page, "name": "r"},)
    children = [ChildSnapshot(name, LEGACY, resources=resources) for name in "ab"]
    tables, warnings = linked(*children)
    assert tables.routes["resources"] == {
        "ui://a/w/main.html": ("a", page),
        "ui://b/w/main.html": ("b", page),
    }
    assert (set(tables.prefixed_kinds), warnings) == ({"resources"}, [])
    tables, warnings = linked(*children, hide={"a": [page]})
    assert tables.routes["resources"] == {page: ("b",)}
    assert (tables.prefixed_kinds, warnings) == (frozenset(), [])


def test_a_page_that_no_list_has_is_told_apart_too() -> None:
    shows: Json = {"name": "t", "_meta": {"ui": {"resourceUri": "ui://w"}}, "inputSchema": {}}
    tables, _ = linked(*(ChildSnapshot(name, LEGACY, tools=(shows,)) for name in "ab"))
    assert tables.prefixed_kinds == {"tools"}
