"""Every shape of config that people have becomes one spec, or one error that says what to write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpagg.config import read_config
from mcpagg.problems import ConfigError
from mcpagg.spec import ProxySpec, ServerSpec

FOLDER = Path("/project")


def read(config: object, source: str = "mcp.json", **options: Any) -> tuple[ProxySpec, list[str]]:
    text = config if isinstance(config, bytes) else json.dumps(config).encode()
    options.setdefault("folder", FOLDER)
    spec, warnings = read_config(text, source=source, **options)
    return spec, [str(warning) for warning in warnings]


def entry(**keys: Any) -> ServerSpec:
    [server] = read({"mcpServers": {"a": keys}})[0].servers
    return server


def warnings_of(**keys: Any) -> list[str]:
    return read({"mcpServers": {"a": {"command": "x", **keys}}})[1]


def refusal(config: object, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(config, **options)
    return str(caught.value)


def entry_refusal(**keys: Any) -> str:
    return refusal({"mcpServers": {"a": keys}})


# Text


def test_comments_and_trailing_commas_are_read_and_slashes_in_strings_kept() -> None:
    spec, _ = read(
        b'// first\n{"mcpServers": {"a": {"url": "http://h/x", /* why */ "headers": {},},},}'
    )
    assert spec.servers[0].url == "http://h/x"


@pytest.mark.parametrize("text", [b'\xef\xbb\xbf{"mcpServers": %s}', b'{\r\n"mcpServers": %s\r\n}'])
def test_a_byte_order_mark_and_windows_line_ends_are_accepted(text: bytes) -> None:
    spec, warnings = read(text % b'{"a": {"command": "x"}}')
    assert (spec.servers[0].command, warnings) == ("x", [])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_another_unicode_encoding_is_named(encoding: str) -> None:
    assert "save it as UTF-8" in refusal('{"mcpServers": {}}'.encode(encoding))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'{"mcpServers": {\n  "a": {"command": "x"\n', "line 2, column"),
        (b'{\n "a" 1}', "line 2, column 5"),
        (b'{"a": 1} // fine\n x', "line 2, column 2"),
        (b"{'a': 1}", "line 1, column 2"),
        (b'{"a": NaN}', "line 1, column 7"),
        (b'{"a":\n "\xff"}', "line 2, column 3: not UTF-8"),
        (b"https://example.com", "line 1, column 1"),
        (b"/* open", "line 1, column 1"),
    ],
)
def test_a_syntax_error_names_line_and_column(text: bytes, place: str) -> None:
    assert place in refusal(text)


def test_a_syntax_error_does_not_show_the_text() -> None:
    with pytest.raises(ConfigError) as caught:
        read(b'{"mcpServers": {"a": {"env": {"T": "hunter2" "x"}}}}')
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("separator", [", ", ", // again\n"])
def test_duplicate_keys_are_errors_with_their_path(separator: str) -> None:
    text = (
        '{"mcpServers": {"a": {"command": "x", "env": {"T": "1"@"T": "2"}}@"a": {"command": "y"}}}'
    )
    message = refusal(text.replace("@", separator).encode())
    assert "mcpServers.a: this key is written more than once" in message


def test_duplicate_keys_are_found_at_any_depth() -> None:
    message = refusal(b'{"mcpServers": {"a": {"command": "x", "env": {"T": "1", "T": "2"}}}}')
    assert "mcpServers.a.env.T: this key" in message


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_a_string_that_no_process_can_be_given_is_an_error(text: str) -> None:
    assert "mcpServers.a.args[0]: holds" in entry_refusal(command="x", args=[text])


def test_what_is_nested_too_deeply_is_an_error() -> None:
    assert "nested too deeply" in refusal(b"[" * 100_000)
    assert "nested too deeply" in refusal(b'{"a":' * 100_000)


# Containers


ENTRY = {"command": "x", "args": ["1"]}


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
        ({"a": ENTRY}, "a"),
        ({"name": "a", **ENTRY}, ""),
    ],
)
def test_servers_are_found_wherever_a_client_keeps_them(config: object, path: str) -> None:
    [server] = read(config)[0].servers
    assert (server.name, server.command, server.args) == ("a", "x", ("1",))
    assert server.path == path


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
        ({"mcpServers": 3}, "expected an object of servers, found a number"),
        ({"mcpServers": [ENTRY]}, "mcpServers[0]: is a server without a name"),
        ({"mcpServers": {"a": 1}}, "mcpServers.a: expected an object"),
        ({"source": {}, "environment": {}}, "this is a fastmcp.json"),
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


def test_a_servers_own_transport_is_named_as_not_honoured() -> None:
    _, warnings = read({"mcpServers": {"a": ENTRY}, "serverTransport": {"type": "sse"}})
    assert warnings == ["serverTransport: is not honoured; use --serve"]


@pytest.mark.parametrize(
    ("folder", "project"),
    [("/p/.vscode", "/p"), ("/p/.kiro/settings", "/p"), ("/p/settings", "/p/settings")],
)
def test_paths_are_meant_from_the_project_that_holds_a_clients_folder(
    folder: str, project: str
) -> None:
    spec, _ = read({"mcpServers": {"a": ENTRY}}, folder=Path(folder))
    assert spec.folder == Path(project)


# Entries


def test_arguments_stay_as_they_are() -> None:
    args = ["a b", "", "*", "a;b", "it's", "\\n", '{"k": "v w"}', "C:\\", "%41", "✓"]
    assert entry(command="/opt/my dir/x", args=args).args == tuple(args)


def test_a_command_list_is_the_program_and_its_first_arguments() -> None:
    server = entry(command=["x", "1"], args=["2"])
    assert (server.command, server.args) == ("x", ("1", "2"))


@pytest.mark.parametrize(
    ("keys", "transport"),
    [
        ({"command": "x"}, "stdio"),
        ({"command": "x", "type": "local"}, "stdio"),
        ({"url": "http://h/mcp"}, "streamable-http"),
        ({"url": "http://h/sse"}, "sse"),
        ({"url": "http://h/sse", "type": "http"}, "streamable-http"),
        ({"url": "http://h/mcp", "type": "sse"}, "sse"),
        ({"url": "http://h/mcp", "transport": "streamable_http"}, "streamable-http"),
        ({"url": "http://h/mcp", "type": "streamableHttp"}, "streamable-http"),
        ({"url": "http://h/mcp", "transportType": "Streamable-HTTP"}, "streamable-http"),
        ({"url": "http://h/sse", "type": "remote"}, "sse"),
        ({"serverUrl": "http://h/mcp"}, "streamable-http"),
        ({"httpUrl": "http://h/sse"}, "streamable-http"),
        ({"endpoint": "http://h/mcp", "transport": "sse"}, "sse"),
        ({"url": "http://h/mcp", "command": "x", "type": "http"}, "streamable-http"),
        ({"url": "${HOST}/mcp"}, "streamable-http"),
    ],
)
def test_the_transport_is_known_in_every_spelling(keys: dict[str, str], transport: str) -> None:
    assert entry(**keys).transport == transport


@pytest.mark.parametrize(
    ("file", "transport"), [(".gemini/settings.json", "sse"), (".cursor/mcp.json", None)]
)
def test_a_url_alone_means_what_the_client_takes_it_for(file: str, transport: str | None) -> None:
    path = FOLDER / file
    config = {"mcpServers": {"a": {"url": "http://h/mcp"}}}
    [server] = read(config, path.name, folder=path.parent)[0].servers
    assert server.transport == (transport or "streamable-http")


def test_keys_inside_of_a_transport_object_count() -> None:
    server = entry(transport={"type": "http", "url": "http://h/mcp", "headers": {"h": "1"}})
    assert (server.transport, server.headers) == ("streamable-http", {"h": "1"})


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"command": ""}, "mcpServers.a.command: is empty"),
        ({"command": " "}, "mcpServers.a.command: is empty"),
        ({"command": []}, "mcpServers.a.command: names no program"),
        ({"command": 5}, "mcpServers.a.command: expected a string, found a number"),
        ({"command": None}, "has neither `command` nor `url`"),
        ({"path": "x"}, 'neither `command` nor `url`, only "path"'),
        ({"command": "x", "url": "http://h"}, "has both a command and a URL"),
        ({"command": "", "url": "http://h"}, "command: is empty"),
        ({"command": "x", "type": "http"}, 'it is "http", but has no `url`'),
        ({"url": "http://h", "type": "stdio"}, 'it is "stdio", but has no `command`'),
        ({"url": "http://h", "transport": "ssee"}, 'unknown transport "ssee"; write stdio, http'),
        ({"url": "ws://h/mcp"}, 'cannot connect to "ws" URLs'),
        ({"url": "h/mcp"}, "mcpServers.a.url: is no URL"),
        ({"url": "http://["}, "mcpServers.a.url: is no URL"),
        ({"command": "x", "args": "-y z"}, "args: expected a list of strings, found a string"),
        ({"command": "x", "args": [["y"]]}, "args[0]: expected a string, found a list"),
        ({"command": "x", "env": {"T": {"a": 1}}}, "env.T: expected a string, found an object"),
        ({"command": "x", "env": {"T": None}}, "env.T: expected a string, found null"),
        ({"command": "x", "env": "T=1"}, "env: expected an object of strings, found a string"),
        ({"command": "x", "env": {"": "1"}}, 'env[""]: is no name of a variable'),
        ({"command": "x", "env": {"A=B": "1"}}, 'env["A=B"]: is no name of a variable'),
        ({"command": "x", "timeout": "60"}, "timeout: expected a number greater than 0, found a s"),
        ({"command": "x", "timeout": 0}, "timeout: expected a number greater than 0, found anoth"),
        (
            {"command": "x", "timeout": True},
            "timeout: expected a number greater than 0, found true",
        ),
        ({"command": "x", "disabled": "yes"}, "disabled: expected true or false, found a string"),
        ({"command": "x", "args": [], "arguments": ["y"]}, "arguments: says the same as `args`"),
        ({"url": "http://h", "headers": {"a b": "1"}}, "is no name of a header"),
        ({"url": "http://h", "headers": {"a": "1\r\nb: 2"}}, "cannot hold a line break"),
        ({"command": "x", "tools": ["t"], "exposedTools": ["u"]}, "two lists of tools to offer"),
        ({"command": "x", "tools": {"t": 1}}, "tools.t: expected an object, found a number"),
        ({"command": "x", "toolFilter": {"mode": "only"}}, 'toolFilter: expected {"mode": "allow"'),
        ({"command": "x", "exposedTools": "t"}, "exposedTools: expected a list of tool names"),
        ({"command": "x", "hiddenTools": "t"}, "hiddenTools: expected a list"),
        (
            {"command": "x", "exposedTools": [{"exposed": "u"}]},
            "exposedTools[0].original: expected",
        ),
    ],
)
def test_an_unusable_entry_says_where_and_why(keys: dict[str, Any], says: str) -> None:
    assert says in entry_refusal(**keys)


def test_the_path_of_a_key_inside_of_a_transport_object_is_whole() -> None:
    assert "mcpServers.a.transport.url: is no URL" in entry_refusal(transport={"url": "h"})


def test_a_server_that_is_the_whole_file_has_plain_paths() -> None:
    message = refusal({"name": "a", "command": "x", "env": {"API_KEY": "hunter2!"}})
    assert message.startswith("mcp.json: env.API_KEY: holds")


def test_all_problems_are_reported_at_once() -> None:
    message = refusal({"mcpServers": {"a": {"command": 1}, "b": {}, "c": ENTRY, "d": {"url": 2}}})
    assert [line.split(": ")[1] for line in message.splitlines()] == [
        "mcpServers.a.command",
        "mcpServers.b",
        "mcpServers.d.url",
    ]


@pytest.mark.parametrize("huge", ["9" * 5000, "1e999"])
def test_a_number_beyond_all_bounds_is_no_timeout(huge: str) -> None:
    config = f'{{"mcpServers": {{"a": {{"command": "x", "timeout": {huge}}}}}}}'
    assert "timeout: expected a number" in refusal(config.encode())


def test_numbers_and_booleans_are_passed_on_as_their_json_text() -> None:
    spec, warnings = read(
        b'{"mcpServers": {"a": {"command": "x", "args": [8080], "env": {"V": 1.10, "B": true}}}}'
    )
    assert spec.servers[0].args == ("8080",)
    assert spec.servers[0].env == {"V": "1.10", "B": "true"}
    assert [warning.split(":")[0] for warning in warnings] == [
        "mcpServers.a.args[0]",
        "mcpServers.a.env.V",
        "mcpServers.a.env.B",
    ]


@pytest.mark.parametrize("env", [{}, None])
def test_an_empty_or_absent_environment_is_one_and_the_same(env: object) -> None:
    assert entry(command="x", env=env) == entry(command="x")


def test_an_environment_list_hands_variables_through() -> None:
    assert entry(command="x", env=["TOKEN", "MODE=a=b"]).env == {"TOKEN": "${TOKEN}", "MODE": "a=b"}


@pytest.mark.parametrize(
    ("file", "timeout", "seconds"),
    [
        ("mcp.json", 60, 60),
        ("mcp.json", 60000, 60),
        (".gemini/settings.json", 500, 0.5),
        (".roo/mcp.json", 3600, 3600),
        (".kiro/settings/mcp.json", 900, 0.9),
    ],
)
def test_a_timeout_is_in_the_unit_of_its_client(file: str, timeout: int, seconds: float) -> None:
    path = FOLDER / file
    config = {"mcpServers": {"a": {"command": "x", "timeout": timeout}}}
    [server] = read(config, path.name, folder=path.parent)[0].servers
    assert server.timeout == seconds


def test_a_server_that_is_switched_off_is_left_out_whatever_else_it_says() -> None:
    off: list[dict[str, Any]] = [{"disabled": True}, {"enabled": False}, {"enable": False}]
    servers = {f"off{n}": {"command": 1, **switch} for n, switch in enumerate(off)}
    spec, _ = read({"mcpServers": {**servers, "on": {"disabled": False, "enabled": True, **ENTRY}}})
    assert [server.name for server in spec.servers] == ["on"]


@pytest.mark.parametrize(
    ("keys", "expose", "hide", "rename"),
    [
        ({"includeTools": ["a", "b*"]}, ("a", "b*"), (), {}),
        ({"excludeTools": ["a"]}, None, ("a",), {}),
        ({"tools": ["*"]}, ("*",), (), {}),
        ({"disabledTools": ["a"], "hiddenTools": ["b"]}, None, ("a", "b"), {}),
        ({"exposedTools": ["a", {"original": "b", "exposed": "c"}]}, ("a", "b"), (), {"b": "c"}),
        ({"tools": {"a": {"enabled": False}, "b": {"name": "c"}}}, None, ("a",), {"b": "c"}),
        ({"options": {"toolFilter": {"mode": "allow", "list": ["a"]}}}, ("a",), (), {}),
        ({"toolFilter": {"mode": "block", "list": ["a"]}}, None, ("a",), {}),
        ({"includeTools": ["a", "b"], "excludeTools": ["b"]}, ("a", "b"), ("b",), {}),
        ({"includeTools": []}, (), (), {}),
    ],
)
def test_tool_filters_are_honoured_in_every_spelling(
    keys: dict[str, Any], expose: object, hide: object, rename: object
) -> None:
    server = entry(command="x", **keys)
    assert (server.expose, server.hide, server.rename) == (expose, hide, rename)


def test_lists_of_tools_beside_the_servers_are_honoured() -> None:
    spec, _ = read({"mcpServers": {"a": ENTRY, "b": ENTRY}, "enabledTools": {"a": ["t"]}})
    assert [server.expose for server in spec.servers] == [("t",), None]


@pytest.mark.parametrize(
    ("lists", "keys", "says"),
    [
        ([], {}, "enabledTools: expected an object of lists by server, found a list"),
        ({"a": "t"}, {}, "enabledTools.a: expected a list of tool names, found a string"),
        ({"a": ["t"]}, {"tools": ["u"]}, "enabledTools.a: mcpServers.a has a list of its own"),
    ],
)
def test_lists_of_tools_beside_the_servers_are_checked(
    lists: object, keys: dict[str, Any], says: str
) -> None:
    config = {"mcpServers": {"a": {"command": "x", **keys}}, "enabledTools": lists}
    assert says in refusal(config)


def test_what_is_not_understood_inside_of_a_tool_is_named() -> None:
    tools = {"t": {"enabled": True, "color": 1}}
    assert warnings_of(tools=tools) == ["mcpServers.a.tools.t.color: is not understood and ignored"]


def test_keys_of_a_client_are_quiet() -> None:
    keys = {"autoApprove": True, "alwaysAllow": [], "description": "d", "icon": "i", "_note": 1}
    assert warnings_of(**keys) == []


def test_keys_that_are_not_understood_are_named() -> None:
    assert warnings_of(sandbox={}, oauth={}) == [
        "mcpServers.a.sandbox: is not understood and ignored",
        "mcpServers.a.oauth: is not honoured; signing in is not supported yet: pass a token in"
        " `headers`",
    ]


def test_keys_of_the_other_transport_are_named() -> None:
    _, warnings = read({"mcpServers": {"a": {"url": "http://h", "env": {"K": "v"}, "args": []}}})
    assert warnings == [
        "mcpServers.a.env: means nothing to a server that is reached over streamable-http"
    ]


# References that only clients know


def test_an_input_becomes_a_variable() -> None:
    config = {"servers": {"a": {"command": "x", "env": {"T": "${input:github_pat}"}}}}
    spec, warnings = read(config)
    assert spec.servers[0].env == {"T": "${GITHUB_PAT}"}
    assert warnings == [
        "servers.a.env.T: ${input:github_pat} is asked for by the editor; here it is the variable"
        " GITHUB_PAT; export it, or pass --define github_pat=VALUE"
    ]


def test_inputs_neither_share_a_variable_nor_take_one_of_the_system() -> None:
    values = ["${input:a-b}", "${input:a_b}", "${input:path}", "${input:1}", "${input:a-b}"]
    assert entry(command="x", args=values).args == (
        "${A_B}",
        "${A_B_2}",
        "${INPUT_PATH}",
        "${INPUT_1}",
        "${A_B}",
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("${workspaceFolder}/x", "${workspaceFolder}/x"),
        ("${workspaceFolder:one}/x", "${workspaceFolder}/x"),
        ("${CLAUDE_PLUGIN_ROOT}/x", "${workspaceFolder}/x"),
        ("${extensionPath}${/}x", "${workspaceFolder}/x"),
        ("${userHome}${pathSeparator}x", "${HOME}/x"),
        ("{env:X}", "${X}"),
        ("${env:X}", "${env:X}"),
        ("${X}$$${Y:-z}", "${X}$$${Y:-z}"),
        ("Pa$1$", "Pa$1$"),
        ("${X-def}", "${X-def}"),
        ("{workspaceFolder}/x", "{workspaceFolder}/x"),
        ("${cmd: pass show it}", "${PASS_SHOW_IT}"),
    ],
)
def test_what_only_a_client_knows_becomes_a_plain_reference(written: str, meant: str) -> None:
    assert entry(command="x", args=[written]).args == (meant,)


@pytest.mark.parametrize("name", ["workspaceFolderBasename", "file", "selectedText"])
def test_a_variable_of_the_editor_alone_is_an_error_that_says_so(name: str) -> None:
    message = entry_refusal(command="x", args=[f"${{{name}}}"])
    assert f"only an editor knows ${{{name}}}; pass --define {name}=VALUE" in message


@pytest.mark.parametrize(
    "written", ["${X}", "$X", "${X:-d}", "${input:X}", "${env:X}", "{env:X}", "${cmd:X}"]
)
def test_defined_values_are_put_in(written: str) -> None:
    config = {"mcpServers": {"a": {"command": "x", "args": [f"<{written}>"]}}}
    spec, _ = read(config, defines={"X": "1"})
    assert spec.servers[0].args == ("<1>",)


@pytest.mark.parametrize(
    "text",
    ["%USERPROFILE%", "{{X}}", "<API_KEY>", "YOUR_API_KEY", "~/d", "${X-def}", "${X", "{name}"],
)
def test_what_only_looks_like_a_reference_stays_with_a_warning(text: str) -> None:
    spec, warnings = read({"mcpServers": {"a": {"command": "x", "env": {"A": text}}}})
    assert spec.servers[0].env == {"A": text}
    assert [warning.split(":")[0] for warning in warnings] == ["mcpServers.a.env.A"]


def test_a_bare_reference_is_pointed_out_because_clients_disagree() -> None:
    [warning] = warnings_of(env={"PACKAGES": "Z*,$TMP,$LOCAL"})
    assert "$TMP, $LOCAL; write ${TMP}, or $$TMP for a dollar" in warning


def test_a_default_that_holds_a_reference_is_an_error() -> None:
    assert "cannot hold another reference" in entry_refusal(command="x", args=["${A:-${B}}"])


# Strictness


def test_stdio_only_reads_the_standard_config() -> None:
    config = {"mcpServers": {"a": {"type": "stdio", "command": "x", "args": [], "env": {}}}}
    assert len(read(config, stdio_only=True)[0].servers) == 1


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"mcpServers": {"a": {"url": "http://h"}}}, "mcpServers.a.url: is beyond"),
        ({"mcpServers": {"a": {"command": "x", "cwd": "/"}}}, "mcpServers.a.cwd: is beyond"),
        ({"mcpServers": {"a": {"command": "x", "disabled": False}}}, "a.disabled: is beyond"),
        ({"mcpServers": {"a": {"command": "x", "type": "local"}}}, "a.type: is not stdio"),
        ({"mcpServers": {"a": {"command": ["x"]}}}, "a.command: a list is beyond"),
        ({"mcpServers": {"a": ENTRY}, "inputs": []}, "inputs: is beyond"),
        ({"servers": {"a": ENTRY}}, "reads a map called `mcpServers` alone"),
        ({"mcpServers": [{"name": "a", **ENTRY}]}, "reads a map called `mcpServers` alone"),
    ],
)
def test_stdio_only_refuses_everything_else(config: object, says: str) -> None:
    assert says in refusal(config, stdio_only=True)


def test_a_bad_config_is_answered_without_the_slow_imports() -> None:
    script = (
        "import sys, mcpagg.config, mcpagg.environment\n"
        "assert not {'mcp', 'black', 'jinja2', 'asyncio', 'jsonyx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
