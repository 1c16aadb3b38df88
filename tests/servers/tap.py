#!/usr/bin/env python3
"""Runs a server over stdio and writes down every line that passes, for tests.

    python3 tap.py LOG COMMAND [arguments]

LOG gets a JSON line for each, in the order in which they passed: {"pid": of the tap, "from":
"client" | "server", "line": text}. Nothing is changed, and the end of either side is passed on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


def main() -> None:
    """Run the server until it ends; exit as it does."""
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    pipe = subprocess.PIPE
    with subprocess.Popen(sys.argv[2:], stdin=pipe, stdout=pipe) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        ears = (sys.stdin.buffer, server.stdin, log, "client")
        Thread(target=copy, args=ears, daemon=True).start()
        copy(server.stdout, sys.stdout.buffer, log, "server")
        status = server.wait()
    os._exit(status if status >= 0 else 1)  # the thread may be reading for ever


if __name__ == "__main__":
    main()
