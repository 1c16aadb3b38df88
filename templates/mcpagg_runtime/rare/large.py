"""Large results: bytes of a line that nobody reads, between two ends of which members are read.

To read a megabyte of JSON takes 1 ms (one text) to 30 (many small values). What a port adds to a
result or takes out of it are members at its top level: they are read at either end, and their names
are looked for in what is between. A result of which that does not tell enough is read in full.
"""

from __future__ import annotations

from codecs import utf_8_decode
from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import BLANK, Json, Malformed, members, skip, values_of
from mcpagg_runtime.start.values import scan, string_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from mmap import mmap
    from typing import Any

    from mcpagg_runtime.base.jsontext import Members, Piece, Span

# How much of a large line is kept in one piece, looked at in one go, and read at either end of a
# result.
PAGE_BYTES = 1 << 21
BLOCK_BYTES = 1 << 16
END_BYTES = 1 << 12
# At least what is to be seen of a member at once: its name and the first character of its value.
_SEAM = 40
# How an answer begins, or ends, in which our id stands; the blanks are those of Python's json.
_BEFORE = b'{"jsonrpc":"2.0","id":'
_BEFORE_SPACED = b'{"jsonrpc": "2.0", "id": '
_BEHIND = b',"jsonrpc":"2.0","id":'
_RESULT = b'"result":'
# More than these and the longest id is never in front of a result, or behind it.
_ENVELOPE_BYTES = 60
# What servers that quote by hand leave in a string, where JSON has none of it.
_CONTROLS = (b"\t", b"\r", b"\x1b")
# How a letter in a name is written only to hide it from those who look for the name.
_ESCAPE, _ESCAPED_LETTERS = b"\\u00", (b"\\u004", b"\\u005", b"\\u006", b"\\u007")
# What stands for a value that is not read, by its first character.
_UNREAD_VALUES: dict[str, Any] = {"{": {}, "[": [], '"': ""}


class LargeLine:
    """A line of more than LARGE_BYTES, in pages that go back to the system with it.

    The allocator would keep what objects of this size occupied.
    """

    __slots__ = ("_cut", "_is_text", "_pages", "size")

    def __init__(self, line: bytes = b"") -> None:
        self.size = 0
        self._pages: list[mmap] = []
        self._is_text = True
        self._cut = b""
        """The beginning of a character of which the rest is to come."""
        view = memoryview(line)
        for start in range(0, len(line), BLOCK_BYTES):
            self.add(bytes(view[start : start + BLOCK_BYTES]))

    def add(self, data: bytes) -> None:
        """Take the next bytes; they are looked at now, while they are in the processor's cache."""
        self._look_at(data)
        view = memoryview(data)
        while view:
            start = self.size % PAGE_BYTES
            if not start:
                self._pages.append(_new_page())
            part = view[: PAGE_BYTES - start]
            self._pages[-1][start : start + len(part)] = part
            self.size += len(part)
            view = view[len(part) :]

    def _look_at(self, data: bytes) -> None:
        if any(control in data for control in _CONTROLS):
            self._is_text = False
        elif self._cut or not data.isascii():
            try:
                data = self._cut + data
                self._cut = data[utf_8_decode(data, "strict", False)[1] :]
            except UnicodeDecodeError:
                self._is_text = False

    @property
    def is_text(self) -> bool:
        """Whether it may be JSON: UTF-8, without control characters."""
        return self._is_text and not self._cut

    def whole(self) -> bytes:
        """Return the line."""
        return b"".join(self.cut(0, self.size))

    def cut(self, start: int, end: int) -> list[memoryview]:
        """Return what stands between two places; nothing is copied."""
        pages = range(start // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1)
        places = [(max(start - page * PAGE_BYTES, 0), end - page * PAGE_BYTES) for page in pages]
        return [memoryview(self._pages[p])[a:b] for p, (a, b) in zip(pages, places)]  # noqa: B905

    def mentions(self, text: bytes) -> bool:
        """Whether a text, of no more than _SEAM bytes, stands anywhere in the line."""
        return any(text in window for window in _windows(self.cut(0, self.size)))

    def answer(self) -> tuple[int, Span] | None:
        """Return the id of the request that it answers with an object, and where that stands.

        None for any other line, and for one that is not written as programs usually do.
        """
        start, end = self.cut(0, END_BYTES), self.cut(self.size - END_BYTES, self.size)
        found = _answer_places(b"".join([*start, *end]))
        if found is None:
            return None
        number, (begin, stop) = found
        stop += self.size - 2 * END_BYTES
        is_object = self._text(begin, begin + 1) == "{" and self._text(stop - 1, stop) == "}"
        return (number, (begin, stop)) if is_object else None

    def result(self, place: Span, wanted: Mapping[str, str]) -> LargeResult | None:
        """Return the result that stands there; None if it has to be read.

        That is if it seems to be no text, or more than one message, and if some of the members
        `wanted` may stand, or stand once more, where it is not read. For each of these, `wanted`
        has the characters that its value may begin with there: it makes no difference then. Of an
        array, nobody looks at more than that it is there.
        """
        start, end = place
        head, before, opened = _head(self._text(start, start + END_BYTES), wanted)
        tail, behind = _tail(self._text(end - END_BYTES, end), wanted)
        start += len((head.text[:-1] + before).encode("utf-8"))
        end -= len((behind + tail.text[1:]).encode("utf-8"))
        unread = self.cut(start, end)
        arrays = [name for name, value in head.value.items() if type(value) is list]
        known = {*arrays, *tail.value, *opened}
        sought = {name: first for name, first in wanted.items() if name not in known}
        is_cut = any(name in wanted and value in (None, "") for name, value in opened.items())
        stands_twice = not head.value.keys().isdisjoint(tail.value)
        if is_cut or stands_twice or not self.is_text:
            return None
        if wanted and any(map(_has_escaped_letter, _windows(unread))):
            return None
        if not _is_free_of(unread, {"jsonrpc": "", **sought}):
            return None
        return LargeResult(head, before, unread, opened, behind, tail)

    def _text(self, start: int, end: int) -> str:
        """Return the text between two places, which may cut characters in two."""
        return b"".join(self.cut(start, end)).decode("utf-8", "replace")


def _new_page() -> mmap:
    """Return memory of the system's own; on Linux one page of it, where it has such large ones."""
    import mmap  # most proxies never need it

    system: Any = mmap  # what only some systems have
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return mmap.mmap(-1, PAGE_BYTES)
    page = mmap.mmap(-1, PAGE_BYTES, system.MAP_PRIVATE | system.MAP_ANONYMOUS)
    advised: Any = page
    try:
        advised.madvise(system.MADV_HUGEPAGE)
    except OSError:  # a kernel without
        return page
    return page


class LargeResult(Json):
    """A result of which the members at its ends are read; what is between them are bytes.

    As `value` it has those members that a port may ask for, and no others.
    """

    __slots__ = ("_before", "_behind", "_head", "_opened", "_tail", "_unread")

    def __init__(
        self,
        head: Json,
        before: str,
        unread: list[memoryview],
        opened: dict[str, Any],
        behind: str,
        tail: Json,
    ) -> None:
        """`head` and `tail` are objects of the members at the ends; `opened` is the one in between.

        `before` and `behind` are the commas, with what is around them, at either end of `unread`.
        """
        super().__init__("", value={**head.value, **opened, **tail.value})
        self._head, self._before = head, before
        self._unread, self._opened = unread, opened
        self._behind, self._tail = behind, tail

    @property
    def pieces(self) -> list[Piece]:
        """The JSON text in UTF-8."""
        start = self._head.text[:-1] + (self._before if self._head.value else "")
        end = ((self._behind or ",") if self._tail.value else "") + self._tail.text[1:]
        return [start.encode("utf-8"), *self._unread, end.encode("utf-8")]

    @property
    def text(self) -> str:
        """The JSON text."""
        return b"".join(self.pieces).decode("utf-8")

    def mentions(self, text: str) -> bool:
        """No: whoever wants to know looks before, see `LargeLine.mentions`."""
        return False

    def part(self, *path: str) -> str:
        """Return the JSON text of the value that `path` leads to, "" if there is none."""
        for end in (self._tail, self._head):
            if path[0] in end.value:
                return end.part(*path)
        return self.whole().part(*path)

    def whole(self) -> Json:
        """Return it to be read in full."""
        return Json(self.text)

    def edited(self, drop: Collection[str] = (), add: Mapping[str, str] = {}) -> Json:
        """Return it without some members, and with others {name: JSON text}."""
        if not self._opened.keys().isdisjoint([*drop, *add]):
            return self.whole().edited(drop, add)
        known = self._head.value
        head = self._head.edited(
            [name for name in drop if name in known],
            {name: text for name, text in add.items() if name in known},
        )
        tail = self._tail.edited(
            [name for name in drop if name in self._tail.value],
            {name: text for name, text in add.items() if name not in known},
        )
        return LargeResult(head, self._before, self._unread, self._opened, self._behind, tail)


def _answer_places(line: bytes) -> tuple[int, Span] | None:
    """Return the id of an answer, and where its result stands; None for no such."""
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
    return int(digits), result


def _head(text: str, wanted: Collection[str]) -> tuple[Json, str, dict[str, Any]]:
    """Return the whole members that the beginning of an object has, and the comma behind them.

    And that of the next one, which has no end there: its name, and what stands for its value.
    Nothing of it is read if nothing is wanted.
    """
    found: Members = {}
    opened: dict[str, Any] = {}
    stop = start = index = 1
    try:
        while wanted:
            index = skip(text, start)
            if text[index] != '"':
                break
            name, index = string_at(text, index)
            index = skip(text, index)
            if text[index] != ":":
                break
            begin = skip(text, index + 1)
            opened = {name: _UNREAD_VALUES.get(text[begin])}
            value, end = scan(text, begin)
            index = skip(text, end)
            if text[index] != ",":
                break
            found[name], opened = (value, begin, end), {}
            stop, start = end, skip(text, index + 1)
    except (IndexError, StopIteration, ValueError, SystemError, RecursionError):
        pass  # here it is cut, or there is more in it than is read of it
    whole = text[:stop] + "}"
    return Json(whole, value=values_of(found), noted=(found, [*found])), text[stop:start], opened


def _tail(text: str, wanted: Iterable[str]) -> tuple[Json, str]:
    """Return the whole members that the end of an object has from one of those wanted on.

    And the comma before them. In JSON, a name behind a comma is the name of a member: of that
    object, if what begins there ends with the object.
    """
    best, found, behind = len(text) - 1, {}, ""
    for name in wanted:
        at = text.find(f'"{name}"', 0, best)
        while at >= 0:
            before = text[:at].rstrip(BLANK)
            parts = _members_to_the_end("{" + text[at:]) if before.endswith(",") else None
            if parts is not None:
                best, found = at, parts
                behind = text[len(before[:-1].rstrip(BLANK)) : at]
                break
            at = text.find(f'"{name}"', at + 1, best)
    return Json("{" + text[best:], value=values_of(found), noted=(found, [*found])), behind


def _members_to_the_end(text: str) -> Members | None:
    """Return the members of an object, None if a text is something else."""
    try:
        found, end = members(text)
    except Malformed:
        return None
    return found if end == len(text) else None


def _is_free_of(pieces: Iterable[memoryview], names: Mapping[str, str]) -> bool:
    """Whether no member has one of these names, but with a value that begins as it may."""
    # A byte that is rare in texts is found ten times as fast as a name.
    rare = [next((c for c in name if c.isupper() or c in "_j"), name[-1]) for name in names]
    sought = [
        (byte.encode(), f'"{name}"'.encode(), first.encode())
        for byte, (name, first) in zip(rare, names.items())  # noqa: B905
    ]
    return not any(
        byte in window and _has_member(window, name, first)
        for window in _windows(pieces)
        for byte, name, first in sought
    )


def _has_escaped_letter(text: bytes) -> bool:
    return _ESCAPE in text and any(letter in text for letter in _ESCAPED_LETTERS)


def _has_member(text: bytes, name: bytes, first: bytes) -> bool:
    """Whether a member has this name in quotes, and a value that begins otherwise than `first`.

    What has no end in this text stands in the next window as well.
    """
    at = text.find(name)
    while at >= 0:
        behind = text[at + len(name) : at + len(name) + _SEAM].lstrip()
        begin = behind[1:].lstrip()[:1]
        if behind.startswith(b":") and begin and begin not in first:
            return True
        at = text.find(name, at + 1)
    return False


def _windows(pieces: Iterable[memoryview]) -> Iterable[bytes]:
    """Yield texts of which one has whole whatever is no longer than _SEAM bytes."""
    seam = b""
    for piece in pieces:
        for start in range(0, len(piece), BLOCK_BYTES):
            block = piece[start : start + BLOCK_BYTES]
            window = b"".join((seam, block))
            yield window
            seam = window[-_SEAM:]
