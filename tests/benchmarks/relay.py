"""The least that a proxy of this kind can do, as a limit to measure against.

    python3 relay.py bytes COMMAND …     passes what is read, unread: two threads, nothing else
    python3 relay.py lines COMMAND …     the same, but nothing of a line before its end has come
    python3 relay.py ids COMMAND …       cuts it into lines, and gives each request an id of its own

It knows one way to write messages, that of the client and the server of these benchmarks, and loses
its way with any other. It ends with its input.
"""

from __future__ import annotations

import os
import subprocess
import sys
from _thread import allocate_lock, start_new_thread
from collections.abc import Iterable

CHUNK = 1 << 16
BEFORE = b'{"jsonrpc":"2.0","id":'
BEHIND = b',"id":'


def pump(source: int, target: int) -> None:
    """Pass bytes on until they end."""
    while data := os.read(source, CHUNK):
        os.write(target, data)


def pump_lines(source: int, target: int) -> None:
    """Pass bytes on as soon as the line that they are of has ended."""
    kept: list[bytes] = []
    while data := os.read(source, CHUNK):
        kept.append(data)
        if data.endswith(b"\n"):
            for part in kept:
                os.write(target, part)
            kept.clear()


class Ids:
    """Replaces the ids of requests, and puts them back into the answers."""

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self.last = 0
        self.asked: dict[bytes, bytes] = {}

    def request(self, line: bytes) -> bytes:
        """Return a line of the client with an id of ours, if it has one, which stands last."""
        mark = line.rfind(BEHIND)
        if mark < 0:
            return line
        self.last += 1
        number = b"%d" % self.last
        self.asked[number] = line[mark + len(BEHIND) : -1]
        return line[: mark + len(BEHIND)] + number + b"}"

    def answer(self, line: bytes) -> bytes:
        """Return a line of the server with the id of the client, which stands first."""
        if not line.startswith(BEFORE):
            return line
        end = line.find(b",", len(BEFORE))
        return BEFORE + self.asked.pop(line[len(BEFORE) : end]) + line[end:]

    def replaced(self, lines: Iterable[bytes], *, answers: bool) -> list[bytes]:
        """Return lines that came at once with other ids."""
        with self.lock:
            return [self.answer(line) if answers else self.request(line) for line in lines]

    def pump(self, source: int, target: int, *, answers: bool) -> None:
        """Pass lines on until they end."""
        rest = b""
        while data := os.read(source, CHUNK):
            *lines, rest = (rest + data).split(b"\n")
            if lines:
                os.write(target, b"\n".join([*self.replaced(lines, answers=answers), b""]))


def main() -> None:
    """Start the server, and pass on what it and the client say."""
    how, *command = sys.argv[1:]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    requests, answers = server.stdin.fileno(), server.stdout.fileno()
    if how == "ids":
        ids = Ids()
        start_new_thread(lambda: ids.pump(answers, 1, answers=True), ())
        ids.pump(0, requests, answers=False)
    else:
        start_new_thread(pump_lines if how == "lines" else pump, (answers, 1))
        pump(0, requests)
    server.stdin.close()
    server.wait()


if __name__ == "__main__":
    main()
