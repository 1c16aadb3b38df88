#!/usr/bin/env python3
"""Runs a server over stdio and writes down every line that passes, for tests.

    python3 tap.py LOG COMMAND [arguments]
    python3 tap.py LOG --connect PORT

The second form is for a server that runs already, at a port of this machine (see dual.py).
LOG gets a JSON line for each, in the order in which they passed: {"pid": of the tap, "from":
"client" | "server", "line": text}. Nothing is changed, and the end of either side is passed on.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import IO


def copy(source: IO[bytes], target: IO[bytes], log: int, sender: str) -> None:
    """Copy lines until there are no more; a target that is gone gets none."""
    for raw in iter(source.readline, b""):
        line = raw.decode("utf-8", "backslashreplace").rstrip("\n")
        row = json.dumps({"pid": os.getpid(), "from": sender, "line": line})
        os.write(
            log, f"{row}\n".encode()
        )  # before it is sent: what follows from it is written later
        try:
            target.write(raw)
            target.flush()
        except OSError:
            continue
    with suppress(OSError):
        target.close()


def pass_on(server: IO[bytes], answers: IO[bytes], log: int, end: Callable[[], None]) -> None:
    """Copy both ways until the server has no more to say; `end` is called once the client has."""

    def listen() -> None:
        copy(sys.stdin.buffer, server, log, "client")
        end()

    Thread(target=listen, daemon=True).start()
    copy(answers, sys.stdout.buffer, log, "server")


def run(command: list[str], log: int) -> int:
    """Run a server until it ends; return its status."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        pass_on(server.stdin, server.stdout, log, lambda: None)
        return server.wait()


def connect(port: int, log: int) -> int:
    """Speak with the server at a port until it ends; return 0."""
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines, answers = server.makefile("wb"), server.makefile("rb")
        pass_on(lines, answers, log, lambda: server.shutdown(socket.SHUT_WR))
    return 0


def main() -> None:
    """Pass on all that is said until the server ends; exit as it does."""
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    first, *rest = sys.argv[2:]
    status = connect(int(rest[0]), log) if first == "--connect" else run([first, *rest], log)
    os._exit(status if status >= 0 else 1)  # the thread may be reading for ever


if __name__ == "__main__":
    main()
