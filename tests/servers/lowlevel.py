#!/usr/bin/env python3
"""A real server of the SDK over stdio, with one tool, `add`: it speaks both eras."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

Context = ServerRequestContext[Any]


async def list_tools(_context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
    """Return the tool."""
    return ListToolsResult(tools=[Tool(name="add", input_schema={"type": "object"})])


async def call_tool(_context: Context, params: CallToolRequestParams) -> CallToolResult:
    """Return the sum of the arguments."""
    total = str(sum((params.arguments or {}).values()))
    return CallToolResult(content=[TextContent(type="text", text=total)])


async def main() -> None:
    """Serve until the end of input."""
    server = Server("sdk", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
