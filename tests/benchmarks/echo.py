"""The benchmarks' child: an MCP server with ten or more tools that all echo, standard library only.

    python3 echo.py [SECONDS [up=FILE [TOOLS]]]

It takes SECONDS to start, and adds a line with the time to FILE when its client has said
`initialized`: then it is up. (A path alone would be part of what a peer pins, which it changes.)
"""

from __future__ import annotations

import json
import sys
import time

NAMES = ("again", "echo", "mirror", "parrot", "repeat", "reply", "return", "same", "twin", "very")
COUNT = int(sys.argv[3]) if sys.argv[3:] else len(NAMES)
TOOLS = [
    {
        "name": name,
        "description": f"Return the text: {name}. " + "It is given back as it was. " * 7,
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "What to return"}},
            "required": ["text"],
        },
    }
    for name in (*NAMES, *(f"tool{number}" for number in range(len(NAMES), COUNT)))
]
"""About 400 bytes each, which is what real ones have."""


def result(method: str, params: dict[str, object]) -> dict[str, object] | None:
    """Answer one request; None if the method is not known."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        arguments = params["arguments"]
        assert isinstance(arguments, dict)
        return {"content": [{"type": "text", "text": arguments["text"]}]}
    return {} if method == "ping" else None


def main() -> None:
    """Serve until the end of input."""
    time.sleep(float(sys.argv[1]) if sys.argv[1:] else 0)
    output = sys.stdout.buffer
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message:
            answer = result(message["method"], message.get("params") or {})
            unknown = {"code": -32601, "message": "Method not found"}
            told = {"error": unknown} if answer is None else {"result": answer}
            reply = {"jsonrpc": "2.0", "id": message["id"], **told}
            output.write(json.dumps(reply, separators=(",", ":")).encode() + b"\n")
            output.flush()
        elif message["method"] == "notifications/initialized" and sys.argv[2:]:
            with open(sys.argv[2].removeprefix("up="), "a", encoding="ascii") as file:
                file.write(f"{time.monotonic()}\n")


if __name__ == "__main__":
    main()
