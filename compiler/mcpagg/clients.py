"""Where clients keep their MCP configs."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple, NoReturn

from mcpagg.problems import ConfigError, Problem, suggest

# Looked at in order: a project's own config before the user's. `{apps}` is where a system keeps
# the data of applications, `{config}` where its command-line programs keep their settings, and
# `{packages}` where Windows keeps those of applications from its store. `*` is any name.
PLACES: dict[str, tuple[str, ...]] = {
    "amazon-q": ("{cwd}/.amazonq/mcp.json", "{home}/.aws/amazonq/mcp.json"),
    "amp": ("{cwd}/.amp/settings.json", "{config}/amp/settings.json"),
    "antigravity": ("{cwd}/.agents/mcp_config.json", "{home}/.gemini/config/mcp_config.json"),
    "claude-code": ("{cwd}/.mcp.json", "{home}/.claude.json"),
    "claude-desktop": (
        "{packages}/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json",
        "{apps}/Claude/claude_desktop_config.json",
    ),
    "cline": (
        "{home}/.cline/mcp.json",
        "{apps}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    ),
    "codex": ("{cwd}/.codex/config.toml", "{CODEX_HOME:.codex}/config.toml"),
    "continue": (
        "{cwd}/.continue/config.yaml",
        "{home}/.continue/config.yaml",
        "{home}/.continue/config.json",
    ),
    "copilot-cli": (
        "{cwd}/.mcp.json",
        "{cwd}/.github/mcp.json",
        "{COPILOT_HOME:.copilot}/mcp-config.json",
    ),
    "crush": (
        "{cwd}/.crush.json",
        "{cwd}/crush.json",
        "{config}/crush/crush.json",
    ),
    "cursor": ("{cwd}/.cursor/mcp.json", "{home}/.cursor/mcp.json"),
    "factory": ("{cwd}/.factory/mcp.json", "{home}/.factory/mcp.json"),
    "fast-agent": ("{cwd}/fastagent.config.yaml",),
    "gemini": ("{cwd}/.gemini/settings.json", "{home}/.gemini/settings.json"),
    "goose": ("{config}/goose/config.yaml", "{apps}/Block/goose/config/config.yaml"),
    "hermes": ("{HERMES_HOME:.hermes}/config.yaml",),
    "junie": ("{cwd}/.junie/mcp/mcp.json", "{home}/.junie/mcp/mcp.json"),
    "kilo": ("{cwd}/.kilocode/mcp.json",),
    "kiro": ("{cwd}/.kiro/settings/mcp.json", "{home}/.kiro/settings/mcp.json"),
    "librechat": ("{cwd}/librechat.yaml",),
    "lm-studio": ("{home}/.lmstudio/mcp.json",),
    "mcp-agent": ("{cwd}/mcp_agent.config.yaml",),
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
    "vibe": ("{cwd}/.vibe/config.toml", "{VIBE_HOME:.vibe}/config.toml"),
    "vscode": ("{cwd}/.vscode/mcp.json", "{cwd}/.mcp.json", "{apps}/Code/User/mcp.json"),
    "windsurf": ("{home}/.codeium/windsurf/mcp_config.json",),
    "zed": ("{cwd}/.zed/settings.json", "{config}/zed/settings.json", "{apps}/Zed/settings.json"),
}
"""Client → its configs. `{VARIABLE:NAME}` is a folder that a variable names, else ~/NAME."""

FILE_NAMES = frozenset(place.rpartition("/")[2] for places in PLACES.values() for place in places)
"""What clients call their configs, which says nothing of what is in one."""

_FOLDER = re.compile(r"\{(?P<name>\w+)(?::(?P<default>[\w.]+))?\}")


def find_config(
    client: str, *, home: Path, environ: Mapping[str, str], platform: str, cwd: Path
) -> Path:
    """Return the config of `client`; `platform` is as `sys.platform`.

    Raises:
        ConfigError: the client is unknown, there is none of its configs, or there are several
            in places of one rank.
    """
    places = _known(client, home, environ, platform, cwd)
    for place in places:
        files = _files_at(place)
        if len(files) > 1:
            _refuse(client, f"there are several: {', '.join(files)}", "give one of them as CONFIG")
        if files:
            return Path(files[0])
    _none_found(client, places)


class Found(NamedTuple):
    """A config of a client that is there; `is_project` of one that is a project's own."""

    file: Path
    is_project: bool


def find_all(
    client: str, *, home: Path, environ: Mapping[str, str], platform: str, cwd: Path
) -> list[Found]:
    """Return all configs of `client` that apply in the folder `cwd`, each file once.

    Raises:
        ConfigError: the client is unknown, or there is none of its configs.
    """
    places = _known(client, home, environ, platform, cwd)
    found: dict[str, Found] = {}
    for place in places:
        is_project = Path(place).is_relative_to(cwd) and not home.is_relative_to(cwd)
        for file in _files_at(place):
            found.setdefault(os.path.realpath(file), Found(Path(file), is_project))
    files = [one for one in found.values() if not _is_replaced(client, one.file)]
    return files or _none_found(client, places)


def _is_replaced(client: str, file: Path) -> bool:
    """Whether a client passes over a file, as another one is there: Continue's old config."""
    newer = file.with_name("config.yaml")
    return client == "continue" and file.suffix == ".json" and newer.is_file()


def client_of(config: Path) -> str:
    """Return the client whose config has such a path, "" if it is none's."""
    path = config.as_posix()
    for client, places in PLACES.items():
        ends = (_FOLDER.sub(lambda match: f"*/{match['default'] or ''}", place) for place in places)
        if any(fnmatchcase(path, end.replace("//", "/")) for end in ends):
            return client
    return ""


def users_place(client: str, home: Path, environ: Mapping[str, str], platform: str) -> str:
    """Return the path of a user's own config of a client, or that of a project if it has none."""
    here = Path("<project>")
    places = [Path(place) for place in _places(client, home, environ, platform, here)]
    own = [place for place in places if here not in place.parents and "*" not in str(place)]
    return str(next(filter(Path.exists, own), own[0]) if own else places[0].relative_to(here))


def _known(
    client: str, home: Path, environ: Mapping[str, str], platform: str, cwd: Path
) -> list[str]:
    """Return where the configs of a client may lie.

    Raises:
        ConfigError: the client is unknown.
    """
    if client not in PLACES:
        near = suggest(client, PLACES) or f"known are {', '.join(PLACES)}"
        _refuse(client, "unknown client", near)
    return _places(client, home, environ, platform, cwd)


def _files_at(place: str) -> list[str]:
    """Return the files at a place, in which `*` is any name."""
    pattern = glob.escape(place).replace("[*]", "*")
    return sorted(filter(os.path.isfile, glob.glob(pattern)))


def _none_found(client: str, places: list[str]) -> NoReturn:
    paths = ", ".join(str(Path(place)) for place in places)
    _refuse(client, "no config found", f"looked at {paths}")


def _places(
    client: str, home: Path, environ: Mapping[str, str], platform: str, cwd: Path
) -> list[str]:
    """Return where the config of a client may lie, in the order in which it is looked for."""
    folders = {"home": home, "cwd": cwd, **_folders(home, environ, platform)}

    def folder(match: re.Match[str]) -> str:
        if match["default"]:
            return environ.get(match["name"]) or str(home / match["default"])
        return str(folders[match["name"]])

    patterns = [p for p in PLACES[client] if "packages" in folders or "{packages}" not in p]
    return [_FOLDER.sub(folder, place) for place in patterns]


def _folders(home: Path, environ: Mapping[str, str], platform: str) -> dict[str, Path]:
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    if platform == "darwin":
        return {"apps": home / "Library/Application Support", "config": config}
    if platform == "win32":
        apps = Path(environ.get("APPDATA") or home / "AppData/Roaming")
        local = Path(environ.get("LOCALAPPDATA") or home / "AppData/Local")
        return {"apps": apps, "config": config, "packages": local / "Packages"}
    return {"apps": config, "config": config}


def _refuse(client: str, what: str, remedy: str) -> NoReturn:
    raise ConfigError(f"--from {client}", [Problem("", what, remedy)])
