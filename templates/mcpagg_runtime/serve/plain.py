"""Large answers, passed on unread where they are written as nearly all programs write them.

What it does not take, `message` reads in full. Both find the same in a line that it takes
(tests/benchmarks/README.md has what that costs).
"""

from __future__ import annotations

from codecs import utf_8_decode

from mcpagg_runtime.base.jsontext import LARGE
from mcpagg_runtime.base.message import Json, Message

# How an answer begins, or ends, in which our id stands; the blanks are those of Python's json.
_BEFORE = b'{"jsonrpc":"2.0","id":'
_BEFORE_SPACED = b'{"jsonrpc": "2.0", "id": '
_BEHIND = b',"jsonrpc":"2.0","id":'
_RESULT = b'"result":'
# More than these and the longest id is never in front of a result, or behind it.
_ENVELOPE_BYTES = 60
# An answer of more bytes is passed on unread where nothing in it is to change: to read a megabyte
# takes 1 ms (one text) to 30 (many small values).
UNREAD_BYTES = 1 << 18
# How much of it is decoded at once: no copy of a large line is made for that.
_WINDOW = 1 << 20
# What servers that quote by hand leave in a string, where JSON has none of it.
_CONTROLS = (b"\t", b"\r", b"\x1b")


class UnreadResult(Json):
    """A result whose text is cut out of its line if somebody asks for it."""

    __slots__ = ("_line", "_span")

    def __init__(self, line: bytes, span: tuple[int, int]) -> None:
        super().__init__("")
        self._line = line
        self._span = span

    @property
    def text(self) -> str:
        """The JSON text."""
        return self._line[slice(*self._span)].decode("utf-8")


class UnreadAnswer(Message):
    """A response that is passed on as the line that it came in, under another id."""

    __slots__ = ("_came", "_place")

    def __init__(self, line: bytes, number: int, place: tuple[int, int], result: Json) -> None:
        """`place` is where its id stands."""
        super().__init__({"result": result}, None, str(number), number)
        self._came = line
        self._place = place

    def _renumbered(self, identifier: str) -> Message:
        start, end = self._place
        message = Message({"result": self.members["result"]}, None, identifier)
        rest = memoryview(self._came)
        parts: list[bytes | memoryview] = [
            rest[:start],
            identifier.encode("utf-8"),
            rest[end:],
            b"\n",
        ]
        message.set_line(b"".join(parts))
        return message

    def may_name_uris(self) -> bool:
        """No: such an answer is read."""
        return False


def unread_answer(line: bytes) -> UnreadAnswer | None:
    """Return a large response with a result, unread; None for a line that has to be read.

    That is one that is not plain, or seems to be no single message, or no JSON text.
    """
    if len(line) <= UNREAD_BYTES:
        return None
    places = _envelope(line)
    if places is None or any(control in line for control in _CONTROLS):
        return None
    # What URIs a larger result names is not looked at when it is read, either; see `outline`.
    if len(line) <= LARGE and b'"uri"' in line:
        return None
    number, place, (start, end) = places
    whole = line[start : start + 1] == b"{" and line[end - 1 : end] == b"}"
    # Another message on the same line would be a second one of these.
    if not whole or line.count(b'"jsonrpc"') != 1 or not _is_utf_8(line):
        return None
    return UnreadAnswer(line, number, place, UnreadResult(line, (start, end)))


def _is_utf_8(line: bytes) -> bool:
    if line.isascii():
        return True
    view, index = memoryview(line), 0
    while index < len(line):
        window = view[index : index + _WINDOW]
        try:
            _, used = utf_8_decode(window, "strict", index + _WINDOW >= len(line))
        except UnicodeDecodeError:
            return False
        index += used
    return True


def _envelope(line: bytes) -> tuple[int, tuple[int, int], tuple[int, int]] | None:
    """Return the id of an answer, where it stands, and where the result does; None for no such."""
    if line.startswith(b'{"result":'):
        mark = line.rfind(_BEHIND, -_ENVELOPE_BYTES)
        start, stop = mark + len(_BEHIND), len(line) - 1
        result = len(b'{"result":'), mark
    else:
        mark = line.find(_RESULT, 0, _ENVELOPE_BYTES)
        spaced = line.startswith(_BEFORE_SPACED)
        start = len(_BEFORE_SPACED if spaced else _BEFORE)
        stop = mark - (2 if spaced else 1)
        if (not spaced and not line.startswith(_BEFORE)) or line[stop:mark] not in (b",", b", "):
            return None
        begin = mark + len(_RESULT)
        result = begin + (line[begin : begin + 1] == b" "), len(line) - 1
    digits = line[start:stop]
    if mark < 0 or not digits.isdigit() or digits.startswith(b"0") or not line.endswith(b"}"):
        return None
    return int(digits), (start, stop), result
