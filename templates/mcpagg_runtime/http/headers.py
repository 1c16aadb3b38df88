"""Headers of a modern request that repeat its body, for what routes it on the way here.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports, streamable HTTP
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from mcpagg_runtime.start.jsontext import parse
from mcpagg_runtime.start.protocol import VERSION_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mcpagg_runtime.http.exchange import Exchange
    from mcpagg_runtime.start.catalogue import Item
    from mcpagg_runtime.start.message import Message

# Which member of params the header Mcp-Name repeats.
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
ROUTING = ("mcp-protocol-version", "mcp-method", "mcp-name")
PARAMETER = "mcp-param-"
MARK = "x-mcp-header"
_ENCODED_FROM, _ENCODED_TO = "=?base64?", "?="


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
        value = _at(given, path)
        values = exchange.all(PARAMETER + name.lower())
        text = _header_text(value)
        if len(values) > 1 or (not values and text) or (values and text is None):
            return f"{PARAMETER}{name} stands not once beside its argument"
        if values and not _is_same(decoded(values[0]), value, text, kind):
            return f"{PARAMETER}{name} is not the argument {'.'.join(path)}"
    return ""


def marked(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield (path, header, type) of the properties of an input schema that headers repeat."""
    properties = schema.get("properties") if type(schema) is dict else None
    if type(properties) is not dict:
        return
    for name, inner in properties.items():
        if type(inner) is dict:
            if type(inner.get(MARK)) is str and inner.get("type") in _MIRRORED:
                yield (*path, name), inner[MARK], inner["type"]
            yield from marked(inner, (*path, name))


_MIRRORED = ("string", "integer", "boolean")


def decoded(value: str) -> str | None:
    """Return what a header says: what is not plain ASCII is encoded; None if it cannot be read."""
    if not (value.startswith(_ENCODED_FROM) and value.endswith(_ENCODED_TO)):
        return value
    text = value[len(_ENCODED_FROM) : -len(_ENCODED_TO)]
    try:
        data = base64.b64decode(text, validate=True)
        return data.decode("utf-8") if base64.b64encode(data).decode("ascii") == text else None
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if type(value) is dict else None
    return value


def _header_text(value: Any) -> str | None:
    """Return a value as a header says it, None for one that no header repeats."""
    if type(value) is bool:
        return "true" if value else "false"
    return str(value) if type(value) in (str, int, float) else None


def _is_same(said: str | None, value: Any, text: str | None, kind: str) -> bool:
    if kind == "integer" and type(value) in (int, float) and said is not None:
        whole, _, fraction = said.partition(".")
        digits = whole.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) < 400 and not fraction.strip("0"):
            return bool(int(whole) == value)
    return said == text
