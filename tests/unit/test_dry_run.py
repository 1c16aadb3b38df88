"""A dry run refuses what a compilation refuses, with the same words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpagg.command.cli import main
from mcpagg.compiling import compile_proxy, dry_run
from mcpagg.job import Job
from mcpagg.options import Options, Source
from mcpagg.problems import CompileError

ENVIRON = {"PATH": "/usr/bin:/bin"}


def dry_refusal(source: Source) -> CompileError:
    try:
        fault = dry_run(source, ENVIRON).fault
    except CompileError as problem:
        return problem
    assert fault is not None
    return fault


@pytest.mark.parametrize(
    ("servers", "options", "status"),
    [
        ({"r": {"url": "https://h.example/${NOT_SET}"}, "a": {"command": "no-such-tool"}}, {}, 3),
        ({"a": {"command": "no-such-tool", "args": ["${NOT_SET}"]}}, {}, 3),
        ({"a": {"command": "sh", "sandbox": {"network": False}}}, {}, 2),
        ({"a": {"command": "sh"}}, {"only": ("b",)}, 2),
        ({"a": {"command": "sh"}}, {"hide": ("b:*",)}, 2),
    ],
)
def test_a_dry_run_refuses_what_a_compilation_refuses(
    tmp_path: Path, servers: dict[str, Any], options: dict[str, Any], status: int
) -> None:
    text = json.dumps({"mcpServers": servers}).encode()
    source = Source(text, "mcp.json", tmp_path, Options(**options))
    with pytest.raises(CompileError) as refused:
        compile_proxy(Job(source=source, environ=ENVIRON))
    dry = dry_refusal(source)
    assert str(dry) == str(refused.value)
    assert (dry.exit_code, refused.value.exit_code) == (status, status)


def test_what_is_left_out_is_shown_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = {"on": {"command": "sh"}, "off": {"disabled": True}, "skipped": {}}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    command = [str(config), "--dry-run", "--skip", "skipped"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "off: left out: switched off in the config\nskipped: left out: --skip\n" in shown
    assert main([*command, "--report", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == [
        {"name": "off", "path": "mcpServers.off", "why": "switched off in the config"},
        {"name": "skipped", "path": "mcpServers.skipped", "why": "--skip"},
    ]


def test_of_a_remote_server_the_url_and_the_names_of_its_headers_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headers = {"Authorization": "Bearer ${TOKEN:-none}", "X-Team": "blue"}
    entry = {"url": "https://h.example/mcp", "headers": headers}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"r": entry}}))
    assert main([str(config), "--dry-run"]) == 0
    assert capsys.readouterr().out == (
        "r: streamable-http: https://h.example/mcp\n"
        "  headers: Authorization, X-Team\n"
        "  TOKEN: not set, has a default (headers.Authorization)\n"
    )
    assert main([str(config), "--dry-run", "--report", "json"]) == 0
    [server] = json.loads(capsys.readouterr().out)["servers"]
    assert server["url"] == "https://h.example/mcp"
    assert server["headers"] == headers


def test_a_dry_run_refuses_to_overwrite_what_a_compilation_would_not(tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"a": {"command": "sh"}}}))
    assert main([str(config), "--dry-run", "-o", str(config)]) == 2


def test_warnings_that_are_alike_are_one_line_with_their_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"command": "sh", "gadget": 1, "gizmo": 1, "args": [1, 2]}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": dict.fromkeys("abc", entry)}))
    command = [str(config), "--dry-run"]
    assert main(command) == 0
    head, *short = capsys.readouterr().err.splitlines()
    assert head == f"{config}:"
    assert [line.partition("warning: ")[2].partition(": ")[0] for line in short] == [
        "mcpServers.a.gadget",
        "mcpServers.a.gizmo",
        "mcpServers.a.args[0]",
    ]
    assert "is not understood and ignored (3 places in 3 servers, see -v)" in short[0]
    assert "(6 places in 3 servers, see -v); write it as a string" in short[2]
    assert main([*command, "-v"]) == 0
    assert len(capsys.readouterr().err.splitlines()) == 13
    assert main([*command, "--report", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == 12
