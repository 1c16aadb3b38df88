"""One child never holds up another, or the proxy."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
from proxies import KILLED, SHORT_GRACES, compiled, lowered, running, served, swapped, write_config
from wire import STUB, call, initialize, start_call, stub_entry, text, tool_names, wait_until

from mcpagg.command.cli import main

LIST_CHANGED = "notifications/tools/list_changed"
INHERITED = "unrelated-9f8e7d6c5b4a"


def test_a_child_killed_during_calls_fails_them_at_once_and_leaves_the_list(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"odd": stub_entry(tools=["sleep", "die"]), "good": stub_entry()})
    with served(file) as wire:
        slow = start_call(wire, "odd:sleep", seconds=3600)
        dying = start_call(wire, "odd:die", signal=9, stderr="last words")
        for number in (slow, dying):
            error = wire.response(number)["error"]
            assert error["message"] == f"Server 'odd' {KILLED}"
            assert error["data"] == {"server": "odd"}
        wire.next_notification(LIST_CHANGED)
        assert tool_names(wire) == ["good:echo"]
        assert text(call(wire, "good:echo")) == "{}"
        assert KILLED in call(wire, "odd:sleep")["error"]["message"]
        wire.wait_stderr("last words")
        assert len(wire.messages(LIST_CHANGED)) == 0


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ({"at": {"start": [{"stderr": "no key\n"}, {"exit": 3}]}}, "exited with status 3"),
        ({"answers": {"initialize": {"error": {"code": 1, "message": "no"}}}}, "refused the"),
        ({"at": {"tools/call": [{"exit": 0}]}, "tools": ["echo"]}, "exited with status 0"),
    ],
)
def test_a_child_that_fails_is_named_with_its_reason(
    tmp_path: Path, after: dict[str, Any], reason: str
) -> None:
    with served(swapped(tmp_path, {}, after)) as wire:
        assert reason in call(wire, "odd:echo")["error"]["message"]
        assert text(call(wire, "good:echo")) == "{}"
        wire.wait_stderr(f"server 'odd' {reason}")


def test_a_child_whose_command_is_gone_is_named_and_others_go_on(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.symlink_to(sys.executable)
    odd = {"command": str(program), "args": STUB[1:]}
    file = compiled(tmp_path, {"odd": odd, "good": stub_entry()})
    program.unlink()
    with served(file) as wire:
        assert "could not be started" in call(wire, "odd:echo")["error"]["message"]
        assert text(call(wire, "good:echo")) == "{}"


def test_a_server_gets_the_variables_that_its_own_entry_mentions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "sentinel-value")
    odd = {**stub_entry(tools=["env"]), "env": {"KEY": "${SOME_TOKEN}"}}
    file = compiled(tmp_path, {"odd": odd, "good": stub_entry(tools=["env"])})
    with served(file) as wire:
        assert text(call(wire, "odd:env", name="KEY")) == "sentinel-value"
        assert call(wire, "good:env", name="SOME_TOKEN")["result"]["isError"] is True
    assert "sentinel-value" not in file.read_text()


def test_a_secret_that_a_child_prints_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "sentinel-value")
    dying = {"at": {"tools/call": [{"stderr": "bad key sentinel-value\n"}, {"exit": 1}]}}
    odd = {**stub_entry(**dying), "env": {"KEY": "${SOME_TOKEN}"}}
    file = compiled(tmp_path, {"odd": odd})
    with served(file) as wire:
        call(wire, "odd:echo")
        assert "bad key ${SOME_TOKEN}" in wire.wait_stderr("bad key .*")
    dying = {"at": {"start": [{"stderr": "bad key sentinel-value\n"}, {"exit": 1}]}}
    config = write_config(tmp_path, {"odd": {**stub_entry(**dying), "env": odd["env"]}})
    before = file.read_bytes()
    assert main([str(config), "-o", str(file)]) == 4
    captured = capfd.readouterr()
    assert "bad key" in captured.err
    assert "sentinel-value" not in captured.out + captured.err
    assert file.read_bytes() == before


def test_a_secret_that_a_child_only_inherits_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UNRELATED_API_KEY", INHERITED)
    encoded = base64.b64encode(f"me:{INHERITED}".encode()).decode()
    words = {"stderr": f"bad key {INHERITED}, {encoded}\n"}
    file = compiled(tmp_path, {"odd": stub_entry(at={"tools/call": [words, {"exit": 1}]})})
    with served(file) as wire:
        call(wire, "odd:echo")
        shown = wire.wait_stderr("bad key .*")
    assert "bad key ${UNRELATED_API_KEY}, ${UNRELATED_API_KEY}" in shown
    noise = f"{'-' * 70}{INHERITED}"  # what is shown of it ends within the secret
    for entry in (
        stub_entry(at={"start": [words, {"exit": 1}]}),
        stub_entry(at={"start": [{"stdout": f"{noise}\n"}]}),
        stub_entry(answers={"tools/list": {"error": {"code": 1, "message": INHERITED}}}),
    ):
        main([str(write_config(tmp_path, {"odd": entry})), "-o", str(file)])
        captured = capfd.readouterr()
        assert "odd" in captured.err
        assert INHERITED[:8] not in captured.out + captured.err


def test_lists_are_answered_before_a_child_that_never_answers(tmp_path: Path) -> None:
    never = {"answers": {"initialize": None}}
    file = swapped(tmp_path, {}, never, "--start", "lazy", "--restart", "on-call")
    file.write_text(file.read_text().replace('"connect_timeout": 60.0', '"connect_timeout": 1.0'))
    with served(file) as wire:
        assert tool_names(wire) == ["odd:echo", "good:echo"]
        wait_until(lambda: "result" in call(wire, "good:echo"))  # it may need longer, at first
        odd = start_call(wire, "odd:echo")
        assert text(call(wire, "good:echo")) == "{}"
        assert "handshake within 1 s" in wire.response(odd)["error"]["message"]
        assert tool_names(wire) == ["good:echo"]


def test_a_call_has_no_time_limit_unless_configured(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"odd": stub_entry(tools=["sleep"])}, "--timeout", "0.2")
    with served(file) as wire:
        error = call(wire, "odd:sleep", seconds=3600)["error"]
        assert (error["code"], error["message"]) == (-32001, "Server 'odd' did not answer in time")
        wait_until(lambda: "result" in call(wire, "odd:sleep", seconds=0))


def test_a_child_that_stops_reading_holds_up_nobody(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"odd": stub_entry(tools=["stop_reading"]), "good": stub_entry()})
    with served(lowered(file, DRAIN_SECONDS=0.1, **SHORT_GRACES)) as wire:
        call(wire, "odd:stop_reading")
        numbers = [start_call(wire, "odd:stop_reading", fill="x" * 100_000) for _ in range(5)]
        assert text(call(wire, "good:echo")) == "{}"
        wire.notify("notifications/cancelled", {"requestId": numbers[0]})
        assert "result" in wire.request("ping")


@pytest.mark.parametrize("text_", ["line\n", "x", "\r"])
def test_a_flood_of_stderr_holds_up_nobody(tmp_path: Path, text_: str) -> None:
    flood = [{"stderr": text_, "fill": 1_000_000}]
    odd = stub_entry(at={"start": flood, "tools/call": flood})
    with served(compiled(tmp_path, {"odd": odd})) as wire:
        assert text(call(wire, "odd:echo")) == "{}"


def test_a_childs_way_of_writing_makes_no_difference(tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [{"chunk": 1}, {"newline": "\r\n"}, {"batch": True}]
    envelopes = ("python", "typescript", "spaced", "bare")
    entries = {
        f"{envelope}-{number}": stub_entry(envelope=envelope, **way)
        for envelope in envelopes
        for number, way in enumerate(ways)
    }
    with served(compiled(tmp_path, entries)) as wire:
        answers = {name: text(call(wire, f"{name}:echo", a="ü")) for name in entries}
    assert answers == dict.fromkeys(entries, '{"a":"\\u00fc"}')


def test_junk_on_a_childs_stdout_is_passed_over_with_one_warning(tmp_path: Path) -> None:
    junk = [
        {"stdout": line} for line in ("\U0001f5a5 banner\n", "\n", " \n", "5\n", "null\n", "[]\n")
    ]
    junk += [{"stdout": '{"jsonrpc":"2.0","id":99999,"result":{}}\n{"jsonrpc":"2.0"}\n'}]
    junk += [{"stdout": '{"method":"window/logMessage","params":{"type":3}}\n'}]
    odd = stub_entry(at={"start": junk, "tools/call": junk})
    with served(compiled(tmp_path, {"odd": odd, "good": stub_entry()})) as wire:
        assert text(call(wire, "odd:echo")) == "{}"
        assert text(call(wire, "good:echo")) == "{}"
        wire.wait_stderr("server 'odd' wrote something else than JSON-RPC")
        assert wire.stderr.count("\n") == 1


def test_a_client_that_does_not_read_holds_up_no_child(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"odd": stub_entry(tools=["big", "echo"])})
    with served(file) as wire:
        numbers = [start_call(wire, "odd:big", bytes=1_000_000) for _ in range(5)]
        numbers += [start_call(wire, "odd:echo", fill="x" * 50_000) for _ in range(100)]
        for number in numbers:
            assert "result" in wire.response(number)


def test_one_start_of_a_probe_wakes_nobody(tmp_path: Path) -> None:
    log = tmp_path / "log"
    file = compiled(tmp_path, {"odd": stub_entry(log=str(log))})
    log.unlink()
    with running(file) as wire:
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}
        assert wire.request("initialize", params)["result"]["protocolVersion"] == "2025-06-18"
        assert "result" in wire.request("tools/list")
    assert not log.exists()


def test_many_children_are_started_a_few_at_a_time(tmp_path: Path) -> None:
    servers = {f"s{n}": stub_entry(at={"start": [{"sleep": 0.05}]}) for n in range(20)}
    with served(compiled(tmp_path, servers)) as wire:
        assert text(call(wire, "s19:echo")) == "{}"
        numbers = [start_call(wire, f"s{n}:echo") for n in range(20)]
        for number in numbers:
            assert text(wire.response(number)) == "{}"


def test_versions_are_echoed_or_answered_with_the_newest(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"odd": stub_entry()})
    for asked, answered in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-11-25", "2025-11-25"),
        ("1900-01-01", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ]:
        with running(file) as wire:
            assert initialize(wire, version=asked)["protocolVersion"] == answered


def test_an_answer_that_is_not_utf_8_reaches_its_client(tmp_path: Path) -> None:
    line = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"caf\udce9"}]}}'
    odd = stub_entry(tools=["t"], does={"t": {"do": "raw_line", "line": line}})
    with served(compiled(tmp_path, {"odd": odd, "good": stub_entry()})) as wire:
        assert text(call(wire, "odd:t")) == "caf" + 3 * "\ufffd"
        wire.wait_stderr("server 'odd' wrote something else than JSON-RPC: not UTF-8 at byte")


@pytest.mark.parametrize("noise", ["Loading... ", "\x1b]0;title\x07"])
@pytest.mark.parametrize("moment", ["start", "tools/call"])
def test_what_stands_on_the_line_of_an_answer_is_passed_over(
    tmp_path: Path, noise: str, moment: str
) -> None:
    file = swapped(tmp_path, {}, {"at": {moment: [{"stdout": noise}]}})
    with served(file) as wire:
        assert text(call(wire, "odd:echo")) == "{}"
        wire.wait_stderr("server 'odd' wrote something else than JSON-RPC: ")
        assert wire.stderr.count("\n") == 1
