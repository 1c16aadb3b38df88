#!/usr/bin/env python3
"""The server that the conformance suite is run against: its fixtures, on the SDK.

    python3 reference.py            over stdio, in both eras
    python3 reference.py modern     over stdio, without a handshake
    python3 reference.py PORT       over streamable HTTP, at http://127.0.0.1:PORT/mcp

Names, arguments and texts are those that the scenarios of `@modelcontextprotocol/conformance` ask
for; what each is for is in its docstring, which is also what a client reads.
"""

from __future__ import annotations

import json
import sys
import warnings
from base64 import b64decode
from typing import Annotated, Any, cast

import anyio
from mcp.server import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    Completion,
    CompletionArgument,
    CompletionContext,
    ContentBlock,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    ErrorData,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    ListRootsRequest,
    ListRootsResult,
    PromptReference,
    ResourceTemplateReference,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

Json = dict[str, Any]
Asking = str | InputRequiredResult

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5Erk"
    "Jggg=="
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
STEP_SECONDS = 0.05
RECONNECT_SECONDS = 0.2
RETRY_MS = 100

server = MCPServer(
    "reference",
    version="1",
    request_state_security=RequestStateSecurity(keys=[b"of this fixture, and of nothing else"]),
    log_level="ERROR",
)


class Events(EventStore):
    """The events of all streams, in memory, so that a broken stream can be resumed."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep an event; its id is its place."""
        self._events.append((stream_id, message))
        return str(len(self._events) - 1)

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        """Send what came later on the stream of an event."""
        last = int(last_event_id)
        if last >= len(self._events):
            return None
        stream = self._events[last][0]
        for index, (one, message) in enumerate(self._events[last + 1 :], last + 1):
            if one == stream and message is not None:
                await send_callback(EventMessage(message, str(index)))
        return stream


def said(text: str) -> TextContent:
    """Return a text."""
    return TextContent(type="text", text=text)


def resource(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    """Return a resource that stands in a result."""
    contents = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=contents)


def user(content: ContentBlock) -> UserMessage:
    """Return a message of a prompt."""
    return UserMessage(role="user", content=content)


# Tools that only answer


@server.tool()
def test_simple_text() -> str:
    """Text."""
    return "This is a simple text response for testing."


@server.tool()
def test_image_content() -> list[ImageContent]:
    """An image."""
    return [ImageContent(type="image", data=PNG, mime_type="image/png")]


@server.tool()
def test_audio_content() -> list[AudioContent]:
    """A sound."""
    return [AudioContent(type="audio", data=WAV, mime_type="audio/wav")]


@server.tool()
def test_embedded_resource() -> list[EmbeddedResource]:
    """A resource within a result."""
    text = "This is an embedded resource content."
    return [resource("test://embedded-resource", "text/plain", text)]


@server.tool()
def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Text, an image and a resource."""
    return [
        said("Multiple content types test:"),
        ImageContent(type="image", data=PNG, mime_type="image/png"),
        resource(
            "test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}'
        ),
    ]


@server.tool()
def test_error_handling() -> str:
    """An error of the tool."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool()
def test_x_mcp_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "<none>",
) -> str:
    """An argument that clients repeat in a header (SEP-2243)."""
    return f"region={region}"


@server.tool()
def json_schema_2020_12_tool() -> str:
    """Keywords of JSON Schema 2020-12 that a list must keep (SEP-1613)."""
    return "json_schema_2020_12_tool"


# The SDK would not take it from a function's signature.
server._tool_manager._tools["json_schema_2020_12_tool"].parameters = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


# Tools that tell or ask something meanwhile


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Three log messages."""
    for text in ("started", "processing data", "completed"):
        await ctx.info(f"Tool execution {text}")
        await anyio.sleep(STEP_SECONDS)
    return "Tool with logging executed successfully"


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Three reports of progress."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(STEP_SECONDS)
    return "done"


@server.tool()
async def test_reconnection(ctx: Context) -> str:
    """Closes the stream of the call before it answers (SEP-1699)."""
    await ctx.info("Before disconnect")
    await ctx.close_sse_stream()
    await anyio.sleep(RECONNECT_SECONDS)
    await ctx.info("After reconnect")
    return "Reconnection test completed"


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Asks the client's model."""
    answer = await ctx.session.create_message(
        messages=[SamplingMessage(role="user", content=said(prompt))],
        max_tokens=100,
        related_request_id=ctx.request_id,
    )
    return f"LLM response: {cast('TextContent', answer.content).text}"


class Response(BaseModel):
    """A word of the user."""

    response: str = Field(description="User's response")


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the user."""
    answer = await ctx.elicit(message, Response)
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return f"User response: action={answer.action}, content={content}"


class Defaults(BaseModel):
    """A default for each primitive type (SEP-1034)."""

    name: str = Field(default="John Doe")
    age: int = Field(default=30)
    score: float = Field(default=95.5)
    status: str = Field(
        default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]}
    )
    verified: bool = Field(default=True)


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks the user, with defaults."""
    answer = await ctx.elicit("Please provide user information", Defaults)
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return f"Elicitation result: action={answer.action}, content={content}"


def titled(**titles: str) -> list[Json]:
    """Return a choice with titles."""
    return [{"const": value, "title": title} for value, title in titles.items()]


class Choices(BaseModel):
    """A choice in each form (SEP-1330)."""

    untitledSingle: str = Field(json_schema_extra={"enum": ["active", "inactive", "pending"]})
    titledSingle: str = Field(
        json_schema_extra={"oneOf": cast("Any", titled(low="Low Priority", high="High Priority"))}
    )
    untitledMulti: list[str] = Field(
        json_schema_extra={"items": {"type": "string", "enum": ["read", "write", "execute"]}}
    )
    titledMulti: list[str] = Field(
        json_schema_extra={
            "items": {"anyOf": cast("Any", titled(feature="New Feature", bug="Bug Fix"))}
        }
    )
    legacyEnum: str = Field(
        json_schema_extra={"enum": ["small", "large"], "enumNames": ["Small Size", "Large Size"]}
    )


@server.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks the user to choose."""
    answer = await ctx.elicit("Please select values", Choices)
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return f"Elicitation completed: action={answer.action}, content={content}"


@server.tool()
async def test_missing_capability(ctx: Context) -> str:
    """Wants a client that can sample, and says so by an error of the protocol."""
    able = ctx.session.client_capabilities
    if able is None or able.sampling is None:
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="This tool requires the client 'sampling' capability",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return "Client declared sampling capability; proceeding."


# Results that require input (SEP-2322)


def form(message: str, name: str, kind: str = "string") -> ElicitRequest:
    """Return a question for one value."""
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(text: str) -> CreateMessageRequest:
    """Return a question for the client's model."""
    message = SamplingMessage(role="user", content=said(text))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[message], max_tokens=100)
    )


def given(ctx: Context, key: str, name: str) -> str | None:
    """Return the value that a form was filled in with, None if it was not."""
    answer = (ctx.input_responses or {}).get(key)
    if not isinstance(answer, ElicitResult) or not answer.content:
        return None
    value = answer.content.get(name)
    return None if value is None else str(value)


@server.tool()
async def test_input_required_result_elicitation(ctx: Context) -> Asking:
    """Asks the user."""
    name = given(ctx, "user_name", "name")
    if name is not None:
        return f"Hello, {name}!"
    return InputRequiredResult(input_requests={"user_name": form("What is your name?", "name")})


@server.tool()
async def test_input_required_result_sampling(ctx: Context) -> Asking:
    """Asks the client's model."""
    answer = (ctx.input_responses or {}).get("capital_question")
    if isinstance(answer, CreateMessageResult):
        return f"Model said: {cast('TextContent', answer.content).text}"
    question = sample("What is the capital of France?")
    return InputRequiredResult(input_requests={"capital_question": question})


@server.tool()
async def test_input_required_result_list_roots(ctx: Context) -> Asking:
    """Asks for the client's roots."""
    answer = (ctx.input_responses or {}).get("client_roots")
    if isinstance(answer, ListRootsResult):
        return f"Client exposed {len(answer.roots)} root(s)."
    return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})


@server.tool()
async def test_input_required_result_request_state(ctx: Context) -> Asking:
    """Has a state that the client gives back."""
    if given(ctx, "confirm", "ok") and ctx.request_state == "nonce":
        return "state-ok: confirmation received"
    confirm = form("Please confirm", "ok", "boolean")
    return InputRequiredResult(input_requests={"confirm": confirm}, request_state="nonce")


@server.tool()
async def test_input_required_result_multiple_inputs(ctx: Context) -> Asking:
    """Asks for three things at once."""
    if {"user_name", "greeting", "client_roots"} <= (ctx.input_responses or {}).keys():
        return "All inputs received."
    return InputRequiredResult(
        input_requests={
            "user_name": form("What is your name?", "name"),
            "greeting": sample("Generate a greeting"),
            "client_roots": ListRootsRequest(),
        },
        request_state="multiple-inputs",
    )


@server.tool()
async def test_input_required_result_multi_round(ctx: Context) -> Asking:
    """Asks twice, with another state each time."""
    state = json.loads(ctx.request_state or "{}")
    name, color = given(ctx, "step1", "name"), given(ctx, "step2", "color")
    if "name" in state and color is not None:
        return f"{state['name']} likes {color}."
    if name is not None:
        question = form("Step 2: What is your favorite color?", "color")
        return InputRequiredResult(
            input_requests={"step2": question}, request_state=json.dumps({"name": name})
        )
    question = form("Step 1: What is your name?", "name")
    return InputRequiredResult(input_requests={"step1": question}, request_state='{"round": 1}')


@server.tool()
async def test_input_required_result_tampered_state(ctx: Context) -> Asking:
    """Has a state that a client must not change; the SDK sees to that."""
    if ctx.request_state is not None:
        return f"state-ok: {ctx.request_state}"
    confirm = form("Please confirm", "ok", "boolean")
    return InputRequiredResult(input_requests={"confirm": confirm}, request_state="round-1")


@server.tool()
async def test_input_required_result_capabilities(ctx: Context) -> InputRequiredResult:
    """Asks only what the client can answer."""
    able = ctx.client_capabilities
    requests: dict[str, InputRequest] = {}
    if able is None or able.sampling is not None:
        requests["sample"] = sample("Say hello")
    if able is None or able.elicitation is not None:
        requests["ask"] = form("What is your name?", "name")
    return InputRequiredResult(input_requests=requests, request_state="capability-gated")


@server.tool()
async def test_streaming_elicitation(ctx: Context) -> Asking:
    """Asks the user, in a stream."""
    await ctx.report_progress(1, 2)
    return InputRequiredResult(input_requests={"user_name": form("What is your name?", "name")})


@server.tool()
async def test_logging_tool(ctx: Context) -> str:
    """Logs, where a client wants that."""
    await ctx.info("logged")
    return "done"


# Tools that change a list


def passing() -> str:
    """Come and go."""
    return "passing"


@server.tool()
async def test_trigger_tool_change(ctx: Context) -> str:
    """Announces a change of the tools."""
    server.add_tool(passing, name="test_dynamic_tool")
    server.remove_tool("test_dynamic_tool")
    await ctx.notify_tools_changed()
    return "tool list changed"


@server.tool()
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Announces a change of the prompts."""
    server.add_prompt(Prompt.from_function(passing, name="test_dynamic_prompt"))
    server.remove_prompt("test_dynamic_prompt")
    await ctx.notify_prompts_changed()
    return "prompt list changed"


# Resources


@server.resource("test://static-text")
def static_text() -> str:
    """Text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary")
def static_binary() -> bytes:
    """Bytes."""
    return b64decode(PNG)


@server.resource("test://watched-resource")
def watched() -> str:
    """What clients subscribe to."""
    return "Watched resource content"


@server.resource("test://template/{id}/data")
def template(id: str) -> str:
    """Any of many."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


# Prompts


@server.prompt()
def test_simple_prompt() -> list[UserMessage]:
    """Without arguments."""
    return [user(said("This is a simple prompt for testing."))]


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
    """With arguments."""
    return [user(said(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))]


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    """With a resource."""
    embedded = resource(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [user(embedded), user(said("Please process the embedded resource above."))]


@server.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    """With an image."""
    image = ImageContent(type="image", data=PNG, mime_type="image/png")
    return [user(image), user(said("Please analyze the image above."))]


@server.prompt()
async def test_input_required_result_prompt(
    ctx: Context,
) -> list[UserMessage] | InputRequiredResult:
    """Asks the user before it is there."""
    context = given(ctx, "user_context", "context")
    if context is not None:
        return [user(said(f"Use the following context: {context}"))]
    question = form("What context should the prompt use?", "context")
    return InputRequiredResult(input_requests={"user_context": question})


# Methods that the SDK leaves to its users


async def complete(
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    context: CompletionContext | None,
) -> Completion:
    """Complete nothing."""
    return Completion(values=[], total=0, has_more=False)


server.completion()(complete)  # type: ignore[no-untyped-call]


async def accept(_: ServerRequestContext, __: object) -> EmptyResult:
    """Say yes."""
    return EmptyResult()


for method, params in (
    ("logging/setLevel", SetLevelRequestParams),
    ("resources/subscribe", SubscribeRequestParams),
    ("resources/unsubscribe", UnsubscribeRequestParams),
):
    server._lowlevel_server.add_request_handler(method, params, accept)


async def run_modern() -> None:
    """Serve over stdio and refuse handshakes: who speaks both eras is else spoken to with one."""
    answering = server._lowlevel_server
    accepted, heard = anyio.create_memory_object_stream[SessionMessage | Exception]()
    async with stdio_server() as (read, write), anyio.create_task_group() as tasks:

        async def listen() -> None:
            async with accepted:
                async for said in read:
                    asked = said.message if isinstance(said, SessionMessage) else None
                    if isinstance(asked, JSONRPCRequest) and asked.method == "initialize":
                        no = ErrorData(code=METHOD_NOT_FOUND, message="Method not found")
                        refusal = JSONRPCError(jsonrpc="2.0", id=asked.id, error=no)
                        await write.send(SessionMessage(refusal))
                    else:
                        await accepted.send(said)

        tasks.start_soon(listen)
        await answering.run(heard, write, answering.create_initialization_options())


def main() -> None:
    """Serve until killed, or until the end of input."""
    how = sys.argv[1] if len(sys.argv) > 1 else "stdio"
    if how == "stdio":
        server.run("stdio")
    elif how == "modern":
        anyio.run(run_modern)
    else:
        server.run("streamable-http", port=int(how), event_store=Events(), retry_interval=RETRY_MS)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # what one era has is deprecated in the other
    main()
