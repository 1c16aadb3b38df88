"""Reads the messages of a line: one, or those of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.serve.editing import elements
from mcpagg_runtime.start.message import decode, read_message
from mcpagg_runtime.start.scanner import Malformed, NotAnObject

if TYPE_CHECKING:
    from mcpagg_runtime.start.message import Message


def read_messages(line: bytes, batches: bool) -> list[Message | Malformed]:
    """Read the message of a line, or those of a batch; a blank line has none.

    What is no message stands as the error that says why.
    """
    try:
        text = decode(line)
        if not text:
            return []
        if batches and text.startswith("["):
            parts = [text[start:end] for _, start, end in elements(text, 0)]
            return [_message(part) for part in parts] or [NotAnObject("an empty batch")]
    except Malformed as problem:
        return [problem]
    return [_message(text)]


def _message(text: str) -> Message | Malformed:
    try:
        return read_message(text)
    except Malformed as problem:
        return problem
