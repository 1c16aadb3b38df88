#!/usr/bin/env python3
"""Real servers of the SDK behind loopback ports, for tests.

Each line of its input, a JSON object of options, starts one more; it prints the URL of that:
    transport     "sse" or "http"
    stateless     true: no sessions
    json          true: an answer is one body, and no stream
    token         requests without `Authorization: Bearer TOKEN` are answered 401
    refuse        {method: HTTP status}
    big           so many characters of description
    mirrored      true: two more tools, whose argument `place` goes into a header as well: `at`,
                  and `odd`, for whose header there is no such name
    clinging      true: the end of a session (DELETE) is never answered
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer
from pydantic import Field
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Json = dict[str, Any]
Place = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Place"})]


class Guard:
    """Refuses requests as the options say."""

    def __init__(self, app: ASGIApp, options: Json) -> None:
        self.app = app
        self.options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Look at the whole body, then pass it on."""
        if scope.get("method") == "DELETE" and self.options.get("clinging"):
            await anyio.sleep_forever()
        if scope["type"] != "http" or scope["method"] not in ("GET", "POST"):
            return await self.app(scope, receive, send)
        body, first = b"", await receive()
        body += first.get("body", b"")
        while first.get("more_body"):
            first = await receive()
            body += first.get("body", b"")
        status = self.verdict(dict(scope["headers"]), body)
        if status:
            return await Response(status_code=status)(scope, receive, send)
        again: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return again.pop() if again else await receive()

        return await self.app(scope, replay, send)

    def verdict(self, headers: dict[bytes, bytes], body: bytes) -> int | None:
        """Return the status to refuse a request with."""
        token = self.options.get("token")
        if token and headers.get(b"authorization") != f"Bearer {token}".encode():
            return 401
        method = json.loads(body).get("method") if body else None
        status: int | None = self.options.get("refuse", {}).get(method)
        return status


def made(options: Json) -> ASGIApp:
    """Return the application of a server with these options."""
    server = MCPServer("remote", instructions="Far away.", log_level="ERROR")

    @server.tool(description="Adds. " + "x" * options.get("big", 0))
    def add(a: int, b: int) -> str:
        return str(a + b)

    @server.tool()
    def fail() -> str:
        """Fails."""
        raise ValueError("no")

    def at(place: Place) -> str:
        """Says where."""
        return place

    if options.get("mirrored"):
        server.add_tool(at)
        server.add_tool(at, name="odd")
        odd = server._tool_manager.get_tool("odd")  # the SDK would not take such a schema
        assert odd is not None
        odd.parameters["properties"]["place"]["x-mcp-header"] = "A place"
    if options["transport"] == "sse":
        return Guard(server.sse_app(), options)
    app = server.streamable_http_app(
        stateless_http=options.get("stateless", False), json_response=options.get("json", False)
    )
    return Guard(app, options)


async def main() -> None:
    """Serve until killed."""
    async with anyio.create_task_group() as serving:
        async for line in anyio.wrap_file(sys.stdin):
            options: Json = json.loads(line)
            listener = socket.create_server(("127.0.0.1", 0))
            path = "sse" if options["transport"] == "sse" else "mcp"
            print(f"http://127.0.0.1:{listener.getsockname()[1]}/{path}", flush=True)
            config = uvicorn.Config(made(options), log_level="error", timeout_graceful_shutdown=1)
            serving.start_soon(uvicorn.Server(config).serve, [listener])


if __name__ == "__main__":
    anyio.run(main)
