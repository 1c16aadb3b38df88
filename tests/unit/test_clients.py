"""Where each client's config lies, on each system."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpagg.clients import PLACES, client_of, find_config, users_place
from mcpagg.job import Job
from mcpagg.options import Options, Source
from mcpagg.passes.config.dialects import DIALECTS, Dialect
from mcpagg.problems import ConfigError


def find(client: str, tmp_path: Path, platform: str = "linux", **environ: str) -> Path:
    return find_config(
        client,
        home=tmp_path / "home",
        environ=environ,
        platform=platform,
        cwd=tmp_path / "project",
    )


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("linux", ".config/Claude/claude_desktop_config.json"),
        ("darwin", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "AppData/Roaming/Claude/claude_desktop_config.json"),
    ],
)
def test_claude_desktop_is_found_on_each_system(tmp_path: Path, platform: str, place: str) -> None:
    expected = put(tmp_path / "home" / place)
    assert find("claude-desktop", tmp_path, platform) == expected


@pytest.mark.parametrize(
    ("platform", "variable"), [("linux", "XDG_CONFIG_HOME"), ("win32", "APPDATA")]
)
def test_the_environment_says_where_applications_keep_their_data(
    tmp_path: Path, platform: str, variable: str
) -> None:
    expected = put(tmp_path / "data" / "Code" / "User" / "mcp.json")
    assert find("vscode", tmp_path, platform, **{variable: str(tmp_path / "data")}) == expected


def test_a_projects_config_comes_before_the_users(tmp_path: Path) -> None:
    users = put(tmp_path / "home" / ".cursor" / "mcp.json")
    assert find("cursor", tmp_path) == users
    projects = put(tmp_path / "project" / ".cursor" / "mcp.json")
    assert find("cursor", tmp_path) == projects


@pytest.mark.parametrize("client", PLACES)
def test_a_client_without_a_config_names_the_places(client: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        find(client, tmp_path)
    assert f"--from {client}: no config found; looked at {tmp_path}" in str(caught.value)
    assert "{" not in str(caught.value)


def test_an_unknown_client_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"unknown client; known are {min(PLACES)}, "):
        find("emacs", tmp_path)
    with pytest.raises(ConfigError, match=r"unknown client; did you mean `cursor`\?"):
        find("curser", tmp_path)


@pytest.mark.parametrize(
    ("client", "places"),
    [
        ("copilot-cli", ["project/.mcp.json", "project/.github/mcp.json"]),
        ("copilot-cli", ["home/.copilot/mcp-config.json"]),
        ("codex", ["project/.codex/config.toml", "home/.codex/config.toml"]),
        ("goose", ["home/.config/goose/config.yaml"]),
        ("librechat", ["project/librechat.yaml"]),
    ],
)
def test_a_client_is_found_where_it_looks(client: str, places: list[str], tmp_path: Path) -> None:
    for place in reversed(places):
        expected = put(tmp_path / place)
        assert find(client, tmp_path) == expected


@pytest.mark.parametrize(
    ("client", "variable", "file"),
    [("copilot-cli", "COPILOT_HOME", "mcp-config.json"), ("codex", "CODEX_HOME", "config.toml")],
)
def test_a_variable_says_where_a_client_keeps_its_settings(
    client: str, variable: str, file: str, tmp_path: Path
) -> None:
    expected = put(tmp_path / "elsewhere" / file)
    assert find(client, tmp_path, **{variable: str(expected.parent)}) == expected


PACKAGED = "Packages/{}/LocalCache/Roaming/Claude/claude_desktop_config.json"


def test_the_claude_desktop_of_the_store_comes_before_what_an_older_one_left(
    tmp_path: Path,
) -> None:
    local = tmp_path / "local [x]"
    put(tmp_path / "home/AppData/Roaming/Claude/claude_desktop_config.json")
    expected = put(local / PACKAGED.format("Claude_abc"))
    assert find("claude-desktop", tmp_path, "win32", LOCALAPPDATA=str(local)) == expected
    put(local / PACKAGED.format("Claude_def"))
    with pytest.raises(ConfigError, match=r"several: .*Claude_abc.*Claude_def.*; give one"):
        find("claude-desktop", tmp_path, "win32", LOCALAPPDATA=str(local))


@pytest.mark.parametrize("client", PLACES)
def test_a_config_is_known_by_where_it_lies(client: str, tmp_path: Path) -> None:
    path = Path(users_place(client, tmp_path, {}, "linux"))
    assert client_of(tmp_path / path) == client
    assert client_of(tmp_path / "mcp.json") == ""


def test_the_usual_place_of_a_client_is_the_users(tmp_path: Path) -> None:
    assert users_place("zed", tmp_path, {}, "linux") == str(tmp_path / ".config/zed/settings.json")
    assert users_place("kilo", tmp_path, {}, "linux") == str(Path(".kilocode/mcp.json"))
    older = put(tmp_path / ".continue/config.json")
    assert users_place("continue", tmp_path, {}, "linux") == str(older)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ("claude_desktop_config.json", "mcp"),
        (".cursor/mcp.json", "mcp"),
        ("config.toml", "mcp"),
        ("opencode.jsonc", "mcp"),
        (".mcp.json", "mcp"),
        ("team.mcp.json", "team.mcp"),
        ("servers.yaml", "servers"),
        ("-", "mcpagg"),
    ],
)
def test_a_proxy_is_not_called_as_all_configs_of_a_client_are(config: str, name: str) -> None:
    assert Job(source=Source(b"", config, Path()), environ={}).name == name
    given = Source(b"", config, Path(), Options(name="mine"))
    assert Job(source=given, environ={}).name == "mine"


# Of these, only files with a name of their own are known, which says whose they are.
KNOWN_BY_PLACE = {"Claude Code, all projects", "Continue, old settings"}


@pytest.mark.parametrize("client", PLACES)
def test_a_container_that_only_one_client_has_says_whose_the_file_is(client: str) -> None:
    own = [
        row
        for row in DIALECTS
        if row.container != Dialect("").container
        and row.name.lower().replace(" ", "-").startswith(client)
        and row.name not in KNOWN_BY_PLACE
    ]
    assert [row.name for row in own if row.client != client] == []
