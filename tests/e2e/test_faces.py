"""One server of an emitted file as itself: a client hears what it hears of the server alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dialogues import Step, play
from proxies import compiled, running
from wire import (
    Wire,
    call,
    enveloped,
    events,
    initialize,
    legacy_entry,
    modern_entry,
    stub_entry,
    text,
    tool_names,
)

FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
ANSWERS: dict[str, dict[str, Any]] = {
    "elicitation/create": {"action": "accept", "content": {"answer": "ü"}},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "s"}},
    "roots/list": {"roots": []},
}
ABLE: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}, "roots": {"listChanged": True}}
TOOLS = {
    "echo": "echo",
    "a.b": "echo",
    "progress": {"do": "progress", "count": 2},
    "error": {"do": "error", "code": -5, "message": "no", "data": {"x": [1.0, None, "\u2028"]}},
    "raw": {"do": "raw_result", "json": '{ "content" : [ ], "vendor":1e2 , "isError":true}'},
    "log": {"do": "log", "levels": ["info", "warning"]},
    "form": {"do": "ask", "method": "elicitation/create", "params": FORM},
    "sample": {"do": "ask", "method": "sampling/createMessage", "params": {"maxTokens": 1}},
    "roots": {"do": "ask", "method": "roots/list"},
    "touch": {"do": "touch", "uri": "ui://page/one"},
}
PAGE = {"_meta": {"ui": {"resourceUri": "ui://page/one"}}}
LEGACY = {
    "tools": [
        *TOOLS,
        {"name": "grow", "inputSchema": {"type": "object"}, "title": "T", **PAGE},
    ],
    "does": {**TOOLS, "grow": {"do": "grow", "name": "late"}},
    "prompts": ["hello", "a b"],
    "resources": ["ui://page/one", "file:///x", "file:///shared"],
    "templates": ["file:///{name}"],
    "instructions": "Of itself.",
    "server_info": {"name": "odd one", "version": "3", "title": "Ü", "icons": []},
    "capabilities": {
        "tools": {"listChanged": True},
        "prompts": {},
        "resources": {"subscribe": True},
        "completions": {},
        "logging": {},
        "experimental": {"x": {"y": 1}},
        "extensions": {"com.example/odd": {"z": True}},
    },
    "answers": {"com.example/odd/do": {"result": {"done": True}}},
}
OLD = {**LEGACY, "newest": "2025-03-26", "refuse": "answer"}
MODERN = {
    "tools": ["echo", "error", "ask", "log"],
    "resources": ["res://a"],
    "instructions": "Of the new.",
    "hints": {"ttlMs": 5, "cacheScope": "public"},
}
SCRIPT: list[Step] = [
    *((f"{kind}/list", None) for kind in ("tools", "prompts", "resources", "resources/templates")),
    ("ping", None),
    ("tools/call", {"name": "echo", "arguments": {"x": 1.0, "y": "\u2028"}}),
    ("tools/call", {"name": "a.b", "arguments": {}}),
    ("tools/call", {"name": "error", "arguments": {}}),
    ("tools/call", {"name": "raw"}),
    ("tools/call", {"name": "progress", "arguments": {}, "_meta": {"progressToken": "p"}}),
    ("tools/call", {"name": "none", "arguments": {}}),
    ("tools/call", {"name": "own:echo", "arguments": {}}),
    ("prompts/get", {"name": "hello"}),
    ("prompts/get", {"name": "none"}),
    ("resources/read", {"uri": "file:///shared"}),
    ("resources/read", {"uri": "ui://page/one"}),
    ("resources/read", {"uri": "other:none"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "hello"}, "argument": {}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "none"}, "argument": {}}),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": "file:///{name}"}}),
    ("com.example/odd/do", {"a": 1}),
    ("com.example/none", {"a": 1}),
]
OF_HANDSHAKES: list[Step] = [
    ("tools/call", {"name": "form"}),
    ("tools/call", {"name": "sample"}),
    ("tools/call", {"name": "roots"}),
    ("logging/setLevel", {"level": "warning"}),
    ("tools/call", {"name": "log"}),
    ("resources/subscribe", {"uri": "ui://page/one"}),
    ("tools/call", {"name": "touch"}),
    ("tools/call", {"name": "echo", "arguments": {"last": True}}),
]


def hello(version: str) -> list[Step]:
    about = {"clientInfo": {"name": "t", "version": "1"}, "capabilities": ABLE}
    return [
        ("initialize", {"protocolVersion": version, **about}),
        ("notifications/initialized", None),
    ]


def direct(entry: dict[str, Any]) -> Wire:
    return Wire([entry["command"], *entry["args"]])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the server `own`, and others that have names and URIs of it."""
    folder = tmp_path_factory.mktemp("faces")
    other = {key: LEGACY[key] for key in ("prompts", "resources", "templates", "capabilities")}
    servers = {
        "first": legacy_entry(tools=["echo"], log=str(folder / "first.log"), **other),
        "own": legacy_entry(**LEGACY),
        "old": legacy_entry(**OLD),
        "modern": modern_entry(**MODERN),
    }
    return compiled(folder, servers)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        *(("own", version) for version in ("2025-11-25", "2025-06-18", "2024-11-05")),
        *(("old", version) for version in ("2099-01-01", "2025-11-25", "2024-11-05")),
    ],
)
def test_a_client_hears_what_it_hears_without_the_proxy(
    file: Path, name: str, version: str
) -> None:
    options = LEGACY if name == "own" else OLD
    script = [*hello(version), *SCRIPT, *OF_HANDSHAKES]
    with direct(legacy_entry(**options)) as wire:
        theirs = play(wire, script, ANSWERS)
    with running(file, "--as", name) as wire:
        ours = play(wire, script, ANSWERS)
    assert ours.answers == theirs.answers
    assert ours.asked == theirs.asked
    assert ours.told == theirs.told
    assert len(theirs.asked) == 3
    assert {method for method, _ in theirs.told} == {
        "notifications/message",
        "notifications/progress",
        "notifications/resources/updated",
    }


def test_a_modern_client_does_too(file: Path) -> None:
    """The discovery says what this proxy speaks, and how long that keeps."""
    asking = ("tools/call", {"name": "ask", "arguments": {}})
    script: list[Step] = [
        (method, enveloped(params, ABLE, logLevel="debug"))
        for method, params in [
            ("server/discover", None),
            ("tools/list", None),
            ("resources/list", None),
            ("tools/call", {"name": "echo", "arguments": {"x": 1.0}}),
            ("tools/call", {"name": "error", "arguments": {"code": -5, "message": "no"}}),
            ("tools/call", {"name": "log", "arguments": {}}),
            ("tools/call", {"name": "none", "arguments": {}}),
            asking,
            ("resources/read", {"uri": "res://a"}),
            ("prompts/get", {"name": "none"}),
            ("com.example/none", {}),
        ]
    ]
    with direct(modern_entry(**MODERN)) as wire:
        theirs = play(wire, script, {})
    with running(file, "--as", "modern") as wire:
        ours = play(wire, script, {})
    found = [json.loads(one.answers.pop(0)[1].partition(" ")[2]) for one in (ours, theirs)]
    same = ("capabilities", "instructions", "_meta", "resultType")
    assert [found[0].get(key) for key in same] == [found[1].get(key) for key in same]
    for (step, our), (_, their) in zip(ours.answers, theirs.answers, strict=True):
        if "requestState" not in their:  # nobody can guess the state of a round
            assert our == their, step
    assert ours.told == theirs.told
    assert len(ours.told) == 8


def test_a_name_that_a_client_refuses_has_a_portable_one_and_no_other(file: Path) -> None:
    with running(file, "--as", "own") as wire:
        initialize(wire, client_info={"name": "claude-ai", "version": "1"})
        names = tool_names(wire)
        assert names == [name.replace(".", "_") for name in TOOLS] + ["grow"]
        assert text(call(wire, "a_b", x=1)) == '{"x":1}'
        listed = wire.request("prompts/list")["result"]["prompts"]
        assert [prompt["name"] for prompt in listed] == ["hello", "a_b"]
        wire.request("prompts/get", {"name": "a_b"})


def test_only_this_server_is_started_and_only_its_variables_are_needed(tmp_path: Path) -> None:
    servers = {
        "a": stub_entry(log=str(tmp_path / "a.log")),
        "b": {**stub_entry(log=str(tmp_path / "b.log")), "env": {"TOKEN": "${B_TOKEN}"}},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("B_TOKEN", "x")
        file = compiled(tmp_path, servers)
    (tmp_path / "a.log").unlink()
    (tmp_path / "b.log").unlink()
    assert ask(file, "--as", "b", "--env")[0] == 3
    assert ask(file, "--as", "a", "--env")[:2] == (0, "")
    with running(file, "--as", "a") as wire:
        initialize(wire)
        assert text(call(wire, "echo", x=1)) == '{"x":1}'
        assert call(wire, "b:echo")["error"]["code"] == -32602
    assert len(events(tmp_path / "a.log", "start")) == 1
    assert not (tmp_path / "b.log").exists()


def test_two_servers_are_one_proxy_without_the_others(file: Path) -> None:
    with running(file, "--as", "modern", "--as", "first") as wire:
        about = initialize(wire)
        assert about["serverInfo"]["name"] == "mcp"
        assert "subscribe" in about["capabilities"]["resources"]
        assert tool_names(wire) == ["first:echo", *(f"modern:{t}" for t in MODERN["tools"])]
        assert text(call(wire, "first:echo", x=1)) == '{"x":1}'
    status, output, _ = ask(file, "--list", "--json", "--as", "first", "--as", "modern")
    assert (status, [*json.loads(output)["servers"]]) == (0, ["first", "modern"])


def ask(file: Path, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-I", "-S", str(file), *arguments]
    done = subprocess.run(
        command, input="", capture_output=True, text=True, check=False, encoding="utf-8"
    )
    return done.returncode, done.stdout, done.stderr


def test_commands_are_about_this_server_alone(file: Path) -> None:
    assert "echo()" in ask(file, "--as", "first", "--list")[1]
    assert ask(file, "--as", "first", "--check")[:2] == (0, "first: ready, as it was compiled\n")
    status, output, _ = ask(file, "--as", "first", "--call", "echo", "x=1", "--text")
    assert (status, output.strip()) == (0, '{"x":1}')
    status, _, why = ask(file, "--as", "fist")
    assert (status, why) == (2, "mcp: --as: there is no server 'fist'; did you mean 'first'?\n")
    status, _, why = ask(file, "--as", "zzz", "--list")
    assert status == 2
    assert "it has first, own, old, modern" in why


def test_a_file_whose_tables_are_not_those_of_the_entry_starts_nothing(
    file: Path, tmp_path: Path
) -> None:
    status, digest, _ = ask(file, "--digest")
    digest = digest.strip()
    assert (status, len(digest)) == (0, len("sha256:") + 32)
    for words in ([digest], [digest[:23]], ["--as", "first", digest], [digest, "--list"]):
        assert ask(file, *words)[0] == 0, words
    with running(file, "--as", "own", digest) as wire:
        initialize(wire)
        assert "echo" in tool_names(wire)
    edited = tmp_path / "server.py"
    edited.write_text(file.read_text().replace("Does echo.", "Does more."))
    log = file.parent / "first.log"
    log.unlink(missing_ok=True)
    for words in ([digest], ["--as", "first", digest], ["--check", digest]):
        status, output, why = ask(edited, *words)
        assert (status, output, why.count("\n")) == (2, "", 1), words
        assert digest in why
        assert ask(edited, "--digest")[1].strip() in why
        assert "mcpagg-compile --check --offline --against" in why
    assert not log.exists()
    status, _, why = ask(file, "sha256:12")
    assert (status, "16 or more" in why) == (2, True)
