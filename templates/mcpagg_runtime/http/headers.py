"""Headers of a modern request that repeat its body, for what routes it on the way here.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports, streamable HTTP
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

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
from mcpagg_runtime.start.jsontext import parse
from mcpagg_runtime.start.protocol import VERSION_KEY

if TYPE_CHECKING:
    from typing import Any

    from mcpagg_runtime.http.exchange import Exchange
    from mcpagg_runtime.start.catalogue import Item
    from mcpagg_runtime.start.message import Message

ROUTING = ("mcp-protocol-version", "mcp-method", "mcp-name")


def mismatch(exchange: Exchange, message: Message) -> str:
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


def parameter_mismatch(exchange: Exchange, message: Message, tool: Item | None) -> str:
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


def decoded(value: str) -> str | None:
    """Return what a header says: what is not plain ASCII is encoded; None if it cannot be read."""
    if not (value.startswith(ENCODED_FROM) and value.endswith(ENCODED_TO)):
        return value
    text = value[len(ENCODED_FROM) : -len(ENCODED_TO)]
    try:
        data = base64.b64decode(text, validate=True)
        return data.decode("utf-8") if base64.b64encode(data).decode("ascii") == text else None
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _is_same(said: str | None, value: Any, text: str | None, kind: str) -> bool:
    if kind == "integer" and type(value) in (int, float) and said is not None:
        whole, _, fraction = said.partition(".")
        digits = whole.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) < 400 and not fraction.strip("0"):
            return bool(int(whole) == value)
    return said == text
