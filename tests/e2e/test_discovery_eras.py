"""How each child's era is found, and what is then learnt of a modern one; real processes."""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from clock import LIMIT, skipping
from proxies import compiled
from remotes import Remote, Request
from wire import (
    ENVELOPE,
    MODERN,
    MODERN_STUB,
    TIMEOUT,
    Process,
    events,
    modern_entry,
    received,
    stub_entry,
)

from mcpagg.command.cli import main
from mcpagg.passes.config import read_config
from mcpagg.passes.discovery.discovery import discover
from mcpagg.passes.discovery.inquiry import RELAYED
from mcpagg.passes.discovery.probe import MODERN_SECONDS, UNSPOKEN
from mcpagg.passes.emission.recorded import read_contents
from mcpagg.problems import ChildFault, Problem
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot

SERVERS = Path(__file__).parents[1] / "servers"
LEGACY = "2025-11-25"


def survey(servers: Json, connect_timeout: float = TIMEOUT) -> tuple[Snapshot, tuple[Problem, ...]]:
    """Discover the servers of a config, given as {name: entry}."""
    text = json.dumps({"mcpServers": servers}).encode()
    spec, _ = read_config(text, source="mcp.json", folder=Path("/"), allow_secrets=True)
    found = discover(spec, os.environ, connect_timeout=connect_timeout)
    if found.failures:
        raise ChildFault("mcp.json", found.failures)
    return found.snapshot, found.warnings


def child(**options: Any) -> ChildSnapshot:
    """Discover one modern stub, which must give no cause for a warning."""
    snapshot, warnings = survey({"stub": modern_entry(**options)})
    assert warnings == ()
    return snapshot.children[0]


def both_entry(shows: str = "refusal", **options: Any) -> Json:
    """Return the config entry of a server that speaks both eras; see `servers/both.py`."""
    script = str(SERVERS / "both.py")
    given = json.dumps({"shows": shows, **options})
    return {"command": MODERN_STUB[0], "args": [*MODERN_STUB[1:-1], script, given]}


def recorded_era(shows: str = "refusal", **options: Any) -> tuple[ChildSnapshot, list[str]]:
    """Discover a server that speaks both eras; return what is recorded, and the warnings."""
    snapshot, warnings = survey({"both": both_entry(shows, **options)})
    return snapshot.children[0], [warning.what for warning in warnings]


def fault(entry: Json, connect_timeout: float = TIMEOUT) -> str:
    """Discover a server in vain; return what is said of it."""
    with pytest.raises(ChildFault) as caught:
        survey({"stub": entry}, connect_timeout)
    (problem,) = caught.value.problems
    return problem.what


def names(snapshot: ChildSnapshot) -> list[str]:
    """Return the names of the tools, in order."""
    return [tool["name"] for tool in snapshot.tools]


def asked(log: Path) -> list[str]:
    """Return the methods that a stub received, over all its processes."""
    return [message["method"] for message in received(log)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return where a stub may note what happens to it."""
    return tmp_path / "stub.log"


# How the era is found


@pytest.mark.parametrize(
    ("how", "tries"), [("error", 1), ("unknown", 1), ("exit", 4), ("silent", 4)]
)
def test_a_modern_child_is_asked_without_a_handshake(how: str, tries: int, log: Path) -> None:
    entry = modern_entry(initialize=how, log=str(log))
    # The first try gets three quarters of the limit, each later one a sixteenth at most.
    shares = [LIMIT * 3 / 4, *[LIMIT / 16] * 3]
    silence = skipping(log, *[("initialize", share) for share in shares])
    with silence if how == "silent" else nullcontext():
        snapshot, warnings = survey({"stub": entry}, LIMIT)
    (found,) = snapshot.children
    assert (found.protocol, names(found), warnings) == (MODERN, ["echo"], ())
    # One that refuses by the code of the revision may have refused the envelope alone.
    again = how == "error"
    assert asked(log)[:-2] == ["initialize"] * (tries + again)
    assert asked(log)[-2:] == ["server/discover", "tools/list"]
    pids = [row["pid"] for row in events(log, "start")]
    assert len(pids) == len(set(pids)) == tries + 1
    assert not set(pids) & {process.pid for process in Process.all()}
    assert events(log, "fault") == []


def test_a_child_that_dies_asking_for_the_modern_way_gets_it(log: Path) -> None:
    words = [{"stderr": "error: expected server/discover\n"}, {"exit": 1}]
    assert child(at={"initialize": words}, log=str(log)).protocol == MODERN
    assert asked(log) == [*["initialize"] * 4, "server/discover", "tools/list"]


@pytest.mark.parametrize(
    "error",
    [
        {"code": -32602, "message": "Unsupported", "data": {"supported": [MODERN]}},
        {"code": -32600, "message": f"This server speaks {MODERN}"},
        {"code": -32600, "message": "Begin with server/discover"},
        {"code": -32602, "message": "_meta lacks io.modelcontextprotocol/protocolVersion"},
    ],
)
def test_an_error_that_names_the_modern_way_is_enough(error: Json, log: Path) -> None:
    assert child(answers={"initialize": {"error": error}}, log=str(log)).protocol == MODERN
    assert asked(log)[-2:] == ["server/discover", "tools/list"]
    assert {*asked(log)[:-2]} == {"initialize"}
    assert len(events(log, "start")) == 2


def test_a_handshake_answered_in_a_modern_version_is_none(log: Path) -> None:
    answer = {"protocolVersion": MODERN, "capabilities": {}}
    assert child(answers={"initialize": {"result": answer}}, log=str(log)).protocol == MODERN
    assert asked(log) == ["initialize", "server/discover", "tools/list"]


def test_a_server_of_the_sdk_is_recorded_in_both_eras() -> None:
    entry = {"command": sys.executable, "args": [str(SERVERS / "lowlevel.py")]}
    snapshot, warnings = survey({"sdk": entry})
    (found,) = snapshot.children
    assert (found.protocols, names(found), warnings) == ((MODERN, LEGACY), ["add"], ())
    assert found.hints == {"ttlMs": 0, "cacheScope": "private"}


@pytest.mark.parametrize("shows", ["refusal", "answer"])
def test_one_that_shows_that_it_speaks_both_is_asked_in_both(shows: str, log: Path) -> None:
    found, warnings = recorded_era(
        shows, log=str(log), legacy={"capabilities": {"tools": {}, "logging": {}}}
    )
    assert asked(log) == [
        *("initialize", "notifications/initialized", "tools/list", "server/discover"),
        *("server/discover", "tools/list"),
    ]
    pids = [row["pid"] for row in events(log)]
    assert len({*pids[:4]}) == len({*pids[4:]}) == 1
    assert pids[0] != pids[4]
    assert not {*pids} & {process.pid for process in Process.all()}
    assert (found.protocol, names(found), found.info["name"]) == (MODERN, ["echo"], "modern")
    capabilities: Json = {"tools": {}, "logging": {}}
    assert found.handshake == {"protocolVersion": LEGACY, "capabilities": capabilities}
    assert (found.hints, warnings) == ({"ttlMs": 60_000, "cacheScope": "public"}, [])


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32601, "message": "Method not found: server/discover"}},
        {"error": {"code": -32601, "message": f"What is server/discover of {MODERN}?"}},
        {"error": {"code": -32602, "message": "Unknown method"}},
        {"result": {}},
        {"result": {"supportedVersions": ["2027-05-01"]}},
    ],
)
def test_a_legacy_server_is_started_once(answer: Json, log: Path) -> None:
    snapshot, warnings = survey(
        {"stub": stub_entry(answers={"server/discover": answer}, log=str(log))}
    )
    assert (snapshot.children[0].protocols, warnings) == ((LEGACY,), ())
    assert asked(log)[-1] == "server/discover"
    assert len(events(log, "start")) == 1


def test_one_that_dies_of_the_question_has_lost_nothing(log: Path) -> None:
    entry = stub_entry(at={"server/discover": [{"exit": 3}]}, log=str(log))
    snapshot, warnings = survey({"stub": entry})
    assert (snapshot.children[0].protocols, names(snapshot.children[0])) == ((LEGACY,), ["echo"])
    assert (warnings, len(events(log, "start"))) == ((), 1)


def test_one_that_leaves_the_question_open_is_waited_for_a_second(log: Path) -> None:
    entry = stub_entry(answers={"server/discover": None}, log=str(log))
    with skipping(log, ("server/discover", MODERN_SECONDS)):
        snapshot, _ = survey({"stub": entry})
    assert snapshot.children[0].protocols == (LEGACY,)


@pytest.mark.parametrize(
    "modern",
    [
        {"versions": ["2027-05-01"]},
        {"answers": {"server/discover": {"error": {"code": -32603, "message": "broken"}}}},
        {"at": {"server/discover": [{"exit": 1}]}},
        {"answers": {"tools/list": {"error": {"code": -32603, "message": "broken"}}}},
    ],
)
def test_what_fails_without_a_handshake_is_legacy(modern: Json) -> None:
    found, warnings = recorded_era(modern=modern)
    assert (found.protocols, names(found), warnings) == ((LEGACY,), ["echo"], [])


@pytest.mark.parametrize("status", [200, 400, 404, 500])
def test_one_behind_a_url_is_asked_without_a_session(status: int) -> None:
    def behave(request: Request) -> None:
        if request.method == "server/discover" and status != 200:
            request.error(status, -32600, "Missing session")
        if request.method == "tools/list":
            request.result({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})

    with Remote(behave) as server:
        snapshot, warnings = survey({"remote": {"type": "http", "url": server.url}})
    versions = (MODERN, LEGACY) if status == 200 else (LEGACY,)
    assert (snapshot.children[0].protocols, warnings) == (versions, ())
    [hello], [question] = server.of("initialize"), server.of("server/discover")
    assert "_meta" not in hello.message["params"]
    assert "mcp-session-id" not in question.headers
    assert question.headers["mcp-protocol-version"] == MODERN


def test_lists_that_differ_are_served_in_one_era() -> None:
    found, warnings = recorded_era(modern={"tools": ["echo", "more"]})
    assert (found.protocols, names(found), warnings) == ((MODERN,), ["echo", "more"], [])
    found, warnings = recorded_era(legacy={"tools": ["echo", "more"]})
    assert (found.protocols, names(found)) == ((LEGACY,), ["echo", "more"])
    assert warnings == [
        "server 'both' lists the tool 'more' only after a handshake, so all clients are served "
        f"in {LEGACY} alone"
    ]


def test_both_eras_are_in_the_file_and_come_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = compiled(tmp_path, {"both": both_entry(legacy={"capabilities": {"tools": {}}})})
    (found,) = read_contents(file).snapshot.children
    assert found.protocols == (MODERN, LEGACY)
    assert found.handshake["capabilities"] == {"tools": {}}
    before = file.read_bytes()
    for again in (["--offline"], ["--refresh", "both"]):
        assert main([*again, "-q", "-o", str(file)]) == 0
        assert file.read_bytes() == before
    assert main(["--check", "-q", "-o", str(file)]) == 0
    assert capsys.readouterr() == ("", "")


def test_one_that_also_knows_a_handshake_is_asked_in_all_of_them(log: Path) -> None:
    error = {"code": -32022, "message": "", "data": {"supported": [MODERN, "2025-06-18"]}}
    assert child(answers={"initialize": {"error": error}}, log=str(log)).protocol == MODERN
    assert asked(log)[:-1] == ["initialize"] * 5 + ["server/discover"]


def test_one_that_goes_by_its_first_message_is_asked_in_both(log: Path) -> None:
    found, warnings = recorded_era("opening", log=str(log))
    assert (found.protocols, names(found), warnings) == ((MODERN, LEGACY), ["echo"], [])
    assert asked(log) == [
        *("initialize", "initialize", "notifications/initialized", "tools/list"),
        *("server/discover", "tools/list"),
    ]
    assert len({row["pid"] for row in events(log)}) == 2
    claimed, plain = (message["params"] for message in received(log)[:2])
    assert claimed.pop("_meta")[ENVELOPE["protocolVersion"]] == UNSPOKEN
    assert claimed == plain


def test_a_child_that_exits_on_an_unknown_message_is_unharmed(log: Path) -> None:
    snapshot, warnings = survey({"stub": stub_entry(strict="exit", log=str(log))})
    assert (snapshot.children[0].protocol, warnings) == ("2025-11-25", ())
    assert len(events(log, "start")) == 1


def test_a_child_that_is_simply_broken_is_started_once(log: Path) -> None:
    entry = modern_entry(log=str(log), at={"start": [{"stderr": "no database\n"}, {"exit": 1}]})
    assert "exited with status 1 before it answered initialize" in fault(entry)
    assert len(events(log, "start")) == 1


# What is said when no era fits


def test_a_version_to_come_is_named(log: Path) -> None:
    entry = modern_entry(versions=["2027-05-01", "2028-01-01"], log=str(log))
    assert fault(entry) == (
        "server 'stub' speaks protocol versions '2027-05-01', '2028-01-01', "
        f"and not one of {MODERN}"
    )
    assert asked(log) == ["initialize", "initialize", "server/discover"]


@pytest.mark.parametrize("how", ["error", "exit"])
def test_a_discovery_that_lists_no_known_version_is_a_fault(how: str) -> None:
    answers: Json = {"server/discover": {"result": {"supportedVersions": ["2027-05-01"]}}}
    what = fault(modern_entry(initialize=how, answers=answers))
    assert what == f"server 'stub' speaks protocol version '2027-05-01', and not one of {MODERN}"
    answers["server/discover"]["result"].clear()
    what = fault(modern_entry(initialize=how, answers=answers))
    assert what == "server 'stub' names no protocol version that it speaks"


def test_of_a_legacy_child_the_first_refusal_is_told(log: Path) -> None:
    error = {"code": -32602, "message": "No client is good enough"}
    entry = stub_entry(answers={"initialize": {"error": error}}, log=str(log))
    assert fault(entry).endswith("answered initialize with error -32602: No client is good enough")
    assert asked(log) == ["initialize"] * 4 + ["server/discover"]


def test_a_server_that_is_none_is_asked_twice(log: Path) -> None:
    error = {"code": -32601, "message": "What?"}
    entry = stub_entry(answers={"initialize": {"error": error}}, log=str(log))
    assert fault(entry).endswith("answered initialize with error -32601: What?")
    assert asked(log) == ["initialize", "server/discover"]


def test_of_a_modern_child_what_it_said_last_is_told(log: Path) -> None:
    error = {"code": -32603, "message": "broken"}
    entry = modern_entry(answers={"server/discover": {"error": error}})
    assert fault(entry) == "server 'stub' answered server/discover with error -32603: broken"
    entry = modern_entry(answers={"server/discover": None}, log=str(log))
    with skipping(log, ("server/discover", LIMIT)):
        what = fault(entry, LIMIT)
    assert f"did not answer server/discover within {LIMIT:g} s" in what
    assert asked(log) == ["initialize", "initialize", "server/discover"]


# What is learnt


def test_everything_that_a_modern_child_says_is_kept() -> None:
    more = {"x_future": {"a": [1.0]}, "_meta": {"v/k": 1}}
    tool = {"name": "odd", "inputSchema": {"type": "object"}, **more}
    info = {"name": "n", "version": "1", "x": {"y": 1}}
    capabilities = {
        "tools": {"x": 1},
        "prompts": {},
        "resources": {"subscribe": True},
        "extensions": {"com.example/a": {"b": 1}},
    }
    found = child(
        tools=[tool, *"abc"],
        page=2,
        prompts=["p"],
        resources=["r://1"],
        templates=["r://{x}"],
        server_info=info,
        capabilities=capabilities,
        instructions="Do.",
    )
    assert found.tools[0] == tool
    assert names(found) == ["odd", "a", "b", "c"]
    assert (found.info, found.capabilities, found.instructions) == (info, capabilities, "Do.")
    assert found.prompts == ({"name": "p"},)
    assert found.resources == ({"uri": "r://1", "name": "r://1"},)
    assert found.templates == ({"uriTemplate": "r://{x}", "name": "r://{x}"},)
    assert found.conditional == frozenset()
    assert found.hints == {"ttlMs": 60_000, "cacheScope": "public"}


def test_every_request_carries_its_envelope(log: Path) -> None:
    child(log=str(log), tools=["a", "b"], page=1, prompts=["p"])
    first, plain, *rest = received(log)
    assert first["params"]["_meta"][ENVELOPE["protocolVersion"]] == UNSPOKEN
    assert "_meta" not in plain["params"]
    for message in rest:
        meta = message["params"]["_meta"]
        assert meta.pop(ENVELOPE["clientInfo"])["name"] == "mcpagg"
        assert meta == {
            ENVELOPE["protocolVersion"]: MODERN,
            ENVELOPE["clientCapabilities"]: RELAYED,
        }
    assert [message["params"].get("cursor") for message in rest[1:3]] == [None, "1"]


def test_an_empty_modern_list_is_told_and_not_waited_for() -> None:
    snapshot, warnings = survey({"stub": modern_entry(tools=[])})
    assert snapshot.children[0].tools == ()
    assert [warning.what for warning in warnings] == ["server 'stub' lists no tools"]


@pytest.mark.parametrize(
    ("options", "hints"),
    [
        ({"hints": {}}, {}),
        ({"hints": {"ttlMs": -1, "cacheScope": "mine"}}, {}),
        ({"hints": {"ttlMs": 0}}, {"ttlMs": 0}),
        (
            {"hints_of": {"server/discover": {"ttlMs": 5}}},
            {"ttlMs": 60_000, "cacheScope": "public"},
        ),
        (
            {"hints_of": {"prompts/list": {"ttlMs": 5, "cacheScope": "private"}}},
            {"ttlMs": 5, "cacheScope": "private"},
        ),
        (
            {"hints_of": {"tools/list": {"ttlMs": 70_000, "cacheScope": "private"}}},
            {"ttlMs": 60_000, "cacheScope": "private"},
        ),
    ],
)
def test_the_most_careful_hints_of_all_lists_are_kept(options: Json, hints: Json) -> None:
    assert child(prompts=["p"], **options).hints == hints


# In the emitted file


@pytest.fixture
def options(tmp_path: Path) -> Path:
    """Return the file that holds the options of the stub of `file`."""
    path = tmp_path / "options.json"
    path.write_text(json.dumps({"tools": ["a"]}))
    return path


@pytest.fixture
def file(tmp_path: Path, options: Path) -> Path:
    """Return a proxy for one modern and one legacy child."""
    entry = {"command": MODERN_STUB[0], "args": [*MODERN_STUB[1:], f"@{options}"]}
    return compiled(tmp_path, {"modern": entry, "legacy": stub_entry(tools=["b"])})


def test_era_and_hints_are_in_the_file_and_come_back(file: Path) -> None:
    children = {child.name: child for child in read_contents(file).snapshot.children}
    assert (children["modern"].protocol, children["legacy"].protocol) == (MODERN, "2025-11-25")
    assert children["modern"].hints == {"ttlMs": 60_000, "cacheScope": "public"}
    assert children["legacy"].hints == {}
    before = file.read_bytes()
    assert main(["--offline", "-q", "-o", str(file)]) == 0
    assert file.read_bytes() == before
    assert main(["--check", "-o", str(file)]) == 0


def test_check_sees_a_modern_child_change(
    file: Path, options: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options.write_text(json.dumps({"tools": ["a"], "hints": {"ttlMs": 60_000}}))
    assert main(["--check", "-o", str(file)]) == 1
    assert "cacheScope" in capsys.readouterr().out
    options.write_text(json.dumps({"tools": ["c"]}))
    assert main(["--check", "-o", str(file)]) == 1


def test_a_time_to_live_that_runs_down_is_no_drift(
    file: Path, options: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hints = {"ttlMs": 59_000, "cacheScope": "public"}
    options.write_text(json.dumps({"tools": ["a"], "hints": hints}))
    assert main(["--check", "-q", "-o", str(file)]) == 0
    assert capsys.readouterr() == ("", "")
    assert main([str(file.with_name("mcp.json")), "-q", "-o", str(file)]) == 0
    assert read_contents(file).snapshot.children[0].hints == hints
