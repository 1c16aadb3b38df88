"""Profiles and overlays of a config: how they are read, and what they come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from configs import read, refusal

from mcpagg.compiling import dry_run
from mcpagg.options import Options, Source
from mcpagg.passes.config import read_config
from mcpagg.passes.environment.relocation import launch_rows
from mcpagg.passes.linking.linking import Subset, link
from mcpagg.passes.linking.overlays import merged, patches, unused_overlays, with_overlays
from mcpagg.passes.linking.profiles import subsets
from mcpagg.problems import ConfigError
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot
from mcpagg.spec import ProxySpec

VERSION = "2025-11-25"
SERVERS = {"db": {"command": "x"}, "web": {"command": "x"}}


def config(**own: Any) -> Json:
    return {"mcpServers": SERVERS, "mcpagg": own}


def spec_of(given: Json) -> ProxySpec:
    return read_config(json.dumps(given).encode(), source="mcp.json", folder=Path("/"))[0]


def tool(name: str, **members: Any) -> Json:
    return {"name": name, "inputSchema": {"type": "object"}, **members}


DB = ChildSnapshot(
    "db", VERSION, instructions="Ask.", tools=tuple(map(tool, ("query", "drop", "list")))
)
WEB = ChildSnapshot(
    "web", VERSION, capabilities={"resources": {}}, tools=(tool("fetch"),), instructions="Fetch."
)
DOCS = ChildSnapshot("docs", VERSION, capabilities={"prompts": {}})


def resolved(
    given: Json, *children: ChildSnapshot, **options: Any
) -> tuple[dict[str, Subset], list[str]]:
    """Return the profiles of a config for what its servers said, and the warnings."""
    given["mcpServers"] |= {child.name: {"command": "x"} for child in children}
    spec = spec_of(given)
    snapshot = Snapshot(children)
    linked, _ = link(spec, launch_rows(spec, Path("/")), snapshot, Options())
    found, warnings = subsets(spec, snapshot, linked, Options(**options))
    return found, [str(warning) for warning in warnings]


def tools_of(given: Json, *children: ChildSnapshot) -> dict[str, list[str]]:
    """Return what the one profile of a config has of what its servers said."""
    [found] = resolved(given, *children)[0].values()
    return found.tools


def of(**profile: Any) -> Json:
    return config(profiles={"p": profile})


@pytest.mark.parametrize(
    ("own", "path", "said"),
    [
        ({"profile": {}}, "mcpagg.profile", "did you mean `profiles`?"),
        ({"profiles": []}, "mcpagg.profiles", "expected an object, found a list"),
        ({"profiles": {"a b": {}}}, 'mcpagg.profiles["a b"]', "letters, digits, _, . and -"),
        ({"profiles": {"p": 1}}, "mcpagg.profiles.p", "expected an object, found a number"),
        ({"profiles": {"p": {"exposes": []}}}, "mcpagg.profiles.p.exposes", "mean `expose`?"),
        (
            {"profiles": {"p": {"hide": {}}}},
            "mcpagg.profiles.p.hide",
            "expected a string or a list of",
        ),
        ({"profiles": {"p": {"hide": [1]}}}, "mcpagg.profiles.p.hide[0]", "expected a string"),
        ({"profiles": {"p": {"expose": ["webb:*"]}}}, "mcpagg.profiles.p.expose[0]", "mean `web`"),
        ({"overlays": {"query": {}}}, "mcpagg.overlays.query", "write SERVER:TOOL"),
        ({"overlays": {"webb:q": {}}}, 'mcpagg.overlays["webb:q"]', "did you mean `web`?"),
        ({"overlays": {"db:q": "x"}}, 'mcpagg.overlays["db:q"]', "expected an object"),
        (
            {"overlays": {"db:q": {"inputSchema": {}}}},
            'mcpagg.overlays["db:q"].inputSchema',
            "known: description, title, annotations, _meta",
        ),
        (
            {"overlays": {"db:q": {"description": ["x"]}}},
            'mcpagg.overlays["db:q"].description',
            "expected a string, or null to leave it out, found a list",
        ),
        (
            {"overlays": {"db:q": {"_meta": {"k": ["ghp_" + "a1B2" * 9]}}}},
            'mcpagg.overlays["db:q"]._meta.k[0]',
            "holds a GitHub token",
        ),
    ],
)
def test_a_mistake_in_our_key_is_an_error_with_its_place(own: Json, path: str, said: str) -> None:
    text = refusal(config(**own))
    assert f"{path}: " in text
    assert said in text


def test_a_client_has_one_profile() -> None:
    text = refusal(config(profiles={"a": {"clients": ["x", "Cursor"]}, "b": {"clients": "cursor"}}))
    assert "mcpagg.profiles.b.clients: \"cursor\" has the profile 'a' already" in text


def test_a_profile_has_what_its_globs_fit() -> None:
    assert tools_of(of(), DB, WEB) == {"db": ["query", "drop", "list"], "web": ["fetch"]}
    assert tools_of(of(expose=["db:*"], hide="db:d*"), DB, WEB) == {"db": ["query", "list"]}
    assert tools_of(of(hide=["web:*"]), DB, WEB) == {"db": ["query", "drop", "list"]}


def test_a_server_without_tools_is_in_a_profile_that_does_not_filter_it() -> None:
    assert tools_of(of(expose=["docs:*"]), DB, DOCS) == {"docs": []}
    assert tools_of(of(expose=["db:query"]), DB, DOCS) == {"db": ["query"]}


def test_a_profile_declares_and_says_what_its_servers_do() -> None:
    found, _ = resolved(of(expose=["db:query"], clients=["cursor"]), DB, WEB)
    subset = found["p"]
    assert subset.clients == ("cursor",)
    assert [*subset.capabilities] == ["tools"]
    assert "Ask." in subset.instructions
    assert "Fetch." not in subset.instructions


def test_only_the_profiles_that_are_asked_for_are_compiled_in() -> None:
    given = config(profiles={"a": {}, "b": {"expose": ["db:*"]}})
    assert [*resolved(given, DB, WEB)[0]] == ["a", "b"]
    assert [*resolved(given, DB, WEB, profile=("b",))[0]] == ["b"]


def test_a_profile_that_is_not_there_is_an_error_before_anything_starts() -> None:
    text = json.dumps(config(profiles={"sales": {}})).encode()
    for name, said in (("sale", "did you mean `sales`?"), ("x", "the config has sales")):
        source = Source(text, "mcp.json", Path("/"), Options(profile=(name,)))
        with pytest.raises(ConfigError, match="there is no profile") as caught:
            dry_run(source, {})
        assert said in str(caught.value)


def test_a_profile_without_anything_is_an_error_and_an_idle_glob_a_warning() -> None:
    with pytest.raises(ConfigError, match=r"mcpagg.profiles.p: offers nothing"):
        resolved(of(expose=["db:none"]), DB)
    _, warnings = resolved(of(expose=["db:qurey", "db:query"]), DB)
    assert warnings == [
        "mcpagg.profiles.p: 'db:qurey' fits nothing that is offered; did you mean `db:query`?"
    ]


def test_a_profile_of_a_server_that_is_left_out_is_left_out_too() -> None:
    found, warnings = resolved(of(expose=["web:*"]), DB)
    assert (found, warnings) == ({}, ["mcpagg.profiles.p: is left out, as 'web' is"])
    found, warnings = resolved(of(expose=["web:*", "db:query"]), DB)
    assert (found["p"].tools, warnings) == ({"db": ["query"]}, [])


def test_a_composite_tool_goes_with_the_servers_that_it_calls() -> None:
    both = {"both": {"subtools": {"db": {"tools": ["query"]}, "web": {"tools": ["fetch"]}}}}
    assert tools_of(of(hide=["both"]) | {"tools": both}, DB, WEB).keys() == {"db", "web"}
    assert tools_of(of(expose=["*:*", "both"]) | {"tools": both}, DB, WEB)[""] == ["both"]
    with pytest.raises(ConfigError, match="'both' calls 'web', which is not in it"):
        resolved(of(hide=["web:*"]) | {"tools": both}, DB, WEB)


def test_an_overlay_is_a_merge_patch_of_one_tool() -> None:
    own = tool("query", description="Old.", title="Q", _meta={"x": 1})
    child = ChildSnapshot("db", VERSION, tools=(own, tool("drop")))
    overlay = {"description": "New.", "title": None, "_meta": {"anthropic/alwaysLoad": True}}
    spec = spec_of(config(overlays={"db:query": overlay}))
    listed = with_overlays(spec, Snapshot((child, WEB)))
    assert listed.children == (
        ChildSnapshot(
            "db",
            VERSION,
            tools=(
                tool("query", description="New.", _meta={"x": 1, "anthropic/alwaysLoad": True}),
                tool("drop"),
            ),
        ),
        WEB,
    )
    assert patches(spec, Snapshot((child,))) == {"db": {"query": overlay}}


@pytest.mark.parametrize(
    ("value", "patch", "result"),
    [  # RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "foo"}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ],
)
def test_a_merge_patch_does_what_its_rfc_says(value: Any, patch: Any, result: Any) -> None:
    assert merged(value, patch) == result


def test_an_overlay_of_what_is_not_there_is_an_error_unless_its_server_is_left_out() -> None:
    spec = spec_of(config(overlays={"db:qurey": {}, "web:fetch": {}}))
    with pytest.raises(ConfigError) as caught:
        with_overlays(spec, Snapshot((DB,)))
    assert [str(problem) for problem in caught.value.problems] == [
        "mcpagg.overlays[\"db:qurey\"]: 'db' has no tool 'qurey'; did you mean `db:query`?"
    ]
    assert with_overlays(spec, Snapshot((WEB,))) == Snapshot((WEB,))


def test_an_overlay_of_a_hidden_tool_is_a_warning_unless_a_composite_tool_shows_it() -> None:
    def warned(more: Json) -> list[str]:
        given = config(overlays={"db:query": {"title": "T"}, "db:drop": {"title": "T"}}) | more
        spec, snapshot = spec_of(given), Snapshot((DB,))
        rows = launch_rows(spec, Path("/"))
        rows["db"]["hide"] = ["d*"]
        linked, _ = link(spec, rows, snapshot, Options())
        return [str(warning) for warning in unused_overlays(spec, snapshot, linked)]

    assert warned({}) == [
        "mcpagg.overlays[\"db:drop\"]: 'drop' of 'db' is hidden, so nobody is shown this; "
        "offer the tool, or leave the overlay out"
    ]
    called = {"tools": {"one": {"subtools": {"db": {"tools": [{"name": "drop"}]}}}}}
    assert warned(called) == []


def test_an_overlay_keeps_the_text_of_numbers_and_finds_the_longest_server() -> None:
    given = config(overlays={"a:b:c": {"_meta": {"anthropic/maxResultSizeChars": 500000}}})
    given["mcpServers"] = {"a": {"command": "x"}, "a:b": {"command": "x"}}
    [overlay] = read(given)[0].overlays
    assert (overlay.server, overlay.tool) == ("a:b", "c")
    assert overlay.patch == {"_meta": {"anthropic/maxResultSizeChars": 500000}}
