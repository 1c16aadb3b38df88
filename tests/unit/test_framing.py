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

RESPONSE = JSONRPCResponse(jsonrpc="2.0", id=1, result={"a": 1})
LINE = '{"jsonrpc":"2.0","id":1,"result":{"a":1}}'


@pytest.mark.parametrize(
    "line",
    [
        LINE,
        f"{LINE}\r",
        f"\ufeff{LINE}",
        '  {"id":1,"result":{"a":1}} ',
        '{"vendor":true,"result":{"a":1},"id":1,"error":null}',
        '{"jsonrpc":"2.0","id":"1","result":{"a":1}}',
    ],
)
def test_a_response_is_read_in_any_dress(line: str) -> None:
    assert messages(line.encode()) == ([RESPONSE], "")


def test_the_text_of_a_result_is_kept() -> None:
    [response], _ = messages(b'{"id":1,"result":{ "a":1.0,"a":1E5 }}')
    assert isinstance(response, JSONRPCResponse)
    assert getattr(response.result, "text", None) == '{ "a":1.0,"a":1E5 }'


@pytest.mark.parametrize("line", [b"", b" \t", b"\r", b"[]"])
def test_a_blank_line_and_an_empty_batch_hold_nothing(line: bytes) -> None:
    assert messages(line) == ([], "")


@pytest.mark.parametrize("form", ["[%s,%s,%s]", "%s%s%s"])
def test_all_messages_of_a_line_are_read(form: str) -> None:
    texts = ('{"method":"m"}', '{"id":"x","method":"n","params":{"p":[1]}}', LINE)
    assert messages((form % texts).encode()) == (
        [
            JSONRPCNotification(jsonrpc="2.0", method="m"),
            JSONRPCRequest(jsonrpc="2.0", id="x", method="n", params={"p": [1]}),
            RESPONSE,
        ],
        "",
    )


@pytest.mark.parametrize(
    ("line", "oddity"),
    [
        ("\x1b]0;title\x07" + LINE, '""'),
        (f"Loading... {LINE}", '"Loading..."'),
        (f"{LINE} trailing", '"trailing"'),
    ],
)
def test_what_stands_around_a_message_is_passed_over(line: str, oddity: str) -> None:
    assert messages(line.encode()) == ([RESPONSE], oddity)


def test_bytes_that_are_no_utf_8_are_replaced() -> None:
    [response], oddity = messages(b'{"id":1,"result":{"a":"caf\xe9"}}')
    assert response == JSONRPCResponse(jsonrpc="2.0", id=1, result={"a": "caf\ufffd"})
    assert oddity.startswith("not UTF-8 at byte 26")


@pytest.mark.parametrize(
    "line",
    [
        "Server started",
        "42",
        '"text"',
        "{}",
        '{"id":1.5,"method":"m"}',
        '{"level":"info","result":"up"}',
        "[" * 100_000,
    ],
)
def test_a_line_without_a_message_is_odd(line: str) -> None:
    found, oddity = messages(line.encode())
    assert (found, bool(oddity)) == ([], line[0] != "[")


@pytest.mark.parametrize(
    ("line", "number", "what"),
    [
        ('{"jsonrpc":"2.0","id":7}', 7, "the result is no JSON object"),
        ('{"jsonrpc":"2.0","id":7,"result":{"tools":[', 7, "the answer cannot be read: "),
        ('{"jsonrpc":"2.0","result":{}}', None, "the answer has no id"),
        ('{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}', None, "no"),
        ('{"jsonrpc":"2.0","id":true,"result":{}}', None, "the answer has no id"),
    ],
)
def test_what_cannot_be_read_as_an_answer_is_an_error(
    line: str, number: int | None, what: str
) -> None:
    [read], _ = messages(line.encode())
    assert isinstance(read, JSONRPCError)
    assert (read.id, read.error.message[: len(what)]) == (number, what)


@pytest.mark.parametrize("params", ["null", "[1]", '"x"'])
def test_params_that_are_no_object_are_as_good_as_none(params: str) -> None:
    [message], _ = messages(f'{{"id":1,"method":"ping","params":{params}}}'.encode())
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
    [read], _ = messages(json.dumps({"id": 7, "error": error, "result": {}}).encode())
    assert isinstance(read, JSONRPCError)
    assert (read.id, read.error.code, read.error.message) == (7, code, message)


def test_a_result_that_is_no_object_ends_the_request() -> None:
    [read], _ = messages(b'{"id":7,"result":[]}')
    assert isinstance(read, JSONRPCError)
    assert read.error.message == "the result is no JSON object"


def test_what_is_written_is_one_line_of_ascii() -> None:
    params = {"text": "\u2028 \ud800 \n ü", "number": 12345678901234567890123}
    line = encode(JSONRPCRequest(jsonrpc="2.0", id=1, method="m", params=params))
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"jsonrpc": "2.0", "id": 1, "method": "m", "params": params}
