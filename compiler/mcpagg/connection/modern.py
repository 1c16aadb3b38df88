"""The client side of revision 2026-07-28: envelopes, headers, and requests for input.

There is no handshake. Each request carries its version and the client's capabilities. A server that
needs something from the user answers with a result of the type `input_required`:
https://modelcontextprotocol.io/specification/2026-07-28.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
)
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    HEADER_MISMATCH,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from mcpagg.snapshot import Json
from mcpagg_runtime.protocol import LEGACY_VERSIONS

DISCOVER = "server/discover"

# Errors that only a modern server answers with.
CODES = {HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION}
# What an older server has no reason to name: versions, a method, the prefix of the envelope's keys.
_SIGNS = (*MODERN_PROTOCOL_VERSIONS, DISCOVER, "io.modelcontextprotocol/")

# Those of the SDK's own client, as other SDKs have them: rounds, and seconds between two tries
# when the server only wants to be asked again.
MAXIMUM_ROUNDS = 10
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 0.25


def enveloped(params: Mapping[str, Any], capabilities: Json, info: Json) -> Json:
    """Return the params of a request with the `_meta` that every modern request carries."""
    meta = {
        PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
        CLIENT_CAPABILITIES_META_KEY: capabilities,
        CLIENT_INFO_META_KEY: info,
    }
    return {**params, "_meta": {**params.get("_meta", {}), **meta}}


def headers(
    method: str, params: Mapping[str, Any], mirrored: Mapping[str, Mapping[tuple[str, ...], str]]
) -> dict[str, str]:
    """Return the headers in which streamable HTTP repeats the body (SEP-2243).

    `mirrored` are the arguments of tools that go into headers too: {tool: {path: header}}.
    """
    found = {MCP_METHOD_HEADER: method}
    named = params.get(NAME_BEARING_METHODS.get(method, ""))
    if not isinstance(named, str):
        return found
    found[MCP_NAME_HEADER] = encode_header_value(named)
    if method == "tools/call":
        found |= mcp_param_headers(mirrored.get(named, {}), params.get("arguments") or {})
    return found


def knows_no_handshake(error: MCPError) -> bool:
    """Whether a refused `initialize` says that no handshake in any version would do.

    A modern server does not know the method (specification, the removed methods); a legacy one
    must, so it may refuse its version, but not the method.
    """
    return error.code == METHOD_NOT_FOUND or speaks_modern(error)


def speaks_modern(error: MCPError) -> bool:
    """Whether a refused `initialize` comes from a server that speaks modern versions alone.

    One that also supports a handshake says so, and gets one in that version.
    """
    data = error.error.data
    supported = data.get("supported") if isinstance(data, dict) else None
    if isinstance(supported, list) and any(version in supported for version in LEGACY_VERSIONS):
        return False
    text = f"{error.error.message} {json.dumps(data)}"
    return error.code in CODES or any(sign in text for sign in _SIGNS)


def merged_hints(hints: Json, result: Json) -> Json:
    """Return how long, and for whom, a client may keep lists: `hints` so far and one result's.

    `ttlMs` is the least of all (milliseconds), `cacheScope` is "private" if any is.
    """
    ttl, scope = result.get("ttlMs"), result.get("cacheScope")
    merged = dict(hints)
    if type(ttl) is int and ttl >= 0:
        merged["ttlMs"] = min(ttl, hints.get("ttlMs", ttl))
    if scope in ("public", "private"):
        merged["cacheScope"] = "private" if "private" in (scope, hints.get("cacheScope")) else scope
    return merged


async def call_until_complete(
    send: Callable[[Json], Awaitable[Json]], params: Json, answer: Callable[[str], Json]
) -> Json:
    """Send a request until its result asks for no input; return that.

    `answer(method)` is the result of a question, whatever its params.

    Raises:
        MCPError: the server's, that of `answer`, or one for a server that never stops asking.
    """
    result = await send(params)
    pause = FIRST_PAUSE
    for _ in range(MAXIMUM_ROUNDS):
        if result.get("resultType") != "input_required":
            return result
        # A retry is the same request with what the last result asked for, and nothing older.
        again = dict(params)
        if "requestState" in result:
            again["requestState"] = result["requestState"]
        questions = result.get("inputRequests")
        if isinstance(questions, dict) and questions:
            again["inputResponses"] = {
                key: answer(_method(question)) for key, question in questions.items()
            }
            pause = FIRST_PAUSE
        else:
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        result = await send(again)
    if result.get("resultType") != "input_required":
        return result
    raise MCPError(INVALID_REQUEST, f"The server asks for input in {MAXIMUM_ROUNDS} rounds and on")


def _method(question: object) -> str:
    return str(question.get("method")) if isinstance(question, dict) else "?"
