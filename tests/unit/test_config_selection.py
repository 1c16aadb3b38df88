"""Entries are chosen before they are judged; what a client restricts is honoured or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from configs import ENTRY, FOLDER, read, refusal

BAD: list[Any] = [
    {"type": "ws", "url": "wss://h/x"},
    {"link": "x"},
    {"command": "x", "env": {"API_KEY": "a8f5f167f44f4964e6c998de"}},
    {"command": "x", "sandbox": {"network": False}},
    {"command": "x", "disabled": "yes"},
    {"command": "x", "args": ["\0"]},
    {"command": "x", "args": ["${A:-${B}}"]},
    5,
]


def names(config: dict[str, Any], **options: Any) -> list[str]:
    return [server.name for server in read(config, **options)[0].servers]


@pytest.mark.parametrize("bad", BAD)
def test_an_entry_that_is_left_out_stops_nothing(bad: Any) -> None:
    config = {"mcpServers": {"bad": bad, "good": ENTRY}}
    assert "bad" in refusal(config)
    assert names(config, skip=["bad"]) == names(config, only=["good"]) == ["good"]
    assert read(config, skip=["bad"])[1] == []


def test_duplicates_of_what_is_left_out_stop_nothing() -> None:
    text = b'{"mcpServers": {"bad": {"command": "x", "command": "y"}, "good": {"command": "x"}}}'
    assert "more than once" in refusal(text)
    assert read(text, skip=["bad"])[0].servers[0].name == "good"
    twice = {"servers": [{"name": "bad", "command": "x"}, {"name": "bad", "command": "y"}]}
    assert "--skip bad" in refusal(twice)
    twice["servers"].append({"name": "good", "command": "x"})
    assert names(twice, skip=["bad"]) == ["good"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"skip": ["c"]}, "there is no server 'c' to choose; it has a, off"),
        ({"only": ["c"]}, "there is no server 'c' to choose; it has a, off"),
        ({"only": ["of"]}, "there is no server 'of' to choose; did you mean `off`?"),
        ({"only": ["off"]}, "mcpServers.off: is switched off in the config"),
        ({"only": ["a"], "skip": ["a"]}, "--only and --skip leave no server"),
        ({"skip": ["a"]}, 'every server is switched off: "off"'),
    ],
)
def test_a_choice_that_cannot_be_kept_is_refused(options: dict[str, Any], says: str) -> None:
    config = {"mcpServers": {"a": ENTRY, "off": {**ENTRY, "disabled": True}}}
    assert says in refusal(config, **options)


def test_a_server_that_librechat_does_not_start_is_switched_off() -> None:
    text = b"mcpServers:\n  a: {command: x, startup: false}\n  b: {command: x, startup: true}\n"
    spec, _ = read(text, "librechat.yaml")
    assert [server.name for server in spec.servers] == ["b"]
    assert [(one.name, one.why) for one in spec.left_out] == [("a", "switched off in the config")]


def test_why_a_server_is_left_out_is_known() -> None:
    servers = {"a": ENTRY, "off": {**ENTRY, "disabled": True}, "b": ENTRY}
    spec, _ = read({"mcpServers": servers}, skip=["b"])
    assert [(one.name, one.why) for one in spec.left_out] == [
        ("off", "switched off in the config"),
        ("b", "--skip"),
    ]
    spec, _ = read({"mcpServers": servers}, only=["b"])
    assert {one.why for one in spec.left_out} == {"not among --only"}


def test_a_composite_tool_may_call_a_server_that_is_left_out() -> None:
    tools = {"both": {"subtools": {"a": {"tools": ["t"]}, "b": {"tools": ["u"]}}}}
    config = {"mcpServers": {"a": ENTRY, "b": {"link": "x"}}, "tools": tools}
    assert names(config, skip=["b"]) == ["a"]


# What the client itself switches


@pytest.mark.parametrize(
    "beside",
    [
        {"mcp": {"allowed": ["a"]}},
        {"mcp": {"excluded": ["b", "c"]}},
        {"mcp": {"allowed": ["a", "b"], "excluded": ["b"]}},
        {"allowMCPServers": ["a"]},
        {"excludeMCPServers": ["b", "c"]},
        {"disabledMcpServers": ["b", "c"]},
    ],
)
def test_lists_of_servers_beside_them_switch_servers_off(beside: dict[str, Any]) -> None:
    config = {**beside, "mcpServers": {"a": ENTRY, "b": {"link": "x"}, "c": ENTRY}}
    spec, warnings = read(config, "settings.json", folder=FOLDER / ".gemini")
    assert ([server.name for server in spec.servers], warnings) == (["a"], [])


def test_a_list_of_no_servers_allows_none() -> None:
    config = {"mcp": {"allowed": []}, "mcpServers": {"a": ENTRY}}
    assert 'every server is switched off: "a"' in refusal(config)


def test_a_list_of_servers_that_is_none_is_refused() -> None:
    config = {"mcp": {"excluded": "a"}, "mcpServers": {"a": ENTRY}}
    assert "mcp.excluded: expected a list of names of servers, found a string" in refusal(config)


def test_switches_of_a_client_are_no_servers() -> None:
    message = refusal({"mcpServers": {}, "mcp": {"serverCommand": "x", "allowed": ["a"]}})
    assert message.splitlines() == [
        'mcp.json: no servers: `mcpServers` is empty; write {NAME: {"command": …}} into it'
    ]


def test_a_command_of_the_client_that_starts_a_server_is_named() -> None:
    _, warnings = read({"mcpServers": {"a": ENTRY}, "mcp": {"serverCommand": "x"}})
    assert [warning.split(": ")[0] for warning in warnings] == ["mcp.serverCommand"]


def test_servers_that_a_project_disables_are_off_in_it() -> None:
    project: dict[str, Any] = {"mcpServers": {"a": ENTRY, "b": ENTRY}}
    project["disabledMcpServers"] = ["b"]
    assert names({"projects": {"/p": project}}) == ["a"]
    _, warnings = read(
        {"mcpServers": {"b": ENTRY}, "projects": {"/p": {**project, "mcpServers": {}}}}
    )
    assert warnings == [
        'projects["/p"].disabledMcpServers: is not honoured: it is for this project alone: "b";'
        " --skip them for a proxy of this project"
    ]


@pytest.mark.parametrize(
    ("beside", "hide", "expose"),
    [
        ({"tools": {"my_hub*": False}}, ("*",), None),
        ({"tools": {"my_hub_a_b": False, "other*": False}}, ("a[!A-Za-z0-9-]b",), None),
        ({"tools": {"*search": False}}, ("*search",), None),
        ({"tools": {"my*": False, "my_hub_read": True}}, (), ("read",)),
        ({"tools": {"*": False, "my_hub_*": True}}, (), None),
        ({"tools": {"my_hub_*": True}}, (), None),
        ({"permission": {"my_hub_*": "deny", "bash": "deny"}}, ("*",), None),
        ({"permission": "deny"}, ("*",), None),
    ],
)
def test_globs_over_the_clients_names_of_tools_are_honoured(
    beside: dict[str, Any], hide: object, expose: object
) -> None:
    spec, warnings = read({"mcp": {"my hub": {"command": ["x"]}}, **beside})
    [server] = spec.servers
    left = (
        []
        if "*" not in server.hide
        else ['no tool is offered of "my hub": the config\'s filters leave none']
    )
    assert (server.hide, server.expose, warnings) == (hide, expose, left)


def test_a_tool_that_stays_withheld_in_spite_of_its_switch_is_named() -> None:
    tools = {"a_x*": False, "a_xy": True}
    _, warnings = read({"mcp": {"a": {"command": ["x"]}}, "tools": tools})
    assert [warning.split(": ")[0] for warning in warnings] == ["tools.a_xy"]


def test_globs_at_the_root_of_a_toml_config_are_honoured() -> None:
    text = b'disabled_tools = ["a_x"]\nenabled_tools = ["a_*"]\n'
    text += b'[[mcp_servers]]\nname = "a"\ncommand = "x"\n'
    spec, _ = read(text, "config.toml", folder=FOLDER / ".vibe")
    assert (spec.servers[0].hide, spec.servers[0].expose) == (("x",), ("*",))
    message = refusal(
        text.replace(b"a_x", b"re:a_.*"), source="config.toml", folder=FOLDER / ".vibe"
    )
    assert "disabled_tools[0]: is a regular expression" in message


def test_keys_that_only_one_client_has_are_not_dropped_in_silence_for_another() -> None:
    _, warnings = read({"servers": {"a": ENTRY}, "tools": {"a*": False}, "envVars": []})
    assert warnings == ['not about servers, ignored: "tools", "envVars"']


@pytest.mark.parametrize("key", ["autoApprove", "alwaysAllow"])
def test_lists_of_approved_tools_are_named_in_one_line(key: str) -> None:
    config = {"mcpServers": {"a": {**ENTRY, key: ["t"]}, "b": {**ENTRY, key: True}, "c": ENTRY}}
    [warning] = read(config)[1]
    assert warning.startswith("which tools the client calls without asking is not kept, for")
    assert '"a", "b"; approve' in warning


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"mcp": {"a": {"command": ["x"]}}, "permission": {"a_*": "ask"}}, "permission.a_*"),
        ({"mcp_servers": {"a": {**ENTRY, "tools": {"t": {"approval_mode": "prompt"}}}}}, "mode"),
    ],
)
def test_what_a_client_asks_before_is_named(config: dict[str, Any], place: str) -> None:
    [warning] = read(config)[1]
    assert place.rsplit("_", maxsplit=1)[-1] in warning.split(": ")[0]


# What restricts


@pytest.mark.parametrize(
    "keys",
    [
        {"sandboxEnabled": True},
        {"sandbox": {"filesystem": {"denyRead": ["~/.ssh"]}}},
        {"sandboxEnabled": True, "sandbox": {"network": {"allowedDomains": []}}},
        {"isolation": {"enabled": True, "image": "i"}},
    ],
)
def test_a_sandbox_is_refused_by_name(keys: dict[str, Any]) -> None:
    message = refusal({"servers": {"a": {**ENTRY, **keys}}})
    for key in keys:
        assert (
            f"servers.a.{key}: restricts what the server may do or offer, and a proxy would not"
            in message
        )
    assert "--skip it" in message


@pytest.mark.parametrize(
    "keys",
    [
        {"sandboxEnabled": False, "sandbox": {"filesystem": {"denyRead": ["~/.ssh"]}}},
        {"sandbox": {}},
        {"isolation": {"enabled": False}},
    ],
)
def test_a_sandbox_that_is_off_is_none(keys: dict[str, Any]) -> None:
    assert read({"servers": {"a": {**ENTRY, **keys}}})[1] == []


@pytest.mark.parametrize(
    ("file", "beside", "place"),
    [
        (".gemini/settings.json", {"sandbox": "docker"}, "sandbox"),
        (".gemini/settings.json", {"tools": {"sandbox": True}}, "tools.sandbox"),
    ],
)
def test_what_restricts_all_servers_is_refused(
    file: str, beside: dict[str, Any], place: str
) -> None:
    path = Path(FOLDER / file)
    config = {"mcpServers": {"a": ENTRY}, **beside}
    message = refusal(config, source=path.name, folder=path.parent)
    assert f"{path.name}: {place}: " in message
    assert "which is not honoured; compile a copy" in message


@pytest.mark.parametrize(
    ("domains", "allowed"),
    [
        (["hub.example"], True),
        (["https://HUB.example:8000"], True),
        (["https://hub.example/mcp"], True),
        (["*.example"], True),
        (["example"], False),
        ([], False),
        ([5], False),
    ],
)
def test_a_list_of_the_hosts_that_servers_may_have_is_honoured(
    domains: list[Any], allowed: bool
) -> None:
    config = {
        "mcpServers": {"a": ENTRY, "r": {"url": "https://hub.example/mcp"}},
        "mcpSettings": {"allowedDomains": domains},
    }
    if allowed:
        assert names(config, source="librechat.yaml") == ["a", "r"]
    else:
        message = refusal(config, source="librechat.yaml")
        assert "mcpServers.r.url: is no host that `mcpSettings.allowedDomains` allows" in message


def test_entries_that_only_the_client_can_start_are_left_out() -> None:
    servers = {
        "ours": ENTRY,
        "theirs": {"source": "extension", "settings": {}},
        "old": {"settings": {}},
        "now": {"enabled": True, "remote": False, "settings": {}},
    }
    spec, warnings = read({"context_servers": servers})
    assert [server.name for server in spec.servers] == ["ours"]
    assert [one.name for one in spec.left_out] == ["theirs", "old", "now"]
    assert warnings == [
        'left out, as only the client itself can start them: "theirs", "old", "now"'
    ]
    del servers["ours"]
    assert 'only the client itself can start its servers: "theirs", "old", "now"' in refusal(
        {"context_servers": servers}
    )
    assert "has neither `command` nor `url`" in refusal({"context_servers": {"a": {"comand": "x"}}})


@pytest.mark.parametrize(
    "theirs",
    [
        {"type": "inMemory", "command": "x"},
        {"type": "inmemory"},
        {"type": "builtin"},
        {"transport": "in-memory"},
        {"uses": "owner/block"},
        {"command": "${runtime.node}", "args": ["x"]},
        {"command": "x", "env": {"A": "${runtime.home}"}},
    ],
)
def test_what_only_a_client_can_start_is_known_in_every_dialect(theirs: dict[str, Any]) -> None:
    spec, warnings = read({"mcpServers": [{"name": "a", **ENTRY}, {"id": "theirs", **theirs}]})
    assert [server.name for server in spec.servers] == ["a"]
    assert warnings == ["mcpServers[1]: is left out: only the client itself can start it"]


def test_a_block_of_a_hub_is_called_by_what_it_uses() -> None:
    spec, _ = read({"mcpServers": [{"uses": "owner/block"}, {"name": "a", **ENTRY}]})
    assert [one.name for one in spec.left_out] == ["owner/block"]
