"""What the emitted file tells programs: what it offers and needs, how its servers are, and were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from proxies import KILLED, compiled, running, swapped
from wire import STUB, call, initialize, stub_entry, text

VALUE = "sentinel-value"


def asked(file: Path, *arguments: str) -> tuple[int, str, str]:
    """Run an emitted file with arguments; return its status and what it wrote."""
    command = [sys.executable, "-I", "-S", str(file), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def document(file: Path, *arguments: str) -> Any:
    """Return the one JSON document that an emitted file writes."""
    return json.loads(asked(file, *arguments)[1])


def entries(log: Path) -> list[tuple[str, str, str | None]]:
    """Return the states in a log, checked for their shape."""
    found = []
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        assert list(entry) == ["time", "server", "state", "reason"]
        assert abs(entry["time"] - time.time()) < 600
        found.append((entry["server"], entry["state"], entry["reason"]))
    return found


def test_what_it_offers_and_needs_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", VALUE)
    env = {"A": "${SOME_TOKEN}", "B": "${NOT_SET:-x}"}
    file = compiled(tmp_path, {"a": {**stub_entry(), "env": env}, "b": stub_entry(tools=[])})
    listing = document(file, "--list", "--json")
    assert listing["servers"] == {
        "a": {
            "tools": [
                {
                    "name": "a:echo",
                    "description": "Does echo.",
                    "original": "echo",
                    "portable": "a_echo",
                    "inputSchema": {"type": "object"},
                }
            ]
        },
        "b": {},
    }
    assert (listing["name"], listing["composites"]) == ("mcp", {})
    (tmp_path / "mcp.json").unlink()
    needs = document(file, "--env", "--json")
    assert needs["variables"] == [
        {
            "name": "SOME_TOKEN",
            "set": True,
            "has_default": False,
            "server": "a",
            "place": "env.A",
        },
        {"name": "NOT_SET", "set": False, "has_default": True, "server": "a", "place": "env.B"},
    ]
    assert VALUE not in json.dumps([listing, needs])


def test_how_the_servers_are_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", VALUE)
    options = tmp_path / "options.json"
    options.write_text(json.dumps({"tools": ["a", "b"]}))
    now = {"if_file": str(tmp_path / "now")}
    dying = {"at": {"start": [{"exit": 3, **now}]}}
    answers = {"at": {"initialize": [{"send": {"id": 1, "error": {"m": VALUE}}, **now}]}}
    servers: dict[str, Any] = {
        "same": stub_entry(newest="2025-06-18", refuse="answer"),
        "other": {"command": STUB[0], "args": [*STUB[1:], f"@{options}"]},
        "dead": stub_entry(**dying),
        "told": {**stub_entry(**answers), "env": {"KEY": "${SOME_TOKEN}"}},
    }
    file = compiled(tmp_path, servers)
    options.write_text(json.dumps({"tools": ["a", "c", VALUE]}))
    (tmp_path / "now").touch()
    status, out, err = asked(file, "--check", "--json")
    found = json.loads(out)["servers"]
    assert (status, list(found)) == (1, list(servers))
    assert VALUE not in out.replace(f"+{VALUE}", "") + err.replace(f"+{VALUE}", "")
    for server in ("same", "other"):
        assert 0 < found[server].pop("started_in") < 30
    assert found["same"] == {
        "state": "ready",
        "reason": None,
        "protocol": "2025-06-18",
        "drift": {},
        "changes": {},
    }
    assert found["other"]["drift"] == {"tools": "+c +${SOME_TOKEN} -b"}
    changes = {"c": ["added"], "${SOME_TOKEN}": ["added"], "b": ["removed"]}
    assert found["other"]["changes"] == {"tools": changes}
    assert found["dead"] == {
        "state": "down",
        "reason": "exited with status 3",
        "protocol": None,
        "drift": {},
        "changes": {},
        "started_in": None,
    }
    assert "refused the handshake" in found["told"]["reason"]


def test_a_check_ends_although_a_list_never_comes_to_rest(tmp_path: Path) -> None:
    restless = {"at": {"tools/list": [{"notify": "notifications/tools/list_changed"}]}}
    for policy, status in (("live", 0), ("refuse", 1)):
        file = swapped(tmp_path, {}, restless, "--on-drift", policy)
        text_ = file.read_text().replace("PATIENCE_SECONDS = 10.0", "PATIENCE_SECONDS = 1.0")
        file.write_text(text_)
        assert asked(file, "--check", "--json")[0] == status


def test_the_states_of_the_servers_are_logged(tmp_path: Path) -> None:
    log = tmp_path / "states"
    log.write_text("")
    odd = stub_entry(tools=["echo", "die"], at={"call die": [{"stderr": "words\n"}]})
    file = compiled(tmp_path, {"odd": odd, "good": stub_entry()}, "--restart", "on-call")
    with running(file, "--log", str(log)) as wire:
        initialize(wire)
        assert text(call(wire, "odd:echo")) == "{}"
        assert "error" in call(wire, "odd:die")
    found = entries(log)
    mine = [(state, reason) for server, state, reason in found if server == "odd"]
    assert mine == [
        ("queued", None),
        ("starting", None),
        ("ready", None),
        ("down", KILLED),
    ]
    assert {server for server, *_ in found} == {"odd", "good"}
    with running(file, "--log", str(log)) as wire:
        initialize(wire)
        assert text(call(wire, "odd:echo")) == "{}"
    assert entries(log)[: len(found)] == found
    assert len(entries(log)) > len(found)


def test_calls_are_logged_if_that_is_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    file = compiled(tmp_path, {"a": stub_entry()})
    with running(file, "--log", str(log), "--log-calls") as wire:
        initialize(wire)
        assert text(call(wire, "a:echo", x="SECRET")) == '{"x":"SECRET"}'
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    [line] = [line for line in lines if "outcome" in line]
    assert (line["server"], line["name"], line["outcome"]) == ("a", "a:echo", "ok")
    assert "SECRET" not in log.read_text()
    assert asked(file, "--log-calls")[0] == 2


@pytest.mark.parametrize("level", ["debug", "info"])
def test_the_level_of_the_environment_has_calls_logged_where_there_is_a_log(
    tmp_path: Path, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = compiled(tmp_path, {"a": stub_entry()})
    monkeypatch.setenv("MCP_PROXY_LOG_LEVEL", level)
    with running(file, "--log", str(tmp_path / "log")) as wire:
        initialize(wire)
        call(wire, "a:echo", x="SECRET")
    with running(file) as wire:
        initialize(wire)
        call(wire, "a:echo")
        assert wire.close() == 0
        assert wire.stderr == ""
    status, out, _ = asked(file, "--env")
    assert (status, "MCP_PROXY_LOG_LEVEL  debug, without effect" in out) == (0, level == "debug")
    monkeypatch.setenv("MCP_PROXY_LOG_DIRECTORY_PATH", str(tmp_path))
    with running(file) as wire:
        initialize(wire)
        call(wire, "a:echo", x="SECRET")
    assert "MCP_PROXY_LOG_LEVEL" not in asked(file, "--env")[1]
    for log in (tmp_path / "log", tmp_path / "mcp.log"):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert [one["name"] for one in lines if "name" in one] == ["a:echo"] * (level == "debug")
        assert "ready" in [one.get("state") for one in lines]
        assert "SECRET" not in log.read_text()


def test_a_log_has_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", VALUE)
    now = {"if_file": str(tmp_path / "now")}
    answers = {"at": {"initialize": [{"send": {"id": 1, "error": {"m": VALUE}}, **now}]}}
    file = compiled(tmp_path, {"odd": {**stub_entry(**answers), "env": {"K": "${SOME_TOKEN}"}}})
    (tmp_path / "now").touch()
    log = tmp_path / "states"
    with running(file, "--log", str(log)) as wire:
        initialize(wire)
        assert "refused" in call(wire, "odd:echo")["error"]["message"]
    assert "${SOME_TOKEN}" in log.read_text()
    assert VALUE not in log.read_text()


@pytest.mark.parametrize("place", ["no/such/folder", ".", "pipe"])
def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path, place: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    file = compiled(tmp_path, {"good": stub_entry()})
    status, out, err = asked(file, "--log", str(tmp_path / place))
    assert (status, out) == (2, "")
    assert err.startswith(f"cannot write the log {tmp_path / place}: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--json"], ["--json", "--call", "x", "{}"]])
def test_json_goes_with_what_can_be_json(tmp_path: Path, arguments: list[str]) -> None:
    status, out, _ = asked(compiled(tmp_path, {"good": stub_entry()}), *arguments)
    assert (status, out) == (2, "")
