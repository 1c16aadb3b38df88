"""Requests of 2026-07-28: each stands for itself, and is answered by whichever worker gets it.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports, streamable HTTP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import obj, parse
from mcpagg_runtime.base.protocol import (
    CAPABILITIES_KEY,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LISTEN,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    MODERN_VERSION,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)
from mcpagg_runtime.http.exchange import EVENTS, Refused
from mcpagg_runtime.http.outgoing import Reply
from mcpagg_runtime.http.sessions import lost
from mcpagg_runtime.modern.client import STATE_MARK
from mcpagg_runtime.serve.repeated import (
    MARK,
    NAMED_BY,
    PARAMETER,
    argument_at,
    decoded,
    header_text,
    marked,
)
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from typing import Any

    from mcpagg_runtime.base.catalogue import Item
    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.http.bridge import Bridge
    from mcpagg_runtime.http.exchange import Exchange
    from mcpagg_runtime.http.siblings import Siblings

ROUTING = ("mcp-protocol-version", "mcp-method", "mcp-name")
"""The headers that repeat what a request says, for what routes it on the way here."""
STATUS_OF = {
    METHOD_NOT_FOUND: 404,
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS), 400),
    **dict.fromkeys((HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION), 400),
}
"""The HTTP status that goes with the code of an error; with all others, 200."""


class Stateless:
    """Answers modern requests: each POST is a client of its own, which leaves with its answer."""

    def __init__(self, bridge: Bridge, siblings: Siblings) -> None:
        self._bridge = bridge
        self._siblings = siblings
        self._tools = bridge.answers.catalogues["tools"]
        self._replies: dict[Reply, str] = {}
        """{the answer under way: the JSON text of its id}."""

    async def answer(self, exchange: Exchange, messages: list[Message], batch: bool) -> None:
        """Answer a request.

        Raises:
            Refused: it is not carried out.
        """
        message = messages[0]
        if batch or message.method is None:
            raise Refused(400, "The body is one request or notification")
        if message.id is None:
            # None has a meaning here: whoever wants a call to end closes the stream of its answer.
            _check_version(exchange.header("mcp-protocol-version"), "null")
            await exchange.respond(202)
            return
        self._check(exchange, message)
        state = message.params.get("requestState")
        if type(state) is str and state.startswith(STATE_MARK):
            worker = self._siblings.other(state[len(STATE_MARK) :])
            if worker and await self._siblings.hand_on(exchange, worker):
                return
        reply = Reply(exchange, [message.id_text])
        client = self._bridge.client()
        self._replies[reply] = message.id_text
        try:
            await self._bridge.exchange(client, reply.put, [message])
            await reply.write(status=lambda code: STATUS_OF.get(code or 0, 200))
        finally:
            del self._replies[reply]
            await self._bridge.disconnect(client)

    def end(self, word: str) -> None:
        """Answer what is owed with an error that says why."""
        for reply, identifier in self._replies.items():
            reply.put(lost(identifier, word))

    def _check(self, exchange: Exchange, message: Message) -> None:
        identifier = message.id_text
        meta = message.params.get("_meta")
        envelope = meta if type(meta) is dict else {}
        for key in (VERSION_KEY, CAPABILITIES_KEY):
            if key not in envelope:
                text = f"params._meta needs {key}"
                raise Refused(400, text, INVALID_PARAMS, identifier=identifier)
        problem = _mismatch(exchange, message)
        if not problem and message.method == "tools/call":
            name = message.params.get("name")
            tool = self._tools.find(name) if type(name) is str else None
            problem = _parameter_mismatch(exchange, message, tool)
        if problem:
            raise Refused(
                400, f"Header mismatch: {problem}", HEADER_MISMATCH, identifier=identifier
            )
        _check_version(exchange.header("mcp-protocol-version"), identifier)
        if message.method == "initialize":
            text = "Method not found: initialize"
            raise Refused(404, text, METHOD_NOT_FOUND, identifier=identifier)
        if message.method == LISTEN and not exchange.accepts(EVENTS):
            raise Refused(406, f"Accept has no {EVENTS}", identifier=identifier)


def _check_version(version: str, identifier: str) -> None:
    if version != MODERN_VERSION:
        raise Refused(
            400,
            "Unsupported protocol version",
            UNSUPPORTED_VERSION,
            identifier=identifier,
            data=obj(supported=f"[{quote(MODERN_VERSION)}]", requested=quote(version)),
        )


def _mismatch(exchange: Exchange, message: Message) -> str:
    """Say which header does not repeat the body of an enveloped request, "" if all do."""
    for name in ROUTING:
        if len(exchange.all(name)) > 1:
            return f"{name} stands twice"
    if exchange.header("mcp-protocol-version") != message.params["_meta"][VERSION_KEY]:
        return f"mcp-protocol-version is not {VERSION_KEY} in params._meta"
    if exchange.header("mcp-method") != message.method:
        return "mcp-method is not the method of the request"
    member = NAMED_BY.get(message.method or "", "")
    said = message.params.get(member) if member else None
    if said is not None and decoded(exchange.header("mcp-name")) != said:
        return f"mcp-name is not {member} in params"
    return ""


def _parameter_mismatch(exchange: Exchange, message: Message, tool: Item | None) -> str:
    """Say which header does not repeat an argument of a call as the tool asks for, "" if all do.

    A tool marks the property of its input schema that a header repeats.
    """
    if tool is None or not tool.names(MARK):
        return ""
    schema = parse(tool.listed(tool.exposed)).get("inputSchema")
    given = message.params.get("arguments")
    for path, name, kind in marked(schema):
        value = argument_at(given, path)
        values = exchange.all(PARAMETER + name.lower())
        text = header_text(value)
        if len(values) > 1 or (not values and text) or (values and text is None):
            return f"{PARAMETER}{name} stands not once beside its argument"
        if values and not _is_same(decoded(values[0]), value, text, kind):
            return f"{PARAMETER}{name} is not the argument {'.'.join(path)}"
    return ""


def _is_same(said: str | None, value: Any, text: str | None, kind: str) -> bool:
    if kind == "integer" and type(value) in (int, float) and said is not None:
        whole, _, fraction = said.partition(".")
        digits = whole.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) < 400 and not fraction.strip("0"):
            return bool(int(whole) == value)
    return said == text
