"""Lines of a stdio child to JSON-RPC envelopes of the SDK, and back.

The SDK's envelopes carry params, results and errors as plain JSON values, so nothing that a child
says is lost in them. What counts as a line, and as a message, the runtime's own modules decide.
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
    RequestId,
)

from mcpagg.jsontext import loads
from mcpagg_runtime.jsontext import obj
from mcpagg_runtime.lenient import SHOWN_CHARACTERS, Fragment, read_line
from mcpagg_runtime.message import Message, minted


class Result(dict[str, Any]):
    """A result as plain values, and the JSON text that it came in."""

    def __init__(self, text: str) -> None:
        super().__init__(loads(text))
        self.text = text


def messages(line: bytes) -> tuple[list[JSONRPCMessage], str]:
    """Return the messages of a line, and what is odd about the line, "" for nothing.

    What answers a request that cannot be told is an error whose id is None.
    """
    found, oddity = read_line(line)
    envelopes = []
    for part in found:
        envelope = _fragment(part) if isinstance(part, Fragment) else _envelope(part)
        if envelope is not None:
            envelopes.append(envelope)
        elif isinstance(part, Message):
            text = obj({name: json.text for name, json in part.members.items()})
            oddity = oddity or repr(text[:SHOWN_CHARACTERS])
    return envelopes, oddity


def _fragment(part: Fragment) -> JSONRPCMessage | None:
    """Make an envelope of what is left of an answer; None where it is something else."""
    if part.method:
        return None
    what = f"the answer cannot be read: {part.problem}"
    return _failed(minted(part.id) or part.id, what)


def _envelope(message: Message) -> JSONRPCMessage | None:
    """Make an envelope of a message; None where it is none, but a JSON object of another kind."""
    if message.method is not None:
        # Params that are absent, null or no object are the same to the handlers.
        given = {"params": loads(message.params_text)} if message.params else {}
        if message.value("id") is None:
            return JSONRPCNotification(jsonrpc="2.0", method=message.method, **given)
        if message.id is None:
            return None
        return JSONRPCRequest(jsonrpc="2.0", id=message.id, method=message.method, **given)
    number = minted(message.value("id")) or message.id
    if number is None and not message.is_response:
        return None
    if message.is_error:
        return JSONRPCError(jsonrpc="2.0", id=number, error=_error(loads(message.raw("error"))))
    if number is None:
        return _failed(None, "the answer has no id")
    if not isinstance(message.value("result"), dict):
        return _failed(number, "the result is no JSON object")
    # Not validated, which would copy the values and lose the text.
    result = Result(message.raw("result"))
    return JSONRPCResponse.model_construct(jsonrpc="2.0", id=number, result=result)


def _failed(number: RequestId | None, what: str) -> JSONRPCError:
    error = ErrorData(code=INTERNAL_ERROR, message=what)
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
