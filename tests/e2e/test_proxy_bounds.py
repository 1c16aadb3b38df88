"""What a peer may have the proxy keep for it, and what follows when it wants more.

The bounds are lowered in the emitted file; all else is as it is.
"""

from __future__ import annotations

import fcntl
import json
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled, lowered, posix, running, served
from wire import (
    STUB,
    TIMEOUT,
    call,
    events,
    initialize,
    start_call,
    stub_entry,
    text,
    tool_names,
    wait_until,
)

MIB = 1 << 20
FLOOD = "notifications/flood"


# --- Lines without end ------------------------------------------------------------------------


def test_a_child_that_never_ends_its_line_is_ended(tmp_path: Path) -> None:
    endless = [{"stdout": "x", "fill": 3 * MIB}, {"hang": True}]
    odd = stub_entry(tools=["sleep", "endless"], does={"endless": endless})
    file = compiled(tmp_path, {"odd": odd, "good": stub_entry()})
    with served(lowered(file, MAXIMUM_LINE_BYTES=MIB)) as wire:
        numbers = [start_call(wire, "odd:sleep"), start_call(wire, "odd:endless")]
        for number in numbers:
            message = wire.response(number)["error"]["message"]
            assert message == "Server 'odd' wrote a line of more than 1 MiB"
        assert text(call(wire, "good:echo")) == "{}"
        assert tool_names(wire) == ["good:echo"]


@pytest.mark.parametrize("begun", [False, True], ids=["before a call", "after a call"])
def test_a_line_of_the_client_without_end_is_refused_and_skipped(
    tmp_path: Path, begun: bool
) -> None:
    file = compiled(tmp_path, {"good": stub_entry()})
    with served(lowered(file, MAXIMUM_LINE_BYTES=MIB)) as wire:
        if begun:
            call(wire, "good:echo")
        wire.write(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":"' + b"x" * 2 * MIB)
        refusal = wire.receive()
        assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)
        assert "longer than 1 MiB" in refusal["error"]["message"]
        wire.write(b"x" * 2 * MIB + b'"}\n')
        assert text(call(wire, "good:echo", fill="x" * (MIB - 1000))).endswith('x"}')
        assert wire.unread == []


# --- A child that does not read ---------------------------------------------------------------


def test_a_child_that_does_not_read_is_ended_when_too_much_waits_for_it(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"odd": stub_entry(tools=["stop_reading"]), "good": stub_entry()})
    with served(lowered(file, MAXIMUM_WAITING_BYTES=MIB, STALL_SECONDS=0)) as wire:
        call(wire, "odd:stop_reading")
        filler = "x" * (MIB // 2)
        numbers = [start_call(wire, "odd:stop_reading", fill=filler) for _ in range(5)]
        for number in numbers:
            message = wire.response(number)["error"]["message"]
            assert message == "Server 'odd' does not read its input, 1 MiB are waiting"
        assert text(call(wire, "good:echo")) == "{}"
        assert tool_names(wire) == ["good:echo"]
        wire.wait_stderr("server 'odd' does not read its input")


def test_a_large_message_reaches_a_child_that_reads_late(tmp_path: Path) -> None:
    go = tmp_path / "go"
    odd = stub_entry(tools=["wait", "echo"], at={"call wait": [{"wait_file": str(go)}]})
    file = compiled(tmp_path, {"odd": odd})
    with served(lowered(file, MAXIMUM_WAITING_BYTES=2 * MIB)) as wire:
        first = start_call(wire, "odd:wait")
        large = [start_call(wire, "odd:echo", fill="x" * 4 * MIB) for _ in range(2)]
        go.touch()
        assert text(wire.response(first)) == "{}"
        for number in large:
            assert len(text(wire.response(number))) > 4 * MIB


# --- A client that does not read --------------------------------------------------------------


class Deaf:
    """A client that has shaken hands, and reads nothing before it is told to."""

    def __init__(self, file: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.send(0, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        self.send(None, "notifications/initialized", {})

    def __enter__(self) -> Deaf:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.process.kill()
        self.process.wait()
        with suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()

    def send(self, identifier: int | None, method: str, params: Any) -> None:
        """Send one message."""
        message = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
        if identifier is None:
            del message["id"]
        self.stdin.write(json.dumps(message).encode() + b"\n")
        self.stdin.flush()

    def call(self, identifier: int, name: str, **arguments: Any) -> None:
        """Send a call."""
        self.send(identifier, "tools/call", {"name": name, "arguments": arguments})

    def wait_until_full(self) -> None:
        """Wait until the pipe that is not read takes no more."""
        size = 0
        if sys.platform == "linux":
            size = fcntl.fcntl(self.stdout, fcntl.F_GETPIPE_SZ)
        deadline = time.monotonic() + TIMEOUT
        while self.left() < size - 4096:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def left(self) -> int:
        """How many bytes are there to be read."""
        return int(struct.unpack("i", fcntl.ioctl(self.stdout, termios.FIONREAD, b"1234"))[0])

    def peak(self) -> int:
        """Return the most memory that the proxy ever had, in bytes; 0 when it is gone."""
        return memory(self.process.pid, "VmHWM")


def memory(pid: int, what: str) -> int:
    """Return what Linux says of a process's memory, in bytes; 0 when it is gone."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int((status.partition(f"{what}:")[2].split() or ["0"])[0]) * 1024


def flooding(tmp_path: Path) -> Path:
    """Compile a child that sends 64 MiB of notifications, then answers."""
    notes = {"notify": FLOOD, "params": {"fill": "x" * (MIB // 16)}, "times": 1024}
    odd = stub_entry(tools=["flood"], does={"flood": [notes]}, log=str(tmp_path / "log"))
    file = compiled(tmp_path, {"odd": odd})
    return lowered(file, MAXIMUM_WAITING_BYTES=MIB, DRAIN_SECONDS=0.5)


linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux about pipes and memory")


@linux
def test_the_memory_of_large_requests_and_results_is_given_back(tmp_path: Path) -> None:
    with served(compiled(tmp_path, {"odd": stub_entry(tools=["echo"])})) as wire:
        call(wire, "odd:echo")
        before = memory(wire.process.pid, "VmRSS")
        for size in (8 * MIB, 20 * MIB):
            assert len(text(call(wire, "odd:echo", fill="x" * size))) > size
            wait_until(lambda: memory(wire.process.pid, "VmRSS") < before + 4 * MIB)


@linux
@pytest.mark.parametrize("how", ["eof", "SIGTERM"])
def test_a_flood_to_a_client_that_does_not_read_stays_with_the_child(
    tmp_path: Path, how: str
) -> None:
    with Deaf(flooding(tmp_path)) as client:
        client.call(1, "odd:flood")
        client.wait_until_full()
        if how == "SIGTERM":
            client.process.send_signal(signal.SIGTERM)
        else:
            client.stdin.close()
        peak, end = 0, time.monotonic() + 2 * TIMEOUT
        while client.process.poll() is None:
            assert time.monotonic() < end
            peak = max(peak, client.peak())
        assert client.process.returncode == 0
        assert peak < 40 * MIB
        pids = [event["pid"] for event in events(tmp_path / "log", "start")]
        assert not [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists()]


@linux
def test_a_client_that_reads_late_gets_all_in_order_and_memory_has_an_end(tmp_path: Path) -> None:
    with Deaf(flooding(tmp_path)) as client:
        client.call(1, "odd:flood")
        client.wait_until_full()
        methods = []
        for line in client.stdout:
            message = json.loads(line)
            methods.append(message.get("method"))
            if message.get("id") == 1:
                break
        assert methods == [None, *[FLOOD] * 1024, None]
        assert client.peak() < 40 * MIB


@linux
def test_a_client_may_go_on_writing_while_it_does_not_read(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"odd": stub_entry(tools=["big", "echo"])})
    with Deaf(file) as client:
        client.call(1, "odd:big", bytes=5 * MIB)
        client.wait_until_full()
        for number in range(2, 202):
            client.call(number, "odd:echo", fill="x" * 50_000)
        answers = {json.loads(client.stdout.readline())["id"] for _ in range(202)}
        assert answers == set(range(202))


@linux
def test_stderr_without_a_line_end_fills_no_memory(tmp_path: Path) -> None:
    flood = {"stderr": "\r", "fill": 50 * MIB}
    odd = stub_entry(tools=["flood"], does={"flood": [flood]})
    with Deaf(compiled(tmp_path, {"odd": odd})) as client:
        client.call(1, "odd:flood")
        assert [json.loads(client.stdout.readline())["id"] for _ in range(2)] == [0, 1]
        assert client.peak() < 40 * MIB


@linux
def test_what_the_proxy_itself_answers_has_an_end_too(tmp_path: Path) -> None:
    tool = {"name": "t", "description": "x" * MIB, "inputSchema": {"type": "object"}}
    (tmp_path / "options").write_text(json.dumps({"tools": [tool]}))
    odd = {"command": STUB[0], "args": [*STUB[1:], f"@{tmp_path / 'options'}"]}
    file = lowered(compiled(tmp_path, {"odd": odd}), MAXIMUM_WAITING_BYTES=MIB)
    with Deaf(file) as client:
        for number in range(1, 101):
            client.send(number, "tools/list", {})
        client.wait_until_full()
        for number in range(101):
            assert json.loads(client.stdout.readline())["id"] == number
        assert client.peak() < 60 * MIB
        # What was written before the input ended is still answered.
        for number in range(50):
            client.send(number, "ping" if number % 2 else "tools/list", {})
        client.stdin.close()
        client.wait_until_full()
        answers = [json.loads(line)["id"] for line in client.stdout]
        assert answers == list(range(50))
        assert client.process.wait(TIMEOUT) == 0


@linux
def test_a_child_that_died_while_it_was_held_has_its_answers_delivered(tmp_path: Path) -> None:
    notes = {"notify": FLOOD, "params": {"fill": "x" * (MIB // 16)}, "times": 64}
    odd = stub_entry(tools=["flood"], at={"call flood": [notes], "after tools/call": [{"exit": 3}]})
    file = lowered(compiled(tmp_path, {"odd": odd}), MAXIMUM_WAITING_BYTES=MIB)
    with Deaf(file) as client:
        client.call(1, "odd:flood")
        client.wait_until_full()
        messages = [json.loads(client.stdout.readline()) for _ in range(67)]
    assert "result" in next(message for message in messages if message.get("id") == 1)
    assert messages[-1]["method"] == "notifications/tools/list_changed"


@posix("a command line of Windows is shorter than these options")
def test_a_question_behind_a_flood_is_answered(tmp_path: Path) -> None:
    notes = {"notify": FLOOD, "params": {"fill": "x" * (MIB // 32)}, "times": 256}
    question = {"ask": "roots/list", "within": TIMEOUT}
    odd = stub_entry(tools=["flood"], does={"flood": [notes, question, notes]})
    file = lowered(compiled(tmp_path, {"odd": odd}), MAXIMUM_WAITING_BYTES=MIB)
    with running(file) as wire:
        initialize(wire, capabilities={"roots": {}})
        number = start_call(wire, "odd:flood")
        wire.answer(wire.next_request("roots/list"), {"roots": []})
        assert text(wire.response(number)) == "{}"
        assert len(wire.messages(FLOOD)) == 512
