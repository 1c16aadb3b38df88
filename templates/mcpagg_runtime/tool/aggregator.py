"""The proxy within a Python program: `from server import Aggregator`, on asyncio.

It is one more client of the engine, in this process. asyncio is imported by its methods alone, as
the command line, which is of the same part, does without it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from mcpagg_runtime.base.answers import Answers
from mcpagg_runtime.base.client import Client
from mcpagg_runtime.base.jsontext import obj
from mcpagg_runtime.base.protocol import CANCELLED
from mcpagg_runtime.serve.engine import Engine
from mcpagg_runtime.serve.messages import notification, request
from mcpagg_runtime.serve.needs import unset

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.base.plan import Plan


class CallFailed(Exception):
    """Raised for an error that a call was answered with.

    `server` is whose tool was called, "" if nobody has it; `code`, `message` and `data` are the
    error as it came.
    """

    def __init__(self, server: str, error: Mapping[str, Any]) -> None:
        self.server = server
        self.code = error.get("code")
        self.message = str(error.get("message"))
        self.data = error.get("data")
        # An error of the proxy's own says already which server it is about.
        is_named = not server or (type(self.data) is dict and self.data.get("server") == server)
        super().__init__(self.message if is_named else f"server '{server}': {self.message}")


class ProxyAggregator:
    """The servers of an emitted file, behind one object.

    Entered, it starts them as the file does for a client that has shaken hands. Tools are listed as
    `server.tool`, and called by this name or by any other that the file takes (`server:tool`).
    Tools and results are plain JSON. Servers that ask something are told that nobody answers.
    """

    def __init__(self, plan: Plan, folder: str) -> None:
        """`folder` is where the emitted file lies."""
        self._plan = plan
        self._folder = folder
        self._client = Client("spec")
        self._last_id = 0
        self._inbox: _Inbox
        self._engine: Engine
        self._dotted: dict[str, list[str]] = {}
        """{server.tool: the names in the routing table that it may mean}."""
        for exposed, (server, own, _) in plan.routes["tools"].items():
            self._dotted.setdefault(f"{server}.{own}" if server else own, []).append(exposed)

    async def __aenter__(self) -> ProxyAggregator:
        """Start the servers, side by side, without waiting for them.

        Raises:
            CallFailed: a variable that a server needs is not set.
        """
        import asyncio

        answers = Answers(self._plan)
        for server, missing in unset(self._plan.servers, os.environ, self._folder).items():
            if not self._plan.options.allow_failed:
                raise CallFailed(server, {"message": f"cannot be started: {missing}"})
            answers.outages.begin(server)
        self._inbox = _Inbox(asyncio.get_running_loop())
        self._engine = Engine(answers, self._folder)
        self._client.introduce(request(0, "initialize", "{}"))
        self._client.shake_hands()
        self._engine.connect(self._client, self._inbox)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End every server; calls under way fail."""
        import asyncio

        await asyncio.get_running_loop().run_in_executor(None, self._engine.close)
        self._inbox.close()

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the tools that the file lists now, in the config's order."""
        listed = (await self._ask("", "tools/list", {}))["tools"]
        return [{**tool, "name": self._listed(tool["name"])} for tool in listed]

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Call a tool and return its result, which may say `isError`.

        Raises:
            CallFailed: it was answered with an error, or nobody has such a tool.
            LookupError: `server.tool` is the name of two tools.
            TypeError, ValueError: the arguments are not JSON.
        """
        exposed = self._exposed(name)
        params = {"name": exposed, "arguments": dict(arguments or {})}
        return await self._ask(self._owner(exposed)[0], "tools/call", params)

    async def _ask(self, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request.

        Raises:
            CallFailed: it was answered with an error.
        """
        import asyncio

        self._last_id += 1
        number = self._last_id
        message = request(number, method, json.dumps(params, allow_nan=False))
        answer = self._inbox.expect(number)
        self._engine.hear(self._client, message.line())
        try:
            found = await answer
        except asyncio.CancelledError:
            cancelled = notification(CANCELLED, obj(requestId=str(number)))
            self._engine.hear(self._client, cancelled.line())
            raise
        if "error" in found:
            raise CallFailed(server, found["error"])
        result: dict[str, Any] = found["result"]
        return result

    def _owner(self, exposed: str) -> tuple[str, str]:
        """Return the server of a tool and its own name for it, ("", exposed) if nobody has it.

        One that came after the compilation is in no table: its name has the server in front.
        """
        route = self._plan.routes["tools"].get(exposed)
        if route is not None:
            return route[0], route[1]
        for server in sorted(self._plan.servers, key=len, reverse=True):
            prefix = server + self._plan.options.separator
            if exposed.startswith(prefix):
                return server, exposed[len(prefix) :]
        return "", exposed

    def _listed(self, exposed: str) -> str:
        server, own = self._owner(exposed)
        return f"{server}.{own}" if server else exposed

    def _exposed(self, name: str) -> str:
        """Return the name by which the file knows a tool.

        Raises:
            LookupError: two are meant.
        """
        known = [name] if name in self._plan.routes["tools"] else self._dotted.get(name, [])
        if len(known) > 1:
            raise LookupError(f"{name!r} is not one tool: say {' or '.join(known)}")
        if known:
            return known[0]
        for server in sorted(self._plan.servers, key=len, reverse=True):
            if name.startswith(f"{server}."):
                return server + self._plan.options.separator + name[len(server) + 1 :]
        return name


class _Inbox:
    """The client's sink: brings answers from the engine's threads to whoever awaits them."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._awaited: dict[object, Future[dict[str, Any]]] = {}

    def expect(self, number: int) -> Future[dict[str, Any]]:
        """Return what will be the answer to a request."""
        answer = self._awaited[number] = self._loop.create_future()
        answer.add_done_callback(lambda _: self._awaited.pop(number, None))
        return answer

    def send(self, *messages: Message) -> None:
        """Take messages for the client."""
        for message in messages:
            self._loop.call_soon_threadsafe(self._take, message)

    def gate(self) -> None:
        """Nothing ever waits here."""

    def close(self) -> None:
        """Fail what is still awaited."""
        for answer in list(self._awaited.values()):
            answer.set_result({"error": {"message": "the aggregator was left before the answer"}})

    def _take(self, message: Message) -> None:
        answer = self._awaited.get(message.id) if message.method is None else None
        if answer is not None and not answer.done():
            answer.set_result(json.loads(message.line()))


def aggregator_of(plan: Plan, file: str) -> type[ProxyAggregator]:
    """Return the class that `Aggregator` is in an emitted file."""
    folder = os.path.dirname(os.path.realpath(file))
    if plan.profiles:
        from mcpagg_runtime.profiles.narrowing import narrowed

        plan = narrowed(plan, None)

    class Aggregator(ProxyAggregator):
        def __init__(self) -> None:
            super().__init__(plan, folder)

    return Aggregator
