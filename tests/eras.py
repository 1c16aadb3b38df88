"""Clients of every era, which all do the same through the library that is theirs.

Each answers what it is asked in the same way: a sampling with "sampled", a form with "elicited",
and its roots are one, file:///root. `SdkClient` is the Python SDK's, `RawClient` one without a
library, `NodeClient` that of the TypeScript SDK (servers/client.mjs).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from anyio.from_thread import start_blocking_portal
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.subscriptions import Subscription
from wire import ENVELOPE, MODERN, TIMEOUT, Json, Line, Wire, enveloped, initialize, text

ARGUMENTS = {"uri": "res://one"}
CAPABILITIES: Json = {"sampling": {}, "elicitation": {}, "roots": {}}
ANSWERS: Json = {
    "sampling/createMessage": {
        "role": "assistant",
        "model": "none",
        "content": {"type": "text", "text": "sampled"},
    },
    "elicitation/create": {"action": "accept", "content": {"answer": "elicited"}},
    "roots/list": {"roots": [{"uri": "file:///root"}]},
}
ELICITS_SINCE = "2025-06-18"


class CallError(Exception):
    """A request was answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code


class RawClient:
    """A client of one revision that writes its own lines."""

    def __init__(self, command: list[str], version: str) -> None:
        self.version = version
        self.wire = Wire(command)
        self.capabilities = dict(CAPABILITIES)
        if version < ELICITS_SINCE:
            del self.capabilities["elicitation"]

    def close(self) -> None:
        """End the server."""
        self.wire.close()

    def connect(self) -> None:
        """Shake hands, or ask who is there."""
        if self.version == MODERN:
            self.ask("server/discover", {})
        else:
            info = {"name": "raw", "version": "1"}
            found = initialize(self.wire, self.version, self.capabilities, info)
            assert found["protocolVersion"] == self.version

    def start(self, method: str, params: Json, **meta: Any) -> Any:
        """Send a request; return its id."""
        if self.version == MODERN:
            params = enveloped(params, self.capabilities, **meta)
        elif meta:
            params = {**params, "_meta": meta}
        return self.wire.start_request(method, params)

    def ask(self, method: str, params: Json, **meta: Any) -> Json:
        """Send a request and answer whatever is asked meanwhile; return the result."""
        number = self.start(method, params, **meta)
        while True:
            wanted = partial(_is_for, number)
            message = self.wire.take(wanted).message
            if "method" in message:
                self.wire.answer(message, ANSWERS[message["method"]])
            elif "error" in message:
                raise CallError(message["error"]["code"], message["error"]["message"])
            elif message["result"].get("resultType") == "input_required":
                required = message["result"]
                answers = {
                    key: ANSWERS[one["method"]] for key, one in required["inputRequests"].items()
                }
                more = {"inputResponses": answers, "requestState": required["requestState"]}
                number = self.start(method, {**params, **more}, **meta)
            else:
                result: Json = message["result"]
                return result

    def names(self) -> dict[str, list[str]]:
        """Return what is listed, by what it is known by."""
        return {
            "tools": [one["name"] for one in self.ask("tools/list", {})["tools"]],
            "prompts": [one["name"] for one in self.ask("prompts/list", {})["prompts"]],
            "resources": [one["uri"] for one in self.ask("resources/list", {})["resources"]],
            "templates": [
                one["uriTemplate"]
                for one in self.ask("resources/templates/list", {})["resourceTemplates"]
            ],
        }

    def call(self, tool: str, **meta: Any) -> str:
        """Return the text of a tool's answer."""
        params = {"name": tool, "arguments": ARGUMENTS}
        return text({"result": self.ask("tools/call", params, **meta)})

    def get(self, prompt: str) -> str:
        """Return a prompt as text."""
        return json.dumps(self.ask("prompts/get", {"name": prompt})["messages"])

    def read(self, uri: str) -> str:
        """Return a resource as text."""
        return json.dumps(self.ask("resources/read", {"uri": uri})["contents"])

    def complete(self, prompt: str, argument: str) -> str:
        """Return how an argument of a prompt may go on."""
        params = {
            "ref": {"type": "ref/prompt", "name": prompt},
            "argument": {"name": argument, "value": "v"},
        }
        return "".join(self.ask("completion/complete", params)["completion"]["values"])

    def progress(self, tool: str) -> list[float]:
        """Return the progress of a call."""
        self.call(tool, progressToken="p")
        return [self._next_progress("p")]

    def _next_progress(self, token: str) -> float:
        """Return the next progress of what goes by a token."""

        def wanted(line: Line) -> bool:
            params = line.message.get("params", {})
            return bool(params.get("progressToken") == token)

        return float(self.wire.take(wanted, what="progress").message["params"]["progress"])

    def cancel(self, tool: str) -> str:
        """Cancel a call once it is known to be worked on."""
        number = self.start("tools/call", {"name": tool, "arguments": {}}, progressToken="c")
        self._next_progress("c")
        self.wire.notify("notifications/cancelled", {"requestId": number})
        self.call("one:echo")
        answers = [message for message in self.wire.messages() if message.get("id") == number]
        return "answered" if answers else "cancelled"

    def log(self, tool: str) -> str:
        """Return the level of what is logged in a call."""
        if self.version == MODERN:
            self.call(tool, logLevel="info")
        else:
            self.ask("logging/setLevel", {"level": "info"})
            self.call(tool)
        return str(self.wire.next_notification("notifications/message")["params"]["level"])

    def watch(self, tool: str, uri: str) -> str:
        """Return the URI of which there is news after a call."""
        method = "notifications/resources/updated"
        if self.version == MODERN:
            return str(self._heard({"resourceSubscriptions": [uri]}, tool, method)["uri"])
        self.ask("resources/subscribe", {"uri": uri})
        self.call(tool)
        params = self.wire.next_notification(method)["params"]
        self.ask("resources/unsubscribe", {"uri": uri})
        return str(params["uri"])

    def change(self, tool: str) -> list[str]:
        """Return the tools after a call that changes them, once they are said to be others."""
        method = "notifications/tools/list_changed"
        if self.version == MODERN:
            self._heard({"toolsListChanged": True}, tool, method)
        else:
            self.call(tool)
            self.wire.next_notification(method)
        return self.names()["tools"]

    def _heard(self, wanted: Json, tool: str, method: str) -> Json:
        """Return the params of the first news on a subscription after a call."""
        number = self.start("subscriptions/listen", {"notifications": wanted})
        self.wire.next_notification("notifications/subscriptions/acknowledged")
        self.call(tool)
        params: Json = self.wire.next_notification(method)["params"]
        assert params["_meta"] == {ENVELOPE["subscriptionId"]: number}
        self.wire.notify("notifications/cancelled", {"requestId": number})
        return params


def _is_for(number: Any, line: Line) -> bool:
    """Whether a line is the answer to a request, or a question."""
    message = line.message
    return "id" in message and ("method" in message or message["id"] == number)


class SdkClient:
    """The Python SDK's client, in a thread of its own."""

    def __init__(self, command: list[str], mode: str) -> None:
        self.mode = mode
        self.heard: list[Any] = []
        self.news = anyio.Event()
        self.exits = ExitStack()
        self.client = Client(
            StdioServerParameters(command=command[0], args=command[1:]),
            mode=mode,
            sampling_callback=self._sample,
            elicitation_callback=self._elicit,
            list_roots_callback=self._roots,
            logging_callback=self._note,
            message_handler=self._hear,
        )

    @property
    def is_modern(self) -> bool:
        """Whether it found that it can do without a handshake."""
        return self.client.protocol_version == MODERN

    async def _sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        return types.CreateMessageResult.model_validate(ANSWERS["sampling/createMessage"])

    async def _elicit(self, context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult.model_validate(ANSWERS["elicitation/create"])

    async def _roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate(ANSWERS["roots/list"])

    async def _note(self, params: types.LoggingMessageNotificationParams) -> None:
        await self._hear(params)

    async def _hear(self, message: Any) -> None:
        self.heard.append(message)
        self.news.set()

    async def _next(self, kind: type[Any]) -> Any:
        """Wait for a notification."""
        with anyio.fail_after(TIMEOUT):
            while True:
                for message in self.heard:
                    if isinstance(message, kind):
                        self.heard.remove(message)
                        return message
                self.news = anyio.Event()
                await self.news.wait()

    def _do(self, action: Callable[..., Awaitable[Any]], *given: Any) -> Any:
        async def bounded() -> Any:
            with anyio.fail_after(2 * TIMEOUT):
                return await action(*given)

        try:
            return self.portal.call(bounded)
        except MCPError as error:
            raise CallError(error.error.code, error.error.message) from error

    def close(self) -> None:
        """End the server."""
        self.exits.close()

    def connect(self) -> None:
        """Connect as the mode says."""
        self.portal = self.exits.enter_context(start_blocking_portal())
        self.exits.enter_context(self.portal.wrap_async_context_manager(self.client))

    def names(self) -> dict[str, list[str]]:
        return self._do(self._names)  # type: ignore[no-any-return]

    async def _names(self) -> dict[str, list[str]]:
        templates = await self.client.list_resource_templates()
        return {
            "tools": [one.name for one in (await self.client.list_tools()).tools],
            "prompts": [one.name for one in (await self.client.list_prompts()).prompts],
            "resources": [str(one.uri) for one in (await self.client.list_resources()).resources],
            "templates": [one.uri_template for one in templates.resource_templates],
        }

    def call(self, tool: str) -> str:
        return str(self._do(self._call, tool))

    async def _call(self, tool: str, **more: Any) -> str:
        result = await self.client.call_tool(tool, dict(ARGUMENTS), **more)
        return "".join(getattr(block, "text", "") for block in result.content)

    def get(self, prompt: str) -> str:
        return str(self._do(self.client.get_prompt, prompt).model_dump_json())

    def read(self, uri: str) -> str:
        return str(self._do(self.client.read_resource, uri).model_dump_json())

    def complete(self, prompt: str, argument: str) -> str:
        reference = types.PromptReference(name=prompt)
        given = {"name": argument, "value": "v"}
        return "".join(self._do(self.client.complete, reference, given).completion.values)

    def progress(self, tool: str) -> list[float]:
        return list(self._do(self._progress, tool))

    async def _progress(self, tool: str) -> list[float]:
        found: list[float] = []
        noted = anyio.Event()

        async def note(progress: float, *_: Any) -> None:
            found.append(progress)
            noted.set()

        await self._call(tool, progress_callback=note)
        await noted.wait()  # the answer may overtake it on the last steps
        return found

    def cancel(self, tool: str) -> str:
        return str(self._do(self._cancel, tool))

    async def _cancel(self, tool: str) -> str:
        started = anyio.Event()
        ended: list[str] = []

        async def note(*_: Any) -> None:
            started.set()

        async def call() -> None:
            ended.append(await self._call(tool, progress_callback=note))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await started.wait()
            group.cancel_scope.cancel()
        await self._call("one:echo")
        return "answered" if ended else "cancelled"

    def log(self, tool: str) -> str:
        return str(self._do(self._log, tool))

    async def _log(self, tool: str) -> str:
        if self.is_modern:
            await self._call(tool, meta={ENVELOPE["logLevel"]: "info"})
        else:
            await self.client.set_logging_level("info")
            await self._call(tool)
        params = await self._next(types.LoggingMessageNotificationParams)
        return str(params.level)

    @asynccontextmanager
    async def _listening(self, **wanted: Any) -> AsyncIterator[Subscription | None]:
        if self.is_modern:
            async with self.client.listen(**wanted) as stream:
                yield stream
        else:
            yield None

    def watch(self, tool: str, uri: str) -> str:
        return str(self._do(self._watch, tool, uri))

    async def _watch(self, tool: str, uri: str) -> str:
        async with self._listening(resource_subscriptions=[uri]) as stream:
            if stream is not None:
                await self._call(tool)
                return str((await anext(stream)).uri)  # type: ignore[union-attr]
            await self.client.subscribe_resource(uri)
            await self._call(tool)
            news = await self._next(types.ResourceUpdatedNotification)
            await self.client.unsubscribe_resource(uri)
            return str(news.params.uri)

    def change(self, tool: str) -> list[str]:
        return list(self._do(self._change, tool))

    async def _change(self, tool: str) -> list[str]:
        async with self._listening(tools_list_changed=True) as stream:
            await self._call(tool)
            if stream is None:
                await self._next(types.ToolListChangedNotification)
            else:
                await anext(stream)
            return (await self._names())["tools"]


class Node:
    """A process of the TypeScript SDK that is told what to do, with one server after the other."""

    def __init__(self, folder: Path, generation: str, mode: str) -> None:
        self._process = subprocess.Popen(
            ["node", "client.mjs", generation, mode],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, *what: Any) -> Any:
        """Have something done; return the outcome."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(what)}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise CallError(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def end(self) -> None:
        """End the process."""
        self._process.communicate(timeout=TIMEOUT)


class NodeClient:
    """The TypeScript SDK's client."""

    def __init__(self, command: list[str], node: Node) -> None:
        self._command = command
        self._do = node.do

    def close(self) -> None:
        """Have it end the server."""
        self._do("close")

    def connect(self) -> None:
        self._do("connect", *self._command)

    def names(self) -> dict[str, list[str]]:
        return dict(self._do("names"))

    def call(self, tool: str) -> str:
        return str(self._do("call", tool))

    def get(self, prompt: str) -> str:
        return str(self._do("get", prompt))

    def read(self, uri: str) -> str:
        return str(self._do("read", uri))

    def complete(self, prompt: str, argument: str) -> str:
        return str(self._do("complete", prompt, argument))

    def progress(self, tool: str) -> list[float]:
        return list(self._do("progress", tool))

    def cancel(self, tool: str) -> str:
        outcome = str(self._do("cancel", tool))
        self.call("one:echo")
        return outcome

    def log(self, tool: str) -> str:
        return str(self._do("log", tool))

    def watch(self, tool: str, uri: str) -> str:
        return str(self._do("watch", tool, uri))

    def change(self, tool: str) -> list[str]:
        return list(self._do("change", tool))


AnyClient = RawClient | SdkClient | NodeClient
