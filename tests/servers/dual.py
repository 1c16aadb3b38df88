#!/usr/bin/env python3
"""A real server of the SDK over stdio that speaks both eras and offers all that there is.

    python3 dual.py [--fork]

With `--fork` it prints a port of this machine, and is forked for each connection there, which is
its standard input and output (see tap.py), until its own input ends: to import the SDK takes a
second.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import warnings
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any]
Page = types.PaginatedRequestParams | None

FORM: dict[str, Any] = {"type": "object", "properties": {"answer": {"type": "string"}}}
HELLO = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Hello"))
QUESTIONS: dict[str, types.InputRequest] = {
    "sample": types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[HELLO], max_tokens=9)
    ),
    "elicit": types.ElicitRequest(
        params=types.ElicitRequestFormParams(message="?", requested_schema=FORM)
    ),
    "roots": types.ListRootsRequest(),
}
TOOLS = ["echo", "error", "progress", "slow", *QUESTIONS, "log", "touch", "grow"]
RESOURCE = "res://one"

bus = InMemorySubscriptionBus()
tools = [*TOOLS]
watched: set[str] = set()


async def list_tools(_context: Context, _params: Page) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in tools]
    )


async def list_prompts(_context: Context, _params: Page) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[types.Prompt(name="hello")])


async def list_resources(_context: Context, _params: Page) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource(name="one", uri=RESOURCE)])


async def list_templates(_context: Context, _params: Page) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(name="any", uri_template="any://{id}")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def get_prompt(
    _context: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult:
    said = types.TextContent(type="text", text=params.name)
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])


async def read_resource(
    _context: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    contents = types.TextResourceContents(uri=params.uri, text=str(params.uri))
    return types.ReadResourceResult(contents=[contents])


async def complete(context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    """Complete; for the argument `ask` with what the client answers."""
    value = params.argument.value
    if params.argument.name == "ask":
        value = await asked(context, "sample")
    return types.CompleteResult(completion=types.Completion(values=[value]))


async def subscribe(_context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
    watched.add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(
    _context: Context, params: types.UnsubscribeRequestParams
) -> types.EmptyResult:
    watched.discard(str(params.uri))
    return types.EmptyResult()


async def set_level(_context: Context, _params: types.SetLevelRequestParams) -> types.EmptyResult:
    return types.EmptyResult()


def is_modern(context: Context) -> bool:
    """Whether a request came without a handshake."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


async def asked(context: Context, name: str) -> str:
    """Ask the client by a request; return its answer as JSON text."""
    session, related = context.session, context.request_id
    try:
        answer: Any = None
        if name == "sample":
            answer = await session.create_message([HELLO], max_tokens=9, related_request_id=related)
        elif name == "elicit":
            answer = await session.elicit_form("?", FORM, related)
        else:
            answer = await session.list_roots()
    except MCPError as refusal:
        return json.dumps({"code": refusal.error.code})
    return str(answer.model_dump_json(by_alias=True))


async def act(context: Context, name: str, arguments: dict[str, Any]) -> str:
    """Do what a tool does, and return its text."""
    session = context.session
    if name == "error":
        raise MCPError(1234, "wrong", {"a": 1})
    if name in ("progress", "slow"):
        await session.report_progress(1, 2)
    if name == "slow":
        await anyio.sleep_forever()
    if name == "log":
        await session.send_log_message("warning", "said", related_request_id=context.request_id)
    if name == "touch":
        await bus.publish(ResourceUpdated(uri=RESOURCE))
        if RESOURCE in watched:
            await session.send_resource_updated(RESOURCE)
    if name == "grow":
        tools.append("grown")
        await bus.publish(ToolsListChanged())
        if not is_modern(context):
            await session.send_tool_list_changed()
    return json.dumps(arguments)


async def call_tool(
    context: Context, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """Answer a call, in rounds where there is no other way to ask."""
    name = params.name
    if name in QUESTIONS and is_modern(context):
        if params.input_responses is None:
            question = {"q": QUESTIONS[name]}
            return types.InputRequiredResult(input_requests=question, request_state="mine")
        text = params.input_responses["q"].model_dump_json(by_alias=True)
    elif name in QUESTIONS:
        text = await asked(context, name)
    else:
        text = await act(context, name, params.arguments or {})
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def main() -> None:
    """Serve until the end of input."""
    server = Server(
        "dual",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_subscriptions_listen=ListenHandler(bus),
        on_completion=complete,
        on_set_logging_level=set_level,
    )
    offered = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(offered))


def is_connected() -> bool:
    """Fork for each connection; return whether this is the process of one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection:
                if not os.fork():  # type: ignore[attr-defined, unused-ignore] # none on Windows
                    for standard in (sys.stdin, sys.stdout):
                        os.dup2(connection.fileno(), standard.fileno())
                    return True
    return False


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # what one era has is deprecated in the other
    if "--fork" not in sys.argv or is_connected():
        anyio.run(main)
