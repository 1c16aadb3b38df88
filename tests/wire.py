"""A raw JSON-RPC client for tests: it sends any bytes, and sees every line that comes back.

    with Wire([sys.executable, "server.py"]) as wire:
        initialize(wire)
        assert tool_names(wire) == ["demo:echo"]
        reply = wire.request("tools/call", {"name": "demo:echo", "arguments": {}})

One thread reads stdout and one stderr; whoever waits is woken by them, with a deadline, and nothing
polls. A wait that fails says what did arrive, how the process ended, and what it wrote to stderr.
Leaving the `with` block ends the process and everything that it started.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]

TIMEOUT = 60.0
"""How long anything may take on a slow, busy machine; only failing tests wait for it."""

STUB = [sys.executable, "-I", "-S", str(Path(__file__).with_name("servers") / "stub.py")]
"""Starts the scriptable server, without what site-packages would add to its start."""

MODERN_STUB = [sys.executable, "-E", "-s", "-S", str(Path(STUB[-1]).with_name("modern.py"))]
"""Starts the server that speaks 2026-07-28 alone; `-I` would hide stub.py from it."""

TAP = [*STUB[:-1], str(Path(STUB[-1]).with_name("tap.py"))]
"""Starts a server whose every line is written down."""

LATEST = "2025-11-25"
"""The newest protocol version that is negotiated by `initialize`."""

MODERN = "2026-07-28"
"""The protocol version whose requests each carry what `initialize` used to negotiate."""

ENVELOPE = {
    name: f"io.modelcontextprotocol/{name}"
    for name in (
        "protocolVersion",
        "clientCapabilities",
        "clientInfo",
        "logLevel",
        "serverInfo",
        "subscriptionId",
    )
}
"""The `_meta` keys of that version, by their last part."""


@dataclass(frozen=True)
class Line:
    """One line from the server, without its line end."""

    raw: bytes

    @property
    def json(self) -> Any:
        """What the line says; None if it is not JSON."""
        try:
            return json.loads(self.raw)
        except ValueError:
            return None

    @property
    def message(self) -> Json:
        """The JSON-RPC message; an empty object if the line is none."""
        return self.json if isinstance(self.json, dict) else {}


@dataclass(frozen=True)
class Process:
    """A process of the machine; its start tells it from a later one with the same number."""

    pid: int
    started: int
    parent: int = field(compare=False)  # changes when the parent dies
    session: int = field(compare=False)

    @classmethod
    def all(cls) -> set[Process]:
        """Return the processes that are alive; none on a system without /proc."""
        found = set()
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has just ended
                fields = path.read_text().rpartition(")")[2].split()
                if fields[0] not in "ZX":
                    pid, parent, session, started = path.parent.name, *fields[1:4:2], fields[19]
                    found.add(cls(int(pid), int(started), int(parent), int(session)))
        return found


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    return pid in {process.pid for process in Process.all()}


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for something that nobody announces, such as the end of a process that is not ours."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT} s"
        time.sleep(0.01)


@contextmanager
def started(argv: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process for a test that a Wire is not raw enough for; kill it if it still runs."""
    command = [str(part) for part in argv]
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


class ClosedError(AssertionError):
    """The server's output ended while something was still expected from it."""


class Wire:
    """A running server and the two ends of its pipe.

    Whatever arrives is kept in order until someone takes it: `response(2)` takes the answer with
    id 2 and leaves the notifications before it for `next_notification`.
    """

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        self.unread: list[Line] = []
        self._errors = bytearray()
        self._output_ended = self._errors_ended = False
        self._changed = threading.Condition()
        self._last_id = 0
        self._family: set[Process] = set()
        self._threads = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # Sending

    def send(self, message: object) -> None:
        """Send a message; `bytes` and `str` go out as they are, with a newline after them."""
        if isinstance(message, str):
            message = message.encode()
        elif not isinstance(message, bytes):
            message = json.dumps(message, separators=(",", ":")).encode()
        self.write(message + b"\n")

    def write(self, data: bytes) -> None:
        """Send bytes, half a line or a thousand; a server that does not read them is an error."""
        assert self.process.stdin is not None
        pipe = self.process.stdin.fileno()
        os.set_blocking(pipe, False)
        deadline = time.monotonic() + TIMEOUT
        rest = memoryview(data)
        while rest:
            if not select.select([], [pipe], [], max(0, deadline - time.monotonic()))[1]:
                with self._changed:
                    raise TimeoutError(self._complaint(f"{len(rest)} bytes were not read"))
            rest = rest[os.write(pipe, rest) :]

    def start_request(self, method: str, params: Json | None = None, *, id: Any = None) -> Any:
        """Send a request and return its id, a new integer unless one is given."""
        if id is None:
            self._last_id += 1
            id = self._last_id
        self.send({"jsonrpc": "2.0", "id": id, **_call(method, params)})
        return id

    def request(
        self, method: str, params: Json | None = None, *, id: Any = None, timeout: float = TIMEOUT
    ) -> Json:
        """Send a request and return the whole response, `result` or `error`."""
        return self.response(self.start_request(method, params, id=id), timeout)

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", **_call(method, params)})

    def answer(self, request: Json, result: object = None, *, error: object = None) -> None:
        """Answer a request of the server with a result, or with an error if one is given."""
        body = {"error": error} if error is not None else {"result": result}
        self.send({"jsonrpc": "2.0", "id": request["id"], **body})

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def end_input(self) -> None:
        """Close the server's stdin."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    # Receiving

    def take(
        self, wanted: Callable[[Line], bool], timeout: float = TIMEOUT, what: str = "line"
    ) -> Line:
        """Wait for the first line that is wanted, and take it out of `unread`."""
        seen = 0  # nobody else takes lines meanwhile: a Wire belongs to one test thread
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                for place in range(seen, len(self.unread)):
                    if wanted(self.unread[place]):
                        return self.unread.pop(place)
                seen = len(self.unread)
                if self._output_ended:
                    raise ClosedError(self._complaint(f"the output ended before the {what}"))
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError(self._complaint(f"no {what} within {timeout} s"))

    def line(self, timeout: float = TIMEOUT) -> Line:
        """Return the next line, whatever it is."""
        return self.take(lambda line: True, timeout)

    def receive(self, timeout: float = TIMEOUT) -> Any:
        """Return the next line, parsed; None if it is no JSON."""
        return self.line(timeout).json

    def response_line(self, id: Any, timeout: float = TIMEOUT) -> Line:
        """Return the line that answers the request, for tests of its very bytes."""
        return self.take(lambda line: _answers(line.message, id), timeout, f"response to {id!r}")

    def response(self, id: Any, timeout: float = TIMEOUT) -> Json:
        """Return the response to a request, whose id must have the same JSON type."""
        return self.response_line(id, timeout).message

    def next_notification(self, method: str, timeout: float = TIMEOUT) -> Json:
        """Return the next notification of a method."""
        return self._next(method, False, timeout)

    def next_request(self, method: str, timeout: float = TIMEOUT) -> Json:
        """Return the server's next request of a method."""
        return self._next(method, True, timeout)

    def _next(self, method: str, is_request: bool, timeout: float) -> Json:
        def wanted(line: Line) -> bool:
            message = line.message
            return message.get("method") == method and ("id" in message) is is_request

        return self.take(wanted, timeout, what=method).message

    def messages(self, method: str | None = None) -> list[Json]:
        """Return what has arrived and was not taken, of one method or all.

        To be sure that something did not come, do something first whose effect comes after it, such
        as a request to the same child.
        """
        with self._changed:
            found = [line.message for line in self.unread]
        return [message for message in found if method in (None, message.get("method"))]

    @property
    def stderr(self) -> str:
        """What the server has written to stderr so far."""
        with self._changed:
            return self._errors.decode(errors="backslashreplace")

    def wait_stderr(self, pattern: str, timeout: float = TIMEOUT) -> str:
        """Wait until stderr matches a regular expression; return all of stderr."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not re.search(pattern.encode(), self._errors):
                if self._errors_ended:
                    raise ClosedError(self._complaint(f"stderr ended without {pattern!r}"))
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError(self._complaint(f"no {pattern!r} on stderr"))
        return self.stderr

    # Ending

    def wait(self, timeout: float = TIMEOUT) -> int:
        """Wait for the process to exit, and for the rest of its output; return its exit status."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            with self._changed:
                raise TimeoutError(self._complaint(f"still running after {timeout} s")) from None
        self._join()
        return status

    def close(self, grace: float = 5) -> int:
        """End the input, wait for the exit, and kill whatever is left; return the exit status."""
        self.family()
        self.end_input()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(grace)
        return self.kill()

    def kill(self) -> int:
        """Kill the process and everything that it started; return its exit status."""
        for pid in self.family():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:  # a system without /proc
            os.killpg(self.process.pid, signal.SIGKILL)
        self.end_input()
        status = self.process.wait()
        self._join()
        return status

    def family(self) -> set[int]:
        """Return the processes of the server's tree that are alive, itself included.

        A descendant is known by its session or its parent, and remembered by those who asked for
        the family before: one that left the session is still found when its parent has died.
        """
        alive = Process.all()
        family = self._family & alive | {one for one in alive if one.session == self.process.pid}
        parents: set[int] = set()
        while len(parents) < len(family):
            parents = {one.pid for one in family}
            family |= {one for one in alive if one.parent in parents}
        self._family = family
        return {one.pid for one in family}

    # Threads

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for raw in stream:
                with self._changed:
                    self.unread.append(Line(raw.removesuffix(b"\n")))
                    self._changed.notify_all()
        with self._changed:
            self._output_ended = True
            self._changed.notify_all()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            while data := os.read(stream.fileno(), 65536):
                with self._changed:
                    self._errors += data
                    self._changed.notify_all()
        with self._changed:
            self._errors_ended = True
            self._changed.notify_all()

    def _join(self) -> None:
        """Wait for the rest of the output, which has no end if a stranger keeps the pipe open."""
        for thread in self._threads:
            thread.join(1)

    def _complaint(self, what: str) -> str:
        """Say what went wrong, and everything that helps to see why; the lock is held."""
        with suppress(subprocess.TimeoutExpired):
            if self._output_ended:  # it may take a moment from there to the exit
                self.process.wait(1)
        status = self.process.poll()
        lines = "\n".join(f"  {line.raw[:300]!r}" for line in self.unread[-20:])
        errors = self._errors[-3000:].decode(errors="backslashreplace")
        return f"{what}; exit status {status}\nnot taken:\n{lines}\nstderr:\n{errors}"


def _call(method: str, params: Json | None) -> Json:
    return {"method": method} if params is None else {"method": method, "params": params}


def _answers(message: Json, id: Any) -> bool:
    """Whether a message is the response with this id; 1, "1", 1.0 and true are different ids."""
    return (
        "id" in message
        and "method" not in message
        and message["id"] == id
        and type(message["id"]) is type(id)
    )


# What most tests begin with


def initialize(
    wire: Wire,
    version: str = LATEST,
    capabilities: Json | None = None,
    client_info: Json | None = None,
) -> Json:
    """Shake hands, `initialized` included; return the result of `initialize`."""
    params = {
        "protocolVersion": version,
        "capabilities": capabilities or {},
        "clientInfo": client_info or {"name": "test", "version": "0"},
    }
    reply = wire.request("initialize", params)
    assert "result" in reply, reply
    wire.notify("notifications/initialized")
    result: Json = reply["result"]
    return result


def enveloped(params: Json | None = None, capabilities: Json | None = None, /, **meta: Any) -> Json:
    """Return the params of a modern request, from a client with `capabilities`.

    `meta` are further members of `_meta`; those of ENVELOPE go by their last part (`logLevel`).
    """
    given = {"protocolVersion": MODERN, "clientCapabilities": capabilities or {}, **meta}
    return {**(params or {}), "_meta": {ENVELOPE.get(key, key): given[key] for key in given}}


def tools(wire: Wire) -> list[Json]:
    """Return every tool, page after page."""
    found: list[Json] = []
    params: Json | None = None
    while True:
        result = wire.request("tools/list", params)["result"]
        found += result["tools"]
        if result.get("nextCursor") is None:
            return found
        params = {"cursor": result["nextCursor"]}


def tool_names(wire: Wire) -> list[str]:
    """Return the names of every tool, in order."""
    return [tool["name"] for tool in tools(wire)]


def start_call(wire: Wire, tool: str, /, **arguments: Any) -> Any:
    """Send a call and return its id."""
    return wire.start_request("tools/call", {"name": tool, "arguments": arguments})


def call(wire: Wire, tool: str, /, **arguments: Any) -> Json:
    """Call a tool and return the whole response."""
    return wire.response(start_call(wire, tool, **arguments))


def text(response: Json) -> str:
    """Return the text of a tool's answer."""
    assert "result" in response, response
    return "".join(block.get("text", "") for block in response["result"]["content"])


def stub(*arguments: str, **options: Any) -> list[str]:
    """Return the command line of `servers/stub.py` with options; see there."""
    return [*STUB, json.dumps(options), *arguments]


def stub_entry(*arguments: str, **options: Any) -> Json:
    """Return the config entry that starts the stub with options."""
    command, *rest = stub(*arguments, **options)
    return {"command": command, "args": rest}


def modern_stub(*arguments: str, **options: Any) -> list[str]:
    """Return the command line of `servers/modern.py` with options; see there."""
    return [*MODERN_STUB, json.dumps(options), *arguments]


def modern_entry(*arguments: str, **options: Any) -> Json:
    """Return the config entry that starts the modern stub with options."""
    command, *rest = modern_stub(*arguments, **options)
    return {"command": command, "args": rest}


def events(log: Path, event: str = "line") -> list[Json]:
    """Return the events of a kind in a stub's log: "line" has what it received, as text."""
    rows = [json.loads(row) for row in log.read_text().splitlines()] if log.exists() else []
    return [row for row in rows if row["event"] == event]


def received(log: Path) -> list[Json]:
    """Return the messages that a stub received, according to its log."""
    return [json.loads(event["line"]) for event in events(log)]


def legacy_entry(*arguments: str, **options: Any) -> Json:
    """Return the config entry that starts the legacy stub with options; see servers/legacy.py."""
    command, *rest = MODERN_STUB[:-1]
    script = str(Path(STUB[-1]).with_name("legacy.py"))
    return {"command": command, "args": [*rest, script, json.dumps(options), *arguments]}


def tapped(entry: Json, log: Path) -> Json:
    """Return the config entry of a server whose every line is written to `log`; see servers/tap."""
    return {
        **entry,
        "command": TAP[0],
        "args": [*TAP[1:], str(log), entry["command"], *entry["args"]],
    }
