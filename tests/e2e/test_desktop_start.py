"""What a compile prints to paste starts the proxy with nothing of the shell that compiled it."""

from __future__ import annotations

import io
import json
import shlex
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from proxies import posix
from wire import STUB, Wire, call, initialize, text

from mcpagg.command.cli import main
from mcpagg.passes.config import read_config
from mcpagg_runtime.launch.variables import resolve

pytestmark = posix("its programs are shell scripts")

TOKEN = "s3cret-value-0123456789"  # noqa: S105
PROGRAM = f"""#!/usr/bin/env my-interpreter
import runpy
runpy.run_path({STUB[-1]!r}, run_name="__main__")
"""
INTERPRETER = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S "$@"\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user whose shell alone finds a program, and what its first line names."""
    for name, content in {"brew/some-tool": PROGRAM, "node/my-interpreter": INTERPRETER}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/brew:{tmp_path}/node:/usr/bin:/bin")
    monkeypatch.setenv("SOME_TOKEN", TOKEN)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


ENTRY = {"command": "some-tool", "env": {"KEY": "${SOME_TOKEN}"}}
TOML = '[mcp_servers.db]\ncommand = "some-tool"\nenv = { KEY = "$SOME_TOKEN" }\n'
YAML = "extensions:\n  db:\n    cmd: some-tool\n    type: stdio\n    envs: {KEY: $SOME_TOKEN}\n"

CLIENTS: dict[str, tuple[Any, ...]] = {
    "": ("mcp.json", {"mcpServers": {"db": ENTRY}}, "For Claude Desktop's config: "),
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        {"mcpServers": {"db": ENTRY}},
        "For Claude Desktop's config, {}: ",
    ),
    "claude-code": (
        ".claude.json",
        {"mcpServers": {"db": ENTRY}},
        "For Claude Code: claude mcp add-json mcp ",
    ),
    "vscode": (".vscode/mcp.json", {"servers": {"db": ENTRY}}, "For VS Code's config, {}: "),
    "copilot-cli": (
        ".mcp.json",
        {"mcpServers": {"db": ENTRY}},
        "For Copilot CLI's config, {}: ",
        ".copilot/mcp-config.json",
    ),
    "zed": (
        ".config/zed/settings.json",
        {"context_servers": {"db": ENTRY}},
        "For Zed's config, {}: ",
    ),
    "codex": (".codex/config.toml", TOML, "For Codex's config, {}:\n"),
    "goose": (".config/goose/config.yaml", YAML, "For Goose's config, {}:\n"),
}
"""Client → its config, what is in it, what is printed first, and into which file, if another."""


def starts(argv: list[str], env: dict[str, str]) -> None:
    """See that a server answers a call to a proxy that is started with this environment alone."""
    with Wire(argv, env=env) as wire:
        initialize(wire)
        assert text(call(wire, "db:echo", x="1")) == '{"x":"1"}'


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_printed_starts_from_a_desktop(
    client: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, content, beginning, *other = CLIENTS[client]
    config = home / place
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(content if isinstance(content, str) else json.dumps(content))
    chosen = ["--from", client] if client else [str(config)]
    assert main([*chosen, "-o", str(home / "server.py")]) == 0
    out = capsys.readouterr().out
    assert TOKEN not in out
    is_own = bool(client) and not other
    assert ("move the entries that are there to another file" in out) is is_own
    found = out[out.index("For ") :] if client else out[out.index("For Claude") :]
    found = found[found.index(beginning.partition("{")[0]) :].partition("\n  with ")[0]
    found = found.partition("\nOr each server as itself")[0]
    beginning = beginning.format(home / other[0] if other else config)
    assert found.startswith(beginning)
    pasted = found.removeprefix(beginning)
    if client == "claude-code":
        pasted = json.dumps({"mcpServers": {"x": json.loads(shlex.split(pasted)[0])}})
    spec, _ = read_config(pasted.encode(), source=config.name, folder=config.parent)
    [server] = spec.servers
    filled = {key: value.replace("…", TOKEN) for key, value in server.env.items()}
    env = {key: resolve(value, lambda _: TOKEN) for key, value in filled.items()}
    assert env["PATH"] == f"{home}/brew:{home}/node:/usr/bin:/bin:/usr/sbin:/sbin"
    starts([server.command, *server.args], env)


def test_an_extension_asks_for_folders_and_the_compile_tells_those_of_this_machine(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = home / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"db": ENTRY}}))
    extension = home / "all.mcpb"
    assert main([str(config), "-o", str(extension)]) == 0
    [line] = [one for one in capsys.readouterr().out.splitlines() if "its field PATH" in one]
    folders = line.partition(": ")[2]
    assert folders == f"{home}/brew:{home}/node"
    assert str(home).encode() not in extension.read_bytes()
    with zipfile.ZipFile(io.BytesIO(extension.read_bytes())) as archive:
        archive.extractall(home / "installed")
        manifest: dict[str, Any] = json.loads(archive.read("manifest.json"))
    start = manifest["server"]["mcp_config"]

    def filled(value: str) -> str:
        filled_in = {"SOME_TOKEN": TOKEN, "PATH": folders}
        for name, one in filled_in.items():
            value = value.replace(f"${{user_config.{name}}}", one)
        return value.replace("${__dirname}", str(home / "installed"))

    env = {name: filled(value) for name, value in start["env"].items()}
    starts(
        [start["command"], *map(filled, start["args"])],
        {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **env},
    )


def test_what_is_written_is_the_same_wherever_programs_are(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"db": ENTRY}}))
    texts = []
    for folder in ("brew", "other"):
        (home / "brew").rename(home / folder)
        monkeypatch.setenv("PATH", f"{home}/{folder}:{home}/node:/usr/bin:/bin")
        for name in ("server.py", "all.mcpb"):
            assert main([str(home / "mcp.json"), "-o", str(home / name), "-q"]) == 0
            texts.append((home / name).read_bytes())
    assert texts[:2] == texts[2:]
