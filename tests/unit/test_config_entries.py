"""Every spelling of an entry becomes one server, or an error that says what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from configs import ENTRY, FOLDER, entry, entry_refusal, read, refusal, warnings_of

from mcpagg.passes.config.places import where
from mcpagg.spec import OAuth
from mcpagg_runtime.launch.launch import Location


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
        ({"command": ""}, 'no `command` and no `url` that says something, of "command"'),
        ({"command": " "}, "no `command` and no `url` that says something"),
        ({"command": []}, "or the URL to connect to, or --skip it"),
        ({"command": [""]}, "mcpServers.a.command: names no program"),
        ({"command": 5}, "a.command: expected a string, found a number; write it in quotes"),
        ({"command": {}}, "a.command: expected a string, found an object; write one string"),
        ({"command": None}, "no `command` and no `url` that says something"),
        ({"comand": "x"}, 'nor `url`, only "comand"; did you mean `command`?'),
        ({"URL": "x"}, 'only "URL"; did you mean `url`?'),
        ({"path": "x"}, 'neither `command` nor `url`, only "path"'),
        ({"command": "x", "url": "http://h"}, "has both a command and a URL"),
        ({"command": "x", "type": "http"}, 'it is "http", but has no `url`'),
        ({"url": "http://h", "type": "stdio"}, 'it is "stdio", but has no `command`'),
        ({"url": "http://h", "transport": "ssee"}, 'unknown transport "ssee"; write stdio, http'),
        ({"url": "ws://h/mcp"}, 'cannot connect to "ws" URLs'),
        ({"url": "unix:///tmp/s.sock"}, 'cannot connect to "unix" URLs; use http or https'),
        ({"url": "h:80/mcp"}, "mcpServers.a.url: is no URL"),
        ({"url": "https://h", "type": "ws"}, "type: WebSocket is not spoken here; --skip it"),
        ({"url": "h/mcp"}, "mcpServers.a.url: is no URL"),
        ({"url": "http://["}, "mcpServers.a.url: is no URL"),
        ({"url": "http://u:p@h:8o/"}, "mcpServers.a.url: is no URL"),
        ({"command": "x", "args": "-y z"}, "args: expected a list of strings, found a string"),
        ({"command": "x", "args": [["y"]]}, "args[0]: expected a string, found a list"),
        ({"command": "x", "env": {"T": {"a": 1}}}, "env.T: expected a string, found an object"),
        ({"command": "x", "env": "T=1"}, "object of strings, found a string; write {"),
        ({"command": "x", "env": {"": "1"}}, 'env[""]: is no name of a variable'),
        ({"command": "x", "env": {"A=B": "1"}}, 'env["A=B"]: is no name of a variable'),
        (
            {"command": "x", "timeout": "60"},
            "timeout: expected a number of 0 (no limit) or",
        ),
        ({"command": "x", "timeout": -1}, "(no limit) or more, found another one"),
        ({"command": "x", "timeout": True}, "(no limit) or more, found true"),
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


@pytest.mark.parametrize(
    ("keys", "same"),
    [
        ({"url": "https://h/x", "command": "", "args": [], "env": {}}, {"url": "https://h/x"}),
        ({"url": "https://h/x", "command": []}, {"url": "https://h/x"}),
        ({"command": "x", "url": "", "baseUrl": " ", "cwd": "", "type": ""}, {"command": "x"}),
        ({"command": "x", "envFile": "", "timeout": "", "headers": None}, {"command": "x"}),
        ({"command": "x", "env": {"A": "", "B": None}}, {"command": "x", "env": {"A": ""}}),
    ],
)
def test_what_is_empty_or_null_is_as_good_as_absent(
    keys: dict[str, Any], same: dict[str, Any]
) -> None:
    assert entry(**keys) == entry(**same)


def test_of_two_spellings_the_usual_one_is_advised() -> None:
    servers = {"a": {**ENTRY, "enviroment": {}, "Arguments": []}}
    _, warnings = read({"mcpServers": servers})
    assert [str(warning).rpartition("; ")[2] for warning in warnings] == [
        "did you mean `env`?",
        "did you mean `args`?",
    ]


def test_an_environment_list_hands_variables_through() -> None:
    assert entry(command="x", env=["TOKEN", "MODE=a=b"]).env == {"TOKEN": "${TOKEN}", "MODE": "a=b"}


@pytest.mark.parametrize(
    ("file", "timeout", "seconds"),
    [
        ("mcp.json", 60, 60),
        ("mcp.json", 60000, 60),
        ("mcp.json", 0, None),
        (".gemini/settings.json", 5000, 5),
        (".roo/mcp.json", 3600, 3600),
        (".kilocode/mcp.json", 3600, 3600),
        (".kilocode/mcp.json", 60000, 60),
        (".kiro/settings/mcp.json", 9000, 9),
    ],
)
def test_a_timeout_is_in_the_unit_of_its_client(
    file: str, timeout: int, seconds: float | None
) -> None:
    path = FOLDER / file
    config = {"mcpServers": {"a": {"command": "x", "timeout": timeout}}}
    [server] = read(config, path.name, folder=path.parent)[0].servers
    assert server.timeout == seconds


def test_a_timeout_of_less_than_a_second_is_not_taken_in_silence() -> None:
    config = {"mcpServers": {"a": {"command": "x", "timeout": 120}}}
    _, warnings = read(config, "mcp.json", folder=FOLDER / ".kiro/settings")
    assert warnings == ["mcpServers.a.timeout: is 0.12 s: a call that takes longer fails"]


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"$schema": "https://charm.land/crush.json", "mcp": {"a": {"timeout": 120}}}, "start 120"),
        ({"mcp": {"a": {"timeout": 70000}}}, "listing 70"),
        ({"mcp_servers": {"a": {"startup_timeout_sec": 61}}}, "start 61"),
        ({"mcpServers": {"a": {"connectionTimeout": 90000}}}, "start 90"),
    ],
)
def test_a_limit_for_something_else_than_calls_is_named_and_limits_no_call(
    config: dict[str, Any], what: str
) -> None:
    [servers] = [value for value in config.values() if isinstance(value, dict)]
    servers["a"]["command"] = "x"
    spec, [warning] = read(config)
    purpose, amount = what.split()
    assert f"is the client's {purpose} limit, not one for calls" in warning
    assert warning.endswith(f"; pass --connect-timeout {amount}")
    assert spec.servers[0].timeout is None


def test_a_limit_that_no_client_takes_for_seconds_is_said_to_be_in_milliseconds() -> None:
    config = {"mcpServers": {"a": {"command": "x", "timeout": 60000}}}
    assert read(config, folder=FOLDER / ".roo")[1] == [
        "mcpServers.a.timeout: read as milliseconds, 60 s: the client takes 3600 s at most"
    ]


def test_a_limit_of_opencode_is_one_for_listings_in_its_newer_layout_too() -> None:
    servers = {"a": {"type": "local", "command": ["x"], "timeout": 5000}}
    config = {"mcp": {"servers": servers}, "tools": {"a_drop": False}}
    [server] = read(config, "opencode.json")[0].servers
    assert (server.timeout, server.hide) == (None, ("drop",))


def test_a_limit_of_starts_that_is_kept_anyway_is_not_warned_of() -> None:
    assert read({"mcp_servers": {"a": {"command": "x", "startup_timeout_sec": 60}}})[1] == []


def test_limits_of_calls_and_of_starts_are_told_apart_inside_of_a_timeout() -> None:
    timeout = {"startup": 65000, "request": 90000}
    spec, warnings = read({"mcp": {"a": {"command": ["x"], "timeout": timeout}}})
    assert spec.servers[0].timeout == 90
    assert [warning.split(": ")[0] for warning in warnings] == ["mcp.a.timeout.startup"]


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
        ({"toolFilter": {"include": ["a"], "exclude": ["b"]}}, ("a",), ("b",), {}),
        ({"toolFilter": {"exclude": ["b"]}}, None, ("b",), {}),
        ({"tool_configuration": {"enabled": True, "allowed_tools": ["a"]}}, ("a",), (), {}),
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
    keys = {"autoApprove": False, "alwaysAllow": [], "lifecycle": "lazy", "icon": "i", "_note": 1}
    assert warnings_of(description="d", **keys) == []


def test_keys_that_are_not_understood_are_named() -> None:
    assert warnings_of(gadget={}, sseReadTimeout=5) == [
        "mcpServers.a.gadget: is not understood and ignored",
        "mcpServers.a.sseReadTimeout: is not honoured; use --timeout",
    ]


def test_keys_of_the_other_transport_are_named() -> None:
    _, warnings = read({"mcpServers": {"a": {"url": "http://h", "env": {"K": "v"}, "args": []}}})
    assert warnings == [
        "mcpServers.a.env: means nothing to a server that is reached over streamable-http"
    ]


# Keys of single clients


def test_variables_of_two_keys_are_merged_unless_they_differ() -> None:
    keys = {"command": "x", "env": {"A": "b"}, "env_vars": ["HOME"]}
    assert entry(**keys).env == {"A": "b", "HOME": "${HOME}"}
    assert "says the same as `env`, and differs" in entry_refusal(**keys, environment={"A": "c"})


def test_how_to_log_in_is_read_as_clients_write_it() -> None:
    oauth = {"clientId": "me", "client-secret": "${S}", "scopes": ["a", "b"], "callbackPort": 8080}
    found = OAuth(client_id="me", client_secret="${S}", scopes="a b", port=8080)  # noqa: S106
    assert entry(url="https://h/x", oauth=oauth).oauth == found
    auth = {"CLIENT_ID": "me", "scopes": "a b"}
    assert entry(url="https://h/x", auth=auth).oauth == OAuth(client_id="me", scopes="a b")
    assert entry(url="https://h/x", auth="oauth").oauth == entry(url="https://h/x").oauth == OAuth()
    config = {"mcpServers": {"a": {"url": "https://h/x", "oauth": {"redirectUri": "http://h"}}}}
    assert read(config)[1] == [
        "mcpServers.a.oauth.redirectUri: is not honoured; a token goes into `headers`; see --login"
    ]


def test_headers_may_be_names_of_variables() -> None:
    server = entry(url="http://h/x", http_headers={"a": "1"}, env_http_headers={"b": "B"})
    assert server.headers == {"a": "1", "b": "${B}"}


def test_a_command_of_zed_may_be_an_object() -> None:
    command = {"path": "npx", "args": ["-y", "x"], "env": {"K": "v"}}
    spec, warnings = read({"context_servers": {"a": {"command": command, "settings": {}}}})
    [server] = spec.servers
    assert (server.command, server.args, server.env) == ("npx", ("-y", "x"), {"K": "v"})
    assert where(server, Location("args", 1)) == "context_servers.a.command.args[1]"
    assert warnings == []


def test_a_goose_extension_is_read_and_those_of_goose_itself_are_left_out() -> None:
    extensions = {
        "own": {"type": "builtin", "name": "developer", "timeout": 300, "bundled": True},
        "mine": {
            "type": "stdio",
            "cmd": "uvx",
            "args": ["x"],
            "envs": {"A": "b"},
            "env_keys": ["TOKEN"],
            "timeout": 300,
            "available_tools": [],
        },
    }
    spec, warnings = read(
        {"extensions": extensions}, "config.yaml", folder=Path("/home/me/.config/goose")
    )
    [server] = spec.servers
    assert (server.command, server.env) == ("uvx", {"A": "b", "TOKEN": "${TOKEN}"})
    assert (server.timeout, server.expose) == (300, None)
    assert warnings == ["extensions.own: is left out: only the client itself can start it"]


def test_a_command_of_vibe_is_split_into_words() -> None:
    servers = [{"name": "a", "transport": "stdio", "command": "uvx 'my server' -q"}]
    spec, _ = read({"mcp_servers": servers}, "config.toml.json", folder=FOLDER)
    assert spec.servers[0].command == "uvx 'my server' -q"
    text = b"[[mcp_servers]]\nname = 'a'\ncommand = \"uvx 'my server' -q\"\n"
    spec, _ = read(text, "config.toml", folder=FOLDER / ".vibe")
    assert (spec.servers[0].command, spec.servers[0].args) == ("uvx", ("my server", "-q"))


def test_mcporter_splits_a_command_without_arguments() -> None:
    servers = {
        "a": {"command": "npx -y '@acme/my server'"},
        "b": {"command": "/my app/x", "args": ["1"]},
    }
    one, other = read({"mcpServers": servers}, "mcporter.json")[0].servers
    assert (one.command, one.args) == ("npx", ("-y", "@acme/my server"))
    assert (other.command, other.args) == ("/my app/x", ("1",))
    assert entry(command="npx -y x").command == "npx -y x"


def test_the_target_of_fast_agent_is_a_url_or_a_command_line() -> None:
    servers = {"a": {"target": "https://h/sse"}, "b": {"target": "npx -y '@a/b c'"}}
    remote, local = read({"mcp": {"servers": servers}})[0].servers
    assert (remote.url, remote.transport) == ("https://h/sse", "sse")
    assert (local.command, local.args) == ("npx", ("-y", "@a/b c"))


CONTINUE = {"name": "n", "version": "1", "schema": "v1"}


@pytest.mark.parametrize(
    ("config", "headers"),
    [
        ({"mcpServers": [{"bearerToken": "${T}"}]}, {"Authorization": "Bearer ${T}"}),
        ({"mcpServers": [{"bearerToken": "Bearer ${T}"}]}, {"Authorization": "Bearer ${T}"}),
        ({"mcp_servers": [{"authorization_token": "${T}"}]}, {"Authorization": "Bearer ${T}"}),
        ({**CONTINUE, "mcpServers": [{"apiKey": "${T}"}]}, {"Authorization": "Bearer ${T}"}),
        ({"mcpServers": [{"apiKey": "${T}"}]}, {}),
        (
            {"model_list": [], "mcp_servers": [{"auth_type": "api_key", "auth_value": "${T}"}]},
            {"X-API-Key": "${T}"},
        ),
        (
            {"model_list": [], "mcp_servers": [{"auth_type": "none", "auth_value": "${T}"}]},
            {},
        ),
    ],
)
def test_a_token_under_a_key_of_its_own_becomes_a_header(
    config: dict[str, Any], headers: dict[str, str]
) -> None:
    [entries] = [value for value in config.values() if isinstance(value, list) and value]
    entries[0] |= {"name": "a", "type": "url", "url": "https://h/x"}
    [server] = read(config)[0].servers
    assert server.headers == headers
    for key, place in server.paths.items():
        if key.field == "headers":
            assert place.endswith(("oken", "apiKey", "auth_value"))


def test_vibe_says_in_which_header_a_token_goes_and_how() -> None:
    text = b"""[[mcp_servers]]
name = "a"
url = "https://h/x"
[mcp_servers.auth]
type = "static"
api_key_env = "K"
api_key_header = "X-Key"
api_key_format = "key {token}"
"""
    spec, warnings = read(text, "config.toml", folder=FOLDER / ".vibe")
    assert (spec.servers[0].headers, warnings) == ({"X-Key": "key ${K}"}, [])


def test_a_token_that_is_written_out_is_refused_and_one_that_is_not_sent_is_named() -> None:
    message = entry_refusal(url="https://h/x", bearerToken="q8Zr2LxW5tYv9KpB3nDs")
    assert "bearerToken: holds" in message
    assert "q8Zr2" not in message
    _, [warning] = read({"mcpServers": {"a": {"url": "https://h/x", "apiToken": "${T}"}}})
    assert warning.endswith("the server is asked without it: write it into `headers` or `env`")


def test_litellm_scheme_that_is_computed_is_refused() -> None:
    servers = {"a": {"url": "https://h/x", "auth_type": "basic", "auth_value": "${T}"}}
    assert "auth_type: is not honoured" in refusal({"model_list": [], "mcp_servers": servers})


# What is meant for all entries


def test_defaults_are_those_of_entries_that_do_not_say_otherwise() -> None:
    defaults = {"env": {"A": "1", "B": "2"}, "headers": {"X": "y"}, "requestTimeout": 5000}
    servers = {
        "a": {"command": "x", "env": {"B": "own"}},
        "b": {"url": "https://h/x", "requestTimeout": 9000},
    }
    spec, warnings = read({"serverDefaults": defaults, "mcpServers": servers})
    local, remote = spec.servers
    assert (local.env, local.timeout) == ({"A": "1", "B": "own"}, 5)
    assert (remote.headers, remote.timeout) == ({"X": "y"}, 9)
    assert where(local, Location("env", "A")) == "serverDefaults.env.A"
    assert where(local, Location("env", "B")) == "mcpServers.a.env.B"
    assert warnings == []


def test_a_filter_for_all_entries_holds_for_those_without_one() -> None:
    options = {"toolFilter": {"mode": "block", "list": ["t"]}, "panicIfInvalid": False}
    own = {"options": {"toolFilter": {"mode": "allow", "list": ["u"]}}}
    servers = {"a": ENTRY, "b": {**ENTRY, **own}}
    spec, warnings = read({"mcpProxy": {"options": options}, "mcpServers": servers})
    assert [(one.expose, one.hide) for one in spec.servers] == [(None, ("t",)), (("u",), ())]
    assert warnings == []


@pytest.mark.parametrize(
    ("defaults", "says"),
    [
        ([], "serverDefaults: expected an object, found a list"),
        ({"disabled": True}, "serverDefaults: switches every server off"),
        ({"sandbox": {"enabled": True}}, "serverDefaults.sandbox: restricts"),
    ],
)
def test_defaults_that_cannot_be_honoured_are_refused(defaults: object, says: str) -> None:
    assert says in refusal({"serverDefaults": defaults, "mcpServers": {"a": ENTRY}})


def test_the_route_of_a_proxy_is_no_url() -> None:
    assert entry(command="x", endpoint="/filesystem").transport == "stdio"


# Paths


@pytest.mark.parametrize(
    ("keys", "location", "path"),
    [
        ({"httpUrl": "http://h/${X}"}, Location("url"), "httpUrl"),
        ({"command": "x", "environment": {"K": "v"}}, Location("env", "K"), "environment.K"),
        ({"command": "x", "env_vars": ["K"]}, Location("env", "K"), "env_vars[0]"),
        ({"command": "x", "working_directory": "d"}, Location("cwd"), "working_directory"),
        ({"command": ["x", "1"], "args": ["2"]}, Location("args", 0), "command[1]"),
        ({"command": ["x", "1"], "args": ["2"]}, Location("args", 1), "args[0]"),
        ({"command": "x", "arguments": ["1", "2"]}, Location("args", 1), "arguments[1]"),
        ({"command": "x", "options": {"env": {"Q": "v"}}}, Location("env", "Q"), "options.env.Q"),
        ({"transport": {"command": "x", "args": ["1"]}}, Location("args", 0), "transport.args[0]"),
        (
            {"url": "http://h", "bearerTokenEnv": "T"},
            Location("headers", "Authorization"),
            "bearerTokenEnv",
        ),
        ({"command": "x", "envFile": ".env"}, Location("env_file"), "envFile"),
        ({"command": "x", "arguments": ["1"]}, Location("args"), "arguments"),
    ],
)
def test_a_path_in_a_message_is_the_path_in_the_file(
    keys: dict[str, Any], location: Location, path: str
) -> None:
    assert where(entry(**keys), location) == f"mcpServers.a.{path}"
