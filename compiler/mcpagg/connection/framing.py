"""Lines of a stdio child to JSON-RPC envelopes of the SDK, and back.

The SDK's envelopes carry params, results and errors as plain JSON values, so nothing that a child
says is lost in them. What counts as a line, and as text, is decided by the runtime's own module.
"""

from __future__ import annotations

import json
from typing import Any

from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import ValidationError

from mcpagg.jsontext import parse
from mcpagg_runtime.wire import Malformed, decode


def messages(line: bytes) -> list[JSONRPCMessage]:
    """Read the messages of a line: none of a blank one, several of a batch.

    More is accepted than the specification allows a server to send: a BOM, CR LF, a missing
    `jsonrpc`, batches in every revision.

    Raises:
        Malformed: the line holds no message.
    """
    text = decode(line)
    if not text:
        return []
    value = parse(text)
    try:
        return [_message(item) for item in (value if isinstance(value, list) else [value])]
    except ValidationError:
        raise Malformed("an id is neither a string nor an integer") from None


def _message(value: Any) -> JSONRPCMessage:
    """Make an envelope of a JSON value."""
    if not isinstance(value, dict):
        raise Malformed("no JSON object")
    method, number, params = value.get("method"), value.get("id"), value.get("params")
    if isinstance(method, str):
        # Params that are absent, null or no object are the same to the handlers.
        given: dict[str, Any] = {"params": params} if isinstance(params, dict) else {}
        if number is None:
            return JSONRPCNotification(jsonrpc="2.0", method=method, **given)
        return JSONRPCRequest(jsonrpc="2.0", id=number, method=method, **given)
    if value.get("error") is not None:
        return JSONRPCError(jsonrpc="2.0", id=number, error=_error(value["error"]))
    if "result" not in value or number is None:
        raise Malformed("neither a request nor a response")
    if isinstance(value["result"], dict):
        return JSONRPCResponse(jsonrpc="2.0", id=number, result=value["result"])
    # The request must end, so that nobody waits for it.
    error = ErrorData(code=INTERNAL_ERROR, message="the result is no JSON object")
    return JSONRPCError(jsonrpc="2.0", id=number, error=error)


def _error(value: Any) -> ErrorData:
    """Read an error object; one of another shape is kept as the message, so that nobody waits."""
    if isinstance(value, dict) and type(value.get("code")) is int:
        message = value.get("message")
        text = message if isinstance(message, str) else json.dumps(message)
        return ErrorData(code=value["code"], message=text, data=value.get("data"))
    return ErrorData(code=INTERNAL_ERROR, message=json.dumps(value))


def encode(message: JSONRPCMessage) -> bytes:
    """Return a message as a line, in ASCII: no lone surrogate and no U+2028 can harm a reader."""
    plain = message.model_dump(by_alias=True, exclude_unset=True)
    return json.dumps(plain, separators=(",", ":")).encode("ascii") + b"\n"
