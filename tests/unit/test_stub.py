"""The stub misbehaves as asked, and the wire client sees it: what other tests rest on."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from wire import (
    STUB,
    ClosedError,
    Wire,
    call,
    events,
    initialize,
    received,
    start_call,
    stub,
    text,
    tool_names,
    wait_until,
)


def opened(**options: Any) -> Wire:
    """Start a stub and shake hands."""
    wire = Wire(stub(**options))
    initialize(wire)
    return wire


def test_without_options_it_is_a_plain_server() -> None:
    with Wire(STUB) as wire:
        result = initialize(wire, version="2024-11-05")
        assert result["protocolVersion"] == "2024-11-05"
        assert tool_names(wire) == ["echo"]
        assert text(call(wire, "echo", a=[1, "ü"])) == '{"a":[1,"\\u00fc"]}'
        assert wire.request("nonsense")["error"]["code"] == -32601
        assert wire.close() == 0


def test_tools_given_as_json_text_are_sent_as_written() -> None:
    tool = '{"name":"n", "x_future":{"v":1.0,"e":1e400},"inputSchema":{"type":"object"}}'
    with opened(tools=[tool, {"name": "m", "title": "M"}]) as wire:
        line = wire.response_line(wire.start_request("tools/list"))
        assert tool.encode() in line.raw
        assert line.message["result"]["tools"][1] == {"name": "m", "title": "M"}


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ({}, "error"),
        ({"refuse": "answer"}, "2025-06-18"),
        ({"refuse": "exit"}, "exit"),
        ({"version": "2099-01-01", "newest": "2025-11-25"}, "2099-01-01"),
    ],
)
def test_versions(options: dict[str, str], outcome: str) -> None:
    with Wire(stub(**{"newest": "2025-06-18", **options})) as wire:
        if outcome == "exit":
            with pytest.raises(ClosedError, match="exit status 1"):
                initialize(wire)
            return
        reply = wire.request("initialize", {"protocolVersion": "2025-11-25"})
        version = reply["result"]["protocolVersion"] if "result" in reply else "error"
        assert version == outcome


@pytest.mark.parametrize("cursors", [None, ["", "b"]])
def test_pages(cursors: list[str] | None) -> None:
    with opened(tools=list("abcde"), page=2, cursors=cursors) as wire:
        assert tool_names(wire) == list("abcde")
        assert "error" in wire.request("tools/list", {"cursor": "nonsense"})


def test_steps_make_noise_and_die_at_their_moment() -> None:
    moments = {
        "start": [
            {"stdout": "\ufeffbanner\n\n"},
            {"bytes": "\u00ff\u00fe\n"},
            {"stderr": "noise ", "fill": 200_000},
        ],
        "tools/list": [{"send": {"method": "a"}, "times": 2}, {"exit": 7}],
    }
    with Wire(stub(at=moments)) as wire:
        initialize(wire)
        lines = [wire.line().raw for _ in range(3)]
        assert lines == [b"\xef\xbb\xbfbanner", b"", b"\xff\xfe"]
        wire.start_request("tools/list")
        assert wire.wait() == 7
        assert wire.messages("a") == [{"method": "a"}] * 2
        assert len(wire.stderr) == 200_000


def test_answers_in_every_shape() -> None:
    raw = '{"content":[],"n":0.10000000000000000555,"id":9}'
    for envelope in ("python", "typescript", "id first", "spaced", "bare"):
        with opened(tools=["raw_result"], envelope=envelope) as wire:
            line = wire.response_line(start_call(wire, "raw_result", json=raw))
            assert raw.encode() in line.raw
    with opened(tools="all") as wire:
        problem = {"code": -32042, "message": "", "data": None, "extra": 1}
        assert call(wire, "error", **problem)["error"] == problem
        assert len(text(call(wire, "big", bytes=1_000_000))) == 1_000_000
        assert json.loads(text(call(wire, "raw", a=1)))["params"]["arguments"] == {"a": 1}


def test_answers_out_of_order_and_twice() -> None:
    with opened(reorder=3, duplicate=True) as wire:
        wire.receive()  # the second answer to initialize
        ids = [start_call(wire, "echo", n=n) for n in range(3)]
        assert [wire.receive()["id"] for _ in range(6)] == [*ids[::-1], *ids[::-1]]


def test_a_cancelled_call_gets_no_answer_or_a_late_one() -> None:
    with opened(tools=["sleep", "late"]) as wire:
        slow, late = start_call(wire, "sleep"), start_call(wire, "late")
        for request in (slow, late):
            wire.notify("notifications/cancelled", {"requestId": request})
        assert text(wire.response(late)) == "too late"
        wire.request("ping")
        assert wire.messages() == []


def test_progress_and_questions() -> None:
    with opened(tools=["progress", "ask"]) as wire:
        params = {"name": "progress", "_meta": {"progressToken": "t"}}
        assert "result" in wire.request("tools/call", params)
        seen = [wire.next_notification("notifications/progress")["params"] for _ in range(3)]
        assert [(each["progressToken"], each["progress"]) for each in seen] == [
            ("t", 1),
            ("t", 2),
            ("t", 3),
        ]
        asking = start_call(wire, "ask", method="roots/list")
        question = wire.next_request("roots/list")
        wire.answer(question, {"roots": []})
        assert json.loads(text(wire.response(asking)))["result"] == {"roots": []}


def test_lists_change() -> None:
    changed = "notifications/tools/list_changed"
    with opened(tools=["grow", "shrink"]) as wire:
        assert text(call(wire, "grow", name="new")) == "3 tools"
        wire.next_notification(changed)
        assert tool_names(wire) == ["grow", "shrink", "new"]
    with Wire(stub(tools=["a", "b"], needs={"b": "sampling"})) as wire:
        initialize(wire, capabilities={"sampling": {}})
        wire.next_notification(changed)
        assert tool_names(wire) == ["a", "b"]


def test_changes_when_a_file_appears(tmp_path: Path) -> None:
    go = tmp_path / "go"
    later = [{"wait_file": str(go)}, {"tools": ["b"]}, {"notify": "changed"}]
    with opened(at={"notifications/initialized": [{"background": later}]}) as wire:
        assert tool_names(wire) == ["echo"]
        go.touch()
        wire.next_notification("changed")
        assert tool_names(wire) == ["b"]


def test_death_and_first_time_only(tmp_path: Path) -> None:
    once = str(tmp_path / "once")
    options = {"tools": ["die"], "at": {"start": [{"exit": 3, "once": once}]}}
    with Wire(stub(**options)) as wire, pytest.raises(ClosedError, match="exit status 3"):
        wire.line()
    with opened(**options) as wire:
        start_call(wire, "die", stderr="goodbye\n")
        wire.wait_stderr("goodbye")
        assert wire.wait() == -signal.SIGKILL


def test_log_and_environment(tmp_path: Path) -> None:
    log, config = tmp_path / "log", tmp_path / "options.json"
    config.write_text(json.dumps({"log": str(log), "tools": ["env", "where"]}))
    with Wire([*STUB, f"@{config}", "$x"], env={"K": "v"}, cwd=tmp_path) as wire:
        initialize(wire)
        assert text(call(wire, "env", name="K")) == "v"
        assert call(wire, "env", name="NO")["result"]["isError"]
        report = json.loads(text(call(wire, "where")))
        assert (report["cwd"], report["argv"][1]) == (os.path.realpath(tmp_path), "$x")
        assert set(report["fds"]) == {"0", "1", "2"}
    assert len(events(log, "start")) == len(events(log, "eof")) == 1
    assert received(log)[0]["method"] == "initialize"


def test_close_leaves_nothing_running() -> None:
    stubborn = {"eof": [{"hang": True}]}
    with opened(tools=["spawn"], at=stubborn, sigterm="ignore") as wire:
        grandchild = int(text(call(wire, "spawn")))
        assert wire.family() == {wire.process.pid, grandchild}
        wire.signal(signal.SIGTERM)
        wire.request("ping")
        assert wire.close(grace=0.1) == -signal.SIGKILL
        wait_until(lambda: not wire.family())


def test_a_wait_that_fails_says_what_it_saw() -> None:
    script = "import sys; print('[1]', flush=True); print('why', file=sys.stderr); sys.exit(5)"
    with Wire([sys.executable, "-c", script]) as wire:
        assert wire.wait() == 5
        with pytest.raises(ClosedError, match=r"(?s)exit status 5.*\[1\].*why"):
            wire.response(1)
        assert wire.receive() == [1]
