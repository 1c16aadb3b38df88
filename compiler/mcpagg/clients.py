"""Where clients keep their MCP configs, and what to paste into one of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from mcpagg.problems import ConfigError, Problem

# Looked at in order: a project's own config before the user's. `{apps}` is where a system keeps
# the data of applications, `{config}` where its command-line programs keep their settings.
PLACES: dict[str, tuple[str, ...]] = {
    "amazon-q": ("{cwd}/.amazonq/mcp.json", "{home}/.aws/amazonq/mcp.json"),
    "antigravity": ("{cwd}/.agents/mcp_config.json", "{home}/.gemini/config/mcp_config.json"),
    "claude-code": ("{cwd}/.mcp.json", "{home}/.claude.json"),
    "claude-desktop": ("{apps}/Claude/claude_desktop_config.json",),
    "cline": (
        "{home}/.cline/mcp.json",
        "{apps}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    ),
    "copilot-cli": ("{cwd}/.github/mcp.json", "{home}/.copilot/mcp-config.json"),
    "cursor": ("{cwd}/.cursor/mcp.json", "{home}/.cursor/mcp.json"),
    "gemini": ("{cwd}/.gemini/settings.json", "{home}/.gemini/settings.json"),
    "kiro": ("{cwd}/.kiro/settings/mcp.json", "{home}/.kiro/settings/mcp.json"),
    "lm-studio": ("{home}/.lmstudio/mcp.json",),
    "opencode": (
        "{cwd}/opencode.json",
        "{cwd}/opencode.jsonc",
        "{config}/opencode/opencode.json",
        "{config}/opencode/opencode.jsonc",
    ),
    "qwen": ("{cwd}/.qwen/settings.json", "{home}/.qwen/settings.json"),
    "roo": (
        "{cwd}/.roo/mcp.json",
        "{apps}/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
    ),
    "vscode": ("{cwd}/.vscode/mcp.json", "{apps}/Code/User/mcp.json"),
    "windsurf": ("{home}/.codeium/windsurf/mcp_config.json",),
    "zed": ("{cwd}/.zed/settings.json", "{config}/zed/settings.json", "{apps}/Zed/settings.json"),
}
"""Client → its configs."""

NOT_JSON = {"codex": "TOML", "continue": "YAML", "goose": "YAML"}
"""Clients whose configs are not read, and why."""


def find_config(
    client: str, *, home: Path, environ: Mapping[str, str], platform: str, cwd: Path
) -> Path:
    """Return the config of `client`; `platform` is as `sys.platform`.

    Raises:
        ConfigError: the client is unknown, or there is none of its configs.
    """
    if client in NOT_JSON:
        _refuse(
            client, f"its config is {NOT_JSON[client]}, which is not read", "give a JSON config"
        )
    if client not in PLACES:
        _refuse(client, "unknown client", f"known are {', '.join(PLACES)}")
    folders = {"home": home, "cwd": cwd, **_folders(home, environ, platform)}
    places = [Path(place.format_map(folders)) for place in PLACES[client]]
    for place in places:
        if place.is_file():
            return place
    _refuse(client, "no config found", f"looked at {', '.join(map(str, places))}")


def _folders(home: Path, environ: Mapping[str, str], platform: str) -> dict[str, Path]:
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    if platform == "darwin":
        return {"apps": home / "Library/Application Support", "config": config}
    if platform == "win32":
        apps = Path(environ.get("APPDATA") or home / "AppData/Roaming")
        return {"apps": apps, "config": config}
    return {"apps": config, "config": config}


def _refuse(client: str, what: str, remedy: str) -> NoReturn:
    raise ConfigError(f"--from {client}", [Problem("", what, remedy)])


def desktop_entry(name: str, server_file: Path) -> dict[str, Any]:
    """Return what to paste into Claude Desktop's config for an emitted file."""
    python = "python" if sys.platform == "win32" else "python3"
    return {"mcpServers": {name: {"command": python, "args": [str(server_file.absolute())]}}}
