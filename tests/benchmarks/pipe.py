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
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

LIMIT = 120.0
"""Seconds until a server that does not answer is killed, which ends every read."""

FLOOR = [sys.executable, "-I", "-S"]
"""The barest Python there is: what everything is compared with, and how proxies are run."""


PYTHON_STYLE = re.compile(rb'\{"jsonrpc": ?"2.0", ?"id": ?(\d+), ?"(?:result|error)"')
TYPESCRIPT_STYLE = re.compile(rb'"jsonrpc":"2.0","id":(\d+)\}\s*$')


class GoneError(Exception):
    """The server's output ended before the answer."""


class Pipe:
    """A server and the pipe to it. Times are counted from just before its start."""

    def __init__(self, argv: Sequence[str], cwd: str | None = None) -> None:
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout
        self.last_id = 0
        self.watchdog = threading.Timer(LIMIT, self.process.kill)
        self.watchdog.daemon = True
        self.watchdog.start()

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def send(self, method: str, params: object = None, *, answer: bool = True) -> int:
        """Send a request and return its id, or a notification if no answer is expected."""
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

    def echo_tool(self) -> str:
        """List the tools; return the last one that is an `echo`, whatever its prefix."""
        listed: Any = json.loads(self.request("tools/list"))
        names: list[str] = [tool["name"] for tool in listed["result"]["tools"]]
        return [name for name in names if name.endswith("echo")][-1]

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


def response_id(line: bytes) -> int | None:
    """Return the id of a response, found without parsing where servers usually write it."""
    found = PYTHON_STYLE.match(line) or TYPESCRIPT_STYLE.search(line, max(0, len(line) - 60))
    if found:
        return int(found[1])
    message: dict[str, Any] = json.loads(line)
    return message.get("id") if "method" not in message else None


class Entry:
    """A line of the process table."""

    def __init__(self, row: str) -> None:
        pid, parent, resident, self.args = row.split(None, 3)
        self.pid, self.parent, self.resident = int(pid), int(parent), int(resident) * 1024


def table() -> dict[int, Entry]:
    """Return the processes of the machine."""
    command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,rss=,args="]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {entry.pid: entry for entry in map(Entry, rows)}


def family(pid: int) -> dict[int, Entry]:
    """Return a process and its descendants."""
    everyone = table()
    found = {pid: everyone[pid]} if pid in everyone else {}
    size = 0
    while len(found) > size:
        size = len(found)
        found |= {entry.pid: entry for entry in everyone.values() if entry.parent in found}
    return found


def resident(pid: int) -> int:
    """Return the bytes that a server occupies, helpers included, but not the children it serves."""
    entries = family(pid).values()
    return sum(e.resident for e in entries if e.pid == pid or "echo.py" not in e.args)
