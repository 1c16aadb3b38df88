"""A client for measuring: one thread, blocking reads, nothing parsed that need not be."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from processes import family, table

LIMIT = 120.0
"""Seconds after the last request until a server is killed, which ends a read without an answer."""

FLOOR = [sys.executable, "-I", "-S"]
"""The barest Python there is: what everything is compared with, and how proxies are run."""

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""What each request of the revision without a handshake says of its client."""

PYTHON_STYLE = re.compile(rb'\{"jsonrpc": ?"2.0", ?"id": ?(\d+), ?"(?:result|error)"')
TYPESCRIPT_STYLE = re.compile(rb'"jsonrpc":"2.0","id":(\d+)\}\s*$')


class GoneError(Exception):
    """The server's output ended before the answer."""


class Pipe:
    """A server and the pipe to it. Times are counted from just before its start."""

    def __init__(
        self, argv: Sequence[str], cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=1 << 16,  # what a pipe holds: the client is not what a large result waits for
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout
        self.last_id = 0
        self.asked = self.started
        self.watch(LIMIT)

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def watch(self, seconds: float) -> None:
        """Look again in so many seconds whether the server has been silent for too long."""
        self.watchdog = threading.Timer(seconds, self.look)
        self.watchdog.daemon = True
        self.watchdog.start()

    def look(self) -> None:
        """Kill a server that was asked too long ago."""
        left = self.asked + LIMIT - time.monotonic()
        if left <= 0:
            self.process.kill()
        else:
            self.watch(left)

    def send(self, method: str, params: object = None, *, answer: bool = True) -> int:
        """Send a request and return its id, or a notification if no answer is expected."""
        self.asked = time.monotonic()
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if answer:
            self.last_id += 1
            message["id"] = self.last_id
        try:
            self.input.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            self.input.flush()
        except BrokenPipeError:
            raise GoneError(method) from None
        return self.last_id

    def response(self) -> tuple[int, bytes]:
        """Read up to the next response; return its id and its line."""
        while line := self.output.readline():
            request_id = response_id(line)
            if request_id is not None:
                return request_id, line
        raise GoneError

    def request(self, method: str, params: object = None) -> bytes:
        """Send a request and return the line that answers it."""
        wanted = self.send(method, params)
        while True:
            request_id, line = self.response()
            if request_id == wanted:
                return line

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def initialize(self) -> None:
        """Shake hands."""
        self.request(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "benchmark", "version": "1"},
            },
        )
        self.send("notifications/initialized", answer=False)

    def close(self) -> None:
        """End the input, give the server time to end its children, and kill what is left."""
        started = family(self.process.pid)
        with suppress(BrokenPipeError):
            self.input.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        left = started.keys() & table().keys()
        for pid in left:
            if started[pid].args == table().get(pid, started[pid]).args:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.watchdog.cancel()
        self.output.close()


class Open(NamedTuple):
    """A server whose child is up, in one revision of the protocol, and its tool to call."""

    pipe: Pipe
    tool: str
    modern: bool = False

    def answer(self, **arguments: object) -> bytes:
        """Call the tool; return the line that answers it."""
        params: dict[str, object] = {"name": self.tool, "arguments": arguments}
        if self.modern:
            params["_meta"] = ENVELOPE
        return self.pipe.request("tools/call", params)

    def call(self, **arguments: object) -> float:
        """Call the tool; return the milliseconds that it took."""
        before = time.perf_counter()
        self.answer(**arguments)
        return (time.perf_counter() - before) * 1000


def listed(pipe: Pipe, tool: str, *, modern: bool = False) -> Open:
    """List the tools; take the last one that is called so, whatever its prefix.

    Raises:
        ValueError: there is none: a peer may not be able to speak to the server's era.
    """
    found: Any = json.loads(pipe.request("tools/list", {"_meta": ENVELOPE} if modern else {}))
    names: list[str] = [each["name"] for each in found["result"]["tools"]]
    fitting = [name for name in names if name.endswith(tool)]
    if not fitting:
        raise ValueError(f"lists no tool that ends in {tool!r}, but {len(names)} others")
    return Open(pipe, fitting[-1], modern)


def response_id(line: bytes) -> int | None:
    """Return the id of a response, found without parsing where servers usually write it."""
    found = PYTHON_STYLE.match(line) or TYPESCRIPT_STYLE.search(line, max(0, len(line) - 60))
    if found:
        return int(found[1])
    message: dict[str, Any] = json.loads(line)
    return message.get("id") if "method" not in message else None
