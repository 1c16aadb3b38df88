"""One emitted file with profiles and overlays: chosen by an option, and by the client's name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from proxies import running, served
from wire import Wire, call, enveloped, events, initialize, stub_entry, text, tool_names, tools

from mcpagg.command.cli import main

OVERLAY = {"description": "Ours.", "_meta": {"anthropic/alwaysLoad": True}}
PROFILES = {
    "sales": {"expose": ["db:query"], "clients": ["cursor"]},
    "all": {"clients": ["ops"]},
    "default": {"hide": ["db:*"]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a compiled config; servers log there what they receive."""
    folder = tmp_path_factory.mktemp("profiles")
    servers = {
        name: stub_entry(tools=tools, instructions=f"Of {name}.", log=str(folder / f"{name}.log"))
        for name, tools in (("db", ["query", "drop"]), ("web", ["fetch"]))
    }
    own = {"profiles": PROFILES, "overlays": {"db:query": OVERLAY}}
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers, "mcpagg": own}))
    assert main([str(config), "-o", str(folder / "server.py"), "-q"]) == 0
    return folder


@pytest.fixture
def file(folder: Path) -> Path:
    """Return the emitted file, with no server started yet."""
    for log in folder.glob("*.log"):
        log.unlink()
    return folder / "server.py"


def asked(file: Path, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-I", "-S", str(file), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def check_sales(wire: Wire, folder: Path) -> None:
    """See that a client has the profile `sales`, and that the other server is left alone."""
    [tool] = tools(wire)
    assert (tool["name"], tool["description"]) == ("db_query", "Ours.")
    assert tool["_meta"] == {"anthropic/alwaysLoad": True}
    assert text(call(wire, "db:query", x=1)) == '{"x":1}'
    for name in ("db:drop", "web:fetch", "drop", "fetch"):
        assert call(wire, name)["error"]["code"] in (-32601, -32602)
    assert not (folder / "web.log").exists()
    assert len(events(folder / "db.log", "start")) == 1


def test_a_client_is_given_the_profile_of_its_name(file: Path, folder: Path) -> None:
    with running(file) as wire:
        wire.request("ping")  # says nothing of the client
        hello = initialize(wire, client_info={"name": "Cursor", "version": "1"})
        assert "Of db." in hello["instructions"]
        assert "Of web." not in hello["instructions"]
        check_sales(wire, folder)


def test_a_modern_client_is_too(file: Path) -> None:
    info = {"name": "ops", "version": "1"}
    with running(file) as wire:
        params = enveloped(**{"io.modelcontextprotocol/clientInfo": info})
        listed = wire.request("tools/list", params)["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["db:query", "db:drop", "web:fetch"]


def test_a_profile_that_is_asked_for_is_served_to_any_client(file: Path, folder: Path) -> None:
    with running(file, "--profile", "sales", "--names", "portable") as wire:
        initialize(wire, client_info={"name": "ops", "version": "1"})
        check_sales(wire, folder)


def test_without_a_choice_the_default_is_served_and_shown(file: Path) -> None:
    with served(file, "nobody") as wire:
        assert tool_names(wire) == ["web:fetch"]
    assert asked(file, "--list")[1].splitlines()[0] == "web: 1 tool"


def test_the_command_line_knows_profiles_and_overlays(file: Path) -> None:
    status, out, _ = asked(file, "--list", "--profile", "sales")
    assert (status, out) == (0, "db: 1 tool\n  db:query()  Ours.\n")
    status, out, _ = asked(file, "--list", "--profile", "sales", "--json")
    [tool] = json.loads(out)["servers"]["db"]["tools"]
    assert tool["description"] == "Ours."
    assert asked(file, "--profile", "all", "--call", "db:drop", "{}")[0] == 0
    status, _, err = asked(file, "--profile", "sale")
    assert status == 2
    assert all(name in err for name in PROFILES)


def test_an_overlay_is_no_drift(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(file, "--check", "--profile", "all")[0] == 0
    assert main(["--check", "-o", str(file), "-q"]) == 0
    assert main(["--offline", "-o", str(file), "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_the_profiles_to_compile_in_can_be_chosen(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = tmp_path / "one.py"
    one.write_text(file.read_text())
    config: list[Any] = [str(file.parent / "mcp.json"), "--offline", "-o", str(one)]
    assert main([*config, "--profile", "sales"]) == 0
    assert "  profile sales" in capsys.readouterr().err
    assert asked(one, "--profile", "all", "--list")[0] == 2
    assert main([*config, "--profile", "sales", "--max-bytes", "150"]) == 2
    said = capsys.readouterr().err
    assert "the list of tools has" in said
    assert "of the profile" not in said
