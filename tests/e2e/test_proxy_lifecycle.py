"""How a proxy ends: answers owed are written, and no process of its tree is left."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from proxies import KILLED, SHORT_GRACES, compiled, lowered, posix, running, served
from wire import (
    STUB,
    TIMEOUT,
    Wire,
    alive,
    call,
    events,
    initialize,
    start_call,
    started,
    stub_entry,
    text,
    tool_names,
    wait_until,
)

from mcpagg.passes.emission.bundle import package_name

STUBBORN: dict[str, Any] = {
    "sigterm": "ignore",
    "at": {"eof": [{"sleep": 3600}]},
    "tools": ["echo", "spawn", "sleep"],
}


def shell(entry: dict[str, Any]) -> dict[str, Any]:
    """Start a child through a shell that stays its parent, as npx does."""
    words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in entry["args"])
    return {"command": "sh", "args": ["-c", f"{entry['command']} {words}; exit $?"]}


def pids(log: Path) -> set[int]:
    """Return the processes that stubs say they started as, and spawned."""
    started = {event["pid"] for event in events(log, "start")}
    return started | {event["child"] for event in events(log, "spawn")}


@posix("asks for process ids; see windows/")
@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("eof", "plain"),
        ("eof", "stubborn"),
        ("eof", "shell"),
        (signal.SIGTERM, "shell"),
        (signal.SIGINT, "shell"),
    ],
)
def test_no_process_of_its_tree_outlives_the_proxy(tmp_path: Path, how: Any, kind: str) -> None:
    log = tmp_path / "log"
    plain: dict[str, Any] = {"tools": ["echo", "spawn"]}
    options = tmp_path / "options.json"
    options.write_text(json.dumps(plain))
    entry = {"command": STUB[0], "args": [*STUB[1:], f"@{options}"]}
    file = compiled(tmp_path, {"one": shell(entry) if kind == "shell" else entry})
    lowered(file, **SHORT_GRACES)
    options.write_text(json.dumps({**(plain if kind == "plain" else STUBBORN), "log": str(log)}))
    with served(file) as wire:
        call(wire, "one:spawn")
        wanted = pids(log)
        assert len(wanted) == 2
        assert all(map(alive, wanted))
        if how == "eof":
            wire.end_input()
        else:
            wire.signal(how)
        assert wire.wait() == 0
    assert not [pid for pid in wanted if alive(pid)]


def test_a_child_sees_the_end_of_its_input_before_any_signal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    odd = stub_entry(log=str(log), sigterm="ignore", at={"start": [{"stderr": "hello\n"}]})
    file = compiled(tmp_path, {"odd": odd})
    log.unlink()
    with served(file) as wire:
        call(wire, "odd:echo")
        wire.end_input()
        assert wire.wait() == 0
    assert len(events(log, "eof")) == 1


def test_requests_piped_from_a_file_are_all_answered_before_the_exit(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"one": stub_entry(tools=["sleep"])})
    lowered(file, DRAIN_SECONDS=TIMEOUT)
    lines: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": {}},
        {"method": "notifications/initialized"},
    ]
    params = {"name": "one:sleep", "arguments": {"seconds": 0.3}}
    lines += [{"id": n, "method": "tools/call", "params": params} for n in range(1, 6)]
    script = tmp_path / "requests"
    # The last line has no end: a client may close its output instead of ending it.
    script.write_text("\n".join(json.dumps({"jsonrpc": "2.0", **line}) for line in lines))
    with script.open("rb") as source:
        done = subprocess.run(
            [sys.executable, str(file)],
            stdin=source,
            capture_output=True,
            timeout=TIMEOUT,
            check=True,
        )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {answer["id"] for answer in answers if "result" in answer} == set(range(6))


def test_a_call_that_never_ends_delays_the_exit_no_longer_than_the_bound(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"one": stub_entry(tools=["sleep"])})
    with served(lowered(file, DRAIN_SECONDS=0.5)) as wire:
        start_call(wire, "one:sleep", seconds=3600)
        began = time.monotonic()
        wire.end_input()
        assert wire.wait() == 0
        assert time.monotonic() - began > 0.4


def test_no_input_ends_the_proxy_at_once(tmp_path: Path) -> None:
    slow = stub_entry(at={"start": [{"sleep": 0.2}]})
    file = compiled(tmp_path, {"one": slow})
    done = subprocess.run(
        [sys.executable, str(file)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"", b"")


def test_input_that_ends_while_children_start_leaves_none(tmp_path: Path) -> None:
    log = tmp_path / "log"
    file = compiled(tmp_path, {"one": stub_entry(log=str(log), at={"start": [{"sleep": 0.5}]})})
    log.unlink()
    with served(file) as wire:
        wire.end_input()
        assert wire.wait() == 0
    assert not [pid for pid in pids(log) if alive(pid)]


def test_a_socket_serves_as_standard_input_and_output(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"one": stub_entry()})
    ours, theirs = socket.socketpair()
    handle = theirs.fileno()
    with started([sys.executable, file], stdin=handle, stdout=handle) as process, ours:
        theirs.close()
        ours.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert ours.recv(1000) == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
        request = {"name": "one:echo", "arguments": {"a": 1}}
        line = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": request})
        ours.sendall(line.encode() + b"\n")
        assert json.loads(ours.recv(1000))["id"] == 2
        ours.close()
        assert process.wait(TIMEOUT) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_it_at_a_terminal(tmp_path: Path, number: int) -> None:
    file = compiled(tmp_path, {"one": stub_entry()})
    master, slave = pty.openpty()
    pipes = {"stdin": slave, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started([sys.executable, file], **pipes) as process:
        os.close(slave)
        os.write(master, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert process.stdout is not None
        assert b'"result":{}' in process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=TIMEOUT)
    os.close(master)
    assert process.returncode == 0
    assert errors.splitlines()[1:] == []  # the first one says what it waits for


@posix("sends the signal that Ctrl-C sends")
@pytest.mark.parametrize("arguments", [["--list"], ["--check"], ["--call", "one:echo"], []])
def test_ctrl_c_while_modules_are_imported_ends_it_without_a_traceback(
    tmp_path: Path, arguments: list[str]
) -> None:
    file = compiled(tmp_path, {"one": stub_entry()})
    text = file.read_text("utf-8")
    head = '"stdio.stdio": r"""\n'
    assert head in text
    slow = f"{head}import os, time\nos.write(2, b'importing')\ntime.sleep(60)\n"
    file.write_text(text.replace(head, slow), "utf-8")
    # Without arguments the code of the file serves, and hands over what it has no answer for.
    given, wanted = os.pipe()
    os.write(wanted, b'{"jsonrpc": "2.0", "id": 1, "method": "x"}\n')
    said, error = os.pipe()
    with started([sys.executable, "-I", file, *arguments], stdin=given, stderr=error) as process:
        os.close(error)
        with open(said, "rb", buffering=0) as errors:
            assert errors.read(9) == b"importing"
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT) == (-signal.SIGINT if arguments else 0)
            assert errors.read() == b""
    os.close(given)
    os.close(wanted)


@posix("asks for process ids; see windows/")
def test_a_child_that_dies_takes_its_own_children_with_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    one = stub_entry(tools=["spawn", "die"], log=str(log))
    file = compiled(tmp_path, {"one": one})
    log.unlink()
    with served(lowered(file, **SHORT_GRACES)) as wire:
        call(wire, "one:spawn")
        assert "SIGKILL" in call(wire, "one:die")["error"]["message"]
        wire.end_input()
        wire.wait()
    assert not [pid for pid in pids(log) if alive(pid)]


def test_children_notice_when_the_proxy_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    file = compiled(tmp_path, {"one": stub_entry(log=str(log))})
    log.unlink()
    with served(file) as wire:
        call(wire, "one:echo")
        (child,) = pids(log)
        wire.process.kill()
        wire.wait()
        wait_until(lambda: not alive(child))


@posix("asks for descriptors")
def test_a_child_has_only_its_own_pipes(tmp_path: Path) -> None:
    servers = {name: stub_entry(tools=["where"]) for name in ("one", "two", "three")}
    with served(compiled(tmp_path, servers)) as wire:
        for name in servers:
            assert sorted(map(int, json.loads(text(call(wire, f"{name}:where")))["fds"]))[:3] == [
                0,
                1,
                2,
            ]
            assert len(json.loads(text(call(wire, f"{name}:where")))["fds"]) <= 4


def test_a_child_that_asks_for_roots_as_soon_as_it_is_up_gets_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    question = [{"background": [{"ask": "roots/list", "within": TIMEOUT}]}]
    one = stub_entry(log=str(log), at={"notifications/initialized": question})
    file = compiled(tmp_path, {"one": one})
    log.unlink()
    with served(file, roots={}) as wire:
        number = start_call(wire, "one:echo")
        wire.answer(wire.next_request("roots/list"), {"roots": [{"uri": "file:///r"}]})
        assert text(wire.response(number)) == "{}"
        assert text(call(wire, "one:echo")) == "{}"
    lines = [json.loads(event["line"]) for event in events(log)]
    assert [line.get("method") for line in lines[:2]] == ["initialize", "notifications/initialized"]
    answers = [line["result"] for line in lines if "result" in line]
    assert answers == [{"roots": [{"uri": "file:///r"}]}]


def test_lazy_children_start_at_the_first_call(tmp_path: Path) -> None:
    log = tmp_path / "log"
    servers = {"one": stub_entry(log=str(log)), "two": stub_entry()}
    file = compiled(tmp_path, servers, "--start", "lazy")
    log.unlink()
    with served(file) as wire:
        assert text(call(wire, "two:echo")) == "{}"
        assert not log.exists()
        assert text(call(wire, "one:echo")) == "{}"
        assert log.exists()


def test_a_stray_print_never_reaches_the_wire(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"one": stub_entry()})
    source = file.read_text()
    assert MAIN in source
    file.write_text(source.replace(MAIN, STRAY))
    with running(file) as wire:
        initialize(wire)
        assert text(call(wire, "one:echo")) == "{}"
        wire.wait_stderr("stray")
        assert wire.messages() == []


MAIN = "    main(PLAN, __file__, embed_runtime)\n"
STRAY = f"""
    import os

    embed_runtime()
    from {package_name()}.stdio.stdio import Stdio

    Stdio.really_run = Stdio.run
    Stdio.run = lambda self, opening: (os.write(1, b"stray\\n"), self.really_run(opening))
    main(PLAN, __file__, lambda: None)
"""


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.11", "3.12", "3.13"])
def test_it_runs_on_every_python_without_site_packages(tmp_path: Path, version: str) -> None:
    python = _python(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    file = compiled(tmp_path, {"one": stub_entry(tools=["echo", "die"]), "two": stub_entry()})
    with Wire([python, "-I", "-S", file], env={"PATH": os.environ["PATH"]}) as wire:
        initialize(wire)
        assert text(call(wire, "two:echo", a="ü")) == '{"a":"\\u00fc"}'
        assert "error" in call(wire, "one:die")
        wire.next_notification("notifications/tools/list_changed")
        wire.write(b'{"a":\x01}\n')
        assert wire.receive()["error"]["code"] == -32700
        wire.end_input()
        assert wire.wait() == 0


def _python(version: str) -> str | None:
    """Return an interpreter of that version: on the path, or of a version manager."""
    places = [Path(folder) / f"python{version}" for folder in os.get_exec_path()]
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    places = sorted(Path(root).glob(f"versions/{version}.*/bin/python")) + places
    for place in places:
        if not place.exists():
            continue
        command = [
            str(place),
            "-I",
            "-S",
            "-c",
            "import sys; print('%d.%d' % sys.version_info[:2])",
        ]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.stdout.strip() == version:
            return str(place)
    return None


def test_a_server_that_died_starts_again_at_the_next_call_where_that_is_asked(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    one = stub_entry(tools=["echo", "die"], log=str(log))
    file = compiled(tmp_path, {"one": one, "two": stub_entry()}, "--restart", "on-call")
    log.unlink()
    with served(file) as wire:
        assert KILLED in call(wire, "one:die")["error"]["message"]
        wire.next_notification("notifications/tools/list_changed")
        assert tool_names(wire) == ["two:echo"]
        assert KILLED in call(wire, "one:echo")["error"]["message"]
        wait_until(lambda: "result" in call(wire, "one:echo"))
        assert text(call(wire, "one:echo", a=1)) == '{"a":1}'
        wire.next_notification("notifications/tools/list_changed")
        assert tool_names(wire) == ["one:echo", "one:die", "two:echo"]
        assert len(events(log, "start")) == 2
        wire.end_input()
        assert wire.wait() == 0
    assert not [pid for pid in pids(log) if alive(pid)]


@posix("asks for process ids, which Windows gives again at once")
def test_a_server_with_nothing_to_do_is_ended_and_started_again_by_a_call(tmp_path: Path) -> None:
    log = tmp_path / "log"
    one = stub_entry(tools=["echo", "sleep"], log=str(log))
    file = compiled(tmp_path, {"one": one}, "--idle-stop", "0.1", "--start", "lazy")
    log.unlink()
    with served(file) as wire:
        assert text(call(wire, "one:sleep", seconds=0.4)) == "slept 0.4 s"
        (first,) = pids(log)
        wait_until(lambda: not alive(first))
        assert tool_names(wire) == ["one:echo", "one:sleep"]
        assert text(call(wire, "one:echo", a=1)) == '{"a":1}'
        assert len(pids(log)) == 2
        assert wire.stderr == ""
        assert wire.messages() == []
