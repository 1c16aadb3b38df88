#!/usr/bin/env python3
"""An MCP server over stdio with a tool, `echo`, that survives any input and writes any output.

    python3 chatter.py [FILE]

Each call of `echo` writes as many lines of FILE as its argument `lines` says, from where the last
one ended, before it answers with its arguments as JSON text. Standard library only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

NAME = sys.argv[1].rpartition("/")[2] if sys.argv[1:] else ""
TOOL = {"name": "echo", "inputSchema": {"type": "object"}}
LISTS = {
    "tools/list": {"tools": [TOOL]},
    "prompts/list": {"prompts": [{"name": "hello"}]},
    "resources/list": {"resources": [{"name": "r", "uri": f"file:///{NAME}"}]},
    "resources/templates/list": {
        "resourceTemplates": [{"name": "t", "uriTemplate": f"file:///{NAME}/{{a}}"}]
    },
}
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "completions": {}, "logging": {}},
    "serverInfo": {"name": "chatter", "version": "1"},
}


def answer(message: dict[str, Any], prepared: Iterator[bytes]) -> object:
    """Return the result of a request."""
    if message["method"] == "initialize":
        return HELLO
    if message["method"] in LISTS:
        return LISTS[message["method"]]
    given = message["params"].get("arguments")
    lines = given.get("lines", 0) if isinstance(given, dict) else 0
    if isinstance(lines, int) and lines > 0:
        sys.stdout.buffer.writelines(islice(prepared, lines))
    return {"content": [{"type": "text", "text": json.dumps(given)}]}


def main() -> None:
    """Serve until the end of input."""
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    prepared: Iterator[bytes] = iter(())
    if sys.argv[1:]:
        prepared = open(sys.argv[1], "rb")  # noqa: SIM115
    for line in sys.stdin.buffer:
        with suppress(ValueError, TypeError, LookupError, AttributeError, RecursionError):
            message = json.loads(line)
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message, prepared)}
            sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
