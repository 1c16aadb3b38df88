"""A child that says something else than its snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from proxies import compiled, running, served, swapped
from wire import Json, call, enveloped, stub_entry, text, tool_names, tools, wait_until

LIST_CHANGED = "notifications/tools/list_changed"
BEFORE = {"tools": ["kept", "changed", "gone"]}
AFTER = {
    "tools": ["new", "kept", {"name": "changed", "inputSchema": {"type": "object", "x": True}}]
}


def drifted(folder: Path, policy: str, after: dict[str, Any] | None = None) -> Path:
    """Compile against BEFORE, and let the child be AFTER when it runs."""
    return swapped(folder, BEFORE, AFTER if after is None else after, "--on-drift", policy)


def test_live_serves_what_the_child_says_now_and_tells_the_client_once(tmp_path: Path) -> None:
    with served(drifted(tmp_path, "live")) as wire:
        assert tool_names(wire) == ["odd:kept", "odd:changed", "odd:gone", "good:echo"]
        wire.next_notification(LIST_CHANGED)
        assert tool_names(wire) == ["odd:new", "odd:kept", "odd:changed", "good:echo"]
        assert tools(wire)[2]["inputSchema"] == {"type": "object", "x": True}
        assert text(call(wire, "odd:new", a=1)) == '{"a":1}'
        assert call(wire, "odd:gone")["error"]["code"] == -32601
        line = wire.wait_stderr("differs from its snapshot: .*")
        assert "+new -gone ~changed" in line
        assert "recompile" in line
        assert wire.messages(LIST_CHANGED) == []


def test_a_client_that_keeps_lists_keeps_none_for_long_before_servers_were_compared(
    tmp_path: Path,
) -> None:
    with running(drifted(tmp_path, "live")) as wire:

        def listed() -> Json:
            result: Json = wire.request("tools/list", enveloped())["result"]
            return result

        first = listed()
        assert first["ttlMs"] < 3_600_000
        wait_until(lambda: listed()["ttlMs"] == 3_600_000)
        assert listed()["tools"] != first["tools"]


def test_warn_keeps_the_snapshot(tmp_path: Path) -> None:
    with served(drifted(tmp_path, "warn")) as wire:
        wire.wait_stderr("differs from its snapshot: .*recompile")
        assert tool_names(wire) == ["odd:kept", "odd:changed", "odd:gone", "good:echo"]
        assert text(call(wire, "odd:changed", a=1)) == '{"a":1}'
        assert call(wire, "odd:new")["error"]["code"] == -32601
        assert wire.messages(LIST_CHANGED) == []


def test_refuse_withdraws_what_changed_and_says_so(tmp_path: Path) -> None:
    with served(drifted(tmp_path, "refuse")) as wire:
        message = call(wire, "odd:changed")["error"]["message"]
        assert (
            message
            == "Server 'odd' has a tool 'changed' that changed since this proxy was compiled"
        )
        wire.next_notification(LIST_CHANGED)
        assert tool_names(wire) == ["odd:kept", "good:echo"]
        assert text(call(wire, "odd:kept", a=1)) == '{"a":1}'
        assert "is new since" in call(wire, "odd:new")["error"]["message"]
        assert "was compiled" in call(wire, "odd:changed")["error"]["message"]


def test_a_value_of_a_variable_is_in_no_word_about_drift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "kR7-pQ2.zX9_wL4"  # noqa: S105
    monkeypatch.setenv("API_TOKEN", secret)
    # Where the name is cut that is shown, a part of it is left.
    tools_after = ["kept", {"name": f"of{secret}"}, {"name": f"{'x' * 90}{secret}"}]
    both: Json = {"capabilities": {"tools": {}, "logging": {}}}
    file = swapped(tmp_path, BEFORE | both, {"tools": tools_after, **both}, "--on-drift", "refuse")
    with served(file) as wire:
        line = wire.wait_stderr("differs from its snapshot: .*")
        logged = str(wire.next_notification("notifications/message")["params"]["data"])
        refused = call(wire, f"odd:of{secret}")["error"]["message"]
    for words in (line, logged, refused):
        assert "of${API_TOKEN}" in words
        assert secret[:6] not in words


def test_the_same_list_in_another_order_is_no_drift(tmp_path: Path) -> None:
    after = {"tools": ["gone", "kept", "changed"], "page": 1}
    with served(drifted(tmp_path, "live", after)) as wire:
        assert text(call(wire, "odd:gone")) == "{}"
        assert tool_names(wire) == ["odd:kept", "odd:changed", "odd:gone", "good:echo"]
        wire.end_input()
        assert wire.wait() == 0
        assert wire.stderr == ""
        assert wire.messages() == []


def test_an_unknown_name_of_a_known_child_is_asked_for_once(tmp_path: Path) -> None:
    with served(drifted(tmp_path, "live")) as wire:
        assert text(call(wire, "odd:new", a=1)) == '{"a":1}'
        assert call(wire, "odd:never")["error"]["message"] == "Tool not found: odd:never"


def test_tools_that_come_and_go_while_it_runs_are_followed(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"one": stub_entry(tools=["echo", "grow", "shrink"])})
    with served(file) as wire:
        call(wire, "one:grow", name="more")
        wire.next_notification(LIST_CHANGED)
        assert tool_names(wire)[-1] == "one:more"
        call(wire, "one:shrink")
        wire.next_notification(LIST_CHANGED)
        assert tool_names(wire) == ["one:echo", "one:grow", "one:shrink"]


def test_a_storm_of_announcements_is_no_storm_of_readings(tmp_path: Path) -> None:
    log = tmp_path / "log"
    storm = [{"notify": LIST_CHANGED, "times": 1000}]
    one = stub_entry(
        log=str(log), at={"tools/call": storm, "tools/list": [{"notify": LIST_CHANGED}]}
    )
    file = compiled(tmp_path, {"one": one})
    log.unlink()
    with served(file) as wire:
        assert text(call(wire, "one:echo")) == "{}"
        assert text(call(wire, "one:echo")) == "{}"
        assert wire.messages() == []
    asked = [line for line in log.read_text().splitlines() if "tools/list" in line]
    assert len(asked) < 20


def test_tools_for_capable_clients_are_hidden_from_others(tmp_path: Path) -> None:
    one = stub_entry(tools=["echo", "ask"], needs={"ask": "sampling"})
    file = compiled(tmp_path, {"one": one})
    with served(file) as wire:
        assert tool_names(wire) == ["one:echo"]
        call(wire, "one:echo")
        assert wire.messages() == []
    with served(file, sampling={}) as wire:
        assert tool_names(wire) == ["one:echo", "one:ask"]
        number = wire.start_request(
            "tools/call",
            {"name": "one:ask", "arguments": {"method": "sampling/createMessage", "params": {}}},
        )
        wire.answer(wire.next_request("sampling/createMessage"), {"role": "assistant"})
        assert "assistant" in text(wire.response(number))
