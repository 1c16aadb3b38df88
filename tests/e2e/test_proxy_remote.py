"""Servers behind a URL, behind a proxy: what they answer, and what becomes of calls on the way."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faulty import Cut, Duplicate, Fault, FaultyProxy, Stall, Truncate
from proxies import compiled, running, served, write_config
from remotes import Remote, Request, Talk
from wire import call, initialize, start_call, text, tools

from mcpagg.command.cli import main

TOKEN = "sesame-1a2b3c4d5e"  # noqa: S105 - of nothing
KINDS: dict[str, dict[str, Any]] = {
    "stream": {"transport": "http"},
    "json": {"transport": "http", "stateless": True, "json": True},
    "events": {"transport": "sse"},
    "modern": {"transport": "http", "refuse": {"initialize": 404}},
    "locked": {"transport": "http", "token": TOKEN},
}
"""The SDK's server in its kinds."""


@pytest.fixture(scope="module")
def urls(remote: Callable[..., str]) -> dict[str, str]:
    return {name: remote(**options) for name, options in KINDS.items()}


@pytest.fixture(scope="module")
def file(urls: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    entries: dict[str, dict[str, Any]] = {name: {"url": url} for name, url in urls.items()}
    entries["locked"]["headers"] = {"Authorization": "Bearer ${REMOTE_TOKEN}"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REMOTE_TOKEN", TOKEN)
        yield compiled(tmp_path_factory.mktemp("remote"), entries)


def direct(name: str, url: str) -> Talk:
    transport = "sse" if name == "events" else "streamable-http"
    return Talk(url, {"Authorization": f"Bearer {TOKEN}"}, transport=transport)


@pytest.mark.parametrize("name", KINDS)
def test_each_tool_answers_as_it_does_directly(name: str, urls: dict[str, str], file: Path) -> None:
    envelope: dict[str, Any] = {}
    if name == "modern":
        version = "io.modelcontextprotocol/protocolVersion"
        abilities = "io.modelcontextprotocol/clientCapabilities"
        envelope = {"_meta": {version: "2026-07-28", abilities: {}}}
    with direct(name, urls[name]) as talk, served(file) as proxy:
        if name == "modern":
            talk.call("server/discover", json.dumps(envelope))
        else:
            talk.greet()
        listed = talk.call("tools/list", json.dumps(envelope)).value("result")["tools"]
        ours = [tool for tool in tools(proxy) if tool["name"].startswith(f"{name}:")]
        assert [{**tool, "name": f"{name}:{tool['name']}"} for tool in listed] == ours
        calls: list[tuple[str, Any]] = [("add", {"a": 1, "b": 2}), ("add", {}), ("fail", {})]
        for tool, arguments in calls:
            params = json.dumps({"name": tool, "arguments": arguments, **envelope})
            theirs = talk.call("tools/call", params)
            answer = call(proxy, f"{name}:{tool}", **arguments)
            expected = theirs.value("result")
            if name == "modern":
                expected.pop("resultType")
            assert answer["result"] == expected


def test_no_secret_is_in_the_file_or_shown_and_a_refusal_is_of_its_server_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = file.read_text()
    assert "Bearer ${REMOTE_TOKEN}" in content
    assert TOKEN not in content
    monkeypatch.setenv("REMOTE_TOKEN", "wrong-7f7f7f7f7f")
    with served(file) as proxy:
        answer = call(proxy, "locked:add", a=1, b=2)
        assert "server 'locked' answered with 401" in answer["error"]["message"].lower()
        assert text(call(proxy, "stream:add", a=1, b=2)) == "3"
        proxy.wait_stderr("server 'locked' answered with 401 Unauthorized.*still valid")
        proxy.end_input()
        proxy.wait()
        assert "7f7f7f7f" not in proxy.stderr


def test_the_command_line_of_the_file_works_with_remote_servers(file: Path) -> None:
    environ = {**os.environ, "REMOTE_TOKEN": TOKEN}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-I", str(file), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
        return done.stdout

    assert "locked:add(a, b)" in run("--list")
    assert "REMOTE_TOKEN" in run("--env")
    assert '"text": "3"' in run("--call", "events:add", "a=1", "b=2")
    checked = run("--check")
    assert [line.partition(":")[0] for line in checked.splitlines()] == [*KINDS]
    assert checked.count("ready, as it was compiled") == len(KINDS)


def test_which_transport_is_behind_a_url_is_recorded(urls: dict[str, str], tmp_path: Path) -> None:
    file = compiled(tmp_path, {"a": {"type": "http", "url": urls["events"]}})
    assert '"transport": "sse"' in file.read_text()
    assert main([str(tmp_path / "mcp.json"), "-o", str(file), "--check", "--offline"]) == 0


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (200, {"Content_Type": "text/html"}, "answered with a web page at"),
        (308, {"Location": "http://other.example/mcp"}, "another origin, http://other.example:"),
        (500, {}, "answered with 500 Internal Server Error"),
    ],
)
def test_a_remote_server_that_fails_fails_the_compile(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    status: int,
    headers: dict[str, str],
    words: str,
) -> None:
    with Remote(lambda request: request.reply(status, "<html>", **headers)) as server:
        config = write_config(tmp_path, {"a": {"url": f"{server.url}?k=v"}})
        assert main([str(config), "-o", str(tmp_path / "server.py"), "--quiet"]) == 4
    said = capsys.readouterr().err
    assert words in said
    assert "mcpServers.a: server 'a' " in said
    assert f"at {server.url}?k=***" in said or status == 308


def test_a_tool_whose_headers_cannot_be_made_is_left_out_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def behave(request: Request) -> None:
        if request.method == "initialize":
            request.error(404, -32601, "Method not found")
        elif request.method == "tools/list":
            bad = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
            good = {"name": "u", "description": "It does.", "inputSchema": {"type": "object"}}
            tools = [{**good, "name": "t", "inputSchema": bad}, good]
            request.result({"resultType": "complete", "tools": tools})

    with Remote(behave) as server:
        file = compiled(tmp_path, {"a": {"url": server.url}})
    said = capsys.readouterr().err
    assert "server 'a' lists the tool 't' with an x-mcp-header at what is none of" in said
    assert '"a:u"' in file.read_text()
    assert '"a:t"' not in file.read_text()


def test_what_a_server_asks_reaches_the_client_and_the_answer_the_server(tmp_path: Path) -> None:
    """On the stream that answers the call, in a session."""
    answers: list[Any] = []
    answered = threading.Event()

    def behave(request: Request) -> None:
        if request.method == "tools/list":
            request.result({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})
        elif request.method == "tools/call":
            asked = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}
            question = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create"}
            request.stream(json.dumps({**question, "params": asked}))
            assert answered.wait(60)
            request.send(request.response({"content": [{"type": "text", "text": "thanks"}]}))
        elif request.id == "q":
            answers.append(request.message["result"])
            request.reply(202)
            answered.set()

    with Remote(behave) as server:
        file = compiled(tmp_path, {"a": {"url": server.url}})
        with running(file) as proxy:
            initialize(proxy, capabilities={"elicitation": {}})
            number = start_call(proxy, "a:t")
            question = proxy.next_request("elicitation/create")
            proxy.answer(question, {"action": "decline"})
            assert text(proxy.response(number)) == "thanks"
    assert answers == [{"action": "decline"}]


# Faults on the way


class Counting:
    """A server that answers each call with its argument, and counts how often each one came."""

    def __init__(self, session: str = "s-1") -> None:
        self.session = session
        self.seen: list[int] = []

    def __call__(self, request: Request) -> None:
        """Answer by one body, or by a stream."""
        known = request.headers.get("mcp-session-id", self.session)
        if known != self.session:
            request.reply(404)
        elif request.method == "tools/list":
            request.result({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})
        elif request.method == "tools/call":
            number = request.message["params"]["arguments"]["n"]
            self.seen.append(number)
            result = {"content": [{"type": "text", "text": str(number)}]}
            if number % 2:
                request.stream(request.response(result))
            else:
                request.result(result)


class Ledger:
    """Calls that were made through a proxy, each with a number of its own, and what came back."""

    def __init__(self, proxy: Any) -> None:
        self.proxy = proxy
        self.numbers = itertools.count()
        self.failed = 0

    def wave(self, size: int = 8) -> int:
        """Make calls at once; return how many succeeded. Each gets its own answer, or an error."""
        numbers = [next(self.numbers) for _ in range(size)]
        calls = [(number, start_call(self.proxy, "a:t", n=number)) for number in numbers]
        good = 0
        for number, identifier in calls:
            answer = self.proxy.response(identifier)
            if "result" in answer:
                assert text(answer) == str(number)
                good += 1
            else:
                assert answer["error"]["code"] == -32603
                assert answer["error"]["message"].startswith("Server 'a' ")
                assert answer["error"]["data"] == {"server": "a"}
        self.failed += size - good
        return good


def spoilers() -> Iterator[Fault | None]:
    """Yield faults, at many places of an answer."""
    for after in itertools.cycle((0, 1, 17, 120, 150, 200, 260)):
        yield from (Cut(after), Truncate(after), None, Duplicate(after))


def test_a_spoilt_network_loses_doubles_and_repeats_no_call(tmp_path: Path) -> None:
    behave = Counting()
    with Remote(behave) as server, FaultyProxy(server.port) as between:
        file = compiled(tmp_path, {"a": {"url": between.url}})
        with served(file) as proxy:
            ledger = Ledger(proxy)
            assert ledger.wave() == 8
            between.spoil(spoilers())
            good = sum(ledger.wave() for _ in range(25))
            between.spoil(())
            between.reset_all()
            ledger.wave()
            assert ledger.wave() == 8
            assert ledger.failed > 0 < good
    assert len(behave.seen) == len(set(behave.seen))


def test_a_call_that_gets_no_answer_holds_up_no_other(tmp_path: Path) -> None:
    stalled = Stall(0)
    with Remote(Counting()) as server, FaultyProxy(server.port) as between:
        file = compiled(tmp_path, {"a": {"url": between.url}})
        with served(file) as proxy:
            ledger = Ledger(proxy)
            ledger.wave()
            between.spoil([stalled])
            between.reset_all()
            number = start_call(proxy, "a:t", n=1001)
            assert stalled.reached.wait(60)
            assert ledger.wave() == 8
            stalled.released.set()
            assert text(proxy.response(number)) == "1001"


def test_a_server_that_is_started_again_under_load_loses_only_what_it_had_in_hand(
    tmp_path: Path,
) -> None:
    old, new = Counting("s-1"), Counting("s-2")
    with (
        Remote(old, "s-1") as first,
        Remote(new, "s-2") as second,
        FaultyProxy(first.port) as between,
    ):
        file = compiled(tmp_path, {"a": {"url": between.url}})
        with served(file) as proxy:
            ledger = Ledger(proxy)
            assert ledger.wave() == 8
            between.target = 9  # nobody
            between.reset_all()
            assert ledger.wave() == 0
            between.target = second.port
            assert ledger.wave() == 8
            assert len(second.of("initialize")) == 1
    seen = old.seen + new.seen
    assert len(seen) == len(set(seen)) == 16
