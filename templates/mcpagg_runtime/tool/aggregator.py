"""The proxy within a Python program: `from server import Aggregator`, on asyncio.

It is a client of the engine in this process.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from mcpagg_runtime.clients.profiles import narrowed
from mcpagg_runtime.launch.needs import missing_variables
from mcpagg_runtime.launch.platforms import own_folder
from mcpagg_runtime.tool.local_client import LocalClient

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.plan.plan import Plan


class CallFailed(Exception):
    """Raised when a call is answered with an error.

    `server` has the tool that was called, "" if no server has it. `code`, `message` and `data` are
    those of the error; a message that is no text is "".
    """

    def __init__(self, server: str, error: Mapping[str, Any]) -> None:
        self.server = server
        self.code = error.get("code")
        message = error.get("message")
        self.message = message if isinstance(message, str) else ""
        self.data = error.get("data")
        # An error of the proxy itself names the server already.
        is_named = not server or (type(self.data) is dict and self.data.get("server") == server)
        text = self.message or "an error without a message"
        super().__init__(text if is_named else f"server '{server}': {text}")


class Misused(RuntimeError):
    """Raised where an aggregator is used wrongly; the text says what to do."""


class ProxyAggregator:
    """The servers of an emitted file, behind one object.

    When it is entered, it starts them as the file does for a client after its handshake. Tools are
    listed as `server.tool`, and called by this name or by any other that the file accepts
    (`server:tool`). Tools and results are plain JSON. Requests of servers are answered with errors.
    """

    def __init__(self, plan: Plan, folder: str) -> None:
        """`folder` is where the emitted file lies."""
        self._plan = plan
        self._folder = folder
        self._proxy: LocalClient | None = None
        """Set between entering and leaving."""
        self._was_entered = False
        self._dotted: dict[str, list[str]] = {}
        """{server.tool: the exposed names that it may stand for}."""
        for exposed, (server, own, _) in plan.routes["tools"].items():
            self._dotted.setdefault(f"{server}.{own}" if server else own, []).append(exposed)

    async def __aenter__(self) -> ProxyAggregator:
        """Start the servers, side by side, without waiting for them.

        Raises:
            CallFailed: a variable that a server needs is not set.
            Misused: see `used_outside`; or it is entered already.
        """
        _running_loop()
        if self._proxy is not None:
            raise entered_already()
        missing = missing_variables(self._plan.servers, os.environ, self._folder)
        for server, names in missing.items():
            if not self._plan.options.allow_failed:
                raise CallFailed(server, {"message": f"cannot be started: {names}"})
        self._proxy = LocalClient(self._plan, self._folder, handshake="{}", without=missing)
        self._was_entered = True
        return self

    async def __aexit__(self, *_: object) -> None:
        """End every server; pending calls fail."""
        proxy, self._proxy = self._proxy, None
        if proxy is None:
            raise used_outside(self._was_entered)
        await _running_loop().run_in_executor(None, proxy.close)

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the tools that the proxy lists now, in the config's order.

        Raises:
            Misused: see `used_outside`.
        """
        listed = (await self._ask("", "tools/list", {}))["tools"]
        return [{**tool, "name": self._listed(tool["name"])} for tool in listed]

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Call a tool and return its result, which may have `isError`.

        Raises:
            CallFailed: it was answered with an error, or there is no such tool.
            Misused: see `used_outside`.
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
            Misused: see `used_outside`; or this is not asyncio.
        """
        import asyncio

        loop, proxy = _running_loop(), self._proxy
        if proxy is None:
            raise used_outside(self._was_entered)
        answer: Future[Message | None] = loop.create_future()

        def settle(message: Message | None) -> None:
            if not answer.done():
                answer.set_result(message)

        number = proxy.ask(
            method, params, lambda message: loop.call_soon_threadsafe(settle, message)
        )
        try:
            message = await answer
        except asyncio.CancelledError:
            proxy.cancel(number)
            raise
        if message is None:
            raise CallFailed(server, {"message": "the aggregator was left before the answer"})
        found = json.loads(message.line())
        if "error" in found:
            error = found["error"]
            text = error if isinstance(error, str) else json.dumps(error)
            raise CallFailed(server, error if isinstance(error, dict) else {"message": text})
        result = found["result"]
        if not isinstance(result, dict):
            raise CallFailed(server, {"message": f"the result is no object: {json.dumps(result)}"})
        return result

    def _owner(self, exposed: str) -> tuple[str, str]:
        """Return the server of a tool and its own name for it, ("", exposed) for none."""
        route = self._plan.routes["tools"].get(exposed)
        return (route[0], route[1]) if route else self._split(exposed, self._plan.options.separator)

    def _split(self, name: str, separator: str) -> tuple[str, str]:
        """Split a name at the prefix of a server; ("", name) without one.

        That is for tools that came after the compilation, and are in no table.
        """
        for server in sorted(self._plan.servers, key=len, reverse=True):
            if name.startswith(server + separator):
                return server, name[len(server + separator) :]
        return "", name

    def _listed(self, exposed: str) -> str:
        server, own = self._owner(exposed)
        return f"{server}.{own}" if server else exposed

    def _exposed(self, name: str) -> str:
        """Return the exposed name of a tool.

        Raises:
            LookupError: two tools have this name.
        """
        known = [name] if name in self._plan.routes["tools"] else self._dotted.get(name, [])
        if len(known) > 1:
            raise LookupError(f"{name!r} is not one tool: say {' or '.join(known)}")
        if known:
            return known[0]
        server, own = self._split(name, ".")
        return f"{server}{self._plan.options.separator}{own}" if server else name


def entered_already() -> Misused:
    """Return the error for entering an aggregator within its own block."""
    return Misused("this Aggregator is entered already: make another one to enter as well")


def used_outside(was_entered: bool) -> Misused:
    """Return the error for using an aggregator before its `async with` block, or after it."""
    why = "ended with its `async with` block" if was_entered else "was never entered"
    return Misused(f"this Aggregator {why}: use it within `async with Aggregator(…) as a:`")


def _running_loop() -> AbstractEventLoop:
    """Return the event loop that runs.

    Raises:
        Misused: it is none of asyncio.
    """
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        why = "Aggregator runs on asyncio alone, not on trio: use it in what asyncio.run runs"
        raise Misused(why) from None


def aggregator_of(plan: Plan, file: str) -> type[ProxyAggregator]:
    """Return the class that `Aggregator` is in an emitted file."""
    folder = own_folder(file)
    plan = narrowed(plan, None)

    class Aggregator(ProxyAggregator):
        def __init__(self) -> None:
            super().__init__(plan, folder)

    return Aggregator
