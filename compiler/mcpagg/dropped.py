"""Answers that the SDK would drop end their requests here, as they do in the emitted file.

The SDK's client drops what its types refuse, and what bears the id of no request that it waits for:
who asked would wait for ever. Lines are read, and requests ended, by the emitted file's own rules.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from pydantic import ValidationError

from mcpagg_runtime.messages.message import Fragment, Message, minted, read_line, read_message
from mcpagg_runtime.messages.protocol import CANCELLED
from mcpagg_runtime.servers.unmatched import FIRST_ID, AnsweredNotifications, unmatched_answers

Item = SessionMessage | Exception


@asynccontextmanager
async def every_answer(way: Transport, server: str) -> AsyncGenerator[Any, None]:
    """Open a transport to a server; no answer of it is dropped."""
    async with way as (answers, requests):
        sent = _Requests(requests)
        yield _Answers(answers, sent, server), sent


class _Requests(ObjectSendStream[SessionMessage]):
    """What the SDK sends, and the ids of the requests among it that are in flight."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.in_flight: set[int] = set()
        self.unasked = AnsweredNotifications()

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self.in_flight.add(minted(message.id))
        elif isinstance(message, JSONRPCNotification):
            self.unasked.sent(message.method)
            if message.method == CANCELLED:
                self.in_flight.discard(minted((message.params or {}).get("requestId")))
        await self._stream.send(item)

    async def send_eof(self) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Answers(ObjectReceiveStream[Item]):
    """What a server says to the SDK: an exception stands for what the SDK has refused."""

    def __init__(self, stream: Any, requests: _Requests, server: str) -> None:
        self._stream = stream
        self._requests = requests
        self._server = server
        self._read: deque[Item] = deque()

    @property
    def last_context(self) -> Any:
        """The context of the sender of the last item, where the transport knows it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Item:
        while not self._read:
            self._read.extend(self._items(await self._stream.receive()))
        return self._read.popleft()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _items(self, item: Item) -> list[Item]:
        """Return what is to be read in place of an item: itself, if it ends nothing."""
        if isinstance(item, ValidationError):
            return [read for part in _parts(item) for read in self._as_sdk_items(part)] or [item]
        message = item.message if isinstance(item, SessionMessage) else None
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return [item]
        if minted(message.id) in self._requests.in_flight:
            self._settle(minted(message.id))
            return [item]
        text = message.model_dump_json(exclude_unset=True)
        return self._as_sdk_items(read_message(text)) or [item]

    def _as_sdk_items(self, part: Message | Fragment) -> list[Item]:
        """Return a message as one of the SDK's, or the errors that it ends requests with."""
        number, in_flight = part.number, self._requests.in_flight
        if isinstance(part, Message) and (part.method is not None or number in in_flight):
            try:
                message = _message(part)
            except ValidationError as problem:
                part = Fragment(part.id, part.method or "", _why(problem))
            else:
                self._settle(number if part.method is None else 0)
                return [SessionMessage(message)]
        if part.method or (isinstance(part, Message) and not self._is_unmatched(part)):
            return []
        ended = unmatched_answers(part, in_flight, self._server)
        in_flight.difference_update([answer.number for answer in ended])
        return [SessionMessage(_message(answer)) for answer in ended]

    def _is_unmatched(self, message: Message) -> bool:
        """Whether a message is an answer without an id of ours."""
        is_one = message.is_response and message.number < FIRST_ID
        return is_one and not self._requests.unasked.takes(message)

    def _settle(self, number: int) -> None:
        if number in self._requests.in_flight:
            self._requests.in_flight.discard(number)
            self._requests.unasked.settled()


def _parts(refusal: ValidationError) -> list[Message | Fragment]:
    """Return what is read in a text that the SDK has refused."""
    for error in refusal.errors(include_url=False):
        whole, place = error["input"], error["loc"]
        if not place:
            text = whole if isinstance(whole, bytes) else str(whole).encode("utf-8", "replace")
            return read_line(text)[0]
        if len(place) == 1 or (len(place) == 2 and error["type"] == "missing"):
            return read_line(json.dumps(whole).encode())[0]
    return [Fragment(None, "", _why(refusal))]


def _message(
    part: Message,
) -> JSONRPCError | JSONRPCResponse | JSONRPCRequest | JSONRPCNotification:
    """Return a message as one of the SDK's.

    Raises:
        ValidationError: the SDK refuses it.
    """
    if part.method is not None:
        kind = JSONRPCRequest if part.id_text else JSONRPCNotification
        return kind.model_validate_json(part.line())
    answer = part.under(str(part.number)).line()
    if part.is_error:
        return JSONRPCError.model_validate_json(answer)
    return JSONRPCResponse.model_validate_json(answer)


def _why(refusal: ValidationError) -> str:
    error = refusal.errors(include_url=False)[0]
    return ": ".join([".".join(map(str, error["loc"])), error["msg"]]).removeprefix(": ")
