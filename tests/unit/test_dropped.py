"""What the SDK's client drops ends its request, with an error that names the server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, jsonrpc_message_adapter

from mcpagg.dropped import every_answer
from mcpagg_runtime.messages.protocol import CANCELLED, INITIALIZED

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
ERROR = '"error":{"code":5,"message":"m"}'
NOT_FOUND = '"error":{"code":-32601,"message":"Method not found"}'


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, as the compiler does."""
    return "asyncio"


@asynccontextmanager
async def lines(*said: str) -> AsyncGenerator[Any, None]:
    """Return a transport by which a server says these lines, as the SDK has read them."""
    send, receive = anyio.create_memory_object_stream[Any](100)
    to_server, _sent = anyio.create_memory_object_stream[Any](100)
    for line in said:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError as problem:
            await send.send(problem)
        else:
            await send.send(SessionMessage(message))
    send.close()
    with receive, to_server, _sent:
        yield receive, to_server


def asked(number: int) -> JSONRPCRequest:
    """Return a request."""
    return JSONRPCRequest(jsonrpc="2.0", id=number, method="tools/call")


async def read(*said: str, sent: list[Any]) -> list[Any]:
    """Return what the SDK gets of these lines: messages, and "dropped" for what it is told of."""
    async with every_answer(lines(*said), "s") as (answers, requests):
        for message in sent:
            await requests.send(SessionMessage(message))
        return [
            (
                "dropped"
                if isinstance(item, Exception)
                else item.message.model_dump(by_alias=True, exclude_unset=True)
            )
            async for item in answers
        ]


def unusable(number: int, how: str) -> Json:
    """Return the error for an answer that is of no use."""
    message = f"Server 's' gave an answer {how}"
    error = {"code": -32603, "message": message, "data": {"server": "s"}}
    return {"jsonrpc": "2.0", "id": number, "error": error}


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        ('"id":1,"error":[1]', "error: Input should be an object"),
        ('"id":1,"error":"text"', "error: Input should be an object"),
        (
            '"id":1,"error":{"code":"x","message":"m"}',
            "error.code: Input should be a valid integer",
        ),
        ('"id":1,"error":{"message":"m"}', "error.code: Field required"),
        ('"id":1,"error":{"code":1}', "error.message: Field required"),
        ('"id":1,"result":[1]', "result: Input should be an object"),
        ('"id":1,"result":null', "result: Input should be an object"),
        ('"id":1,"result":{"x":"\\ud800"}', "Invalid JSON: "),
        (f'"id":1,"result":{{"x":{"[" * 500}{"]" * 500}}}', "Invalid JSON: recursion limit"),
        ('"id":1,"result":{"x":', "no JSON value at character "),
        ('"result":{"x":', "no JSON value at character "),
    ],
)
async def test_an_answer_that_the_sdk_refuses_ends_its_request(answer: str, how: str) -> None:
    end = "" if answer.endswith(":") else "}"
    [got] = await read(f'{{"jsonrpc":"2.0",{answer}{end}', sent=[asked(1)])
    found = got["error"]["message"]
    assert found.startswith(f"Server 's' gave an answer that cannot be read: {how}")
    assert got == unusable(1, found.partition(" an answer ")[2])


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"1.0","id":1,"result":{}}',
        '{"id":1,"result":{}}',
        '{"jsonrpc":"2.0","id":1.0,"result":{}}',
        '{"jsonrpc":"2.0","id":"1","result":{},"error":null}',
        'Loading... {"jsonrpc":"2.0","id":1,"result":{}}',
        '[{"jsonrpc":"2.0","id":1,"result":{}}]',
    ],
)
async def test_an_answer_that_says_what_it_is_counts_however_it_is_written(line: str) -> None:
    [got] = await read(line, sent=[asked(1)])
    assert (int(got["id"]), got["result"]) == (1, {})


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        (f'"id":null,{ERROR}', 'without the id of a request: {"code":5,"message":"m"}'),
        (ERROR, 'without the id of a request: {"code": 5, "message": "m"}'),
        ('"result":{}', "without the id of a request"),
        ('"id":true,"result":{}', "without the id of a request"),
        ('"id":"x","result":{}', 'with the id "x", which no request has had'),
    ],
)
async def test_an_answer_without_an_id_of_ours_is_to_the_one_request_or_ends_all(
    answer: str, how: str
) -> None:
    line = f'{{"jsonrpc":"2.0",{answer}}}'
    assert await read(line, sent=[asked(1), asked(2)]) == [unusable(1, how), unusable(2, how)]
    [got] = await read(line, sent=[asked(1)])
    own = {"jsonrpc": "2.0", "id": 1, "error": {"code": 5, "message": "m"}}
    assert got == (own if "error" in answer else unusable(1, how))


async def test_what_was_cancelled_or_answered_is_in_flight_no_more() -> None:
    cancelled = JSONRPCNotification(jsonrpc="2.0", method=CANCELLED, params={"requestId": 1})
    lost = f'{{"jsonrpc":"2.0","id":null,{ERROR}}}'
    done, own = '{"jsonrpc":"2.0","id":2,"result":{}}', {"code": 5, "message": "m"}
    got = await read(done, lost, lost, sent=[asked(1), asked(2), asked(3), cancelled])
    assert [(one["id"], one.get("error")) for one in got] == [(2, None), (3, own), (None, own)]


async def test_what_some_servers_answer_to_notifications_ends_nothing() -> None:
    line = f'{{"jsonrpc":"2.0","id":null,{NOT_FOUND}}}'
    sent = [JSONRPCNotification(jsonrpc="2.0", method=INITIALIZED), asked(1), asked(2)]
    done = '{"jsonrpc":"2.0","id":1,"result":{}}'
    got = await read(line, done, '{"jsonrpc":"2.0","id":2,"result":{}}', sent=sent)
    assert [one["id"] for one in got] == [None, 1, 2]
    assert [one["id"] for one in await read(done, line, sent=sent)] == [1, 2]


@pytest.mark.parametrize(
    "line",
    [
        *("Server started", "{ready}", '{"level":"info"}', "5", "[]"),
        '{"jsonrpc":"2.0","id":99,"error":[1]}',
        '{"jsonrpc":"2.0","method":"notifications/message","params":[',
    ],
)
async def test_what_ends_no_request_is_told_to_the_sdk(line: str) -> None:
    assert await read(line, sent=[asked(1)]) == ["dropped"]


async def test_a_request_of_a_server_is_none_of_its_answers() -> None:
    line = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
    done = '{"jsonrpc":"2.0","id":1,"result":{}}'
    got = await read(line, f"[{line}]", done, sent=[asked(1)])
    assert [one.get("method") for one in got] == ["ping", "ping", None]
