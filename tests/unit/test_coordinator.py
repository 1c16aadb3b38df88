"""Composite tools and masks as the coordinator's config writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from core import plan

from mcpagg.passes.config import read_config
from mcpagg.problems import ConfigError
from mcpagg.spec import ProxySpec
from mcpagg_runtime.tool.inspection import variable_line, variables


def read(**config: Any) -> tuple[ProxySpec, list[str]]:
    config.setdefault("mcpServers", {"a": {"command": "x"}, "b": {"command": "y"}})
    text = json.dumps(config).encode()
    spec, warnings = read_config(text, source="mcp.json", folder=Path("/p"))
    return spec, [str(warning) for warning in warnings]


def refusal(**config: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(**config)
    return str(caught.value)


def mask(name: str = "KEY", **more: Any) -> dict[str, Any]:
    return {"name": name, "expand": True, "unexpand": True, **more}


def test_composite_tools_are_read_with_their_subtools_in_order() -> None:
    subtools = {"b": {"tools": [{"name": "t", "description": "d"}]}, "a": {"tools": ["u", "v"]}}
    spec, warnings = read(tools={"both": {"description": "Both.", "subtools": subtools}})
    [composite] = spec.composites
    assert (composite.name, composite.description) == ("both", "Both.")
    assert [(one.server, one.tool, one.description) for one in composite.subtools] == [
        ("b", "t", "d"),
        ("a", "u", None),
        ("a", "v", None),
    ]
    assert composite.subtools[0].path == "tools.both.subtools.b.tools[0]"
    assert warnings == []


def test_a_server_that_is_switched_off_may_be_named() -> None:
    servers = {"a": {"command": "x"}, "b": {"command": "y", "enable": False}}
    spec, _ = read(mcpServers=servers, tools={"t": {"subtools": {"b": {"tools": ["x"]}}}})
    assert spec.composites[0].subtools[0].server == "b"


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ({"subtools": {}}, "tools.t: names no tool that it could call"),
        ({"subtools": {"a": {"tools": []}}}, "tools.t: names no tool that it could call"),
        ({"subtools": []}, 'tools.t.subtools: expected an object, found a list; write {"db"'),
        ({"subtools": {"no": {"tools": ["x"]}}}, 'tools.t.subtools.no: there is no server "no"'),
        ({"subtools": {"a": {"tools": {}}}}, "tools.t.subtools.a.tools: expected a list, found"),
        ({"subtools": {"a": {"tools": [{}]}}}, "tools.t.subtools.a.tools[0].name: is missing"),
        ({"subtools": {"a": ["x"]}, "description": 1}, "tools.t.description: expected a string"),
    ],
)
def test_a_fault_in_a_composite_tool_is_named_with_its_path(tool: Any, problem: str) -> None:
    assert problem in refusal(tools={"t": tool})


def test_tools_of_another_kind_are_ignored_with_a_word() -> None:
    spec, warnings = read(tools={"core": ["x"]})
    assert spec.composites == ()
    assert warnings == ['not about servers, ignored: "tools"']


def test_masks_of_a_server_win_over_those_of_all() -> None:
    servers = {
        "a": {"command": "x", "envVars": [mask(value="${OWN}")]},
        "b": {"command": "y", "envVars": ["LANG", "X=1"]},
    }
    spec, warnings = read(mcpServers=servers, envVars=[mask(), mask("MORE", unexpand=False)])
    masks = {
        server.name: {one.name: (one.value, one.path) for one in server.masks}
        for server in spec.servers
    }
    more = ("${MORE}", "envVars[1].value")
    assert masks == {
        "a": {"MORE": more, "KEY": ("${OWN}", "mcpServers.a.envVars[0].value")},
        "b": {"KEY": ("${KEY}", "envVars[0].value"), "MORE": more},
    }
    assert spec.servers[1].env == {"LANG": "${LANG}", "X": "1"}
    assert warnings == []


def test_a_literal_that_is_to_be_masked_is_refused_with_its_path_and_not_shown() -> None:
    text = refusal(envVars=[mask(value="open sesame")])
    assert "envVars[0].value: holds a value that clients must not see" in text
    assert "sesame" not in text
    spec, _ = read(envVars=[mask(value="production", unexpand=False)])
    assert spec.servers[0].masks[0].value == "production"
    assert "envVars[0].value" in refusal(
        envVars=[mask("API_KEY", value="a8f5f167f44f4964e6c998de", unexpand=False)]
    )


@pytest.mark.parametrize(
    ("masks", "problem"),
    [
        ([mask(), mask()], 'envVars[1]: the variable "KEY" is listed twice'),
        ([mask(), "X"], "envVars[1]: expected an object"),
        ([{"expand": True}], "envVars[0].name: is missing; write"),
        ([mask("a}b")], "envVars[0].name: is no name of a variable"),
        ([mask(expand="yes")], "envVars[0].expand: expected true or false"),
    ],
)
def test_a_fault_in_a_mask_is_named_with_its_path(masks: Any, problem: str) -> None:
    assert problem in refusal(envVars=masks)


def test_a_mask_that_does_nothing_is_named() -> None:
    spec, warnings = read(envVars=[mask(expand=False, unexpand=False)])
    assert spec.servers[0].masks == ()
    assert warnings == ["envVars[0]: neither `expand` nor `unexpand` is true, so it does nothing"]


def transport(**keys: Any) -> dict[str, Any]:
    return {"serverTransport": {"type": "streamable-http", **keys}}


def test_how_the_proxy_is_served_is_read_and_its_token_stays_a_reference() -> None:
    auth = {"type": "bearer", "token": "${TOKEN}"}
    spec, warnings = read(**transport(host="::1", port=8080, path="/x", auth=auth))
    assert spec.http == {
        "type": "streamable-http",
        "host": "::1",
        "port": 8080,
        "path": "/x",
        "token": "${TOKEN}",
    }
    assert warnings == []
    assert read(serverTransport={"type": "sse"})[0].http == {"type": "sse"}
    assert read(serverTransport={"type": "stdio", "port": 1})[0].http is None
    assert read()[0].http is None


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (transport(type="websocket"), "serverTransport.type: expected stdio, sse or str"),
        (transport(port="x"), "serverTransport.port: expected a number"),
        (transport(port=70000), "serverTransport.port: expected a number"),
        (transport(port=True), "serverTransport.port: expected a number"),
        (transport(path=7), "serverTransport.path: expected a string"),
        (transport(auth={"type": "basic", "token": "${T}"}), "auth.type: expected bearer"),
        (transport(auth={"type": "bearer"}), "serverTransport.auth.token: is missing; write"),
        (transport(auth={"token": "open sesame"}), "auth.token: is a token that is written out"),
        ({"serverTransport": "sse"}, "serverTransport: expected an object"),
    ],
)
def test_a_fault_in_how_it_is_served_is_named_with_its_path(config: Any, problem: str) -> None:
    text = refusal(**config)
    assert problem in text
    assert "sesame" not in text


@pytest.mark.parametrize("environ", [{}, {"PROXY_TOKEN": "t"}])
def test_the_variable_of_the_proxys_own_token_is_listed(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    proxy = plan({"db": ["query"]})
    proxy.options.http = {"type": "streamable-http", "token": "${PROXY_TOKEN}"}
    [use] = variables(proxy, "")
    assert use == {
        "name": "PROXY_TOKEN",
        "set": bool(environ),
        "has_default": False,
        "server": None,
        "place": "serverTransport.auth.token",
    }
    state = "set" if environ else "not set"
    assert variable_line(use) == f"PROXY_TOKEN  {state}  (serverTransport.auth.token)"
