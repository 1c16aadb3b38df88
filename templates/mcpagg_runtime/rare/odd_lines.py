"""Reads lines of servers that hold something else than one message, or one that cannot be read.

A message that is not written as it should be is still a message: whoever waits for an answer would
otherwise wait for ever. Bytes that are no UTF-8 are replaced, what stands around a message is
passed over, several messages on one line are all read, and what looks like a message but is none is
handed on as a fragment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import Malformed, members, read_members, values_of
from mcpagg_runtime.base.message import Fragment, decode, is_id, read_message
from mcpagg_runtime.rare.secrecy import printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcpagg_runtime.base.message import Message

# White space, and what stands around the messages of a batch: batches are read in every revision.
_BETWEEN = " \t\r\n[],"
# How many places are tried as the beginning of a message behind one that cannot be read.
MAXIMUM_TRIES = 16
SHOWN_CHARACTERS = 60


def odd_line(line: bytes, redact: Callable[[str], str]) -> tuple[list[Message | Fragment], str]:
    """Read a line that is not just one message."""
    try:
        text, oddity = decode(line), ""
    except Malformed as problem:
        text = decode(line.decode("utf-8", "replace").encode("utf-8"))
        oddity = f"{problem}; such bytes are read as U+FFFD"
    if not text:
        return [], oddity
    try:
        return _messages(text), oddity
    except Malformed:
        found, passed_over = _parts(text)
    return found, oddity or _shown(redact(passed_over))


def _parts(text: str) -> tuple[list[Message | Fragment], str]:
    """Return the messages and fragments in a text, and what else comes first in it.

    That reaches up to the next message, whatever braces are in it.
    """
    found: list[Message | Fragment] = []
    others: list[str] = [""]
    index = 0
    while True:
        start = text.find("{", index)
        others[-1] += text[index : start if start >= 0 else len(text)]
        if start < 0:
            break
        try:
            _, index = members(text, start)
            found += _messages(text[start:index])
            others.append("")
        except Malformed as problem:
            index = _next_message(text, start)
            fragment = _fragment(text[start:index], str(problem))
            if fragment is None:
                others[-1] += text[start:index]
            else:
                found.append(fragment)
                others.append("")
    stripped = [other.strip(_BETWEEN) for other in others]
    return found, next((other for other in stripped if other), "")


def _messages(text: str) -> list[Message | Fragment]:
    """Return the message that a text is; a fragment for each of its ids if it contradicts itself.

    Raises:
        Malformed: it is none.
    """
    message = read_message(text)
    if not message.contradiction:
        return [message]
    said = _AllIds()
    read_members(text, 0, said)
    if not said.ids and message.method is None and not message.is_response:
        return [message]  # some log JSON
    method = "" if {"result", "error"} & said.keys() else message.method or ""
    ids = [one if is_id(one) else None for one in said.ids] or [None]
    return [Fragment(one, method, message.contradiction) for one in ids]


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


def _next_message(text: str, index: int) -> int:
    """Return where the next message begins behind one that cannot be read, or the text's end."""
    for _ in range(MAXIMUM_TRIES):
        index = text.find("{", index + 1)
        if index < 0 or text.find('"jsonrpc"', index) < 0:
            break
        try:
            inner, _ = members(text, index)
        except Malformed:
            continue
        # What is an object within the other message has no such member.
        if "jsonrpc" in inner:
            return index
    return len(text)


def _fragment(text: str, problem: str) -> Fragment | None:
    """Return what is left of a message, None if there is no sign that it was one."""
    found = _readable_members(text)
    mark = text.rfind('"jsonrpc"')
    if "id" not in found:
        found.update(_last_members(text))
    identifier, method = found.get("id"), found.get("method")
    if type(identifier) is float and identifier.is_integer():
        identifier = int(identifier)
    if mark < 0 and not is_id(identifier):
        return None
    return Fragment(
        identifier if is_id(identifier) else None, method if type(method) is str else "", problem
    )


def _last_members(text: str) -> dict[str, Any]:
    """Return the members that end a message whose result cannot be read; some write the id there.

    Only those of the message itself: of an object within the result, more would be left behind.
    """
    for name in ('"jsonrpc"', '"id"'):
        start = text.rfind(name)
        try:
            tail, end = members("{" + text[start:]) if start > 0 else ({}, 0)
        except Malformed:
            continue
        if "id" in tail and tail.keys() <= {"id", "jsonrpc"} and start + end - 1 == len(text):
            return values_of(tail)
    return {}


def _readable_members(text: str) -> dict[str, Any]:
    """Return the members of the object that a text begins with, up to what cannot be read."""
    found: dict[str, tuple[Any, int, int]] = {}
    try:
        read_members(text, 0, found)
    except Malformed:
        return values_of(found)
    return values_of(found)
