"""The headers of requests; those by which a modern one repeats what it says."""

from __future__ import annotations

from binascii import b2a_base64
from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import parse
from mcpagg_runtime.base.protocol import MODERN_VERSION
from mcpagg_runtime.serve.repeated import (
    ENCODED_FROM,
    ENCODED_TO,
    MARK,
    NAMED_BY,
    PARAMETER,
    argument_at,
    header_text,
    marked,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpagg_runtime.base.message import Json, Message

EVENT_STREAM = "text/event-stream"
ACCEPT = {"Accept": f"application/json, {EVENT_STREAM}", "Content-Type": "application/json"}
SESSION_FIELD = "Mcp-Session-Id"
LAST_EVENT_FIELD = "Last-Event-ID"
VERSION_FIELD = "MCP-Protocol-Version"
METHOD_FIELD = "Mcp-Method"
NAME_FIELD = "Mcp-Name"


def modern_headers(message: Message, tool: Callable[[str], str]) -> dict[str, str]:
    """Return the headers of a message; `tool` gives the JSON text of a tool by its name, or ""."""
    method = message.method or ""
    headers = {VERSION_FIELD: MODERN_VERSION, METHOD_FIELD: _field_value(method)}
    member = NAMED_BY.get(method)
    params = message.members.get("params")
    if member is None or params is None:
        return headers
    name = parse(params.part(member) or "null")
    if type(name) is str:
        headers[NAME_FIELD] = _field_value(name)
        if method == "tools/call":
            headers.update(_argument_headers(tool(name), params))
    return headers


def _argument_headers(tool: str, params: Json) -> dict[str, str]:
    """Return the headers for those arguments that the schema of a tool wants repeated."""
    if MARK not in tool:
        return {}
    schema = parse(tool).get("inputSchema")
    arguments = parse(params.part("arguments") or "{}")
    return {
        PARAMETER + header: _field_value(text)
        for path, header, _ in marked(schema)
        if (text := header_text(argument_at(arguments, path))) is not None
    }


def _field_value(value: str) -> str:
    """Return a text as the value of a header: in base64, marked as such, where it could not be."""
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith(ENCODED_FROM) and value.endswith(ENCODED_TO)):
        return value
    octets = value.encode("utf-8", "surrogatepass")
    return ENCODED_FROM + b2a_base64(octets, newline=False).decode("ascii") + ENCODED_TO
