"""Real servers behind a proxy answer as they do without it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import mcp
import pytest
from compilations import compilation, tool
from dialogues import Heard, Step, play
from proxies import SHORT_GRACES, compiled, lowered, running, served
from wire import Wire, call, initialize, tools

from mcpagg.command.cli import main
from mcpagg.command.mcpb import pack

VERSION = "2026.8.31"
NPM = "@modelcontextprotocol/server-"

CLIENT = {"name": "test", "version": "1"}
LISTS = {
    "everything": ("tools", "prompts", "resources", "resources/templates"),
    **dict.fromkeys(("filesystem", "memory", "thinking", "time", "git"), ("tools",)),
}
MORE: dict[str, list[Step]] = {
    "everything": [
        ("prompts/get", {"name": "simple-prompt"}),
        ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Rome"}}),
        ("prompts/get", {"name": "none"}),
        ("resources/read", {"uri": "demo://resource/none/0"}),
        ("tools/call", {"name": "trigger-elicitation-request", "arguments": {}}),
        (
            "tools/call",
            {"name": "trigger-sampling-request", "arguments": {"prompt": "x", "maxTokens": 9}},
        ),
    ]
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npx") is None, reason="needs Node's npx"),
]


def npx(name: str) -> dict[str, Any]:
    return {"command": "npx", "args": ["-y", f"{NPM}{name}@{VERSION}"]}


def node(name: str, *arguments: str) -> dict[str, Any]:
    """Return an entry for what npx starts, which takes a third of the time without npx."""
    where = ["npx", "-y", "-p", f"{NPM}{name}@{VERSION}", "-c", f"command -v mcp-server-{name}"]
    found = subprocess.run(where, capture_output=True, text=True, check=True)
    return {"command": "node", "args": [found.stdout.strip(), *arguments]}


def python(name: str, *arguments: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-m", name, *arguments]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real")
    (folder / "a file.txt").write_text("wörds\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
        subprocess.run(["git", "-C", str(folder), *identity, *words], check=True)
    return folder


@pytest.fixture(scope="module")
def servers(folder: Path) -> dict[str, dict[str, Any]]:
    return {
        "everything": node("everything"),
        "filesystem": node("filesystem", str(folder)),
        "memory": {**npx("memory"), "env": {"MEMORY_FILE_PATH": str(folder / "memory.json")}},
        "thinking": node("sequential-thinking"),
        "time": python("mcp_server_time", "--local-timezone", "UTC"),
        "git": python("mcp_server_git"),
    }


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, servers: dict[str, Any]) -> Path:
    file = compiled(tmp_path_factory.mktemp("real_proxy"), servers)
    return lowered(file, **SHORT_GRACES)  # some do not end with their input


@pytest.fixture(scope="module")
def lazy(file: Path) -> Path:
    """Return the same, where only the servers that are called are started."""
    other = file.with_name("lazy.py")
    shutil.copy(file, other)
    config = str(file.with_name("mcp.json"))
    assert main([config, "-o", str(other), "--offline", "--start", "lazy", "--quiet"]) == 0
    return lowered(other, **SHORT_GRACES)


def calls(folder: Path) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return calls whose answers are the same each time."""
    thought = {"thought": "t", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    time = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    return {
        "everything": [
            ("echo", {"message": "wörds \u2028"}),
            ("get-sum", {"a": 1, "b": 2.5}),
            ("get-tiny-image", {}),
            ("get-structured-content", {"location": "New York"}),
            ("get-annotated-message", {"messageType": "error"}),
            ("get-sum", {"a": "x"}),
        ],
        "filesystem": [
            ("read_text_file", {"path": str(folder / "a file.txt")}),
            ("read_text_file", {"path": "/no/such"}),
        ],
        "memory": [("read_graph", {})],
        "thinking": [("sequentialthinking", thought)],
        "time": [("convert_time", time), ("convert_time", {})],
        "git": [
            ("git_log", {"repo_path": str(folder)}),
            ("git_status", {"repo_path": "/no/such"}),
        ],
    }


def test_every_server_is_heard_as_without_the_proxy(
    file: Path, servers: dict[str, dict[str, Any]], folder: Path
) -> None:
    """As itself, all that a client hears is the same; behind the proxy, its tools and results are.

    Lists and the handshake are compared as values, all else as text.
    """
    able = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": True}}
    sampled = {"role": "assistant", "model": "none", "content": {"type": "text", "text": "s"}}
    answers: dict[str, dict[str, Any]] = {
        "roots/list": {"roots": [{"uri": folder.as_uri()}]},
        "elicitation/create": {"action": "decline"},
        "sampling/createMessage": sampled,
    }
    hello = {"protocolVersion": "2025-06-18", "capabilities": able, "clientInfo": CLIENT}
    begin: list[Step] = [("initialize", hello), ("notifications/initialized", None)]
    with running(file) as proxy:
        play(proxy, begin, answers)
        listed = {tool["name"]: tool for tool in tools(proxy)}
        for name, entry in servers.items():
            script: list[Step] = [
                *((f"{kind}/list", None) for kind in LISTS[name]),
                *(("tools/call", {"name": n, "arguments": a}) for n, a in calls(folder)[name]),
                *MORE.get(name, ()),
                ("tools/call", {"name": "none", "arguments": {}}),
                ("none/such", {}),
            ]
            command = [entry["command"], *entry["args"]]
            with Wire(command, env={**os.environ, **entry.get("env", {})}) as direct:
                theirs = play(direct, [*begin, *script], answers)
                own = {tool["name"]: tool for tool in tools(direct)}
            with running(file, "--as", name) as wire:
                ours = play(wire, [*begin, *script], answers)
            pairs = zip(ours.answers, theirs.answers, strict=True)
            assert [pair for pair in pairs if pair[0] != pair[1] and not _is_known(*pair)] == []
            assert _asked_in_calls(ours) == _asked_in_calls(theirs)
            assert [n for n in listed if n.startswith(f"{name}:")] == [f"{name}:{n}" for n in own]
            for tool, value in own.items():
                assert {**listed[f"{name}:{tool}"], "name": tool} == value
            for tool, arguments in calls(folder)[name]:
                step: Step = ("tools/call", {"name": f"{name}:{tool}", "arguments": arguments})
                same: Step = ("tools/call", {"name": tool, "arguments": arguments})
                [(_, outcome)] = play(proxy, [step], answers).answers
                assert (f"tools/call {json.dumps(same[1])}", outcome) in theirs.answers


def _asked_in_calls(heard: Heard) -> list[tuple[str, str]]:
    """Return what was asked but for roots, which may be asked for at any time."""
    return [one for one in heard.asked if one[0] != "roots/list"]


def _is_known(our: tuple[str, str], their: tuple[str, str]) -> bool:
    """Whether all that differs is that tasks, which are not relayed, are not declared."""
    if not our[0].startswith("initialize"):
        return False
    own = json.loads(their[1].partition(" ")[2])
    own["capabilities"].pop("tasks", None)
    return json.dumps(own, sort_keys=True) == our[1].partition(" ")[2]


def test_tools_that_need_a_capability_are_shown_to_clients_that_have_it(lazy: Path) -> None:
    def everything(**capabilities: Any) -> list[str]:
        with running(lazy) as proxy:
            initialize(proxy, capabilities=capabilities)
            return [t["name"] for t in tools(proxy) if t["name"].startswith("everything:")]

    few = everything()
    many = everything(roots={}, sampling={}, elicitation={})
    assert len(few) == 13
    assert set(few) < set(many)
    assert "everything:trigger-sampling-request" in many


def test_the_sdks_own_client_lists_and_calls(lazy: Path) -> None:
    async def use() -> tuple[int, str]:
        parameters = mcp.StdioServerParameters(command=sys.executable, args=[str(lazy)])
        async with mcp.Client(parameters) as client:
            listed = await client.list_tools()
            result = await client.call_tool("everything:echo", {"message": "hello"})
            return len(listed.tools), result.content[0].text  # type: ignore[union-attr]

    count, answer = asyncio.run(use())
    assert count > 40
    assert answer == "Echo: hello"


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
def test_servers_with_a_handshake_ask_clients_of_both_eras(
    lazy: Path, folder: Path, mode: Any
) -> None:
    asked: list[str] = []

    async def roots(context: Any) -> mcp.types.ListRootsResult:
        asked.append("roots")
        return mcp.types.ListRootsResult(
            roots=[mcp.types.Root.model_validate({"uri": folder.as_uri()})]
        )

    async def elicit(context: Any, params: Any) -> mcp.types.ElicitResult:
        asked.append("elicitation")
        return mcp.types.ElicitResult(action="accept", content={"name": "Ada"})

    async def sample(context: Any, params: Any) -> mcp.types.CreateMessageResult:
        asked.append("sampling")
        content = mcp.types.TextContent(type="text", text="sampled")
        return mcp.types.CreateMessageResult(role="assistant", content=content, model="none")

    async def use() -> list[str]:
        async with mcp.Client(
            mcp.StdioServerParameters(command=sys.executable, args=[str(lazy)]),
            mode=mode,
            list_roots_callback=roots,
            elicitation_callback=elicit,
            sampling_callback=sample,
        ) as client:
            calls: list[tuple[str, dict[str, Any]]] = [
                ("everything:trigger-elicitation-request", {}),
                ("everything:trigger-sampling-request", {"prompt": "x", "maxTokens": 9}),
                ("everything:get-roots-list", {}),
                ("filesystem:list_allowed_directories", {}),
            ]
            results = [await client.call_tool(name, given) for name, given in calls]
            return [result.content[0].text for result in results]  # type: ignore[union-attr]

    elicited, sampled, listed, allowed = asyncio.run(use())
    assert "User provided the requested information" in elicited
    assert "sampled" in sampled
    assert folder.as_uri() in listed
    assert str(folder) in allowed
    assert {"roots", "elicitation", "sampling"} == set(asked)


def test_nothing_of_an_npx_tree_is_left(lazy: Path) -> None:
    with served(lazy) as proxy:
        call(proxy, "memory:read_graph")
        family = proxy.family()
        proxy.end_input()
        assert proxy.wait() == 0
    assert len(family) > 3  # npx, a shell and node
    assert not [pid for pid in family if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_an_extension_passes_the_validator_of_its_format(tmp_path: Path) -> None:
    entry = {"env": {"TOKEN": "${MY_TOKEN}", "AREA": "${AREA:-eu}"}}
    (tmp_path / "proxy.mcpb").write_bytes(pack(compilation({"a": entry}, tool(description="x"))))
    with zipfile.ZipFile(tmp_path / "proxy.mcpb") as archive:
        archive.extractall(tmp_path)
    command = ["npx", "-y", "@anthropic-ai/mcpb@2.1.2", "validate", "manifest.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "validation passes" in done.stdout) == (0, True), done.stdout
