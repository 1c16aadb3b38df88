"""Lines of a stdio child: whatever a sensible reader can understand is understood."""

from __future__ import annotations

import json

import pytest
from mcp_types import (
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from mcpagg.connection.framing import encode, messages
from mcpagg_runtime.wire import Malformed

RESPONSE = JSONRPCResponse(jsonrpc="2.0", id=1, result={"a": 1})


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}\r',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{"a":1}}',
        b'  {"id":1,"result":{"a":1}} ',
        b'{"vendor":true,"result":{"a":1},"id":1,"error":null}',
    ],
)
def test_a_response_is_read_in_any_dress(line: bytes) -> None:
    assert messages(line) == [RESPONSE]


@pytest.mark.parametrize("line", [b"", b" \t", b"\r", b"[]"])
def test_a_blank_line_and_an_empty_batch_hold_nothing(line: bytes) -> None:
    assert messages(line) == []


def test_a_batch_holds_several_messages() -> None:
    line = b'[{"method":"m"},{"id":"x","method":"n","params":{"p":[1]}},{"id":1,"result":{"a":1}}]'
    assert messages(line) == [
        JSONRPCNotification(jsonrpc="2.0", method="m"),
        JSONRPCRequest(jsonrpc="2.0", id="x", method="n", params={"p": [1]}),
        RESPONSE,
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"Server started",
        b"42",
        b'"text"',
        b"{}",
        b'{"id":1}',
        b'{"result":{}}',
        b'{"id":1.5,"method":"m"}',
        b'{"id":true,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":1}} trailing',
        b'{"a":"\xff"}',
        b"[" * 100_000,
    ],
)
def test_a_line_without_a_message_is_refused(line: bytes) -> None:
    with pytest.raises(Malformed):
        messages(line)


@pytest.mark.parametrize("params", ["null", "[1]", '"x"'])
def test_params_that_are_no_object_are_as_good_as_none(params: str) -> None:
    (message,) = messages(f'{{"id":1,"method":"ping","params":{params}}}'.encode())
    assert message == JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ({"code": -32602, "message": "no", "data": [1]}, -32602, "no"),
        ({"code": -32602, "message": None}, -32602, "null"),
        ({"code": "E1", "message": "no"}, -32603, '{"code": "E1", "message": "no"}'),
        ("broken", -32603, '"broken"'),
    ],
)
def test_an_error_of_any_shape_ends_the_request(error: object, code: int, message: str) -> None:
    (read,) = messages(json.dumps({"id": 7, "error": error, "result": {}}).encode())
    assert isinstance(read, JSONRPCError)
    assert (read.id, read.error.code, read.error.message) == (7, code, message)


def test_a_result_that_is_no_object_ends_the_request() -> None:
    (read,) = messages(b'{"id":7,"result":[]}')
    assert isinstance(read, JSONRPCError)
    assert read.error.message == "the result is no JSON object"


def test_what_is_written_is_one_line_of_ascii() -> None:
    params = {"text": "\u2028 \ud800 \n ü", "number": 12345678901234567890123}
    line = encode(JSONRPCRequest(jsonrpc="2.0", id=1, method="m", params=params))
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"jsonrpc": "2.0", "id": 1, "method": "m", "params": params}
