"""What `read_line` finds in a line of a server that is not just one message with an id of its own.

A message that is not written as it should be is still a message: whoever waits for an answer would
otherwise wait for ever. Bytes that are no UTF-8 are replaced, what stands around a message is
passed over, several messages on one line are all read, and what begins as an object and cannot be
read as a message is handed on as a fragment.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import (
    Malformed,
    decode,
    members,
    read_members,
    skip,
    value_at,
)
from mcpagg_runtime.messages.message import Fragment, is_id, read_message
from mcpagg_runtime.messages.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcpagg_runtime.messages.message import Message


# White space, and what stands around the messages of a batch: batches are read in every revision.
_BETWEEN = " \t\r\n[],"
# What every message says, and little else.
_MARK = '"jsonrpc"'
SHOWN_CHARACTERS = 60


def odd_line(line: bytes, redact: Callable[[str], str]) -> tuple[list[Message | Fragment], str]:
    """Read a line that is not just one message."""
    try:
        text, oddity = decode(line), ""
    except Malformed as problem:
        text = decode(line.decode("utf-8", "replace").encode("utf-8"))
        oddity = f"{problem}; such bytes are read as U+FFFD"
    found, passed_over = _parts(text)
    return found, oddity or _shown(redact(passed_over))


def _parts(text: str) -> tuple[list[Message | Fragment], str]:
    """Return the messages and fragments in a text, and what else comes first in it.

    An object that cannot be read is the last one: nobody knows where it should have ended. Behind
    other words it is taken for a message only if it says that it is one.
    """
    found: list[Message | Fragment] = []
    passed_over = ""
    end, start = 0, text.find("{")
    while start >= 0:
        if not _is_object(text, start):
            start = text.find("{", start + 1)
            continue
        words = text[end:start].strip(_BETWEEN)
        try:
            _, after = members(text, start)
            found += _messages(text[start:after])
        except Malformed as problem:
            if words and text.find(_MARK, start) < 0:
                break
            found += _unreadable(text[start:], str(problem))
            after = len(text)
        passed_over = passed_over or words
        end, start = after, text.find("{", after)
    return found, passed_over or text[end:].strip(_BETWEEN)


def _is_object(text: str, start: int) -> bool:
    """Whether a brace begins a JSON object: its end follows, or a name and a colon."""
    index = skip(text, start + 1)
    if text[index : index + 1] != '"':
        return text[index : index + 1] == "}"
    try:
        index = skip(text, value_at(text, index)[1])
    except Malformed:
        return False
    return text[index : index + 1] == ":"


def _messages(text: str) -> list[Message | Fragment]:
    """Return the message that an object is, or what is left of one that contradicts itself.

    Raises:
        Malformed: it is none.
    """
    message = read_message(text)
    is_log = not message.id_text and message.method is None and not message.is_response
    if is_log or not message.contradiction:
        return [message]
    return _fragments(text, message.contradiction)


def _unreadable(text: str, problem: str) -> list[Message | Fragment]:
    """Return what is left of a message that cannot be read; it may be that of several."""
    if text.count(_MARK) > 1:
        return [Fragment(None, "", problem)]
    return _fragments(text, problem)


def _fragments(text: str, problem: str) -> list[Message | Fragment]:
    """Return a fragment for each id that an object has, up to what cannot be read."""
    said = _AllIds()
    with suppress(Malformed):
        read_members(text, 0, said)
    method = None if {"result", "error"} & said.keys() else said.get("method", (None,))[0]
    ids = [one if is_id(one) else None for one in said.ids] or [None]
    return [Fragment(one, method if type(method) is str else "", problem) for one in ids]


class _AllIds(dict[str, "tuple[Any, int, int]"]):
    """The members of an object, and each id that stands in it."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[Any] = []

    def __setitem__(self, name: str, member: tuple[Any, int, int]) -> None:
        super().__setitem__(name, member)
        if name == "id":
            self.ids.append(member[0])


def _shown(text: str) -> str:
    """Return the beginning of a text in quotes, as a terminal prints it; "" for an empty one."""
    if not text:
        return ""
    return f'"{printable(text[:SHOWN_CHARACTERS])}"'


def identified(message: Message | Fragment, request: int) -> Message | Fragment:
    """Return a message with the id of the request that it answers, where it has none."""
    if message.id is not None or message.method:
        return message
    if isinstance(message, Fragment):
        return Fragment(request, "", message.problem)
    return message.under(str(request)) if message.is_response else message
