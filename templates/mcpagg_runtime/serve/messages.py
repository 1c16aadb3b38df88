"""The messages in a line of a server: the compiler and the emitted file read by this one rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import Malformed
from mcpagg_runtime.base.message import Fragment, decode, read_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcpagg_runtime.base.message import Message


def read_line(
    line: bytes, redact: Callable[[str], str] = str, request: int = 0
) -> tuple[list[Message | Fragment], str]:
    """Return what a line of a server holds, and what is odd about it, "" for nothing.

    A blank line holds nothing, a line of other words neither; a batch holds its messages. What
    contradicts itself is handed on as fragments, which end what it may be the answer to. `redact`
    hides secrets in what is quoted of the line, before that is cut: the beginning of a secret would
    not be recognised. `request` is the id of the request that the line came in answer to, 0 if
    that is not known: an answer without an id is to that one.
    """
    found: list[Message | Fragment] = []
    oddity = ""
    try:
        text = decode(line)
        message = read_message(text, line if len(text) == len(line) else b"")
        if not message.contradiction:
            found.append(message)
    except Malformed:
        pass
    if not found:
        from mcpagg_runtime.rare.odd_lines import odd_line

        found, oddity = odd_line(line, redact)
    return ([_identified(one, request) for one in found] if request else found), oddity


def answered(found: Iterable[Message | Fragment]) -> list[int]:
    """Return the ids of the requests that what was read answers."""
    return [one.number for one in found if not one.method and one.id is not None]


def _identified(message: Message | Fragment, request: int) -> Message | Fragment:
    """Return a message with the id of the request that it answers, where it has none."""
    if message.id is not None or message.method:
        return message
    if isinstance(message, Fragment):
        return Fragment(request, "", message.problem)
    return message.under(str(request)) if message.is_response else message
