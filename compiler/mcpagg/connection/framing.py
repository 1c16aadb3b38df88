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

from mcpagg.jsontext import parse
from mcpagg_runtime.wire import Malformed, Message, decode, elements, is_id, read_message


class Result(dict[str, Any]):
    """A result as plain values, and the JSON text that it came in."""

    def __init__(self, text: str) -> None:
        super().__init__(parse(text))
        self.text = text


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
    if not text.startswith("["):
        return [_envelope(read_message(text))]
    parse(text)
    return [_envelope(read_message(text[start:end])) for _, start, end in elements(text, 0)]


def _envelope(message: Message) -> JSONRPCMessage:
    """Make an envelope of the SDK of a message."""
    number = message.value("id")
    if number is not None and not is_id(number):
        raise Malformed("an id is neither a string nor an integer")
    if message.method is not None:
        # Params that are absent, null or no object are the same to the handlers.
        given = {"params": parse(message.params_text)} if message.params else {}
        if number is None:
            return JSONRPCNotification(jsonrpc="2.0", method=message.method, **given)
        return JSONRPCRequest(jsonrpc="2.0", id=number, method=message.method, **given)
    if message.value("error") is not None:
        error = _error(parse(message.raw("error")))
        return JSONRPCError(jsonrpc="2.0", id=number, error=error)
    if "result" not in message.members or number is None:
        raise Malformed("neither a request nor a response")
    if isinstance(message.value("result"), dict):
        # Not validated, which would copy the values and lose the text.
        result = Result(message.raw("result"))
        return JSONRPCResponse.model_construct(jsonrpc="2.0", id=number, result=result)
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
