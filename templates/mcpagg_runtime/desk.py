"""Answers what needs no child: the handshake, pings and lists, from what the compiler wrote.

This is all that a start needs, so it is all that the emitted file compiles before its first answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.catalogue import Catalogue
from mcpagg_runtime.wire import (
    INVALID_PARAMS,
    Malformed,
    decode,
    error,
    failure,
    quote,
    read_message,
    result,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.client import Client
    from mcpagg_runtime.wire import Message


class Plan:
    """What the compiler decided, as the emitted file holds it.

    `servers` is the launch table {server: row}, `children` {server: {"protocol": the version it
    speaks, "conditional": [tools for clients with capabilities]}}, `options` are the compiler's
    options by name. For `routes` and `snapshot` see Catalogue.
    """

    def __init__(
        self,
        *,
        name: str,
        version: str,
        servers: Mapping[str, Mapping[str, Any]],
        routes: Mapping[str, tuple[str, str, str]],
        snapshot: Mapping[str, Mapping[str, str]],
        children: Mapping[str, Mapping[str, Any]],
        instructions: str,
        options: Mapping[str, Any],
    ) -> None:
        self.name = name
        self.version = version
        self.servers = servers
        self.routes = routes
        self.snapshot = snapshot
        self.children = children
        self.instructions = instructions
        self.options = options

    @property
    def info(self) -> str:
        """How the proxy introduces itself, as JSON text."""
        return f'{{"name":{quote(self.name)},"version":{quote(self.version)}}}'


class Desk:
    """Answers clients from the file alone."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        conditional = {name: facts.get("conditional", ()) for name, facts in plan.children.items()}
        self.catalogue = Catalogue(tuple(plan.servers), plan.routes, plan.snapshot, conditional)

    def serve(self, client: Client, line: bytes) -> str | None:
        """Return the answer to a line, "" if it wants none, None if it is not for the desk."""
        try:
            text = decode(line)
            message = read_message(text) if text else None
        except Malformed:
            return None
        if message is None:
            return ""
        if message.method == "notifications/initialized" and "id" not in message.members:
            client.initialized = True
            return ""
        return self.answer(client, message) if message.id is not None else None

    def answer(self, client: Client, message: Message) -> str | None:
        """Return the answer to a request, None if it is not for the desk."""
        answers = {
            "initialize": self._introduction,
            "ping": self._pong,
            "tools/list": self._tools,
        }
        answer = answers.get(message.method or "")
        if answer is None:
            return None
        identifier = message.raw("id")
        if type(message.value("params")) not in (dict, type(None)):
            return failure(identifier, error(INVALID_PARAMS, "params must be an object"))
        return answer(client, message)

    def _introduction(self, client: Client, message: Message) -> str:
        client.introduce(message, self.plan.options["names"])
        words = self.plan.instructions
        answer = (
            f'{{"protocolVersion":{quote(client.version)},'
            f'"capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{self.plan.info}'
            + (f',"instructions":{quote(words)}}}' if words else "}")
        )
        return result(message.raw("id"), answer)

    def _pong(self, _: Client, message: Message) -> str:
        return result(message.raw("id"), "{}")

    def _tools(self, client: Client, message: Message) -> str:
        if message.params.get("cursor") is not None:
            refusal = error(INVALID_PARAMS, "Unknown cursor: the list has one page")
            return failure(message.raw("id"), refusal)
        listing = self.catalogue.listing(client.spelling, bool(client.capabilities))
        return result(message.raw("id"), listing)
