"""The example proxies are what compiling their configs now would write."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from proxies import served
from wire import call, text, tool_names

from mcpagg.command.cli import main

GENERATED = Path(__file__).parents[2] / "generated"


def test_the_demo_is_up_to_date() -> None:
    assert main(["--check", "-o", str(GENERATED / "demo/server.py")]) == 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npx") is None, reason="needs Node's npx")
def test_the_reference_servers_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    # One of them does not end with its input.
    monkeypatch.setattr("mcpagg_runtime.processes.process.STDIN_GRACE_SECONDS", 0.2)
    assert main(["--check", "-o", str(GENERATED / "reference/server.py")]) == 0


@pytest.mark.parametrize("name", ["demo", "http", "reference"])
def test_an_example_is_up_to_date_but_for_what_servers_say(name: str) -> None:
    assert main(["--check", "--offline", "-o", str(GENERATED / name / "server.py")]) == 0


def test_the_demo_serves_its_tools() -> None:
    with served(GENERATED / "demo/server.py") as proxy:
        assert "units:convert" in tool_names(proxy)
        answer = text(call(proxy, "units:convert", value=3, source="km", target="m"))
        assert "3000" in answer


def test_the_first_command_of_the_demo_shows_what_its_page_says(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    config = GENERATED / "demo/mcp.json"
    command = [sys.executable, "-m", "mcpagg", str(config), "-o", str(file)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (GENERATED / "README.md").read_text("utf-8")
    for line in shown.splitlines()[1:4]:
        assert line in page
    entry = shown.split("config: ")[1].splitlines()[0]  # what may follow is about this machine
    assert json.loads(entry)["mcpServers"]["mcp"]["args"] == ["-I", str(file)]
