"""What a client restricts is honoured or refused, by the names of its keys; see `restrictions`."""

from __future__ import annotations

from typing import Any

import pytest
from configs import ENTRY, FOLDER, entry_refusal, read, refusal, warnings_of

from mcpagg.passes.config.restrictions import restricts

IN_ENTRY = "restricts what the server may do or offer, and a proxy would not"
BESIDE = "restricts the servers or their tools, and is not honoured"


def of(path: str) -> dict[str, Any]:
    """Return the options that read a config as the file at `path` of the project."""
    file = FOLDER / path
    return {"source": file.name, "folder": file.parent}


def filters(config: dict[str, Any], path: str = "mcp.json") -> dict[str, Any]:
    """Return (expose, hide) by server."""
    spec, _ = read(config, **of(path))
    return {server.name: (server.expose, server.hide) for server in spec.servers}


def left(config: dict[str, Any], path: str = "mcp.json") -> list[str]:
    return [server.name for server in read(config, **of(path))[0].servers]


# The rule


@pytest.mark.parametrize(
    "key",
    "disabledPrompts disabled_resources deny-list deniedHosts disallow_network toolExclusions"  # noqa: SIM905 - a word a line
    " blockedDomains suppressWrites allowHosts allow-list forbidden rejects permissionProfile"
    " readOnly read_only readonly netSandbox sandbox_mode profiles isolation envFilter exclude_tags"
    " include_tags hiddenPrompts enabledPrompts whitelist only".split(),
)
def test_a_key_whose_name_says_that_it_restricts_is_known(key: str) -> None:
    assert restricts(key, ["x"])
    assert f"mcpServers.a.{key}: {IN_ENTRY}" in entry_refusal(**ENTRY, **{key: ["x"]})


@pytest.mark.parametrize(
    "key",
    "blockchain unblocked enabled profile hidpi disabledReason permissionMessage dense excellent"  # noqa: SIM905 - a word a line
    " unlimited".split(),
)
def test_a_key_that_only_looks_like_one_that_restricts_is_none(key: str) -> None:
    assert not restricts(key, "x")


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("meta", {"policy": {"blocked_hosts": ["h"]}}, "meta.policy.blocked_hosts"),
        ("cursor", {"disabled": True}, "cursor.disabled"),
        ("rules", [{"denyList": ["t"]}], "rules[0].denyList"),
        ("author", {"permissions": {"write": False}}, "author.permissions"),
        ("tools", {"t": {"arguments": {"a": {"hide": True}}}}, "tools.t.arguments.a.hide"),
        ("sandbox", {"network": False}, "sandbox"),
        ("permission", "deny", "permission"),
        ("toolFilter", {"mode": "allow", "list": ["t"], "denied": ["u"]}, "toolFilter.denied"),
        ("oauth", {"clientId": "c", "allowedAudiences": ["x"]}, "oauth.allowedAudiences"),
    ],
)
def test_it_is_refused_at_any_depth_of_an_entry(key: str, value: Any, place: str) -> None:
    message = entry_refusal(**ENTRY, **{key: value})
    assert f"mcpServers.a.{place}: {IN_ENTRY}" in message


@pytest.mark.parametrize(
    "keys",
    [
        {"disabledPrompts": []},
        {"sandbox": None, "readOnly": False, "denyHosts": ""},
        {"isolation": {"disabled": True, "image": "i"}},
        {"_disabledPrompts": ["p"], "//allowHosts": ["h"]},
        {"env": {"BLOCKED_HOSTS": "h"}, "args": ["--deny"]},
        {"alwaysAllow": ["t"]},
        {"id": {"enabled": False, "allowed_models": ["m"]}},
        {"source": {"requestHeaders": {"X-Block": "1"}, "inputSchema": {"readOnly": True}}},
    ],
)
def test_what_restricts_nothing_is_not_refused(keys: dict[str, Any]) -> None:
    told = [w for w in warnings_of(**keys) if "without asking" not in w]
    assert told == []


@pytest.mark.parametrize(
    "keys",
    [
        {"allowInsecure": True},
        {"includeContext": True},
        {"permission": "ask"},
        {"skipQuarantine": True},
        {"noSandbox": True},
    ],
)
def test_what_allows_all_is_only_not_understood(keys: dict[str, Any]) -> None:
    [warning] = warnings_of(**keys)
    assert "is not understood and ignored" in warning


@pytest.mark.parametrize(
    ("beside", "place"),
    [
        ({"mcp": {"blockedServers": ["b"]}}, "mcp.blockedServers"),
        ({"mcp.blocked": ["b"]}, '["mcp.blocked"]'),
        ({"mcpProxy": {"toolFilter": {"mode": "block", "list": ["t"]}}}, "mcpProxy."),
        ({"policy": {"deny": ["mcp__a__t"]}}, "policy.deny"),
        ({"policy": {"deny": ["mcp_a_t"]}}, "policy.deny"),
        ({"policy": {"deny": ["@a/t"]}}, "policy.deny"),
        ({"policy": {"deny": ["a:t"]}}, "policy.deny"),
        ({"policy": {"deny": ["Bash(rm)", "Mcp(a:t)"]}}, "policy.deny"),
        ({"policy": {"deny": ["a"]}}, "policy.deny"),
        ({"policy": {"deny": ["a(t)"]}}, "policy.deny"),
        ({"policy": {"deny": ["mcp__*"]}}, "policy.deny"),
        ({"policy": {"rejected": {"mcp__a__t": True}}}, "policy.rejected"),
        ({"rules": [{"blocked": "mcp__a__t"}]}, "rules[0].blocked"),
        ({"profiles": {"p": {"mcp_servers": {"b": {"tools": ["t"]}}}}}, "profiles"),
        ({"disabledTools": ["t"]}, "disabledTools"),
        ({"mcp": {"blockedPackages": ["@evil/server"]}}, "mcp.blockedPackages"),
        ({"readOnlyServers": True}, "readOnlyServers"),
        ({"mcpState": {"a": {"enabled": False}}}, "mcpState.a.enabled"),
        ({"enabledServers": {"a": False}}, "enabledServers"),
        ({"toolStates": {"mcp__a__t": False}}, "toolStates.mcp__a__t"),
        ({"tools": ["read", "a/t"]}, "tools"),
    ],
)
def test_what_restricts_the_servers_beside_them_is_refused(
    beside: dict[str, Any], place: str
) -> None:
    [message] = refusal({"mcpServers": {"a": ENTRY}, **beside}).splitlines()
    assert message.startswith(f"mcp.json: {place}")
    assert BESIDE in message


@pytest.mark.parametrize(
    "beside",
    [
        {"files": {"exclude": ["**/.git"]}},
        {"files": {"exclude": {"a_modules": True}}},
        {"disabledTools": ["builtin:edit", "Bash", "run_shell_command"]},
        {"toolPermissions": {"terminal": {"denied": ["rm"]}}},
        {"policy": {"deny": ["mcp__other__t", "Bash(git push)"]}},
        {"mcpRules": {"deny": ["mcp__other__t"]}},
        {"chat.tools.terminal.blockDetectedFileWrites": "outside"},
        {"tools": ["read", "edit"]},
        {"editor": {"readOnly": True}},
        {"extensions": {"blocked": ["x"]}},
    ],
)
def test_what_restricts_the_client_itself_is_named_in_one_line(beside: dict[str, Any]) -> None:
    _, [warning] = read({"mcpServers": {"a": ENTRY}, **beside})
    assert warning.startswith("not about servers, ignored: ")
    assert next(iter(beside)) in warning


def test_what_restricts_nothing_beside_the_servers_is_not_refused() -> None:
    beside = {
        "mcp": {"excludedTools": [], "readOnly": False, "allowAll": True, "denied": None},
        "permissions": {"allow": ["mcp__a__t"], "deny": []},
        "toolPermissions": {"default": "allow"},
        "env": {"MCP_BLOCKED_TOOLS": "x"},
        "toolPolicy": {"permissions": [{"tool": "mcp__a__t", "action": "allow"}]},
    }
    assert left({"mcpServers": {"a": ENTRY}, **beside}) == ["a"]


def test_what_is_about_a_server_that_is_left_out_stops_nothing() -> None:
    config = {"mcpServers": {"a": ENTRY, "b": ENTRY}, "policy": {"deny": ["mcp__b__t"]}}
    assert "policy.deny" in refusal(config)
    assert read(config, skip=["b"])[0].servers[0].name == "a"


# What each client means


@pytest.mark.parametrize(
    "keys",
    [
        {"options": {"disabled": True}},
        {"disable": True},
        {"anythingllm": {"autoStart": False}},
        {"quarantined": True},
    ],
)
def test_a_switch_is_one_wherever_it_stands_in_an_entry(keys: dict[str, Any]) -> None:
    assert left({"mcpServers": {"a": {**ENTRY, **keys}, "b": {**ENTRY, "disable": False}}}) == ["b"]


@pytest.mark.parametrize(
    "key",
    [
        "disallowed_tools",
        "suppressedTools",
        "tools_exclude",
        "hide-tools",
        "denyTools",
        "blocked_tools",
        "excludeTools",
    ],
)
def test_a_list_of_tools_to_withhold_is_read_in_any_spelling(key: str) -> None:
    assert filters({"mcpServers": {"a": {**ENTRY, key: ["t"]}}}) == {"a": (None, ("t",))}


@pytest.mark.parametrize("key", ["allowed_tools", "enabledTools", "include-tools", "exposedTools"])
def test_a_list_of_tools_to_offer_is_read_in_any_spelling(key: str) -> None:
    assert filters({"mcpServers": {"a": {**ENTRY, key: ["t"]}}}) == {"a": (("t",), ())}


def test_tools_that_anythingllm_suppresses_are_withheld() -> None:
    own = {"autoStart": True, "suppressedTools": ["t"]}
    assert filters({"mcpServers": {"a": {**ENTRY, "anythingllm": own}}}) == {"a": (None, ("t",))}


def test_mcphub_writes_tools_with_their_server_before_them() -> None:
    tools = {"my-hub-drop": {"enabled": False}, "my-hub-get": {"enabled": True}}
    config = {"mcpServers": {"my-hub": {**ENTRY, "tools": tools}}}
    assert filters(config, "mcp_settings.json") == {"my-hub": (None, ("drop",))}
    prompts = {"my-hub-p": {"enabled": False}}
    config = {"mcpServers": {"my-hub": {**ENTRY, "prompts": prompts}}}
    assert "prompts.my-hub-p.enabled: what this withholds" in refusal(
        config, **of("mcp_settings.json")
    )


@pytest.mark.parametrize("answer", ["deny", "never"])
def test_a_tool_that_is_never_called_is_withheld(answer: str) -> None:
    servers = {"a": {**ENTRY, "tools": {"t": {"permission": answer}}}}
    assert filters({"mcpServers": servers}) == {"a": (None, ("t",))}


@pytest.mark.parametrize(
    ("lists", "servers"),
    [
        ({"excluded": ["*pupp*"]}, ["one"]),
        ({"allowed": ["o?e"]}, ["one"]),
        ({"allowed": ["*"], "excluded": ["one"]}, ["puppeteer"]),
    ],
)
def test_lists_of_servers_of_qwen_are_globs(lists: dict[str, Any], servers: list[str]) -> None:
    config = {"mcpServers": {"one": ENTRY, "puppeteer": ENTRY}, "mcp": lists}
    assert left(config, ".qwen/settings.json") == servers


def test_lists_of_servers_of_claude_name_them_in_rules() -> None:
    config: dict[str, Any] = {"mcpServers": {"a": ENTRY, "b": ENTRY, "c": ENTRY}}
    config["deniedMcpServers"] = [{"serverName": "b"}]
    assert left(config) == ["a", "c"]
    config["allowedMcpServers"] = [{"serverName": "b"}, {"serverName": "c"}]
    assert left(config) == ["c"]
    config["deniedMcpServers"] = [{"serverName": "c", "serverUrl": "*"}]
    assert "deniedMcpServers[0]: expected an object with one of serverName" in refusal(config)


@pytest.mark.parametrize(
    ("lists", "servers"),
    [
        ({"deniedMcpServers": [{"serverCommand": ["x", "1"]}]}, ["b", "r"]),
        ({"deniedMcpServers": [{"serverUrl": "https://*.example/*"}]}, ["a", "b"]),
        ({"allowedMcpServers": [{"serverName": "b"}, {"serverCommand": ["x", "1"]}]}, ["a"]),
        ({"allowedMcpServers": [{"serverName": "b"}, {"serverUrl": "https://h*"}]}, ["b", "r"]),
        ({"allowedMcpServers": [{"serverUrl": "https://other/*"}, {"serverName": "r"}]}, []),
    ],
)
def test_lists_of_servers_of_claude_go_by_commands_and_urls(
    lists: dict[str, Any], servers: list[str]
) -> None:
    found = {"a": ENTRY, "b": {"command": "y"}, "r": {"url": "https://h.example/mcp"}}
    config = {"mcpServers": found, **lists}
    if servers:
        assert left(config) == servers
    else:
        assert "every server is switched off" in refusal(config)


GEMINI, QWEN, CLAUDE = ".gemini/settings.json", ".qwen/settings.json", ".claude/settings.json"
KIRO, AMP, ZED = ".kiro/agents/r.json", ".amp/settings.json", ".config/zed/settings.json"


@pytest.mark.parametrize(
    ("path", "beside", "hide"),
    [
        (GEMINI, {"tools": {"exclude": ["mcp_gh_drop", "run_shell_command"]}}, ("drop",)),
        (GEMINI, {"excludeTools": ["gh__drop", "ShellTool(rm)"]}, ("drop",)),
        (GEMINI, {"tools.exclude": ["mcp_gh_*"]}, ("*",)),
        (QWEN, {"permissions": {"deny": ["mcp__gh__drop", "Bash(rm *)"]}}, ("drop",)),
        (CLAUDE, {"permissions": {"deny": ["mcp__gh__drop", "Bash(rm *)"]}}, ("drop",)),
        (CLAUDE, {"permissions": {"deny": ["mcp__gh"]}}, ("*",)),
        (CLAUDE, {"permissions": {"deny": ["mcp__other__t"], "allow": ["mcp__gh__x"]}}, ()),
    ],
)
def test_tools_that_a_client_withholds_are_not_offered(
    path: str, beside: dict[str, Any], hide: tuple[str, ...]
) -> None:
    assert filters({"mcpServers": {"gh": ENTRY}, **beside}, path) == {"gh": (None, hide)}


@pytest.mark.parametrize(
    ("beside", "hide", "expose"),
    [
        ({"amp.tools.disable": ["mcp__gh__drop", "builtin:gh", "mermaid"]}, ("drop",), None),
        ({"amp.tools": {"disable": ["mcp__gh__*"]}}, ("*",), None),
        ({"amp.tools.disable": []}, (), None),
        ({"amp.permissions": [{"tool": "mcp__gh__drop", "action": "reject"}]}, ("drop",), None),
        (
            {"amp.permissions": [{"tool": "mcp__gh__d", "action": "reject", "reason": "r"}]},
            ("d",),
            None,
        ),
        (
            {"amp.permissions": [{"tool": "*", "action": "ask"}, {"tool": "*", "action": "allow"}]},
            (),
            None,
        ),
        (
            {
                "amp.permissions": [
                    {"tool": "mcp__gh__get", "action": "allow"},
                    {"tool": "mcp__gh__*", "action": "reject"},
                ]
            },
            (),
            ("get",),
        ),
    ],
)
def test_what_amp_withholds_is_not_offered(beside: dict[str, Any], hide: Any, expose: Any) -> None:
    assert filters({"amp.mcpServers": {"gh": ENTRY}, **beside}, AMP) == {"gh": (expose, hide)}


@pytest.mark.parametrize(
    ("beside", "says"),
    [
        ({"amp.tools.disable": ["drop"]}, "does not say whose tool it is"),
        (
            {
                "amp.permissions": [
                    {"tool": "mcp__gh__drop", "action": "reject", "matches": {"table": "*"}}
                ]
            },
            "withholds some calls of a tool",
        ),
        ({"amp.mcpPermissions": [{"matches": {}, "action": "reject"}]}, "may be started"),
    ],
)
def test_what_amp_withholds_and_we_cannot_is_refused(beside: dict[str, Any], says: str) -> None:
    assert says in refusal({"amp.mcpServers": {"gh": ENTRY}, **beside}, **of(AMP))


def test_what_names_a_tool_as_another_client_does_is_refused() -> None:
    config = {"mcpServers": {"gh": ENTRY}, "permissions": {"deny": ["Shell(rm)", "Mcp(gh:drop)"]}}
    [message] = refusal(config).splitlines()
    assert message == (
        "mcp.json: permissions.deny[1]: does not say whose tool it is, and is not honoured;"
        " write mcp__SERVER__TOOL"
    )


def test_rules_of_opencode_are_honoured_the_last_one_first() -> None:
    rules = [
        {"action": "*", "resource": "*", "effect": "ask"},
        {"action": "gh_drop", "resource": "*", "effect": "deny"},
        {"action": "read", "resource": "/etc/*", "effect": "deny"},
    ]
    rules.append({"action": "gh_get", "resource": "*", "effect": "allow"})
    config = {"mcp": {"gh": {"command": ["x"]}}, "permissions": rules}
    assert filters(config) == {"gh": (None, ("drop",))}
    assert [warning.split(": ")[0] for warning in read(config)[1]] == ["permissions[0]"]
    rules.append({"action": "gh_get", "resource": "/etc/*", "effect": "deny"})
    assert "permissions[4]: withholds some calls of a tool" in refusal(config)


def test_a_name_of_gemini_that_may_be_a_servers_tool_is_refused() -> None:
    config = {"mcpServers": {"gh": ENTRY}, "tools": {"exclude": ["drop"]}}
    assert "tools.exclude[0]: does not say whose tool it is" in refusal(config, **of(GEMINI))


@pytest.mark.parametrize(
    ("tools", "expose"),
    [
        (["read", "@git/git_status"], ("git_status",)),
        (["@git"], ("*",)),
        (["*"], ("*",)),
        (["@builtin", "@git/a", "@git/b*"], ("a", "b*")),
    ],
)
def test_an_agent_of_kiro_has_the_tools_that_it_lists(tools: list[str], expose: Any) -> None:
    config = {"mcpServers": {"git": ENTRY}, "tools": tools, "allowedTools": ["@git/git_status"]}
    assert filters(config, KIRO) == {"git": (expose, ())}
    assert filters(config, ".aws/amazonq/cli-agents/r.json") == {"git": (expose, ())}


@pytest.mark.parametrize(
    ("agent", "expose", "hide"),
    [
        ({"enable_all_context_servers": False}, (), ()),
        ({"enable_all_context_servers": True}, None, ()),
        ({"context_servers": {"gh": {"tools": {"drop": False}}}}, None, ("drop",)),
        (
            {
                "enable_all_context_servers": False,
                "context_servers": {"gh": {"tools": {"get": True, "drop": False}}},
            },
            ("get",),
            (),
        ),
        ({"context_servers": {"gh": {"enabled": False}}}, None, ("*",)),
    ],
)
def test_the_profile_that_zed_begins_with_is_honoured(
    agent: dict[str, Any], expose: Any, hide: Any
) -> None:
    config = {"context_servers": {"gh": ENTRY}, "agent": {"profiles": {"write": agent}}}
    assert filters(config, ZED) == {"gh": (expose, hide)}
    config["agent"] = {"profiles": {"mine": agent}}
    spec, [warning] = read(config, **of(ZED))
    assert (spec.servers[0].expose, spec.servers[0].hide) == (None, ())
    assert warning.startswith("agent.profiles: only the profile that Zed begins with")


def test_tools_that_zed_denies_are_withheld() -> None:
    tools: dict[str, Any] = {"mcp:gh:drop": {"default": "deny"}, "terminal": {"default": "deny"}}
    config = {"context_servers": {"gh": ENTRY}, "agent": {"tool_permissions": {"tools": tools}}}
    assert filters(config, ZED) == {"gh": (None, ("drop",))}
    tools["mcp:gh:drop"] = {"always_deny": [{"pattern": "x"}]}
    assert "withholds some calls of a tool" in refusal(config, **of(ZED))


@pytest.mark.parametrize(
    "beside",
    [
        {"admin": {"mcp": {"enabled": False}}},
        {"chat.mcp.access": "none"},
        {"chat": {"mcp": {"enabled": False}}},
        {"mcp": {"enabled": False}},
        {"customizations": {"vscode": {"settings": {"chat.mcp.access": "none"}}}},
        {"mcpEnabled": False},
    ],
)
def test_a_switch_for_all_servers_is_refused_by_name(beside: dict[str, Any]) -> None:
    [message] = refusal({"mcpServers": {"a": ENTRY}, **beside}).splitlines()
    assert "switches every server off" in message


def test_a_switch_for_all_servers_that_is_on_needs_no_word() -> None:
    for access in ("all", True):
        beside = {"chat.mcp.access": access, "mcpEnabled": True}
        assert read({"mcpServers": {"a": ENTRY}, **beside})[1] == []
    registry = {"mcpServers": {"a": ENTRY}, "chat.mcp.access": "registry"}
    assert '["chat.mcp.access"]: is not honoured' in refusal(registry)


def test_what_projects_of_claude_approve_and_caches_hold_is_no_restriction() -> None:
    project: dict[str, Any] = {"allowedTools": ["mcp__a__t"], "enabledMcpjsonServers": ["a"]}
    beside = {"projects": {"/p.q": project}, "cachedGates": {"mcp_tools_disabled": True}}
    assert left({"mcpServers": {"a": ENTRY}, **beside}, ".claude.json") == ["a"]
    project["mcpServers"] = {"a": ENTRY}
    assert left(beside, ".claude.json") == ["a"]


# What is left


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (
            b'enabled_tools = ["bash", "mcp_*"]\n[[mcp_servers]]\nname = "s"\ncommand = "x"\n',
            ".vibe/config.toml",
        ),
        (b'{"mcp": {"s": {"command": ["x"]}}, "tools": {"s*": false}}', "opencode.json"),
        (b'{"mcpServers": {"s": {"command": "x", "disabledTools": ["*"]}}}', "mcp.json"),
    ],
)
def test_a_server_of_which_the_filters_leave_nothing_is_named(text: bytes, path: str) -> None:
    _, warnings = read(text, **of(path))
    assert warnings == ['no tool is offered of "s": the config\'s filters leave none']


def test_paths_are_nested_or_dotted() -> None:
    for beside in ({"mcp": {"excluded": ["a"]}}, {"mcp.excluded": ["a"]}):
        assert left({"mcpServers": {"a": ENTRY, "b": ENTRY}, **beside}) == ["b"]
