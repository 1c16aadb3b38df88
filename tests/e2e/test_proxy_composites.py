"""Composite tools and masked variables, from a coordinator's config to the wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from proxies import running, served
from wire import Wire, call, received, stub_entry, text, tool_names, tools

from mcpagg.command.cli import main

Json = dict[str, Any]

SESAME = 'p"ss/wörd'


def compiled(folder: Path, config: Json, *flags: str) -> Path:
    """Compile a whole config; return the emitted file."""
    (folder / "mcp.json").write_text(json.dumps(config), encoding="utf-8")
    file = folder / "server.py"
    assert main([str(folder / "mcp.json"), "-o", str(file), "--quiet", *flags]) == 0
    return file


def composite(**subtools: list[Any]) -> Json:
    return {"subtools": {server: {"tools": listed} for server, listed in subtools.items()}}


def named(*names: str) -> list[Json]:
    return [{"name": name} for name in names]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("composites")
    two = stub_entry(tools=["raw", "die", "error"], log=str(folder / "two"))
    one = stub_entry(tools=["echo", "hidden", "progress"], does={"hidden": "raw"})
    config = {
        "mcpServers": {"one": {**one, "hiddenTools": ["hidden"]}, "two": two},
        "tools": {
            "dev tool": {
                "description": "Does it all.",
                **composite(
                    one=[{"name": "echo", "description": "Says it."}, *named("hidden", "progress")],
                    two=named("raw", "die"),
                ),
            },
            "other": composite(two=named("error")),
        },
    }
    return compiled(folder, config)


@pytest.fixture(scope="module")
def wire(file: Path) -> Any:
    with served(file) as wire:
        yield wire


def test_a_composite_stands_behind_the_tools_and_describes_what_it_calls(wire: Wire) -> None:
    listed = tools(wire)
    names = [tool["name"] for tool in listed]
    assert names[-2:] == ["dev tool", "other"]
    assert "one:echo" in names
    assert "one:hidden" not in names
    dev = listed[-2]
    assert dev["description"].startswith(
        "Does it all.\n\n# Available subtools\n\n## one\n\n### echo"
    )
    assert "### echo\n\nSays it.\n\ninputSchema: {" in dev["description"]
    assert "## two\n\n### raw" in dev["description"]
    schema = dev["inputSchema"]
    assert list(schema["properties"]) == ["server", "tool", "args"]
    assert schema["required"] == ["server", "tool"]
    assert schema["properties"]["server"]["enum"] == ["one", "two"]


def test_a_client_that_refuses_a_space_sees_a_portable_name(file: Path) -> None:
    with served(file, client="claude-ai") as wire:
        assert "dev_tool" in tool_names(wire)
        assert text(call(wire, "dev_tool", server="one", tool="echo", args={"a": 1})) == '{"a":1}'


def test_arguments_reach_the_subtool_as_they_were_written(wire: Wire, file: Path) -> None:
    written = '{"n": 1.0,"e":1e999, "k":{"b":1,"a":1},"k":"\\u0041"}'
    wire.write(
        b'{"id":"c","method":"tools/call","params":{"_meta":{"progressToken":"t","x":1.0},"arguments":'
        b'{"args":%s,"server":"two","tool":"raw"},"name":"dev tool"}}\n' % written.encode()
    )
    wire.response("c")
    line = [m for m in lines(file.with_name("two")) if '"tools/call"' in m][-1]
    assert f'"arguments":{written},"name":"raw"}}' in line
    assert '"x":1.0' in line


def lines(log: Path) -> list[str]:
    return [json.loads(line).get("line", "") for line in log.read_text("utf-8").splitlines()]


def test_a_hidden_tool_can_be_called_through_a_composite_alone(wire: Wire) -> None:
    assert "result" in call(wire, "dev tool", server="one", tool="hidden")
    assert call(wire, "one:hidden")["error"]["code"] == -32601


def test_progress_comes_back_under_the_clients_token(wire: Wire) -> None:
    arguments = {"server": "one", "tool": "progress", "args": {"count": 1}}
    params = {"name": "dev tool", "arguments": arguments, "_meta": {"progressToken": "mine"}}
    assert "result" in wire.request("tools/call", params)
    assert wire.next_notification("notifications/progress")["params"]["progressToken"] == "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"server": "two", "tool": "error"}, "may not call two/error"),
        ({"server": "none", "tool": "raw"}, "may not call none/raw"),
        ({"server": "one"}, "needs the arguments"),
        ({"server": "one", "tool": 1}, "needs the arguments"),
        ({"server": "one", "tool": "echo", "args": []}, "needs the arguments"),
        ({}, "needs the arguments"),
    ],
)
def test_what_may_not_be_called_is_refused_with_what_may(
    wire: Wire, arguments: Json, words: str
) -> None:
    error = call(wire, "dev tool", **arguments)["error"]
    assert error["code"] == -32602
    assert words in error["message"]
    assert "it may call one/echo, one/hidden, one/progress, two/raw, two/die" in error["message"]


def test_a_call_without_arguments_is_refused(wire: Wire) -> None:
    assert wire.request("tools/call", {"name": "other"})["error"]["code"] == -32602


def test_a_subtool_of_a_server_that_is_down_fails_and_names_it(wire: Wire) -> None:
    arguments = {"server": "two", "tool": "die"}
    for _ in range(2):
        error = call(wire, "dev tool", **arguments)["error"]
        assert error["code"] == -32603
        assert error["data"] == {"server": "two"}
    assert tool_names(wire)[-2:] == ["dev tool", "other"]
    assert "result" in call(wire, "dev tool", server="one", tool="echo")


def test_it_is_compiled_offline_and_checked(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = file.read_bytes()
    assert main(["--check", "-o", str(file)]) == 0
    assert main(["--offline", "-o", str(file), "--quiet"]) == 0
    assert file.read_bytes() == before
    assert main([str(file.with_name("mcp.json")), "--dry-run"]) == 0
    assert "composite tool other: two/error" in capfd.readouterr().out


def test_a_proxy_without_composites_holds_nothing_of_them(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"mcpServers": {"one": stub_entry()}})
    emitted = file.read_text("utf-8")
    for word in ("SUBTOOLS", "class Subcall", "class Masked"):
        assert word not in emitted


def test_a_subtool_that_is_not_there_is_an_error_with_its_path(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = {"mcpServers": {"one": stub_entry()}, "tools": {"t": composite(one=named("nope"))}}
    (tmp_path / "mcp.json").write_text(json.dumps(config))
    assert main([str(tmp_path / "mcp.json"), "-o", str(tmp_path / "s.py")]) == 2
    assert "tools.t.subtools.one.tools[0]: 'one' has no tool 'nope'" in capfd.readouterr().err


def test_a_name_that_is_taken_is_a_clash(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = {
        "mcpServers": {"one": stub_entry()},
        "tools": {"one:echo": composite(one=named("echo"))},
    }
    (tmp_path / "mcp.json").write_text(json.dumps(config))
    assert main([str(tmp_path / "mcp.json"), "-o", str(tmp_path / "s.py")]) == 5
    assert "rename the composite tool" in capfd.readouterr().err


def test_a_hidden_subtool_is_refused_where_drift_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    one = {**stub_entry(tools=["echo", "raw"]), "hiddenTools": ["raw"]}
    config = {"mcpServers": {"one": one}, "tools": {"t": composite(one=named("raw"))}}
    (tmp_path / "mcp.json").write_text(json.dumps(config))
    flags = ["-o", str(tmp_path / "s.py"), "--on-drift", "refuse"]
    assert main([str(tmp_path / "mcp.json"), *flags]) == 2
    assert "a hidden tool is not compared" in capfd.readouterr().err


def test_a_subtool_that_changed_is_withheld_where_drift_is_refused(tmp_path: Path) -> None:
    options = tmp_path / "options.json"
    options.write_text(json.dumps({"tools": ["echo", "raw"]}))
    entry = stub_entry()
    entry["args"][-1] = f"@{options}"
    config = {"mcpServers": {"one": entry}, "tools": {"t": composite(one=named("echo", "raw"))}}
    file = compiled(tmp_path, config, "--on-drift", "refuse")
    changed = '{"name":"echo","description":"evil","inputSchema":{"type":"object"}}'
    options.write_text(json.dumps({"tools": [changed, "raw"]}))
    with served(file) as wire:
        refusal = call(wire, "t", server="one", tool="echo")["error"]
        assert "changed since this proxy was compiled" in refusal["message"]
        assert "result" in call(wire, "t", server="one", tool="raw")


# --- Masks ------------------------------------------------------------------------------------


@pytest.fixture
def masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DB_PASSWORD", SESAME)
    monkeypatch.setenv("REGION", "eu-1")
    config = {
        "envVars": [{"name": "REGION", "expand": True, "unexpand": False}],
        "mcpServers": {
            "one": {
                **stub_entry(tools=["echo", "raw_result", "error"], log=str(tmp_path / "one")),
                "envVars": [
                    {
                        "name": "PASSWORD",
                        "value": "${DB_PASSWORD}",
                        "expand": True,
                        "unexpand": True,
                    }
                ],
            },
            "two": stub_entry(tools=["echo"]),
        },
        "tools": {"both": composite(one=named("echo"))},
    }
    return compiled(tmp_path, config)


def last_arguments(log: Path) -> Any:
    calls = [m for m in received(log) if m.get("method") == "tools/call"]
    return calls[-1]["params"]["arguments"]


def test_a_reference_becomes_the_value_and_the_value_a_reference(masked: Path) -> None:
    assert SESAME not in masked.read_text("utf-8")
    with served(masked) as wire:
        answer = call(wire, "one:echo", p="a ${PASSWORD} b", r="${REGION}", o="${OTHER} $PASSWORD")
        assert last_arguments(masked.with_name("one")) == {
            "p": f"a {SESAME} b",
            "r": "eu-1",
            "o": "${OTHER} $PASSWORD",
        }
        echoed = json.loads(text(answer))
        assert echoed == {"p": "a ${PASSWORD} b", "r": "eu-1", "o": "${OTHER} $PASSWORD"}
        answer = call(wire, "both", server="one", tool="echo", args={"p": "${PASSWORD}"})
        assert json.loads(text(answer)) == {"p": "${PASSWORD}"}
        assert last_arguments(masked.with_name("one")) == {"p": SESAME}


def test_only_the_servers_that_ask_for_it_are_masked(masked: Path) -> None:
    with served(masked) as wire:
        echoed = json.loads(text(call(wire, "two:echo", p="${PASSWORD}", r="${REGION}", s=SESAME)))
        assert echoed == {"p": "${PASSWORD}", "r": "eu-1", "s": SESAME}


def test_results_and_errors_are_masked_however_they_are_escaped(masked: Path) -> None:
    spelled = ['"p\\"ss\\/wörd"', '"\\u0070\\"ss/w\\u00f6rd"', json.dumps(SESAME)]
    with served(masked) as wire:
        for written in spelled:
            raw = f'{{"content":[],"n":1.0,"k": {written}}}'
            answer = call(wire, "one:raw_result", json=raw)
            assert answer["result"] == {"content": [], "n": 1.0, "k": "${PASSWORD}"}
        error = call(wire, "one:error", code=-1, message=f"no {SESAME}")["error"]
        assert error["message"] == "no ${PASSWORD}"


def test_a_variable_that_is_missing_is_named_with_its_path(
    masked: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DB_PASSWORD")
    monkeypatch.delenv("REGION")
    assert main([str(masked.with_name("mcp.json")), "--dry-run"]) == 3
    err = capfd.readouterr().err
    assert "mcpServers.one.envVars[0].value: server 'one' needs the variable DB_PASSWORD" in err
    assert "envVars[0].value: server 'two' needs the variable REGION" in err
    with running(masked) as wire:
        assert wire.wait() == 3
        assert "server 'one' cannot be started: not set in the environment: " in wire.stderr
        assert "DB_PASSWORD (in masks.PASSWORD)" in wire.stderr
