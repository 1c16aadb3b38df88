"""The JSON Schema of a config, and what is said of a section that does not fit its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from configs import ENTRY, read, refusal

from mcpagg.command.cli import main

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

GENERATED = Path(__file__).parents[2] / "generated"
OWN = {
    "profiles": {"sales": {"expose": "a:query", "hide": ["a:d*"], "//": "why", "clients": ["c"]}},
    "overlays": {"a:query": {"description": "…", "title": None, "_meta": {"x/y": True}}},
}
COORDINATOR = {
    "tools": {"both": {"subtools": {"a": {"tools": ["t", {"name": "u", "description": "d"}]}}}},
    "envVars": [{"name": "KEY", "value": "${OWN}", "expand": True}],
    "serverTransport": {"type": "sse", "port": 80, "auth": {"token": "${TOKEN}"}},
}


@pytest.fixture
def schema(capsys: pytest.CaptureFixture[str]) -> Draft202012Validator:
    # Importing it takes a second, which only those who run these tests are to pay.
    from jsonschema import Draft202012Validator

    with pytest.raises(SystemExit) as done:
        main(["--schema"])
    assert done.value.code == 0
    found = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def faults(schema: Draft202012Validator, config: Any) -> set[str]:
    """Return the paths of what a schema refuses."""
    return {fault.json_path for fault in schema.iter_errors(config)}


@pytest.mark.parametrize("file", sorted(GENERATED.glob("*/mcp.json")), ids=lambda f: f.parent.name)
def test_the_examples_fit_the_schema(schema: Draft202012Validator, file: Path) -> None:
    assert faults(schema, json.loads(file.read_text("utf-8"))) == set()


@pytest.mark.parametrize(
    "more",
    [
        {"mcpagg": OWN},
        COORDINATOR,
        {"$schema": "./mcpagg.json", "theme": "dark"},
        {"tools": {"core": ["x"]}},  # a client's own
        {"mcpServers": {"a": {**ENTRY, "envVars": ["LANG"], "mcpagg": {"nested": True}}}},
        {"mcpServers": [{**ENTRY, "name": "a", "envVars": {"A": "1"}}]},
    ],
)
def test_what_is_read_fits_the_schema(schema: Draft202012Validator, more: Any) -> None:
    config = {"mcpServers": {"a": ENTRY}, **more}
    read(config)
    assert faults(schema, config) == set()


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"mcpagg": {"profile": {}}}, "$.mcpagg"),
        ({"mcpagg": {"profiles": {"p": {"exposes": []}}}}, "$.mcpagg.profiles.p"),
        ({"mcpagg": {"overlays": {"a:t": {"title": 1}}}}, "$.mcpagg.overlays['a:t'].title"),
        ({"tools": {"t": {"subtools": {"a": {"tools": [{}]}}}}}, "$.tools.t.subtools.a"),
        ({"envVars": [{"nam": "KEY"}]}, "$.envVars[0]"),
        ({"serverTransport": {"type": "ws"}}, "$.serverTransport.type"),
        ({"mcpServers": {"a": {"mcpagg": {"nestd": True}}}}, "$.mcpServers.a.mcpagg"),
    ],
)
def test_what_is_misspelt_in_our_keys_does_not_fit(
    schema: Draft202012Validator, more: Any, path: str
) -> None:
    assert path in faults(schema, {"mcpServers": {"a": ENTRY}, **more})


def test_a_key_of_ours_comes_with_what_it_means(schema: Draft202012Validator) -> None:
    for name, model in schema.schema["$defs"].items():
        for key, member in model["properties"].items():
            assert member.get("description"), (name, key)


def test_each_fault_is_said_once_and_all_of_them_at_once() -> None:
    own = {
        "profiles": {"p": {"hide": {}, "exposes": 1}, "a b": {}},
        "overlays": {"webb:q": {}, "a:q": {"title": []}},
    }
    assert refusal({"mcpServers": {"web": ENTRY, "a": ENTRY}, "mcpagg": own}).splitlines() == [
        "mcp.json: mcpagg.profiles.p.hide: expected a string or a list of strings, found an"
        ' object; write ["web:admin*"]',
        "mcp.json: mcpagg.profiles.p.exposes: is not understood; did you mean `expose`?",
        'mcp.json: mcpagg.profiles["a b"]: a profile\'s name has letters, digits, _, . and -;'
        " rename it",
        'mcp.json: mcpagg.overlays["webb:q"]: is for no server of the config; did you mean `web`?',
        'mcp.json: mcpagg.overlays["a:q"].title: expected a string, or null to leave it out,'
        " found a list",
    ]


RUN = {"a": {"tools": ["x"]}}
SUBTOOL = {"a": {"tools": [{"name": "x", "desc": "d"}]}}


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ({"envVars": [{"name": "K", "expnd": True}]}, "envVars[0].expnd: is not understood; did"),
        ({"mcpagg": []}, 'mcpagg: expected an object, found a list; write {"profiles": '),
        ({"envVars": {"K": "1"}}, "envVars: expected a list, found an object"),
        ({"envVars": ["K"]}, "envVars[0]: expected an object, found a string"),
        ({"serverTransport": {"type": "sse", "prot": 1}}, "serverTransport.prot: is not under"),
        ({"serverTransport": {"type": "sse", "hosts": "x"}}, "did you mean `host`?"),
        ({"serverTransport": {"type": "sse", "port": "${P}"}}, "65535; write a number, or leave"),
        ({"serverTransport": {"type": "sse", "port": "65536"}}, "expected a number from 0 to"),
        ({"serverTransport": {"type": "sse", "host": " "}}, "serverTransport.host: is empty"),
        ({"tools": {"t": {"subtools": RUN, "descr": ""}}}, "did you mean `description`?"),
        ({"tools": {"t": {"subtools": RUN, "disallowed": ["x"]}}}, "t.disallowed: is not underst"),
        ({"tools": {"t": {"subtools": {"a": {**RUN["a"], "foo": 1}}}}}, "a.foo: is not underst"),
        ({"tools": {"t": {"subtools": SUBTOOL}}}, "a.tools[0].desc: is not understood; did you"),
        ({"tools": {"t": {"subtool": RUN}}}, "tools.t.subtool: is not understood; did you mean"),
        ({"tools": {"t": {"subTools": RUN}}}, "json: tools.t.subTools: is not understood; did you"),
        ({"tools": {"t": {"subtools": RUN}, "u": {}}}, "tools.u.subtools: is missing; write"),
    ],
)
def test_what_is_ours_is_closed_for_the_compiler_and_for_the_schema(
    schema: Draft202012Validator, more: Any, refused: str
) -> None:
    config = {"mcpServers": {"a": ENTRY}, **more}
    assert refused in (said := refusal(config))
    assert len(said.splitlines()) == 1
    assert faults(schema, config)


@pytest.mark.parametrize("port", [0, 65535, "80", "0080", "065535"])
def test_what_is_a_port_is_one_for_the_schema_too(
    schema: Draft202012Validator, port: int | str
) -> None:
    config = {"mcpServers": {"a": ENTRY}, "serverTransport": {"type": "sse", "port": port}}
    read(config)
    assert faults(schema, config) == set()


@pytest.mark.parametrize(
    ("key", "meant"),
    [("mcpag", "mcpagg"), ("envVar", "envVars"), ("serverTransprot", "serverTransport")],
)
def test_a_key_that_may_be_meant_as_one_of_ours_is_named(key: str, meant: str) -> None:
    _, warnings = read({"mcpServers": {"a": ENTRY}, key: {}})
    assert [*map(str, warnings)] == [
        f"{key}: is not understood and ignored; did you mean `{meant}`?"
    ]


def test_a_place_is_that_of_the_file_where_a_short_form_is_written() -> None:
    listed = {"t": {"subtools": {"a": ["x", " "]}}}
    text = refusal({"mcpServers": {"a": ENTRY}, "tools": listed})
    assert text == "mcp.json: tools.t.subtools.a[1]: is empty"
    read({"mcpServers": {"a": ENTRY}, "$schema": "s"}, stdio_only=True)


def test_keys_that_no_schema_knows_are_reported_whatever_they_are() -> None:
    own = {"[key]": 1, "profiles": {"[key]": 1, "\ud800": {"expose": ["\udc00"]}}}
    text = refusal({"mcpServers": {"a": ENTRY}, "mcpagg": own})
    assert 'mcpagg["[key]"]: is not understood; known: profiles, overlays' in text
    assert "expected an object, found a number" in text
    assert text.count("holds half of a surrogate pair") == 2
