"""What a modern request over HTTP repeats in its headers, for what routes it on the way.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports, streamable HTTP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# Which member of params the header Mcp-Name repeats.
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
PARAMETER = "mcp-param-"
# The member of a property in an input schema that has a header repeat the argument.
MARK = "x-mcp-header"
# What stands around a value that is no plain ASCII, in base64.
ENCODED_FROM, ENCODED_TO = "=?base64?", "?="

_REPEATABLE = ("string", "integer", "boolean")
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
