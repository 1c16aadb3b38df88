"""The headers by which a modern request repeats what it says.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports, standard and custom
headers
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import TYPE_CHECKING

from mcpagg_runtime.start.jsontext import parse
from mcpagg_runtime.start.protocol import MODERN_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mcpagg_runtime.start.message import Json, Message

VERSION_FIELD = "MCP-Protocol-Version"
METHOD_FIELD = "Mcp-Method"
NAME_FIELD = "Mcp-Name"
PARAMETER_FIELD = "Mcp-Param-"
# The member of params that goes into the header for the name.
NAMED_IN = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
# The member of a property's schema that has its argument go into a header as well.
HEADER_MARK = "x-mcp-header"

_CODED, _CODED_END = "=?base64?", "?="


def modern_headers(message: Message, tool: Callable[[str], str]) -> dict[str, str]:
    """Return the headers of a message; `tool` gives the JSON text of a tool by its name, or ""."""
    method = message.method or ""
    headers = {VERSION_FIELD: MODERN_VERSION, METHOD_FIELD: _field_value(method)}
    member = NAMED_IN.get(method)
    params = message.members.get("params")
    if member is None or params is None:
        return headers
    name = parse(params.part(member) or "null")
    if type(name) is str:
        headers[NAME_FIELD] = _field_value(name)
        if method == "tools/call":
            headers.update(_repeated(tool(name), params))
    return headers


def _repeated(tool: str, params: Json) -> dict[str, str]:
    """Return the headers for those arguments that the schema of a tool wants repeated."""
    if HEADER_MARK not in tool:
        return {}
    schema = parse(tool).get("inputSchema")
    arguments = parse(params.part("arguments") or "{}")
    values = (
        (header, _argument_at(arguments, path)) for path, header in _marked_properties(schema, ())
    )
    return {
        PARAMETER_FIELD + header: _field_value(text)
        for header, value in values
        if (text := _field_text(value)) is not None
    }


def _marked_properties(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (way to the argument, header) for the marked properties of a schema."""
    properties = schema.get("properties") if type(schema) is dict else None
    for name, inner in properties.items() if type(properties) is dict else ():
        if type(inner) is dict and type(inner.get(HEADER_MARK)) is str:
            yield (*path, name), inner[HEADER_MARK]
        yield from _marked_properties(inner, (*path, name))


def _argument_at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if type(value) is dict else None
    return value


def _field_text(value: Any) -> str | None:
    """Return the value of an argument as a header has it; an object or an array has no such."""
    if type(value) is bool:
        return "true" if value else "false"
    return str(value) if type(value) in (str, int, float) else None


def _field_value(value: str) -> str:
    """Return a text as the value of a header: in base64, marked as such, where it could not be."""
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith(_CODED) and value.endswith(_CODED_END)):
        return value
    octets = value.encode("utf-8", "surrogatepass")
    return _CODED + b2a_base64(octets, newline=False).decode("ascii") + _CODED_END
