"""Discovery against real processes: what is learnt, what is reported, and that nothing stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import IO, Any

import pytest
from clock import LIMIT, skipping
from remotes import HELLO, Remote, Request
from wire import STUB, TIMEOUT, Process, events, received, started, stub_entry

from mcpagg.passes.config import read_config
from mcpagg.passes.discovery import inquiry, probe
from mcpagg.passes.discovery.discovery import discover
from mcpagg.problems import ChildFault, Problem
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot

CHANGED = "notifications/tools/list_changed"


def survey(
    servers: Json, environ: Mapping[str, str] = os.environ, **options: Any
) -> tuple[Snapshot, tuple[Problem, ...]]:
    """Discover the servers of a config, given as {name: entry}."""
    text = json.dumps({"mcpServers": servers}).encode()
    spec, _ = read_config(text, source="mcp.json", folder=Path("/"), allow_secrets=True)
    allowed = options.pop("allow_failed", False)
    found = discover(spec, environ, **{"connect_timeout": TIMEOUT, **options})
    if found.failures and not allowed:
        raise ChildFault("mcp.json", found.failures)
    return found.snapshot, (*found.warnings, *found.failures)


def child(**options: Any) -> ChildSnapshot:
    """Discover one stub, which must give no cause for a warning."""
    snapshot, warnings = survey({"stub": stub_entry(**options)})
    assert warnings == ()
    return snapshot.children[0]


def names(snapshot: ChildSnapshot) -> list[str]:
    """Return the names of the tools, in order."""
    return [tool["name"] for tool in snapshot.tools]


def starts(log: Path) -> int:
    """Return how often a stub was started."""
    return len(events(log, "start"))


def assert_nothing_is_left(*logs: Path) -> None:
    """Fail if a process that stubs noted in their logs is alive."""
    noted = {row.get("child", row["pid"]) for log in logs for row in events(log, "spawn")}
    noted |= {row["pid"] for log in logs for row in events(log, "start")}
    assert noted
    assert not noted & {process.pid for process in Process.all()}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return where a stub may note what happens to it."""
    return tmp_path / "stub.log"


# What is learnt


def test_everything_that_a_child_says_is_kept() -> None:
    tool = {
        "name": "odd",
        "title": "Odd",
        "inputSchema": {"type": "object", "properties": {"n": {"const": 1.0}}},
        "annotations": {"readOnlyHint": True, "x-custom": [None]},
        "_meta": {"vendor/k": 12345678901234567890},
        "execution": {"taskSupport": "optional"},
        "x_future": {"a": [1, {"b": "ü\u2028"}]},
    }
    info = {"name": "n", "version": "1", "x": {"y": 1}}
    capabilities = {"tools": {"listChanged": False, "x": 1}, "prompts": {}, "vendor": {"z": [1]}}
    prompt = {"name": "p", "arguments": [{"name": "a", "x": 1}], "_meta": {"k": 1}}
    found = child(
        tools=[tool, "plain"],
        server_info=info,
        capabilities=capabilities,
        instructions="Do.",
        answers={"prompts/list": {"result": {"prompts": [prompt]}}},
    )
    assert found.prompts == (prompt,)
    assert found.tools[0] == tool
    assert names(found) == ["odd", "plain"]
    assert (found.info, found.capabilities) == (info, capabilities)
    assert (found.instructions, found.protocol) == ("Do.", "2025-11-25")
    assert found.conditional == frozenset()


def test_the_order_is_the_configs_not_that_of_arrival(log: Path) -> None:
    late = stub_entry(at={"initialize": [{"wait_file": str(log)}]}, tools=["late"])
    early = stub_entry(log=str(log), tools=["early"])
    snapshot, _ = survey({"late": late, "early": early})
    assert [names(found) for found in snapshot.children] == [["late"], ["early"]]


def test_each_child_is_started_once_and_asked_in_order(log: Path) -> None:
    child(log=str(log))
    first, second, third, last = received(log)
    assert first["method"] == "initialize"
    assert first["params"]["protocolVersion"] == "2025-11-25"
    assert first["params"]["capabilities"] == {
        "roots": {"listChanged": True},
        "sampling": {},
        "elicitation": {"form": {}, "url": {}},
        "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}},
    }
    assert first["params"]["clientInfo"]["name"] == "mcpagg"
    assert second["method"] == "notifications/initialized"
    assert third["method"] == "tools/list"
    assert last["method"] == "server/discover"
    assert starts(log) == 1
    assert_nothing_is_left(log)


@pytest.mark.parametrize("cursors", [None, ["", "b", "c"], ["x", "", "y"]])
def test_all_pages_are_read(cursors: list[str] | None) -> None:
    tools = [f"t{number}" for number in range(14)]
    assert names(child(tools=tools, page=4, cursors=cursors)) == tools


@pytest.mark.parametrize("cursor", ["x", ""])
def test_a_cursor_that_comes_again_ends_the_list(cursor: str, log: Path) -> None:
    entry = stub_entry(tools=["a", "b"], endless=cursor, log=str(log))
    snapshot, warnings = survey({"stub": entry})
    assert names(snapshot.children[0]) == ["a", "b"]
    assert [str(warning) for warning in warnings] == [
        f"mcpServers.stub: server 'stub' repeats the cursor {cursor!r} in tools/list; "
        "the list ends there"
    ]
    assert [message["method"] for message in received(log)].count("tools/list") == 2


def test_a_null_cursor_ends_the_list(log: Path) -> None:
    assert names(child(tools=["a"], endless=None, log=str(log))) == ["a"]
    assert [message["method"] for message in received(log)].count("tools/list") == 1


def test_a_list_may_be_longer_than_any_buffer(tmp_path: Path) -> None:
    more = {"description": "x" * 30_000, "inputSchema": {"type": "object"}}
    tools = [{"name": f"t{number}", **more} for number in range(10)]
    options = tmp_path / "options.json"
    options.write_text(json.dumps({"tools": tools}))
    snapshot, _ = survey({"stub": {"command": STUB[0], "args": [*STUB[1:], f"@{options}"]}})
    assert list(snapshot.children[0].tools) == tools


@pytest.mark.parametrize(
    "options",
    [
        {"newline": "\r\n"},
        {"envelope": "bare"},
        {"envelope": "spaced"},
        {"batch": True},
        {"chunk": 7},
        {"duplicate": True},
        {"strict": "exit"},
        {"at": {"initialize": [{"stdout": "\n\r\n \n\ufeff"}]}},
        {"at": {"start": [{"stderr": "noise\n", "fill": 300_000}]}},
        {"at": {"tools/list": [{"send": {"id": 999, "result": {}}}, {"notify": "what/ever"}]}},
    ],
)
def test_a_child_may_be_odd(options: Json) -> None:
    assert names(child(**options)) == ["echo"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Server started\n", '"Server started"'),
        ("\x1b]0;title\x07", '""'),
        ("Loading... ", '"Loading..."'),
    ],
)
@pytest.mark.parametrize("moment", ["initialize", "tools/list"])
def test_what_is_no_message_is_skipped_and_told(text: str, shown: str, moment: str) -> None:
    snapshot, warnings = survey({"stub": stub_entry(at={moment: [{"stdout": text}]})})
    assert names(snapshot.children[0]) == ["echo"]
    [warning] = warnings
    what = "writes something else than JSON-RPC to stdout"
    assert warning.what == f"server 'stub' {what}: {shown}"


def test_bytes_that_are_no_utf_8_are_replaced_and_told() -> None:
    tool = '{"name":"t","description":"caf\udce9"}'
    snapshot, [warning] = survey({"stub": stub_entry(tools=[tool])})
    assert snapshot.children[0].tools[0]["description"] == "caf\ufffd\ufffd\ufffd"
    assert "not UTF-8 at byte " in warning.what


def test_an_answer_without_an_id_ends_the_request_that_is_in_flight() -> None:
    lost = {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "broken"}}
    half = '{"jsonrpc":"2.0","id":'
    entry = stub_entry(
        capabilities={"tools": {}, "prompts": {}, "resources": {}},
        answers={"prompts/list": None, "resources/list": None},
        at={"prompts/list": [{"send": lost}], "resources/list": [{"stdout": f"{half}\n"}]},
    )
    snapshot, warnings = survey({"stub": entry})
    assert names(snapshot.children[0]) == ["echo"]
    assert [warning.what for warning in warnings][-2:] == [
        "server 'stub' answered prompts/list with error -32603: broken: taken for empty",
        "server 'stub' gave an answer that cannot be read: it ends too early, asked for "
        "resources/list: taken for empty",
    ]


def test_a_tool_without_a_name_is_left_out_and_told() -> None:
    snapshot, warnings = survey({"stub": stub_entry(tools=['{"description":"?"}', "good"])})
    assert names(snapshot.children[0]) == ["good"]
    assert [warning.where for warning in warnings] == ["mcpServers.stub"]
    assert "lists a tool without a name; it is left out" in warnings[0].what


def test_a_child_without_the_capability_is_not_asked_for_tools(log: Path) -> None:
    found = child(capabilities={"completions": {}}, log=str(log))
    assert (found.tools, found.capabilities) == ((), {"completions": {}})
    assert "tools/list" not in [message["method"] for message in received(log)]


def test_a_child_that_does_not_know_its_list_has_none_and_is_told() -> None:
    error = {"error": {"code": -32601, "message": "Method not found"}}
    snapshot, warnings = survey({"stub": stub_entry(answers={"tools/list": error})})
    assert snapshot.children[0].tools == ()
    assert "does not know tools/list" in warnings[0].what


def test_what_is_wrong_with_another_list_costs_no_tool_and_is_told(
    monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    monkeypatch.setattr(probe, "OTHERS", LIMIT)
    broken = {"error": {"code": -32603, "message": "broken"}}
    answers = {"prompts/list": broken, "resources/list": None, "resources/templates/list": "{}"}
    capabilities: Json = {"tools": {}, "prompts": {}, "resources": {}}
    entry = stub_entry(capabilities=capabilities, answers=answers, log=str(log))
    with skipping(log, ("resources/list", LIMIT)):
        snapshot, warnings = survey({"stub": entry}, connect_timeout=LIMIT)
    assert names(snapshot.children[0]) == ["echo"]
    assert [warning.what for warning in warnings] == [
        "server 'stub' answered prompts/list with error -32603: broken: taken for empty",
        f"server 'stub' did not answer resources/list within {LIMIT:g} s: taken for empty",
        "server 'stub' answered resources/templates/list with no list of resourceTemplates: "
        "taken for empty",
    ]


@pytest.mark.parametrize("answer", ["{}", "[]", {"error": {"code": -32603, "message": "broken"}}])
def test_a_list_of_tools_that_is_not_given_costs_only_itself(answer: Any) -> None:
    prompts = {"result": {"prompts": [{"name": "p"}]}}
    answers = {"tools/list": answer, "prompts/list": prompts}
    entry = stub_entry(capabilities={"tools": {}, "prompts": {}}, answers=answers)
    snapshot, warnings = survey({"stub": entry})
    assert (snapshot.children[0].tools, len(snapshot.children[0].prompts)) == ((), 1)
    [warning] = warnings
    assert warning.what.startswith("server 'stub' answered tools/list with ")
    assert warning.what.endswith(": taken for empty")
    del answers["prompts/list"]
    with pytest.raises(ChildFault, match="answered tools/list with "):
        survey({"stub": entry | stub_entry(answers=answers)})


def test_what_a_running_server_may_not_list_is_not_in_the_snapshot_either() -> None:
    twice = '{"name":"t","name":"bad:u"}'
    mended: Json = {"name": "mended", "title": None, "inputSchema": {}}
    tools = ["good", twice, '{"name":"odd","inputSchema":{"maximum":NaN}}', mended, "good"]
    snapshot, warnings = survey({"stub": stub_entry(tools=tools, prompts=["p", {"name": 5}])})
    [stub] = snapshot.children
    assert names(stub) == ["good", "mended"]
    assert stub.tools[1] == {"name": "mended", "inputSchema": {"type": "object"}}
    assert [warning.what for warning in warnings] == [
        "server 'stub' lists the tool 'good' more than once; the first one counts"
    ]
    assert stub.refused == (
        ("tool", "bad:u", "", "a member that stands twice", "it is left out"),
        ("tool", "odd", "", "a number that no double holds", "it is left out"),
        ("tool", "mended", "/title", "null", "that is left out"),
        ("tool", "mended", "/inputSchema/type", "nothing", '"object" is written there'),
    )


def test_requests_of_a_child_are_answered(log: Path) -> None:
    asked = ["ping", "roots/list", "elicitation/create", "sampling/createMessage", "what/ever"]
    child(log=str(log), at={"notifications/initialized": [{"ask": method} for method in asked]})
    answers = {row["id"]: row for row in received(log) if "method" not in row}
    assert [answers[number].get("result") for number in range(3)] == [
        {},
        {"roots": []},
        {"action": "cancel"},
    ]
    assert [answers[number]["error"]["code"] for number in (3, 4)] == [-1, -32601]


# Lists that move


def test_tools_that_need_a_capability_are_known_after_a_second_start(log: Path) -> None:
    needs = {"ask": "sampling", "pick": "elicitation"}
    found = child(tools=["echo", "ask", "pick"], needs=needs, log=str(log))
    assert names(found) == ["echo", "ask", "pick"]
    assert found.conditional == {"ask", "pick"}
    shaken = [row["params"] for row in received(log) if row.get("method") == "initialize"]
    assert [bool(params["capabilities"]) for params in shaken] == [True, False]
    assert_nothing_is_left(log)


@pytest.mark.parametrize("first", [[], ["a"]])
def test_a_list_that_is_late_is_waited_for(
    first: list[str], log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, patience in ((inquiry, "HINT"), (inquiry, "LONGEST"), (probe, "LONGEST")):
        monkeypatch.setattr(module, patience, LIMIT)
    late = [{"sleep": 0.1}, {"tools": ["a", "b", "c"]}, {"notify": CHANGED}]
    steps = {"after notifications/initialized": [{"background": late}]}
    # The second start is given as long as the list took to come to rest in the first.
    entry = stub_entry(tools=first, at=steps, log=str(log))
    with skipping(log, ("tools/list", LIMIT / 4)):
        snapshot, warnings = survey({"stub": entry}, connect_timeout=LIMIT)
    assert (names(snapshot.children[0]), warnings) == (["a", "b", "c"], ())
    assert snapshot.children[0].conditional == frozenset()


def test_an_empty_list_is_told() -> None:
    snapshot, warnings = survey({"stub": stub_entry(tools=[])})
    assert snapshot.children[0].tools == ()
    assert [warning.what for warning in warnings] == ["server 'stub' lists no tools"]


@pytest.mark.parametrize("moment", ["tools/list", "after tools/list"])
def test_a_child_that_announces_a_change_at_each_reading_is_not_read_for_ever(
    moment: str, log: Path
) -> None:
    assert names(child(log=str(log), at={moment: [{"notify": CHANGED}]})) == ["echo"]
    readings = [row for row in received(log) if row.get("method") == "tools/list"]
    assert len(readings) <= 2 * starts(log)


def test_a_flood_of_changes_is_not_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "QUIET", LIMIT)
    endless = [{"notify": CHANGED, "times": 1000}, {"notify": CHANGED, "times": 99, "every": 0.3}]
    steps = {"after notifications/initialized": [{"background": endless}]}
    assert names(child(at=steps)) == ["echo"]


# Versions


@pytest.mark.parametrize(
    ("refuse", "newest", "tries"),
    [("error", "2025-06-18", 2), ("error", "2024-11-05", 4), ("exit", "2025-03-26", 3)],
)
def test_a_child_that_refuses_is_asked_in_older_versions(
    refuse: str, newest: str, tries: int, log: Path
) -> None:
    assert child(newest=newest, refuse=refuse, log=str(log)).protocol == newest
    assert starts(log) == tries
    assert [row["method"] for row in received(log)].count("initialize") == tries
    assert_nothing_is_left(log)


def test_a_child_that_hangs_over_a_version_is_asked_in_an_older_one(log: Path) -> None:
    talk = [{"stderr": "server started\n"}]
    entry = stub_entry(newest="2025-06-18", refuse="hang", log=str(log), at={"start": talk})
    with skipping(log, ("initialize", LIMIT * 3 / 4)):
        snapshot, _ = survey({"stub": entry}, connect_timeout=LIMIT)
    assert snapshot.children[0].protocol == "2025-06-18"
    assert_nothing_is_left(log)


def test_a_child_that_dies_naming_the_protocol_is_asked_in_an_older_version(log: Path) -> None:
    panic = {"stderr": "panicked: unsupported protocol version\n"}
    once = str(log.with_suffix(".once"))
    steps = [{**panic, "once": once}, {"exit": 1, "once": once + "2"}]
    assert child(log=str(log), at={"initialize": steps}).protocol == "2025-06-18"


def test_an_older_version_is_accepted_as_the_answer(log: Path) -> None:
    assert child(newest="2024-11-05", refuse="answer", log=str(log)).protocol == "2024-11-05"
    assert starts(log) == 1


def test_an_unknown_version_is_refused(log: Path) -> None:
    with pytest.raises(ChildFault, match="speaks protocol version '1999-01-01'"):
        survey({"stub": stub_entry(version="1999-01-01", log=str(log))})
    assert starts(log) == 1


# Failures


def test_all_failures_are_reported_at_once_and_nothing_is_left(tmp_path: Path) -> None:
    logs = {name: tmp_path / name for name in ("exits", "killed", "good", "errs")}
    steps = {
        "exits": [{"stderr": "line 1\nline 2\n"}, {"exit": 3}],
        "killed": [{"kill": signal.SIGKILL}],
        "good": [],
        "errs": [],
    }
    error = {"tools/list": {"error": {"code": -32603, "message": "broken"}}}
    servers = {
        name: stub_entry(
            log=str(logs[name]),
            at={"initialize": steps[name]},
            answers=error if name == "errs" else {},
        )
        for name in logs
    }
    servers["missing"] = {"command": "no-such-command"}
    servers["homeless"] = {**servers["good"], "cwd": "/no/such/folder"}
    with pytest.raises(ChildFault) as caught:
        survey(servers)
    assert caught.value.exit_code == 4
    assert {problem.where: problem.what for problem in caught.value.problems} == {
        "mcpServers.exits": "server 'exits' exited with status 3 before it answered initialize; "
        "the end of its stderr:\n    line 1\n    line 2",
        "mcpServers.killed": "server 'killed' was killed by SIGKILL before it answered initialize",
        "mcpServers.errs": "server 'errs' answered tools/list with error -32603: broken",
        "mcpServers.missing": "server 'missing' could not be started: "
        "No such file or directory: 'no-such-command'",
        "mcpServers.homeless": "server 'homeless' could not be started: "
        "No such file or directory: '/no/such/folder'",
    }
    assert [starts(log) for log in logs.values()] == [1, 1, 1, 1]
    assert_nothing_is_left(*logs.values())


def test_failures_may_be_allowed() -> None:
    servers = {
        "bad": stub_entry(at={"start": [{"stderr": "no"}, {"exit": 1}]}),
        "good": stub_entry(),
    }
    told: list[tuple[str, str]] = []
    snapshot, warnings = survey(
        servers, allow_failed=True, progress=lambda *step: told.append(step)
    )
    assert [found.name for found in snapshot.children] == ["good"]
    assert snapshot.failed == ("bad",)
    assert [warning.where for warning in warnings] == ["mcpServers.bad"]
    told_of = {name: text.partition(",")[0] for name, text in told}
    assert told_of == {"bad": "failed", "good": "1 tool"}


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
def test_a_silent_child_is_not_waited_for_for_ever(method: str, log: Path) -> None:
    # More than a pipe holds: what is quoted was read before the server could read its input.
    words = {"start": [{"stderr": "hm\n", "fill": 300_000}]}
    silent = stub_entry(answers={method: None}, log=str(log), at=words)
    with pytest.raises(ChildFault) as caught, skipping(log, (method, LIMIT)):
        survey({"stub": silent}, connect_timeout=LIMIT)
    assert f"did not answer {method} within {LIMIT:g} s" in str(caught.value)
    hint = "is it still installing, or does it buffer its output?"
    assert (hint in str(caught.value)) == (method == "initialize")
    assert "the end of its stderr:\n    hm\n" in str(caught.value)
    assert_nothing_is_left(log)


@pytest.mark.parametrize("how", ["well", "error", "silence"])
def test_the_input_of_a_child_is_ended_first_whatever_became_of_it(how: str, log: Path) -> None:
    answers = {"well": {}, "error": {"tools/list": {"error": {}}}, "silence": {"tools/list": None}}
    entry = stub_entry(answers=answers[how], log=str(log))
    with suppress(ChildFault), skipping(log, ("tools/list", LIMIT if how == "silence" else 0)):
        survey({"stub": entry}, connect_timeout=LIMIT)
    assert len(events(log, "eof")) == starts(log) == 1


def test_an_answer_with_an_id_that_was_never_asked_is_told_at_once() -> None:
    line = '{"jsonrpc":"2.0","id":0,"result":{}}\n'
    entry = stub_entry(answers={"initialize": None}, at={"initialize": [{"stdout": line}]})
    with pytest.raises(ChildFault, match="gave an answer with the id 0, which no request has had"):
        survey({"stub": entry})


@pytest.mark.parametrize(
    "answer",
    [
        '"id":null,"error":{"code":-32601,"message":"unknown: notifications/initialized"}',
        '"id":0,"error":{"code":-32601,"message":"Method not found"}',
        '"id":null,"result":{}',
        '"result":null',
    ],
)
def test_an_answer_to_a_notification_is_to_no_request(answer: str) -> None:
    line = f'{{"jsonrpc":"2.0",{answer}}}\n'
    assert names(child(at={"notifications/initialized": [{"stdout": line}]})) == ["echo"]


def test_messages_behind_headers_are_read_and_the_headers_told() -> None:
    """As servers of another protocol, that of editors, write them."""
    head = [{"stdout": "Content-Length: 90\r\n\r\n"}]
    snapshot, warnings = survey({"stub": stub_entry(at={"initialize": head, "tools/list": head})})
    assert (names(snapshot.children[0]), len(warnings)) == (["echo"], 1)
    gone = stub_entry(at={"initialize": [*head, {"exit": 1}]})
    with pytest.raises(ChildFault, match='else than JSON-RPC to stdout: "Content-Length: 90"'):
        survey({"stub": gone})


@pytest.fixture
def short_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have discovery end at once what does not end by itself."""
    for grace in ("STDIN_GRACE", "SIGTERM_GRACE", "PIPE_GRACE"):
        monkeypatch.setattr(f"mcpagg_runtime.processes.process.{grace}_SECONDS", 0.1)


@pytest.mark.usefixtures("short_graces")
def test_a_child_that_reads_nothing_is_not_waited_for_for_ever() -> None:
    deaf = stub_entry(at={"start": [{"hang": 1}]}, sigterm="ignore")
    with pytest.raises(ChildFault, match=r"did not answer initialize within 0\.5 s"):
        survey({"stub": deaf}, connect_timeout=0.5)


@pytest.mark.usefixtures("short_graces")  # it hangs at each try
def test_a_child_that_closes_its_output_is_given_up() -> None:
    closed = [{"close": 1}, {"hang": 1}]
    with pytest.raises(ChildFault, match="closed its standard output before it answered init"):
        survey({"stub": stub_entry(at={"initialize": closed})})


@pytest.mark.usefixtures("short_graces")
def test_grandchildren_end_too_also_those_that_hold_the_pipes(tmp_path: Path) -> None:
    well, dead = tmp_path / "well", tmp_path / "dead"
    spawn: Json = {"spawn": 1}
    servers = {
        "well": stub_entry(log=str(well), at={"initialize": [spawn]}),
        "dead": stub_entry(
            log=str(dead), at={"initialize": [spawn, {"stderr": "bye\n"}, {"exit": 4}]}
        ),
    }
    with pytest.raises(ChildFault, match="'dead' exited with status 4"):
        survey(servers)
    assert len(events(well, "spawn")) == len(events(dead, "spawn")) == 1
    assert_nothing_is_left(well, dead)


def test_only_the_end_of_stderr_is_shown_and_no_control_character() -> None:
    text = "".join(f"line {number}\n" for number in range(5000)) + "\x1b[31mred\x1b[0m\x07\n\n"
    with pytest.raises(ChildFault) as caught:
        survey({"stub": stub_entry(at={"start": [{"stderr": text}, {"exit": 1}]})})
    quoted = str(caught.value).splitlines()[1:]
    assert quoted == [*(f"    line {number}" for number in range(4991, 5000)), "    red?"]


def test_no_secret_is_shown() -> None:
    environ = {**os.environ, "T": "SENTINEL"}
    leak = [{"stderr": "token SENTINEL refused\n"}, {"exit": 1}]
    noisy = [{"stdout": "SENTINEL\n"}]
    refusal = {"initialize": {"error": {"code": -32602, "message": "bad SENTINEL"}}}
    servers = {
        "dies": stub_entry(at={"start": leak}),
        "refuses": stub_entry(answers=refusal),
        "noisy": stub_entry(at={"start": noisy}),
        "missing": {"command": "${T}"},
        "remote": {"type": "http", "url": "http://127.0.0.1:9/${T}"},
    }
    for entry in servers.values():
        entry["env"] = {"TOKEN": "${T}"}
    told: list[str] = []
    _, warnings = survey(
        servers, environ, allow_failed=True, progress=lambda _, text: told.append(text)
    )
    assert len(warnings) == 5
    assert "SENTINEL" not in "".join([*told, *map(str, warnings)])
    assert any("token ${T} refused" in str(warning) for warning in warnings)


# Interruption

SCRIPT = """
import json, os, sys
from pathlib import Path
from mcpagg.passes.config import read_config
from mcpagg.passes.discovery import inquiry, probe
from mcpagg.passes.discovery.discovery import discover
spec, _ = read_config(sys.argv[1].encode(), source="-", folder=Path("/"), allow_secrets=True)
discover(spec, os.environ)
"""


def interrupted(servers: Json) -> AbstractContextManager[subprocess.Popen[str]]:
    """Start a process that discovers servers."""
    argv = [sys.executable, "-c", SCRIPT, json.dumps({"mcpServers": servers})]
    return started(argv, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def news(tmp_path: Path) -> Iterator[IO[str]]:
    """Return a pipe that stubs use as their log: reading it waits for the next event."""
    path = tmp_path / "news"
    os.mkfifo(path)
    # Opened for both, it has no end, and neither side waits for the other.
    with os.fdopen(os.open(path, os.O_RDWR), encoding="utf-8") as pipe:
        yield pipe


def awaited(news: IO[str], event: str) -> Json:
    """Read until an event of this kind comes."""
    while (row := json.loads(news.readline()))["event"] != event:
        pass
    found: Json = row
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_ends_all_children(
    number: signal.Signals, news: IO[str], tmp_path: Path
) -> None:
    entry = stub_entry(log=str(tmp_path / "news"), answers={"initialize": None})
    with interrupted({"stub": entry}) as process:
        pid = awaited(news, "line")["pid"]
        process.send_signal(number)
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == -number
    assert pid not in {one.pid for one in Process.all()}


def test_a_second_ctrl_c_ends_stubborn_children_at_once(news: IO[str], tmp_path: Path) -> None:
    entry = stub_entry(
        log=str(tmp_path / "news"),
        at={"initialize": [{"spawn": 1}], "eof": [{"hang": 1}]},
        answers={"initialize": None},
        sigterm="ignore",
    )
    with interrupted({"stub": entry}) as process:
        first = awaited(news, "spawn")
        process.send_signal(signal.SIGINT)
        awaited(news, "eof")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == -signal.SIGINT
    assert not {first["pid"], first["child"]} & {one.pid for one in Process.all()}


def test_nothing_else_reaches_stderr() -> None:
    odd = [{"stdout": "no json\n[1]\n{}\n"}, {"notify": "what/ever"}, {"ask": "what/ever"}]
    entry = stub_entry(at={"initialize": odd, "after tools/list": odd})
    with interrupted({"stub": entry}) as process:
        _, errors = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, errors) == (0, "")


def test_what_is_remarked_of_a_server_passes_for_no_line_of_ours() -> None:
    def behave(request: Request) -> None:
        """Give a list of prompts that is an error with hidden characters, over several lines."""
        able: Json = {"tools": {}, "prompts": {}}
        if request.method == "initialize":
            request.result({**HELLO, "capabilities": able})
        elif request.method == "tools/list":
            request.result({"tools": []})
        elif request.method == "prompts/list":
            error = '{"code":-1,\n"message":"\x9b\u202e"}'
            text = f'{{"jsonrpc":"2.0","id":{request.id},"error":{error}}}'
            request.reply(200, text, "application/json")

    with Remote(behave) as server:
        _, warnings = survey({"stub": {"url": server.url}})
    assert "answered prompts/list with error -1: ??" in warnings[0].what
    assert all(str(warning).isprintable() for warning in warnings)
