"""The servers are found wherever a client keeps them; other files are told from configs."""

from __future__ import annotations

from pathlib import Path

import pytest
from configs import ENTRY, read, refusal


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"mcpServers": {"a": ENTRY}}, "mcpServers.a"),
        ({"mcpServers": [{"name": "a", **ENTRY}]}, "mcpServers[0]"),
        ({"servers": {"a": ENTRY}, "inputs": []}, "servers.a"),
        ({"servers": [{"id": "a", "transport": ENTRY}]}, "servers[0]"),
        ({"context_servers": {"a": {"source": "custom", **ENTRY}}}, "context_servers.a"),
        ({"mcp": {"a": {"type": "local", "command": ["x", "1"]}}}, "mcp.a"),
        ({"mcp": {"servers": {"a": ENTRY}}}, "mcp.servers.a"),
        ({"mcp_servers": {"a": ENTRY}}, "mcp_servers.a"),
        ({"amp.mcpServers": {"a": ENTRY}}, '["amp.mcpServers"].a'),
        ({"projects": {"/p": {"mcpServers": {"a": ENTRY}}}}, 'projects["/p"].mcpServers.a'),
        ({"augment.advanced": {"mcpServers": [{"name": "a", **ENTRY}]}}, None),
        ({"customizations": {"vscode": {"mcp": {"servers": {"a": ENTRY}}}}}, None),
        ({"customizations": {"vscode": {"settings": {"mcp": {"servers": {"a": ENTRY}}}}}}, None),
        ({"folders": [], "settings": {"mcp": {"servers": {"a": ENTRY}}}}, "settings.mcp.servers.a"),
        ({"mcp.servers": {"a": ENTRY}}, '["mcp.servers"].a'),
        ({"zencoder.mcpServers": {"a": ENTRY}}, '["zencoder.mcpServers"].a'),
        ({"tools": {"mcpServers": {"a": ENTRY}}}, "tools.mcpServers.a"),
        ({"tools": {"mcp_servers": {"a": ENTRY}}}, "tools.mcp_servers.a"),
        ({"tools": {"mcp": {"servers": {"a": ENTRY}}}}, "tools.mcp.servers.a"),
        ({"mcp": {"stdio_servers": [{"name": "a", **ENTRY}]}}, "mcp.stdio_servers[0]"),
        ({"mcp": {"targets": [{"name": "a", "target": "x 1"}]}}, "mcp.targets[0]"),
        ({"mcp": {"servers": {"a": {"target": "x 1"}}}}, "mcp.servers.a"),
        (
            {"title": "t", "description": "d", "extensions": [{"name": "a", "cmd": "x", **ENTRY}]},
            "extensions[0]",
        ),
        (
            {"experimental": {"modelContextProtocolServers": [{"name": "a", "transport": ENTRY}]}},
            "experimental.modelContextProtocolServers[0]",
        ),
        ({"a": ENTRY}, "a"),
        ({"name": "a", **ENTRY}, ""),
    ],
)
def test_servers_are_found_wherever_a_client_keeps_them(config: object, path: str | None) -> None:
    [server] = read(config)[0].servers
    assert (server.name, server.command, server.args) == ("a", "x", ("1",))
    assert path is None or server.path == path


def test_the_order_of_the_config_is_kept() -> None:
    names = ["z", "a", "m"]
    spec, _ = read({"mcpServers": dict.fromkeys(names, ENTRY)})
    assert [server.name for server in spec.servers] == names


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({}, "no servers: looked for `mcpServers`, `servers`"),
        ({"mcpServers": {}}, "no servers: `mcpServers` is empty"),
        ({"theme": "dark"}, 'the file has "theme"'),
        ([], "found a list"),
        (None, "found null"),
        ("x", "found a string"),
        (b"", "is empty"),
        (b" \n", "is empty"),
        (
            {"mcpServers": "./.mcp.json"},
            "names a file, and only its own client looks there",
        ),
        ({"mcpServers": ["./a.json"]}, "mcpServers[0]: names a file"),
        ({"mcpServers": {"command": "x"}}, "mcpServers: is one server without a name"),
        ({"mcp_servers": {"on": ["a"], "off": ["b"]}}, 'holds no servers: found "on", "off"'),
        ({"schema_version": "1", "image": "i", "transport": "stdio"}, "a run config of ToolHive"),
        ({"connection": {}, "transport": {"url": "http://h"}, "cli": {}}, "no servers: looked for"),
        ({"mcpServers": 3}, "expected an object of servers, found a number"),
        ({"mcpServers": [ENTRY]}, "mcpServers[0]: is a server without a name"),
        ({"mcpServers": {"a": 1}}, 'mcpServers: holds no servers: found "a", and no object'),
        ({"mcpServers": {"a": 1, "b": {}}}, "mcpServers.a: expected an object"),
        ({"source": {}, "environment": {}}, "this is a fastmcp.json"),
        ({"source": {}, "$schema": "s"}, "this is a fastmcp.json"),
        ({"name": "a", "version": "1", "remotes": []}, "this is a server.json of the MCP registry"),
        ({"openapi": "3", "servers": [{"url": "https://h"}], "paths": {}}, "an OpenAPI document"),
        ({"services": {"a": {"image": "i", "command": "c"}}}, "this is a compose file"),
        ({"permissions": {"allow": ["x"]}, "hooks": {}}, "this is a settings.json of Claude Code"),
        ({"servers": [{"server": {"name": "a"}}]}, "`servers` lists servers to install"),
        (
            {"servers": {"a": {"packages": []}, "b": {"repository": {}}}},
            "`servers` lists servers to install",
        ),
        ({"customizations": {"vscode": {}}}, 'and in "customizations" nothing that is a server'),
        (ENTRY, "is one server without a name"),
        ({"mcpServers": {"a": {"command": "x", "disabled": True}}}, 'switched off: "a"'),
        ({"mcpServers": {"": ENTRY}}, 'mcpServers[""]: a server\'s name must be'),
        ({"mcpServers": {"a\nb": ENTRY}}, 'mcpServers["a\\nb"]: a server\'s name must be'),
    ],
)
def test_a_config_without_servers_says_what_was_looked_for(config: object, says: str) -> None:
    assert says in refusal(config)


def test_a_second_container_is_not_dropped_in_silence() -> None:
    spec, warnings = read({"mcpServers": {"a": ENTRY}, "servers": {"b": ENTRY}})
    assert [server.name for server in spec.servers] == ["a"]
    assert warnings == ["servers: is not read: the servers of `mcpServers` are"]


def test_servers_of_two_projects_are_one_if_they_are_the_same() -> None:
    same = {"/p": {"mcpServers": {"a": ENTRY}}, "/q": {"mcpServers": {"a": ENTRY}}}
    assert len(read({"projects": same})[0].servers) == 1
    same["/q"]["mcpServers"]["a"] = {"command": "y"}
    assert 'two servers are called "a"' in refusal({"projects": same})


def test_other_keys_of_the_file_are_named_in_one_line() -> None:
    _, warnings = read({"$schema": "s", "theme": "dark", "mcpServers": {"a": ENTRY}, "lsp": {}})
    assert warnings == ['not about servers, ignored: "theme", "lsp"']


def test_a_map_of_servers_may_have_one_that_is_called_like_a_container() -> None:
    spec, _ = read({"mcp": ENTRY, "servers": ENTRY, "other": ENTRY})
    assert [server.path for server in spec.servers] == ["mcp", "servers", "other"]


def test_a_setting_is_not_taken_for_a_misspelt_container() -> None:
    assert "did you mean" not in refusal({"project_name": "x", "context_servers": None})
    assert "did you mean" not in refusal({"project": {"a": {}}, "service": {}})
    assert "did you mean" not in refusal({"mcp": {"name": "n", "license": "l", "tags": []}})
    assert "did you mean `servers`?" in refusal({"server": {"a": ENTRY}})
    for key in ("mcpServer", "mcpserver", "mcpservers", "MCPServers"):
        assert "did you mean `mcpServers`?" in refusal({key: {"a": 1}})


def test_a_url_without_a_name_is_called_as_its_host() -> None:
    lists = {
        "sse_servers": ["https://h.example/sse", {"url": "https://h.example/b", "api_key": "${K}"}],
        "shttp_servers": [{"url": "https://other.example/mcp"}],
    }
    spec, warnings = read({"mcp": lists})
    assert [(server.name, server.url) for server in spec.servers] == [
        ("h.example", "https://h.example/sse"),
        ("h.example-2", "https://h.example/b"),
        ("other.example", "https://other.example/mcp"),
    ]
    assert spec.servers[1].headers == {"Authorization": "Bearer ${K}"}
    assert warnings[0] == (
        'mcp.sse_servers[0]: has no name; here it is called "h.example"; give it a "name"'
    )


def test_many_other_keys_are_counted() -> None:
    others = {f"editor.{n}": n for n in range(40)}
    _, [warning] = read({"mcp.servers": {"a": ENTRY}, **others})
    assert warning.startswith('not about servers, ignored: "editor.0", "editor.1"')
    assert warning.endswith('"editor.5" and 34 more')


def test_other_projects_are_named_in_one_line_and_only_if_they_have_servers() -> None:
    projects = {"/p": {"mcpServers": {"b": ENTRY}}, "/q": {"mcpServers": {}}}
    config = {"mcpServers": {"a": ENTRY}, "projects": {**projects, "/r": projects["/p"]}}
    assert read(config)[1] == [
        'projects["/p"].mcpServers: is not read: the servers of `mcpServers` are,'
        " nor those of 1 other like it"
    ]


# The folder that paths are meant from


@pytest.mark.parametrize(
    ("folder", "project"),
    [
        ("/p/.vscode", "/p"),
        ("/p/.kiro/settings", "/p"),
        ("/p/.junie/mcp", "/p"),
        ("/p/.of-any-name", "/p"),
        ("/home/me/.config/goose", "/home/me"),
        ("/p/settings", "/p/settings"),
        ("/p/.cache/a/b", "/p/.cache/a/b"),
    ],
)
def test_a_config_in_a_hidden_folder_is_meant_from_that_folders_parent(
    folder: str, project: str
) -> None:
    spec, _ = read({"mcpServers": {"a": ENTRY}}, folder=Path(folder))
    assert spec.folder == Path(project)


def test_a_hidden_folder_is_known_from_inside_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gemini").mkdir()
    monkeypatch.chdir(tmp_path / ".gemini")
    config = {"mcpServers": {"a": {"command": "x", "timeout": 5000}}}
    spec, _ = read(config, "settings.json", folder=Path())
    assert (spec.folder, spec.servers[0].timeout) == (tmp_path, 5)


def test_a_project_inside_of_a_hidden_folder_is_a_project_of_its_own(tmp_path: Path) -> None:
    worktree = tmp_path / ".worktrees" / "topic"
    (worktree / ".git").mkdir(parents=True)
    assert read({"mcpServers": {"a": ENTRY}}, folder=worktree)[0].folder == worktree


@pytest.mark.parametrize(
    ("source", "command", "project"),
    [
        (".mcp.json", "x", "/p/.plugins/foo"),
        ("plugin.json", "${CLAUDE_PLUGIN_ROOT}/x", "/p/.plugins/foo"),
        ("mcp.json", "x", "/p"),
    ],
)
def test_a_plugin_in_a_hidden_folder_is_meant_from_its_own_folder(
    source: str, command: str, project: str
) -> None:
    config = {"mcpServers": {"a": {"command": command}}}
    assert read(config, source, folder=Path("/p/.plugins/foo"))[0].folder == Path(project)
    inside = Path("/p/.plugins/foo/.claude-plugin")
    assert read(config, source, folder=inside)[0].folder == Path("/p/.plugins/foo")
