"""The benchmarks' child of large results: a server of either era with one tool, `blob`.

    python3 blob.py legacy|modern

A call with {"size": N, "kind": "values"} gets a structured result of about N bytes, one with
"text" a text of so many; each is made once.
"""

from __future__ import annotations

import json
import sys
from functools import cache

META = "io.modelcontextprotocol/serverInfo"
INFO = {"name": "blob", "version": "1"}
TOOL = {"name": "blob", "inputSchema": {"type": "object"}}


@cache
def blob(size: int, kind: str, modern: bool) -> bytes:
    """Return the text of a result: rows of a table, as a database would give them, or one text."""
    text = "see the rows" if kind == "values" else "blob" * (size // 4)
    result: dict[str, object] = {"content": [{"type": "text", "text": text}]}
    if kind == "values":
        rows = [{"id": 10**9 + n, "name": f"row {n:09}", "ratio": n / 7} for n in range(size // 64)]
        result |= {"structuredContent": {"rows": rows}}
    if modern:
        result |= {"resultType": "complete", "_meta": {META: INFO}}
    return json.dumps(result, separators=(",", ":")).encode()


def answers(method: str, version: str, modern: bool) -> dict[str, object]:
    """Return the result of any other request."""
    told: dict[str, object] = {"resultType": "complete", "_meta": {META: INFO}} if modern else {}
    if method == "tools/list":
        return {"tools": [TOOL], "ttlMs": 1000, "cacheScope": "public", **told}
    if modern:
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **told}
    return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": INFO}


def main() -> None:
    """Serve until standard input ends."""
    modern = sys.argv[1] == "modern"
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        method, params = message["method"], message.get("params", {})
        head = b'{"jsonrpc":"2.0","id":' + json.dumps(message["id"]).encode()
        if method == "tools/call":
            said = b',"result":' + blob(**params["arguments"], modern=modern)
        elif modern and method == "initialize":
            said = b',"error":{"code":-32022,"message":"Unsupported protocol version"}'
        elif not modern and method == "server/discover":
            said = b',"error":{"code":-32601,"message":"Method not found"}'
        else:
            result = answers(method, params.get("protocolVersion", ""), modern)
            said = b',"result":' + json.dumps(result).encode()
        sys.stdout.buffer.write(head + said + b"}\n")
        sys.stdout.buffer.flush()


main()
