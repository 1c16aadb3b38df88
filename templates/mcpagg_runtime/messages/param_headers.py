"""What a modern request over HTTP repeats in its headers, for what routes it on the way.

Headers of requests to servers are made by the rules by which those of clients are checked.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports, streamable HTTP
"""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import parse
from mcpagg_runtime.messages.protocol import METHODS, MODERN_VERSION, OTHER, VERSION_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mcpagg_runtime.messages.jsontext import Json
    from mcpagg_runtime.messages.message import Message

# The headers that every such request has, in lower case.
ROUTING = ("mcp-protocol-version", "mcp-method", "mcp-name")
PARAMETER = "mcp-param-"
# The member of a property in an input schema that has a header repeat the argument.
MARK = "x-mcp-header"
# What stands around a value that is no plain ASCII, in base64.
ENCODED_FROM, ENCODED_TO = "=?base64?", "?="

_REPEATABLE = ("string", "integer", "boolean")
# Keywords whose members are schemas by name, and those that hold values and no schema.
_OF_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_OF_VALUES = ("const", "enum", "default", "examples", MARK)
_SIGNS = frozenset("!#$%&'*+-.^_`|~")


def marked(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield (path, header, type) of the properties of an input schema that headers repeat."""
    properties = schema.get("properties") if type(schema) is dict else None
    if type(properties) is not dict:
        return
    for name, inner in properties.items():
        if type(inner) is dict:
            if _is_token(inner.get(MARK)) and inner.get("type") in _REPEATABLE:
                yield (*path, name), inner[MARK], inner["type"]
            yield from marked(inner, (*path, name))


def mark_fault(schema: Any) -> str:
    """Say what is wrong with a mark in an input schema, "" if nothing is.

    A mark is the name of a header, once whatever its case, at a string, an integer or a boolean
    that is reached from the root by `properties` alone.
    """
    names = set()
    todo = [(schema, False, False)]
    while todo:
        part, is_argument, is_off = todo.pop()
        if type(part) is list:
            todo += [(inner, False, True) for inner in part]
        if type(part) is not dict:
            continue
        if MARK in part:
            name = part[MARK]
            if is_off or not is_argument:
                return "that stands at no argument"
            if not _is_token(name):
                return "that is not the name of a header"
            if part.get("type") not in _REPEATABLE:
                return f"at what is none of {', '.join(_REPEATABLE)}"
            if name.lower() in names:
                return "that stands twice"
            names.add(name.lower())
        for keyword, inner in part.items():
            if keyword in _OF_SCHEMAS and type(inner) is dict:
                reached = keyword == "properties"
                todo += [(one, reached, is_off or not reached) for one in inner.values()]
            elif keyword not in _OF_VALUES:
                todo.append((inner, False, True))
    return ""


def _is_token(name: Any) -> bool:
    """Whether something can be the name of a header (RFC 9110, 5.6.2)."""
    if type(name) is not str or not name.isascii():
        return False
    return bool(name) and all(char.isalnum() or char in _SIGNS for char in name)


def argument_at(value: Any, path: tuple[str, ...]) -> Any:
    """Return the argument that a path leads to, None if there is none."""
    for name in path:
        value = value.get(name) if type(value) is dict else None
    return value


def header_text(value: Any) -> str | None:
    """Return a value as a header says it, None for one that no header repeats."""
    if type(value) is bool:
        return "true" if value else "false"
    return str(value) if type(value) in (str, int, float) else None


def modern_headers(message: Message, tool: Callable[[str], str]) -> dict[str, str]:
    """Return the headers of a message; `tool` gives the JSON text of a tool by its name, or ""."""
    method = message.method or ""
    headers = {"MCP-Protocol-Version": MODERN_VERSION, "Mcp-Method": encoded(method)}
    row = METHODS.get(method, OTHER)
    params = message.members.get("params")
    if not row.repeated or params is None:
        return headers
    name = parse(params.part(row.member) or "null")
    if type(name) is str:
        headers["Mcp-Name"] = encoded(name)
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
        PARAMETER + header: encoded(text)
        for path, header, _ in marked(schema)
        if (text := header_text(argument_at(arguments, path))) is not None
    }


def encoded(value: str) -> str:
    """Return a text as the value of a header: in base64, marked as such, where it could not be."""
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith(ENCODED_FROM) and value.endswith(ENCODED_TO)):
        return value
    octets = value.encode("utf-8", "surrogatepass")
    return ENCODED_FROM + b2a_base64(octets, newline=False).decode("ascii") + ENCODED_TO


def decoded(value: str) -> str | None:
    """Return the text that is the value of a header, None if it cannot be read."""
    if not (value.startswith(ENCODED_FROM) and value.endswith(ENCODED_TO)):
        return value
    text = value[len(ENCODED_FROM) : -len(ENCODED_TO)]
    try:
        data = a2b_base64(text)
        canonical = b2a_base64(data, newline=False).decode("ascii") == text
        return data.decode("utf-8") if canonical else None
    except (Error, ValueError):
        return None


def mismatch(values: Callable[[str], list[str]], message: Message, tool: str) -> str:
    """Say which header does not repeat the body of an enveloped request, "" if all do.

    `values` gives the values of the headers of a name in lower case; `tool` is the JSON text of the
    tool that is called, "" if it is not known.
    """
    for name in ROUTING:
        if len(values(name)) > 1:
            return f"{name} stands twice"
    version, method, named = ["".join(values(name)) for name in ROUTING]
    if version != message.params["_meta"][VERSION_KEY]:
        return f"mcp-protocol-version is not {VERSION_KEY} in params._meta"
    if method != message.method:
        return "mcp-method is not the method of the request"
    row = METHODS.get(method, OTHER)
    said = message.params.get(row.member) if row.repeated else None
    if said is not None and decoded(named) != said:
        return f"mcp-name is not {row.member} in params"
    if MARK not in tool:
        return ""
    for path, header, kind in marked(parse(tool).get("inputSchema")):
        value = argument_at(message.params.get("arguments"), path)
        given = values(PARAMETER + header.lower())
        text = header_text(value)
        if len(given) > 1 or (not given and text) or (given and text is None):
            return f"{PARAMETER}{header} stands not once beside its argument"
        if given and not _is_same(decoded(given[0]), value, text, kind):
            return f"{PARAMETER}{header} is not the argument {'.'.join(path)}"
    return ""


def _is_same(said: str | None, value: Any, text: str | None, kind: str) -> bool:
    if kind == "integer" and type(value) in (int, float) and said is not None:
        whole, _, fraction = said.partition(".")
        digits = whole.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) < 400 and not fraction.strip("0"):
            return bool(int(whole) == value)
    return said == text
