"""Faults of the proxy's own, and a system that lacks something: every request still ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled, posix, running, served
from wire import call, enveloped, events, modern_entry, start_call, stub_entry, text, tool_names

LACKS_THREADS = """
import threading

def _start(thread, start=threading.Thread.start):
    function = thread._target
    if {condition}:
        raise RuntimeError("can't start new thread")
    return start(thread)

threading.Thread.start = _start

PLAN = {{"""


def edited(file: Path, before: str, after: str) -> int:
    """Put `after` in the place of `before` in an emitted file; return its line.

    Both are indented as in the runtime's modules; the emitted file indents by one space.
    """
    before, after = (re.sub("(?m)^ +", _shorter, text) for text in (before, after))
    source = file.read_text()
    assert source.count(before) == 1
    file.write_text(source.replace(before, after))
    return source[: source.index(before)].count("\n") + 1


def _shorter(indent: re.Match[str]) -> str:
    return " " * (len(indent[0]) // 4)


def without_threads(file: Path, condition: str) -> None:
    """Let no thread be started for the functions that meet a condition."""
    edited(file, "\nPLAN = {", LACKS_THREADS.format(condition=condition))


FORWARD = "        self._connection.forward(call)\n"
FAULT = "        if call.original == 'odd': raise ZeroDivisionError(call.original)\n"


def test_a_fault_while_a_call_is_forwarded_fails_that_call(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"a": stub_entry(tools=["odd", "echo"])})
    line = edited(file, FORWARD, FAULT + FORWARD)
    with served(file) as wire:
        assert text(call(wire, "a:echo")) == "{}"
        why = f"ZeroDivisionError in _forward, line {line}"
        error = call(wire, "a:odd")["error"]
        assert (error["code"], error["message"]) == (-32603, f"Internal fault: {why}")
        wire.wait_stderr(f"mcp: internal fault: {why}\n")
        assert text(call(wire, "a:echo")) == "{}"
        wire.end_input()
        assert wire.wait() == 0
        assert wire.unread == []


def test_a_fault_fails_the_call_of_a_client_without_a_handshake(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"a": stub_entry(tools=["odd", "echo"])})
    edited(file, FORWARD, FAULT + FORWARD)
    with running(file) as wire:
        for name, member in [("a:echo", "result"), ("a:odd", "error"), ("a:echo", "result")]:
            assert member in wire.request("tools/call", enveloped({"name": name}))


def test_a_fault_before_any_child_is_needed_fails_its_request_alone(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"a": stub_entry()})
    edited(file, '        catalogue = self._lists[message.method or ""]\n', "        1 / 0\n")
    with served(file) as wire:
        asked = {"cursor": None}  # else the list is a prepared answer
        assert "Internal fault" in wire.request("tools/list", asked)["error"]["message"]
        assert text(call(wire, "a:echo")) == "{}"


def test_a_fault_over_what_a_child_says_fails_what_it_owes(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"odd": stub_entry(tools=["sleep", "echo"]), "good": stub_entry()})
    start = "            call.succeeded(connection.name)\n"
    edited(file, start, f"            if call.name == 'odd:echo': 1 / 0\n{start}")
    with served(file) as wire:
        slow = start_call(wire, "odd:sleep", seconds=60)
        for message in (call(wire, "odd:echo"), wire.response(slow)):
            assert "internal fault: ZeroDivisionError in answered" in message["error"]["message"]
        assert text(call(wire, "good:echo")) == "{}"


@pytest.mark.parametrize(
    "condition",
    [
        "function.__qualname__ == 'Supervisor._run'",
        "function.__name__ in ('_wait', '_read_stderr')",
    ],
)
@pytest.mark.parametrize("era", [stub_entry, modern_entry])
def test_a_start_for_which_there_is_no_thread_fails_its_calls(
    tmp_path: Path, condition: str, era: Any
) -> None:
    file = compiled(tmp_path, {"a": era(), "b": era()})
    without_threads(file, condition)
    with served(file) as wire:
        for name in ("a:echo", "b:echo"):
            assert "could not be started: " in call(wire, name)["error"]["message"]
        assert tool_names(wire) == []
        wire.wait_stderr("server 'b' could not be started: .*")
        assert wire.family() == {wire.process.pid}
        wire.end_input()
        assert wire.wait() == 0


@pytest.mark.parametrize(
    "problem", ["MemoryError()", "RuntimeError('can not')", "ImportError('subprocess')"]
)
def test_a_start_that_fails_with_any_exception_fails_its_calls(
    tmp_path: Path, problem: str
) -> None:
    file = compiled(tmp_path, {"odd": stub_entry(), "good": stub_entry()})
    starting = "        popen = subprocess.Popen("
    edited(file, starting, f"        if '@' not in str(launch.argv): raise {problem}\n{starting}")
    with served(file) as wire:
        message = call(wire, "odd:echo")["error"]["message"]
        assert re.fullmatch(
            rf"Server 'odd' could not be started: {problem.partition('(')[0]} in spawn, "
            r"line \d+: .*",
            message,
        )
        wire.end_input()
        assert wire.wait() == 0


@posix("asks for the processes of a session")
def test_without_a_thread_all_children_are_closed_and_nothing_is_raised(tmp_path: Path) -> None:
    stubborn = stub_entry(ignore=["SIGTERM", "eof"])
    file = compiled(tmp_path, {"a": stub_entry(), "b": stubborn})
    without_threads(file, "function.__qualname__ == 'Process.close'")
    with served(file) as wire:
        for name in ("a:echo", "b:echo"):
            call(wire, name)
        family = wire.family()
        wire.end_input()
        assert wire.wait() == 0
        assert (wire.stderr, len(family) >= 2) == ("", True)
        assert not any(os.path.exists(f"/proc/{pid}") for pid in family)


@pytest.mark.parametrize("poll", [True, False])
def test_a_client_that_reads_no_more_ends_the_proxy(tmp_path: Path, poll: bool) -> None:
    """Without poll, as on Windows, the next line that it is sent shows that it is gone."""
    log = tmp_path / "log"
    file = compiled(tmp_path, {"a": stub_entry(log=str(log))})
    log.unlink()
    if not poll:
        file.write_text(file.read_text().replace("\nimport select\n", "\nclass select: pass\n"))
    ours, theirs = os.pipe()
    command = [sys.executable, "-I", "-S", str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=theirs, stderr=subprocess.PIPE
    ) as process:
        os.close(theirs)
        assert process.stdin is not None
        assert process.stderr is not None
        call_ = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a:echo"}}\n'
        os.write(process.stdin.fileno(), call_)
        assert os.read(ours, 1000)
        os.close(ours)
        if not poll:
            os.write(process.stdin.fileno(), call_.replace(b"tools/call", b"ping"))
            with suppress(BrokenPipeError):
                os.write(process.stdin.fileno(), call_)
        assert process.wait(30) == 0
        assert process.stderr.read() == b""
    for event in events(log, "start"):
        assert not os.path.exists(f"/proc/{event['pid']}")


def test_input_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"a": stub_entry()})
    with (tmp_path / "only-written").open("w") as file_:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(file)],
            stdin=file_,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mcp: cannot read standard input: Bad file descriptor\n"


def test_at_a_terminal_it_says_what_it_waits_for(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"a": stub_entry()})
    master, slave = os.openpty()
    command = [sys.executable, "-I", "-S", str(file)]
    with subprocess.Popen(
        command, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        os.close(slave)
        assert process.stderr is not None
        assert b"waiting for the JSON-RPC messages of an MCP client" in process.stderr.readline()
        os.write(master, b"\x04")  # the end of input
        assert process.wait(30) == 0
        assert process.stderr.read() == b""
    os.close(master)


def test_the_line_of_a_fault_is_that_of_the_file(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"a": stub_entry()})
    edited(
        file,
        "        parser = argparse.ArgumentParser(\n",
        "        1 / 0\n        parser = argparse.ArgumentParser(\n",
    )
    command = [sys.executable, str(file), "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = r"internal fault: ZeroDivisionError in parser, line (\d+);"
    found = re.search(said, done.stderr)
    assert found is not None
    assert done.returncode == 70
    assert file.read_text().splitlines()[int(found[1]) - 1] == "  1 / 0"
